"""Attacks on a language model as tables for a terminal."""

from privet.cli.output import fixed_down, fixed_up, table
from privet.reporting import ModelAudit
from privet.reporting.text_facts import TextFacts

__all__ = ["exposure_table", "text_attacks_table"]

_RATES = (0.01, 0.001)


def text_attacks_table(audited: ModelAudit) -> str:
    """Each attack on texts or authors: AUC, true-positive rates, and the ε that follows."""
    rows = []
    for result in audited.results:
        found = [result.leakage.tpr(rate) for rate in _RATES]
        rows.append(
            [
                result.name,
                result.unit,
                f"{result.leakage.auc.value:.3f}",
                *("–" if tpr is None else f"{100 * tpr.value:.1f} %" for tpr in found),
                f"≥ {fixed_down(result.finding.measured.value, 2)}",
                "yes" if result.detected else "no",
            ]
        )
    shares = (f"TPR at {100 * rate:g} % FPR" for rate in _RATES)
    return table(["attack", "finds", "AUC", *shares, "ε", "detected"], rows)


def exposure_table(found: TextFacts) -> str:
    """Planted secrets by their number of copies: mean exposure between baseline and ceiling."""
    rows = [
        [
            f"{each.copies:,}" if each.copies else "never inserted",
            f"{each.canaries:,}",
            f"{each.mean:.1f}",
            f"{found.blind_bits or 0.0:.2f}",
            f"{found.most_bits or 0.0:.1f}",
            "–" if each.ceiling is None else f"≤ {fixed_up(each.ceiling, 1)}",
        ]
        for each in found.exposure
    ]
    return table(["copies", "secrets", "exposure in bits", "baseline", "largest", "ceiling"], rows)
