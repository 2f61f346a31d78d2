"""What happens to the budget of a dataset when its content changes: the refresh policy."""

from enum import StrEnum
from typing import final

__all__ = ["RefreshPolicy"]


@final
class RefreshPolicy(StrEnum):
    """Which content a budget is for. No policy gives a fresh budget: that is an act of a steward.

    ``FROZEN``: the content of the day on which the dataset was added. Other content is refused.
    ``SAME_PEOPLE``: the same people, whose rows may change. The budget goes on: what was answered about
    the earlier content and what is answered about the later one add up.
    """

    FROZEN = "frozen"
    SAME_PEOPLE = "same-people"
