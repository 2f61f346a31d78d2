"""Facts as plain data: dictionaries, lists, text and finite numbers.

Every document takes its figures from here.

A number that does not exist is None, never NaN or ∞. Keys are in a fixed order. Single figures have all
digits, long columns (curves and histograms) six digits. Curves are thinned, so that a report on 10⁵ records
is as small as one on 100.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from privet.auditing import GroupAccuracy, GroupHarm, Leakage, Rate
from privet.auditing.leakage import RATES
from privet.auditing.proportions import rate
from privet.checks import Check
from privet.fingerprints import Fingerprint, Fingerprints
from privet.reporting.charts.proved_curve import highest_tpr
from privet.reporting.charts.scores import bin_scores
from privet.reporting.content import ReportContent
from privet.reporting.documents.recovery_data import recovery_figures
from privet.reporting.documents.table_data import table_figures
from privet.reporting.documents.text_data import text_figures
from privet.reporting.facts import AttackResult, Harm, ModelAudit, Origin, ReferenceModels
from privet.reporting.regression_facts import RegressionFit
from privet.reporting.verdicts import sentence, verdict
from privet.scores import Scores

__all__ = [
    "LISTED",
    "POINTS",
    "PlainData",
    "attack_figures",
    "check_figures",
    "model_figures",
    "rate_figures",
    "report_figures",
    "tpr_figures",
]

PlainData: TypeAlias = dict[str, Any]
POINTS = 200
LISTED = 100


def report_figures(report: ReportContent) -> PlainData:
    """All that a report knows, without the name of a format."""
    return {
        "title": report.title,
        "verdict": verdict(report),
        "standing": report.worst.standing.value,
        "worst": report.worst.name,
        "origin": _origin(report.origin),
        "shows_private_data": report.exhibits,
        "models": [model_figures(audit, exhibits=report.exhibits) for audit in report.audits],
    }


def model_figures(audit: ModelAudit, *, exhibits: bool = False) -> PlainData:
    """One model: its standing, both bounds, every attack, who is hurt, and the caveats.

    ``exhibits`` adds recovered things and their truth, which are private data.
    """
    return {
        "name": audit.name,
        "standing": audit.standing.value,
        "verdict": sentence(audit),
        "delta": audit.delta,
        "epsilon": {
            "measured": audit.epsilon_measured,
            "proved": audit.epsilon_proved,
            **_tightest(audit),
            "records": _best(audit.on_records),
            "canaries": _best(audit.on_canaries),
        },
        "detected": {
            "records": audit.detected,
            "canaries": audit.canaries_detected if audit.on_canaries else None,
            "recoveries": audit.recovered if audit.recoveries else None,
        },
        "accuracy": {"members": audit.train_accuracy, "nonmembers": audit.test_accuracy},
        "regression": _regression(audit.regression),
        "strongest": audit.strongest.name if audit.results else _largest_leak(audit),
        "strength": audit.strength.value,
        "attacks": [attack_figures(result) for result in audit.results],
        "recoveries": [recovery_figures(result, exhibits=exhibits) for result in audit.recoveries],
        "table": None if audit.table is None else table_figures(audit.table),
        "text": None if audit.text is None else text_figures(audit.text, exhibits=exhibits),
        "proof": _proof(audit),
        "population": audit.population,
        "caveats": _caveats(audit),
        "checks": [check_figures(check) for check in audit.checks],
        "harm": None if audit.harm is None else _harm(audit.harm),
        "reference_models": _reference_models(audit.reference_models),
        "ledger": None if audit.ledger is None else json.loads(audit.ledger.to_json()),
        "fingerprints": None if audit.fingerprints is None else _fingerprints(audit.fingerprints),
        "seconds": round(audit.seconds, 3),
    }


def _regression(fit: RegressionFit | None) -> PlainData | None:
    """R² and error of a regression model on both sides."""
    if fit is None:
        return None
    return {
        "r_squared": {"members": fit.train_r2, "nonmembers": fit.test_r2},
        "root_mean_squared_error": {"members": fit.train_error, "nonmembers": fit.test_error},
    }


def attack_figures(result: AttackResult) -> PlainData:
    """One attack: who attacked, what was found with its intervals, and the bound that follows."""
    leakage, finding, adversary = result.leakage, result.finding, result.adversary
    verdict = finding.verdict
    return {
        "name": result.name,
        "adversary": {"sees": adversary.sees, "knows": adversary.knows, "wants": adversary.wants},
        "planted": result.planted,
        "unit": result.unit,
        "detected": result.detected,
        "strength": result.strength.value,
        "members": leakage.roc.members,
        "nonmembers": leakage.roc.others,
        "confidence": leakage.confidence,
        "auc": rate_figures(leakage.auc),
        "balanced_accuracy": rate_figures(leakage.balanced_accuracy),
        "tpr": tpr_figures(leakage),
        "fpr_floor": leakage.fpr_floor,
        "epsilon": {
            "measured": finding.measured.value,
            "ceiling": finding.ceiling,
            "confidence": finding.measured.confidence,
            "method": result.method,
            "claim": None if verdict is None else verdict.value,
        },
        "roc": _curve(leakage),
        "scores": _histogram(result.scores),
    }


def _largest_leak(audit: ModelAudit) -> str:
    return max(audit.recoveries, key=lambda result: result.leakage.leak.value).name


def _tightest(audit: ModelAudit) -> PlainData:
    """The attack, on membership or not, with the largest lower bound on ε, and the most that it could have
    shown.
    """
    shown = [(result.finding, result.name) for result in ([audit.tightest] if audit.results else [])]
    shown += [(each.bound.finding, each.name) for each in audit.recoveries if each.bound.finding is not None]
    if not shown:  # recoveries that bound nothing
        return {"ceiling": 0.0, "confidence": audit.confidence, "attack": audit.recoveries[0].name}
    finding, name = max(shown, key=lambda pair: pair[0].measured.value)
    return {"ceiling": finding.ceiling, "confidence": audit.confidence, "attack": name}


def _best(results: Sequence[AttackResult]) -> PlainData | None:
    """The largest lower bound on ε among some attacks, and the most that this attack could have shown."""
    if not results:
        return None
    best = max(results, key=lambda result: result.finding.measured.value)
    return {"measured": best.finding.measured.value, "ceiling": best.finding.ceiling, "attack": best.name}


def rate_figures(interval: Rate | None) -> PlainData | None:
    """An estimate and the ends of its interval."""
    return None if interval is None else {name: float(value) for name, value in interval._asdict().items()}


def tpr_figures(leakage: Leakage) -> PlainData:
    """The true-positive rates by false-positive rate.

    None marks a rate that so few non-members do not support.
    """
    return {_key(fpr): rate_figures(tpr) for fpr, tpr in leakage.tprs.items()}


def check_figures(check: Check) -> PlainData:
    """One check."""
    return {
        "name": check.name,
        "outcome": check.outcome.value,
        "finding": check.finding,
        "advice": check.advice,
    }


def _origin(origin: Origin) -> PlainData:
    return {
        "command": origin.command,
        "call": origin.call,
        "privet_version": origin.version,
        "seed": origin.seed,
        "created": origin.created.isoformat(),
        "code": _fingerprint(origin.code),
        "packages": dict(origin.packages),
    }


def _reference_models(models: ReferenceModels | None) -> PlainData | None:
    if models is None:
        return None
    return {
        "asked": models.asked,
        "used": models.used,
        "records_each": models.records,
        "budget_seconds": models.time_limit,
    }


def _fingerprints(prints: Fingerprints) -> PlainData:
    return {
        "key": prints.key,
        "data": prints.data,
        "model": _fingerprint(prints.model),
        "members": _fingerprint(prints.members),
        "nonmembers": _fingerprint(prints.nonmembers),
        "ledger": _fingerprint(prints.ledger),
    }


def _fingerprint(taken: Fingerprint | None) -> PlainData | None:
    return None if taken is None else {"hashing": taken.hashing.value, "digest": taken.digest}


def _proof(audit: ModelAudit) -> PlainData | None:
    claim = audit.claim
    if claim is None:
        return None
    return {
        "adjacency": claim.adjacency.relation,
        "unit": str(claim.adjacency.unit),
        "accountant": claim.accountant,
        "tpr_at_most": {_key(fpr): highest_tpr(claim, fpr) for fpr in RATES},
        "caveats": _caveats(audit),
    }


def _caveats(audit: ModelAudit) -> list[PlainData]:
    return [{"code": caveat.code, "sentence": caveat.sentence} for caveat in audit.caveats]


def _curve(leakage: Leakage) -> PlainData:
    """Points of the ROC over log FPR, and before them the best point without a false positive."""
    roc = leakage.roc
    band = roc.band(POINTS - 2, leakage.confidence)
    last = int(np.searchsorted(roc.false_positives, 0, side="right")) - 1
    no_alarm = [rate(hits, roc.members, leakage.confidence) for hits in (0, int(roc.true_positives[last]))]
    rows = [(0.0, *point) for point in no_alarm] + list(zip(*band, strict=True))
    rows = sorted({tuple(_six_digits(value) for value in row) for row in rows})
    names = ("fpr", "tpr", "lower", "upper")
    return {
        "thinned": len(rows) < len(roc.thresholds),
        **{name: [row[column] for row in rows] for column, name in enumerate(names)},
    }


def _histogram(scores: Scores) -> PlainData:
    bins = bin_scores(scores)
    sides = {"edges": bins.edges, "members": bins.members, "nonmembers": bins.others}
    return {name: [_six_digits(value) for value in values] for name, values in sides.items()}


def _harm(harm: Harm) -> PlainData:
    risk = harm.at_risk
    return {
        "attack": harm.attack,
        "members": len(risk.records),
        "flagged": risk.flagged,
        "false_discoveries": risk.false_discoveries,
        "most_at_risk": [
            {"record": name, "p_value": float(p_value), "flagged": rank < risk.flagged}
            for rank, (name, p_value) in enumerate(
                zip(harm.names[:LISTED], risk.p_values[:LISTED], strict=True)
            )
        ],
        "classes": [_group(group, harm.class_accuracies) for group in harm.classes],
        "groups": [_group(group, harm.group_accuracies) for group in harm.groups],
    }


def _group(group: GroupHarm, accuracies: tuple[GroupAccuracy, ...]) -> PlainData:
    leakage = group.leakage
    accuracy = next((entry for entry in accuracies if entry.name == group.name), None)
    return {
        "name": group.name,
        "members": leakage.roc.members,
        "nonmembers": leakage.roc.others,
        "auc": rate_figures(leakage.auc),
        "found_at_common_threshold": rate_figures(group.at_common),
        "p_value": float(group.p_value),
        "flagged": group.flagged,
        "accuracy": {
            "members": None if accuracy is None else rate_figures(accuracy.on_members),
            "nonmembers": None if accuracy is None else rate_figures(accuracy.on_others),
        },
    }


def _key(fpr: float) -> str:
    return f"{fpr:g}"


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
