"""dp-accounting's ``DpEvent`` trees, read and written, because that is what people have.

Reading needs no dp-accounting: a node is known by the name of its class, so the named tuples that
``DpEvent.to_named_tuple()`` ships are read as well. Writing imports it, then and only then.

Both libraries take noise relative to the bound C on one contribution, under every adjacency, so numbers pass
unchanged but for three: a discrete Laplace has the noise parameter 1/scale, randomised response has the
probability of an answer at random, and trees that restart are one event there and ``Parallel`` trees here.

What has no exact counterpart is refused, never approximated.

>>> from collections import namedtuple
>>> shipped = namedtuple("Shipped", "module_name class_name noise_multiplier")
>>> from_dp_event(shipped("dp_accounting.dp_event", "GaussianDpEvent", 1.1))
Gaussian(noise_multiplier=1.1)
"""

import math
import operator
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

from privet import events
from privet.accounting.correlated import banded_sensitivity
from privet.adjacency import AddRemove, Adjacency, ReplaceOne, Unit, ZeroOut
from privet.errors import InvalidArgument, NotProved, PrivetError, Unreadable
from privet.events import Compose, Event

__all__ = [
    "MissingPackage",
    "from_dp_event",
    "from_neighboring_relation",
    "to_dp_event",
    "to_neighboring_relation",
]

_NOTHING: Final = Compose(())

_RELATIONS: Final[dict[str, type[Adjacency]]] = {
    "ADD_OR_REMOVE_ONE": AddRemove,
    "REPLACE_ONE": ReplaceOne,
    "REPLACE_SPECIAL": ZeroOut,
}


class MissingPackage(PrivetError, ImportError):
    """A package that only this question needs is not installed."""


def from_dp_event(node: object) -> Event:
    """The Privet event with the same meaning as a ``DpEvent``, or as its named tuple.

    A node of unknown meaning, or one that no event of Privet describes exactly, is refused with the reason.
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


def to_dp_event(event: Event) -> Any:
    """The ``DpEvent`` with the same meaning.

    Reading it back gives an equal event, except that banded noise is written as the Gaussian event that it is
    equivalent to, and that noisy maxima and sparse vectors are written as the (ε, 0) that is known of them.
    """
    writer = _WRITERS.get(type(event))
    if writer is None:
        raise InvalidArgument(
            f"'event' must be an event of Privet, got {type(event).__name__}. "
            f"Describe what ran with privet.events."
        )
    kind, fields = writer(event)
    made = getattr(_package().dp_event, f"{kind}DpEvent", None)
    if made is None:
        raise NotProved(
            f"The dp-accounting that is installed has no {kind}DpEvent. "
            f"Account with Privet, or install one that has."
        )
    return made(**fields)


def from_neighboring_relation(relation: object, unit: Unit = Unit.RECORD) -> Adjacency:
    """The adjacency that a ``NeighboringRelation``, or its name, stands for.

    >>> str(from_neighboring_relation("REPLACE_SPECIAL"))
    'zero-out (record)'
    """
    name = relation if isinstance(relation, str) else getattr(relation, "name", None)
    if name not in _RELATIONS:
        raise Unreadable(
            f"'relation' must be one of {', '.join(_RELATIONS)}, got {relation!r}. "
            f"Give dp-accounting's NeighboringRelation or its name."
        )
    return _RELATIONS[name](unit)


def to_neighboring_relation(adjacency: Adjacency) -> Any:
    """The ``NeighboringRelation`` of an adjacency; its privacy unit has no place there."""
    for name, kind in _RELATIONS.items():
        if isinstance(adjacency, kind):
            return getattr(_package().NeighboringRelation, name)
    raise InvalidArgument(
        f"'adjacency' must be add-remove, replace-one or zero-out, got {adjacency!r}. "
        f"Use AddRemove(), ReplaceOne() or ZeroOut()."
    )


# --- reading -----------------------------------------------------------------------------------------------


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
    chance = math.nextafter(1 / buckets, 1)  # round-off must not put the truth below it
    return events.RandomizedResponse(max(1 - noise + noise / buckets, chance), buckets)


def _opaque(node: object) -> Event:
    return events.Opaque(epsilon=_real(node, "epsilon"), delta=_real(node, "delta"))


def _tree(node: object) -> Event:
    """Each unit takes part once across all trees: those it is not in tell nothing of it."""
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
    """The event's name: that of the class, or that which a named tuple carries, as text or as bytes."""
    name = getattr(node, "class_name", type(node).__name__)
    return name.decode() if isinstance(name, bytes) else str(name)


def _field(node: object, name: str) -> Any:
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


def _as_whole(name: str, value: Any) -> int:
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


# --- writing: the name without "DpEvent", and the fields ----------------------------------------------------

Written: TypeAlias = tuple[str, dict[str, Any]]


def _written_response(event: events.RandomizedResponse) -> Written:
    noise = (1 - event.truth) * event.categories / (event.categories - 1)
    return "RandomizedResponse", {"noise_parameter": min(noise, 1.0), "num_buckets": event.categories}


def _written_discrete_gaussian(event: events.DiscreteGaussian) -> Written:
    return "DiscreteGaussian", {"sigma": event.scale, "sensitivity": event.contribution, "dimension": 1}


def _written_discrete_laplace(event: events.DiscreteLaplace) -> Written:
    return "DiscreteLaplace", {"noise_parameter": 1 / event.scale, "sensitivity": event.contribution}


def _written_banded(event: events.BandedNoise) -> Written:
    return "Gaussian", {"noise_multiplier": event.noise_multiplier / banded_sensitivity(event)}


def _written_pure(event: events.ReportNoisyMax | events.SparseVector) -> Written:
    return "EpsilonDelta", {"epsilon": event.epsilon, "delta": 0.0}


def _written_trees(parts: tuple[Event, ...]) -> Written:
    """Trees that a unit takes part in once in all, with one noise; nothing else there is parallel."""
    trees = [part for part in parts if isinstance(part, events.TreeNoise) and part.participations == 1]
    if len(trees) != len(parts) or len({tree.noise_multiplier for tree in trees}) != 1:
        raise NotProved(
            "dp-accounting has no event for parallel parts, nor for trees, except for trees of one noise "
            "multiplier in which a unit takes part once in all. Account with Privet."
        )
    counts = [tree.steps for tree in trees]
    return "SingleEpochTreeAggregation", {
        "noise_multiplier": trees[0].noise_multiplier,
        "step_counts": counts[0] if len(counts) == 1 else counts,
    }


def _written_poisson(event: events.Poisson) -> Written:
    return "PoissonSampled", {"sampling_probability": event.rate, "event": to_dp_event(event.inner)}


def _written_fixed_size(event: events.FixedSize) -> Written:
    return "SampledWithoutReplacement", {
        "source_dataset_size": event.population,
        "sample_size": event.size,
        "event": to_dp_event(event.inner),
    }


def _written_compose(event: Compose) -> Written:
    return (
        ("Composed", {"events": [to_dp_event(part) for part in event.parts]}) if event.parts else ("NoOp", {})
    )


_WRITERS: Final[dict[type[Event], Callable[[Any], Written]]] = {
    events.Gaussian: lambda event: ("Gaussian", {"noise_multiplier": event.noise_multiplier}),
    events.Laplace: lambda event: ("Laplace", {"noise_multiplier": event.noise_multiplier}),
    events.DiscreteGaussian: _written_discrete_gaussian,
    events.DiscreteLaplace: _written_discrete_laplace,
    events.RandomizedResponse: _written_response,
    events.ExponentialMechanism: lambda event: ("ExponentialMechanism", {"epsilon": event.epsilon}),
    events.ReportNoisyMax: _written_pure,
    events.SparseVector: _written_pure,
    events.Opaque: lambda event: ("EpsilonDelta", {"epsilon": event.epsilon, "delta": event.delta}),
    events.BandedNoise: _written_banded,
    events.TreeNoise: lambda event: _written_trees((event,)),
    events.Parallel: lambda event: _written_trees(event.parts),
    events.Poisson: _written_poisson,
    events.FixedSize: _written_fixed_size,
    events.Repeat: lambda event: ("SelfComposed", {"event": to_dp_event(event.inner), "count": event.times}),
    Compose: _written_compose,
}


def _package() -> Any:
    try:
        return import_module("dp_accounting")
    except ImportError as missing:
        raise MissingPackage(
            "Writing dp-accounting's events needs the package dp-accounting, which is not installed. "
            "Run pip install dp-accounting."
        ) from missing
