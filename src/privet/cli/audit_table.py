"""``privet audit-table``: who could be found in a table before it is published, and what it tells."""

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import replace

from privet.bounds import Interval
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
    table,
    write_progress,
)
from privet.cli.printable import one_line
from privet.cli.recovery_table import recovery_table
from privet.cli.report_file import key_for, report_file
from privet.cli.saving import Saved, save_report
from privet.errors import ProgramFailed
from privet.pipeline.release_audit import audit_release
from privet.reporting import ModelAudit, Report
from privet.reporting.documents.plain_data import model_figures
from privet.reporting.table_facts import TableFacts

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Measure, attack, write the report, and compare the figures with the given limits."""
    limits = [limits_from(text) for text in arguments.fail_above or ()]
    out = None if arguments.out is None else report_file(arguments.out)
    fingerprint_key, kept = key_for(arguments.fingerprint_key, out)
    write_progress("Measuring and attacking the table …")
    try:
        report = audit_release(
            arguments.data,
            quasi=_names(arguments.quasi),
            secret=arguments.secret,
            other=arguments.other,
            key=arguments.key,
            original=arguments.original,
            control=arguments.control,
            population=arguments.population,
            sampling_fraction=arguments.sampling_fraction,
            largest_set=arguments.largest_set,
            ledger=None if arguments.ledger is None else ledger_from(arguments.ledger),
            delta=1e-5 if arguments.delta is None else arguments.delta,
            confidence=0.95 if arguments.confidence is None else arguments.confidence,
            seed=arguments.seed or 0,
            name=arguments.name,
            fingerprint_key=fingerprint_key,
        )
    except MemoryError:
        raise ProgramFailed(
            "There must be enough memory for the table, and there was not. Name fewer columns, or give a "
            "sample of the rows."
        ) from None
    finally:
        write_progress("")
    command = one_line(shlex.join(["privet", *arguments.words]))
    report = replace(report, origin=replace(report.origin, command=command))
    saved = save_report(report, out, kept)
    broken = [limit for limit in limits if limit.broken_by(report)]
    return CliAnswer(
        _blocks(report, saved, limits, broken), _document(report, saved, broken), _code(saved, broken)
    )


def _names(words: str | None) -> list[str]:
    return [name.strip() for name in (words or "").split(",") if name.strip()]


def _code(saved: Saved, broken: Sequence[Limit]) -> ExitCode:
    if broken:
        return ExitCode.BROKEN
    return ExitCode.FAILED if saved.failed else ExitCode.HELD


def _blocks(report: Report, saved: Saved, limits: Sequence[Limit], broken: Sequence[Limit]) -> list[str]:
    audited = report.audits[0]
    lines = [paragraph(report.verdict)]
    if audited.table is not None:
        lines += [_uniqueness_table(audited.table), facts(_measures(audited.table))]
    lines += [recovery_table(audited), facts(_bounds(audited))]
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


def _uniqueness_table(found: TableFacts) -> str:
    rows = [
        [
            f"{each.size} of {len(found.quasi)}",
            f"{each.sets:,}",
            *(_share(share) for share in (each.lowest, each.median, each.highest)),
            " + ".join(each.worst[0].columns) if each.size < len(found.quasi) else "all",
        ]
        for each in found.curve
    ]
    return table(["known", "sets", "unique: lowest", "median", "highest", "by"], rows)


def _measures(found: TableFacts) -> list[tuple[str, str]]:
    lines = [
        ("rows", f"{found.rows:,}, {_share(found.unique_share)} of them unique by {', '.join(found.quasi)}"),
        ("k-anonymity", f"{found.k_anonymity:,} ({found.classes:,} classes)"),
    ]
    if found.l_diversity is not None:
        lines += [
            (
                "l-diversity",
                f"{found.l_diversity:,} distinct {found.secret} in the worst class; by entropy "
                f"{found.l_entropy or 0.0:.2f}",
            ),
            ("t-closeness", f"{found.t_closeness or 0.0:.3f}"),
            ("one value in the class", f"{_share(found.homogeneous_share or 0.0)} of rows"),
        ]
    if found.presence is not None:
        lines.append(("δ-presence", f"{_share(found.presence.lower)} to {_share(found.presence.upper)}"))
    if found.population is not None:
        known = found.population
        lines.append(("unique in the population", _between(known.unique, known.between)))
        if known.of_unique_rows is not None and known.of_unique_rows_between is not None:
            lines.append(
                ("  of the unique rows", _between(known.of_unique_rows, known.of_unique_rows_between))
            )
    return lines


def _between(value: float, interval: Interval) -> str:
    return f"{_share(value)} [{_share(interval.lower)}, {_share(interval.upper)}]"


def _bounds(audited: ModelAudit) -> list[tuple[str, str]]:
    proved = audited.epsilon_proved
    return [
        ("measured", f"ε ≥ {fixed_down(audited.epsilon_measured, 2)} at δ = {audited.delta:g}"),
        ("proved", "nothing was claimed" if proved is None else f"ε ≤ {fixed_up(proved, 2)}"),
    ]


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if share >= 0.001 or share == 0 else f"{100 * share:.2g} %"


def _document(report: Report, saved: Saved, broken: Sequence[Limit]) -> dict[str, object]:
    """The figures of the table on top; each attack with the keys of every attack that recovers something."""
    model = model_figures(report.audits[0])
    return {
        **{key: model[key] for key in ("name", "verdict", "standing")},
        **(model["table"] or {}),
        "attacks": model["recoveries"],
        "epsilon_lower": model["epsilon"]["measured"],
        "epsilon_proved": model["epsilon"]["proved"],
        "confidence": model["epsilon"]["confidence"],
        "delta": model["delta"],
        "caveats": model["caveats"],
        "checks": model["checks"],
        "failed": [limit.describe(report) for limit in broken],
        "report": None if saved.path is None else str(saved.path),
        "key": None if saved.key is None else str(saved.key),
        "report_failed": saved.failed or None,
    }
