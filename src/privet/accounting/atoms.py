"""Events → dominating pairs, under one adjacency. What no theorem covers is refused here."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privet import events
from privet.accounting.correlated import banded_sensitivity, tree_sensitivity
from privet.accounting.pairs import (
    DiscreteGaussianPair,
    FinitePair,
    GaussianPair,
    LaplacePair,
    Pair,
    discrete_laplace,
    randomized_response,
)
from privet.accounting.sampled import FixedSizePair, ReplacedGaussianPair, SampledPair
from privet.adjacency import AddRemove, Adjacency, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import NotProved
from privet.events import Event

__all__ = ["Atom", "fixed_size", "leaf", "poisson"]

_LARGEST_SCALE = 1e5  # of a discrete Gaussian, whose law is held in memory


@final
@dataclass(frozen=True)
class Atom:
    """One look at the data. ``upper`` dominates it; it dominates ``lower``, and both when they are one.

    A pair is for the order "the unit is in, the unit is out"; its swap is for the other order.
    """

    upper: Pair
    lower: Pair
    caveats: frozenset[Caveat] = frozenset()


def leaf(event: Event, adjacency: Adjacency) -> Atom:
    """The pair of an unsampled event."""
    distance = adjacency.contribution_distance
    match event:
        case events.Gaussian(noise_multiplier):
            return _tight(GaussianPair(distance / noise_multiplier), Caveat.IDEALISED_REALS)
        case events.Laplace(noise_multiplier):
            return _tight(LaplacePair(distance / noise_multiplier), Caveat.IDEALISED_REALS)
        case events.DiscreteGaussian(scale, contribution):
            return _tight(_discrete_gaussian(scale, distance * contribution))
        case events.DiscreteLaplace(scale, contribution):
            return _tight(discrete_laplace(scale, distance * contribution))
        case events.RandomizedResponse(truth, categories):
            return _tight(_response(truth, categories, adjacency))
        case events.ExponentialMechanism(epsilon=epsilon):
            return Atom(
                randomized_response(epsilon),
                _two_candidates(epsilon),
                frozenset({Caveat.LOOSE_LOWER_BOUND}),
            )
        case events.ReportNoisyMax(epsilon=epsilon) | events.SparseVector(epsilon=epsilon):
            return _tight(randomized_response(epsilon), Caveat.WORST_OF_CLASS)
        case events.Opaque(epsilon=epsilon, delta=delta):
            return _tight(randomized_response(epsilon, delta), Caveat.WORST_OF_CLASS)
        case events.BandedNoise(noise_multiplier):
            reach = distance * banded_sensitivity(event)
            return _tight(GaussianPair(reach / noise_multiplier), Caveat.IDEALISED_REALS)
        case events.TreeNoise(noise_multiplier):
            lower, upper = tree_sensitivity(event)
            loose = {Caveat.LOOSE_LOWER_BOUND} if lower < upper else set()
            return Atom(
                GaussianPair(distance * upper / noise_multiplier),
                GaussianPair(distance * lower / noise_multiplier),
                frozenset({Caveat.IDEALISED_REALS, *loose}),
            )
    raise NotProved(
        f"No dominating pair is known for an event of type {type(event).__name__}. "
        f"Describe what ran with the events of privet.events."
    )


def poisson(inner: Atom, rate: float, adjacency: Adjacency) -> Atom:
    """The pair of ``inner`` on a Poisson sample; ``inner`` is under the same adjacency."""
    caveats = inner.caveats | {Caveat.POISSON_SAMPLING}
    if rate == 1:
        return inner
    if isinstance(adjacency, ReplaceOne):
        if not isinstance(inner.upper, GaussianPair) or inner.upper != inner.lower:
            raise NotProved(
                "Amplification by Poisson sampling under replace-one adjacency is proved for Gaussian noise "
                "only, and the sampled event has other noise. Account under add-remove or zero-out "
                "adjacency, or sample with FixedSize."
            )
        # The inner pair's distance is that of exchanging a contribution; each side is half of it.
        half = inner.upper.mu / adjacency.contribution_distance
        return Atom(ReplacedGaussianPair(half, rate), ReplacedGaussianPair(half, rate), caveats)
    return Atom(_sampled(inner.upper, rate), _sampled(inner.lower, rate), caveats)


def fixed_size(inner: Atom, replaced: Atom, rate: float, adjacency: Adjacency) -> Atom:
    """The pair of ``inner`` on a fixed-size sample; ``replaced`` is the same event under replace-one.

    A unit that leaves a fixed-size sample is replaced by another, so replace-one is what counts inside. Under
    zero-out the upper bound is that of replace-one, of which it is a case, and the lower bound that of a sample
    whose other members contribute nothing.
    """
    caveats = inner.caveats | replaced.caveats | {Caveat.FIXED_SIZE_SAMPLING}
    if rate == 1:
        return inner
    match adjacency:
        case AddRemove():
            return Atom(_sampled(replaced.upper, rate), _sampled(replaced.lower, rate), caveats)
        case ReplaceOne():
            return Atom(
                FixedSizePair(replaced.upper, rate),
                _sampled(replaced.lower, rate),
                caveats | {Caveat.LOOSE_LOWER_BOUND},
            )
        case ZeroOut():
            return Atom(
                FixedSizePair(replaced.upper, rate),
                _sampled(inner.lower, rate),
                caveats | {Caveat.LOOSE_LOWER_BOUND},
            )
    raise NotProved(f"Fixed-size sampling is not proved under {adjacency}. Use add-remove adjacency.")


def _tight(pair: Pair, *caveats: Caveat) -> Atom:
    return Atom(pair, pair, frozenset(caveats))


def _sampled(pair: Pair, rate: float) -> Pair:
    match pair:
        case SampledPair(base, inner_rate):
            return SampledPair(base, inner_rate * rate)
        case FinitePair():
            return pair.sampled(rate)
        case DiscreteGaussianPair():
            losses, masses = pair.law()
            return FinitePair(tuple(losses), tuple(masses)).sampled(rate)
    return SampledPair(pair, rate)


def _discrete_gaussian(scale: float, shift: int) -> DiscreteGaussianPair:
    if scale > _LARGEST_SCALE:
        raise NotProved(
            f"'scale' of a discrete Gaussian must be at most {_LARGEST_SCALE:g} to be accounted exactly, got "
            f"{scale:g}. Account with privet.accounting.Concentrated, which takes any scale."
        )
    return DiscreteGaussianPair(scale, shift)


def _response(truth: float, categories: int, adjacency: Adjacency) -> FinitePair:
    other = (1 - truth) / (categories - 1)
    match adjacency:
        case ReplaceOne():
            gain = float(np.log(truth / other))
            return FinitePair((gain, -gain, 0.0), (truth, other, (categories - 2) * other))
        case ZeroOut():
            losses = (float(np.log(categories * truth)), float(np.log(categories * other)))
            return FinitePair(losses, (truth, 1 - truth))
    raise NotProved(
        "Randomised response shows that a person answered, so it has no guarantee under add-remove adjacency. "
        "Account under replace-one, or under zero-out, where a missing answer is a random one."
    )


def _two_candidates(epsilon: float) -> FinitePair:
    """An exponential mechanism with two candidates whose scores move apart: losses ± ε/2."""
    likely = float(1 / (1 + np.exp(-0.5 * epsilon)))
    return FinitePair((0.5 * epsilon, -0.5 * epsilon), (likely, 1 - likely))
