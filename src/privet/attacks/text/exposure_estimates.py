"""Exposure where the space is too large to list: estimates of a rank, with intervals that hold.

With q as in ``prefix_tree``, the rank of a secret over |R| is π = P[q(S) ≥ q(secret)] for S uniform on R, and
the exposure is −log₂ π. Three ways to find π:

- *Fresh controls*: k of m uniform secrets are at least as likely as the canary. Clopper–Pearson gives an
  exact interval for π. It says nothing above log₂ m bits.
- *A skew normal law* through the controls' ln q, read off in its tail. This is Carlini's extrapolation. It is
  a point estimate: nothing proves that the tail has this shape, so its own error bar would be a fiction.
- *Draws*, half of them as the model writes the format (law q), half uniform (u = 1/|R|), so together of law m
  = (q + u)/2. With t = q(secret), Z = 1{q(S) ≥ t}·max(t, u)/(2m(S)) lies in [0, 1], because m ≥ max(q, u)/2,
  and its mean is max(t, u)·rank/2. So draws give an unbiased estimate of the rank, and Hoeffding's
  inequality in its relative-entropy form, which holds for independent variables of any laws in [0, 1], an
  interval that covers at every number of draws, without any assumption about the tail. Memorised secrets
  are met by the model's own draws, ordinary ones by the uniform draws.

The interval that is reported intersects the first and the third, each at half of the failure probability, and
is cut to [0, log₂ |R|]. Point estimates are moved into it.

*Reference*: Carlini, Liu, Erlingsson, Kos & Song 2019, section 4.3 (approximation by sampling and by a skew
normal); Azzalini & Capitanio 2014, section 2.1 (moments of the skew normal); Hoeffding 1963, Theorem 1.
Deviations: the fit is by moments and not by likelihood; importance sampling and intervals are our own.
"""

import math
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import stats
from scipy.special import log_ndtr

from privet.arguments import open_fraction, whole
from privet.attacks.text.prefix_tree import TIE, check_vocabulary, restrict, score_secrets
from privet.attacks.text.token_views import TokenView
from privet.canary_formats import CanaryFormat
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = [
    "ExposureIntervals",
    "FormatDraws",
    "bound_by_controls",
    "draw_secrets",
    "extrapolate_exposures",
    "to_exposures",
]

_LARGEST_SKEWNESS = 0.99  # the skew normal reaches 0.9953
_HALVINGS = 200


def to_exposures(ranks: Numbers, size: int) -> Numbers:
    """log₂ |R| − log₂ rank, in bits. NaN where the rank is not known.

    >>> to_exposures(np.array([1.0, 512.0]), 1024).tolist()
    [10.0, 1.0]
    """
    answer: Numbers = math.log2(whole("size", size)) - np.log2(np.asarray(ranks, dtype=np.float64))
    return answer


@final
@dataclass(frozen=True, eq=False)
class ExposureIntervals:
    """Exposures in bits: an estimate for each secret, between ``lower`` and ``upper``."""

    estimates: Numbers
    lower: Numbers
    upper: Numbers
    confidence: float

    def __len__(self) -> int:
        return len(self.estimates)


def bound_by_controls(
    own: Numbers, controls: Numbers, *, bits: float, confidence: float = 0.95
) -> ExposureIntervals:
    """Exposures from the number of fresh controls that are at least as likely, with exact intervals.

    The interval of each secret covers with the given probability over the draw of the controls.
    """
    own, controls = _check_scores(own, controls)
    beside = (1 - open_fraction("confidence", confidence)) / 2
    count = len(controls)
    above = count - np.searchsorted(np.sort(controls), own - TIE, side="left")
    with np.errstate(divide="ignore"):
        low = np.where(above == 0, 0.0, stats.beta.ppf(beside, np.maximum(above, 1), count - above + 1))
        high = np.where(above == count, 1.0, stats.beta.isf(beside, above + 1, np.maximum(count - above, 1)))
        estimates = -np.log2((above + 1) / (count + 1))
        return _cut(estimates, -np.log2(high), -np.log2(low), bits, confidence)


def extrapolate_exposures(
    own: Numbers, controls: Numbers, *, bits: float, confidence: float = 0.95
) -> ExposureIntervals:
    """Carlini's extrapolation: the tail of a skew normal law through the controls' scores.

    The estimate is that of the fit, cut to [0, ``bits``] and to the interval of ``bound_by_controls``, which
    is the interval here: beyond the controls its upper end is ``bits``.

    >>> controls = np.random.default_rng(0).normal(-20.0, 2.0, size=2000)
    >>> found = extrapolate_exposures(np.array([-20.0, -10.0]), controls, bits=30.0)
    >>> found.estimates.round().tolist(), found.upper.round().tolist()  # Φ(−5) is 21.7 bits
    ([1.0, 23.0], [1.0, 30.0])
    """
    bounds = bound_by_controls(own, controls, bits=bits, confidence=confidence)
    own, controls = _check_scores(own, controls)
    deviation = float(controls.std())
    if deviation <= TIE:  # no law to fit: all controls are equally likely
        return bounds
    skewness = float(np.clip(stats.skew(controls), -_LARGEST_SKEWNESS, _LARGEST_SKEWNESS))
    # Skewness γ = (4−π)/2·m³/(1−m²)^(3/2) with the mean m = δ√(2/π), solved for δ; α = δ/√(1−δ²).
    root = math.copysign((2 * abs(skewness) / (4 - math.pi)) ** (1 / 3), skewness)
    mean = root / math.sqrt(1 + root * root)
    slant = mean * math.sqrt(math.pi / 2)
    scale = deviation / math.sqrt(1 - mean * mean)
    shape = slant / math.sqrt(max(1 - slant * slant, 1e-12))
    places = (own - (float(controls.mean()) - scale * mean)) / scale
    bits_of_tail = np.array([-_log_tail(float(place), shape) for place in places]) / math.log(2)
    estimates = np.clip(bits_of_tail, bounds.lower, bounds.upper)
    return ExposureIntervals(estimates, bounds.lower, bounds.upper, confidence)


@final
@dataclass(frozen=True, eq=False)
class FormatDraws:
    """Secrets of which half were drawn from the model and half uniformly: ln q of each, and the ``bits`` of
    the format."""

    scores: Numbers
    bits: float

    def bound(self, own: Numbers, *, confidence: float = 0.95) -> ExposureIntervals:
        """Exposures of secrets with these scores, each interval covering with the given probability."""
        level = math.log(2 / (1 - open_fraction("confidence", confidence)))
        uniform = -self.bits * math.log(2)
        mixture = np.logaddexp(self.scores, uniform)  # ln 2m
        estimates, lower, upper = np.empty(len(own)), np.empty(len(own)), np.empty(len(own))
        for place, score in enumerate(np.asarray(own, dtype=np.float64)):
            least = score - TIE  # ties count against the attack
            top = max(least, uniform)
            chosen = self.scores >= least
            weights = np.where(chosen, np.exp(np.minimum(top - mixture, 0.0)), 0.0)
            mean = float(weights.mean())
            ends = _bound_mean(mean, level / len(weights))
            # ln rank = ln 2 + ln E[Z] − top, and the exposure is bits − log₂ rank.
            estimates[place], upper[place], lower[place] = (
                self.bits - 1 + (top - _log(value)) / math.log(2) for value in (mean, *ends)
            )
        return _cut(estimates, lower, upper, self.bits, confidence)


def draw_secrets(
    view: TokenView,
    format: CanaryFormat,
    draws: int,
    *,
    generator: np.random.Generator,
) -> FormatDraws:
    """Draw secrets of the format: half as the model would write them, token by token, and half uniformly."""
    check_vocabulary(view, format)
    half = whole("draws", draws, least=2) // 2
    paths = np.zeros((half, 0), dtype=np.int64)
    scores, rows = np.zeros(half), np.arange(half)
    for place in format.choices:
        distinct, back = np.unique(paths, axis=0, return_inverse=True)
        logs = view.next_logits([np.concatenate([format.prefix, path]) for path in distinct])
        chances = restrict(logs, place)[back.ravel()]
        chosen = np.argmax(chances + generator.gumbel(size=chances.shape), axis=1)
        scores = scores + chances[rows, chosen]
        paths = np.concatenate([paths, place[chosen][:, None]], axis=1)
    uniform = score_secrets(view, format, format.draw(half, generator))
    return FormatDraws(np.concatenate([scores, uniform]), format.bits)


def intersect(one: ExposureIntervals, other: ExposureIntervals, confidence: float) -> ExposureIntervals:
    """Both intervals together, each made at half of the failure probability; ``one`` has the estimate.

    Where they do not meet, which happens with probability below 1 − confidence, the hull is kept.
    """
    lower, upper = np.maximum(one.lower, other.lower), np.minimum(one.upper, other.upper)
    apart = lower > upper
    lower = np.where(apart, np.minimum(one.lower, other.lower), lower)
    upper = np.where(apart, np.maximum(one.upper, other.upper), upper)
    return ExposureIntervals(np.clip(one.estimates, lower, upper), lower, upper, confidence)


def _cut(
    estimates: Numbers, lower: Numbers, upper: Numbers, bits: float, confidence: float
) -> ExposureIntervals:
    low, high = np.clip(lower, 0.0, bits), np.clip(upper, 0.0, bits)
    return ExposureIntervals(np.clip(estimates, low, high), low, high, confidence)


def _check_scores(own: Numbers, controls: Numbers) -> tuple[Numbers, Numbers]:
    own, controls = np.asarray(own, dtype=np.float64), np.asarray(controls, dtype=np.float64)
    if controls.ndim != 1 or len(controls) < 2 or own.ndim != 1:
        raise InvalidArgument(
            f"'controls' must hold the scores of at least two fresh secrets, got an array of shape "
            f"{controls.shape}. Draw some hundred with the format; they cost no training."
        )
    if np.isnan(own).any() or np.isnan(controls).any():
        raise InvalidArgument("'own' and 'controls' must be numbers, got NaN. Look at the model's logits.")
    return own, controls


def _log(value: float) -> float:
    return math.log(value) if value > 0 else -math.inf


def _log_tail(place: float, shape: float) -> float:
    """ln P[X ≥ place] for the standard skew normal, where the probability itself would underflow, too."""
    if place < 1.0:
        return math.log(max(float(stats.skewnorm.sf(place, shape)), 1e-300))
    slope = place * (1 + min(shape, 0.0) ** 2)  # the density falls at least so fast from here on
    steps = np.linspace(0.0, 45.0 / slope, 4001)
    points = place + steps
    logs = math.log(2) - 0.5 * points**2 - 0.5 * math.log(2 * math.pi) + log_ndtr(shape * points)
    top = float(logs.max())
    return top + math.log(float(np.trapezoid(np.exp(logs - top), steps)))


def _bound_mean(mean: float, level: float) -> tuple[float, float]:
    """The means μ of variables in [0, 1] with KL(mean ‖ μ) ≤ level, as an interval; rounded outwards."""

    def divergence(other: float) -> float:
        first = 0.0 if mean == 0 else mean * math.log(mean / other)
        second = 0.0 if mean == 1 else (1 - mean) * (math.log1p(-mean) - math.log1p(-other))
        return first + second

    low, inside = 0.0, mean
    for _ in range(_HALVINGS if mean > 0 else 0):
        # Halving the logarithm finds tiny ends as well.
        middle = math.sqrt(low * inside) if low > 0 else inside * 1e-3
        if not low < middle < inside:
            break
        low, inside = (middle, inside) if divergence(middle) > level else (low, middle)
    high, within = 1.0, mean
    for _ in range(_HALVINGS if mean < 1 else 0):
        middle = 0.5 * (high + within)
        if not within < middle < high:
            break
        high, within = (middle, within) if divergence(middle) > level else (high, middle)
    return low, high
