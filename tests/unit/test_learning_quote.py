"""``quote`` of the linear estimators: what a fit would spend, before a row is read."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from privet.adjacency import AddRemove
from privet.errors import InvalidArgument
from privet.learning import LinearSVC, LogisticRegression, ObjectivePerturbation, OutputPerturbation, Ridge


@pytest.mark.parametrize("solver", [None, OutputPerturbation(), ObjectivePerturbation()])
@pytest.mark.parametrize("rows", [40, 90])
def test_a_quote_is_what_the_ledger_of_a_fit_says(solver, rows):
    draw = np.random.default_rng(1)
    x, y = draw.uniform(-0.5, 0.5, (rows, 3)), draw.integers(0, 3, rows)
    shared = {"delta": 1e-5, "solver": solver, "population": 60, "adjacency": AddRemove(), "random_state": 1}
    three = LogisticRegression(1.0, classes=(0, 1, 2), **shared)
    two = LinearSVC(1.0, classes=(0, 1), **shared)
    ridge = Ridge(1.0, **shared)
    quotes = [three.quote(3, fits=3), two.quote(3), ridge.quote(3)]
    three.fit(x, y)
    two.fit(x, np.minimum(y, 1))
    ridge.fit(x, x[:, 0])
    assert quotes == [model.ledger_.entries[0].event for model in (three, two, ridge)]


def test_a_quote_needs_a_population():
    with pytest.raises(InvalidArgument, match="'population'"):
        Ridge(1.0, delta=1e-5).quote(3)
    with pytest.raises(InvalidArgument):
        Ridge(1.0, delta=1e-5, population=10).quote(0)
