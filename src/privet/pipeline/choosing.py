"""Which attacks are run: those that what is there allows, fixed before any score is seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from privet.arguments import shown
from privet.attacks import Attack, Shokri
from privet.attacks.membership.referenced import ReferenceAttack
from privet.attacks.membership.registry import ATTACKS, Knowledge, Means, NamedAttack, Need, attacks_named
from privet.errors import InvalidArgument
from privet.scores import References
from privet.views import BlackBox

__all__ = ["ATTACKS", "AttackChoice", "Attacks", "choose_attacks", "usual_names"]

Attacks = str | Attack[Any] | Sequence[str] | Sequence[Attack[Any]] | Sequence[str | Attack[Any]] | None


@final
@dataclass(frozen=True, eq=False)
class AttackChoice:
    """Attacks that will be run: those that were given ready, then those that are made when their knowledge is there."""

    ready: tuple[Attack[Any], ...]
    named: tuple[NamedAttack, ...]

    def needs(self, need: Need) -> bool:
        """Whether a named attack needs it."""
        return any(need in one.needs for one in self.named)

    def made(self, knowledge: Knowledge) -> tuple[Attack[Any], ...]:
        """All attacks, ready to run."""
        return (*self.ready, *(one.make(knowledge) for one in self.named))


def choose_attacks(attacks: Attacks, means: Means) -> AttackChoice:
    """The attacks that were asked for, or those that fit. What is unknown, or lacks what it needs, is refused."""
    if attacks is None:
        return AttackChoice((), attacks_named(usual_names(means), means))
    asked: Sequence[object] = [attacks] if isinstance(attacks, str | Attack) else attacks
    ready = tuple(one for one in asked if isinstance(one, Attack))
    names = [one for one in asked if isinstance(one, str)]
    if len(ready) + len(names) < len(asked) or not asked:
        raise InvalidArgument(
            f"'attacks' must be attacks or names of them, got {shown(attacks)}. Leave it out to run those that fit."
        )
    for one in ready:
        _refuse_unplaced(one)
    return AttackChoice(ready, attacks_named(names, means) if names else ())


def usual_names(means: Means) -> tuple[str, ...]:
    """What is run where nothing is named.

    Few on purpose: the level is shared out over them. With references RMIA, LiRA and the loss that they are held against;
    without, the loss and modified entropy; where only labels are seen, the gap.
    """
    if not isinstance(means.view, BlackBox):
        return ("gap",)
    if means.records.labels is None:
        return ("entropy",)
    return ("loss", "lira", "rmia") if means.references else ("loss", "modified-entropy")


def placed(references: References, name: str) -> References:
    """The references, or a refusal where nobody can tell which records they are about: an audit mixes its records."""
    if references.hashes is None:
        raise InvalidArgument(
            f"'{name}' must say which records the references tell of, got none. An audit puts records in an order of its "
            f"own. Give what study(…) gave, or references.about(records)."
        )
    return references


def _refuse_unplaced(attack: Attack[Any]) -> None:
    if isinstance(attack, ReferenceAttack | Shokri):
        placed(attack.references, "attacks")
