"""Numbers of the papers and of the specification, for synthetic data and for learning from counts."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

from privet.adjacency import AddRemove, ReplaceOne
from privet.events import DiscreteLaplace, ExponentialMechanism, Repeat
from privet.learning import CategoricalNB, GaussianNB
from privet.randomness import SeededNoise
from privet.releasing.synthetic import (
    AIM,
    MST,
    MWEM,
    Categories,
    Domain,
    Workload,
    all_marginals,
    noisy_access,
)
from privet.releasing.synthetic.budgets import concentrated_budget, spent_rho

DOMAIN = Domain(tuple(Categories(name, (0, 1)) for name in "abc"))
TABLE = {name: [0, 1, 1, 0] for name in "abc"}


def zcdp_delta(rho, epsilon):
    """Canonne, Kamath & Steinke 2020, Proposition 12 with RDP(α) = αρ: written down a second time."""

    def logarithm(log_order):
        a = 1 + math.exp(log_order)
        return (a - 1) * (a * rho - epsilon) + (a - 1) * math.log1p(-1 / a) - math.log(a)

    return math.exp(optimize.minimize_scalar(logarithm, bounds=(-10, 20), method="bounded").fun)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-9), (10.0, 1e-9), (1.0, 1e-5)])
def test_the_budget_in_concentrated_dp(epsilon, delta):
    rho = concentrated_budget(epsilon=epsilon, delta=delta)
    # The accountant stops a little beside the best order, on the safe side: by about 10⁻⁴ of ε.
    assert 0.98 * delta < zcdp_delta(rho, epsilon) <= delta


def test_aim_starts_with_the_noise_of_its_paper():
    """McKenna et al. 2022, Algorithm 2: σ₀ = √(T/2αρ), ε₀ = √(8(1−α)ρ/T), T = 16 d, α = 0.9."""
    asked = AIM(
        domain=DOMAIN, workload=all_marginals(DOMAIN, 2), epsilon=1.0, delta=1e-9, adjacency=AddRemove()
    )
    events = [entry.event for entry in asked.release(TABLE).ledger]
    rho, rounds = concentrated_budget(epsilon=1.0, delta=1e-9), 16 * 3
    assert [event.scale for event in events[:3]] == pytest.approx([math.sqrt(rounds / (1.8 * rho))] * 3)
    assert events[3].epsilon == pytest.approx(math.sqrt(0.8 * rho / rounds), rel=1e-4)  # 16 bits


@pytest.mark.parametrize(("adjacency", "cells"), [(AddRemove(), 1), (ReplaceOne(), 2)])
def test_mst_spends_a_third_on_each_stage(adjacency, cells):
    """McKenna, Miklau & Sheldon 2021, Algorithm 1; a replaced row moves two cells by one: ρ = 2 · 1/2σ²."""
    asked = MST(domain=DOMAIN, epsilon=1.0, delta=1e-9, adjacency=adjacency)
    ledger = asked.release(TABLE).ledger
    rho = concentrated_budget(epsilon=1.0, delta=1e-9)
    scale = (ledger.entries[0].event if cells == 1 else ledger.entries[0].event.inner).scale
    assert 3 * cells / (2 * scale**2) == pytest.approx(rho / 3)
    assert ledger.entries[3].event.epsilon ** 2 / 8 * 2 == pytest.approx(rho / 3, rel=1e-4)
    assert spent_rho(ledger) == pytest.approx(rho, rel=1e-4)


def test_mwem_spends_as_in_its_figure():
    """Hardt, Ligett & McSherry 2012, Figure 1: ε/2T for a choice, Laplace noise of scale 2T/ε."""
    asked = MWEM(
        domain=DOMAIN,
        workload=all_marginals(DOMAIN, 2),
        epsilon=0.5,
        adjacency=AddRemove(),
        rounds=7,
        total=4,
    )
    events = [entry.event for entry in asked.release(TABLE).ledger]
    assert [type(event) for event in events] == [ExponentialMechanism, DiscreteLaplace] * 7
    assert events[0].epsilon == pytest.approx(0.5 / 14, rel=1e-4)
    assert events[1].scale == pytest.approx(14 / 0.5, rel=1e-9)


def test_mwem_moves_weights_as_in_its_figure(monkeypatch):
    """One measured marginal, one pass: A(x) ∝ A(x) · exp(q(x) · (m − q(A)) / 2n), Figure 1, step 3."""
    monkeypatch.setitem(
        noisy_access._SAMPLERS, DiscreteLaplace, lambda scale, size, source: np.zeros(size, dtype=int)
    )
    one = Domain((Categories("a", (0, 1)),))
    asked = MWEM(
        domain=one,
        workload=Workload((("a",),)),
        epsilon=1.0,
        adjacency=AddRemove(),
        rounds=1,
        passes=1,
        total=10,
    )
    found = asked.release({"a": [0] * 8 + [1] * 2}, SeededNoise(0)).answer(("a",))
    expected = np.exp(np.array([8 - 5, 2 - 5]) / 20)
    np.testing.assert_allclose(found, 10 * expected / expected.sum())


@pytest.mark.parametrize(("features", "epsilon"), [(1, 1.0), (8, 0.1), (14, 1.0)])
def test_naive_bayes_has_scale_d_over_epsilon(features, epsilon):
    """SPEC P2: naive Bayes with D features, scale D/ε; D tables, in each of which a row is in one cell."""
    model = CategoricalNB(epsilon, classes=(0, 1)).fit(np.zeros((4, features), dtype=int), [0, 1, 0, 1])
    (entry,) = model.ledger_
    assert entry.event == Repeat(DiscreteLaplace(entry.event.inner.scale, 1), features)
    assert entry.event.inner.scale == pytest.approx(features / epsilon, rel=1e-9)


ADULT = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "adult.csv.gz"


@pytest.fixture(scope="module")
def adult():
    if not ADULT.exists():
        pytest.skip("shared/data/adult.csv.gz is not here")
    import pandas as pd

    table = pd.read_csv(ADULT)
    return table[table.split == "train"], table[table.split == "test"]


CODES = {"education_num": 17, "sex": ("Male", "Female")}
MARITAL = (
    "Married-civ-spouse",
    "Never-married",
    "Divorced",
    "Separated",
    "Widowed",
    "Married-spouse-absent",
    "Married-AF-spouse",
)


@pytest.mark.parametrize(("epsilon", "lost"), [(0.1, 0.02), (1.0, 0.01)])
def test_naive_bayes_on_adult_loses_little(adult, epsilon, lost):
    """UCI Adult, its own split; the non-private estimators of scikit-learn score what ε = ∞ scores here."""
    from sklearn.naive_bayes import GaussianNB as Plain

    train, test = adult
    named = ["education_num", "marital_status", "sex"]
    categories = (CODES["education_num"], MARITAL, CODES["sex"])
    scores = [
        CategoricalNB(e, classes=("<=50K", ">50K"), categories=categories)
        .fit(train[named], train.income)
        .score(test[named], test.income)
        for e in (epsilon, 1e4)
    ]
    assert scores[0] > scores[1] - lost
    numbers = ["age", "education_num", "hours_per_week"]
    plain = Plain().fit(train[numbers], train.income).score(test[numbers], test.income)
    private = GaussianNB(epsilon, classes=("<=50K", ">50K"), bounds=((17, 1, 1), (90, 16, 99)))
    assert private.fit(train[numbers], train.income).score(test[numbers], test.income) > plain - lost
