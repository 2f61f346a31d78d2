"""Profiles that are known in closed form, written down here a second time, apart from the accountants.

A law such as "more noise costs less" holds for an accountant that believes in half the noise. These truths do
not move with the code that they check: an upper bound below one is a broken proof, and so is a lower bound
above one.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from privet import events
from privet.accounting import Accountant, account
from privet.adjacency import AddRemove, Adjacency, ReplaceOne, ZeroOut
from privet.bounds import Interval
from privet.caveats import Caveat
from privet.events import Event
from privet.testing.broken import at_delta, require, require_at_most

__all__ = ["TRUTHS", "Truth", "check_truth"]

_ROUND_OFF = 1e-9  # of the formulas below, which are not written for extreme arguments


@final
@dataclass(frozen=True)
class Truth:
    """An event whose profile δ(ε) is known, the worse of both orders of neighbours."""

    event: Event
    adjacency: Adjacency
    profile: Callable[[float], float]
    at: tuple[float, ...] = (0.0, 0.3, 0.7, 1.5)


def check_truth(accountant: Accountant[Any], truth: Truth) -> None:
    """The truth is within the accountant's bounds, for δ at an ε and for ε at a δ.

    Where the bounds carry the caveat ``WORST_OF_CLASS``, the lower one speaks of another mechanism with the
    same parameters and is not compared.
    """
    found = account(truth.event, adjacency=truth.adjacency, accountant=accountant)
    own = Caveat.WORST_OF_CLASS not in found.caveats
    for epsilon in truth.at:
        delta = truth.profile(epsilon)
        require(
            isinstance(delta, (int, float, np.number)),
            f"a profile gives a number, and got {type(delta).__name__}",
        )
        where = f"{accountant.name} on {truth.event} under {truth.adjacency}"
        _check_encloses(found.delta_bounds(epsilon=epsilon), delta, f"δ({epsilon:g}) of {where}", lower=own)
        if epsilon == 0 or delta < 1e-12:
            continue
        bounds = at_delta(found, delta)
        if bounds is not None:
            _check_encloses(bounds, epsilon, f"ε({delta:.3g}) of {where}", lower=own)


def _check_encloses(found: Interval, truth: float, what: str, *, lower: bool) -> None:
    require(found.lower <= found.upper, f"{what} has its bounds in order: {found}")
    require_at_most(truth, found.upper, f"the upper bound of {what} is not below the truth", slack=_ROUND_OFF)
    if lower:
        require_at_most(
            found.lower, truth, f"the lower bound of {what} is not above the truth", slack=_ROUND_OFF
        )


def _tail(x: float) -> float:
    return 0.5 * math.erfc(x / math.sqrt(2))


def _gaussian(mu: float, epsilon: float) -> float:
    """Φ(μ/2 − ε/μ) − exp(ε) Φ(−μ/2 − ε/μ) (Balle & Wang 2018, Theorem 5)."""
    return _tail(epsilon / mu - 0.5 * mu) - math.exp(epsilon) * _tail(epsilon / mu + 0.5 * mu)


def _laplace(pure: float, epsilon: float) -> float:
    """1 − exp((ε − ε₀)/2) for ε ≤ ε₀."""
    return max(-math.expm1(0.5 * (epsilon - pure)), 0.0)


def _subsample_profile(rate: float, base: Callable[[float], float], epsilon: float) -> float:
    """q δ(ln(1 + (exp ε − 1)/q)): the unit is removed, which is the worse order for a symmetric base."""
    return rate * base(math.log1p(math.expm1(epsilon) / rate))


def _finite(up: tuple[float, ...], down: tuple[float, ...], epsilon: float) -> float:
    """Σ (P − exp(ε) Q)₊ in both orders."""
    factor = math.exp(epsilon)
    return max(
        sum(max(p - factor * q, 0.0) for p, q in zip(one, other, strict=True))
        for one, other in ((up, down), (down, up))
    )


def _powers(first: float, times: int) -> tuple[float, ...]:
    return tuple(math.comb(times, k) * first**k * (1 - first) ** (times - k) for k in range(times + 1))


def _responses(truth: float, times: int, epsilon: float) -> float:
    """Binary randomised response ``times`` times over: binomial against binomial."""
    return _finite(_powers(truth, times), _powers(1 - truth, times), epsilon)


def _list_truths(
    event: Event, adjacency: Adjacency, profile: Callable[..., float], *parameters: object
) -> Truth:
    return Truth(event, adjacency, partial(profile, *parameters))


def _repeated_response(truth: float, times: int) -> Truth:
    """Also close to its largest loss, where an accountant that forgets a count is far below."""
    largest = times * math.log(truth / (1 - truth))
    at = (0.0, 0.2 * largest, 0.5 * largest, 0.95 * largest, 0.999 * largest)
    event = events.Repeat(events.RandomizedResponse(truth), times)
    return Truth(event, ReplaceOne(), partial(_responses, truth, times), at)


TRUTHS: tuple[Truth, ...] = (
    _list_truths(events.Gaussian(1.3), AddRemove(), _gaussian, 1 / 1.3),
    _list_truths(events.Gaussian(1.3), ReplaceOne(), _gaussian, 2 / 1.3),
    _list_truths(events.Repeat(events.Gaussian(4.0), 9), ZeroOut(), _gaussian, 3 / 4),
    _list_truths(events.Laplace(1.2), AddRemove(), _laplace, 1 / 1.2),
    _list_truths(events.Laplace(1.2), ReplaceOne(), _laplace, 2 / 1.2),
    _list_truths(events.RandomizedResponse(0.75), ReplaceOne(), _responses, 0.75, 1),
    _repeated_response(0.75, 3),
    _repeated_response(0.6, 7),
    # zero-out is not symmetric: the unit's answer against a coin, and a coin against the unit's answer
    _list_truths(events.RandomizedResponse(0.75), ZeroOut(), _finite, (0.75, 0.25), (0.5, 0.5)),
    _list_truths(
        events.RandomizedResponse(0.7, 4), ZeroOut(), _finite, (0.7, 0.1, 0.1, 0.1), (0.25, 0.25, 0.25, 0.25)
    ),
    _list_truths(
        events.Poisson(0.2, events.Gaussian(0.8)),
        AddRemove(),
        _subsample_profile,
        0.2,
        partial(_gaussian, 1 / 0.8),
    ),
    _list_truths(
        events.Poisson(0.2, events.Laplace(0.8)),
        AddRemove(),
        _subsample_profile,
        0.2,
        partial(_laplace, 1 / 0.8),
    ),
    _list_truths(
        events.FixedSize(30, 100, events.Gaussian(1.5)),
        ReplaceOne(),
        _subsample_profile,
        0.3,
        partial(_gaussian, 2 / 1.5),
    ),
)
