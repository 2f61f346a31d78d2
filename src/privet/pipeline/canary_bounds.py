"""Which bound is valid for the canaries of a run: it depends on the noise, and on whether canaries interfere.

*Other noise than normal*: ``OneRun``, which assumes no trade-off curve. Student's t noise shows why: its
likelihood ratio is bounded, so its ε hardly grows as δ falls, and that of a Gaussian curve does. Three
degrees of freedom at the noise multiplier ½ have ε = 2.37 at δ = 10⁻⁵; Gaussian curves show 3.3 for 4,000
canaries, and were above the truth in 9 runs of 9.

*Normal noise, and canaries that do not interfere* (``CanaryResults.independent``): ``WeightedRanks``. Its
curves are those of the run itself, Gaussian noise on Poisson samples at the rate and the number of steps of
the ledger, with an unknown amount of noise; or Gaussian curves where nothing was sampled. The weights are
those for the noise of the ledger. If the run did what its ledger says, its curve is in the family, and the
bound is above the truth in at most 1 − confidence of all runs. If the canaries show more than the ledger's
own member of the family allows, then the run did not do what its ledger says, whatever it did. A run that was
stopped early chose its number of steps in view of the weights; it is not such a run.

*Normal noise otherwise*, such as mislabelled records: ``OneRunFDP`` with Gaussian curves, which holds however
canaries interfere. With sampled lots the run's curve is not Gaussian, and the error is on the safe side: over
sampling rates from 0.001 to 0.5, noise multipliers from 0.3 to 5 and 1 to 3,000 steps, the Gaussian curve
through any point with a false-positive rate from 10⁻⁴ to ½ has a smaller ε at δ = 10⁻⁵ than the run
(``tests/statistical/test_canary_bounds.py``).
"""

import math

from privet.auditing import Audit, GaussianCurves, OneRun, OneRunFDP, SampledGaussianCurves, WeightedRanks
from privet.caveats import Caveat
from privet.events import BandedNoise, Compose, Event, FixedSize, Gaussian, Poisson, Repeat, TreeNoise
from privet.ledger import Ledger

__all__ = ["choose_canary_bound"]


def choose_canary_bound(ledger: Ledger, confidence: float, *, independent: bool = False) -> Audit:
    """The bound that shows most among those that are valid for this ledger.

    ``independent`` says that the canaries do not interfere.
    """
    if not _is_gaussian(ledger):
        return OneRun(confidence)
    if independent and Caveat.STOPPED_EARLY not in ledger.caveats and len(ledger.entries) == 1:
        found = _weighted_ranks(ledger.entries[0].event, confidence)
        if found is not None:
            return found
    return OneRunFDP(confidence)


def _weighted_ranks(event: Event, confidence: float) -> WeightedRanks | None:
    """Weighted ranks over the curves of this event; None where these are not known."""
    inner, steps = (event.inner, event.times) if isinstance(event, Repeat) else (event, 1)
    match inner:
        case Poisson(rate=rate, inner=Gaussian(noise_multiplier=noise)):
            curves = SampledGaussianCurves(rate, steps)
            return WeightedRanks(confidence, curves, min(1 / noise, curves.largest))
        case Gaussian(noise_multiplier=noise):
            expected = min(math.sqrt(steps) / noise, GaussianCurves.largest)
            return WeightedRanks(confidence, GaussianCurves(), expected)
        case TreeNoise() | BandedNoise():
            return WeightedRanks(confidence)
        case _:
            return None


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
