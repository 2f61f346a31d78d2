"""Laws that every event, accountant and guarantee must keep, as checks that anybody can call.

Write an accountant of your own and hand it to ``check_accountant``; describe a new mechanism with an event
and hand it to ``check_event``. Each check returns nothing, or raises ``LawBroken``, an ``AssertionError``
that says which law failed and on what. ``privet.testing.strategies`` draws random events for property-based
tests.

>>> from privet.accounting import GaussianDP
>>> check_accountant(GaussianDP())
"""

from privet.public_calls import check_public_calls
from privet.testing.agreement import check_agreement, check_tightness
from privet.testing.broken import LawBroken
from privet.testing.composition import (
    check_nesting,
    check_order,
    check_repeat_is_compose,
    check_repetition_costs,
)
from privet.testing.curves import check_guarantee, check_risks
from privet.testing.ledgers import check_documents, check_ledger
from privet.testing.suites import ACCOUNTANTS, check_accountant, check_event
from privet.testing.truths import TRUTHS, Truth, check_truth

__all__ = [
    "ACCOUNTANTS",
    "TRUTHS",
    "LawBroken",
    "Truth",
    "check_accountant",
    "check_agreement",
    "check_documents",
    "check_event",
    "check_guarantee",
    "check_ledger",
    "check_nesting",
    "check_order",
    "check_repeat_is_compose",
    "check_repetition_costs",
    "check_risks",
    "check_tightness",
    "check_truth",
]


check_public_calls(__name__)
