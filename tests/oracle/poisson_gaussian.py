"""High-precision oracle for the composed Poisson-subsampled Gaussian mechanism.

One step has sampling rate ``q`` and noise multiplier ``sigma``; write ``N_m = N(m, sigma^2)`` and
``w(x) = d((1-q) N_0 + q N_1) / dN_0 = 1 - q + q exp((2x - 1) / (2 sigma^2))``.

* direction ``remove``: P = (1-q) N_0 + q N_1,  Q = N_0,                 loss L =  log w(x)
* direction ``add``:    P = N_0,                Q = (1-q) N_0 + q N_1,   loss L = -log w(x)

and, for the T-fold composition, ``delta(eps) = E_{P^T} (1 - exp(eps - L_1 - ... - L_T))_+``.
All arguments are taken as exactly the numbers passed: ``rate=0.01`` is the *double* 0.01.

Method
------
With ``G(u) = E_{x ~ N_0} w(x)^u`` (an entire function of u) the Mellin inversion of the hockey
stick reads, for both directions,

    delta(eps) = 1/(2 pi i) * integral over an upward path of  e^(A(u)) G(u)^T / (u (u - 1)) du

    remove: A(u) = -(u - 1) eps,  the path crosses the real axis at u0 = 1 + c > 1
    add:    A(u) = u eps,         the path crosses the real axis at u0 = -c < 0

for any c > 0; c is put near the saddle point.

*The u path.*  On a vertical line ``G(u)^T`` may decay hopelessly slowly (w is almost constant with
probability almost one when q is small), so the path is a hyperbola that opens to the right,
``u = u0 + i y + k (sqrt(y^2 + B^2) - B)`` with k < 1, B = max(b, |u0|), and ``y = b sinh v`` with b
the width of the saddle.  There ``G(u) ~ (1-q)^u`` at worst, hence the integrand decays like
``exp(-k Im(u) (eps + T log(1/(1-q))))`` (remove; with -eps for add, where delta = 0 as soon as
eps >= T log(1/(1-q))).  The trapezoid rule in v converges exponentially.

*The x path.*  ``G(u)`` is a Gaussian integral over x.  Its integrand is analytic up to the branch
points w(x) = 0, that is x = x_b +- i pi sigma^2 (2j + 1), x_b = 1/2 + sigma^2 log((1-q)/q).  For
large |u| on the real x axis it is oscillating and huge, so x also runs along a path that is lifted
to ``Im x ~ sigma^2`` left of x_b (there ``w^u`` then decays) and rises with slope m > k right of
x_b (where ``w^u ~ exp(u x / sigma^2)``), staying below the branch point.  The lift is
proportional to arg(u), in ``_LIFTS`` levels.  An entire change of variables (``Axis``) puts nodes
at distances ~ sigma^2 where w^u needs it and ~ sigma elsewhere; the trapezoid rule converges
exponentially again.

*Error control.*  Nothing above is trusted: everything is computed at least twice, with another
crossing point c, other slopes, other step sizes, other truncation points and more digits (each
changes every node of both quadratures), until two successive results agree to ``digits`` digits.
The sum over v ends only where the integrand is negligible and stays so at probes up to the point
where its exponential decay has set in.  Otherwise ``Unresolved`` is raised.

T = 1 and q = 1 have closed forms, which are used (and are used to test the contour method).
Double precision only ever chooses *where* to integrate, never enters a value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from mpmath import mp, mpc, mpf

DIRECTIONS = ("remove", "add")

_LIFTS = 5  # number of x paths between the real axis and the fully lifted one
_MAX_PASSES = 8
_QUIET = 0.3  # length in v of negligible integrand after which to look ahead
_PROBE = 0.25  # spacing in v of that look ahead
_FARTHEST = 200.0  # v at which to give up
_LN10 = math.log(10.0)


class Unresolved(ArithmeticError):
    """The oracle could not certify the requested number of digits."""


@dataclass(frozen=True)
class Step:
    """One step of the mechanism, seen from one direction, and how often it is composed."""

    rate: float
    sigma: float
    steps: int
    direction: str

    @property
    def remove(self) -> bool:
        return self.direction == "remove"

    def crossing(self, c: float) -> float:
        """The point u0 where the path of abscissa c crosses the real axis."""
        return 1.0 + c if self.remove else -c

    def branch_abscissa(self) -> float:
        """Real part x_b of the zeros of w."""
        return 0.5 + self.sigma**2 * (math.log1p(-self.rate) - math.log(self.rate))


@dataclass(frozen=True)
class Tuning:
    """Everything that may change without changing the result."""

    digits: int  # accuracy aimed at by step sizes and truncation
    shift: float  # the path crosses that many saddle widths left of the saddle
    bend: float  # slope k of the u path
    slope: float  # slope m of the x path, > bend
    u_step: float
    x_step: float


def _tuning(index: int, digits: int, steps: int) -> Tuning:
    """The index-th choice: every one finer than, and unrelated to, the one before."""
    accuracy = digits + 6 + 3 * index + math.ceil(math.log10(steps) / 2)
    fineness = 0.75**index / (accuracy * _LN10)
    return Tuning(
        digits=accuracy,
        shift=(0.1, 0.37)[index % 2],
        bend=(0.35, 0.29)[index % 2],
        slope=(0.55, 0.50)[index % 2],
        u_step=min(0.04, 1.6 * fineness),
        x_step=min(0.045, 3.2 * fineness),
    )


# --------------------------------------------------------------------------------------------
# Double precision scouting: where is the mass, where is the saddle point.


def _log_ratio_float(step: Step, x: float) -> tuple[float, float]:
    """log w(x) and the posterior weight r(x) = sigma^2 d/dx log w(x), for real x."""
    z = (2.0 * x - 1.0) / (2.0 * step.sigma**2)
    if z < 30.0:
        value = math.log1p(step.rate * math.expm1(z))
        return value, math.exp(math.log(step.rate) + z - value)
    rest = math.exp(math.log1p(-step.rate) - math.log(step.rate) - z)
    return math.log(step.rate) + z + math.log1p(rest), 1.0 / (1.0 + rest)


def _stationary_points(step: Step, u: float) -> list[float]:
    """The outermost solutions of x = u r(x), the stationary points of phi(x) w(x)^u."""
    if u <= 0.0:  # x - u r(x) is increasing: bisection for the only one
        low, high = u, 0.0
        for _ in range(100):
            middle = 0.5 * (low + high)
            if middle < u * _log_ratio_float(step, middle)[1]:
                low = middle
            else:
                high = middle
        return [high]
    points = []
    for start in (0.0, u):  # r is increasing: both iterations are monotone
        x = start
        for _ in range(300):
            x, last = u * _log_ratio_float(step, x)[1], x
            if abs(x - last) <= 1e-3 * step.sigma:
                break
        points.append(x)
    return points


def _window(step: Step, powers: Sequence[float], cutoff: float) -> tuple[float, float]:
    """An interval of x outside of which phi(x) w(x)^u, u in powers, is below exp(-cutoff) max."""
    sigma = step.sigma

    def height(x: float, u: float) -> float:
        return -x * x / (2.0 * sigma**2) + u * _log_ratio_float(step, x)[0]

    left = right = 0.0
    for u in powers:
        peaks = _stationary_points(step, u)
        top = max(height(x, u) for x in [0.0, *peaks])
        for peak in peaks:
            if height(peak, u) < top - cutoff:
                continue
            for sign in (-1.0, 1.0):
                x = peak
                while height(x, u) > top - cutoff:
                    x += sign * 0.5 * sigma
                left, right = min(left, x), max(right, x)
    return left, right


def _log_moment_float(step: Step, u: float) -> tuple[float, float, float]:
    """log G(u) and its first two derivatives for real u, in double precision."""
    sigma = step.sigma
    left, right = _window(step, (u, 0.0), 45.0)
    count = int((right - left) / min(0.25 * sigma, 0.4 * sigma**2)) + 2
    width = (right - left) / count
    logs, heights = [], []
    for index in range(count + 1):
        x = left + index * width
        value = _log_ratio_float(step, x)[0]
        logs.append(value)
        heights.append(u * value - x * x / (2.0 * sigma**2))
    top = max(heights)
    weights = [math.exp(h - top) for h in heights]
    total = math.fsum(weights)
    mean = math.fsum(w * v for w, v in zip(weights, logs, strict=True)) / total
    var = math.fsum(w * (v - mean) ** 2 for w, v in zip(weights, logs, strict=True)) / total
    return top + math.log(total * width / (sigma * math.sqrt(2.0 * math.pi))), mean, var


@dataclass(frozen=True)
class Saddle:
    """A saddle point estimate: abscissa, epsilon and log delta there, width of the saddle."""

    c: float
    epsilon: float
    log_delta: float
    width: float


def _saddle_at(step: Step, c: float) -> Saddle:
    """The epsilon of which c is the saddle abscissa, with the classical delta estimate."""
    value, slope, curvature = _log_moment_float(step, step.crossing(c))
    sign = 1.0 if step.remove else -1.0
    epsilon = step.steps * sign * slope - 1.0 / c - 1.0 / (1.0 + c)
    second = step.steps * curvature + 1.0 / c**2 + 1.0 / (1.0 + c) ** 2
    exponent = step.steps * value - c * epsilon - math.log(c) - math.log1p(c)
    log_delta = exponent - 0.5 * math.log(2.0 * math.pi * second)
    return Saddle(c, epsilon, log_delta, 1.0 / math.sqrt(second))


def _find_saddle(step: Step, above: Callable[[Saddle], bool]) -> Saddle:
    """Bisection on log c for the saddle where the increasing criterion ``above`` switches.

    Where c would be so large that the far lobe of phi(x) w(x)^u (near x = u, at many sigma)
    matters, c stops short of that: such a lobe is not seen by delta, only by G on the real axis.
    """
    low, high, cap = -30.0, 0.0, _largest_abscissa(step)
    while not above(_saddle_at(step, math.exp(high))):
        if high >= cap:
            return _saddle_at(step, math.exp(cap))
        low, high = high, min(high + 2.0, cap)
        if high > 90.0:
            raise Unresolved("no saddle point found")
    while high - low > 1e-11:
        middle = 0.5 * (low + high)
        if above(_saddle_at(step, math.exp(middle))):
            high = middle
        else:
            low = middle
    return _saddle_at(step, math.exp(high))


def _largest_abscissa(step: Step) -> float:
    """log of the c to stop at; infinite if the far lobe, x ~ 2 x_b, is within reach of P."""
    branch = step.branch_abscissa()
    if not step.remove or 2.0 * branch < 1.0 + 14.0 * step.sigma:
        return math.inf
    square = max(branch**2 - 200.0 * step.sigma**2, 0.36 * branch**2)
    return math.log(branch + math.sqrt(square))


# --------------------------------------------------------------------------------------------
# The transform G(u), in multiple precision.


def exponential_sum(constants: Sequence[mpc], slopes: Sequence[mpc], u: mpc) -> mpc:
    """Sum of exp(constant + u slope): the one hot loop of the oracle."""
    return mp.fsum(mp.exp(g + u * s) for g, s in zip(constants, slopes, strict=True))


ExponentialSum = Callable[[Sequence[mpc], Sequence[mpc], mpc], mpc]


@dataclass(frozen=True)
class Axis:
    """The real parts of the x nodes, xi(v) on a uniform grid of v, with an entire map xi."""

    origin: float
    scale: float
    core: float  # length in v of the part left of the origin where xi(v) has slope ~ scale
    step: float
    first: int
    last: int

    def at(self, index: int) -> tuple[mpf, mpf]:
        """xi and d xi / dv at a node: linear in the core, exponential outside of it."""
        v = index * mpf(self.step)
        grow, fall = mp.exp(v) / 2, mp.exp(-v - self.core) / 2
        return self.origin + self.scale * (v + grow - fall), self.scale * (1 + grow + fall)


def _axis(step: Step, left: float, right: float, reach: float, fine: float) -> Axis:
    """Resolve the Gaussian (scale sigma) everywhere, and scale sigma^2 where w^u varies so fast.

    That is at the branch points and, for |u| up to ``reach``, down to where q e^z ~ 1 / |u|.
    """
    sigma = step.sigma
    if sigma >= 1.0:
        scale = right - left  # makes the map almost linear, with slope 2 scale
        width = min(5.0 * sigma, 4.4 * sigma**2) * fine / (2.0 * scale)
        return _fill(Axis(0.5 * (left + right), scale, 0.0, width, 0, 0), left, right)
    scale = math.pi * sigma**2
    origin = min(max(step.branch_abscissa(), left), right)
    core = min(math.log(max(reach, 1.0)) / math.pi, (origin - left) / scale)
    extent = max(right - origin, origin - core * scale - left)
    width = min(1.0, 16.0 * sigma / extent) * fine
    return _fill(Axis(origin, scale, core, width, 0, 0), left, right)


def _fill(axis: Axis, left: float, right: float) -> Axis:
    """Choose the node range so that it covers [left, right]."""
    first = last = 0
    while axis.at(first)[0] > left:
        first -= 1
    while axis.at(last)[0] < right:
        last += 1
    return replace(axis, first=first, last=last)


@dataclass
class Moment:
    """G(u) = E w(x)^u on the half plane Im u >= 0, by the trapezoid rule on lifted x paths."""

    step: Step
    tuning: Tuning
    u0: float
    reach: float  # bound for the |u| that will be asked for
    sum_exponentials: ExponentialSum = exponential_sum
    _paths: dict[int, tuple[list[mpc], list[mpc]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tuning = self.tuning
        shrink = 1.0 - tuning.slope**2
        cutoff = (tuning.digits + 8 + math.log10(self.step.steps)) * _LN10
        powers = [0.0, self.u0]
        if _window(self.step, powers, cutoff)[1] > self.step.branch_abscissa() and self.u0 > 0.0:
            powers.append(self.u0 / (1.0 - tuning.slope * tuning.bend))
        left, right = (x / math.sqrt(shrink) for x in _window(self.step, powers, cutoff))
        axis = _axis(self.step, left, right, self.reach, tuning.x_step)
        points = [axis.at(index) for index in range(axis.first, axis.last + 1)]
        norm = axis.step / (mpf(self.step.sigma) * mp.sqrt(2 * mp.pi))
        self._points = [(xi, norm * slope) for xi, slope in points]

    def __call__(self, u: mpc) -> mpc:
        lift = self._lift(float(u.real), float(u.imag))
        if lift not in self._paths:
            self._paths[lift] = self._build_path(lift)
        constants, slopes = self._paths[lift]
        return self.sum_exponentials(constants, slopes, u)

    def _lift(self, real: float, imag: float) -> int:
        """Level of the x path, 0 for real u and _LIFTS for u almost imaginary."""
        if real > 0.0:
            part = min(1.0, imag / (real * self.tuning.slope))
        else:
            part = math.atan2(imag, -real) / (math.pi / 2)
        return int(part * _LIFTS + 0.5)

    def _build_path(self, lift: int) -> tuple[list[mpc], list[mpc]]:
        """Nodes x = xi + i y(xi) of one path, as pairs (log weight, log w(x))."""
        step, slope = self.step, self.tuning.slope
        half, part = 1 / (2 * mpf(step.sigma) ** 2), mpf(lift) / _LIFTS
        height = min(0.35 * math.pi * step.sigma**2, 3.0 * step.sigma)
        knee = mpf(max(step.branch_abscissa(), 0.0))
        rounding = mpf(math.pi / 2 * step.sigma * min(2.0, step.sigma))
        base = mp.log(1 - mpf(step.rate))
        odds = mp.log(mpf(step.rate)) - base
        constants, slopes = [], []
        for xi, weight in self._points:
            along = xi - knee
            root = mp.sqrt(along**2 + rounding**2)
            x = mpc(xi, part * (height + slope * (along + root) / 2))
            tilt = mpc(1, part * slope * (1 + along / root) / 2)
            constants.append(mp.log(weight * tilt) - x * x * half)
            slopes.append(base + _log_one_plus_exp((2 * x - 1) * half + odds))
        return constants, slopes


def _log_one_plus_exp(z: mpc) -> mpc:
    """log(1 + e^z), continued analytically along paths that pass below the branch point i pi."""
    if z.real <= 0:
        return mp.log(1 + mp.exp(z))
    return z + mp.log(1 + mp.exp(-z))


# --------------------------------------------------------------------------------------------
# The inversion integral.


@dataclass(frozen=True)
class Inversion:
    """delta(eps) = sum of amplitude * exp(eps * rate), real part; good near one epsilon."""

    amplitudes: list[mpc]
    rates: list[mpc]

    def terms(self, epsilon: mpf) -> list[mpc]:
        return [a * mp.exp(epsilon * r) for a, r in zip(self.amplitudes, self.rates, strict=True)]

    def delta(self, epsilon: mpf) -> mpf:
        return mp.fsum(t.real for t in self.terms(epsilon))

    def delta_and_slope(self, epsilon: mpf) -> tuple[mpf, mpf]:
        terms = self.terms(epsilon)
        slope = mp.fsum((t * r).real for t, r in zip(terms, self.rates, strict=True))
        return mp.fsum(t.real for t in terms), slope

    def lost_digits(self, epsilon: mpf) -> float:
        """Decimal digits lost to cancellation in the sum for delta(eps)."""
        terms = self.terms(epsilon)
        total = abs(mp.fsum(t.real for t in terms))
        size = mp.fsum(abs(t) for t in terms)
        return float(mp.log10(size / total)) if total > 0 else float(mp.dps)


@dataclass(frozen=True)
class Path:
    """The hyperbola in the u plane, parametrised by v >= 0, and the integrand on it."""

    step: Step
    moment: Moment
    u0: mpf
    width: mpf
    knee: mpf
    bend: mpf

    def integrand(self, v: mpf) -> tuple[mpc, mpc]:
        """G(u)^T u'(v) / (2 pi i u (u - 1)), doubled for the other half, and d A(u) / d eps."""
        y = self.width * mp.sinh(v)
        root = mp.sqrt(y**2 + self.knee**2)
        u = mpc(self.u0 + self.bend * (root - self.knee), y)
        speed = self.width * mp.cosh(v) * mpc(1, -self.bend * y / root)  # u'(v) / i
        value = self.moment(u) ** self.step.steps * speed / (mp.pi * u * (u - 1))
        return value, (1 - u if self.step.remove else u)

    def end(self, margin: float, digits: float) -> float:
        """The v where exp(-margin (Re u - u0)) has fallen to 10^-digits."""
        shift = digits * _LN10 / (max(margin, 1e-300) * self.bend)
        return float(mp.asinh(mp.sqrt(shift * (shift + 2 * self.knee)) / self.width))


def _inversion(step: Step, saddle: Saddle, tuning: Tuning, summer: ExponentialSum) -> Inversion:
    """Tabulate the integrand on the hyperbola through the saddle, up to where it is negligible."""
    c = saddle.c - tuning.shift * min(saddle.width, saddle.c)
    u0 = step.crossing(c)
    moment = Moment(step, tuning, u0, _reach(step, saddle, tuning), summer)
    knee = max(saddle.width, abs(u0))
    path = Path(step, moment, mpf(u0), mpf(saddle.width), mpf(knee), mpf(tuning.bend))
    end = path.end(_margin(step, saddle), tuning.digits + 5)

    def size(v: mpf) -> mpf:
        value, rate = path.integrand(v)
        return abs(value * mp.exp(saddle.epsilon * rate))

    amplitudes: list[mpc] = []
    rates: list[mpc] = []
    limit, small, index = mpf(0), 0, 0
    while True:
        v = index * mpf(tuning.u_step)
        value, rate = path.integrand(v)
        amplitudes.append(value * tuning.u_step / (2 if index == 0 else 1))
        rates.append(rate)
        now = abs(value * mp.exp(saddle.epsilon * rate))
        limit = max(limit, now * mpf(10) ** -tuning.digits)
        small = small + 1 if now < limit else 0
        index += 1
        if small * tuning.u_step > _QUIET:  # maybe only a dip: look ahead, coarsely
            probes = (v + _PROBE * j for j in range(1, max(0, int((end - v) / _PROBE)) + 1))
            if all(size(probe) < limit for probe in probes):
                return Inversion(amplitudes, rates)
            small = 0
        if v > _FARTHEST:
            raise Unresolved("the integrand does not decay")


def _margin(step: Step, saddle: Saddle) -> float:
    """Decay rate of the integrand in Re u, once G(u) ~ (1-q)^u."""
    top = -step.steps * math.log1p(-step.rate)
    return top + saddle.epsilon if step.remove else top - saddle.epsilon


def _reach(step: Step, saddle: Saddle, tuning: Tuning) -> float:
    """Estimate of the largest |u| that matters: where exp(-k |u| margin) is negligible."""
    margin = max(_margin(step, saddle), 1e-300)
    return max(tuning.digits * _LN10 / (tuning.bend * margin), 10.0 * saddle.c)


def _work_digits(step: Step, saddle: Saddle, digits: int) -> int:
    """Working precision: room for |u| log w, T-th powers and the passes' extra accuracy."""
    size = max(1.0, saddle.c, 1.0 / saddle.c, abs(saddle.epsilon), 1.0 / step.rate)
    exponent = abs(saddle.c * saddle.epsilon) + 1.0
    return int(digits + 45 + 2 * math.log10(size) + math.log10(step.steps * exponent))


def _agree(first: mpf, second: mpf, digits: int) -> bool:
    return abs(first - second) <= abs(second) * mpf(10) ** -digits


def _repeat(
    step: Step,
    saddle: Saddle,
    digits: int,
    summer: ExponentialSum,
    read: Callable[[Inversion], mpf],
) -> mpf:
    """Repeat with ever finer, shifted quadratures until two results in a row agree.

    ``read`` takes the result from an inversion.  A pass that lost more digits to cancellation
    than it had to spare does not count; the next ones get these digits on top.
    """
    previous: mpf | None = None
    lost = index = 0
    for _ in range(_MAX_PASSES):
        with mp.workdps(_work_digits(step, saddle, digits + lost)):
            inversion = _inversion(step, saddle, _tuning(index, digits + lost, step.steps), summer)
            now_lost = math.ceil(inversion.lost_digits(saddle.epsilon))
            if now_lost > lost + 3:
                lost, index, previous = now_lost, 0, None
                continue
            value = read(inversion)
            if previous is not None and _agree(previous, value, digits):
                return value
            previous = value
            index += 1
    raise Unresolved(f"no agreement to {digits} digits in {_MAX_PASSES} passes")


def _upper_loss(step: Step) -> mpf:
    """Supremum of the composed loss in direction add: T log(1/(1-q))."""
    return -step.steps * mp.log(1 - mpf(step.rate))


def contour_delta(step: Step, epsilon: mpf, digits: int, summer: ExponentialSum = exponential_sum) -> mpf:
    """delta(eps) by the contour method (0 < rate < 1)."""
    with mp.workdps(digits + 30):
        if not step.remove and epsilon >= _upper_loss(step):
            return mpf(0)
        if step.remove and epsilon <= -_upper_loss(step):
            return -mp.expm1(epsilon)
    target = float(epsilon)
    saddle = replace(_find_saddle(step, lambda s: s.epsilon >= target), epsilon=target)

    return _repeat(step, saddle, digits, summer, lambda table: table.delta(mpf(epsilon)))


def contour_epsilon(step: Step, delta: mpf, digits: int, summer: ExponentialSum = exponential_sum) -> mpf:
    """The root of delta(eps) = delta by the contour method; needs delta < delta(0)."""
    guess = _rough_epsilon(step, delta, summer)
    saddle = replace(_find_saddle(step, lambda s: s.epsilon >= guess), epsilon=guess)

    return _repeat(step, saddle, digits, summer, lambda table: _newton(table, mpf(delta), guess))


def _rough_epsilon(step: Step, delta: mpf, summer: ExponentialSum) -> float:
    """The root of delta(eps) = delta to a few digits; needs delta < delta(0).

    A table is truncated for one epsilon and good for larger ones: the search goes downwards.
    """
    target = float(mp.log(delta))
    saddle = _find_saddle(step, lambda s: s.log_delta <= target)
    guess = max(saddle.epsilon, 1e-3 / saddle.c)
    digits = 10
    for _ in range(40):
        saddle = replace(saddle, epsilon=guess)
        with mp.workdps(_work_digits(step, saddle, digits)):
            table = _inversion(step, saddle, _tuning(0, digits, step.steps), summer)
            root = _bisect(table, delta, mpf(guess))
            lost = table.lost_digits(root)
        if lost > digits - 6:
            digits = math.ceil(lost) + 10
        elif root > 0.95 * guess:
            return float(root)
        else:
            guess = float(root)
    raise Unresolved("no rough estimate of epsilon")


def _bisect(table: Inversion, delta: mpf, high: mpf) -> mpf:
    """The epsilon where the table's delta(eps) falls below delta, to 10 digits."""
    low = mpf(0)
    while table.delta(high) > delta:
        low, high = high, 2 * high
        if high > mpf("1e60"):
            raise Unresolved("delta(eps) does not fall below delta")
    while high - low > mpf("1e-10") * high:
        if high < mpf("1e-60"):
            raise Unresolved("delta is not below delta(0)")
        middle = (low + high) / 2
        if table.delta(middle) > delta:
            low = middle
        else:
            high = middle
    return high


def _newton(inversion: Inversion, delta: mpf, start: float) -> mpf:
    """Newton's iteration on log delta(eps), kept in a bracket (delta may be almost flat)."""
    epsilon, low, high = mpf(start), mpf(0), mp.inf
    tolerance = mpf(10) ** -(mp.dps - 12)
    for _ in range(200):
        value, slope = inversion.delta_and_slope(epsilon)
        if value > delta:
            low = epsilon
        else:
            high = epsilon
        new = low
        if value > 0 and slope < 0:
            new = epsilon - mp.log(value / delta) * value / slope
        if abs(new - epsilon) <= tolerance * abs(new):
            return new
        if abs(new - epsilon) <= mpf(10) ** -(mp.dps // 2) * abs(new):
            tolerance = mpf(10) ** -(mp.dps // 2)  # quadratic convergence: one more is enough
        elif not low < new < high:
            new = 2 * epsilon if mp.isinf(high) else (low + high) / 2
        epsilon = new
    raise Unresolved("Newton's iteration did not converge")


# --------------------------------------------------------------------------------------------
# Closed forms.


def _gaussian_delta(mu: mpf, epsilon: mpf) -> mpf:
    """delta(eps) of N(mu, 1) against N(0, 1)."""
    upper = mp.ncdf(mu / 2 - epsilon / mu)
    return upper - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def closed_delta(step: Step, epsilon: mpf, digits: int) -> mpf:
    """delta(eps) in closed form, for rate = 1 or steps = 1."""
    with mp.workdps(2 * digits + 60):
        q, epsilon = mpf(step.rate), mpf(epsilon)
        mu = mp.sqrt(step.steps) / mpf(step.sigma)
        if step.rate == 1:
            return _gaussian_delta(mu, epsilon)
        if step.remove:
            odds = (mp.expm1(epsilon) + q) / q
            return q * _gaussian_delta(mu, mp.log(odds)) if odds > 0 else -mp.expm1(epsilon)
        rest = 1 - mp.exp(epsilon) * (1 - q)
        if rest <= 0:
            return mpf(0)
        return rest * _gaussian_delta(mu, epsilon + mp.log(q / rest))


def closed_epsilon(step: Step, delta: mpf, digits: int) -> mpf:
    """Root of the closed form by bracketing (false position, Illinois), then bisection checks."""
    with mp.workdps(digits + 20):
        goal = mp.log(delta)

        def excess(epsilon: mpf) -> mpf:
            value = closed_delta(step, epsilon, digits)
            return mp.log(value) - goal if value > 0 else mpf("-1e30")

        high = mpf(1)
        if not step.remove and step.rate < 1:
            high = _upper_loss(step)
        else:
            while excess(high) > 0:
                high *= 2
        low = high
        while excess(low) <= 0:
            high, low = low, low / 2
            if low < mpf("1e-300"):
                raise Unresolved("epsilon is closer to zero than 1e-300")
        return _bracketed_root(excess, low, high, digits)


def _bracketed_root(f: Callable[[mpf], mpf], low: mpf, high: mpf, digits: int) -> mpf:
    """Illinois false position for a decreasing f with f(low) > 0 >= f(high)."""
    f_low, f_high = f(low), f(high)
    tolerance = mpf(10) ** -(digits + 5)
    for iteration in range(2000):
        if high - low <= tolerance * high:
            return (low + high) / 2
        middle = high - f_high * (high - low) / (f_high - f_low)
        if iteration % 3 == 2 or not low < middle < high:
            middle = (low + high) / 2
        elif iteration % 3 == 1:  # step across the root, so that both ends close in
            nudge = tolerance * high / 4
            middle += nudge if abs(f_low) < abs(f_high) else -nudge
        value = f(middle)
        if value > 0:
            low, f_low = middle, value
        else:
            high, f_high = middle, value
    raise Unresolved("bracketing did not converge")


# --------------------------------------------------------------------------------------------
# Public interface.


def _check(rate: float, noise_multiplier: float, steps: int) -> None:
    if not 0 < rate <= 1:
        raise ValueError("rate must be in (0, 1]")
    if not noise_multiplier > 0:
        raise ValueError("noise_multiplier must be positive")
    if steps < 1 or steps != int(steps):
        raise ValueError("steps must be a positive integer")


def delta(
    *,
    rate: float,
    noise_multiplier: float,
    steps: int,
    epsilon: float | mpf,
    direction: str,
    digits: int = 30,
    summer: ExponentialSum = exponential_sum,
) -> mpf:
    """delta(eps) of the composition in one direction, to ``digits`` significant digits."""
    _check(rate, noise_multiplier, steps)
    if direction not in DIRECTIONS:
        raise ValueError(f"direction must be one of {DIRECTIONS}")
    step = Step(float(rate), float(noise_multiplier), int(steps), direction)
    if rate == 1 or steps == 1:
        return closed_delta(step, epsilon, digits)
    return contour_delta(step, epsilon, digits, summer)


def binding_epsilon(
    *,
    rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float | mpf,
    digits: int = 30,
    summer: ExponentialSum = exponential_sum,
) -> tuple[mpf, str]:
    """Smallest eps >= 0 with delta(eps) <= delta in both directions, and the binding direction.

    Ties (rate = 1, and epsilon = 0: delta(0) is the total variation distance, the same in both
    directions) are reported as "remove".
    """
    _check(rate, noise_multiplier, steps)
    if not 0 < delta < 1:
        raise ValueError("delta must be in (0, 1)")
    remove, add = (Step(float(rate), float(noise_multiplier), int(steps), d) for d in DIRECTIONS)
    if rate == 1 or steps == 1:
        evaluate, solve = closed_delta, closed_epsilon
    else:
        evaluate = partial(contour_delta, summer=summer)
        solve = partial(contour_epsilon, summer=summer)
    surely_positive = _total_variation_bound(remove) > delta * (1 + 1e-6)
    if not surely_positive and not _exceeds(evaluate, remove, mpf(0), delta, digits):
        return mpf(0), "remove"
    first = solve(remove, delta, digits)
    if rate == 1 or not _exceeds(evaluate, add, first, delta, digits):
        return first, "remove"
    second = solve(add, delta, digits)
    return (second, "add") if second > first else (first, "remove")


def _total_variation_bound(step: Step) -> float:
    """Lower bound 1 - (E sqrt(w))^T for delta(0) = 1 - E min(1, w_1 ... w_T)."""
    if step.rate == 1:
        return 0.0
    return -math.expm1(step.steps * _log_moment_float(step, 0.5)[0])


def _exceeds(
    evaluate: Callable[[Step, mpf, int], mpf], step: Step, epsilon: mpf, delta: mpf, digits: int
) -> bool:
    """Whether delta(epsilon) > delta; with few digits first, which nearly always decide."""
    rough = evaluate(step, epsilon, 8)
    if abs(rough - delta) > 1e-6 * delta:
        return rough > delta
    return evaluate(step, epsilon, digits) > delta


def epsilon(
    *,
    rate: float,
    noise_multiplier: float,
    steps: int,
    delta: float | mpf,
    digits: int = 30,
) -> mpf:
    """Smallest eps >= 0 with delta(eps) <= delta in both directions, to ``digits`` digits."""
    return binding_epsilon(
        rate=rate, noise_multiplier=noise_multiplier, steps=steps, delta=delta, digits=digits
    )[0]
