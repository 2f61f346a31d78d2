"""``privet release --rehearse``: what an attacker would get from planned answers, before they are given."""

import argparse
from pathlib import Path

from privet.cli.output import CliAnswer, facts, fixed_up, paragraph, table, write_progress
from privet.errors import InvalidArgument
from privet.paths import is_file, resolve_path
from privet.pipeline.rehearsal import Rehearsal, RehearsedLevel, rehearse_plan
from privet.releasing import Answer, ReleasePlan, question_key
from privet.releasing.durable import DurableLedger
from privet.reporting.documents.recovery_data import recovery_figures
from privet.reporting.recovery_facts import RecoveryResult

__all__ = ["rehearse_release"]

_PEOPLE, _MOST_PEOPLE = 100, 200  # stand-ins, unless --population is smaller


def rehearse_release(plan: ReleasePlan, arguments: argparse.Namespace) -> CliAnswer:
    """Attack the planned answers about stand-ins. No row is read, and the ledger stays as it is."""
    if arguments.quote:
        raise InvalidArgument(
            "--rehearse must be given without --quote, got both. Ask for one of them at a time."
        )
    answers = _given_before(plan, arguments)
    people = max(2, min(arguments.population or _PEOPLE, _MOST_PEOPLE))
    write_progress("Attacking stand-ins …")
    rehearsal = rehearse_plan(plan, answers=answers, people=people)
    write_progress("")
    return CliAnswer(_blocks(plan, rehearsal), _document(rehearsal))


def _given_before(plan: ReleasePlan, arguments: argparse.Namespace) -> tuple[Answer, ...]:
    """Answers of the ledger to the same questions. They are public, and shape the stand-ins."""
    if arguments.ledger is None or not is_file(Path(arguments.ledger)):
        return ()
    name = str(resolve_path(Path(arguments.data)))
    with DurableLedger(path=Path(arguments.ledger), adjacency=plan.relation, budget=None).open() as store:
        found = [(question.label, store.recall(question_key(question, name))) for question in plan.questions]
    return tuple(answer.relabel(label) for label, answer in found if answer is not None)


def _blocks(plan: ReleasePlan, rehearsal: Rehearsal) -> list[str]:
    planned = next(level for level in rehearsal.levels if level.epsilon == plan.budget.epsilon)
    header = ["attack", "ε", "baseline", "recovered", "leak in points", "ceiling"]
    rows = [
        _row(level, level.results[place])
        for place in range(len(planned.results))
        for level in rehearsal.levels
    ]
    source = "answers that were given before" if rehearsal.from_answers else "public bounds and keys"
    notes = [
        ("stand-ins", f"{rehearsal.people} people, drawn from {source}"),
        ("ε", "of all statistics together: half of what is planned, planned, and double"),
        ("baseline", "what is right without the target's data"),
        (
            "ceiling",
            "no attack recovers more, if the ledger is right; of averaging fresh releases: ten of them",
        ),
        ("", "where the baseline was measured: at the upper end of its interval"),
        ("intervals", f"all hold together with confidence {rehearsal.confidence:g}"),
    ]
    if rehearsal.left_out:
        notes.append(("not attacked", ", ".join(rehearsal.left_out)))
    return [
        _verdict(planned),
        "No row was read, and nothing was spent.",
        table(header, rows),
        facts(notes),
        paragraph(
            "The figures are about the planned noise and the farthest values that the bounds allow. Better "
            "attacks may exist; only the ceiling speaks of all of them."
        ),
    ]


def _verdict(level: RehearsedLevel) -> str:
    """The largest sure leak of the planned release itself, in one sentence."""
    own = [result.leakage for result in level.results if "fresh" not in result.name]
    leakage = max(own, key=lambda found: found.leak.lower)
    if leakage.leak.lower <= 0:
        return f"At ε = {level.epsilon:g} no attack is surely right more often than without the data."
    return (
        f"At ε = {level.epsilon:g} the attack “{leakage.attack}” hits {100 * leakage.success.value:.0f} % of "
        "its "
        f"targets, and {100 * leakage.baseline.value:.0f} % without their data."
    )


def _row(level: RehearsedLevel, result: RecoveryResult) -> list[str]:
    leakage = result.leakage
    return [
        result.name,
        f"{level.epsilon:g}",
        f"{100 * leakage.baseline.value:.1f} %",
        f"{100 * leakage.success.value:.1f} %",
        f"{100 * leakage.leak.value:+.1f} [{100 * leakage.leak.lower:+.1f}, {100 * leakage.leak.upper:+.1f}]",
        "no proof" if result.sure_ceiling is None else f"≤ {fixed_up(100 * result.sure_ceiling, 1)} %",
    ]


def _document(rehearsal: Rehearsal) -> dict[str, object]:
    return {
        "rehearsal": True,
        "people": rehearsal.people,
        "drawn_from": "answers" if rehearsal.from_answers else "public bounds and keys",
        "not_attacked": list(rehearsal.left_out),
        "confidence": rehearsal.confidence,
        "levels": [
            {
                "epsilon": level.epsilon,
                "delta": level.delta,
                "attacks": [recovery_figures(result, exhibits=False) for result in level.results],
            }
            for level in rehearsal.levels
        ],
    }
