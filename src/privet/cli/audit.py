"""``privet audit``: attack your model, or read the scores of your attack; give both bounds and a report."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from privet.cli.audit_inputs import Subject, describe_failure, ledger_from, scores_from, subject_from
from privet.cli.audit_limits import Limit, limits_from
from privet.cli.exit_codes import ExitCode
from privet.cli.output import CliAnswer, caveat_text, facts, fixed_down, fixed_up, paragraph, table
from privet.cli.printable import one_line
from privet.cli.recovery_table import recovery_table
from privet.cli.report_file import key_for, report_file
from privet.cli.saving import Saved, save_report
from privet.errors import InvalidArgument, PrivetError, ProgramFailed
from privet.fingerprints import FingerprintKey
from privet.paths import is_folder
from privet.pipeline import TimeLimit, audit, audit_scores
from privet.reporting import DefenceComparison, ModelAudit, Report
from privet.reporting.caution import attack_strength
from privet.reporting.documents.plain_data import attack_figures, model_figures

__all__ = ["run"]

_CACHE = ".privet-cache"
_NO_MEMORY = (
    "There must be enough memory for the records and the models, and there was not. Give fewer records."
)


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Attack, bound, write the report, and compare the figures with the given limits."""
    limits = [limits_from(text) for text in arguments.fail_above or ()]
    out = None if arguments.out is None else report_file(arguments.out)
    key, kept = key_for(arguments.key, out)
    try:
        report = _of_scores(arguments, key) if arguments.subject is None else _of_model(arguments, key)
    except MemoryError:
        raise ProgramFailed(_NO_MEMORY) from None
    report = replace(
        report, origin=replace(report.origin, command=one_line(shlex.join(["privet", *arguments.words])))
    )
    report = replace(report, exhibits=arguments.exhibits)
    saved = save_report(report, out, kept)
    broken = [limit for limit in limits if limit.broken_by(report)]
    return CliAnswer(
        _blocks(report, saved, limits, broken), _document(report, saved, broken), _code(saved, broken)
    )


def _code(saved: Saved, broken: Sequence[Limit]) -> ExitCode:
    if broken:
        return ExitCode.BROKEN
    return ExitCode.FAILED if saved.failed else ExitCode.HELD


def _of_scores(arguments: argparse.Namespace, key: FingerprintKey) -> Report:
    if arguments.members is None or arguments.nonmembers is None:
        raise InvalidArgument(
            "'privet audit' must be given a Python or TOML file that names a model, or both --members and "
            "--nonmembers, got less. Run 'privet audit --help' to see what each of them is."
        )
    needless = [
        name for name in ("attacks", "references", "time_limit") if getattr(arguments, name) is not None
    ]
    if needless:
        raise InvalidArgument(
            f"'--{needless[0].replace('_', '-')}' must be left out where scores are given, because no "
            "attack is run. Drop it."
        )
    return audit_scores(
        scores_from("--members", arguments.members),
        scores_from("--nonmembers", arguments.nonmembers),
        name=arguments.name or "model",
        ledger=None if arguments.ledger is None else ledger_from(arguments.ledger),
        delta=_delta(arguments),
        confidence=_confidence(arguments),
        key=key,
        comparison=_comparison(arguments),
    )


def _of_model(arguments: argparse.Namespace, key: FingerprintKey) -> Report:
    if arguments.members is not None or arguments.nonmembers is not None:
        raise InvalidArgument(
            "'--members' and '--nonmembers' are for scores of your own, got them beside a file that names "
            "a model. Name the records in that file, or leave the file out."
        )
    comparison = _comparison(arguments)
    subject = subject_from(Path(arguments.subject))
    if arguments.references is not None and subject.recipe is None:
        raise InvalidArgument(
            f"'--references' must go with a recipe to train them by, and {arguments.subject!r} has none. "
            f"Say how the model was trained: a 'recipe' in the file."
        )
    ledger = subject.ledger if arguments.ledger is None else ledger_from(arguments.ledger)
    cache = _cache(arguments.cache, subject)
    try:
        return audit(
            subject.model,
            subject.members,
            subject.nonmembers,
            name=arguments.name or subject.name,
            recipe=subject.recipe,
            references=arguments.references,
            attacks=_names(arguments.attacks),
            public=subject.public,
            secret=_columns(arguments.secret),
            sample_shape=_columns(arguments.sample_shape),
            ledger=ledger,
            delta=_delta(arguments),
            confidence=_confidence(arguments),
            gives=subject.gives,
            time_limit=_time_limit(arguments.time_limit),
            cache=cache,
            seed=arguments.seed or 0,
            key=key,
            public_model=arguments.public_model,
            comparison=comparison,
        )
    except KeyboardInterrupt:
        print(f"\nprivet: Stopped. {_describe_cache(cache)}", file=sys.stderr)
        raise
    except ProgramFailed as failed:
        if isinstance(failed.__cause__, Exception):  # the model's own error, which its owner may read
            raise ProgramFailed(_crash(failed.__cause__)) from failed.__cause__
        raise
    except PrivetError:
        raise
    except MemoryError:
        raise ProgramFailed(f"{_NO_MEMORY} {_describe_cache(cache)}") from None
    except SystemExit as ended:
        raise ProgramFailed(
            f"The model must answer every record, and it ended the program by exit({ended.code!r}). "
            f"{_describe_cache(cache)} Take that call out."
        ) from None
    except Exception as failed:
        raise ProgramFailed(_crash(failed)) from failed


def _comparison(arguments: argparse.Namespace) -> DefenceComparison | None:
    return None if arguments.comparison is None else DefenceComparison.load(arguments.comparison)


def _crash(failed: Exception) -> str:
    if "memory" in str(failed).lower():
        return _NO_MEMORY
    return (
        f"The model must answer every record, and it failed with {describe_failure(failed)}. "
        f"Check that it takes records as they are in the file: their shape, type and scale."
    )


def _cache(name: str | None, subject: Subject) -> Path | None:
    """The named folder, or the default one; None if a change of the recipe cannot be noticed."""
    if name is None and (subject.recipe is None or subject.recipe.description() is None):
        return None
    return Path(name or _CACHE)


def _describe_cache(cache: Path | None) -> str:
    if cache is None or not is_folder(cache):
        return "Nothing was kept."
    return f"Reference models that were finished are kept in {cache}; the same command goes on from there."


def _blocks(report: Report, saved: Saved, limits: Sequence[Limit], broken: Sequence[Limit]) -> list[str]:
    audited = report.audits[0]
    lines = [
        paragraph(report.verdict),
        *([_attack_table(audited)] if audited.results else []),
        *([recovery_table(audited)] if audited.recoveries else []),
        facts(_facts(audited)),
        *([paragraph(attack_strength(audited))] if audited.results else []),
    ]
    warned = [
        paragraph(f"{check.name}: {check.finding} {check.advice}", bullet="  · ")
        for check in audited.warnings
    ]
    if warned:
        lines.append("\n".join(["Before you believe it", *warned]))
    lines += caveat_text(audited.caveats)
    lines += [f"FAILED: {limit.describe(report)}" for limit in broken]
    if limits and not broken:
        doubts = (
            f", but mind what stands above under “Before you believe it” ({len(warned)})" if warned else ""
        )
        lines.append(f"Passed: nothing is above the limits that were given{doubts}.")
    lines += saved.sentences
    return lines


def _attack_table(audited: ModelAudit) -> str:
    rates = (0.01, 0.001, 0.0001)
    rows = []
    for result in audited.results:
        found = [result.leakage.tpr(rate) for rate in rates]
        rows.append(
            [
                f"{result.name} (canaries)" if result.planted else result.name,
                f"{result.leakage.auc.value:.3f}",
                *("–" if tpr is None else f"{100 * tpr.value:.2f} %" for tpr in found),
                f"≥ {fixed_down(result.finding.measured.value, 2)}",
                "yes" if result.detected else "no",
            ]
        )
    shares = (f"TPR at {100 * rate:g} % FPR" for rate in rates)
    return table(["attack", "AUC", *shares, "ε", "detected"], rows)


def _facts(audited: ModelAudit) -> list[tuple[str, str]]:
    proved = (
        "nothing was claimed"
        if audited.epsilon_proved is None
        else f"ε ≤ {fixed_up(audited.epsilon_proved, 2)}"
    )
    if not audited.results:
        return [("measured", f"ε ≥ {fixed_down(audited.epsilon_measured, 2)}"), ("proved", proved)]
    finding, roc = audited.strongest.finding, audited.strongest.leakage.roc
    return [
        *_measured_rows(audited),
        ("proved", proved),
        ("most that so many records can show", f"ε = {fixed_down(finding.ceiling, 2)}"),
        (
            "records",
            f"{roc.members:,} members, {roc.others:,} others; no FPR below {100 * roc.fpr_floor:.3g} % can "
            "be seen",
        ),
        *_accuracy(audited),
        *([] if audited.reference_models is None else [("reference models", str(audited.reference_models))]),
    ]


def _measured_rows(audited: ModelAudit) -> list[tuple[str, str]]:
    """ε on people's records, and ε on canaries if there were any."""
    lines = [("records", audited.epsilon_of_records if audited.on_records else None)]
    lines.append(("canaries", audited.epsilon_of_canaries))
    return [
        (
            f"measured on {noun}",
            f"ε ≥ {fixed_down(value, 2)} at δ = {audited.delta:g}, the best of all attacks",
        )
        for noun, value in lines
        if value is not None
    ]


def _accuracy(audited: ModelAudit) -> list[tuple[str, str]]:
    if audited.regression is not None:
        return [("R²", str(audited.regression))]
    if audited.train_accuracy is None or audited.test_accuracy is None:
        return []
    return [("accuracy", f"{audited.train_accuracy:.1%} on members, {audited.test_accuracy:.1%} on others")]


def _document(report: Report, saved: Saved, broken: Sequence[Limit]) -> dict[str, object]:
    """The strongest attack's figures on top, as in ``report.json``."""
    audited = report.audits[0]
    model = model_figures(audited)
    best: dict[str, Any] = dict.fromkeys(("auc", "tpr", "fpr_floor"))
    best = {**best, "name": model["strongest"]} if not audited.results else attack_figures(audited.strongest)
    return {
        **{key: model[key] for key in ("name", "verdict", "standing", "detected")},
        "attack": best["name"],
        **{key: best[key] for key in ("auc", "tpr", "fpr_floor")},
        "epsilon_lower": model["epsilon"]["measured"],
        "epsilon_ceiling": model["epsilon"]["ceiling"],
        "epsilon_proved": model["epsilon"]["proved"],
        "confidence": model["epsilon"]["confidence"],
        "delta": model["delta"],
        "train_accuracy": model["accuracy"]["members"],
        "test_accuracy": model["accuracy"]["nonmembers"],
        "attacks": [
            {
                **{key: attack[key] for key in ("name", "auc", "tpr")},
                "epsilon_lower": attack["epsilon"]["measured"],
            }
            for attack in model["attacks"]
        ],
        "recoveries": model["recoveries"],
        "strength": model["strength"],
        "caveats": model["caveats"],
        "reference_models": model["reference_models"],
        "checks": model["checks"],
        "failed": [limit.describe(report) for limit in broken],
        "report": None if saved.path is None else str(saved.path),
        "key": None if saved.key is None else str(saved.key),
        "report_failed": saved.failed or None,
    }


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]


def _columns(text: str | None) -> list[int] | None:
    """Whole numbers with commas between, as ``--secret 3,4`` has them."""
    try:
        return None if text is None else [int(word) for word in text.split(",")]
    except ValueError:
        raise InvalidArgument(
            f"'--secret' and '--sample-shape' must be whole numbers with commas between, got {text!r}. Write "
            f"3,4."
        ) from None


def _delta(arguments: argparse.Namespace) -> float:
    return 1e-5 if arguments.delta is None else float(arguments.delta)


def _confidence(arguments: argparse.Namespace) -> float:
    return 0.95 if arguments.confidence is None else float(arguments.confidence)


def _time_limit(text: str | None) -> TimeLimit | None:
    return None if text is None else TimeLimit.of(text, "--time-limit")
