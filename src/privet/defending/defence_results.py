"""What was measured of one defence: two leaks, their attacks, and the price."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from privet.auditing.proportions import Rate
from privet.defending.defence import NO_PROOF
from privet.errors import InvalidArgument

__all__ = ["DefenceResult"]

_RATES = ("test_accuracy", "tpr_population", "tpr_exposed")


@final
@dataclass(frozen=True, kw_only=True)
class DefenceResult:
    """A defence with its leak and its price.

    ``tpr_population`` and ``tpr_exposed`` are the shares of members that the best attack finds while it calls
    at most ``fpr`` of the others members: among records like all others, and among the kind of canaries that
    is found most. Their intervals hold for all attacks that were tried at once. ``plain_attack_accuracy`` is
    the balanced accuracy of one threshold on the loss, which knows no defence and no reference model: what
    older papers report. ``epsilon_proved`` is None where nothing is proved. ``seconds`` is the processor time
    to train one model.
    """

    name: str
    test_accuracy: Rate
    train_accuracy: float
    tpr_population: Rate
    tpr_exposed: Rate
    exposed_kind: str
    attack_population: str
    attack_exposed: str
    fpr: float
    plain_attack_accuracy: float
    seconds: float
    models: int
    epsilon_proved: float | None = None
    delta: float | None = None

    @property
    def standing(self) -> str:
        """What is proved."""
        if self.epsilon_proved is None:
            return NO_PROOF
        return f"proved: ε ≤ {self.epsilon_proved:.3g} at δ = {self.delta:g}"

    def to_plain(self) -> dict[str, Any]:
        """The result as plain data, with each rate beside its interval."""
        plain = asdict(self)
        for name in _RATES:
            found = Rate(*plain[name])
            plain[name] = found.value
            plain[f"{name}_interval"] = [found.lower, found.upper]
        plain["standing"] = self.standing
        return plain

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> "DefenceResult":
        """The result from ``to_plain``."""
        try:
            fields = {name: plain[name] for name in cls.__dataclass_fields__}
            for name in _RATES:
                lower, upper = plain[f"{name}_interval"]
                fields[name] = Rate(float(fields[name]), float(lower), float(upper))
            return cls(**fields)
        except (KeyError, TypeError, ValueError):
            raise InvalidArgument(
                "'plain' must hold the fields of a defence's result, got something else. "
                "Give what to_plain returned."
            ) from None
