"""Naive Bayes over categories, from noisy counts."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import positive, shown, whole
from privet.errors import InvalidArgument
from privet.events import DiscreteLaplace, Event, Repeat
from privet.learning.classifier import SLACK, PrivateBayes
from privet.learning.inputs import plain
from privet.mechanisms.sampling import discrete_laplace
from privet.randomness import NoiseSource
from privet.releasing.synthetic.domain import OUTSIDE, Categories
from privet.releasing.synthetic.looks import cell_event

__all__ = ["CategoricalNB"]


@final
class CategoricalNB(PrivateBayes):
    """Naive Bayes for features with declared categories, ε-differentially private.

    For each of the D features the table class × category is released with discrete Laplace noise. One row is in one
    cell of each table, so that D counts move by one, and the scale is D/ε (2D/ε where a row may be replaced).
    The number of rows of each class follows from the same tables.

    Parameters
    ----------
    epsilon : float, default=1.0
        The privacy loss of one ``fit``.
    classes : sequence, default=None
        The classes, from public knowledge; rows of other classes are left out. None takes those seen in ``y``,
        which is not private, and warns.
    categories : int or sequence, default=2
        For each feature its categories: a whole number k for 0, 1, …, k − 1, or a tuple of values. One int stands for
        all features. All other values, and missing ones, share one more cell.
    alpha : float, default=1.0
        Added to every count.
    adjacency : Adjacency, default=None
        When two tables are neighbours; None is add-remove. The unit is a row.
    noise : NoiseSource, default=None
        Where privacy noise comes from; None is the operating system.
    random_state : int, default=None
        A seed, for tests and for nothing else: it leaves the caveat SEEDED_NOISE on the ledger.

    Attributes
    ----------
    ledger_ : Ledger
        What ``fit`` spent.
    counts_ : list of arrays
        The noisy tables, class × category.
    class_log_prior_, feature_log_prob_
        What follows from them.

    *Leaks.* That there is at least one row, the number of columns, and the type of ``y``.

    *Reference.* Vaidya, Shafiq, Basu & Hong 2013, "Differentially private naive Bayes classification", with all
    counts from D tables instead of D + 1.

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
        adjacency: Adjacency | None = None,
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

    def _learn(self, rows: np.ndarray, labels: np.ndarray, source: NoiseSource, relation: Adjacency) -> None:
        columns = self._public(rows.shape[1])
        scale = relation.contribution_distance * len(columns) / plain(self.epsilon) * (1 + SLACK)
        event: Event = cell_event(DiscreteLaplace, scale, relation)
        self._spend("counts of categories in each class", Repeat(event, len(columns)))
        self.counts_ = []
        for k, column in enumerate(columns):
            shape = (self.classes_.size, column.size + 1)
            flat = np.ravel_multi_index((labels, _coded(column, rows[:, k])), shape)
            exact = np.bincount(flat, minlength=shape[0] * shape[1])
            self.counts_.append((exact + discrete_laplace(scale, exact.size, source)).reshape(shape))
        # Every table sums to the classes; the noise of such a sum grows with the number of its cells.
        cells = np.array([1 / table.shape[1] for table in self.counts_])
        sizes = np.average([table.sum(axis=1) for table in self.counts_], axis=0, weights=cells)
        self.class_log_prior_ = _log_shares(sizes[None, :], plain(self.alpha))[0]
        self.feature_log_prob_ = [_log_shares(table, plain(self.alpha)) for table in self.counts_]

    def _joint(self, rows: np.ndarray) -> np.ndarray:
        found = np.tile(self.class_log_prior_, (rows.shape[0], 1))
        for k, column in enumerate(self._public(rows.shape[1])):
            found += self.feature_log_prob_[k][:, _coded(column, rows[:, k])].T
        return found

    def _public(self, features: int) -> list[Categories]:
        positive("alpha", plain(self.alpha))
        asked = plain(self.categories)
        each = [asked] * features if isinstance(asked, int) else list(asked)
        if len(each) != features:
            raise InvalidArgument(
                f"'categories' must have one entry for each of {features} features, got {len(each)}. "
                f"Give a whole number for all of them, or one entry each."
            )
        return [_declared(plain(one)) for one in each]


def _declared(one: Any) -> Categories:  # noqa: ANN401 - an int or a sequence
    if isinstance(one, int):
        return Categories("categories", tuple(range(whole("categories", one, most=10**7))))
    if isinstance(one, (str, bytes)) or not isinstance(one, (Sequence, np.ndarray)):
        raise InvalidArgument(
            f"'categories' must hold whole numbers or tuples of values, got {shown(one)}. "
            f"Write 3 for 0, 1, 2, or ('a', 'b')."
        )
    return Categories("categories", tuple(one))


def _coded(column: Categories, values: np.ndarray) -> np.ndarray:
    """The category of each value; what is none has a cell of its own, the last."""
    codes = column.codes(values)
    return np.where(codes == OUTSIDE, column.size, codes)


def _log_shares(counts: np.ndarray, alpha: float) -> np.ndarray:
    smoothed = np.maximum(counts, 0) + alpha
    return np.asarray(np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True)))
