"""dp-accounting's ``DpEvent`` trees → events, without dp-accounting: the name of a node's class identifies
it.
"""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from privet import events
from privet.errors import InvalidArgument, NotProved, Unreadable
from privet.events import Compose, Event

__all__ = ["from_dp_event"]

_NOTHING: Final = Compose(())


def from_dp_event(node: object) -> Event:
    """The Privet event with the same meaning as a ``DpEvent``, or as its named tuple.

    An unknown node, and one that no event of Privet describes exactly, is refused with the reason.
    """
    name = _class_name(node)
    if name in _REFUSED:
        raise NotProved(f"{name} has no counterpart in Privet, because {_REFUSED[name]}")
    if name not in _READERS:
        raise Unreadable(
            f"'node' must be one of dp-accounting's events, got {name!r}. "
            f"Describe it with the events of privet.events."
        )
    return _READERS[name](node)


def _gaussian(node: object) -> Event:
    return events.Gaussian(_noise(node, "noise_multiplier"))


def _laplace(node: object) -> Event:
    return events.Laplace(_noise(node, "noise_multiplier"))


def _discrete_gaussian(node: object) -> Event:
    sensitivity, dimension = _real(node, "sensitivity"), _field(node, "dimension")
    if dimension != 1 or not sensitivity.is_integer():
        raise NotProved(
            f"A discrete Gaussian must have 'dimension' 1 and a whole 'sensitivity' to be accounted exactly, "
            f"got {dimension!r} and {sensitivity!r}. Describe each coordinate with an event of its own."
        )
    return events.DiscreteGaussian(_noise(node, "sigma"), int(sensitivity))


def _discrete_laplace(node: object) -> Event:
    # P[x] ∝ exp(−a|x|)
    return events.DiscreteLaplace(1 / _noise(node, "noise_parameter"), _whole(node, "sensitivity"))


def _randomized_response(node: object) -> Event:
    """With probability p the answer is uniform over all k buckets, the true one among them."""
    buckets, noise = _whole(node, "num_buckets"), _real(node, "noise_parameter")
    if not 0 <= noise <= 1:
        raise InvalidArgument(
            f"'noise_parameter' must lie in [0, 1], got {noise!r}. "
            f"Give the probability of an answer at random."
        )
    if buckets == 1 or noise == 1:
        return _NOTHING
    if noise == 0:
        raise _not_private("a randomised response that always tells the truth")
    chance = math.nextafter(1 / buckets, 1)  # so that round-off does not give a truth below chance
    return events.RandomizedResponse(max(1 - noise + noise / buckets, chance), buckets)


def _opaque(node: object) -> Event:
    return events.Opaque(epsilon=_real(node, "epsilon"), delta=_real(node, "delta"))


def _tree(node: object) -> Event:
    """Each unit takes part once across all trees. The other trees do not depend on it."""
    noise, counts = _noise(node, "noise_multiplier"), _field(node, "step_counts")
    steps = [
        _as_whole("step_counts", count) for count in (counts if isinstance(counts, Sequence) else [counts])
    ]
    trees = tuple(events.TreeNoise(noise, count) for count in steps)
    return trees[0] if len(trees) == 1 else events.Parallel(trees)


def _poisson(node: object) -> Event:
    inner, rate = from_dp_event(_field(node, "event")), _real(node, "sampling_probability")
    return _NOTHING if rate == 0 else events.Poisson(rate, inner)


def _fixed_size(node: object) -> Event:
    inner, size = from_dp_event(_field(node, "event")), _whole(node, "sample_size")
    return _NOTHING if size == 0 else events.FixedSize(size, _whole(node, "source_dataset_size"), inner)


def _repeat(node: object) -> Event:
    inner, times = from_dp_event(_field(node, "event")), _whole(node, "count")
    return _NOTHING if times == 0 else events.Repeat(inner, times)


def _compose(node: object) -> Event:
    parts = _field(node, "events")
    if not isinstance(parts, Sequence):
        raise Unreadable(f"'events' must be a list, got {type(parts).__name__}. Give the parts that ran.")
    return Compose(tuple(map(from_dp_event, parts)))


_READERS: Final[dict[str, Callable[[object], Event]]] = {
    "NoOpDpEvent": lambda node: _NOTHING,
    "GaussianDpEvent": _gaussian,
    "LaplaceDpEvent": _laplace,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "RandomizedResponseDpEvent": _randomized_response,
    "ExponentialMechanismDpEvent": lambda node: events.ExponentialMechanism(epsilon=_real(node, "epsilon")),
    "PermuteAndFlipDpEvent": lambda node: events.ReportNoisyMax(epsilon=_real(node, "epsilon")),
    "EpsilonDeltaDpEvent": _opaque,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "PoissonSampledDpEvent": _poisson,
    "SampledWithoutReplacementDpEvent": _fixed_size,
    "SelfComposedDpEvent": _repeat,
    "ComposedDpEvent": _compose,
}

_REFUSED: Final[dict[str, str]] = {
    "NonPrivateDpEvent": "it has no finite ε. Take what it released out of the claim, or add noise to it.",
    "UnsupportedDpEvent": "it says nothing of what ran. Describe the mechanism with an event of its own.",
    "SampledWithReplacementDpEvent": (
        "a unit may be drawn more than once and no tight pair is known for that. "
        "Sample without replacement, or with Poisson."
    ),
    "RepeatAndSelectDpEvent": (
        "a random number of runs of which the best is shown is bounded by its moments only. "
        "Account for every run with Repeat, or state its (ε, δ) as Opaque."
    ),
    "MixtureOfGaussiansDpEvent": (
        "it fixes two output distributions and not what one unit contributes. "
        "Where a unit contributes c with probability q, write Poisson(q, Gaussian(standard_deviation / c))."
    ),
    "ZCDpEvent": (
        "a bound on moments does not determine a pair of distributions. "
        "Describe the mechanism behind it, such as Gaussian(1/√(2ρ)), or state its (ε, δ) as Opaque."
    ),
    "TruncatedSubsampledGaussianDpEvent": (
        "lots that are cut off at a size are neither Poisson nor of a fixed size. "
        "Do not cut the lots off, and use Poisson."
    ),
}


def _class_name(node: object) -> str:
    """The event's name: the name of its class, or the name in its named tuple, as text or bytes."""
    name = getattr(node, "class_name", type(node).__name__)
    return name.decode() if isinstance(name, bytes) else str(name)


def _field(node: object, name: str) -> Any:  # noqa: ANN401 - foreign data, checked by whoever asks
    try:
        return getattr(node, name)
    except AttributeError as missing:
        raise Unreadable(
            f"{_class_name(node)} must have the field '{name}', and has not. "
            f"Write it with the dp-accounting that defines it."
        ) from missing


def _real(node: object, name: str) -> float:
    value = _field(node, name)
    try:
        return float(value)
    except (TypeError, ValueError) as broken:
        raise Unreadable(f"'{name}' must be a number, got {value!r}. Give it as an int or float.") from broken


def _whole(node: object, name: str) -> int:
    return _as_whole(name, _field(node, name))


def _as_whole(name: str, value: Any) -> int:  # noqa: ANN401 - foreign data, numpy integers too
    try:
        return operator.index(value)
    except TypeError as broken:
        raise Unreadable(f"'{name}' must be a whole number, got {value!r}. Give it as an int.") from broken


def _noise(node: object, name: str) -> float:
    value = _real(node, name)
    if value == 0:
        raise _not_private(f"{_class_name(node)} with '{name}' = 0")
    return value


def _not_private(what: str) -> NotProved:
    return NotProved(f"Nothing is proved for {what}, because it has no finite ε. Add noise.")
