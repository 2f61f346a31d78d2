"""The trade-off curves of Gaussian noise on Poisson samples, over many steps: the curves of DP-SGD itself.

In each of ``steps`` steps a record takes part with probability ``rate``. If it does, it moves one coordinate
by 1, and the coordinate gets normal noise with the standard deviation σ. So a step is the pair

    P = (1 − q) N(0, σ²) + q N(1, σ²)  (the record is in)  and  Q = N(0, σ²)  (it is out),

and a run is the product of all steps. The parameter of the family is 1/σ.

*The family is ordered.* N(·, σ'²) with σ' > σ is N(·, σ²) with more noise on top, so each member is a
post-processing of every member with a larger parameter (Blackwell 1951), and so are products of them.

*Numerics*, which share no code with the accountants. A step is cut into cells, each between two points of
a grid of ln dP/dQ. The mass of a cell moves to its two ends, in such shares that P and Q of the cell stay the
same. A cell is thus a coarser view of its two ends: the pair on the grid tells at least as much as the true
one, and what is refuted for it is refuted for the truth. Sums over the steps are powers of a Fourier
transform, for P and for Q by itself. The far end of P (8.5 standard deviations) moves to +∞.

ε is the only answer that must be rounded the other way. The error of the grid falls with the square of its
step, so ε on the grid minus its change on a grid twice as coarse, which is three times the error, is below
the truth (the tests compare it with the accountant's lower bound).

Reference: Zhu, Dong & Wang 2022 (dominating pairs of sampled Gaussian noise); Doroshenko, Ghazi, Kamath,
Kumar & Manurangsi 2022, "Connect the dots" (the grid). Deviation: the pair keeps its order, "in against out";
the symmetric curve is used only where a theorem asks for one."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np
from scipy.special import ndtr

from privet.arguments import positive, whole
from privet.auditing.audits import check_delta
from privet.auditing.curves import Curves, FloatArray
from privet.errors import InvalidArgument

__all__ = ["SampledGaussianCurves"]

_LARGEST = 12.0  # 1/σ; a larger one is not tested: ε is above 70 there
_FAR = 8.5  # standard deviations
_PER_DEVIATION = 12  # points of the grid in a standard deviation of one step
_MOST_POINTS = 1 << 20
_ROUNDING = 2.0**-52  # of a point of the grid, after the transform
_HALVINGS = 50


class _Pair(NamedTuple):
    """ln dP/dQ of a whole run on a grid, and how likely each value is if the record is in, and if it is not.

    ``certain`` is the probability of +∞ if the record is in.
    """

    losses: FloatArray
    inside: FloatArray
    outside: FloatArray
    certain: float


@final
@dataclass(frozen=True)
class SampledGaussianCurves(Curves):
    """Gaussian noise on Poisson samples, for a rate and a number of steps; the parameter is 1/σ.

    >>> curves = SampledGaussianCurves(rate=0.01, steps=1000)
    >>> round(curves.epsilon(1.0, 1e-5), 2)
    1.83
    """

    rate: float
    steps: int

    largest = _LARGEST
    is_symmetric = False

    def __post_init__(self) -> None:
        if positive("rate", self.rate) > 1:
            raise InvalidArgument(
                f"'rate' must be a probability above 0, got {self.rate!r}. Give that of a record to be in a "
                f"lot."
            )
        whole("steps", self.steps, most=10**8)

    @property
    def shape(self) -> str:
        return (
            f"the mechanism is Gaussian noise on Poisson samples at rate {self.rate:.4g}, {self.steps} steps"
        )

    def members_below(self, parameter: float, others: FloatArray) -> FloatArray:
        below_out, below_in, _ = _cumulative(self.rate, self.steps, _check_signal(parameter))
        return np.interp(others, below_out, below_in)

    def least_false(self, parameter: float, true: float) -> float:
        false_rates, true_rates = _symmetric_curve(self.rate, self.steps, _check_signal(parameter))
        return float(np.interp(true, true_rates, false_rates))

    def false_share(self, parameter: float, mass: FloatArray) -> FloatArray:
        shares, wrong = _easiest_first(self.rate, self.steps, _check_signal(parameter))
        return np.interp(mass, shares, wrong)

    def epsilon(self, parameter: float, delta: float) -> float:
        if check_delta(delta) == 0:
            raise InvalidArgument(
                "'delta' must be above 0 for Gaussian noise, got 0, because at δ = 0 its ε is infinite. "
                "Give the δ of the claim."
            )
        if parameter <= 0:
            return 0.0
        fine, coarse = (
            _epsilon(_compose(self.rate, self.steps, _check_signal(parameter), width), delta)
            for width in (1, 2)
        )
        return max(fine - abs(coarse - fine), 0.0)


def _check_signal(parameter: float) -> float:
    if not 0 < parameter <= _LARGEST:
        raise InvalidArgument(
            f"'parameter' must be above 0 and at most {_LARGEST:g}, got {parameter!r}. Give 1/σ."
        )
    return float(parameter)


@lru_cache(maxsize=256)
def _cumulative(rate: float, steps: int, signal: float) -> tuple[FloatArray, FloatArray, _Pair]:
    """P[loss below] without the record and with it, from 0 to 1; between two points a coin breaks the tie."""
    pair = _compose(rate, steps, signal, 1)
    out, inside = (np.append(0.0, np.cumsum(mass)) for mass in (pair.outside, pair.inside))
    out, inside = np.append(out / out[-1], 1.0), np.append(inside / inside[-1] * (1 - pair.certain), 1.0)
    return out, inside, pair


@lru_cache(maxsize=64)
def _easiest_first(rate: float, steps: int, signal: float) -> tuple[FloatArray, FloatArray]:
    """The share of records with the largest |loss|, and the part of it that a guess by the sign gets wrong.

    Among records of which half are in.
    """
    pair = _cumulative(rate, steps, signal)[2]
    order = np.argsort(-np.abs(pair.losses), kind="stable")
    both = np.append(pair.certain, (pair.inside + pair.outside)[order]) / 2
    wrong = np.append(0.0, np.minimum(pair.inside, pair.outside)[order]) / 2
    shares = np.append(0.0, np.cumsum(both))
    return shares / shares[-1], np.append(0.0, np.cumsum(wrong)) / shares[-1]


@lru_cache(maxsize=64)
def _symmetric_curve(rate: float, steps: int, signal: float) -> tuple[FloatArray, FloatArray]:
    """The least concave curve above the ROC of either order: false and true rates, both rising."""
    out, inside, _ = _cumulative(rate, steps, signal)
    points = np.concatenate(
        [np.column_stack([1 - out, 1 - inside]), np.column_stack([inside, out]), [[0.0, 0.0], [1.0, 1.0]]]
    )
    points = points[np.lexsort((-points[:, 1], points[:, 0]))]
    hull: list[tuple[float, float]] = []
    for x, y in points.tolist():
        while len(hull) > 1 and _is_below(hull[-1], hull[-2], (x, y)):
            hull.pop()
        if not hull or y > hull[-1][1]:
            hull.append((x, y))
    false_rates, true_rates = np.array(hull).T
    return false_rates, true_rates


def _is_below(middle: tuple[float, float], left: tuple[float, float], right: tuple[float, float]) -> bool:
    turn = (middle[0] - left[0]) * (right[1] - left[1]) - (right[0] - left[0]) * (middle[1] - left[1])
    return turn >= 0


@lru_cache(maxsize=8)
def _compose(rate: float, steps: int, signal: float, width: int) -> _Pair:
    """The pair of the whole run, on a grid that is ``width`` times as coarse as the usual one."""
    low, high, step = _grid(rate, steps, signal)
    step *= width
    places, inside, outside, certain = _one_step(rate, signal, step)
    first, last = math.floor(low / step), math.ceil(high / step)
    size = 1 << max(last - first + 1, len(places)).bit_length()
    laws = []
    for mass in (inside, outside):
        ring = np.bincount(places % size, weights=mass, minlength=size)
        powers = np.fft.irfft(np.fft.rfft(ring) ** steps, size)
        laws.append(np.maximum(np.roll(powers, -(first % size)), 0.0))
    grid = (first + np.arange(size)) * step
    used = (laws[0] > 1e-18) | (laws[1] > 1e-18)
    missing = -math.expm1(steps * math.log1p(-certain)) if certain < 1 else 1.0
    return _Pair(grid[used], laws[0][used], laws[1][used], missing)


def _grid(rate: float, steps: int, signal: float) -> tuple[float, float, float]:
    """The lowest and the highest loss of a run that matter, and the step of the grid."""
    deviation = min(rate * signal, rate * math.sqrt(math.expm1(signal * signal)))
    step = min(deviation / _PER_DEVIATION, 0.02)
    step = max(step, (_largest_loss(rate, signal) - _smallest_loss(rate, signal)) / (_MOST_POINTS / 4))
    places, inside, outside, _ = _one_step(rate, signal, step)
    losses = places * step
    (up, above), (down, below) = (
        (steps * float(mass @ losses), math.sqrt(steps * float(mass @ losses**2)))
        for mass in (inside, outside)
    )
    highest = min(steps * float(losses[-1]), up + 9 * above + float(losses[-1]))
    lowest = max(steps * float(losses[0]), down - 9 * below + min(float(losses[0]), 0.0))
    return lowest, highest, max(step, (highest - lowest) / (_MOST_POINTS / 2))


def _one_step(rate: float, signal: float, step: float) -> tuple[np.ndarray, FloatArray, FloatArray, float]:
    """One step on the grid: places, P, Q, and what of P moved to +∞."""
    first = math.floor(_smallest_loss(rate, signal) / step)
    places = np.arange(first, math.ceil(_largest_loss(rate, signal) / step) + 2)
    losses = places * step
    ratios = np.exp(losses)
    ends = _noise_of(losses, rate, signal)
    cells_out = _cells(ends)
    cells_in = (1 - rate) * cells_out + rate * _cells(ends - signal)
    upper = (cells_in - cells_out * ratios[:-1]) / (ratios[1:] - ratios[:-1])
    upper = np.clip(upper, 0.0, cells_out)
    outside = np.append(cells_out - upper, 0.0) + np.append(0.0, upper)
    # What lies below the first point is next to nothing, and stands at the first point; of what lies above
    # the last, Q stands at the last point, and what P has beyond it is certain.
    beyond_out, beyond_in = float(ndtr(-ends[-1])), float(ndtr(signal - ends[-1]))
    outside[0] += float(ndtr(ends[0]))
    outside[-1] += beyond_out
    law = outside * ratios
    certain = max((1 - rate) * beyond_out + rate * beyond_in - beyond_out * float(ratios[-1]), 0.0)
    return places, law, outside, certain


def _largest_loss(rate: float, signal: float) -> float:
    tilt = signal * (signal + _FAR) - signal * signal / 2
    return float(np.logaddexp(math.log(rate) + tilt, math.log1p(-rate) if rate < 1 else -math.inf))


def _smallest_loss(rate: float, signal: float) -> float:
    return math.log1p(-rate) if rate < 1 else -signal * _FAR - signal * signal / 2


def _noise_of(losses: FloatArray, rate: float, signal: float) -> FloatArray:
    """x/σ at which ln dP/dQ of one step has these values; −∞ below its infimum ln(1 − q)."""
    rest = math.log1p(-rate) if rate < 1 else -math.inf
    gap = np.where(losses > rest, -np.expm1(np.minimum(rest - losses, 0.0)), 0.0)
    with np.errstate(divide="ignore"):
        tilt = losses + np.log(gap) - math.log(rate)
    return np.where(gap > 0, (tilt + signal * signal / 2) / signal, -np.inf)


def _cells(ends: FloatArray) -> FloatArray:
    """What a normal law has between neighbours.

    Above 0 from the upper tails: near 1 a difference of shares below would lose what lies far out, and with
    it the largest losses of P.
    """
    upper = ndtr(-ends[:-1]) - ndtr(-ends[1:])
    return np.where(ends[:-1] > 0, upper, np.diff(ndtr(ends)))


def _epsilon(pair: _Pair, delta: float) -> float:
    """The larger ε of the two orders at this δ, from below.

    Mass at +∞ is left out, and δ is larger by what the transform may have rounded: both make ε smaller.
    """
    allowed = delta + _ROUNDING * len(pair.losses)
    first = _one_order(pair.losses, pair.inside, allowed)
    return max(first, _one_order(-pair.losses[::-1], pair.outside[::-1], allowed))


def _one_order(losses: FloatArray, mass: FloatArray, delta: float) -> float:
    """The ε with δ(ε) = Σ mass (1 − exp(ε − loss))₊."""

    def leak_at(epsilon: float) -> float:
        beyond = int(np.searchsorted(losses, epsilon, side="right"))
        return float(mass[beyond:] @ -np.expm1(epsilon - losses[beyond:]))

    if leak_at(0.0) <= delta:
        return 0.0
    low, high = 0.0, float(losses[-1])
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if leak_at(middle) > delta else (low, middle)
    return low
