"""Sparse histories: whose ratings, baskets or visits these are, by a few of them that somebody knows.

``sparse_histories`` holds them, ``knowledge`` draws what an adversary knows, ``attack`` says what an attack
is and calibrates it. ``scoreboard`` is that of Narayanan & Shmatikov, ``likelihood`` a sharper one, both
over ``joined_items``.
"""

from privet.attacks.linkage.histories.attack import HistoryAttack, IdentifiedPeople
from privet.attacks.linkage.histories.knowledge import HistoryGame, KnownItems
from privet.attacks.linkage.histories.likelihood import HistoryLikelihood
from privet.attacks.linkage.histories.scoreboard import Scoreboard
from privet.attacks.linkage.histories.sparse_histories import Histories
from privet.public_calls import check_public_calls

__all__ = [
    "Histories",
    "HistoryAttack",
    "HistoryGame",
    "HistoryLikelihood",
    "IdentifiedPeople",
    "KnownItems",
    "Scoreboard",
]


check_public_calls(__name__)
