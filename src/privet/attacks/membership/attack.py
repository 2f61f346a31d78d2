"""What an attack is: from a view of the target and records to one score for each record.

Higher = more likely a member.

``score`` gets the records without the coin that decided which of them were trained on. ``run`` narrows the
view to what the attack's adversary sees, calls ``score``, and joins the coin afterwards. So no attack can be
tuned on the membership to guess.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar, cast, final

import numpy as np

from privet.errors import InvalidArgument
from privet.scores import Challenge, Records, Scores
from privet.views import Adversary, LabelOnly, Numbers, narrow_view

__all__ = ["Attack", "Sight"]

Sight = TypeVar("Sight", bound=LabelOnly)  # the view that the adversary has


class Attack(ABC, Generic[Sight]):
    """One adversary and their score.

    The adversary's knowledge (reference models, public records) is in the fields. ``is_calibrated`` says that
    it compares the target with other models or with a regression. Reports call the other attacks weak.
    """

    is_calibrated: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @property
    @abstractmethod
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""

    @property
    @abstractmethod
    def sees(self) -> type[LabelOnly]:
        """The type of view that the adversary has; a wider view is narrowed to it."""

    @abstractmethod
    def score(self, view: Sight, records: Records) -> Numbers:
        """One score for each record, higher = more likely a member. The coin is not among the arguments."""

    @final
    def run(self, view: LabelOnly, challenge: Challenge) -> Scores:
        """Play the membership game: score every record, and join the coin."""
        narrow = cast(Sight, narrow_view(view, self.sees))
        values = np.asarray(self.score(narrow, challenge.records), dtype=np.float64)
        if values.shape != (len(challenge.records),):
            raise InvalidArgument(
                f"'score' must give one number for each of {len(challenge.records)} records, got an array of "
                f"shape {values.shape} from {self.name}. Let the attack score every record."
            )
        if np.isnan(values).any():
            raise InvalidArgument(
                f"'score' must give numbers, got NaN from {self.name}. Look for records that hold NaN, or "
                f"for a model that answers NaN to them."
            )
        return challenge.join_coin(values, self.name)
