"""Which bound is valid for the canaries of a run: it depends on the distribution of the noise.

Gaussian trade-off curves show more than a bound without assumptions. They bound ε at δ only if the run's own
trade-off curve is Gaussian, or lies above every Gaussian curve that touches it. Composed steps of Gaussian
noise are of that shape. With sampled lots they are not, and the error is on the safe side: over sampling
rates from 0.001 to 0.5, noise multipliers from 0.3 to 5 and 1 to 3,000 steps, the Gaussian curve through any
point with a false-positive rate from 10⁻⁴ to ½ has a smaller ε at δ = 10⁻⁵ than the run
(``tests/statistical/test_canary_bounds.py``).

Student's t noise is not: its likelihood ratio is bounded, so its ε hardly grows as δ falls, and that of a
Gaussian curve does. Three degrees of freedom at the noise multiplier ½ have ε = 2.37 at δ = 10⁻⁵; Gaussian
curves show 3.3 for 4,000 canaries, and were above the truth in 9 runs of 9. Such runs are bounded without
curves.
"""

from privet.auditing import Audit, OneRun, OneRunFDP
from privet.caveats import Caveat
from privet.events import BandedNoise, Compose, Event, FixedSize, Gaussian, Poisson, Repeat, TreeNoise
from privet.ledger import Ledger

__all__ = ["choose_canary_bound"]


def choose_canary_bound(ledger: Ledger, confidence: float) -> Audit:
    """Gaussian curves where the ledger says that all noise was Gaussian, and no curves otherwise."""
    return OneRunFDP(confidence) if _is_gaussian(ledger) else OneRun(confidence)


def _is_gaussian(ledger: Ledger) -> bool:
    """Other noise is accounted as Gaussian noise that protects no better, and is marked by these caveats."""
    if ledger.caveats & {Caveat.UNVETTED, Caveat.WORST_OF_CLASS}:
        return False
    return all(_is_gaussian_event(entry.event) for entry in ledger.entries)


def _is_gaussian_event(event: Event) -> bool:
    match event:
        case Gaussian() | TreeNoise() | BandedNoise():
            return True
        case Poisson(inner=inner) | FixedSize(inner=inner) | Repeat(inner=inner):
            return _is_gaussian_event(inner)
        case Compose(parts=parts):
            return all(_is_gaussian_event(part) for part in parts)
        case _:
            return False
