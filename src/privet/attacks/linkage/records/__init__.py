"""Record linkage: the rows of a published table that belong to people of whom a second table tells who they
are.

``attack`` is the way in. ``comparisons`` says how alike two values are, over ``strings``; ``blocking`` finds
candidate pairs of rows, ``agreement`` grades them, ``model`` learns what each level of agreement is worth,
and ``assignment`` chooses the rows.
"""

from privet.attacks.linkage.records.attack import Links, RecordLinkage
from privet.attacks.linkage.records.comparisons import (
    CodeComparison,
    DateComparison,
    ExactComparison,
    NameComparison,
    NumberComparison,
    ValueComparison,
)
from privet.public_calls import check_public_calls

__all__ = [
    "CodeComparison",
    "DateComparison",
    "ExactComparison",
    "Links",
    "NameComparison",
    "NumberComparison",
    "RecordLinkage",
    "ValueComparison",
]


check_public_calls(__name__)
