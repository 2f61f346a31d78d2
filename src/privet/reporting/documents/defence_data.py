"""A comparison of defences as plain data, JSON and Markdown."""

import json
from typing import Any

from privet.auditing import Rate
from privet.reporting.defence_choice import choose_defence, dominating, recommendation
from privet.reporting.defence_facts import ComparedDefence, ComparisonContent
from privet.reporting.documents.markdown import markdown_table
from privet.reporting.numbers import at_most, percent

__all__ = ["FORMAT", "VERSION", "comparison_figures", "comparison_json", "comparison_markdown"]

FORMAT, VERSION = "privet.defences", 1


def comparison_figures(comparison: ComparisonContent) -> dict[str, Any]:
    """All figures. Keys are added later, never renamed."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": comparison.title,
        "recommendation": recommendation(comparison),
        "recommended": choose_defence(comparison).taken.name,
        "fpr": comparison.fpr,
        "confidence": comparison.confidence,
        "accuracy_loss": comparison.accuracy_loss,
        "records": comparison.records,
        "exposed": comparison.exposed,
        "references": comparison.references,
        "defences": [_figures(defence, comparison) for defence in comparison.defences],
        "origin": {
            "command": comparison.origin.command,
            "version": comparison.origin.version,
            "seed": comparison.origin.seed,
            "created": comparison.origin.created.isoformat(),
        },
    }


def comparison_json(comparison: ComparisonContent) -> str:
    """The figures as JSON text."""
    return json.dumps(comparison_figures(comparison), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def comparison_markdown(comparison: ComparisonContent) -> str:
    """A section for a model card."""
    rows = [
        [
            defence.name,
            percent(defence.test_accuracy.value),
            percent(defence.tpr_population.value),
            percent(defence.tpr_exposed.value),
            "no proof" if defence.epsilon_proved is None else f"≤ {at_most(defence.epsilon_proved)}",
        ]
        for defence in comparison.defences
    ]
    header = ["Defence", "Test accuracy", "Found, population", "Found, most exposed", "ε"]
    return "\n\n".join(
        [
            f"## {comparison.title}",
            recommendation(comparison),
            markdown_table(header, rows),
            f"Members found at {percent(comparison.fpr)} false alarms by the best attack, with "
            f"{comparison.references} reference models that use the same defence.\n",
        ]
    )


def _figures(defence: ComparedDefence, comparison: ComparisonContent) -> dict[str, Any]:
    better = dominating(defence, comparison.defences)
    return {
        "name": defence.name,
        "test_accuracy": defence.test_accuracy.value,
        "tpr_population": defence.tpr_population.value,
        "tpr_exposed": defence.tpr_exposed.value,
        "fpr": comparison.fpr,
        "epsilon_proved": defence.epsilon_proved,
        "delta": defence.delta,
        "seconds": round(defence.seconds, 3),
        "intervals": {
            "test_accuracy": _ends(defence.test_accuracy),
            "tpr_population": _ends(defence.tpr_population),
            "tpr_exposed": _ends(defence.tpr_exposed),
        },
        "attack_population": defence.attack_population,
        "attack_exposed": defence.attack_exposed,
        "dominated_by": None if better is None else better.name,
    }


def _ends(rate: Rate) -> list[float]:
    return [rate.lower, rate.upper]
