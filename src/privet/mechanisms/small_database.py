"""The small-database mechanism, as published: the exponential mechanism over all databases of a given size.

It answers many questions at once: it publishes a small database on which all of them have about the right
answer. Later questions to *that* database cost nothing, however many there are. The number of candidates is
exponential, so this form is for small universes; ``privet.releasing.synthetic`` has practical methods.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet import events
from privet.adjacency import Adjacency, ReplaceOne
from privet.arguments import open_fraction, positive, whole
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.mechanisms.mechanism import SECURE, Mechanism, check_adjacency
from privet.mechanisms.noise_scales import check_scale
from privet.mechanisms.queries import check_categories
from privet.mechanisms.records import Floats, indices
from privet.mechanisms.sampling import choose
from privet.mechanisms.scores import Steps
from privet.mechanisms.selection import exact_log_weights
from privet.randomness import NoiseSource

__all__ = ["SmallDatabase"]

_MOST_DATABASES = 500_000


@final
@dataclass(frozen=True)
class SmallDatabase(Mechanism[tuple[Any, ...]]):
    """A database of ``size`` records from a public ``universe`` with about the same answer to every query.

    A query is a public predicate; its answer is the fraction of records that satisfy it. The score of a
    candidate y is −max over the queries of |q(data) − q(y)|, in whole multiples of 1/(people·size), so that
    nothing is rounded. The number of ``people`` is public: the adjacency is replace-one, and one person moves
    a fraction by 1/people. A record outside the universe satisfies no query.

    *Guarantee*: ε-DP under replace-one, of bounded range ε: P ∝ exp(ε·people·score/2).

    *Utility*: with probability 1 − β no query is further off than √(ln(2|Q|)/2m) + (2/εn) ln(C(|X|+m−1,
    m)/β), by sampling m records (Hoeffding) and by the exponential mechanism's theorem.

    *Reference*: Blum, Ligett & Roth 2008, Section 3; Dwork & Roth 2014, Algorithm 4 and Theorem 4.5.
    ``sized`` takes their size ⌈ln|Q|/α²⌉.
    """

    universe: tuple[Any, ...]
    queries: tuple[Callable[[Any], object], ...]
    size: int
    people: int
    epsilon: float
    adjacency: Adjacency

    def __post_init__(self) -> None:
        check_categories("universe", self.universe)
        if not isinstance(self.queries, tuple) or not self.queries or not all(map(callable, self.queries)):
            raise InvalidArgument(
                f"'queries' must be a tuple of functions of one record, got {type(self.queries).__name__}. "
                f"Write (lambda record: …, …)."
            )
        whole("size", self.size)
        whole("people", self.people, most=10**9)
        positive("epsilon", self.epsilon)
        if not isinstance(check_adjacency(self.adjacency), ReplaceOne):
            raise NotProved(
                f"The small-database mechanism answers with fractions of a public number of people, so it "
                f"is proved under replace-one adjacency, not under {self.adjacency}. Use ReplaceOne()."
            )
        check_scale(2 * self.size / self.epsilon)
        if self.databases > _MOST_DATABASES:
            raise OutOfReach(
                f"There are {self.databases:.2g} databases of this size, and at most {_MOST_DATABASES:.0e} "
                f"can be enumerated. Use a smaller universe or size, or a practical method of "
                f"privet.releasing."
            )

    @staticmethod
    def sized(
        universe: tuple[Any, ...],
        queries: tuple[Callable[[Any], object], ...],
        *,
        accuracy: float,
        people: int,
        epsilon: float,
        adjacency: Adjacency,
    ) -> "SmallDatabase":
        """With the size ⌈ln|Q|/α²⌉: some database of that size has every query within α."""
        open_fraction("accuracy", accuracy)
        size = max(1, math.ceil(math.log(max(len(queries), 2)) / accuracy**2))
        return SmallDatabase(universe, queries, size, people, epsilon, adjacency)

    @property
    def databases(self) -> int:
        """The number of candidates: C(|X| + m − 1, m)."""
        return math.comb(len(self.universe) + self.size - 1, self.size)

    @property
    def event(self) -> events.Event:
        return events.ExponentialMechanism(epsilon=self.epsilon)

    def error(self, *, confidence: float) -> float:
        """With this probability no query's fraction is further off (the theorem above)."""
        failure = 1 - open_fraction("confidence", confidence)
        sampling = math.sqrt(math.log(2 * len(self.queries)) / (2 * self.size))
        return sampling + 2 / (self.epsilon * self.people) * math.log(self.databases / failure)

    def release(self, data: object, noise: NoiseSource = SECURE) -> tuple[Any, ...]:
        """A database that can be asked instead of the data, as often as you like."""
        weights = self._log_weights(data)
        chosen = self._candidates()[choose(weights, noise)]
        return tuple(self.universe[index] for index in chosen)

    def probabilities(self, data: object) -> Floats:
        """The probability of each database, in the order of ``itertools``; secret, and for study only."""
        weights = np.exp(self._log_weights(data))
        return np.asarray(weights / weights.sum())

    def _log_weights(self, data: object) -> Floats:
        return exact_log_weights(self._scores(data), self.epsilon, 2 * self.size)

    def _scores(self, data: object) -> Steps:
        """−max |a·m − b·n| for a of n people and b of m records: one person moves a by 1, the score by m."""
        positions = indices(data, {value: index for index, value in enumerate(self.universe)})
        if positions.size != self.people:
            raise InvalidArgument(
                f"'data' must hold as many records as there are people, {self.people}, and does not. The "
                f"number is public under replace-one adjacency: state the true one."
            )
        table = self._table()
        truth = table[:, positions[positions >= 0]].sum(axis=1)
        candidates = self._candidates()
        worst = np.zeros(len(candidates), dtype=np.int64)
        for row, count in zip(table, truth, strict=True):
            worst = np.maximum(
                worst, np.abs(int(count) * self.size - row[candidates].sum(axis=1) * self.people)
            )
        return -worst

    def _table(self) -> NDArray[np.int64]:
        """Which record of the universe satisfies which query."""
        return np.array(
            [[bool(query(record)) for record in self.universe] for query in self.queries], dtype=np.int64
        )

    def _candidates(self) -> NDArray[np.int64]:
        chosen = combinations_with_replacement(range(len(self.universe)), self.size)
        return np.array(list(chosen), dtype=np.int64)
