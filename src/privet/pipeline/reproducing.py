"""The Python call that gives the same figures, written out: what was said, and what was decided on the way."""

from collections.abc import Iterable

from privet.attacks import Outputs
from privet.attacks.shadows import Recipe
from privet.ledger import Ledger
from privet.pipeline.choosing import AttackChoice
from privet.reporting.facts import ReferenceModels
from privet.scores import Records

__all__ = ["audit_call", "scores_call"]


def audit_call(
    *,
    name: str,
    recipe: Recipe | None,
    reference_models: ReferenceModels | None,
    attacks: AttackChoice,
    public: Records | None,
    ledger: Ledger | None,
    delta: float,
    confidence: float,
    gives: Outputs | None,
    seed: int,
) -> str:
    """``privet.audit`` with every argument that decides a figure.

    The number of reference models is that which was used: where a budget cut them, the same number without the budget gives
    the same models.
    """
    lines = ["model,", "members,", "nonmembers,", f"name={name!r},"]
    if recipe is not None:
        lines.append(f"recipe=recipe,  # a {type(recipe).__name__}")
    if reference_models is not None and reference_models.asked is None:
        lines.append(f"references=references,  # {reference_models.used} ready ones")
    elif reference_models is not None:
        cut = f"  # {reference_models.asked} were asked for" if reference_models.fewer else ""
        lines.append(f"references={reference_models.used},{cut}")
    ready = [f"{type(one).__name__}(…)" for one in attacks.ready]
    lines.append(f"attacks=[{', '.join([*ready, *(repr(one.name) for one in attacks.named)])}],")
    if public is not None:
        lines.append(f"public=public,  # {len(public):,} records")
    if ledger is not None:
        lines.append("ledger=ledger,  # what the training recorded")
    if gives is not None:
        lines.append(f"gives=privet.attacks.{gives},")
    lines += [f"delta={delta!r},", f"confidence={confidence!r},", f"seed={seed!r},"]
    return _written("privet.audit", lines)


def scores_call(*, name: str, attack: str, ledger: Ledger | None, delta: float, confidence: float) -> str:
    """``privet.audit_scores`` with every argument that decides a figure."""
    lines = [
        "members,  # a score for each, higher = more likely a member",
        "nonmembers,",
        f"name={name!r},",
        f"attack={attack!r},",
    ]
    if ledger is not None:
        lines.append("ledger=ledger,  # what the training recorded")
    return _written("privet.audit_scores", [*lines, f"delta={delta!r},", f"confidence={confidence!r},"])


def _written(function: str, lines: Iterable[str]) -> str:
    return "\n".join([f"{function}(", *(f"    {line}" for line in lines), ")"])
