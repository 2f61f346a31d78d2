"""``privet compare study.py``: the defences that a Python file names, attacked and compared."""

import argparse
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from privet.cli.audit_inputs import run_python_file
from privet.cli.output import CliAnswer, fixed_up, paragraph, percent, table
from privet.cli.printable import one_line
from privet.cli.report_file import report_file
from privet.errors import InvalidArgument, ProgramFailed, Unreadable
from privet.paths import is_file
from privet.reporting.defence_choice import choose_defence, dominating, recommendation_rule
from privet.reporting.defence_facts import ComparedDefence
from privet.reporting.defence_report import DefenceComparison

__all__ = ["compare_defences"]

_CACHE = ".privet-cache"


def compare_defences(arguments: argparse.Namespace) -> CliAnswer:
    """Run the file, compare its defences, write the page."""
    if len(arguments.reports) > 1:
        raise InvalidArgument(
            "'privet compare' must be given one .py file, or reports as .json, got a mixture. Name one study."
        )
    out = _page_file(arguments.out)
    names = _read_study(Path(arguments.reports[0]))
    import privet.training  # noqa: F401 - says what to install where torch is missing
    from privet.pipeline.defence_comparison import compare

    cache = Path(arguments.cache or _CACHE)
    try:
        comparison = compare(
            names["recipes"],  # type: ignore[arg-type]  # checked by the call
            names["data"],
            recipe=names.get("recipe"),
            test=names.get("test"),
            references=arguments.references or 16,
            canaries=arguments.canaries or 50,
            fpr=0.01 if arguments.fpr is None else float(arguments.fpr),
            confidence=0.95 if arguments.confidence is None else float(arguments.confidence),
            accuracy_loss=0.02 if arguments.accuracy_loss is None else float(arguments.accuracy_loss),
            cache=cache,
            seed=arguments.seed or 0,
        )
    except KeyboardInterrupt:
        print(
            f"\nprivet: Stopped. What was finished is kept in {cache}; the same command goes on from there.",
            file=sys.stderr,
        )
        raise
    except MemoryError:
        raise ProgramFailed(
            "There must be enough memory for the records and the models, and there was not. Give fewer "
            "records."
        ) from None
    command = one_line(shlex.join(["privet", *arguments.words]))
    comparison = replace(comparison, origin=replace(comparison.origin, command=command))
    saved = None if out is None else comparison.save(out)
    return CliAnswer(
        _blocks(comparison, saved),
        {**comparison.to_plain(), "report": None if saved is None else str(saved)},
        if_lost="The figures are in the cache: run the same command again.",
    )


def _page_file(name: str | None) -> Path | None:
    if name is None:
        return None
    out = report_file(name)
    if out.name.lower().endswith((".dpia.html", ".pia.json")):
        raise InvalidArgument(f"'--out' must end in .html, .json or .md, got {name!r}. Choose one of them.")
    return out


def _read_study(path: Path) -> Mapping[str, object]:
    if not is_file(path):
        raise Unreadable(f"{str(path)!r} must be a file that exists, and is not. Check the name.")
    names = run_python_file(path)
    missing = [name for name in ("recipes", "data") if name not in names]
    if missing:
        raise Unreadable(
            f"{path.name!r} must set {' and '.join(missing)}, and does not. Give it a value in the file."
        )
    return names


def _blocks(comparison: DefenceComparison, saved: Path | None) -> list[str]:
    taken = choose_defence(comparison).taken
    header = ["defence", "accuracy", "population", "most exposed", "ε proved", "seconds", ""]
    rows = [_cells(defence, comparison, taken) for defence in comparison.defences]
    notes = (
        f"Population and most exposed: the share of members that the best attack finds at "
        f"{percent(comparison.fpr)} false alarms. Its {comparison.references} reference models use the same "
        "defence. Most exposed records are mislabelled or have near-duplicates.",
        f"± is the wider half of an interval; all intervals hold together with "
        f"{percent(comparison.confidence)} confidence. Seconds are the processor time to train one model.",
        recommendation_rule(comparison),
    )
    return [
        table(header, rows),
        paragraph(comparison.recommendation),
        "\n".join(paragraph(note, bullet="  · ") for note in notes),
        *([] if saved is None else [f"The report is in {saved}."]),
    ]


def _cells(defence: ComparedDefence, comparison: DefenceComparison, taken: ComparedDefence) -> list[str]:
    rates = (defence.test_accuracy, defence.tpr_population, defence.tpr_exposed)
    better = dominating(defence, comparison.defences)
    return [
        defence.name,
        *(
            f"{100 * rate.value:.1f} ± {100 * max(rate.value - rate.lower, rate.upper - rate.value):.1f} %"
            for rate in rates
        ),
        "no proof" if defence.epsilon_proved is None else f"≤ {fixed_up(defence.epsilon_proved, 2)}",
        f"{defence.seconds:.1f}",
        "take this" if defence is taken else "" if better is None else "dominated",
    ]
