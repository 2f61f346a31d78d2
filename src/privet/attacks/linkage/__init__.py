"""Linkage: who is behind the rows of a published table, by what an adversary knows of people.

``records`` links a second table, ``histories`` a few known items of a person.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.linkage.histories import Histories, HistoryLikelihood, Scoreboard
    from privet.attacks.linkage.records import RecordLinkage

_MODULES = {
    "Histories": "histories",
    "HistoryLikelihood": "histories",
    "RecordLinkage": "records",
    "Scoreboard": "histories",
}

__all__ = ["Histories", "HistoryLikelihood", "RecordLinkage", "Scoreboard"]

__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
