"""Training plans as plain data for a document, and back.

A checkpoint stores the plan of its steps in this form. Each part of a plan is an object with a ``kind`` and
the fields of its class. A field that a document lacks takes the default of its class, so a class with a new
field that has a default still reads the documents of earlier versions. A kind, once released, is never
removed and never changes its meaning. A field that is renamed in Python keeps its name in documents
(``_STORED_NAMES``).

Version 0.1.0 wrote ``repr(plan)`` instead. ``repr_of_0_1_0`` makes that text, so that its checkpoints can be
resumed.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from privet.adjacency import Adjacency, adjacency_from_name
from privet.arguments import format_value
from privet.caveats import Caveat
from privet.documents import only
from privet.errors import InvalidArgument, NotProved, Unreadable
from privet.training.extras.encoding import Signs
from privet.training.noise.correlated import BandedNoise, IndependentNoise, TreeNoise
from privet.training.noise.distributions import Normal, Student
from privet.training.plan import QuantileClip, TrainingPlan
from privet.training.sampling.schemes import (
    CyclicPoissonSampling,
    CyclicSampling,
    FixedSizeSampling,
    PoissonSampling,
    ShuffledSampling,
)
from privet.training.sampling.separated import SeparatedSampling

__all__ = ["differing_fields", "plan_from_plain", "plan_to_plain", "repr_of_0_1_0"]

_KINDS: dict[str, type] = {
    "poisson-sampling": PoissonSampling,
    "fixed-size-sampling": FixedSizeSampling,
    "part-sampling": CyclicPoissonSampling,
    "cyclic-sampling": CyclicSampling,
    "shuffled-sampling": ShuffledSampling,
    "separated-sampling": SeparatedSampling,
    "independent-noise": IndependentNoise,
    "tree-noise": TreeNoise,
    "banded-noise": BandedNoise,
    "quantile-clip": QuantileClip,
    "normal": Normal,
    "student": Student,
    "signs": Signs,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_STORED_NAMES = {"noise_distribution": "law"}  # names of fields in documents, where they differ
_FIELD_NAMES = {stored: name for name, stored in _STORED_NAMES.items()}
# Class names of 0.1.0, which wrote repr(plan), for classes that were renamed.
_CLASSES_OF_0_1_0 = {
    "independent-noise": "Independent",
    "tree-noise": "Tree",
    "banded-noise": "Banded",
    "part-sampling": "PartSampling",
}
_FIELDS_OF_0_1_0 = (
    *("population", "sampling", "steps", "noise_multiplier", "clip_bound", "adjacency", "correlation"),
    *("adaptive", "micro_batch", "augmentations", "noise_distribution", "encoding"),
)


def plan_to_plain(plan: TrainingPlan) -> dict[str, Any]:
    """The plan as nested dictionaries, lists, text and numbers."""
    return _plain_fields(plan)


def plan_from_plain(node: object) -> TrainingPlan:
    """The plan that ``plan_to_plain`` wrote, to the last bit.

    >>> plan = TrainingPlan(
    ...     population=1000, sampling=PoissonSampling(0.01), steps=10, noise_multiplier=1.1, clip_bound=1.0
    ... )
    >>> plan_from_plain(plan_to_plain(plan)) == plan
    True
    """
    if not isinstance(node, Mapping):
        raise Unreadable(f"A plan must be an object, got {format_value(node)}. Restore the file.")
    plan: TrainingPlan = _build(TrainingPlan, "A plan", node)
    return plan


def differing_fields(first: TrainingPlan, second: TrainingPlan) -> list[str]:
    """The names of the fields in which two plans differ."""
    return [
        field.name
        for field in dataclasses.fields(TrainingPlan)
        if getattr(first, field.name) != getattr(second, field.name)
    ]


def repr_of_0_1_0(plan: TrainingPlan) -> str | None:
    """What version 0.1.0 wrote for this plan; None for a plan that it did not have."""
    if plan.size_is_public:
        return None
    fields = (
        f"{_STORED_NAMES.get(name, name)}={_repr_of_0_1_0(getattr(plan, name))}" for name in _FIELDS_OF_0_1_0
    )
    return f"Plan({', '.join(fields)})"


def _repr_of_0_1_0(value: object) -> str:
    """The repr of a part of a plan, with the class name of 0.1.0."""
    name = _CLASSES_OF_0_1_0.get(_NAMES.get(type(value), ""))
    return repr(value) if name is None else name + repr(value)[len(type(value).__qualname__) :]


def _plain_fields(value: Any) -> dict[str, Any]:  # noqa: ANN401 - any dataclass
    return {
        _STORED_NAMES.get(field.name, field.name): _plain(field.name, getattr(value, field.name))
        for field in dataclasses.fields(value)
    }


def _plain(name: str, value: object) -> object:
    if isinstance(value, Adjacency):
        return {"relation": value.relation, "unit": str(value.unit)}
    if isinstance(value, Caveat):
        return value.code
    if isinstance(value, tuple):
        return [_plain(name, part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) not in _NAMES:
        raise InvalidArgument(
            f"'{name}' must be one of Privet's own classes to be stored in a checkpoint, got "
            f"{type(value).__name__}. Train without a checkpoint, or use one of "
            f"{', '.join(kind.__name__ for kind in _NAMES)}."
        )
    return {"kind": _NAMES[type(value)], **_plain_fields(value)}


def _build(kind: type, what: str, node: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of that kind
    fields = dataclasses.fields(kind)
    only(node, what, tuple(_STORED_NAMES.get(field.name, field.name) for field in fields))
    try:
        return kind(**{_FIELD_NAMES.get(name, name): _read(name, value) for name, value in node.items()})
    except (InvalidArgument, NotProved, TypeError) as failure:
        raise Unreadable(
            f"{what} must have the fields of a plan in their range, and has not: {failure} Restore the file."
        ) from failure


def _read(name: str, value: object) -> object:
    if name == "adjacency":
        if not isinstance(value, Mapping):
            raise Unreadable(f"'adjacency' must be an object, got {format_value(value)}. Restore the file.")
        return adjacency_from_name(str(value.get("relation")), str(value.get("unit")))
    if name == "accept" and isinstance(value, str):
        if value not in Caveat.__members__:
            raise Unreadable(
                f"'accept' must be a caveat that this version knows, got {format_value(value)}. "
                f"Read the document with the version of Privet that wrote it."
            )
        return Caveat[value]
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, Mapping):
        kind = value.get("kind")
        if not isinstance(kind, str) or kind not in _KINDS:
            raise Unreadable(
                f"'kind' must be one of {', '.join(_KINDS)}, got {format_value(kind)}. "
                f"Read the document with the version of Privet that wrote it."
            )
        rest = {field: part for field, part in value.items() if field != "kind"}
        return _build(_KINDS[kind], f"'{kind}'", rest)
    return value
