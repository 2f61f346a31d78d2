"""Laws of one guarantee: what any privacy profile and its certified enclosure must look like."""

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

from privet.bounds import Interval
from privet.errors import NotProved
from privet.guarantees import Guarantee
from privet.testing.broken import at_delta, require, require_at_most, require_same

__all__ = ["check_guarantee", "check_risks"]

_EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)
_DELTAS = (0.1, 1e-3, 1e-6)
_FPRS = (1e-6, 1e-2, 0.3)
_LOOSE = 1e-2  # an enclosure with a wider relative gap says nothing about its upper end


def check_guarantee(
    guarantee: Guarantee,
    *,
    epsilons: Sequence[float] = _EPSILONS,
    deltas: Sequence[float] = _DELTAS,
) -> None:
    """Bounds in order and finite; δ falls and is convex in exp ε; ε(δ) and δ(ε) undo each other."""
    profile = {epsilon: guarantee.delta_bounds(epsilon=epsilon) for epsilon in sorted(epsilons)}
    for epsilon, found in profile.items():
        _check_enclosure(found, f"δ at ε = {epsilon:g} by {guarantee.accountant}", most=1.0)
    _check_falling(profile, guarantee.accountant)
    _check_convex(profile, guarantee.accountant)
    inverse = {delta: at_delta(guarantee, delta) for delta in sorted(deltas, reverse=True)}
    answered = {delta: found for delta, found in inverse.items() if found is not None}
    for delta, bound in answered.items():
        _check_enclosure(bound, f"ε at δ = {delta:g} by {guarantee.accountant}", most=math.inf)
        _check_inverse(guarantee, delta, bound)
    for (high, low), (larger, smaller) in zip(pairwise(answered), pairwise(answered.values()), strict=True):
        require_at_most(
            larger.upper, smaller.upper, f"ε rises as δ falls from {high:g} to {low:g}", slack=1e-9
        )


def check_risks(guarantee: Guarantee, *, fprs: Sequence[float] = _FPRS) -> None:
    """The ceilings on attacks: above guessing, rising, concave, and never above what any (ε, δ) allows."""
    name = guarantee.accountant
    ceilings = {fpr: guarantee.tpr_bounds(fpr=fpr) for fpr in sorted(fprs)}
    profile = {epsilon: guarantee.delta_bounds(epsilon=epsilon) for epsilon in _EPSILONS}
    for fpr, found in ceilings.items():
        _check_enclosure(found, f"TPR at FPR = {fpr:g} by {name}", most=1.0)
        require(found.lower >= fpr, f"an attack can always guess, FPR = {fpr:g}: {found}")
        for epsilon, delta in profile.items():
            allowed = min(
                math.exp(epsilon) * fpr + delta.upper, 1 - math.exp(-epsilon) * (1 - delta.upper - fpr)
            )
            where = f"FPR = {fpr:g}, ε = {epsilon:g} by {name}"
            require_at_most(found.lower, allowed, f"a certified TPR is possible, {where}", slack=1e-11)
            require_at_most(found.upper, allowed, f"TPR ≤ exp(ε) FPR + δ, {where}", slack=1e-4)
    for (low, first), (high, second) in pairwise(ceilings.items()):
        require_at_most(first.upper, second.upper, f"TPR rises with FPR from {low:g} to {high:g}", slack=1e-4)
    for (a, first), (b, middle), (c, last) in combinations(ceilings.items(), 3):
        chord = first.lower + (last.lower - first.lower) * (b - a) / (c - a)
        require_at_most(chord, middle.upper, f"TPR is concave in FPR at {b:g} by {name}", slack=1e-9)
    _check_advantage(guarantee)
    _check_posterior(guarantee)


def _check_enclosure(found: Interval, what: str, *, most: float) -> None:
    require(all(math.isfinite(end) for end in found), f"{what} is finite: {found}")
    require(0 <= found.lower <= found.upper <= most, f"{what} has its bounds in order: {found}")


def _slack(found: Interval) -> float:
    return 1e-9 + (found.relative_gap if found.relative_gap < _LOOSE else 0.0)


def _check_falling(profile: dict[float, Interval], name: str) -> None:
    for (low, first), (high, second) in pairwise(profile.items()):
        require_at_most(
            second.upper,
            first.upper,
            f"δ falls from ε = {low:g} to {high:g} by {name}",
            slack=_slack(first) + _slack(second),
        )


def _check_convex(profile: dict[float, Interval], name: str) -> None:
    for (low, first), (middle, between), (high, last) in combinations(profile.items(), 3):
        share = (math.exp(middle) - math.exp(low)) / (math.exp(high) - math.exp(low))
        chord = (1 - share) * first.upper + share * last.upper
        require_at_most(between.lower, chord, f"δ is convex in exp ε at ε = {middle:g} by {name}", slack=1e-9)


def _check_inverse(guarantee: Guarantee, delta: float, found: Interval) -> None:
    there = f"δ = {delta:g} by {guarantee.accountant}"
    at_upper = guarantee.delta_bounds(epsilon=found.upper)
    require_at_most(at_upper.lower, delta, f"δ(ε(δ)) ≤ δ, {there}", slack=1e-9)
    close = 1e-4 if found.relative_gap < _LOOSE else 0.05
    require_at_most(at_upper.upper, delta, f"δ(ε(δ)) is close to δ, {there}", slack=close)
    if found.lower > 0:
        at_lower = guarantee.delta_bounds(epsilon=found.lower)
        require_at_most(delta, at_lower.upper, f"δ(ε(δ)) ≥ δ, {there}", slack=1e-9)


def _check_advantage(guarantee: Guarantee) -> None:
    advantage = guarantee.advantage()
    require_same(advantage, guarantee.delta(epsilon=0.0), f"advantage = δ(0) by {guarantee.accountant}")
    for delta in _DELTAS:
        found = at_delta(guarantee, delta)
        if found is not None and guarantee.delta_bounds(epsilon=0.0).relative_gap < _LOOSE:
            allowed = math.tanh(0.5 * found.upper) + delta
            require_at_most(
                advantage, allowed, f"advantage ≤ (e^ε − 1)/(e^ε + 1) + δ, δ = {delta:g}", slack=1e-9
            )


def _check_posterior(guarantee: Guarantee, prior: float = 0.4, delta: float = 1e-3) -> None:
    found = at_delta(guarantee, delta)
    if found is None:
        return
    try:
        loss = guarantee.loss_bound(delta=delta)
    except NotProved:
        return  # all of δ may be outputs that tell everything
    require_at_most(found.upper, loss, "the loss that fails with probability δ is at least ε(δ)", slack=1e-9)
    belief = guarantee.posterior(prior=prior, delta=delta)
    require(belief.lower <= prior <= belief.upper, f"a posterior interval holds the prior: {belief}")
    for end, sign in ((belief.lower, 1), (belief.upper, -1)):
        expected = 1 / (1 + (1 - prior) / prior * math.exp(min(sign * loss, 700.0)))
        require_same(end, expected, "posterior = p / (p + (1 − p) exp(±ε′))", slack=1e-9)
