"""The pipeline: a model and records in, a report with both bounds on ε out.

``audit_model`` reads ``records``, lets ``choosing`` pick the attacks before any score is seen, ``references``
train what they need within a ``time_limit``, runs the attacks, bounds ε (``canary_bounds`` for canaries) and
gives a report with fingerprints (``identification``) and the call that reproduces it (``reproducing``).
``audit_release`` does the same for a table that is to be published, ``audit_text`` for a language model.
"""

from privet.pipeline.audit_model import audit, audit_scores
from privet.pipeline.choosing import ATTACKS
from privet.pipeline.recovery_attacks import ATTACKS_THAT_RECOVER
from privet.pipeline.recovery_results import audit_recoveries
from privet.pipeline.rehearsal import Rehearsal, RehearsedLevel, rehearse, rehearse_plan
from privet.pipeline.release_audit import audit_release
from privet.pipeline.text_audit import audit_text
from privet.pipeline.time_limit import TimeLimit
from privet.public_calls import check_public_calls

__all__ = [
    "ATTACKS",
    "ATTACKS_THAT_RECOVER",
    "Rehearsal",
    "RehearsedLevel",
    "TimeLimit",
    "audit",
    "audit_recoveries",
    "audit_release",
    "audit_scores",
    "audit_text",
    "rehearse",
    "rehearse_plan",
]


check_public_calls(__name__)
