"""The loop closed: a model in, attacked and bounded from both sides, a report out."""

from privet.loop.both_bounds import audit, audit_scores
from privet.loop.budget import Budget
from privet.loop.choosing import ATTACKS
from privet.public_calls import check_public_calls

__all__ = ["ATTACKS", "Budget", "audit", "audit_scores"]


check_public_calls(__name__)
