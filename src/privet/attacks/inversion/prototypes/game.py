"""The game of class prototypes: does a drawn picture show the person whose class it was drawn for?

There is no class for a person who was left out, so the baseline is the best blind guess: the mean of public
pictures. A prototype tells about a *class*. Whether it tells about one *picture* of that person is a
membership question with a coin for each picture: ``score_pictures`` gives the scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.inversion.prototypes.panel import JudgePanel
from privet.attacks.inversion.prototypes.pictures import correlate_pictures, read_pictures
from privet.attacks.inversion.prototypes.search import PrototypeAttack
from privet.errors import InvalidArgument
from privet.exhibits import Picture
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.views import LabelOnly, Labels, Numbers, Rows

__all__ = ["PrototypeGame", "PrototypeRecovery", "score_pictures"]


@final
@dataclass(frozen=True, eq=False)
class PrototypeRecovery:
    """The pictures that an attack drew, the recoveries, and the share that each judge recognised.

    ``blind_by_judge`` is the same for the blind guess.
    """

    pictures: Numbers
    recoveries: Recoveries
    by_judge: Mapping[str, float]
    blind_by_judge: Mapping[str, float]


@final
@dataclass(frozen=True, eq=False)
class PrototypeGame:
    """The classes to draw, the person of each, a panel of judges, and public pictures of other people.

    ``people`` has the panel's number of each class's person. ``truths`` is a picture of each of these people,
    to be shown beside what was drawn. ``blind`` is the best guess of each class without the model: the mean
    of all public pictures, or where public pictures of the very class exist, as of a digit, their mean.
    """

    people: Labels
    panel: JudgePanel
    public: Rows
    truths: Rows
    blind: Rows | None = None

    def __post_init__(self) -> None:
        public, truths = read_pictures("public", self.public), read_pictures("truths", self.truths)
        if np.shape(self.people) != (len(truths),) or truths.shape[1:] != public.shape[1:]:
            raise InvalidArgument(
                f"'truths' must be one picture for each of the {len(np.atleast_1d(self.people))} classes, "
                f"of the shape of the public pictures, got shape {truths.shape}. Give pictures as the model "
                f"takes them."
            )
        object.__setattr__(self, "people", np.asarray(self.people))
        object.__setattr__(self, "public", public)
        object.__setattr__(self, "truths", truths)
        blind = np.repeat(public.mean(axis=0)[None], len(truths), axis=0)
        if self.blind is not None:
            blind = read_pictures("blind", self.blind)
            if blind.shape != truths.shape:
                raise InvalidArgument(
                    f"'blind' must be one picture for each class, of shape {truths.shape}, got "
                    f"{blind.shape}. Give the mean of public pictures of each class."
                )
        object.__setattr__(self, "blind", blind)

    def play(self, attack: PrototypeAttack, view: LabelOnly) -> PrototypeRecovery:
        """Draw a picture for each class, and have the panel judge it beside the blind guess."""
        drawn = attack.run(view, np.arange(len(self.people)))
        if drawn.shape != self.truths.shape:
            raise InvalidArgument(
                f"'attack' must draw pictures of the shape {self.truths.shape[1:]}, got {drawn.shape[1:]}. "
                f"Give its prior pictures of the same shape."
            )
        blind = np.asarray(self.blind, dtype=np.float64)
        told, guessed = (self.panel.recognize(pictures, self.people) for pictures in (drawn, blind))
        game = RecoveryGame(
            secrets=self.truths,
            blind=blind,
            criterion=Criterion(
                f"every judge of the panel names the right person among {self.panel.people}",
                self._count_misses,
                0.0,
            ),
        )
        recoveries = game.judge(drawn, attack.name, adversary=attack.adversary, draw=_to_picture)
        return PrototypeRecovery(drawn, recoveries, _shares(told), _shares(guessed))

    def _count_misses(self, recovered: Rows, truths: Rows) -> Numbers:
        """How many judges name another person."""
        del truths
        told = self.panel.recognize(np.asarray(recovered, dtype=np.float64), self.people)
        misses: Numbers = len(told) - np.sum(list(told.values()), axis=0)
        return misses


def score_pictures(prototypes: Rows, pictures: Rows, classes: Labels) -> Numbers:
    """How much each picture is like the prototype of its class, compared with the prototypes of all other
    classes.

    Scores for the membership game: a coin decides for each picture of a person whether the model is trained
    on it. A prototype that is nearer to trained pictures than to others of the same person tells about single
    pictures.
    """
    drawn, shown = read_pictures("prototypes", prototypes), read_pictures("pictures", pictures)
    numbers = np.asarray(classes)
    if numbers.shape != (len(shown),) or numbers.dtype.kind not in "iu" or numbers.max() >= len(drawn):
        raise InvalidArgument(
            f"'classes' must be the class of each of {len(shown)} pictures, below {len(drawn)}, got an "
            f"array of shape {numbers.shape} or a larger class. Draw a prototype for every class."
        )
    likeness = correlate_pictures(shown, drawn)
    rows = np.arange(len(shown))
    own = likeness[rows, numbers]
    others = (likeness.sum(axis=1) - own) / max(len(drawn) - 1, 1)
    scores: Numbers = own - others
    return scores


def _shares(told: Mapping[str, Numbers]) -> Mapping[str, float]:
    return {name: float(right.mean()) for name, right in told.items()}


def _to_picture(pixels: Numbers) -> Picture:
    colours_first = pixels.ndim == 3 and pixels.shape[0] in (1, 3)
    return Picture(pixels.transpose(1, 2, 0) if colours_first else pixels)
