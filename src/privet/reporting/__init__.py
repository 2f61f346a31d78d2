"""Findings told to people: one page, one document, one section of a model card, the evidence of an impact assessment."""

from privet.public_calls import check_public_calls
from privet.reporting.facts import AttackResult, ModelAudit, Origin, Standing, Strength
from privet.reporting.report import Report

__all__ = ["AttackResult", "ModelAudit", "Origin", "Report", "Standing", "Strength"]


check_public_calls(__name__)
