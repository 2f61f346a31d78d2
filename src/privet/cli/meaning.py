"""What a guarantee means for a person, as numbers: the ceilings on attacks and the beliefs of a reader."""

from dataclasses import dataclass
from typing import final

from privet.beliefs import KeptLoss
from privet.bounds import Interval
from privet.guarantees import Guarantee

__all__ = ["FALSE_ALARMS", "PRIORS", "Meaning", "meaning_of"]

FALSE_ALARMS = (1e-4, 1e-3, 1e-2)
PRIORS = (0.01, 0.1, 0.5)


@final
@dataclass(frozen=True)
class Meaning:
    """Bounds on every attack, and on the belief of every reader, with the probability that a belief exceeds
    them.
    """

    tpr: tuple[tuple[float, float], ...]
    posterior: tuple[tuple[float, Interval], ...]
    kept: KeptLoss
    advantage: float


def meaning_of(guarantee: Guarantee, delta: float) -> Meaning:
    """The meaning at the false-alarm rates and priors that are always shown."""
    kept = guarantee.kept_loss(delta=delta)
    return Meaning(
        tpr=tuple((fpr, guarantee.tpr(fpr=fpr)) for fpr in FALSE_ALARMS),
        posterior=tuple((prior, kept.posterior(prior)) for prior in PRIORS),
        kept=kept,
        advantage=guarantee.advantage(),
    )
