"""Naive Bayes with a normal distribution for each feature and class, from noisy sums."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import format_value, positive
from privet.errors import InvalidArgument
from privet.events import Compose, DiscreteLaplace, Repeat
from privet.learning.classifier import SLACK, PrivateBayes
from privet.learning.inputs import to_numbers, to_scalar
from privet.mechanisms.sampling import discrete_laplace
from privet.randomness import NoiseSource
from privet.releasing.synthetic.noisy_access import cell_event

__all__ = ["GaussianNB"]

_STEPS = 1024  # from the middle of the bounds to either end


@final
class GaussianNB(PrivateBayes):
    """Naive Bayes for numbers within declared bounds, ε-differentially private.

    Every number is clipped to its bounds, scaled to z in [−1, 1] and rounded to a grid of 1/1024, row by row;
    sums are then whole numbers. Released per class: the number of rows, and for each of the D features Σz and
    Σ(z² − ½), which one row moves by at most 1, 1 and ½. Each of the 2D + 1 gets ε/(2D + 1).

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy loss of one ``fit``.
    classes : sequence, default=None
        The classes, from public knowledge; rows of other classes are left out. None takes those seen in
        ``y``, which is not private, and warns.
    bounds : pair, default=(-1.0, 1.0)
        Lower and upper end of each feature, from public knowledge: two numbers for all features, or two
        sequences with a number for each. A number beyond counts as the bound; a value that is missing or no
        number, as the middle.
    alpha : float, default=1.0
        So many made-up rows, spread evenly over the bounds, are added to each class.
    adjacency : Adjacency or its class, default=AddRemove
        When two tables are neighbours. The unit is a row.
    noise : NoiseSource, default=None
        Where privacy noise comes from; None is the operating system.
    random_state : int, default=None
        A seed, for tests only: it leaves the caveat SEEDED_NOISE on the ledger.

    Attributes
    ----------
    ledger_ : Ledger
        What ``fit`` spent.
    theta_, var_ : arrays, class × feature
        Mean and variance.
    class_count_ : array
        The noisy number of rows of each class.

    *Leaks.* That there is at least one row, the number of columns, and the type of ``y``.

    *Reference.* Vaidya, Shafiq, Basu & Hong 2013, with sums on a grid instead of means and deviations. If a
    row is replaced, then one sum moves by twice its bound, or two sums move by the bound each. The first
    dominates the second: the loss of a Laplace pair depends on the observation clamped between the two
    centres, and below the half-way point, which decides δ(ε) for ε ≥ 0, two clamped observations add up to
    more than one does.

    >>> X, y = [[0.1], [0.9], [0.2], [0.8]] * 50, [0, 1, 0, 1] * 50
    >>> model = GaussianNB(epsilon=5.0, classes=(0, 1), bounds=(0.0, 1.0)).fit(X, y)
    >>> model.theta_.shape
    (2, 1)
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        classes: Sequence[Any] | None = None,
        bounds: tuple[Any, Any] = (-1.0, 1.0),
        alpha: float = 1.0,
        adjacency: Adjacency | type[Adjacency] = AddRemove,
        noise: NoiseSource | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.classes = classes
        self.bounds = bounds
        self.alpha = alpha
        self.adjacency = adjacency
        self.noise = noise
        self.random_state = random_state

    def _learn(self, rows: np.ndarray, labels: np.ndarray, source: NoiseSource, adjacency: Adjacency) -> None:
        lower, upper = self._check_declared(rows.shape[1])
        features, distance = rows.shape[1], adjacency.contribution_distance
        unit = (
            distance * (2 * features + 1) / to_scalar(self.epsilon) * (1 + SLACK)
        )  # scale for a bound of one
        self._spend(
            "numbers, sums and squares in each class",
            Compose(
                (
                    cell_event(DiscreteLaplace, unit, adjacency),
                    Repeat(DiscreteLaplace(unit * _STEPS, _STEPS), features),
                    Repeat(DiscreteLaplace(unit * _STEPS / 2, _STEPS // 2), features),
                )
            ),
        )
        middle, half = lower + 0.5 * (upper - lower), 0.5 * (upper - lower)
        first = _round_to_grid(to_numbers(rows), middle, half)
        second = np.rint(first * first / _STEPS).astype(np.int64) - _STEPS // 2
        sums = np.zeros((3, self.classes_.size, features), dtype=np.int64)
        np.add.at(sums[1], labels, first)
        np.add.at(sums[2], labels, second)
        size = self.classes_.size
        noisy = np.bincount(labels, minlength=size) + discrete_laplace(unit, size, source)
        draws = [discrete_laplace(unit * part, size * features, source) for part in (_STEPS, _STEPS / 2)]
        moments = [(sums[k + 1] + draws[k].reshape(size, features)) / _STEPS for k in range(2)]
        self.class_count_ = noisy
        self._set_parameters(np.maximum(noisy, 0.0), moments, unit, middle, half)

    def _set_parameters(
        self, sizes: np.ndarray, moments: list[np.ndarray], unit: float, middle: np.ndarray, half: np.ndarray
    ) -> None:
        """Noisy sums → a distribution for each class and feature.

        A made-up row has mean 0, mean square 1/3.
        """
        alpha, (first, second) = to_scalar(self.alpha), moments
        rows = (sizes + alpha)[:, None]
        mean = np.clip(first / rows, -1.0, 1.0)
        square = (second + 0.5 * sizes[:, None] + alpha / 3) / rows
        # No distribution within the bounds has a variance above 1. A variance below that of the noise cannot
        # be told from 0, and would make the classifier far too certain. A uniform distribution has 1/3.
        floor = np.clip(unit / rows, 1e-4, 1 / 3)
        variance = np.clip(square - mean**2, floor, 1.0)
        self.theta_ = middle + half * mean
        self.var_ = half**2 * variance
        self.class_log_prior_ = np.log(sizes + alpha) - np.log((sizes + alpha).sum())

    def _log_joint(self, rows: np.ndarray) -> np.ndarray:
        lower, upper = self._check_declared(rows.shape[1])
        values = np.clip(to_numbers(rows), lower, upper)
        values = np.where(np.isnan(values), lower + 0.5 * (upper - lower), values)
        joint = np.tile(self.class_log_prior_, (rows.shape[0], 1))
        for k in range(self.classes_.size):
            gap = (values - self.theta_[k]) ** 2 / self.var_[k]
            joint[:, k] -= 0.5 * (gap + np.log(2 * np.pi * self.var_[k])).sum(axis=1)
        return joint

    def _check_declared(self, features: int) -> tuple[np.ndarray, np.ndarray]:
        positive("alpha", to_scalar(self.alpha))
        try:
            ends = [np.broadcast_to(np.asarray(end, dtype=float), (features,)) for end in self.bounds]
            lower, upper = ends
        except (TypeError, ValueError):
            raise InvalidArgument(
                f"'bounds' must be two numbers, or two sequences of {features} numbers, got "
                f"{format_value(self.bounds)}. Give the lower ends and the upper ends."
            ) from None
        if not (np.isfinite(lower) & np.isfinite(upper) & (lower < upper)).all():
            raise InvalidArgument(
                "'bounds' must be finite, each lower end below its upper end, got "
                f"{format_value(self.bounds)}. Give bounds that are known without looking at the data."
            )
        return lower, upper


def _round_to_grid(values: np.ndarray, middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Each number as whole steps from the middle, clipped; a missing one counts as the middle."""
    with np.errstate(over="ignore"):  # beyond float64 is beyond the bounds
        scaled = np.clip((values - middle) / half, -1.0, 1.0)
    return np.asarray(np.rint(np.where(np.isnan(scaled), 0.0, scaled) * _STEPS), dtype=np.int64)
