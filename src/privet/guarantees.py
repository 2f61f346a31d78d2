"""What is guaranteed: a curve, not a pair of numbers, and always with both of its bounds.

A guarantee holds the privacy profile δ(ε) of everything that was done, under one adjacency. All answers
are read off it: ε at a δ, the highest success of an attack, the belief of a suspicious reader.
Every number has a certified *upper* bound, which is the one that is reported, and a certified *lower* bound
of the same true value, so that the looseness of the accounting can be seen.
"""

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from html import escape
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.adjacency import Adjacency
from privet.arguments import at_least, finite, open_fraction, whole
from privet.beliefs import KeptLoss, belief_interval, least_loss_bound
from privet.bounds import EpsilonBound, Interval, Side, enclosure
from privet.caveats import Caveat
from privet.ceilings import Ceiling, lowest_ceiling
from privet.errors import InvalidArgument, NotProved, PrivetError
from privet.public_calls import check_public_calls

__all__ = [
    "Ceiling",
    "Curve",
    "GroupCurve",
    "Guarantee",
    "LossHistogram",
    "PairCurve",
    "ceiling",
    "delta_warning",
]

_ROUND_OFF = 1e-12
_MOST_BINS = 1_000_000  # of a picture of the privacy loss
_STEPS = 64  # the largest group whose ceiling is computed step by step
_NOTEBOOK_DELTAS = (1e-5, 1e-6, 1e-8)


class LossHistogram(NamedTuple):
    """The privacy loss under "the person is in": bin edges, probability in each bin, P[loss = ∞]."""

    edges: NDArray[np.float64]
    probability: NDArray[np.float64]
    infinity: float


class Curve(ABC):
    """A privacy profile δ(ε), symmetric in who is "in" and who is "out" (the worse of both counts)."""

    @abstractmethod
    def delta(self, epsilon: float) -> Interval:
        """An enclosure of δ(ε) for ε ≥ 0."""

    @abstractmethod
    def epsilon(self, delta: float) -> Interval:
        """An enclosure of the smallest ε ≥ 0 with δ(ε) ≤ δ."""

    def attain(self, epsilon: float) -> Interval:
        """An enclosure of δ(ε) of one and the same thing that is covered, from which a lower bound follows:
        the strongest that is known. Without one, of what is covered itself.
        """
        return self.delta(epsilon)

    def kinks(self, fpr: float, *, above: bool) -> tuple[float, ...]:
        """The ε to ask first: where the profile, or that of ``attain``, may have the kink that decides."""
        del fpr, above
        return ()

    def orders(self, epsilon: float) -> tuple[Interval, Interval] | None:
        """δ(ε) of "in against out" and of "out against in", of a mechanism that is covered; None where they
        are alike.
        """
        del epsilon
        return None

    def sketch(self, epsilon: float) -> Interval:
        """An enclosure of δ(ε) that is computed faster and may be wider."""
        return self.delta(epsilon)

    def steer(self, epsilon: float, delta: float) -> float:
        """δ(ε) for a search: exact near ``delta``; elsewhere only its comparison with ``delta`` is right."""
        del delta
        return self.delta(epsilon).upper

    def ceiling(self, fpr: float, near: float | None = None) -> Ceiling:
        """The highest true-positive rate at a false-positive rate in (0, 1), and the ε that proves it.

        By a search over ε whose lower bound holds wherever the minimum is; ``near`` is a guess of that ε.
        """
        if self.delta(0.0).relative_gap < 1e-3:
            return lowest_ceiling(
                self.delta, fpr, near=near, orders=self.orders, kinks=self.kinks(fpr, above=True)
            )
        # Where the theorem itself leaves a gap, each end has its own minimum. Upper ends need not be convex,
        # so they prove nothing from below. Nor do lower ends: they are below one convex profile by errors
        # that differ from ε to ε, and a line through two of them can be above it. So the lower bound is that
        # of the enclosures of this profile.
        above = lowest_ceiling(
            lambda epsilon: Interval(*[self.delta(epsilon).upper] * 2),
            fpr,
            near=near,
            convex=False,
            kinks=self.kinks(fpr, above=True),
        )
        if self.attain(0.0).lower == 0:
            return Ceiling(enclosure(fpr, above.tpr.upper), above.epsilon)
        kinks = self.kinks(fpr, above=False)
        below = lowest_ceiling(self.attain, fpr, near=near, orders=self.orders, kinks=kinks)
        return Ceiling(enclosure(below.tpr.lower, above.tpr.upper), above.epsilon)

    def histogram(self, bins: int) -> LossHistogram:
        """The distribution of the privacy loss, if the accountant knows it."""
        raise NotProved(
            "This accountant bounds the privacy loss but does not know its law. "
            "Account with the privacy-loss distribution to see a histogram."
        )


@final
@dataclass(frozen=True)
class Guarantee:
    """An upper bound on what the released things tell about any one unit, with its lower bound beside it."""

    curve: Curve
    adjacency: Adjacency
    accountant: str
    caveats: frozenset[Caveat] = frozenset()

    def __repr__(self) -> str:
        caveats = (
            f", {len(self.caveats)} caveats"
            if len(self.caveats) > 1
            else ", 1 caveat"
            if self.caveats
            else ""
        )
        return f"Guarantee({self.adjacency}, by {self.accountant!r}{caveats})"

    def _repr_html_(self) -> str:
        """ε at several δ, for a notebook; escaped, so that nothing in a name becomes markup."""
        rows = []
        for delta in _NOTEBOOK_DELTAS:
            try:
                epsilon = f"{math.ceil(1000 * self.epsilon(delta=delta)) / 1000:.3f}"
            except (PrivetError, OverflowError):
                epsilon = "no finite bound"
            rows.append(f"<tr><td>{delta:g}</td><td>{epsilon}</td></tr>")
        caveats = "".join(f"<li>{escape(caveat.sentence)}</li>" for caveat in sorted(self.caveats, key=str))
        return (
            f"<div><strong>{escape(str(self.adjacency))}, by "
            f"{escape(self.accountant)}</strong><table><thead><tr><th>δ</th><th>ε at "
            f"most</th></tr></thead><tbody>{''.join(rows)}</tbody></table><ul>{caveats}</ul></div>"
        )

    def epsilon(self, *, delta: float) -> float:
        """The smallest proved ε at this δ, rounded up."""
        return self.epsilon_bounds(delta=delta).upper

    def epsilon_bounds(self, *, delta: float) -> Interval:
        """The true ε at this δ is in here."""
        if not 0 <= finite("delta", delta) < 1:
            raise InvalidArgument(
                f"'delta' must be at least 0 and below 1, got {delta!r}. Use a value far below 1/n."
            )
        return _plain(self.curve.epsilon(delta))

    def delta(self, *, epsilon: float) -> float:
        """The smallest proved δ at this ε, rounded up."""
        return self.delta_bounds(epsilon=epsilon).upper

    def delta_bounds(self, *, epsilon: float) -> Interval:
        """The true δ at this ε is in here."""
        return _plain(self.curve.delta(at_least("epsilon", epsilon, 0)))

    def bound(self, *, delta: float) -> EpsilonBound:
        """ε at this δ as an upper bound that an audit can test."""
        return EpsilonBound(value=self.epsilon(delta=delta), delta=delta, side=Side.UPPER)

    def tpr(self, *, fpr: float) -> float:
        """The most members that any membership attack can find at this false-positive rate.

        The ceiling is min over ε of δ(ε) + exp(ε)·fpr and of 1 − exp(−ε)(1 − δ(ε) − fpr); every ε gives a
        valid one, so an inexact minimum is still a ceiling.

        Reference: Kairouz, Oh & Viswanath 2015, Theorem 2.1; Dong, Roth & Su 2022, Proposition 6.
        """
        return self.tpr_bounds(fpr=fpr).upper

    def tpr_bounds(self, *, fpr: float) -> Interval:
        """The best attack's true-positive rate at this false-positive rate is in here."""
        if not 0 <= finite("fpr", fpr) <= 1:
            raise InvalidArgument(f"'fpr' must lie in [0, 1], got {fpr!r}. Give a rate.")
        if fpr == 1:
            return Interval(1.0, 1.0)
        if fpr == 0:
            raise NotProved(
                "'fpr' must be above 0, got 0, because no finite ε bounds an attack that never errs. "
                "Ask at a small rate, such as 1e-10."
            )
        return _plain(self.curve.ceiling(fpr).tpr)

    def tradeoff(self, *, fpr: NDArray[np.float64]) -> NDArray[np.float64]:
        """The smallest false-negative rate of any attack at each false-positive rate."""
        return np.array([1 - self.tpr(fpr=float(rate)) for rate in np.asarray(fpr)])

    def advantage(self) -> float:
        """The most by which any attack's true-positive rate exceeds its false-positive rate: δ(0)."""
        return self.delta(epsilon=0.0)

    def loss_bound(self, *, delta: float) -> float:
        """The smallest proved bound on the privacy loss, from both sides, that fails with probability at most
        δ.

        It holds for whatever is computed from what was released, whichever of the two neighbours is the true
        one. It is above ε at the same δ (``beliefs`` says why); for δ = 0 the two are the same.
        """
        start = self.epsilon(delta=delta)
        if delta == 0:
            return start
        found = least_loss_bound(lambda epsilon: float(self.curve.sketch(epsilon).upper), delta, start)
        bounds = [] if found is None else [found * (1 + _ROUND_OFF)]
        with suppress(PrivetError):
            bounds.append(self.epsilon(delta=0.0))
        if not bounds:
            raise NotProved(
                f"No bound on the privacy loss is proved that fails with probability at most {delta:g}, "
                "because all of this δ may be outputs that tell everything. Ask at a larger δ, such as "
                f"{2 * delta:g}."
            )
        return min(bounds)

    def kept_loss(self, *, delta: float) -> KeptLoss:
        """The ``loss_bound`` at δ; at 2 δ where none is proved at δ itself; ∞, which never fails, where none
        is proved there either.

        A claim (ε, δ) alone leaves room for outputs of probability δ that tell everything, and at δ for
        nothing beside them.
        """
        with suppress(NotProved):
            return KeptLoss(self.loss_bound(delta=delta), delta)
        self.epsilon(delta=delta)  # without any ε, the error of epsilon() is the one to show
        if 2 * delta < 1:
            with suppress(NotProved):
                return KeptLoss(self.loss_bound(delta=2 * delta), 2 * delta)
        return KeptLoss(math.inf, 0.0)

    def posterior(self, *, prior: float, delta: float) -> Interval:
        """What a reader who held ``prior`` may come to believe: between ``lower`` and ``upper``.

        p / (p + (1 − p) exp(±ε′)) with ε′ the ``loss_bound`` at this δ: whichever is true, the belief is
        outside with probability at most δ. For δ = 0 it holds for every output.
        """
        open_fraction("prior", prior)
        return belief_interval(prior, self.loss_bound(delta=delta))

    def privacy_loss(self, *, bins: int = 200) -> LossHistogram:
        """The distribution of the privacy-loss random variable, for plots; no bound uses it."""
        return self.curve.histogram(whole("bins", bins, least=2, most=_MOST_BINS))

    def group(self, *, size: int) -> "Guarantee":
        """The guarantee for ``size`` units together: kε for pure DP (Dwork & Roth 2014, Theorem 2.2)."""
        if whole("size", size) == 1:
            return self
        return replace(self, curve=GroupCurve(self.curve, size))


@final
@dataclass(frozen=True)
class PairCurve(Curve):
    """All that follows from one claim (ε, δ), and no more: the profile of the worst such mechanism.

    δ(ε′) = δ + (1 − δ)(exp(ε) − exp(ε′))₊ / (1 + exp(ε)).

    Reference: Kairouz, Oh & Viswanath 2015, Theorem 2.1 and Section 3.
    """

    claimed_epsilon: float
    claimed_delta: float

    def delta(self, epsilon: float) -> Interval:
        rest = -math.expm1(min(epsilon - self.claimed_epsilon, 0.0)) / (1 + math.exp(-self.claimed_epsilon))
        value = self.claimed_delta + (1 - self.claimed_delta) * rest
        return Interval(value, value)

    def epsilon(self, delta: float) -> Interval:
        if delta < self.claimed_delta:
            raise NotProved(
                f"'delta' must be at least the claimed {self.claimed_delta:g}, got {delta:g}, because a "
                f"claim at one δ says nothing about a smaller one. Ask at the claimed δ."
            )
        if delta >= 1 or self.claimed_delta >= 1:
            return Interval(0.0, 0.0)
        share = (delta - self.claimed_delta) / (1 - self.claimed_delta)
        kept = 1 - share * (1 + math.exp(-self.claimed_epsilon))
        value = max(self.claimed_epsilon + math.log(kept), 0.0) if kept > 0 else 0.0
        return Interval(value, value)

    def ceiling(self, fpr: float, near: float | None = None) -> Ceiling:
        """Two straight lines, exp(ε)·fpr + δ and 1 − exp(−ε)(1 − δ − fpr), both at the claim itself."""
        first = math.exp(min(self.claimed_epsilon, 700.0)) * fpr + self.claimed_delta
        second = math.exp(-self.claimed_epsilon) * (self.claimed_delta + fpr) - math.expm1(
            -self.claimed_epsilon
        )
        value = min(first, second, 1.0)
        tpr = Interval(max(value * (1 - 1e-15), fpr), min(max(value, fpr) * (1 + 1e-15), 1.0))
        return Ceiling(tpr, self.claimed_epsilon)


@final
@dataclass(frozen=True)
class GroupCurve(Curve):
    """The profile for k units, from that for one.

    δₖ(ε) ≤ δ(ε/k) (exp(ε) − 1)/(exp(ε/k) − 1), by k steps of one unit each. The lower bound is that of one
    unit, which a group can never be below.

    A group of groups is one larger group: the bounds multiply to the same bound, so they are not nested.

    Reference: Vadhan 2017, Lemma 2.2.
    """

    single: Curve
    size: int

    def __post_init__(self) -> None:
        whole("size", self.size)
        if isinstance(self.single, GroupCurve):
            object.__setattr__(self, "size", self.size * self.single.size)
            object.__setattr__(self, "single", self.single.single)

    def delta(self, epsilon: float) -> Interval:
        if epsilon == math.inf:
            return self.single.delta(epsilon)
        lower = self.single.delta(epsilon).lower
        one = self.single.delta(epsilon / self.size).upper
        upper = self._bound(one, epsilon)
        if lower < upper < 1:
            # Where δ has stopped falling, the bound at the first ε with this δ is the smaller one, and holds
            # here too.
            with suppress(PrivetError):
                first = self.size * self.single.epsilon(one).upper
                upper = min(upper, self._bound(one, min(first, epsilon)))
        return enclosure(lower, upper)

    def ceiling(self, fpr: float, near: float | None = None) -> Ceiling:
        """By k steps of one unit each from above, and by that of one unit from below.

        Every step of one unit raises the chance of an event to at most the ceiling for one unit at that
        chance. k steps give the ceiling of ceilings (Dong, Roth & Su 2022, Theorem 2.14), which loses
        nothing for pure DP: exp(kε)·fpr. The profile for the group proves another one; the lower counts.
        """
        above = lowest_ceiling(
            lambda epsilon: Interval(*[self.delta(epsilon).upper] * 2), fpr, near=near, convex=False
        )
        lowest = min(above.tpr.upper, self._iterate(fpr))
        return Ceiling(enclosure(self.single.ceiling(fpr).tpr.lower, lowest), above.epsilon)

    def _iterate(self, fpr: float) -> float:
        """The ceiling for one unit, k times over; 1 for groups that are too large to try."""
        if self.size > _STEPS:
            return 1.0
        chance = fpr
        for _ in range(self.size):
            if not 0 < chance < 1:
                break
            chance = min(self.single.ceiling(chance).tpr.upper, 1.0)
        return chance

    def _upper(self, epsilon: float) -> float:
        return self._bound(self.single.delta(epsilon / self.size).upper, epsilon)

    def _bound(self, one: float, epsilon: float) -> float:
        """δ for one unit, times (exp(ε) − 1)/(exp(ε/k) − 1) by its logarithm, for any ε."""
        share, steps = epsilon / self.size, math.log(self.size)
        if one == 0:
            return 0.0
        if share > 0:
            steps = epsilon - share + math.log(math.expm1(-epsilon) / math.expm1(-share))
        return min(math.exp(min(math.log(one) + steps, 0.0)) * (1 + 1e-15 * (1 + epsilon)), 1.0)

    def epsilon(self, delta: float) -> Interval:
        lower = self.single.epsilon(delta).lower
        if delta == 0:
            return Interval(lower, self.size * self.single.epsilon(0.0).upper)
        if self._upper(0.0) <= delta:
            return Interval(0.0, 0.0)
        high = max(self.size * self.single.epsilon(delta).upper, 1e-9)
        while self._upper(high) > delta:
            high *= 1.5
            if high > 1e9:
                raise NotProved(
                    "No finite ε is proved for a group of this size at this δ. Ask at a larger δ."
                )
        low = 0.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._upper(middle) <= delta else (middle, high)
            if high - low <= 1e-10 * high:
                break
        return Interval(lower, high)


def delta_warning(delta: float, population: int) -> frozenset[Caveat]:
    """The caveat that a δ of 1/(10 n) or more deserves."""
    too_large = delta * 10 * whole("population", population) >= 1
    return frozenset({Caveat.DELTA_TOO_LARGE}) if too_large else frozenset()


def ceiling(curve: Curve, fpr: float, *, near: float | None = None) -> Ceiling:
    """The ceiling of a curve at a false-positive rate; ``near`` is a guess of the ε that proves it."""
    return curve.ceiling(fpr, near)


def _plain(found: Interval) -> Interval:
    """Convert to Python floats, because reports and documents must not hold numpy scalars."""
    return Interval(float(found.lower), float(found.upper))


check_public_calls(__name__)
