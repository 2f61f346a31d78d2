"""``privet audit-text``: which texts, authors, passages and secrets a language model gives away."""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from privet.cli.audit_inputs import ledger_from
from privet.cli.audit_limits import Limit, limits_from
from privet.cli.exit_codes import ExitCode
from privet.cli.output import (
    CliAnswer,
    caveat_text,
    facts,
    fixed_down,
    fixed_up,
    paragraph,
    write_progress,
)
from privet.cli.printable import one_line
from privet.cli.recovery_table import recovery_table
from privet.cli.report_file import key_for, report_file
from privet.cli.saving import Saved, save_report
from privet.cli.text_inputs import text_arguments_from
from privet.cli.text_tables import exposure_table, text_attacks_table
from privet.errors import PrivetError, ProgramFailed
from privet.pipeline.text_audit import audit_text
from privet.reporting import ModelAudit, Report
from privet.reporting.caution import attack_strength
from privet.reporting.documents.plain_data import model_figures
from privet.reporting.text_words import text_sentences

__all__ = ["attacks_of", "run"]

_GIVEN = ("references", "prompt_tokens", "passage_tokens", "samples", "longest", "end", "seed", "confidence")
_NO_MEMORY = "There must be enough memory for the model, and there was not. Give fewer texts."


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Attack, bound, write the report, and compare the figures with the given limits."""
    limits = [limits_from(text) for text in arguments.fail_above or ()]
    out = None if arguments.out is None else report_file(arguments.out)
    key, kept = key_for(arguments.key, out)
    found = text_arguments_from(Path(arguments.subject))
    for name in (*_GIVEN, "delta", "name"):
        if getattr(arguments, name) is not None:
            found[name] = getattr(arguments, name)
    if arguments.ledger is not None:
        found["ledger"] = ledger_from(arguments.ledger)
    write_progress("Attacking the language model …")
    try:
        report = audit_text(**found, fingerprint_key=key)
    except MemoryError:
        raise ProgramFailed(_NO_MEMORY) from None
    except PrivetError:
        raise
    except Exception as failed:
        raise ProgramFailed(
            f"The model must answer every text, and it failed with {type(failed).__name__}, whose words may "
            f"show a text. Check that it takes tokens (n, t) and gives logits (n, t, V)."
        ) from failed
    finally:
        write_progress("")
    command = one_line(shlex.join(["privet", *arguments.words]))
    report = replace(
        report, origin=replace(report.origin, command=command), exhibits=bool(arguments.exhibits)
    )
    saved = save_report(report, out, kept)
    broken = [limit for limit in limits if limit.broken_by(report)]
    code = ExitCode.BROKEN if broken else ExitCode.FAILED if saved.failed else ExitCode.HELD
    return CliAnswer(_blocks(report, saved, limits, broken), _document(report, saved, broken), code)


def _blocks(report: Report, saved: Saved, limits: Sequence[Limit], broken: Sequence[Limit]) -> list[str]:
    audited = report.audits[0]
    lines = [paragraph(report.verdict), text_attacks_table(audited)]
    lines += [recovery_table(audited)] if audited.recoveries else []
    if audited.text is not None:
        lines += [exposure_table(audited.text)] if audited.text.exposure else []
        said = text_sentences(audited.text)
        lines.append("\n".join(paragraph(words, bullet="  · ") for words in said))
    lines += [facts(_bounds(audited)), paragraph(attack_strength(audited))]
    warned = [
        paragraph(f"{check.name}: {check.finding} {check.advice}", bullet="  · ")
        for check in audited.warnings
    ]
    if warned:
        lines.append("\n".join(["Before you believe it", *warned]))
    lines += caveat_text(audited.caveats)
    lines += [f"FAILED: {limit.describe(report)}" for limit in broken]
    if limits and not broken:
        lines.append("Passed: nothing is above the limits that were given.")
    return [*lines, *saved.sentences]


def _bounds(audited: ModelAudit) -> list[tuple[str, str]]:
    proved = audited.epsilon_proved
    unit = "text" if audited.text is None else audited.text.coin_unit
    return [
        (
            f"measured, of one {unit}",
            f"ε ≥ {fixed_down(audited.epsilon_measured, 2)} at δ = {audited.delta:g}",
        ),
        (f"proved, of one {unit}", "nothing was claimed" if proved is None else f"ε ≤ {fixed_up(proved, 2)}"),
    ]


def attacks_of(audited: ModelAudit) -> list[dict[str, object]]:
    """All attacks in one list.

    Those on texts and authors have ``auc`` and ``tpr``, those that recover something ``success``,
    ``baseline``, ``leak`` and ``ceiling``; all have ``attack``, ``level`` and ``epsilon_lower``.
    """
    model = model_figures(audited)
    guessed: list[dict[str, object]] = [
        {
            "attack": attack["name"],
            "level": attack["unit"],
            **{key: attack[key] for key in ("auc", "tpr", "fpr_floor")},
            "epsilon_lower": attack["epsilon"]["measured"],
            "detected": attack["detected"],
        }
        for attack in model["attacks"]
    ]
    return guessed + [
        {"attack": each["attack"], "level": "recovery", **{key: each[key] for key in each if key != "attack"}}
        for each in model["recoveries"]
    ]


def _document(report: Report, saved: Saved, broken: Sequence[Limit]) -> dict[str, object]:
    """The figures of the model on top, then every attack; no text is among them."""
    audited = report.audits[0]
    model = model_figures(audited)
    return {
        **{key: model[key] for key in ("name", "verdict", "standing", "detected")},
        "epsilon_lower": model["epsilon"]["measured"],
        "epsilon_proved": model["epsilon"]["proved"],
        "confidence": model["epsilon"]["confidence"],
        "delta": model["delta"],
        "attacks": attacks_of(audited),
        "text": model["text"],
        "strength": model["strength"],
        "reference_models": model["reference_models"],
        "caveats": model["caveats"],
        "checks": model["checks"],
        "failed": [limit.describe(report) for limit in broken],
        "report": None if saved.path is None else str(saved.path),
        "key": None if saved.key is None else str(saved.key),
        "report_failed": saved.failed or None,
    }
