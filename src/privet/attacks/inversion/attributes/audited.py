"""Attribute inversion as an audit runs it: by the strongest attack that the view allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.inversion.attributes.answers import PredictedNumbers
from privet.attacks.inversion.attributes.attack import AttributeGame
from privet.attacks.inversion.attributes.classical import LabelOnlyInversion
from privet.attacks.inversion.attributes.imputed import ImputedInversion
from privet.attacks.inversion.attributes.knowledge import PublicPeople
from privet.attacks.inversion.attributes.secret import SecretAttribute
from privet.attacks.quantities import Quantities, features_of, targets_of
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.scores import Bits, Records
from privet.views import BlackBox, LabelOnly, Rows

__all__ = ["AuditedAttributes"]


@final
@dataclass(frozen=True, eq=False)
class AuditedAttributes:
    """Recovers the secret columns of every record.

    With confidences it is ``ImputedInversion``, with labels alone ``LabelOnlyInversion``. The values that a
    secret can take count as public: those of public people and of the records that are judged.
    """

    records: Records
    public: Records
    columns: Sequence[int]
    seed: int = 0

    def run(self, view: LabelOnly, members: Bits) -> Recoveries:
        """Recover the secret of every record; the coin is joined afterwards."""
        inputs, labels = self._split(view, self.records)
        others, their_labels = self._split(view, self.public)
        secret = SecretAttribute.read(
            np.concatenate([others, inputs]), self.columns, name="the secret attribute"
        )
        people = PublicPeople(others, their_labels, secret, self.seed)
        game = AttributeGame(inputs, labels, members, people, self.records.groups)
        if isinstance(view, Quantities):
            return ImputedInversion().run(PredictedNumbers(view.function), game).recoveries
        attack = ImputedInversion() if isinstance(view, BlackBox) else LabelOnlyInversion(self.seed)
        return attack.run(view, game).recoveries

    @staticmethod
    def _split(view: LabelOnly, records: Records) -> tuple[Rows, NDArray[Any]]:
        """The inputs, and the labels or, for a regression model, the true quantities."""
        if isinstance(view, Quantities):
            return features_of(records.inputs), targets_of(records.inputs)
        if records.labels is None:
            raise InvalidArgument(
                "'public' must have labels for attribute attacks, got none. Give (inputs, labels) of public "
                "people."
            )
        return records.inputs, records.labels
