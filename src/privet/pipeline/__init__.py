"""The loop closed: a model in, attacked and bounded from both sides, a report out."""

from privet.pipeline.audit_model import audit, audit_scores
from privet.pipeline.choosing import ATTACKS
from privet.pipeline.time_limit import Budget

__all__ = ["ATTACKS", "Budget", "audit", "audit_scores"]
