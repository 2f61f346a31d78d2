"""Which accountant takes which event under which adjacency; a change here is a change of what is proved."""

import pytest

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.errors import NotProved
from privet.events import (
    BandedNoise,
    BestOfNegativeBinomial,
    BestOfPoisson,
    Compose,
    DiscreteGaussian,
    DiscreteGaussianShares,
    DiscreteLaplace,
    ExponentialMechanism,
    FixedSize,
    Gaussian,
    Laplace,
    Opaque,
    Parallel,
    Poisson,
    RandomizedResponse,
    Repeat,
    ReportNoisyMax,
    SparseVector,
    TreeNoise,
)
from privet.testing import ACCOUNTANTS, check_event

_LETTERS = dict(
    zip("LRCGPBAO", ACCOUNTANTS, strict=True)
)  # privacy Loss, Rényi, Concentrated, Gaussian, Pure, …

#   event                                        add-remove   replace-one  zero-out
_TABLE = [
    (Gaussian(1.5), "LRCG", "LRCG", "LRCG"),
    (BandedNoise(3.0, (1.0, 0.5, 0.25), 20, 4, 3), "LRCG", "LRCG", "LRCG"),
    (TreeNoise(3.0, 16, 4, 3), "LRCG", "LRCG", "LRCG"),
    (DiscreteGaussian(3.0), "LRC", "LRC", "LRC"),
    (DiscreteGaussianShares(3.0, 5, 4.0, 10), "", "LRC", "LRC"),
    (Laplace(2.0), "LRCPBAO", "LRCPBAO", "LRCPBAO"),
    (DiscreteLaplace(2.0, 2), "LRCPBAO", "LRCPBAO", "LRCPBAO"),
    (RandomizedResponse(0.75), "", "LRCPBAO", "LRCPBAO"),
    (RandomizedResponse(0.6, 4), "", "LRCPBAO", "LRCPBAO"),
    (ExponentialMechanism(epsilon=0.5), "LRCPBAO", "LRCPBAO", "LRCPBAO"),
    (ReportNoisyMax(epsilon=0.5), "LRCPBAO", "LRCPBAO", "LRCPBAO"),
    (SparseVector(epsilon=0.5, positives=3), "LRCPBAO", "LRCPBAO", "LRCPBAO"),
    (Opaque(epsilon=0.3), "LRCPBAO", "LRCPBAO", "LRCPBAO"),
    (Opaque(epsilon=0.3, delta=1e-6), "LRBAO", "LRBAO", "LRBAO"),
    (Poisson(0.1, Gaussian(1.0)), "LR", "LR", "LR"),
    (Poisson(0.1, DiscreteGaussian(2.0)), "LR", "", "LR"),
    (Poisson(0.1, DiscreteGaussianShares(3.0, 5, 4.0, 10)), "", "", "LR"),
    (Poisson(0.1, Laplace(1.0)), "LRPBAO", "", "LRPBAO"),
    (Poisson(0.1, RandomizedResponse(0.75)), "", "", "LRPBAO"),
    (Poisson(0.1, Opaque(epsilon=1.0, delta=1e-6)), "LRBAO", "", "LRBAO"),
    (FixedSize(10, 100, Gaussian(1.0)), "LR", "LR", "LR"),
    (FixedSize(10, 100, DiscreteGaussianShares(3.0, 5, 4.0, 10)), "", "", "LR"),
    (FixedSize(10, 100, Laplace(1.0)), "LRPBAO", "LRPBAO", "LRPBAO"),
    (FixedSize(10, 100, RandomizedResponse(0.75)), "LRPBAO", "LRPBAO", "LRPBAO"),
    (Compose((Gaussian(2.0), Laplace(2.0))), "LRC", "LRC", "LRC"),
    (Compose((Laplace(2.0), Opaque(epsilon=0.1, delta=1e-7))), "LRBAO", "LRBAO", "LRBAO"),
    (Parallel((Gaussian(1.0), Gaussian(2.0))), "LRCG", "", "LRCG"),
    (Parallel((Laplace(1.0), ExponentialMechanism(epsilon=0.5))), "LRCPBAO", "", ""),
    (Poisson(0.1, Repeat(Gaussian(4.0), 4)), "LR", "LR", "LR"),
    (Poisson(0.1, Repeat(Laplace(4.0), 4)), "LRPBAO", "", "LRPBAO"),
]
# Samples of samples and parts with different noise take long, so their laws are checked elsewhere.
_TAKEN_ONLY = [
    (BestOfPoisson((Gaussian(2.0),), 4.0), "LR", "LR", "LR"),
    (BestOfNegativeBinomial((Laplace(2.0),), 1.0, 0.2), "LR", "LR", "LR"),
    (Poisson(0.1, FixedSize(10, 100, Gaussian(1.0))), "LR", "", "LR"),
    (Parallel((Laplace(1.0), DiscreteLaplace(2.0))), "LRCPBAO", "", "LRCPBAO"),
]
_ADJACENCIES = (AddRemove(), ReplaceOne(), ZeroOut())
_ROWS = [
    pytest.param(event, adjacency, letters, id=f"{event}-{adjacency.relation}")
    for event, *columns in (*_TABLE, *_TAKEN_ONLY)
    for adjacency, letters in zip(_ADJACENCIES, columns, strict=True)
]


def takes(letter, event, adjacency):
    try:
        account(event, adjacency=adjacency, accountant=_LETTERS[letter])
    except NotProved as refused:
        assert str(refused).endswith(".")
        return False
    return True


@pytest.mark.parametrize(("event", "adjacency", "letters"), _ROWS)
def test_takes(event, adjacency, letters):
    assert "".join(letter for letter in _LETTERS if takes(letter, event, adjacency)) == letters


def _first_column(columns):
    return next(place for place, letters in enumerate(columns) if letters)


_LONG = (  # 5-20 s each; the law below has them, too
    Poisson(0.1, DiscreteGaussianShares(3.0, 5, 4.0, 10)),
    FixedSize(10, 100, DiscreteGaussianShares(3.0, 5, 4.0, 10)),
    Parallel((Laplace(1.0), ExponentialMechanism(epsilon=0.5))),
    Poisson(0.1, RandomizedResponse(truth=0.75, categories=2)),
    Poisson(0.1, Opaque(epsilon=1.0, delta=1e-06)),
    Poisson(0.1, Repeat(Laplace(4.0), 4)),
    FixedSize(size=10, population=100, inner=Laplace(1.0)),
)


@pytest.mark.parametrize(
    ("event", "columns"),
    [(event, columns) for event, *columns in _TABLE if event not in _LONG],
    ids=str,
)
def test_all_laws_hold(event, columns):
    check_event(event, _ADJACENCIES[_first_column(columns)])


@pytest.mark.slow
@pytest.mark.parametrize(("event", "adjacency", "letters"), [row for row in _ROWS if row.values[2]])
def test_all_laws_hold_under_every_adjacency(event, adjacency, letters):
    check_event(event, adjacency)
