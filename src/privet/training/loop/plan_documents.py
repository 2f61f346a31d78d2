"""Training plans as plain data for a document, and back.

A checkpoint knows by this document which plan its steps were taken under. Each part of a plan is an object with a ``kind`` and the
fields of its class. A field that a document does not have takes the default of its class, so a class that gets a new field with
a default still reads the documents of earlier versions. A kind, once released, is never removed and never re-meant.

Version 0.1.0 wrote ``repr(plan)`` instead; ``repr_of_0_1_0`` gives that text, so that its checkpoints go on.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from privet.adjacency import Adjacency, adjacency_from_name
from privet.arguments import shown
from privet.caveats import Caveat
from privet.documents import only
from privet.errors import InvalidArgument, NotProved, Unreadable
from privet.training.extras.encoding import Signs
from privet.training.noise.correlated import BandedNoise, IndependentNoise, TreeNoise
from privet.training.noise.distributions import Normal, Student
from privet.training.plan import Plan, QuantileClip
from privet.training.sampling.schemes import (
    CyclicSampling,
    FixedSizeSampling,
    PartSampling,
    PoissonSampling,
    ShuffledSampling,
)

__all__ = ["differing_fields", "plan_from_plain", "plan_to_plain", "repr_of_0_1_0"]

_KINDS: dict[str, type] = {
    "poisson-sampling": PoissonSampling,
    "fixed-size-sampling": FixedSizeSampling,
    "part-sampling": PartSampling,
    "cyclic-sampling": CyclicSampling,
    "shuffled-sampling": ShuffledSampling,
    "independent-noise": IndependentNoise,
    "tree-noise": TreeNoise,
    "banded-noise": BandedNoise,
    "quantile-clip": QuantileClip,
    "normal": Normal,
    "student": Student,
    "signs": Signs,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_KEYS = {"noise_distribution": "law"}  # fields whose key in a document is older than their name
_FIELDS = {key: field for field, key in _KEYS.items()}
_CLASSES_OF_0_1_0: dict[type, str] = {
    IndependentNoise: "Independent",
    TreeNoise: "Tree",
    BandedNoise: "Banded",
}
_FIELDS_OF_0_1_0 = (
    *("population", "sampling", "steps", "noise_multiplier", "clip_bound", "adjacency", "correlation"),
    *("adaptive", "micro_batch", "augmentations", "noise_distribution", "encoding"),
)


def plan_to_plain(plan: Plan) -> dict[str, Any]:
    """The plan as nested dictionaries, lists, text and numbers."""
    names = [field.name for field in dataclasses.fields(plan)]
    return {_KEYS.get(name, name): _plain(name, getattr(plan, name)) for name in names}


def plan_from_plain(node: object) -> Plan:
    """The plan that ``plan_to_plain`` wrote, to the last bit.

    >>> plan = Plan(
    ...     population=1000, sampling=PoissonSampling(0.01), steps=10, noise_multiplier=1.1, clip_bound=1.0
    ... )
    >>> plan_from_plain(plan_to_plain(plan)) == plan
    True
    """
    if not isinstance(node, Mapping):
        raise Unreadable(f"A plan must be an object, got {shown(node)}. Restore the file.")
    plan: Plan = _built(Plan, "A plan", node)
    return plan


def differing_fields(one: Plan, other: Plan) -> list[str]:
    """The names of the fields in which two plans differ."""
    return [
        field.name
        for field in dataclasses.fields(Plan)
        if getattr(one, field.name) != getattr(other, field.name)
    ]


def repr_of_0_1_0(plan: Plan) -> str | None:
    """What version 0.1.0 wrote for this plan, or nothing for a plan that it did not have."""
    if plan.size_is_public:
        return None
    parts = [f"{_KEYS.get(name, name)}={_repr_of_0_1_0(getattr(plan, name))}" for name in _FIELDS_OF_0_1_0]
    return f"Plan({', '.join(parts)})"


def _repr_of_0_1_0(value: object) -> str:
    """The repr of a value, under the name that its class had in version 0.1.0."""
    old = _CLASSES_OF_0_1_0.get(type(value))
    return repr(value) if old is None else old + repr(value).removeprefix(type(value).__name__)


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
            f"'{name}' must be one of Privet's own classes to be kept in a checkpoint, got {type(value).__name__}. "
            f"Train without a checkpoint, or use one of {', '.join(kind.__name__ for kind in _NAMES)}."
        )
    fields = dataclasses.fields(value)  # type: ignore[arg-type]
    return {
        "kind": _NAMES[type(value)],
        **{field.name: _plain(field.name, getattr(value, field.name)) for field in fields},
    }


def _built(kind: type, what: str, node: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of that kind
    fields = dataclasses.fields(kind)
    only(node, what, tuple(_KEYS.get(field.name, field.name) for field in fields))
    try:
        return kind(**{_FIELDS.get(key, key): _read(key, value) for key, value in node.items()})
    except (InvalidArgument, NotProved, TypeError) as wrong:
        raise Unreadable(
            f"{what} must have the fields of a plan in their range, and has not: {wrong} Restore the file."
        ) from wrong


def _read(name: str, value: object) -> object:
    if name == "adjacency":
        if not isinstance(value, Mapping):
            raise Unreadable(f"'adjacency' must be an object, got {shown(value)}. Restore the file.")
        return adjacency_from_name(str(value.get("relation")), str(value.get("unit")))
    if name == "accept" and isinstance(value, str):
        if value not in Caveat.__members__:
            raise Unreadable(
                f"'accept' must be a caveat that this version knows, got {shown(value)}. "
                f"Read the document with the version of Privet that wrote it."
            )
        return Caveat[value]
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, Mapping):
        named = value.get("kind")
        if not isinstance(named, str) or named not in _KINDS:
            raise Unreadable(
                f"'kind' must be one of {', '.join(_KINDS)}, got {shown(named)}. "
                f"Read the document with the version of Privet that wrote it."
            )
        rest = {field: part for field, part in value.items() if field != "kind"}
        return _built(_KINDS[named], f"'{named}'", rest)
    return value
