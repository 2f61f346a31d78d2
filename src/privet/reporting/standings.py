"""How a standing looks: a word and a sign, and a colour that says the same again."""

from typing import NamedTuple

from privet.reporting.facts import Standing
from privet.reporting.markup import Html, element, joined, text

__all__ = ["Look", "badge", "look"]


class Look(NamedTuple):
    """The word for a standing, the sign before it, and the class of its colour."""

    word: str
    sign: str
    kind: str


def look(standing: Standing) -> Look:
    """How to show a standing."""
    match standing:
        case Standing.BROKEN:
            return Look("Claim broken", "✕", "broken")
        case Standing.LEAKS:
            return Look("Leaks", "!", "leaks")
        case Standing.LEAKS_WITHIN:
            return Look("Leaks, within its proof", "≤", "within")
        case Standing.NOT_DETECTED_PROVED:
            return Look("Not detected, bounded by proof", "≤", "bounded")
        case Standing.NOT_DETECTED:
            return Look("Not detected at this power", "?", "unseen")


def badge(shown: Look) -> Html:
    """The word and the sign."""
    sign = element("span", text(shown.sign), {"class": "sign", "aria-hidden": "true"})
    return element("span", joined([sign, text(shown.word)]), {"class": f"badge {shown.kind}"})
