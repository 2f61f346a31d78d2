"""Recoveries as plain data, for ``report.json``."""

from typing import Any, TypeAlias

from privet.auditing import GroupRecovery, Rate, RecoveryLeakage
from privet.exhibits import Exhibit, Shown
from privet.reporting.pictures import data_uri
from privet.reporting.recovery_facts import RecoveryResult

__all__ = ["recovery_figures"]

_Plain: TypeAlias = dict[str, Any]


def recovery_figures(result: RecoveryResult, *, exhibits: bool) -> _Plain:
    """One attack: success, baseline and leak, each with its interval; the ceiling; the lower bound on ε.

    ``exhibits`` adds recovered things and their truth, which are private data; else their list is empty.
    """
    finding, who = result.bound.finding, result.adversary
    verdict = None if finding is None else finding.verdict
    return {
        "attack": result.name,
        "adversary": {"sees": who.sees, "knows": who.knows, "wants": who.wants},
        **_leakage_figures(result.leakage),
        "ceiling": result.ceiling,
        "sure_ceiling": result.sure_ceiling,
        "above_ceiling": result.is_above_ceiling,
        "detected": result.detected,
        "epsilon_lower": result.epsilon,
        "epsilon_ceiling": None if finding is None else finding.ceiling,
        "epsilon_confidence": None if finding is None else finding.measured.confidence,
        "method": result.bound.method,
        "claim": None if verdict is None else verdict.value,
        "groups": [_group_figures(group) for group in result.groups],
        "exhibits": [_exhibit_figures(exhibit) for exhibit in result.exhibits] if exhibits else [],
    }


def _leakage_figures(leakage: RecoveryLeakage) -> _Plain:
    return {
        "criterion": leakage.criterion,
        "targets": {"inside": leakage.inside, "outside": leakage.outside},
        "success": _rate(leakage.success),
        "baseline": _rate(leakage.baseline),
        "baseline_kind": leakage.baseline_kind.value,
        "leak": _rate(leakage.leak),
        "blind": _rate(leakage.blind),
        "above_blind": _rate(leakage.above_blind),
        "confidence": leakage.confidence,
    }


def _group_figures(group: GroupRecovery) -> _Plain:
    return {"name": group.name, **_leakage_figures(group.leakage), "detected": group.leakage.detected}


def _exhibit_figures(exhibit: Exhibit) -> _Plain:
    return {
        "truth": _thing(exhibit.truth),
        "recovered": _thing(exhibit.recovered),
        "blind": None if exhibit.blind is None else _thing(exhibit.blind),
        "caption": exhibit.caption,
        "member": exhibit.member,
    }


def _thing(thing: Shown) -> _Plain:
    if isinstance(thing, str):
        return {"kind": "text", "content": thing}
    return {"kind": "picture", "content": data_uri(thing)}


def _rate(interval: Rate | None) -> _Plain | None:
    return None if interval is None else {name: float(value) for name, value in interval._asdict().items()}
