"""Naive Bayes over categories, from noisy counts."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import format_value, positive, whole
from privet.errors import InvalidArgument
from privet.events import DiscreteLaplace, Event, Repeat
from privet.learning.classifier import SLACK, PrivateBayes
from privet.learning.inputs import to_scalar
from privet.mechanisms.sampling import discrete_laplace
from privet.randomness import NoiseSource
from privet.releasing.synthetic.domain import OUTSIDE, Categories
from privet.releasing.synthetic.noisy_access import cell_event

__all__ = ["CategoricalNB"]


@final
class CategoricalNB(PrivateBayes):
    """Naive Bayes for features with declared categories, ε-differentially private.

    For each of the D features the table class × category is released with discrete Laplace noise. One row is
    in one cell of each table, so that D counts move by one, and the scale is D/ε (2D/ε where a row may be
    replaced). The number of rows of each class follows from the same tables.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy loss of one ``fit``.
    classes : sequence, default=None
        The classes, from public knowledge; rows of other classes are left out. None takes those seen in
        ``y``, which is not private, and warns.
    categories : int or sequence, default=2
        For each feature its categories: a whole number k for 0, 1, …, k − 1, or a tuple of values. One int
        stands for all features. All other values, and missing ones, share one more cell.
    alpha : float, default=1.0
        Added to every count.
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
    counts_ : list of arrays
        The noisy tables, class × category.
    class_log_prior_, feature_log_prob_
        What follows from them.

    *Leaks.* That there is at least one row, the number of columns, and the type of ``y``.

    *Reference.* Vaidya, Shafiq, Basu & Hong 2013, "Differentially private naive Bayes classification", with
    all counts from D tables instead of D + 1.

    >>> X, y = [[0, 1], [1, 1], [1, 0], [0, 0]] * 50, [0, 1, 1, 0] * 50
    >>> model = CategoricalNB(epsilon=2.0, classes=(0, 1), categories=2).fit(X, y)
    >>> model.ledger_.event.parts[0].inner.scale
    1.0000000000009095
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        classes: Sequence[Any] | None = None,
        categories: int | Sequence[int | tuple[Any, ...]] = 2,
        alpha: float = 1.0,
        adjacency: Adjacency | type[Adjacency] = AddRemove,
        noise: NoiseSource | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.classes = classes
        self.categories = categories
        self.alpha = alpha
        self.adjacency = adjacency
        self.noise = noise
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        return tags

    def _learn(self, rows: np.ndarray, labels: np.ndarray, source: NoiseSource, adjacency: Adjacency) -> None:
        columns = self._check_declared(rows.shape[1])
        scale = adjacency.contribution_distance * len(columns) / to_scalar(self.epsilon) * (1 + SLACK)
        event: Event = cell_event(DiscreteLaplace, scale, adjacency)
        self._spend("counts of categories in each class", Repeat(event, len(columns)))
        self.counts_ = []
        for k, column in enumerate(columns):
            shape = (self.classes_.size, column.size + 1)
            flat = np.ravel_multi_index((labels, _encode(column, rows[:, k])), shape)
            exact = np.bincount(flat, minlength=shape[0] * shape[1])
            self.counts_.append((exact + discrete_laplace(scale, exact.size, source)).reshape(shape))
        # Every table sums to the class sizes; the noise of such a sum grows with its number of cells.
        cells = np.array([1 / table.shape[1] for table in self.counts_])
        sizes = np.average([table.sum(axis=1) for table in self.counts_], axis=0, weights=cells)
        self.class_log_prior_ = _log_shares(sizes[None, :], to_scalar(self.alpha))[0]
        self.feature_log_prob_ = [_log_shares(table, to_scalar(self.alpha)) for table in self.counts_]

    def _log_joint(self, rows: np.ndarray) -> np.ndarray:
        joint = np.tile(self.class_log_prior_, (rows.shape[0], 1))
        for k, column in enumerate(self._check_declared(rows.shape[1])):
            joint += self.feature_log_prob_[k][:, _encode(column, rows[:, k])].T
        return joint

    def _check_declared(self, features: int) -> list[Categories]:
        positive("alpha", to_scalar(self.alpha))
        declared = to_scalar(self.categories)
        entries = [declared] * features if isinstance(declared, int) else list(declared)
        if len(entries) != features:
            raise InvalidArgument(
                f"'categories' must have one entry for each of {features} features, got {len(entries)}. "
                f"Give a whole number for all of them, or one entry each."
            )
        return [_read_categories(to_scalar(entry)) for entry in entries]


def _read_categories(entry: Any) -> Categories:  # noqa: ANN401 - an int or a sequence
    if isinstance(entry, int):
        return Categories("categories", tuple(range(whole("categories", entry, most=10**7))))
    if isinstance(entry, (str, bytes)) or not isinstance(entry, (Sequence, np.ndarray)):
        raise InvalidArgument(
            f"'categories' must hold whole numbers or tuples of values, got {format_value(entry)}. "
            f"Write 3 for 0, 1, 2, or ('a', 'b')."
        )
    return Categories("categories", tuple(entry))


def _encode(column: Categories, values: np.ndarray) -> np.ndarray:
    """The code of each value's category; a value without one gets the last cell, which is there for it."""
    codes = column.codes(values)
    return np.where(codes == OUTSIDE, column.size, codes)


def _log_shares(counts: np.ndarray, alpha: float) -> np.ndarray:
    smoothed = np.maximum(counts, 0) + alpha
    return np.asarray(np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True)))
