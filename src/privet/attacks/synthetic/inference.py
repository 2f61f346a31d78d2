"""Inference: a secret column of a person, from the other columns and the synthetic table.

*What is a hit.* The guess is right: equal for text and for numbers of few values, near for other numbers and
dates. It is the same event for people of the original and of the control, so the baseline is what the
synthetic table teaches about everybody, and the leak is what being in the original adds. A right guess about
somebody in the control is no breach: it would have been right without any of their data.

*Reference*: Giomi et al. 2022, section 4.3. Deviations: equally near rows vote; a guess can also be learnt
(``LearntGuess``); "near" is a share of the range of most synthetic values and not of the secret itself, so
that small secrets are not harder to hit than large ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, final

import numpy as np

from privet.arguments import open_fraction, whole
from privet.attacks.estimators import boosted_quantiles, impute
from privet.attacks.synthetic.game import draw_game
from privet.attacks.synthetic.gower import distance_blocks, numbers_of
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedColumn, PublishedTable, ValueKind
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.views import Adversary, Labels, Numbers

__all__ = ["Guesser", "Inference", "LearntGuess", "NearestGuess", "SecretGuesses"]

_FEW = 20  # distinct numbers up to which a column is guessed exactly
_MOST_LEARNT = 200  # values of a text that can be learnt


class SecretGuesses(NamedTuple):
    """A guess for each person, a code or a number, and how sure it is, higher = surer."""

    guesses: Numbers
    confidence: Numbers


class Guesser(ABC):
    """How a secret is guessed from a synthetic table."""

    @property
    @abstractmethod
    def words(self) -> str:
        """How a report calls it."""

    @abstractmethod
    def guess(
        self, people: PublishedTable, synthetic: PublishedTable, secrets: Numbers, *, exact: bool
    ) -> SecretGuesses:
        """Guess the secret of people by their other columns.

        ``secrets`` are those of the synthetic rows, NaN where missing. ``exact`` secrets are names, others
        are numbers that may be averaged.
        """


@final
@dataclass(frozen=True)
class NearestGuess(Guesser):
    """The secret of the nearest synthetic rows: the most frequent value, or the median of numbers.

    Rows that are as near as the last of the ``neighbors`` also vote.
    """

    neighbors: int = 1

    def __post_init__(self) -> None:
        whole("neighbors", self.neighbors)

    @property
    def words(self) -> str:
        return "nearest rows"

    def guess(
        self, people: PublishedTable, synthetic: PublishedTable, secrets: Numbers, *, exact: bool
    ) -> SecretGuesses:
        known = np.flatnonzero(~np.isnan(secrets))
        searched, values = synthetic.take(known), secrets[known]
        count = min(self.neighbors, len(known))
        found = np.empty((2, len(people)))
        for start, block in distance_blocks(people, searched, people.names):
            limits = np.partition(block, count - 1, axis=1)[:, count - 1]
            for place, (row, limit) in enumerate(zip(block, limits, strict=True), start):
                found[:, place] = _vote(values[row <= limit], exact=exact)
        return SecretGuesses(found[0], found[1])


def _vote(votes: Numbers, *, exact: bool) -> tuple[float, float]:
    if not exact:
        middle = float(np.median(votes))
        return middle, -float(np.abs(votes - middle).mean())
    names, counts = np.unique(votes, return_counts=True)
    return float(names[counts.argmax()]), float(counts.max() / counts.sum())


@final
@dataclass(frozen=True)
class LearntGuess(Guesser):
    """A model that is trained on the synthetic rows: trees or a logistic regression for names, boosted
    medians for numbers.

    It finds what the generator kept of the relation between columns; nearest rows find copies.
    """

    seed: int = 0

    def __post_init__(self) -> None:
        whole("seed", self.seed, least=0)

    @property
    def words(self) -> str:
        return "a learnt model"

    def guess(
        self, people: PublishedTable, synthetic: PublishedTable, secrets: Numbers, *, exact: bool
    ) -> SecretGuesses:
        known = np.flatnonzero(~np.isnan(secrets))
        rows, values = synthetic.take(known), secrets[known]
        if not exact:
            predict = boosted_quantiles(_features(rows), values, (0.25, 0.5, 0.75), self.seed)
            low, middle, high = predict(_features(people)).T
            return SecretGuesses(middle, low - high)
        names, numbers = np.unique(values, return_inverse=True)
        if len(names) > _MOST_LEARNT:
            raise InvalidArgument(
                f"'secret' must have at most {_MOST_LEARNT} values to be learnt, got {len(names)} in the "
                f"synthetic table. Take NearestGuess."
            )
        columns, others = ([_plain(c) for c in table.columns] for table in (rows, people))
        shares = impute(columns, numbers.astype(np.int64), len(names), seed=self.seed)(others)
        return SecretGuesses(names[shares.argmax(axis=1)], shares.max(axis=1))


def _plain(column: PublishedColumn) -> np.ndarray:
    return column.values if column.kind is ValueKind.TEXT else numbers_of(column)


def _features(table: PublishedTable) -> Numbers:
    """Numbers as they are; text by its code, which trees can split."""
    return np.stack(
        [
            column.codes.astype(np.float64) if column.kind is ValueKind.TEXT else numbers_of(column)
            for column in table.columns
        ],
        axis=1,
    )


@final
@dataclass(frozen=True)
class Inference:
    """Guesses a secret column of people whose other columns are known.

    *Adversary*: sees the synthetic table; knows all other columns of a person, or those in ``known``; wants
    the secret one.

    Numbers with more than 20 distinct synthetic values, and dates, are hit within ``tolerance`` times the
    width of the middle nine tenths of the synthetic values; all else must be equal. People whose secret is
    missing are not judged.
    """

    secret: str
    known: Sequence[str] | None = None
    guesser: Guesser = field(default_factory=NearestGuess)
    tolerance: float = 0.05
    targets: int = 2000
    seed: int = 0

    def __post_init__(self) -> None:
        open_fraction("tolerance", self.tolerance)

    @property
    def name(self) -> str:
        """What a report calls it."""
        return f"inference of {self.secret} by {self.guesser.words}"

    def run(self, synthetic: PublishedTable, original: PublishedTable, control: PublishedTable) -> Recoveries:
        """Guess the secret of every person, and join the truth and the coin."""
        self._require_secret(synthetic, original, control)
        judged = (_with_secret(table, self.secret) for table in (original, control))
        game = draw_game(synthetic, *judged, targets=self.targets, seed=self.seed)
        known = self._choose_known(game.names)
        of_synthetic, of_people = game.synthetic[self.secret], game.people[self.secret]
        exact = of_synthetic.kind is ValueKind.TEXT or _count_distinct(of_synthetic) <= _FEW
        secrets, truths = (_secrets(column, exact=exact) for column in (of_synthetic, of_people))
        if np.isnan(secrets).all():
            raise InvalidArgument(
                "'synthetic' must have values in the secret column, got none. Name another column."
            )
        found = self.guesser.guess(
            game.people.select(known), game.synthetic.select(known), secrets, exact=exact
        )
        return RecoveryGame(truths, game.members, criterion=self._criterion(secrets, exact=exact)).judge(
            found.guesses, self.name, adversary=self._adversary(known), confidence=found.confidence
        )

    def _criterion(self, secrets: Numbers, *, exact: bool) -> Criterion:
        """Fixed by the synthetic table alone."""
        if exact:
            return Criterion.exactly(f"the value of {self.secret} is exactly right")
        low, high = np.nanquantile(secrets, [0.05, 0.95])
        width = float(high - low) or float(np.nanmax(secrets) - np.nanmin(secrets))
        return Criterion.within(
            self.tolerance * width, f"{self.secret} is right within {self.tolerance * width:.4g}"
        )

    def _adversary(self, known: Sequence[str]) -> Adversary:
        return Adversary(
            sees="the synthetic table",
            knows="all other columns of a person"
            if self.known is None
            else f"{', '.join(known)} of a person",
            wants=f"the value of {self.secret}",
        )

    def _require_secret(self, *tables: PublishedTable) -> None:
        if any(self.secret not in table for table in tables):
            raise InvalidArgument(
                f"'secret' must be a column of all tables, got {self.secret!r}. Name a column that the "
                f"synthetic, the original and the control table have."
            )

    def _choose_known(self, names: Sequence[str]) -> tuple[str, ...]:
        known = (
            tuple(name for name in names if name != self.secret) if self.known is None else tuple(self.known)
        )
        if not known or self.secret in known or any(name not in names for name in known):
            raise InvalidArgument(
                "'known' must name columns of all tables besides the secret one, got none or others. Give "
                "at least one column that an adversary knows."
            )
        return known


def _with_secret(table: PublishedTable, secret: str) -> PublishedTable:
    return table.take(np.flatnonzero(~table[secret].missing))


def _count_distinct(column: PublishedColumn) -> int:
    codes: Labels = np.unique(column.codes)
    return int((codes > 0).sum())


def _secrets(column: PublishedColumn, *, exact: bool) -> Numbers:
    """The secret of each row as a code that names it, or as a number; NaN where it is missing."""
    if exact:
        return np.where(column.missing, np.nan, column.codes.astype(np.float64))
    return numbers_of(column)


check_public_calls(__name__)
