"""Events → dominating pairs, under one adjacency. What no theorem covers is refused here."""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from privet import events
from privet.accounting.correlated import banded_sensitivity, tree_sensitivity
from privet.accounting.pairs import (
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    FinitePair,
    GaussianPair,
    LaplacePair,
    Pair,
    randomized_response,
)
from privet.accounting.sampled import FixedSizePair, ReplacedGaussianPair, SampledPair
from privet.accounting.visible import visibly_sampled
from privet.accounting.zeroed import adds_contributions
from privet.adjacency import AddRemove, Adjacency, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import NotProved, OutOfReach
from privet.events import Event

__all__ = ["Atom", "fixed_size", "lattice_shift", "leaf", "poisson", "restate_for_exchange", "visible_sample"]

_LARGEST_MU = 12.0  # of a sampled Gaussian pair
_LARGEST_SCALE = 1e5  # of a discrete Gaussian, whose law is held in memory
_MOST_ATOMS = 1_000_000  # of a finite law
_LARGEST_SHIFT, _SMALLEST_SHIFT = 1e4, 1e-12  # of a Gaussian pair; ε is about shift²/2
_LARGEST_LOSS, _SMALLEST_LOSS = 700.0, 1e-12  # of a bounded loss; exp(loss) must be a float
_SMALLEST_RATE = 1e-12


@final
@dataclass(frozen=True)
class Atom:
    """One look at the data. ``upper`` dominates it, and it dominates ``lower``. If the two are equal, it is
    tight.

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
            return _tight(gaussian_pair(distance / noise_multiplier), Caveat.IDEALISED_REALS)
        case events.Laplace(noise_multiplier):
            return _tight(LaplacePair(bounded_loss(distance / noise_multiplier)), Caveat.IDEALISED_REALS)
        case events.DiscreteGaussian(scale, contribution):
            return _tight(_discrete_gaussian(scale, lattice_shift(contribution, adjacency)))
        case events.DiscreteLaplace(scale, contribution):
            return _tight(_discrete_laplace(scale, lattice_shift(contribution, adjacency)))
        case events.RandomizedResponse(truth, categories):
            return _tight(_response(truth, categories, adjacency))
        case events.ExponentialMechanism(epsilon=epsilon):
            return _pure(epsilon, _two_candidates(epsilon))
        case events.ReportNoisyMax(epsilon=epsilon):
            return _pure(epsilon, _two_noisy_scores(epsilon))
        case events.SparseVector(epsilon=epsilon, positives=positives):
            return _pure(epsilon, _one_comparison(epsilon, positives))
        case events.Opaque(epsilon=epsilon, delta=delta):
            return _tight(randomized_response(bounded_loss(epsilon), delta), Caveat.WORST_OF_CLASS)
        case events.BandedNoise(noise_multiplier):
            reach = distance * banded_sensitivity(event)
            return _tight(gaussian_pair(reach / noise_multiplier), Caveat.IDEALISED_REALS)
        case events.TreeNoise(noise_multiplier):
            lower, upper = tree_sensitivity(event)
            loose = {Caveat.LOOSE_LOWER_BOUND} if lower < upper else set()
            return Atom(
                gaussian_pair(distance * upper / noise_multiplier),
                gaussian_pair(distance * lower / noise_multiplier),
                frozenset({Caveat.IDEALISED_REALS, *loose}),
            )
        case events.DiscreteGaussianShares():
            raise NotProved(
                "Noise in shares is accounted by the privacy-loss, the Rényi and the concentrated accountant "
                "only. Use privet.accounting.PrivacyLoss."
            )
    raise NotProved(
        f"No dominating pair is known for an event of type {type(event).__name__}. "
        f"Describe what ran with the events of privet.events."
    )


def poisson(inner: Atom, rate: float, adjacency: Adjacency) -> Atom:
    """The pair of ``inner`` on a Poisson sample; ``inner`` is under the same adjacency.

    Under zero-out adjacency this needs a zeroed unit to be the same as an absent one (``zeroed.py``);
    elsewhere see ``visible_sample``.
    """
    caveats = inner.caveats | {Caveat.POISSON_SAMPLING}
    _check_rate(rate)
    if isinstance(adjacency, ReplaceOne):
        if not isinstance(inner.upper, GaussianPair) or inner.upper != inner.lower:
            raise NotProved(
                "Amplification by Poisson sampling under replace-one adjacency is proved for Gaussian noise "
                "only, and the sampled event has other noise. Account under add-remove or zero-out "
                "adjacency, or sample with FixedSize."
            )
        # The inner pair's distance is that of exchanging a contribution; each side is half of it.
        half = inner.upper.mu / adjacency.contribution_distance
        _subsample(GaussianPair(half), rate)  # refuses what is out of reach
        return Atom(ReplacedGaussianPair(half, rate), ReplacedGaussianPair(half, rate), caveats)
    return Atom(_subsample(inner.upper, rate), _subsample(inner.lower, rate), caveats)


def visible_sample(inner: Atom, rate: float, *, sums: bool, sampling: Caveat) -> Atom:
    """The pair of ``inner`` on a sample of either kind, under zero-out adjacency, where the output may show
    the sample.

    The upper bound holds for every event (``visible.py``). Events that show who is in the sample attain it.
    Sums show less: the lower bound of ``sums`` is that of a sample whose other members contribute nothing.
    """
    _check_rate(rate)
    caveats = inner.caveats | {sampling}
    upper = visibly_sampled(inner.upper, rate)
    if sums:
        return Atom(upper, _subsample(inner.lower, rate), caveats | {Caveat.LOOSE_LOWER_BOUND})
    return Atom(upper, visibly_sampled(inner.lower, rate), caveats)


def fixed_size(inner: Atom, replaced: Atom, rate: float, adjacency: Adjacency) -> Atom:
    """The pair of ``inner`` on a fixed-size sample; ``replaced`` is the same event under replace-one.

    The sample is a set: replace-one exchanges any member of it for any other unit. A unit that leaves a
    fixed-size sample is replaced by another, so inside the sample replace-one applies. Under zero-out this
    function is for sums. The upper bound is that of replace-one, because zero-out is a case of it. The lower
    bound is that of a sample whose other members contribute nothing.
    """
    caveats = inner.caveats | replaced.caveats | {Caveat.FIXED_SIZE_SAMPLING}
    _check_rate(rate)
    match adjacency:
        case AddRemove():
            return Atom(_subsample(replaced.upper, rate), _subsample(replaced.lower, rate), caveats)
        case ReplaceOne():
            _subsample(replaced.upper, rate)  # refuses what is out of reach
            return Atom(
                FixedSizePair(replaced.upper, rate),
                _subsample(replaced.lower, rate),
                caveats | {Caveat.LOOSE_LOWER_BOUND},
            )
        case ZeroOut():
            return Atom(
                FixedSizePair(replaced.upper, rate),
                _subsample(inner.lower, rate),
                caveats | {Caveat.LOOSE_LOWER_BOUND},
            )
    raise NotProved(f"Fixed-size sampling is not proved under {adjacency}. Use add-remove adjacency.")


def _check_rate(rate: float) -> None:
    if rate < _SMALLEST_RATE:
        raise OutOfReach(
            f"A sampling rate must be at least {_SMALLEST_RATE:g} to be accounted in float64, got "
            f"{rate:.3g}. Account at that rate; the bound holds for every smaller one."
        )


def _pure(epsilon: float, attained: FinitePair) -> Atom:
    """An upper bound by the ε of the event alone, and a lower bound by one mechanism of its kind."""
    return Atom(randomized_response(bounded_loss(epsilon)), attained, frozenset({Caveat.LOOSE_LOWER_BOUND}))


def _tight(pair: Pair, *caveats: Caveat) -> Atom:
    return Atom(pair, pair, frozenset(caveats))


def restate_for_exchange(event: Event) -> Event:
    """The same event with its claims restated for one unit exchanged, which is one removed and one added.

    An (ε, δ) under add-remove or zero-out adjacency is (2ε, δ + exp(ε) δ) under replace-one. The pairs of
    sums and of randomised response know replace-one adjacency themselves. Any other event is refused here, so
    that no claim is forgotten.
    """
    match event:
        case events.Opaque(epsilon=epsilon, delta=delta):
            both = min(delta * (1 + math.exp(min(epsilon, 700.0))), 1 - 1e-16)
            return events.Opaque(epsilon=2 * epsilon, delta=both)
        case events.ExponentialMechanism() | events.ReportNoisyMax() | events.SparseVector():
            return replace(event, epsilon=2 * event.epsilon)
        case events.Poisson() | events.FixedSize() | events.Repeat():
            return replace(event, inner=restate_for_exchange(event.inner))
        case events.Compose() | events.Parallel():
            return replace(event, parts=tuple(restate_for_exchange(part) for part in event.parts))
        case events.BestOfPoisson() | events.BestOfNegativeBinomial():
            return replace(event, candidates=tuple(map(restate_for_exchange, event.candidates)))
        case events.RandomizedResponse():
            return event
    if adds_contributions(event):
        return event
    raise NotProved(
        f"No theorem restates an event of type {type(event).__name__} for one unit exchanged. "
        f"Account under replace-one adjacency, or describe what ran with other events of privet.events."
    )


def _subsample(pair: Pair, rate: float) -> Pair:
    if isinstance(pair, GaussianPair) and pair.mu > _LARGEST_MU:
        raise OutOfReach(
            f"The noise of a sampled Gaussian must be at least 1/{_LARGEST_MU:g} of what one unit can "
            f"change, got 1/{pair.mu:.4g}, because its moments leave float64 below. Add noise, or account "
            "without the sampling."
        )
    match pair:
        case SampledPair(base, inner_rate):
            return SampledPair(base, inner_rate * rate)
        case FinitePair():
            return pair.subsample(rate)
        case DiscreteGaussianPair() | DiscreteLaplacePair():
            losses, masses = pair.law()
            _few(losses.size)
            return FinitePair(tuple(losses.tolist()), tuple(masses.tolist()), 0.0, pair.unmet).subsample(rate)
    return SampledPair(pair, rate)


def _discrete_gaussian(scale: float, shift: int) -> DiscreteGaussianPair:
    if scale > _LARGEST_SCALE:
        raise NotProved(
            f"'scale' of a discrete Gaussian must be at most {_LARGEST_SCALE:g} to be accounted exactly, "
            f"got {scale:g}. Account with privet.accounting.Concentrated, which takes any scale."
        )
    gaussian_pair(shift / scale)
    return DiscreteGaussianPair(scale, shift)


def gaussian_pair(mu: float) -> GaussianPair:
    """The pair of Gaussian noise. Noise that is far smaller or far larger than the sensitivity is refused."""
    if not _SMALLEST_SHIFT <= mu <= _LARGEST_SHIFT:
        raise OutOfReach(
            f"Noise must be between {1 / _LARGEST_SHIFT:g} and {1 / _SMALLEST_SHIFT:g} times what one unit "
            f"can move to be accounted in float64, got {1 / mu if mu else math.inf:.3g} times. "
            f"{'Add noise.' if mu > 1 else 'Use less noise; less than this is already private.'}"
        )
    return GaussianPair(mu)


def bounded_loss(epsilon: float) -> float:
    """A pure ε, checked so that exp(ε) is a float. It is a float: an int would make an array of ints."""
    if epsilon != 0 and not _SMALLEST_LOSS <= epsilon <= _LARGEST_LOSS:
        raise OutOfReach(
            f"The ε of one event must be 0, or between {_SMALLEST_LOSS:g} and {_LARGEST_LOSS:g}, to be "
            f"accounted in float64, got {epsilon:.3g}. "
            f"{'Add noise.' if epsilon > 1 else 'State a larger ε, which holds too.'}"
        )
    return float(epsilon)


def lattice_shift(contribution: float, adjacency: Adjacency) -> int:
    """How far one unit moves a sum of whole numbers."""
    shift = adjacency.contribution_distance * contribution
    if shift != int(shift):
        raise NotProved(
            f"Noise on whole numbers hides whole numbers only, and under {adjacency} one unit would move "
            f"the sum by {shift:g}. Round its contribution up; halves are for replace-one adjacency."
        )
    return int(shift)


def _few(atoms: int) -> None:
    if atoms > _MOST_ATOMS:
        raise NotProved(
            f"A discrete law must have at most {_MOST_ATOMS:.0e} values to be accounted exactly, and this "
            f"one has {atoms:.1e}. Count in larger units, or state the ε of the event as Opaque."
        )


def _discrete_laplace(scale: float, shift: int) -> DiscreteLaplacePair:
    bounded_loss(shift / scale)
    _few(shift + 1)
    return DiscreteLaplacePair(scale, shift)


def _response(truth: float, categories: int, adjacency: Adjacency) -> FinitePair:
    other = (1 - truth) / (categories - 1)
    match adjacency:
        case ReplaceOne():
            gain = float(np.log(truth / other))
            if gain <= 0:
                return randomized_response(0.0)
            return FinitePair((gain, -gain, 0.0), (truth, other, (categories - 2) * other), 0.0, 0.0)
        case ZeroOut():
            losses = (float(np.log(categories * truth)), float(np.log(categories * other)))
            return FinitePair(losses, (truth, 1 - truth), 0.0, 0.0)
    raise NotProved(
        "Randomised response shows that a person answered, so it has no guarantee under add-remove "
        "adjacency. Account under replace-one, or under zero-out, where a missing answer is a random one."
    )


def _two_candidates(epsilon: float) -> FinitePair:
    """An exponential mechanism with two candidates whose scores move apart: losses ± ε/2."""
    return randomized_response(0.5 * epsilon)


def _two_noisy_scores(epsilon: float) -> FinitePair:
    """A noisy maximum of two equal scores, or of two that the unit moves apart by 2Δ; exponential noise of
    scale 2Δ/ε.

    The smaller score wins with probability exp(−ε·gap/2Δ)/2, so its probability is ½ or exp(−ε)/2.
    """
    rare = 0.5 * math.exp(-epsilon)
    losses = (epsilon, math.log(0.5) - math.log1p(-rare))
    return FinitePair(losses, (0.5, 0.5), 0.0, 0.0)


def _one_comparison(epsilon: float, positives: int) -> FinitePair:
    """The first answer of a sparse vector. The unit moves the query by Δ, from Δ/2 below the threshold to Δ/2
    above it.

    The noise of the query minus that of the threshold is a difference of two Laplace variables, of scales
    Δ/ε₁ and 2·positives·Δ/ε₂, with ε₁ : ε₂ = 1 : (2·positives)^⅔ (Lyu, Su & Li 2017, Theorem 4 and Section
    4.2).
    """
    often = (2 * positives) ** (2 / 3)
    once, each = (1 + often) / epsilon, 2 * positives * (1 + 1 / often) / epsilon
    # P[X − Y > x] = (a² exp(−x/a) − b² exp(−x/b)) / (2 (a² − b²)) for scales a ≠ b and x ≥ 0
    above = (once**2 * math.exp(-0.5 / once) - each**2 * math.exp(-0.5 / each)) / (2 * (once**2 - each**2))
    return randomized_response(math.log1p(-above) - math.log(above))
