"""Laws that every event, accountant and guarantee must keep, as checks that anybody can call.

Write an accountant of your own and hand it to ``check_accountant``; describe a new mechanism with an event
and hand it to ``check_event``; write a rule for a layer and hand the layer to ``check_layer``. Each check
returns nothing, or raises ``LawBroken``, an ``AssertionError`` that says which law failed and on what.
``privet.testing.strategies`` draws random events for property-based tests.

>>> from privet.accounting import GaussianDP
>>> check_accountant(GaussianDP())
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
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

if TYPE_CHECKING:
    from privet.testing.layers import check_layer

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
    "check_layer",
    "check_ledger",
    "check_nesting",
    "check_order",
    "check_repeat_is_compose",
    "check_repetition_costs",
    "check_risks",
    "check_tightness",
    "check_truth",
]

_MODULES = {"check_layer": "layers"}  # needs torch
__getattr__ = load_lazily(__name__, _MODULES)[0]


def __dir__() -> list[str]:
    return list(__all__)


check_public_calls(__name__)
