"""Facts as plain data: dictionaries, lists, text and finite numbers. Every document takes its figures from here.

A number that does not exist is None, never NaN or ∞. Keys are in a fixed order. Single figures are written in full, long columns
(curves and histograms) with six digits, and curves are thinned, so that a report on 10⁵ records is as small as one on 100.
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
from privet.reporting.charts.proved_curve import most_found
from privet.reporting.charts.scores import histogram
from privet.reporting.facts import AttackResult, Harm, ModelAudit, Origin, ReferenceModels
from privet.reporting.report import Report
from privet.reporting.verdicts import sentence
from privet.scores import Scores

__all__ = [
    "LISTED",
    "POINTS",
    "Plain",
    "attack_figures",
    "check_figures",
    "model_figures",
    "rate_figures",
    "report_figures",
    "tpr_figures",
]

Plain: TypeAlias = dict[str, Any]
POINTS = 200
LISTED = 100


def report_figures(report: Report) -> Plain:
    """All that a report knows, without the name of a format."""
    return {
        "title": report.title,
        "verdict": report.verdict,
        "standing": report.worst.standing.value,
        "worst": report.worst.name,
        "origin": _origin(report.origin),
        "models": [model_figures(audit) for audit in report.audits],
    }


def model_figures(audit: ModelAudit) -> Plain:
    """One model: where it stands, both bounds, every attack, who is hurt, and what the figures rest on."""
    tightest = audit.tightest
    return {
        "name": audit.name,
        "standing": audit.standing.value,
        "verdict": sentence(audit),
        "delta": audit.delta,
        "epsilon": {
            "measured": audit.epsilon_measured,
            "proved": audit.epsilon_proved,
            "ceiling": tightest.finding.ceiling,
            "confidence": audit.confidence,
            "attack": tightest.name,
            "records": _best(audit.on_records),
            "canaries": _best(audit.on_canaries),
        },
        "detected": {
            "records": audit.detected,
            "canaries": audit.canaries_told if audit.on_canaries else None,
        },
        "accuracy": {"members": audit.train_accuracy, "nonmembers": audit.test_accuracy},
        "strongest": audit.strongest.name,
        "strength": audit.strength.value,
        "attacks": [attack_figures(result) for result in audit.results],
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


def attack_figures(result: AttackResult) -> Plain:
    """One attack: who attacked, what was found with its intervals, and the bound that follows."""
    leakage, finding, adversary = result.leakage, result.finding, result.adversary
    verdict = finding.verdict
    return {
        "name": result.name,
        "adversary": {"sees": adversary.sees, "knows": adversary.knows, "wants": adversary.wants},
        "planted": result.planted,
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


def _best(results: Sequence[AttackResult]) -> Plain | None:
    """The largest lower bound on ε of some attacks, and the most that it could have been."""
    if not results:
        return None
    best = max(results, key=lambda result: result.finding.measured.value)
    return {"measured": best.finding.measured.value, "ceiling": best.finding.ceiling, "attack": best.name}


def rate_figures(found: Rate | None) -> Plain | None:
    """An estimate between the ends of its interval."""
    return None if found is None else {name: float(value) for name, value in found._asdict().items()}


def tpr_figures(leakage: Leakage) -> Plain:
    """The true-positive rates by false-positive rate; None marks a rate that so few non-members do not support."""
    return {_key(fpr): rate_figures(tpr) for fpr, tpr in leakage.tprs.items()}


def check_figures(check: Check) -> Plain:
    """One check."""
    return {
        "name": check.name,
        "outcome": check.outcome.value,
        "finding": check.finding,
        "advice": check.advice,
    }


def _origin(origin: Origin) -> Plain:
    return {
        "command": origin.command,
        "call": origin.call,
        "privet_version": origin.version,
        "seed": origin.seed,
        "created": origin.created.isoformat(),
        "code": _fingerprint(origin.code),
        "packages": dict(origin.packages),
    }


def _reference_models(found: ReferenceModels | None) -> Plain | None:
    if found is None:
        return None
    return {
        "asked": found.asked,
        "used": found.used,
        "records_each": found.records,
        "budget_seconds": found.budget,
    }


def _fingerprints(found: Fingerprints) -> Plain:
    return {
        "key": found.key,
        "data": found.data,
        "model": _fingerprint(found.model),
        "members": _fingerprint(found.members),
        "nonmembers": _fingerprint(found.nonmembers),
        "ledger": _fingerprint(found.ledger),
    }


def _fingerprint(found: Fingerprint | None) -> Plain | None:
    return None if found is None else {"hashing": found.hashing.value, "digest": found.digest}


def _proof(audit: ModelAudit) -> Plain | None:
    claim = audit.claim
    if claim is None:
        return None
    return {
        "adjacency": claim.adjacency.relation,
        "unit": str(claim.adjacency.unit),
        "accountant": claim.accountant,
        "tpr_at_most": {_key(fpr): most_found(claim, fpr) for fpr in RATES},
        "caveats": _caveats(audit),
    }


def _caveats(audit: ModelAudit) -> list[Plain]:
    return [{"code": caveat.code, "sentence": caveat.sentence} for caveat in audit.caveats]


def _curve(leakage: Leakage) -> Plain:
    """Points of the ROC over log FPR, with the best one that costs no false positive before them."""
    roc = leakage.roc
    band = roc.band(POINTS - 2, leakage.confidence)
    place = int(np.searchsorted(roc.false_positives, 0, side="right")) - 1
    free = [rate(hits, roc.members, leakage.confidence) for hits in (0, int(roc.true_positives[place]))]
    rows = [(0.0, *point) for point in free] + list(zip(*band, strict=True))
    rows = sorted({tuple(_short(value) for value in row) for row in rows})
    names = ("fpr", "tpr", "lower", "upper")
    return {
        "thinned": len(rows) < len(roc.thresholds),
        **{name: [row[place] for row in rows] for place, name in enumerate(names)},
    }


def _histogram(scores: Scores) -> Plain:
    found = histogram(scores)
    sides = {"edges": found.edges, "members": found.members, "nonmembers": found.others}
    return {name: [_short(value) for value in values] for name, values in sides.items()}


def _harm(harm: Harm) -> Plain:
    risk = harm.at_risk
    return {
        "attack": harm.attack,
        "members": len(risk.records),
        "flagged": risk.flagged,
        "false_discoveries": risk.false_discoveries,
        "most_at_risk": [
            {"record": name, "p_value": float(p_value), "flagged": place < risk.flagged}
            for place, (name, p_value) in enumerate(
                zip(harm.names[:LISTED], risk.p_values[:LISTED], strict=True)
            )
        ],
        "classes": [_group(group, harm.class_accuracies) for group in harm.classes],
        "groups": [_group(group, harm.group_accuracies) for group in harm.groups],
    }


def _group(group: GroupHarm, accuracies: tuple[GroupAccuracy, ...]) -> Plain:
    leakage = group.leakage
    right = next((one for one in accuracies if one.name == group.name), None)
    return {
        "name": group.name,
        "members": leakage.roc.members,
        "nonmembers": leakage.roc.others,
        "auc": rate_figures(leakage.auc),
        "found_at_common_threshold": rate_figures(group.at_common),
        "p_value": float(group.p_value),
        "flagged": group.flagged,
        "accuracy": {
            "members": None if right is None else rate_figures(right.on_members),
            "nonmembers": None if right is None else rate_figures(right.on_others),
        },
    }


def _key(fpr: float) -> str:
    return f"{fpr:g}"


def _short(value: float) -> float:
    return float(f"{value:.6g}")
