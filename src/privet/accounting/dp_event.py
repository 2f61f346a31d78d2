"""Read and write dp-accounting's ``DpEvent`` trees.

Reading needs no dp-accounting: a node is identified by the name of its class, so the named tuples of
``DpEvent.to_named_tuple()`` are read as well. Only writing imports dp-accounting.

Privet and dp-accounting's PLD accountant take noise relative to the bound C on one contribution, under every
adjacency. dp-accounting's RDP accountant does too, except under REPLACE_ONE: there it takes noise relative to
the distance 2C of an exchange, so its ε of the same event is too small: 2.17 for 4.38 with σ = 2C at δ = 1e-5
(version 0.6). No one event is right for both, so ``to_neighboring_relation`` warns.

Numbers are the same, with three exceptions: a discrete Laplace has the noise parameter 1/scale there,
randomised response has the probability of an answer at random, and trees that restart are one event there
and ``Parallel`` trees here.

An event without an exact counterpart is refused, never approximated.

>>> from collections import namedtuple
>>> shipped = namedtuple("Shipped", "module_name class_name noise_multiplier")
>>> from_dp_event(shipped("dp_accounting.dp_event", "GaussianDpEvent", 1.1))
Gaussian(noise_multiplier=1.1)
"""

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeAlias

from privet import events
from privet.accounting.correlated import banded_sensitivity
from privet.accounting.dp_event_reading import from_dp_event
from privet.adjacency import AddRemove, Adjacency, ReplaceOne, Unit, ZeroOut
from privet.callers import level_of_caller
from privet.errors import InvalidArgument, MissingPackage, NotProved, Unreadable
from privet.events import Compose, Event

__all__ = [
    "MissingPackage",
    "from_dp_event",
    "from_neighboring_relation",
    "to_dp_event",
    "to_neighboring_relation",
]

_RELATIONS: Final[dict[str, type[Adjacency]]] = {
    "ADD_OR_REMOVE_ONE": AddRemove,
    "REPLACE_ONE": ReplaceOne,
    "REPLACE_SPECIAL": ZeroOut,
}


def to_dp_event(event: Event) -> Any:  # noqa: ANN401 - a DpEvent, whose package need not be installed
    """The ``DpEvent`` with the same meaning, for dp-accounting's PLD accountant and, except under
    REPLACE_ONE, for its RDP accountant.

    Reading it back gives an equal event, with two exceptions: banded noise is written as the equivalent
    Gaussian event, and noisy maxima and sparse vectors are written as their (ε, 0).
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

    An event for dp-accounting's RDP accountant under REPLACE_ONE has its noise relative to 2C. Double its
    noise before you read it.

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


def to_neighboring_relation(adjacency: Adjacency) -> Any:  # noqa: ANN401 - a member of its enum
    """The ``NeighboringRelation`` of an adjacency; its privacy unit has no place there.

    Under replace-one it warns that only dp-accounting's PLD accountant reads a written event as Privet means
    it.
    """
    if isinstance(adjacency, ReplaceOne):
        warnings.warn(
            "Under REPLACE_ONE the RDP accountant of dp-accounting takes noise relative to 2C, the "
            "distance of an exchange, and Privet takes it relative to C, the bound on one contribution; "
            "its ε of a written event is too small. Use dp-accounting's PLD accountant, or account with "
            "Privet.",
            stacklevel=level_of_caller(),
        )
    for name, kind in _RELATIONS.items():
        if isinstance(adjacency, kind):
            return getattr(_package().NeighboringRelation, name)
    raise InvalidArgument(
        f"'adjacency' must be add-remove, replace-one or zero-out, got {adjacency!r}. "
        f"Use AddRemove(), ReplaceOne() or ZeroOut()."
    )


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
    """Trees with the same noise, of which a unit takes part in one, once. dp-accounting has no other parallel
    event.
    """
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


def _package() -> Any:  # noqa: ANN401 - a module that need not be installed
    try:
        return import_module("dp_accounting")
    except ImportError as missing:
        raise MissingPackage(
            "Writing dp-accounting's events needs the package dp-accounting, which is not installed. "
            "Run pip install dp-accounting."
        ) from missing
