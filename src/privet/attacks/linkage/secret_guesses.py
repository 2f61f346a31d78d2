"""What k-anonymity misses: the secret is guessed from the class of a person, without finding their row.

A table is k-anonymous if every class of rows that agree in the quasi-identifiers has k rows. If all rows of a
class have the same disease, everybody in it is known to have it (*homogeneity*). If it has two diseases, and
the adversary knows that the person does not have one of them, the other is certain (*background knowledge*).
Two patients of age 55 have one of two diseases: whoever knows one thing more knows which.

Both attacks guess the most common value of the class. For a target who is in, the class has the target's own
row; for one who is left out, it has not (``table_targets``). So the baseline is what the class of other
people tells about a person like them, which no protection of a single row can take away.

Reference: Machanavajjhala, Kifer, Gehrke & Venkitasubramaniam 2007, "l-diversity: privacy beyond
k-anonymity", section 2. Deviation: they argue by examples; here the attacks are run on every target.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value, whole
from privet.attacks.linkage.class_values import NO_VALUE, ClassValues
from privet.attacks.linkage.table_targets import MOST_TARGETS, TableTargets
from privet.attacks.linkage.unique_counts import number_classes
from privet.attacks.linkage.uniqueness import check_quasi
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.randomness import experiment
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.scores import Bits
from privet.views import Adversary

__all__ = ["BackgroundKnowledge", "Homogeneity", "SecretGuess"]

_Codes: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True, eq=False)
class _ClassReader:
    """The release as the adversary of each target reads it: the values in the class of the target, with the
    target's own row or without it, as the coin has decided.
    """

    values: ClassValues
    everyone: ClassValues
    classes: _Codes
    _own: _Codes
    _removed: Bits

    def most_common(self, excluded: _Codes) -> tuple[_Codes, _Codes]:
        """The most common value in the class of each target, other than ``excluded``, and its count.

        Where nothing is left in the class, the most common value of the whole table.
        """
        own, removed = self._own, self._removed
        found, count = self.values.most_common(self.classes, excluded=excluded, own=own, removed=removed)
        table = np.zeros_like(self.classes)
        anywhere, _ = self.everyone.most_common(table, excluded=excluded, own=own, removed=removed)
        return np.where(found == NO_VALUE, anywhere, found), count

    @property
    def sizes(self) -> _Codes:
        """How many rows are in the class of each target."""
        counts = self.values.pairs[2]
        totals = np.concatenate([[0], np.cumsum(counts)])
        starts = self.values.starts
        sizes: _Codes = totals[starts[self.classes + 1]] - totals[starts[self.classes]] - self._removed
        return sizes


class SecretGuess(ABC):
    """An adversary who guesses the secret of each target from its class."""

    name: ClassVar[str]
    knows: ClassVar[str]
    most_targets: int

    @final
    def run(
        self, published: PublishedTable, quasi: Sequence[str], secret: str, *, seed: int = 0
    ) -> Recoveries:
        """Attack rows of the table; the coin decides whose class is read without their row."""
        names = check_quasi(published, quasi, secret)
        classes, _ = number_classes(published.combine(names))
        values, _ = number_classes(published[secret].codes)
        targets = TableTargets.draw(
            len(published), seed=seed, most=whole("most_targets", self.most_targets, least=2)
        )
        own = values[targets.rows]
        in_classes = ClassValues(classes, values)
        reader = _ClassReader(
            in_classes,
            ClassValues(np.zeros_like(classes), values),
            classes[targets.rows],
            own,
            ~targets.members,
        )
        learnt = self._learn(in_classes, classes[targets.rows], own, experiment(seed))
        guesses, confidence = self._guess(reader, learnt)
        game = RecoveryGame(
            own, targets.members, criterion=Criterion.exactly(f"{format_value(secret)} is exactly right")
        )
        adversary = Adversary(
            sees="the published table",
            knows=f"the quasi-identifiers of the target ({', '.join(names)}){self.knows}",
            wants=f"the value of {format_value(secret)}",
        )
        return game.judge(guesses, self.name, adversary=adversary, confidence=confidence)

    @abstractmethod
    def _learn(
        self, values: ClassValues, classes: _Codes, own: _Codes, generator: np.random.Generator
    ) -> _Codes:
        """A value of each target that the adversary can rule out beforehand, whether or not they are in;
        NO_VALUE for none.
        """

    def _guess(self, reader: _ClassReader, ruled_out: _Codes) -> tuple[_Codes, NDArray[np.float64]]:
        """A value for each target, and how large its share of the class is."""
        guesses, counts = reader.most_common(ruled_out)
        return guesses, counts / np.maximum(reader.sizes, 1)


@final
@dataclass(frozen=True)
class Homogeneity(SecretGuess):
    """Guess the most common value of the class: right for sure where the class has one value only."""

    name: ClassVar[str] = "homogeneity"
    knows: ClassVar[str] = ""
    most_targets: int = MOST_TARGETS

    def _learn(
        self, values: ClassValues, classes: _Codes, own: _Codes, generator: np.random.Generator
    ) -> _Codes:
        del values, classes, generator
        return np.full_like(own, NO_VALUE)


@final
@dataclass(frozen=True)
class BackgroundKnowledge(SecretGuess):
    """Guess the most common value of the class after one value has been ruled out.

    The adversary knows one value that the target does not have: that of another person of the class, drawn
    at random from those who differ from the target. It is the same whether the target is in or not.
    """

    name: ClassVar[str] = "background knowledge"
    knows: ClassVar[str] = ", and one value that the target does not have"
    most_targets: int = MOST_TARGETS

    def _learn(
        self, values: ClassValues, classes: _Codes, own: _Codes, generator: np.random.Generator
    ) -> _Codes:
        return values.draw_other(classes, own, generator.random(len(own)))


check_public_calls(__name__)
