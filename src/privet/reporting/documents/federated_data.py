"""Attacks on federated runs as plain data, JSON and Markdown."""

import json
from typing import Any

from privet.auditing import Rate
from privet.reporting.documents.markdown import markdown_table
from privet.reporting.federated_facts import AttackedDefence, FederatedAttack, FederatedContent
from privet.reporting.numbers import at_most, percent, percent_at_most

__all__ = ["cell_words", "federated_figures", "federated_json", "federated_markdown"]

FORMAT, VERSION = "privet.federated", 1


def federated_figures(content: FederatedContent) -> dict[str, Any]:
    """All figures. Keys are added later, never renamed."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": content.title,
        "clients": content.clients,
        "rounds": content.rounds,
        "records_each": content.records,
        "confidence": content.confidence,
        "above_ceiling": [list(pair) for pair in content.exceeded],
        "runs": [_list_run(defence) for defence in content.defences],
        "origin": {
            "command": content.origin.command,
            "version": content.origin.version,
            "seed": content.origin.seed,
            "created": content.origin.created.isoformat(),
        },
    }


def federated_json(content: FederatedContent) -> str:
    """The figures as JSON text."""
    return json.dumps(federated_figures(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def federated_markdown(content: FederatedContent) -> str:
    """The table of attacks and defences."""
    header = ["Attack", *(defence.name for defence in content.defences)]
    rows = [[key, *(cell_words(defence.find(key)) for defence in content.defences)] for key in content.keys]
    rows.append(["test accuracy", *(percent(defence.test_accuracy.value) for defence in content.defences)])
    rows.append(["ε of a client", *(_epsilon_words(defence) for defence in content.defences)])
    return "\n\n".join(
        [
            f"## {content.title}",
            markdown_table(header, rows),
            f"Success (interval at {percent(content.confidence)}), against the baseline among targets that "
            f"were left out, and the proved ceiling. {content.clients} clients, {content.rounds} rounds.\n",
        ]
    )


def cell_words(attack: FederatedAttack | None) -> str:
    """Success with its interval, the baseline, and the ceiling, in one cell of a table."""
    if attack is None:
        return "–"
    ceiling = (
        "no ceiling" if attack.sure_ceiling is None else f"ceiling {percent_at_most(attack.sure_ceiling)}"
    )
    success = attack.success
    return (
        f"{percent(success.value)} [{percent(success.lower)}, {percent(success.upper)}] against "
        f"{percent(attack.baseline.value)}; {ceiling}"
    )


def _epsilon_words(defence: AttackedDefence) -> str:
    return "no proof" if defence.epsilon_proved is None else f"≤ {at_most(defence.epsilon_proved)}"


def _list_run(defence: AttackedDefence) -> dict[str, Any]:
    return {
        "defence": defence.name,
        "words": defence.words,
        "test_accuracy": defence.test_accuracy.value,
        "test_accuracy_interval": _ends(defence.test_accuracy),
        "epsilon_proved": defence.epsilon_proved,
        "delta": defence.delta,
        "adjacency": defence.adjacency or None,
        "covers": defence.covers,
        "seconds": round(defence.seconds, 3),
        "attacks": [_list_attack(attack) for attack in defence.attacks],
    }


def _list_attack(attack: FederatedAttack) -> dict[str, Any]:
    return {
        "attack": attack.key,
        "kind": attack.attack,
        "observer": attack.observer,
        "active": attack.active,
        "method": attack.method,
        "targets": attack.targets,
        "success": attack.success.value,
        "success_interval": _ends(attack.success),
        "baseline": attack.baseline.value,
        "baseline_interval": _ends(attack.baseline),
        "leak": attack.leak.value,
        "leak_interval": _ends(attack.leak),
        "detected": attack.detected,
        "ceiling": attack.ceiling,
        "sure_ceiling": attack.sure_ceiling,
        "above_ceiling": attack.exceeded,
    }


def _ends(rate: Rate) -> list[float]:
    return [rate.lower, rate.upper]
