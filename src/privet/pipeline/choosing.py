"""Which attacks are run. The choice is fixed before any score is seen."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from privet.arguments import format_value
from privet.attacks import Attack, Shokri
from privet.attacks.membership.reference_attack import ReferenceAttack
from privet.attacks.membership.registry import ATTACKS, Knowledge, Means, NamedAttack, Need, find_attacks
from privet.attacks.quantities import Quantities
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.scores import References
from privet.views import BlackBox

__all__ = [
    "ATTACKS",
    "AttackChoice",
    "Attacks",
    "choose_attacks",
    "default_names",
    "explain_choice",
    "require_identified",
]

Attacks = str | Attack[Any] | Sequence[str] | Sequence[Attack[Any]] | Sequence[str | Attack[Any]] | None


@final
@dataclass(frozen=True, eq=False)
class AttackChoice:
    """The attacks of an audit: ready ones, and named ones that are built when their knowledge is there."""

    ready: tuple[Attack[Any], ...]
    named: tuple[NamedAttack, ...]
    by_default: bool = False

    def needs(self, need: Need) -> bool:
        """Whether a named attack needs it."""
        return any(need in attack.needs for attack in self.named)

    def build(self, knowledge: Knowledge) -> tuple[Attack[Any], ...]:
        """All attacks, ready to run."""
        return (*self.ready, *(attack.make(knowledge) for attack in self.named))


def choose_attacks(attacks: Attacks, means: Means) -> AttackChoice:
    """The attacks that were asked for, or the default ones.

    An unknown attack, or one whose needs are not met, is refused.
    """
    if attacks is None:
        return AttackChoice((), find_attacks(default_names(means), means), by_default=True)
    wanted: Sequence[object] = [attacks] if isinstance(attacks, str | Attack) else attacks
    ready = tuple(entry for entry in wanted if isinstance(entry, Attack))
    names = [entry for entry in wanted if isinstance(entry, str)]
    if len(ready) + len(names) < len(wanted) or not wanted:
        raise InvalidArgument(
            f"'attacks' must be attacks or names of them, got {format_value(attacks)}. Leave it out to run "
            f"those that fit."
        )
    for attack in ready:
        _require_identified(attack)
    return AttackChoice(ready, find_attacks(names, means) if names else ())


def default_names(means: Means) -> tuple[str, ...]:
    """The attacks that are run where none is named.

    They are few, because the level is divided over them. With references: RMIA and BaVarIA together, and the
    loss to compare them with; without: the loss and modified entropy (of a regression model the loss); where
    only labels are visible: the gap. One rule for every number of references: at 1, 2, 4 and 16 pairs the
    sum, with weights that the references choose, was the best or as good as the best in nearly all cases
    (docs/benchmarks-attacks.md).
    """
    if not isinstance(means.view, BlackBox):
        return ("gap",)
    if means.records.labels is None:
        return ("entropy",)
    if means.references:
        return ("loss", "ensemble")
    return ("loss",) if isinstance(means.view, Quantities) else ("loss", "modified-entropy")


def explain_choice(
    choice: AttackChoice, attacks: Sequence[Attack[Any]], references: bool
) -> tuple[Check, ...]:
    """For a report: which attacks were run by default, and why these; nothing where they were asked for."""
    if not choice.by_default:
        return ()
    names = " and ".join(attack.name for attack in attacks)
    why = (
        "The loss is the floor. RMIA + BaVarIA was the best attack, or as good as the best, in nearly all "
        "cases of our benchmarks, with few reference models and with many; its weights come from them alone."
        if references
        else "They need no reference models. Attacks with reference models find more."
    )
    return (
        Check(
            name="attacks were fixed before any score was seen",
            outcome=Outcome.PASSED,
            finding=f"By default: {names}. {why} The choice depends on what is known, and on no score.",
        ),
    )


def require_identified(references: References, name: str) -> References:
    """The references, or a refusal where it is not known which records they cover: an audit shuffles its
    records.
    """
    if references.hashes is None:
        raise InvalidArgument(
            f"'{name}' must say which records the references cover, got no hashes. An audit shuffles its "
            f"records. Give what study(…) gave, or references.about(records)."
        )
    return references


def _require_identified(attack: Attack[Any]) -> None:
    if isinstance(attack, ReferenceAttack | Shokri):
        require_identified(attack.references, "attacks")
