"""The bound on ε by names among k candidates: against every mechanism on small data, and its null by enumeration."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from scipy.stats import binom

from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.auditing import ApproximateCurves, OneRunCandidates, SwapCurves
from privet.auditing.guesses import GuessResult
from privet.auditing.one_run_fdp import is_refuted
from privet.recoveries import Recoveries
from privet.views import Adversary

ADVERSARY = Adversary(sees="", knows="", wants="")


def recoveries(hits, candidates, **more):
    return Recoveries("a", ADVERSARY, "exact", np.asarray(hits), candidates=candidates, **more)


def chance_of(right, targets, candidates, epsilon, delta, absent):
    """The largest P[at least ``right`` names are right] over *all* mechanisms that are (ε, δ)-DP, by a linear program.

    A mechanism may as well publish the names themselves. With ``absent``, neighbours have one target fewer or more, and datasets with
    absent targets constrain it, too; else neighbours have one secret exchanged.
    """
    names = list(itertools.product(range(candidates), repeat=targets))
    datasets = list(itertools.product(range(candidates + absent), repeat=targets))
    place = {dataset: index for index, dataset in enumerate(datasets)}
    laws = len(datasets) * len(names)
    pairs = [
        (place[first], place[second])
        for first, second in itertools.permutations(datasets, 2)
        if sum(a != b for a, b in zip(first, second, strict=True)) == 1
        and (not absent or any(a != b and candidates in (a, b) for a, b in zip(first, second, strict=True)))
    ]
    gain = np.zeros(laws + len(pairs) * len(names))
    for dataset in itertools.product(range(candidates), repeat=targets):
        for index, name in enumerate(names):
            hit = sum(a == b for a, b in zip(dataset, name, strict=True)) >= right
            gain[place[dataset] * len(names) + index] = hit / candidates**targets
    rows, columns, values, limits = [], [], [], []
    for number, (first, second) in enumerate(pairs):
        for index in range(len(names)):  # P[name | first] − exp(ε) P[name | second] ≤ excess
            rows += [len(limits)] * 3
            columns += [
                first * len(names) + index,
                second * len(names) + index,
                laws + number * len(names) + index,
            ]
            values += [1.0, -np.exp(epsilon), -1.0]
            limits.append(0.0)
        rows += [len(limits)] * len(names)
        columns += [laws + number * len(names) + index for index in range(len(names))]
        values += [1.0] * len(names)
        limits.append(delta)
    sums = sparse.csr_matrix(
        (np.ones(laws), (np.repeat(np.arange(len(datasets)), len(names)), np.arange(laws))),
        (len(datasets), len(gain)),
    )
    inside = sparse.csr_matrix((values, (rows, columns)), (len(limits), len(gain)))
    found = linprog(-gain, A_ub=inside, b_ub=limits, A_eq=sums, b_eq=np.ones(len(datasets)), bounds=(0, 1))
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("absent", [False, True], ids=["exchange", "add or remove"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.4, 0.0), (1.5, 0.0), (1.0, 0.05)])
@pytest.mark.parametrize(("targets", "candidates"), [(1, 2), (1, 4), (2, 2), (2, 3)])
def test_no_mechanism_refutes_its_own_claim(targets, candidates, epsilon, delta, absent):
    curves = ApproximateCurves(delta)
    curves = SwapCurves(curves) if absent else curves
    for right in range(1, targets + 1):
        best = chance_of(right, targets, candidates, epsilon, delta, absent)
        line = GuessResult(targets, right)
        assert not is_refuted(line, targets, curves, epsilon, best * (1 - 1e-6), candidates)
        if delta == 0 and not absent:  # randomised response is the best mechanism, and the bound is near it
            assert (
                is_refuted(line, targets, curves, epsilon, min(1.3 * best, 1.0), candidates)
                or 1.3 * best > 0.9
            )


def test_a_wrong_number_of_candidates_is_caught():
    """With k = 4 in place of 2, the best mechanism for k = 2 refutes its own claim: the law above would see the mistake."""
    best = chance_of(2, 2, 2, 1.0, 0.0, absent=False) * (1 - 1e-6)
    line = GuessResult(2, 2)
    assert not is_refuted(line, 2, ApproximateCurves(0.0), 1.0, best, 2)
    assert is_refuted(line, 2, ApproximateCurves(0.0), 1.0, best, 4)


def test_one_step_in_place_of_two_is_caught():
    """Add-remove claims through one step only: the best mechanism refutes its own claim."""
    best = chance_of(2, 2, 3, 1.0, 0.0, absent=True) * (1 - 1e-6)
    assert is_refuted(GuessResult(2, 2), 2, ApproximateCurves(0.0), 1.0, best, 3)


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("candidates", [2, 3, 10, 100])
def test_randomised_response_is_bounded_from_below_at_every_size(candidates, epsilon):
    """The number of right names is binomial, so the chance of a bound above the truth is a sum."""
    success = np.exp(epsilon) / (np.exp(epsilon) + candidates - 1)
    audit = OneRunCandidates(0.95, ReplaceOne())
    for targets in (1, 2, 3, 5, 8, 13, 21, 34, 55, 200):
        low, high = 0, targets + 1  # the fewest hits that show more than the truth
        while low < high:
            middle = (low + high) // 2
            shown = audit.epsilon(recoveries(np.arange(targets) < middle, candidates), delta=0.0)
            low, high = (low, middle) if shown > epsilon + 1e-9 else (middle + 1, high)
        assert binom.sf(low - 1, targets, success) <= 0.05 + 1e-9, targets


def test_many_targets_come_near_to_the_truth():
    success = np.exp(2.0) / (np.exp(2.0) + 9)
    hits = np.arange(4000) < round(4000 * success)
    assert 1.85 < OneRunCandidates(0.95, ReplaceOne()).epsilon(recoveries(hits, 10), delta=1e-6) < 2.0


def test_add_remove_asks_for_two_steps():
    hits = np.arange(1000) < 700
    exchange = OneRunCandidates(0.95, ReplaceOne()).epsilon(recoveries(hits, 10), delta=0.0)
    for adjacency in (AddRemove(), ZeroOut()):
        assert np.isclose(
            OneRunCandidates(0.95, adjacency).epsilon(recoveries(hits, 10), delta=0.0),
            exchange / 2,
            rtol=1e-5,
        )


def test_confidence_lets_it_abstain():
    """Half of the names are blind guesses and the attack knows which: with its confidence the bound is higher."""
    sure = np.arange(2000) % 2 == 0
    hits = np.where(sure, np.arange(2000) % 20 < 18, np.arange(2000) % 10 == 1)
    without = OneRunCandidates().epsilon(recoveries(hits, 10), delta=1e-6)
    assert (
        OneRunCandidates().epsilon(recoveries(hits, 10, confidence=sure.astype(float)), delta=1e-6)
        > without + 0.3
    )


@pytest.mark.parametrize("split", [None, OneRunCandidates().split], ids=["shared level", "split"])
def test_the_order_of_equally_sure_names_changes_nothing(split):
    generator = np.random.default_rng(0)
    hits, sure = generator.random(400) < 0.6, generator.integers(0, 3, 400).astype(float)
    audit = OneRunCandidates(split=split)
    base = audit.epsilon(recoveries(hits, 5, confidence=sure), delta=1e-5)
    order = np.lexsort([hits, sure])
    if split is None:
        assert audit.epsilon(recoveries(hits[order], 5, confidence=sure[order]), delta=1e-5) == base
    assert base <= audit.ceiling(400, 5, delta=1e-5)


@pytest.mark.parametrize("targets", [20, 41, 160])
def test_blind_names_show_nothing_whatever_their_confidence(targets):
    """Hits of blind names are coins of chance 1/k whatever the confidence; in 400 draws at most 5 % + 4 errors show an ε."""
    generator, shown = np.random.default_rng(5), 0
    for _ in range(400):
        hits, sure = generator.random(targets) < 0.25, generator.integers(0, 4, targets).astype(float)
        shown += OneRunCandidates().epsilon(recoveries(hits, 4, confidence=sure), delta=0.0) > 0
    assert shown <= 400 * 0.05 + 4 * np.sqrt(400 * 0.05 * 0.95)
