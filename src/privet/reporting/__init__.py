"""Reports: the findings of an audit as a page, as JSON, as a section of a model card, as evidence for an
impact assessment.

``facts`` are what a report is made of, ``content`` holds them for one or more models, ``verdicts`` and
``caution`` put them into sentences. ``page`` puts sections (``sections_*``) together, with ``charts``;
``documents`` are the other forms; ``report`` has all of them. Nothing here computes a figure of its own.

A new section of the page is a function in a ``sections_*`` module and a line of ``SECTIONS`` in ``page``.
"""

from privet.public_calls import check_public_calls
from privet.reporting.defence_facts import ComparedDefence
from privet.reporting.defence_report import DefenceComparison
from privet.reporting.facts import AttackResult, ModelAudit, Origin, Standing, Strength
from privet.reporting.report import Report

__all__ = [
    "AttackResult",
    "ComparedDefence",
    "DefenceComparison",
    "ModelAudit",
    "Origin",
    "Report",
    "Standing",
    "Strength",
]


check_public_calls(__name__)
