"""The composition theorems of the textbooks. They use only the (ε, δ) of an event."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from privet import events
from privet.accounting.atoms import bounded_loss, leaf, restate_for_exchange
from privet.accounting.cumulant import Composition
from privet.accounting.fold import Accountant, fold
from privet.accounting.pairs import Pair, randomized_response
from privet.accounting.privacy_loss import PrivacyLossCurve
from privet.accounting.zeroed import adds_contributions, zeroed_is_absent
from privet.adjacency import Adjacency, ReplaceOne, ZeroOut
from privet.arguments import open_fraction
from privet.bounds import Interval
from privet.caveats import Caveat
from privet.ceilings import Ceiling
from privet.errors import NotProved
from privet.events import Event
from privet.guarantees import Curve, PairCurve

__all__ = ["Advanced", "Basic", "Claim", "Claims", "Optimal", "Pure", "amplify"]


@final
@dataclass(frozen=True, kw_only=True)
class Claim:
    """An (ε, δ). ``attained`` says that the event may be any mechanism with this (ε, δ), so some mechanism
    attains it.
    """

    epsilon: float
    delta: float = 0.0
    attained: bool = True


Claims = Mapping[Claim, int]


def amplify(claim: Claim, rate: float) -> Claim:
    """ε′ = ln(1 + q (exp ε − 1)), δ′ = q δ (Balle, Barthe & Gaboardi 2018, Theorems 8 and 9).

    >>> round(amplify(Claim(epsilon=1.0, delta=1e-6), 0.01).epsilon, 6)
    0.017037
    """
    if claim.epsilon < 1:
        epsilon = math.log1p(rate * math.expm1(claim.epsilon))
    else:
        epsilon = claim.epsilon + math.log(rate + (1 - rate) * math.exp(-claim.epsilon))
    return Claim(epsilon=max(epsilon, 0.0), delta=rate * claim.delta, attained=False)


def visibly_amplified(claim: Claim, rate: float) -> Claim:
    """ε′ = ε, δ′ = q δ: all that is known where the output may show who was in the sample
    (``visible.py``).
    """
    return Claim(epsilon=claim.epsilon, delta=rate * claim.delta, attained=False)


def claim_of(event: Event, adjacency: Adjacency) -> Claim:
    """The (ε, δ) of one leaf or sampled event that has a bounded loss."""
    match event:
        case events.Poisson(rate, inner):
            if isinstance(adjacency, ReplaceOne):
                raise NotProved(
                    "Amplification of (ε, δ) by Poisson sampling is proved under add-remove and zero-out "
                    "adjacency, not under replace-one. Use FixedSize, or another adjacency."
                )
            if isinstance(adjacency, ZeroOut) and not zeroed_is_absent(inner):
                return visibly_amplified(_whole(inner, adjacency), rate)
            return amplify(_whole(inner, adjacency), rate)
        case events.FixedSize(size, population, inner):
            if isinstance(adjacency, ZeroOut) and not adds_contributions(inner):
                return visibly_amplified(_whole(inner, adjacency), size / population)
            if size == population:
                _whole(inner, adjacency)  # refuses what has no claim under this adjacency
            restated = inner if isinstance(adjacency, ReplaceOne) else restate_for_exchange(inner)
            return amplify(_whole(restated, ReplaceOne(adjacency.unit)), size / population)
        case events.Opaque(epsilon=epsilon, delta=delta):
            return Claim(epsilon=epsilon, delta=delta)
    pair = leaf(event, adjacency).upper
    loss, other = pair.largest_loss, pair.swap().largest_loss
    if loss is None or other is None:
        raise NotProved(
            f"{type(event).__name__} is not ε-DP for any ε, so this theorem has nothing to add up. "
            f"Use the privacy-loss accountant, or wrap it as Opaque at the δ that you choose."
        )
    return Claim(epsilon=max(loss, other, 0.0), delta=pair.infinity, attained=False)


def _whole(inner: Event, adjacency: Adjacency) -> Claim:
    total = fold(Basic(), inner, adjacency)
    return Claim(epsilon=total.epsilon, delta=total.delta)


@final
@dataclass(frozen=True)
class Basic(Accountant[Claim]):
    """Σε and Σδ (Dwork et al. 2006)."""

    name: ClassVar[str] = "basic composition"

    def zero(self) -> Claim:
        return Claim(epsilon=0.0)

    def atom(self, event: Event, adjacency: Adjacency) -> Claim:
        return claim_of(event, adjacency)

    def join(self, first: Claim, second: Claim) -> Claim:
        return Claim(epsilon=first.epsilon + second.epsilon, delta=first.delta + second.delta)

    def power(self, cost: Claim, times: int) -> Claim:
        return Claim(epsilon=times * cost.epsilon, delta=times * cost.delta)

    def worst(self, first: Claim, second: Claim) -> Claim:
        return Claim(epsilon=max(first.epsilon, second.epsilon), delta=max(first.delta, second.delta))

    def curve(self, cost: Claim) -> Curve:
        if cost.delta >= 1:
            raise NotProved("The δ of the parts add up to 1 or more. Use the optimal composition.")
        return SummedCurve(PairCurve(cost.epsilon, cost.delta))

    def caveats(self, cost: Claim) -> frozenset[Caveat]:
        return frozenset({Caveat.LOOSE_LOWER_BOUND})


@final
@dataclass(frozen=True)
class SummedCurve(Curve):
    """The curve of an (ε, δ) that a theorem added up. No mechanism needs to attain it, so the lower bound is
    0.
    """

    pair: PairCurve

    def delta(self, epsilon: float) -> Interval:
        return Interval(0.0, self.pair.delta(epsilon).upper)

    def epsilon(self, delta: float) -> Interval:
        return Interval(0.0, self.pair.epsilon(delta).upper)

    def ceiling(self, fpr: float, near: float | None = None) -> Ceiling:
        found = self.pair.ceiling(fpr, near)
        return Ceiling(Interval(fpr, found.tpr.upper), found.epsilon)


@final
@dataclass(frozen=True)
class Pure(Accountant[Claim]):
    """Σε, for events without δ."""

    name: ClassVar[str] = "pure DP"

    def zero(self) -> Claim:
        return Claim(epsilon=0.0)

    def atom(self, event: Event, adjacency: Adjacency) -> Claim:
        claim = claim_of(event, adjacency)
        if claim.delta:
            raise NotProved(
                f"{type(event).__name__} has a δ of {claim.delta:g}, so it is not pure DP. "
                f"Use basic composition or the privacy-loss accountant."
            )
        return claim

    def join(self, first: Claim, second: Claim) -> Claim:
        return Basic().join(first, second)

    def power(self, cost: Claim, times: int) -> Claim:
        return Basic().power(cost, times)

    def worst(self, first: Claim, second: Claim) -> Claim:
        return Basic().worst(first, second)

    def curve(self, cost: Claim) -> Curve:
        return Basic().curve(cost)

    def caveats(self, cost: Claim) -> frozenset[Caveat]:
        return Basic().caveats(cost)


class _Counted(Accountant[Claims]):
    """Accountants that need to know how often each claim occurs."""

    def zero(self) -> Claims:
        return {}

    def atom(self, event: Event, adjacency: Adjacency) -> Claims:
        return {claim_of(event, adjacency): 1}

    def join(self, first: Claims, second: Claims) -> Claims:
        return self.join_all((first, second))

    def join_all(self, costs: Sequence[Claims]) -> Claims:
        total: dict[Claim, int] = {}
        for claims in costs:
            for claim, count in claims.items():
                total[claim] = total.get(claim, 0) + count
        return total

    def power(self, cost: Claims, times: int) -> Claims:
        return {key: times * count for key, count in cost.items()}

    def worst(self, first: Claims, second: Claims) -> Claims:
        if len(first) == len(second) == 1 and set(first.values()) == set(second.values()) == {1}:
            (one,), (other,) = first, second
            epsilon, delta = max(one.epsilon, other.epsilon), max(one.delta, other.delta)
            return {Claim(epsilon=epsilon, delta=delta, attained=False): 1}
        raise NotProved(
            f"Parallel parts that are compositions themselves are not taken by the {self.name} accountant. "
            f"Use the privacy-loss accountant."
        )

    def caveats(self, cost: Claims) -> frozenset[Caveat]:
        return frozenset({Caveat.WORST_OF_CLASS, Caveat.FIXED_PARAMETERS})


@final
@dataclass(frozen=True)
class Advanced(_Counted):
    """√(2 ln(1/δ′) Σε²) + Σ ε (exp ε − 1)/(exp ε + 1), at δ = Σδ₀ + δ′.

    Reference: Kairouz, Oh & Viswanath 2015, Theorem 3.5; Dwork & Roth 2014, Theorem 3.20 has the weaker
    second term.
    """

    name: ClassVar[str] = "advanced composition"

    def curve(self, cost: Claims) -> Curve:
        return AdvancedCurve(tuple(sorted((c.epsilon, c.delta, count) for c, count in cost.items())))


@final
@dataclass(frozen=True)
class AdvancedCurve(Curve):
    """Basic or advanced composition, whichever is smaller at the δ that is asked for."""

    claims: tuple[tuple[float, float, int], ...]

    def epsilon(self, delta: float) -> Interval:
        spent = sum(count * d for _, d, count in self.claims)
        basic = sum(count * e for e, _, count in self.claims)
        if delta < spent:
            raise NotProved(
                f"'delta' must be at least {spent:.6g}, got {delta:g}, which the parts have spent already. "
                f"Ask at a larger δ."
            )
        if delta == spent:
            return Interval(0.0, basic)
        open_fraction("delta", delta - spent)
        spread = math.sqrt(2 * math.log(1 / (delta - spent)) * sum(c * e * e for e, _, c in self.claims))
        drift = sum(c * e * math.tanh(0.5 * e) for e, _, c in self.claims)
        return Interval(0.0, min(basic, spread + drift))

    def ceiling(self, fpr: float, near: float | None = None) -> Ceiling:
        """The smaller of two bounds is not convex, so the end of the first one is checked as well."""
        basic = sum(count * e for e, _, count in self.claims)
        at_basic = PairCurve(basic, self.delta(basic).upper).ceiling(fpr)
        best = min(super().ceiling(fpr, near), at_basic, key=lambda found: found.tpr.upper)
        return best._replace(tpr=Interval(fpr, best.tpr.upper))

    def delta(self, epsilon: float) -> Interval:
        spent = sum(count * d for _, d, count in self.claims)
        if epsilon >= sum(count * e for e, _, count in self.claims):
            return Interval(0.0, min(spent, 1.0))
        squares = sum(c * e * e for e, _, c in self.claims)
        beyond = epsilon - sum(c * e * math.tanh(0.5 * e) for e, _, c in self.claims)
        if beyond <= 0:
            return Interval(0.0, 1.0)
        return Interval(0.0, min(spent + math.exp(-(beyond**2) / (2 * squares)), 1.0))


@final
@dataclass(frozen=True)
class Optimal(_Counted):
    """The exact composition of mechanisms of which only (ε, δ) is known.

    Reference: Kairouz, Oh & Viswanath 2015, Theorem 3.3; Murtagh & Vadhan 2016 for unequal parts. Computed as
    the privacy-loss distribution of randomised response, so unequal parts need no #P-hard sum.
    """

    name: ClassVar[str] = "optimal composition"

    def curve(self, cost: Claims) -> Curve:
        return PrivacyLossCurve(
            _compose_claims(cost), _compose_claims({c: count for c, count in cost.items() if c.attained})
        )

    def caveats(self, cost: Claims) -> frozenset[Caveat]:
        return super().caveats(cost) | {Caveat.CHECKED_ROUND_OFF}


def _compose_claims(claims: Claims) -> Composition:
    """The composition of each claim's worst mechanism. Claims that differ only in ``attained`` are merged."""
    pairs: dict[Pair, int] = {}
    for claim, count in claims.items():
        pair = randomized_response(bounded_loss(claim.epsilon), claim.delta)
        pairs[pair] = pairs.get(pair, 0) + count
    return Composition.of(pairs)
