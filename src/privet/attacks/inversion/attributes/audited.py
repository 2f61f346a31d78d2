"""Attribute inversion as an audit runs it: by the strongest attack that the view allows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.inversion.attributes.attack import AttributeGame
from privet.attacks.inversion.attributes.classical import LabelOnlyInversion
from privet.attacks.inversion.attributes.imputed import ImputedInversion
from privet.attacks.inversion.attributes.knowledge import PublicPeople
from privet.attacks.inversion.attributes.secret import SecretAttribute
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.scores import Bits, Records
from privet.views import BlackBox, LabelOnly

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
        if self.public.labels is None:
            raise InvalidArgument(
                "'public' must have labels for attribute attacks, got none. Give (inputs, labels) of public "
                "people."
            )
        everybody = np.concatenate([self.public.inputs, self.records.inputs])
        people = PublicPeople(
            self.public.inputs,
            self.public.labels,
            SecretAttribute.read(everybody, self.columns, name="the secret attribute"),
            self.seed,
        )
        game = AttributeGame(
            self.records.inputs, self.records.known_labels, members, people, self.records.groups
        )
        attack = ImputedInversion() if isinstance(view, BlackBox) else LabelOnlyInversion(self.seed)
        return attack.run(view, game).recoveries
