"""What a comparison of defences found: the figures of each defence, as plain values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privet.auditing import Rate
from privet.errors import InvalidArgument
from privet.reporting.facts import Origin

__all__ = ["WITHOUT_DEFENCE", "ComparedDefence", "ComparisonContent"]

WITHOUT_DEFENCE = "none"  # the name of the training as it is


@final
@dataclass(frozen=True, kw_only=True)
class ComparedDefence:
    """The price of one defence, and what attacks that know it still find.

    ``tpr_population`` is the share of members that the best attack finds, over the population;
    ``tpr_exposed`` the same over the most exposed records. Both are at the false-positive rate of the
    comparison. ``epsilon_proved`` is None where nothing is proved, as for every empirical defence.
    ``seconds`` is the time to train one model.
    """

    name: str
    test_accuracy: Rate
    tpr_population: Rate
    tpr_exposed: Rate
    epsilon_proved: float | None = None
    delta: float | None = None
    seconds: float = 0.0
    attack_population: str = ""
    attack_exposed: str = ""

    def __post_init__(self) -> None:
        if (self.epsilon_proved is None) != (self.delta is None):
            raise InvalidArgument(
                "'epsilon_proved' and 'delta' must be given together, got one of them. Give both or neither."
            )

    @property
    def proved(self) -> bool:
        """Whether a proof bounds every attack."""
        return self.epsilon_proved is not None


@dataclass(frozen=True, kw_only=True, eq=False)
class ComparisonContent:
    """Several defences, measured on the same records at the same false-positive rate.

    ``confidence`` is that of all intervals together. ``accuracy_loss`` is the largest loss of test accuracy
    that is acceptable, against the most accurate model; the recommendation depends on it.
    """

    defences: Sequence[ComparedDefence]
    fpr: float
    confidence: float
    accuracy_loss: float
    records: int
    exposed: int
    references: int
    origin: Origin
    title: str = "Defences compared"

    def __post_init__(self) -> None:
        object.__setattr__(self, "defences", tuple(self.defences))
        if len(self.defences) < 2:
            raise InvalidArgument(
                f"'defences' must hold two or more, got {len(self.defences)}. Compare with a model that has "
                "no defence."
            )
        names = [defence.name for defence in self.defences]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidArgument(
                f"'defences' must have names that differ, got {twice!r} twice. Name each defence."
            )
