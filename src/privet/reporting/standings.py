"""The badge of a standing: a word, a sign, and a colour that repeats them."""

from typing import NamedTuple

from privet.reporting.facts import Standing
from privet.reporting.markup import Html, element, join_html, text

__all__ = ["Badge", "badge_html", "standing_badge"]


class Badge(NamedTuple):
    """The word for a standing, the sign before it, and the class of its colour."""

    word: str
    sign: str
    kind: str


def standing_badge(standing: Standing) -> Badge:
    """The badge of a standing."""
    match standing:
        case Standing.BROKEN:
            return Badge("Claim broken", "✕", "broken")
        case Standing.LEAKS:
            return Badge("Leaks", "!", "leaks")
        case Standing.LEAKS_WITHIN:
            return Badge("Leaks, within its proof", "≤", "within")
        case Standing.NOT_DETECTED_PROVED:
            return Badge("Not detected, bounded by proof", "≤", "bounded")
        case Standing.NOT_DETECTED:
            return Badge("Not detected at this power", "?", "unseen")


def badge_html(badge: Badge) -> Html:
    """A badge as HTML."""
    sign = element("span", text(badge.sign), {"class": "sign", "aria-hidden": "true"})
    return element("span", join_html([sign, text(badge.word)]), {"class": f"badge {badge.kind}"})
