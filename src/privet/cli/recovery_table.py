"""Attacks that recover something, as a table for a terminal."""

from privet.cli.output import fixed_down, fixed_up, table
from privet.reporting import ModelAudit

__all__ = ["recovery_table"]


def recovery_table(audited: ModelAudit) -> str:
    """Baseline, success, leak and ceiling of each recovery."""
    rows = []
    for result in audited.recoveries:
        leakage = result.leakage
        rows.append(
            [
                result.name,
                f"{100 * leakage.baseline.value:.1f} %",
                f"{100 * leakage.success.value:.1f} %",
                f"{100 * leakage.leak.value:+.1f} [{100 * leakage.leak.lower:+.1f}, "
                f"{100 * leakage.leak.upper:+.1f}]",
                "no proof" if result.ceiling is None else f"≤ {fixed_up(100 * result.ceiling, 1)} %",
                "–" if result.epsilon is None else f"≥ {fixed_down(result.epsilon, 2)}",
                "yes" if result.detected else "no",
            ]
        )
    header = ["attack", "baseline", "recovered", "leak in points", "ceiling", "ε", "detected"]
    return table(header, rows)
