"""Estimators read labels and rows one by one: an odd record changes what it counts, and no other record."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from privet.learning import (
    CategoricalNB,
    GaussianNB,
    LinearSVC,
    LogisticRegression,
    OutputPerturbation,
    Ridge,
)
from privet.learning.inputs import read_targets, to_table

ODD = ["text", None, float("nan"), float("inf"), b"x", [1], {}, 10**400, object(), "1"]
RANDOM = np.random.default_rng(7)
ROWS = np.round(RANDOM.uniform(-0.7, 0.7, (400, 2)), 3)
LABELS = (ROWS[:, 0] > 0).astype(int)


def models():
    solver = OutputPerturbation()
    return {
        "LogisticRegression": LogisticRegression(
            1e4, delta=1e-6, classes=(0, 1), solver=solver, random_state=1
        ),
        "LinearSVC": LinearSVC(1e4, delta=1e-6, classes=(0, 1), solver=solver, random_state=1),
        "CategoricalNB": CategoricalNB(1e4, classes=(0, 1), categories=[(0.1, 0.2), (0.1,)], random_state=1),
        "GaussianNB": GaussianNB(1e4, classes=(0, 1), bounds=([-1.0, -1.0], [1.0, 1.0]), random_state=1),
    }


def accuracy(model, rows, labels):
    return float((model.fit(rows, labels).predict(ROWS) == LABELS).mean())


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__ + str(odd)[:5])
@pytest.mark.parametrize("name", ["LogisticRegression", "LinearSVC", "GaussianNB"])
@pytest.mark.parametrize("container", [list, tuple, pd.Series, lambda v: np.array(v, dtype=object)])
def test_one_odd_label_does_not_erase_the_model(name, odd, container):
    labels = LABELS.tolist()
    if isinstance(odd, list) and container is not list:
        return  # numpy and pandas would make another shape of it, which is public
    model = models()[name]
    assert accuracy(model, ROWS.tolist(), container([*labels[:-1], odd])) > 0.9
    assert list(model.classes_) == [0, 1]


def test_one_odd_target_does_not_erase_a_ridge():
    targets = (0.8 * ROWS[:, 0]).tolist()
    for odd in ODD:
        model = Ridge(1e4, delta=1e-6, solver=OutputPerturbation(), random_state=1).fit(
            ROWS, [*targets[:-1], odd]
        )
        assert model.coef_[0] == pytest.approx(0.8, abs=0.1)


@pytest.mark.parametrize(
    "row", [["x", 1.0], np.array(["x", "y"]), [1.0], [1.0, 2.0, 3.0], "text", None, 3.0, [], (0.1, object())]
)
@pytest.mark.parametrize("first", [True, False])
def test_one_odd_row_leaves_the_others_alone(row, first):
    rows = ROWS.tolist()
    changed = [row, *rows[1:]] if first else [*rows[:-1], row]
    found, plain = to_table(changed), to_table(rows)
    assert found.shape == plain.shape
    kept = slice(1, None) if first else slice(None, -1)
    assert (found[kept] == plain[kept]).all()
    for name, model in models().items():
        assert accuracy(model, changed, LABELS.tolist()) > (0.4 if name == "CategoricalNB" else 0.9)


def test_a_list_of_arrays_of_which_one_is_text():
    rows = [np.array([0, 1])] * 60
    counts = []
    for last in (np.array([0, 1]), np.array(["0", "1"])):
        model = CategoricalNB(1e4, classes=(0, 1), categories=[(0, 1), (0, 1)], random_state=0)
        counts.append([np.rint(part) for part in model.fit([*rows, last], [0] * 61).counts_])
    assert all(np.abs(a - b).sum() <= 2 for a, b in zip(*counts, strict=True))


@pytest.mark.parametrize(
    "container",
    [list, np.array, pd.Series, pl.Series, lambda v: pd.DataFrame({"y": v}), lambda v: np.array(v)[:, None]],
)
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_containers_of_answers(container):
    assert read_targets(container([1, 0, 1]), 3).tolist() == [1, 0, 1]
