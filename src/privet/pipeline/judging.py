"""Which bound holds canaries of a run against what: a bound must be valid for the law of the noise that the run had.

Curves of normal noise show more than a bound that assumes nothing, and say "ε at δ is at least" only if the run's own trade-off
curve is of their shape, or lies above every normal curve that touches it. Composed steps of normal noise are of that shape. With
sampled lots they are not, and err on the safe side: over sampling rates from 0.001 to 0.5, noise multipliers from 0.3 to 5
and 1 to 3,000 steps, the normal curve through any point with a false-positive rate from 10⁻⁴ to ½ has a smaller ε at δ = 10⁻⁵ than the run
(``tests/statistical/test_canary_judges.py``).

Student's t noise is not: its likelihood ratio is bounded, so its ε hardly grows as δ falls, while that of a normal curve does. Three degrees
of freedom at the noise multiplier ½ have ε = 2.37 at δ = 10⁻⁵; normal curves show 3.3 for 4,000 canaries, and were above the truth in 9 runs
of 9. Such runs are judged without curves.
"""

from privet.auditing import Audit, OneRun, OneRunFDP
from privet.caveats import Caveat
from privet.events import BandedNoise, Compose, Event, FixedSize, Gaussian, Poisson, Repeat, TreeNoise
from privet.ledger import Ledger

__all__ = ["canary_judge"]


def canary_judge(ledger: Ledger, confidence: float) -> Audit:
    """Normal curves where the ledger says that all noise was normal, and no curves otherwise."""
    return OneRunFDP(confidence) if _is_normal(ledger) else OneRun(confidence)


def _is_normal(ledger: Ledger) -> bool:
    """Noise of another law is accounted as normal noise that protects no better, and says so by these caveats."""
    if ledger.caveats & {Caveat.UNVETTED, Caveat.WORST_OF_CLASS}:
        return False
    return all(_is_normal_event(entry.event) for entry in ledger.entries)


def _is_normal_event(event: Event) -> bool:
    match event:
        case Gaussian() | TreeNoise() | BandedNoise():
            return True
        case Poisson(inner=inner) | FixedSize(inner=inner) | Repeat(inner=inner):
            return _is_normal_event(inner)
        case Compose(parts=parts):
            return all(_is_normal_event(part) for part in parts)
        case _:
            return False
