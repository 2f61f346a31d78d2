"""``--fail-above``: a limit on a figure, so that a pipeline stops if a model leaks more."""

from dataclasses import dataclass
from typing import final

from privet.errors import InvalidArgument
from privet.reporting import Report

__all__ = ["Limit", "limits_from"]


@final
@dataclass(frozen=True)
class Limit:
    """At most ``most`` of a figure: ``auc``, ``epsilon`` (the measured one), ``leak`` (of a recovery),
    ``unique`` (the share of unique rows of a table), or ``tpr`` at a false-positive rate.

    ``detected`` has no number: the limit is broken if membership or a recovery was detected, as the report
    defines it.

    Any other limit is broken by the figure itself, not by the end of its interval: a pipeline should not pass
    because n is small. If n is too small to measure the rate, the limit counts as broken, because nothing
    shows that it holds.
    """

    figure: str
    most: float
    fpr: float | None = None

    def value(self, report: Report) -> float | None:
        """The worst figure of all attacks on all models; None where n does not support it."""
        results = [result for audited in report.audits for result in audited.results]
        if self.figure == "detected":
            return float(any(audited.detected or audited.recovered for audited in report.audits))
        if self.figure == "leak":
            leaks = [each.leakage.leak.value for audited in report.audits for each in audited.recoveries]
            return max(leaks, default=None)
        if self.figure == "unique":
            tables = [audited.table for audited in report.audits if audited.table is not None]
            return max((found.unique_share for found in tables), default=None)
        if self.figure == "epsilon":
            return max(audited.epsilon_measured for audited in report.audits)
        if not results:
            return None
        if self.figure == "auc":
            return max(result.leakage.auc.value for result in results)
        rates = [result.leakage.tpr(self.fpr or 1.0) for result in results]
        return (
            None
            if any(rate is None for rate in rates)
            else max(rate.value for rate in rates if rate is not None)
        )

    def broken_by(self, report: Report) -> bool:
        """Whether the figure is above the limit, or could not be measured."""
        value = self.value(report)
        return value is None or value > self.most

    def describe(self, report: Report) -> str:
        """The figure and its limit in words."""
        value = self.value(report)
        name = self.figure if self.fpr is None else f"{self.figure}@{self.fpr:g}"
        if self.figure == "detected":
            what = "a leak" if any(audited.recoveries for audited in report.audits) else "membership"
            return f"{what} was {'detected' if value else 'not detected'}, and must not be."
        if value is None and self.figure != "tpr":
            return f"{name} was not measured: no such attack was run, and it must be at most {self.most:g}."
        if value is None:
            return f"{name} cannot be measured with so few non-members, and must be at most {self.most:g}."
        return f"{name} is {value:.4g}, and must be at most {self.most:g}."


def limits_from(text: str) -> Limit:
    """A limit as it is written: ``tpr@0.001=0.05``, ``auc=0.6``, ``epsilon=3``, ``detected``.

    >>> limits_from("tpr@0.001=0.05")
    Limit(figure='tpr', most=0.05, fpr=0.001)
    """
    if text.strip() == "detected":
        return Limit("detected", 0.0)
    figure, equals, most = text.partition("=")
    name, at, rate = figure.strip().partition("@")
    try:
        limit = Limit(name, float(most), float(rate) if at else None)
    except ValueError:
        limit = Limit("", 0.0)
    wants_rate = limit.figure == "tpr"
    in_range = limit.fpr is None or 0 < limit.fpr <= 1
    if (
        not equals
        or limit.figure not in ("tpr", "auc", "epsilon", "leak", "unique")
        or wants_rate != bool(at)
        or not in_range
    ):
        raise InvalidArgument(
            f"'--fail-above' must be tpr@FPR=LIMIT, auc=LIMIT, epsilon=LIMIT, leak=LIMIT, unique=LIMIT or "
            f"detected, got {text!r}. Write tpr@0.001=0.05, for instance."
        )
    if not limit.most >= 0:
        raise InvalidArgument(f"'--fail-above' must have a limit of at least 0, got {text!r}. Give a number.")
    return limit
