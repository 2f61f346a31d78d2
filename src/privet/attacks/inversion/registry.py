"""Every attack that recovers something, by its name, with its needs and the function that builds it.

It stands beside the registry of membership attacks. An entry says what it needs (``RecoveryNeed``, each with
its fix), and ``make`` builds the attack from what the auditor knows (``RecoveryKnowledge``). The coin is not
part of the knowledge: it is given to ``run`` last, which joins it to what was recovered. An attack whose
needs are not met is refused before anything runs.

A new attack is one entry of ``_ALL_RECOVERIES``.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, final

from privet.attacks.inversion.attributes.audited import AuditedAttributes
from privet.attacks.inversion.prototypes.audited import AuditedPrototypes
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.scores import Bits, Records
from privet.views import BlackBox, LabelOnly

__all__ = [
    "RECOVERY_ATTACKS",
    "NamedRecovery",
    "RecoveryAttack",
    "RecoveryKnowledge",
    "RecoveryNeed",
    "find_recoveries",
]


class RecoveryAttack(Protocol):
    """An attack that is ready to run."""

    def run(self, view: LabelOnly, members: Bits) -> Recoveries:
        """Recover something of every target; the coin is joined afterwards."""
        ...


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RecoveryKnowledge:
    """What an attack is built from: the view, the targets with their truth, and what is public.

    ``secret`` are the columns of the secret attribute; ``sample_shape`` is the shape of one input, where the
    records are flat rows of pictures. The attack itself must not read the secret of a target: it is there for
    judging.
    """

    view: LabelOnly
    records: Records
    public: Records | None = None
    secret: Sequence[int] | None = None
    sample_shape: tuple[int, ...] | None = None
    seed: int = 0

    @property
    def known_public(self) -> Records:
        """The public records, which a need promised."""
        assert self.public is not None
        return self.public

    @property
    def known_secret(self) -> Sequence[int]:
        """The columns of the secret, which a need promised."""
        assert self.secret is not None
        return self.secret


@final
@dataclass(frozen=True)
class RecoveryNeed:
    """A requirement of an attack: what it is, how to provide it, and whether it is met."""

    what: str
    fix: str
    met: Callable[[RecoveryKnowledge], bool]


SECRET = RecoveryNeed(
    "the columns of a secret attribute",
    "Give secret=…, the positions of its columns in the inputs.",
    lambda known: known.secret is not None,
)
PUBLIC_PEOPLE = RecoveryNeed(
    "public records that the model was not trained on, besides the judged ones",
    "Give public=…, or more nonmembers than members.",
    lambda known: known.public is not None,
)
TARGET_LABELS = RecoveryNeed(
    "the true label of every record", "Give (inputs, labels).", lambda known: known.records.labels is not None
)

CONFIDENCES = RecoveryNeed(
    "a model that shows confidences",
    "Give a model with predict_proba or a torch module.",
    lambda known: isinstance(known.view, BlackBox),
)
PICTURES = RecoveryNeed(
    "records that are pictures",
    "Give pictures in their own shape, or sample_shape=(height, width).",
    lambda known: known.sample_shape is not None or known.records.inputs.ndim >= 3,
)


@final
@dataclass(frozen=True, eq=False)
class NamedRecovery:
    """An attack with its name, its needs, and the function that builds it."""

    name: str
    needs: tuple[RecoveryNeed, ...]
    make: Callable[[RecoveryKnowledge], RecoveryAttack]

    def missing(self, knowledge: RecoveryKnowledge) -> RecoveryNeed | None:
        """The first need that is not met."""
        return next((need for need in self.needs if not need.met(knowledge)), None)


_ALL_RECOVERIES: tuple[NamedRecovery, ...] = (
    NamedRecovery(
        "attributes",
        (SECRET, TARGET_LABELS, PUBLIC_PEOPLE),
        lambda known: AuditedAttributes(known.records, known.known_public, known.known_secret, known.seed),
    ),
    NamedRecovery(
        "prototypes",
        (TARGET_LABELS, PUBLIC_PEOPLE, CONFIDENCES, PICTURES),
        lambda known: AuditedPrototypes(known.records, known.known_public, known.sample_shape, known.seed),
    ),
)
RECOVERY_ATTACKS: dict[str, NamedRecovery] = {attack.name: attack for attack in _ALL_RECOVERIES}


def find_recoveries(names: Iterable[str], knowledge: RecoveryKnowledge) -> tuple[NamedRecovery, ...]:
    """The attacks with these names; one whose needs are not met is refused before anything runs."""
    wanted = list(names)
    if len(set(wanted)) < len(wanted) or any(name not in RECOVERY_ATTACKS for name in wanted):
        raise InvalidArgument(
            f"'attacks' must name some of {', '.join(RECOVERY_ATTACKS)}, each once, got {wanted!r}. Name "
            f"each once."
        )
    for name in wanted:
        missing = RECOVERY_ATTACKS[name].missing(knowledge)
        if missing is not None:
            raise InvalidArgument(
                f"'attacks' names {name}, which needs {missing.what}, and got none. {missing.fix}"
            )
    return tuple(RECOVERY_ATTACKS[name] for name in wanted)
