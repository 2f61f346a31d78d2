"""What a privacy filter adds up, and the proof that it is one.

*Setting.* An analyst asks questions. The next question, and when to stop, may depend on all earlier answers
and on the analyst's own coins. Lᵢ is the privacy loss of answer i for one order of neighbours, L_T the sum up
to the end T, P the law of the answers on the first neighbour. All answers are (ε, δ)-DP if
E[(1 − exp(ε − L_T))₊] ≤ δ under P, for both orders. The event i depends on earlier answers only. So its cost
is known before its answer: it is *predictable*. The sums below are kept for both orders, and both must be
permitted. Adjacency: that of the ledger.

*Losses without a bound.* With probability dᵢ answer i has an infinite loss. If Σdᵢ ≤ d for every sequence of
answers, some loss is infinite with probability at most d (a union bound over predictable dᵢ). Below, L is
finite and δ stands for δ − d. The share d is fixed beforehand. A rule like "Σdᵢ + cost of the moments ≤ δ" is
not a filter: after some answers an analyst could spend the dᵢ, and after others the moments.

*Basic* (Rogers, Roth, Ullman & Vadhan 2016). If Σεᵢ ≤ ε, where no loss of event i exceeds εᵢ, then L_T ≤ ε.

*Rényi, at a fixed order 1 + c* (Feldman & Zrnic 2021, Theorem 3.1; Lécuyer 2021; with infinite losses
Whitehouse, Ramdas, Rogers & Wu 2023, Theorem 1). Let kᵢ ≥ ln E[exp(c Lᵢ)] for event i, whatever came before.
M_t = exp(Σ (c Lᵢ − kᵢ)) is a supermartingale with M_0 = 1, so E[M_T] ≤ 1 for every rule to stop. Pointwise (1
− exp(ε − ℓ))₊ ≤ exp(c (ℓ − ε)) c^c/(1 + c)^(1+c), the step of Canonne, Kamath & Steinke 2020, Proposition 12.
Hence if K = Σkᵢ at the end satisfies K ≤ c ε + ln δ + ln((1 + c)^(1+c)/c^c), the integrand is at most δ M_T,
and its mean at most δ. The order is fixed before the first answer. The smallest bound over several orders is
not a filter.

*Gaussian* (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023). Let event i be μᵢ-GDP and u(x, v) = E[(1
− exp(ε − x − G))₊], G the loss N(v/2, v) of a Gaussian pair with μ² = v. E[u(x + Lᵢ, v − μᵢ²)] is the
hockey-stick divergence, at ε − x, of event i together with a Gaussian of v − μᵢ²; putting the Gaussian that
dominates event i in its place only raises it (Dong, Roth & Su 2022, Theorem 2.10), to u(x, v). So u(L_t, μ² −
Σμᵢ²) is a supermartingale as long as Σμᵢ² ≤ μ², it is at least the integrand at the end, and it starts at the
δ of one Gaussian with μ. An ε-DP event is μ-GDP with Φ(μ/2) = 1/(1 + exp(−ε)): the trade-off curve of
randomised response has its one corner on that of the Gaussian.

*Two at once.* "Basic or Rényi" and "basic or Gaussian" are filters with the same δ, although "either of two
filters" is not a filter in general. If the run ends with Σεᵢ ≤ ε, the integrand is 0. Otherwise it is bounded
as above, with all events counted.

*Interactive events* such as the sparse vector may be interleaved with others: filters for answers given at
once extend to them (Haney et al. 2023, for (ε, δ), f-DP and Rényi DP of a fixed order).

Deviations: the papers do not have the union with basic composition; its proof is the paragraph above.
Concentrated DP at the same order never permits more than the Rényi filter, because kᵢ ≤ c (c + 1) ρᵢ; so
there is no filter of its own for it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, NamedTuple, final

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtri_exp

from privet import events
from privet.accounting.atoms import gaussian_pair, lattice_shift
from privet.accounting.composed import epsilon_bounds
from privet.accounting.contour import chernoff_peak
from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.fold import Accountant, fold
from privet.accounting.normal import gaussian_delta
from privet.accounting.pairs import GaussianPair, LaplacePair, Pair
from privet.accounting.privacy_loss import PrivacyLoss
from privet.accounting.renyi import check_moments
from privet.adjacency import Adjacency
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Event
from privet.filters import BasicFilter, Filter, GaussianFilter, RenyiFilter
from privet.guarantees import Curve, PairCurve

__all__ = ["Filtered", "Spending", "Used", "choose_filter", "renyi_filter"]

_UP = 1 + 1e-9  # a factor on every moment: far more than the round-off of its quadrature rule
_TINY = 1e-15
_LARGEST_EXPONENT = 600.0  # exp of it is a float
_CLAIMS_FIRST, _CLAIMS_LATER = (
    0.5,
    0.1,
)  # the share of δ for claims: if the first request has claims, and if it has none


class Used(NamedTuple):
    """The sums for one order of neighbours: the filter's measure, P[loss = ∞], the largest finite loss."""

    measure: float
    infinity: float
    largest: float

    def times(self, count: int) -> "Used":
        return Used(
            count * self.measure, count * self.infinity, count * self.largest if self.largest else 0.0
        )


Spending = tuple[Used, Used]

_NOTHING = Used(0.0, 0.0, 0.0)


@final
@dataclass(frozen=True)
class Filtered(Accountant[Spending]):
    """A filter as an accountant: it adds up costs, and says whether they are permitted and how much is left.

    >>> from privet.adjacency import AddRemove
    >>> ledger_filter = Filtered(renyi_filter(epsilon=1.0, delta=1e-5))
    >>> counts = fold(ledger_filter, events.Repeat(events.Opaque(epsilon=0.02), 100), AddRemove())
    >>> ledger_filter.permits(counts), round(ledger_filter.remaining(counts), 3)
    (True, 0.23)
    """

    name: ClassVar[str] = "privacy filter"

    rule: Filter

    def zero(self) -> Spending:
        return _NOTHING, _NOTHING

    def atom(self, event: Event, adjacency: Adjacency) -> Spending:
        return _price(self.rule, event, adjacency)

    def join(self, first: Spending, second: Spending) -> Spending:
        _require_own(first, second)
        return _sum_prices(first[0], second[0]), _sum_prices(first[1], second[1])

    def power(self, cost: Spending, times: int) -> Spending:
        return cost[0].times(times), cost[1].times(times)

    def worst(self, first: Spending, second: Spending) -> Spending:
        _require_own(first, second)
        return _larger(first[0], second[0]), _larger(first[1], second[1])

    def curve(self, cost: Spending) -> Curve:
        """The filter's own (ε, δ). It holds whenever the analyst stops; no smaller ε is proved before."""
        if not self.permits(cost):
            raise NotProved(
                f"The ledger must keep to its filter, ε = {self.rule.epsilon:g} at δ = "
                f"{self.rule.delta:g}, and does not. Account for it without the filter, for parameters "
                "that were fixed beforehand."
            )
        return PairCurve(self.rule.epsilon, self.rule.delta)

    def caveats(self, cost: Spending) -> frozenset[Caveat]:
        return frozenset({Caveat.ADAPTIVE_PARAMETERS, Caveat.LOOSE_LOWER_BOUND})

    def permits(self, cost: Spending) -> bool:
        """Whether all of this may be answered."""
        return all(self._permits(used) for used in cost)

    def reached_epsilon(self, cost: Spending) -> float:
        """How much of the filter's ε is used; infinite if the share of δ for claims is used up.

        This is not a guarantee. If the analyst stops at a time that depends on answers, only the ε of the
        filter is proved.
        """
        return max(self._reach(used) for used in cost)

    def remaining(self, cost: Spending) -> float:
        """The largest ε of one more ε-DP answer that would be permitted."""
        low, high = 0.0, self.rule.epsilon
        if self._permits_pure(cost, high):
            return high
        for _ in range(50):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self._permits_pure(cost, middle) else (low, middle)
        return low

    def _permits_pure(self, cost: Spending, epsilon: float) -> bool:
        used = Used(_pure_measure(self.rule, epsilon), 0.0, epsilon)
        return self.permits(self.join(cost, (used, used)))

    def _permits(self, used: Used) -> bool:
        if isinstance(self.rule, GaussianFilter) and used.infinity <= self.rule.claims and used.measure > 0:
            profile = gaussian_delta(math.sqrt(used.measure), np.array([self.rule.epsilon]))
            within = float(profile[0]) * _UP <= self.rule.delta - self.rule.claims
            return within or used.largest <= self.rule.epsilon
        return self._reach(used) <= self.rule.epsilon

    def _reach(self, used: Used) -> float:
        if used.infinity > self.rule.claimable:
            return math.inf
        if used.measure == 0:
            return used.largest
        match self.rule:
            case RenyiFilter(delta=delta, order=order, claims=claims):
                tilt = order - 1
                proved = (used.measure - math.log(delta - claims) + chernoff_peak(tilt)) / tilt
                return min(used.largest, max(proved, 0.0))
            case GaussianFilter(delta=delta, claims=claims):
                gaussian = Composition.of({GaussianPair(math.sqrt(used.measure)): 1})
                return min(used.largest, epsilon_bounds(gaussian, delta - claims).upper)
        return used.largest


def renyi_filter(*, epsilon: float, delta: float, claims: float = 0.0) -> RenyiFilter:
    """The Rényi filter of the order that permits the most events with Gaussian noise. The order depends on
    the budget alone.

    For Gaussian noise k = μ² c (c + 1)/2, so the best c has the largest (c ε + ln δ − peak(c))/(c (c + 1)).
    Moments of small pure events are close to those of a Gaussian. For other events every order is valid, and
    this one is seldom far from the best.
    """
    rule = RenyiFilter(epsilon=epsilon, delta=delta, order=2.0, claims=claims)  # checks the arguments

    def scarcity(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        room = tilt * epsilon + math.log(rule.delta - rule.claims) - chernoff_peak(tilt)
        return -room / (tilt * (tilt + 1))

    guess = math.log(2 * (math.log(1 / (delta - claims)) + 1) / epsilon)
    found = minimize_scalar(scarcity, bounds=(guess - 6, guess + 3), method="bounded")
    return RenyiFilter(epsilon=epsilon, delta=delta, order=1 + math.exp(float(found.x)), claims=claims)


def choose_filter(*, epsilon: float, delta: float, asked: Iterable[Event], adjacency: Adjacency) -> Filter:
    """The filter of a budget. It depends on the first request, which is known before the first answer.

    At δ = 0: basic composition. Otherwise: Rényi, with half of δ for claims if the first request has claims,
    and a tenth if it has none. If the first request alone claims more than half of δ: basic composition.
    """
    basic = BasicFilter(epsilon=epsilon, delta=delta)
    if delta == 0:
        return basic
    total = Filtered(basic).zero()
    for event in asked:
        total = Filtered(basic).join(total, fold(Filtered(basic), event, adjacency))
    claimed = max(used.infinity for used in total)
    if claimed > _CLAIMS_FIRST * delta:
        return basic
    share = _CLAIMS_FIRST if claimed > 0 else _CLAIMS_LATER
    return renyi_filter(epsilon=epsilon, delta=delta, claims=share * delta)


@lru_cache(maxsize=1 << 16)
def _price(rule: Filter, event: Event, adjacency: Adjacency) -> Spending:
    if isinstance(event, events.DiscreteGaussian):
        # Its moments are at most those of a Gaussian (Canonne, Kamath & Steinke 2020, Theorem 4).
        # Gaussian DP is not proved for it.
        square = gaussian_pair(lattice_shift(event.contribution, adjacency) / event.scale).mu ** 2
        if isinstance(rule, GaussianFilter):
            raise NotProved("A discrete Gaussian is not proved to be Gaussian DP. Use the Rényi filter.")
        used = Used(_gaussian_measure(rule, square), 0.0, math.inf)
        return used, used
    spent = PrivacyLoss().atom(event, adjacency).upper
    cost = Filtered(rule).zero()
    for pair, count in spent.items():
        both = _use(rule, event, pair), _use(rule, event, pair.swap())
        cost = Filtered(rule).join(cost, Filtered(rule).power(both, count))
    return cost


def _use(rule: Filter, event: Event, pair: Pair) -> Used:
    largest = math.inf if pair.largest_loss is None else max(pair.largest_loss, 0.0)
    if isinstance(pair, GaussianPair):
        return Used(_gaussian_measure(rule, pair.mu**2), 0.0, largest)
    match rule:
        case RenyiFilter(order=order):
            if isinstance(pair, LaplacePair):
                moment = _laplace_moment(order, largest)
            elif isinstance(event, events.Opaque | events.ReportNoisyMax | events.SparseVector):
                moment = _response_moment(order, largest)
            else:
                moment = _log_moment(pair, order - 1, largest)
            if isinstance(event, events.ExponentialMechanism):
                # ε²/8-zCDP (Cesar & Rogers 2021, Theorem 1)
                moment = min(moment, _gaussian_measure(rule, 0.25 * event.epsilon**2))
            return Used(moment, pair.infinity, largest)
        case GaussianFilter():
            # Both orders must be dominated, so the larger of the two bounds counts.
            other = pair.swap().largest_loss
            if other is None or not math.isfinite(largest):
                raise NotProved(
                    f"{type(event).__name__} is not proved to be Gaussian DP. Use the Rényi filter, or "
                    "basic composition."
                )
            return Used(_pure_measure(rule, max(largest, other)), pair.infinity, largest)
    return Used(0.0, pair.infinity, largest)


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def _log_moment(pair: Pair, tilt: float, largest: float) -> float:
    """ln E[exp(c L); L < ∞], from above, and never below 0."""
    ceiling = tilt * largest
    try:
        check_moments(pair)
        found = derivatives(Composition.of({pair: 1}), tilt)
    except NotProved:
        found = None
    moment = math.inf if found is None else max(found.value, 0.0) * _UP + _TINY
    if not math.isfinite(min(moment, ceiling)):
        raise NotProved(
            "No moment of this event is proved at the order of the filter. Add noise, or use basic "
            "composition."
        )
    return min(moment, ceiling)


def _response_moment(order: float, epsilon: float) -> float:
    """The moment of randomised response: ln cosh((α − ½) ε) − ln cosh(ε/2), as ln(1 + x) by hyperbolic sines.

    cosh a − cosh b = 2 sinh((a + b)/2) sinh((a − b)/2) keeps all digits where ε is small.
    """
    if order * epsilon > _LARGEST_EXPONENT:
        return (order - 1) * epsilon * _UP  # no loss is larger
    gained = 2 * math.sinh(0.5 * order * epsilon) * math.sinh(0.5 * (order - 1) * epsilon)
    return math.log1p(gained / math.cosh(0.5 * epsilon)) * _UP


def _laplace_moment(order: float, epsilon: float) -> float:
    """The moment of Laplace noise (Mironov 2017, Proposition 6). If its leading terms cancel: that of any
    ε-DP event.
    """
    if (order - 1) * epsilon < 1e-5 or order * epsilon > _LARGEST_EXPONENT:
        return _response_moment(order, epsilon)
    grown, shrunk = math.expm1((order - 1) * epsilon), math.expm1(-order * epsilon)
    return math.log1p((order * grown + (order - 1) * shrunk) / (2 * order - 1)) * _UP


def _gaussian_measure(rule: Filter, square: float) -> float:
    """The moment of a Gaussian with μ² = ``square``."""
    match rule:
        case RenyiFilter(order=order):
            return 0.5 * (order - 1) * order * square * _UP
        case GaussianFilter():
            return square * _UP
    return 0.0


def _pure_measure(rule: Filter, epsilon: float) -> float:
    """The moment of any ε-DP event: that of randomised response, which dominates it."""
    match rule:
        case RenyiFilter(order=order):
            return _response_moment(order, epsilon)
        case GaussianFilter():
            mu = -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))  # Φ(−μ/2) = 1/(1 + exp ε)
            return mu * mu * _UP
    return 0.0


def _require_own(*costs: Spending) -> None:
    for cost in costs:
        if not (isinstance(cost, tuple) and len(cost) == 2 and all(isinstance(one, Used) for one in cost)):
            raise InvalidArgument(
                f"'costs' must be those of a filter, got {type(cost).__name__}. Give what 'atom' and "
                "'join' gave."
            )


def _sum_prices(first: Used, second: Used) -> Used:
    return Used(
        first.measure + second.measure, first.infinity + second.infinity, first.largest + second.largest
    )


def _larger(first: Used, second: Used) -> Used:
    return Used(
        max(first.measure, second.measure),
        max(first.infinity, second.infinity),
        max(first.largest, second.largest),
    )
