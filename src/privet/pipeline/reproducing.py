"""The Python call that gives the same figures, with all arguments that were given or chosen."""

from collections.abc import Iterable

from privet.attacks import Outputs
from privet.attacks.shadows import Recipe
from privet.ledger import Ledger
from privet.pipeline.choosing import AttackChoice
from privet.pipeline.recovery_attacks import RecoveryChoice
from privet.reporting.facts import ReferenceModels
from privet.scores import Records

__all__ = ["audit_call", "format_call", "one_line", "recoveries_call", "scores_call"]


def audit_call(
    *,
    name: str,
    recipe: Recipe | None,
    reference_models: ReferenceModels | None,
    attacks: AttackChoice,
    recoveries: RecoveryChoice,
    public: Records | None,
    ledger: Ledger | None,
    delta: float,
    confidence: float,
    gives: Outputs | None,
    seed: int,
) -> str:
    """``privet.audit`` with every argument that decides a figure.

    The number of reference models is the number that was used: where a time limit cut it, the same number
    without the limit gives the same models.
    """
    lines = ["model,", "members,", "nonmembers,", f"name={name!r},"]
    if recipe is not None:
        lines.append(f"recipe=recipe,  # a {type(recipe).__name__}")
    if reference_models is not None and reference_models.asked is None:
        lines.append(f"references=references,  # {reference_models.used} ready ones")
    elif reference_models is not None:
        cut = f"  # {reference_models.asked} were asked for" if reference_models.fewer else ""
        lines.append(f"references={reference_models.used},{cut}")
    ready = [f"{type(attack).__name__}(…)" for attack in attacks.ready]
    names = [repr(attack.name) for attack in attacks.named]
    names += [repr(attack.name) for attack in recoveries.named]
    lines.append(f"attacks=[{', '.join([*ready, *names])}],")
    for argument, value in (
        ("secret", recoveries.knowledge.secret),
        ("sample_shape", recoveries.knowledge.sample_shape),
    ):
        if value is not None:
            lines.append(f"{argument}={list(value)!r},")
    if public is not None:
        lines.append(f"public=public,  # {len(public):,} records")
    if ledger is not None:
        lines.append("ledger=ledger,  # what the training recorded")
    if gives is not None:
        lines.append(f"gives=privet.attacks.{gives},")
    lines += [f"delta={delta!r},", f"confidence={confidence!r},", f"seed={seed!r},"]
    return format_call("privet.audit", lines)


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
    return format_call("privet.audit_scores", [*lines, f"delta={delta!r},", f"confidence={confidence!r},"])


def recoveries_call(*, name: str, ledger: Ledger | None, delta: float, confidence: float) -> str:
    """``privet.audit_recoveries`` with every argument that decides a figure."""
    lines = ["recoveries,  # what the attacks recovered", f"name={name!r},"]
    if ledger is not None:
        lines.append("ledger=ledger,  # what the training recorded")
    return format_call(
        "privet.audit_recoveries", [*lines, f"delta={delta!r},", f"confidence={confidence!r},"]
    )


def one_line(call: str) -> str:
    """The call without its comments, on one line."""
    lines = [line.partition("  # ")[0].strip() for line in call.splitlines()]
    return " ".join(lines).replace("( ", "(").replace(", )", ")")


def format_call(function: str, lines: Iterable[str]) -> str:
    """A call with one argument on each line."""
    return "\n".join([f"{function}(", *(f"    {line}" for line in lines), ")"])
