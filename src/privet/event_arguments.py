"""What an event is, and the checks of its arguments."""

from abc import ABC
from typing import ClassVar

from privet.arguments import finite, positive, whole
from privet.errors import InvalidArgument

__all__ = [
    "MOST_COUNTED",
    "Event",
    "check_candidates",
    "check_correlated",
    "check_event",
    "check_mean",
    "check_parts",
    "check_shape",
    "check_shares",
]

MOST_COUNTED = 10**15  # of anything that is counted: beyond, float64 does not hold every whole number
_MOST_RUNS = 10**6  # and of parties
_LARGEST_SHAPE = 1000


class Event(ABC):  # noqa: B024 - a closed family of frozen dataclasses, told apart by their type
    """A description of what was done; what it cost is for an accountant to say.

    ``is_sum`` says that it only looks at sums of the units' contributions.
    """

    is_sum: ClassVar[bool] = False


def check_event(name: str, value: object) -> None:
    """An event, or a refusal that names the argument."""
    if not isinstance(value, Event):
        raise InvalidArgument(
            f"'{name}' must be an event, got {type(value).__name__}. Wrap what ran in an event."
        )


def check_parts(parts: object) -> None:
    """A tuple of events."""
    if not isinstance(parts, tuple):
        raise InvalidArgument(
            f"'parts' must be a tuple of events, got {type(parts).__name__}. Write (first, second, …)."
        )
    for part in parts:
        check_event("parts", part)


def check_candidates(candidates: object) -> None:
    """A tuple of at least one event."""
    if not isinstance(candidates, tuple) or not candidates:
        raise InvalidArgument(
            f"'candidates' must be a tuple of at least one event, got {type(candidates).__name__}. "
            "Write (first, second, …)."
        )
    for candidate in candidates:
        check_event("candidates", candidate)


def check_shape(shape: float) -> None:
    """A shape of the negative binomial law of the number of runs."""
    if not -1 < finite("shape", shape) <= _LARGEST_SHAPE:
        raise InvalidArgument(
            f"'shape' must be above -1 and at most {_LARGEST_SHAPE}, got {shape!r}. "
            "1 is the geometric law, 0 the logarithmic law."
        )


def check_mean(mean: float) -> None:
    """A mean number of runs."""
    if not 1 <= finite("mean", mean) <= _MOST_RUNS:
        raise InvalidArgument(
            f"'mean' must be a number of runs between 1 and {_MOST_RUNS:,}, got {mean!r}. "
            "Ask for at least one run on average."
        )


def check_correlated(noise: float, steps: int, separation: int, participations: int) -> None:
    """The arguments that tree and banded noise share."""
    positive("noise_multiplier", noise)
    whole("steps", steps, most=MOST_COUNTED)
    whole("separation", separation, most=MOST_COUNTED)
    whole("participations", participations, most=MOST_COUNTED)
    if (participations - 1) * separation >= steps:
        raise InvalidArgument(
            f"'participations' = {participations} with 'separation' = {separation} must fit into "
            f"'steps' = {steps}, and does not. Lower the participations or raise the steps."
        )


def check_shares(scale: float, shares: int, contribution: float, coordinates: int) -> None:
    """Noise of several parties on a vector of whole numbers."""
    positive("scale", scale)
    whole("shares", shares, most=_MOST_RUNS)
    positive("contribution", contribution)
    whole("coordinates", coordinates, most=MOST_COUNTED)
