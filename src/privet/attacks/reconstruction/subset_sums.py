"""Published sums over subsets of people: what a reconstruction attack sees.

Each person has one secret bit. A query says with which weight each bit enters a sum; the published answer is
that sum, with an error. Counts are sums of bits, means are sums divided by a public number, and a table of
counts by group is a query for each group.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from privet.arguments import positive
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.views import Numbers

__all__ = ["SubsetSums"]


@final
@dataclass(frozen=True, eq=False)
class SubsetSums:
    """Queries (one on each row, a weight for each person) and their published answers.

    ``noise`` is the standard deviation of an answer's error where it is published, as differentially private
    releases do; None if not known.

    >>> sums = SubsetSums(np.array([[1, 1, 0], [0, 1, 1]]), np.array([2.1, 0.9]), noise=0.5)
    >>> sums.people, len(sums)
    (3, 2)
    """

    queries: Numbers
    answers: Numbers
    noise: float | None = None

    def __post_init__(self) -> None:
        queries = _real("queries", self.queries)
        answers = _real("answers", self.answers).astype(np.float64)
        if queries.ndim != 2 or 0 in queries.shape or answers.shape != queries.shape[:1]:
            raise InvalidArgument(
                "'queries' must be queries × people and 'answers' one number for each query, got shapes "
                f"{queries.shape} and {answers.shape}. "
                f"Give a row of weights for each published sum."
            )
        if not (np.isfinite(queries).all() and np.isfinite(answers).all()):
            raise InvalidArgument(
                "'queries' and 'answers' must be finite numbers, got NaN or infinity among them. Leave out "
                "what was not published."
            )
        if self.noise is not None:
            positive("noise", self.noise)
        object.__setattr__(self, "queries", queries)
        object.__setattr__(self, "answers", answers)

    def __len__(self) -> int:
        return len(self.answers)

    def __repr__(self) -> str:
        return f"SubsetSums({len(self)} sums over {self.people} people)"

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.queries.shape[1])


def _real(name: str, values: Any) -> Any:  # noqa: ANN401 - any array
    array = np.asarray(values)
    if array.dtype.kind == "b":
        return array.astype(np.float32)  # exact, and half of the memory
    if array.dtype.kind not in "iuf":
        raise InvalidArgument(
            f"'{name}' must be numbers, got an array of type {array.dtype}. Give weights and sums as numbers."
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


check_public_calls(__name__)
