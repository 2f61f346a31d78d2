"""The content of a report, without its forms.

A form (the page, ``report.json``, the model card, …) reads ``ReportContent``. ``Report`` is the content
together with all forms. So forms do not import ``Report``, and ``Report`` imports the forms.
"""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

from privet.errors import InvalidArgument
from privet.reporting.defence_facts import ComparisonContent
from privet.reporting.facts import ModelAudit, Origin, Standing

__all__ = ["ReportContent"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ReportContent(ABC):
    """One or more audited models, how the report came to be, and its title.

    ``audits`` may be any sequence. ``exhibits`` says that forms show recovered things beside the truth:
    private data. ``comparison`` holds defences that were compared for these models; advice quotes it.
    """

    audits: Sequence[ModelAudit]
    origin: Origin
    title: str = "Privacy audit"
    exhibits: bool = False
    comparison: ComparisonContent | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "audits", tuple(self.audits))
        if not self.audits:
            raise InvalidArgument("'audits' must hold at least one model, got none. Audit a model first.")
        names = [audit.name for audit in self.audits]
        if len(set(names)) < len(names):
            raise InvalidArgument("'audits' must have names that differ, got one twice. Name each model.")

    @property
    def worst(self) -> ModelAudit:
        """The model with the worst standing; between equals, the one that leaks most."""
        order = list(Standing)
        return min(self.audits, key=lambda audit: (order.index(audit.standing), -_most_found(audit)))


def _most_found(audit: ModelAudit) -> float:
    """The AUC of the strongest attack on membership; without one, the largest leak of a recovery."""
    if audit.results:
        return audit.strongest.leakage.auc.value
    return max(recovery.leakage.leak.value for recovery in audit.recoveries)
