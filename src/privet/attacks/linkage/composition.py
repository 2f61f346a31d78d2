"""Two releases about the same people: each is k-anonymous, and together they are not.

The adversary knows the class of a person in either release, because they know the person's quasi-identifiers
and how each release was generalised. The secret must be among the values of the first class and among those
of the second. Often only one value is in both.

Reference: Ganta, Kasiviswanathan & Smith 2008, "Composition attacks and auxiliary information in data
privacy", section 2 (the intersection attack). Deviation: where several values are left, the one with the
largest product of its counts in the two classes is guessed, so that every target gets a guess.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value, whole
from privet.attacks.linkage.class_values import NO_VALUE, ClassValues
from privet.attacks.linkage.table_targets import MOST_TARGETS, TableTargets
from privet.attacks.linkage.unique_counts import number_classes
from privet.attacks.linkage.uniqueness import check_quasi
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.scores import Bits
from privet.views import Adversary

__all__ = ["Intersection"]

_Codes: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True)
class Intersection:
    """Guess the value that stands in the class of a person in both releases.

    *Adversary* sees both releases, knows in which class of each the target is, and wants the secret. Targets
    are people of both releases. One who is left out is missing from both.
    """

    name: str = "intersection of two releases"
    most_targets: int = MOST_TARGETS

    def __post_init__(self) -> None:
        whole("most_targets", self.most_targets, least=2)

    def run(
        self,
        published: PublishedTable,
        other: PublishedTable,
        quasi: Sequence[str],
        secret: str,
        *,
        truth: NDArray[np.int64],
        other_quasi: Sequence[str] | None = None,
        seed: int = 0,
    ) -> Recoveries:
        """Attack the people who are in both releases.

        ``truth`` gives for each row of ``other`` the row of the same person in ``published``, or −1. The
        quasi-identifiers of the second release are ``other_quasi``, or those of the first.
        """
        first_names = check_quasi(published, quasi, secret)
        second_names = check_quasi(other, other_quasi or quasi, secret)
        truth = np.asarray(truth, dtype=np.int64)
        if truth.shape != (len(other),) or (truth >= len(published)).any():
            raise InvalidArgument(
                f"'truth' must name a row of the first release for each of {len(other)} rows of the second, "
                f"got an array of shape {truth.shape} or rows that do not exist. Give −1 for people who are "
                f"not in the first."
            )
        shared = np.flatnonzero(truth >= 0)
        if len(shared) < 2:
            raise InvalidArgument(
                f"'other' must share at least 2 people with the table, got {len(shared)}. Check the column "
                f"that names them."
            )
        both = published.select([secret]).below(other.select([secret]))[secret].codes
        values, _ = number_classes(both)
        first = ClassValues(number_classes(published.combine(first_names))[0], values[: len(published)])
        second = ClassValues(number_classes(other.combine(second_names))[0], values[len(published) :])
        targets = TableTargets.draw(len(shared), seed=seed, most=self.most_targets)
        rows = shared[targets.rows]
        own = first.values[truth[rows]], second.values[rows]
        guesses, sure = self._guess(
            (first, second), (first.classes[truth[rows]], second.classes[rows]), own, ~targets.members
        )
        game = RecoveryGame(
            own[0], targets.members, criterion=Criterion.exactly(f"{format_value(secret)} is exactly right")
        )
        adversary = Adversary(
            sees="both releases",
            knows=f"the class of the target in each of them ({', '.join(first_names)})",
            wants=f"the value of {format_value(secret)}",
        )
        return game.judge(guesses, self.name, adversary=adversary, confidence=sure)

    def _guess(
        self,
        releases: tuple[ClassValues, ClassValues],
        classes: tuple[_Codes, _Codes],
        own: tuple[_Codes, _Codes],
        removed: Bits,
    ) -> tuple[_Codes, NDArray[np.float64]]:
        """A value for each target, and its share of all that is left.

        ``removed`` targets are taken out of both releases before anything is read: their ``own`` values are
        counted once less.
        """
        first, second = releases
        starts = first.starts
        lengths = starts[classes[0] + 1] - starts[classes[0]]
        targets = np.repeat(np.arange(len(removed)), lengths)
        places = np.arange(len(targets)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = places + starts[classes[0]][targets]
        values, counts = first.pairs[1][places], first.pairs[2][places].copy()
        counts -= (values == own[0][targets]) & removed[targets]
        others = second.count(classes[1][targets], values)
        others -= (values == own[1][targets]) & removed[targets]
        left = (counts * others).astype(np.float64)
        total = np.bincount(targets, weights=left, minlength=len(removed))
        guesses, most = np.full(len(removed), NO_VALUE, dtype=np.int64), np.zeros(len(removed))
        order = np.lexsort((values, -left, targets))  # the best of each target comes first
        heads = order[np.flatnonzero(np.diff(targets[order], prepend=-1))]
        found = left[heads] > 0
        guesses[targets[heads][found]] = values[heads][found]
        most[targets[heads]] = left[heads]
        return guesses, most / np.maximum(total, 1.0)


check_public_calls(__name__)
