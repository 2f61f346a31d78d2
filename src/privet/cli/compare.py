"""``privet compare``: the models of several ``report.json`` files, or the defences of a study."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from privet.cli.output import CliAnswer, fixed_down, fixed_up, paragraph, table
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.paths import is_file
from privet.reporting.documents.report_json import read_document

__all__ = ["run"]

_FPR = "0.001"


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Accuracy, leakage and both bounds of every model, one line each."""
    if any(name.endswith(".py") for name in arguments.reports):
        from privet.cli.compare_defences import compare_defences

        return compare_defences(arguments)
    _refuse_options(arguments)
    if len(arguments.reports) == 1 and not arguments.json:
        raise InvalidArgument(
            "'privet compare' must be given two or more reports, got one. Name further report.json files."
        )
    models = [
        _read_model(name, model) for name in arguments.reports for model in _read_report(name)["models"]
    ]
    header = ["model", "report", "accuracy", "AUC", "TPR at 0.1 %", "ε measured", "ε proved", "δ"]
    notes = paragraph(
        "Accuracy is on records that were not trained on. AUC and TPR are those of each model's strongest "
        "attack. Rows compare fairly only if the same records and attacks were used."
    )
    return CliAnswer([table(header, [_cells(model) for model in models]), notes], {"models": models})


def _refuse_options(arguments: argparse.Namespace) -> None:
    names = ("references", "canaries", "fpr", "accuracy_loss", "confidence", "cache", "seed", "out")
    given = next((name for name in names if getattr(arguments, name) is not None), None)
    if given is not None:
        raise InvalidArgument(
            f"'--{given.replace('_', '-')}' must go with a .py file of defences, and there is none. "
            "Drop it, or name the file."
        )


def _read_report(name: str) -> Mapping[str, Any]:
    path = Path(name)
    if not is_file(path):
        raise Unreadable(f"{name!r} must be a report.json that exists, and is not. Check the name.")
    try:
        return read_document(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failed:
        if isinstance(failed, PrivetError):
            raise
        raise Unreadable(f"{name!r} must be a report as .json, and cannot be read. Save it again.") from None


def _read_model(name: str, model: Mapping[str, Any]) -> dict[str, Any]:
    # A report on recoveries alone has no attack on membership.
    strongest = next((attack for attack in model["attacks"] if attack["name"] == model["strongest"]), None)
    tpr = None if strongest is None else strongest["tpr"].get(_FPR)
    return {
        "name": model["name"],
        "report": name,
        "test_accuracy": model["accuracy"]["nonmembers"],
        "attack": model["strongest"],
        "auc": None if strongest is None else strongest["auc"]["value"],
        "tpr": None if tpr is None else tpr["value"],
        "epsilon_measured": model["epsilon"]["measured"],
        "epsilon_proved": model["epsilon"]["proved"],
        "delta": model["delta"],
        "standing": model["standing"],
    }


def _cells(model: Mapping[str, Any]) -> list[str]:
    accuracy, tpr, proved = model["test_accuracy"], model["tpr"], model["epsilon_proved"]
    return [
        model["name"],
        model["report"],
        "–" if accuracy is None else f"{100 * accuracy:.1f} %",
        "–" if model["auc"] is None else f"{model['auc']:.3f}",
        "–" if tpr is None else f"{100 * tpr:.2f} %",
        f"≥ {fixed_down(model['epsilon_measured'], 2)}",
        "no proof" if proved is None else f"≤ {fixed_up(proved, 2)}",
        f"{model['delta']:g}",
    ]
