"""Attacks of an audit that recover something: told from membership attacks by their names, and run after
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privet.arguments import whole
from privet.attacks.inversion.registry import (
    RECOVERY_ATTACKS,
    NamedRecovery,
    RecoveryKnowledge,
    find_recoveries,
)
from privet.attacks.membership.registry import Means
from privet.errors import InvalidArgument
from privet.pipeline.choosing import AttackChoice, Attacks, choose_attacks
from privet.recoveries import Recoveries
from privet.scores import Challenge

__all__ = ["ATTACKS_THAT_RECOVER", "RecoveryChoice", "plan_attacks", "read_columns"]

ATTACKS_THAT_RECOVER = tuple(RECOVERY_ATTACKS)


@final
@dataclass(frozen=True, eq=False)
class RecoveryChoice:
    """The recoveries of an audit, whose needs are met, and what they are built from."""

    named: tuple[NamedRecovery, ...]
    knowledge: RecoveryKnowledge

    def run(self, challenge: Challenge) -> tuple[Recoveries, ...]:
        """Recover something of every record; the coin is joined to the answer."""
        return tuple(
            attack.make(self.knowledge).run(self.knowledge.view, challenge.members) for attack in self.named
        )


def plan_attacks(
    attacks: Attacks, means: Means, knowledge: RecoveryKnowledge
) -> tuple[AttackChoice, RecoveryChoice]:
    """The attacks on membership and those that recover something; needs that are not met are refused.

    Where only recoveries are named, membership is not attacked.
    """
    wanted: Sequence[object] = (
        attacks if isinstance(attacks, Sequence) and not isinstance(attacks, str) else [attacks]
    )
    names = [entry for entry in wanted if isinstance(entry, str) and entry in RECOVERY_ATTACKS]
    recoveries = RecoveryChoice(find_recoveries(names, knowledge), knowledge)
    if not names:
        return choose_attacks(attacks, means), recoveries
    rest = [entry for entry in wanted if entry not in names]
    return (choose_attacks(rest, means) if rest else AttackChoice((), ())), recoveries  # type: ignore[arg-type]


def read_columns(secret: int | Sequence[int] | None, width: int) -> tuple[int, ...] | None:
    """The columns of a secret attribute as positions, checked against the number of columns."""
    if secret is None:
        return None
    columns = (secret,) if isinstance(secret, int) else tuple(secret)
    if not columns or any(whole("secret", column, least=0) >= width for column in columns):
        raise InvalidArgument(
            f"'secret' must be positions of columns below {width}, got others. Count the columns of the "
            f"inputs from 0."
        )
    return columns
