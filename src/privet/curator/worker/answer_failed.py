"""The one error after a charge."""

from typing import final

from privet.errors import PrivetError

__all__ = ["AnswerFailed"]


@final
class AnswerFailed(PrivetError):
    """A charged question has no answer. The text is the same whatever the cause."""

    def __init__(self) -> None:
        super().__init__("The question was charged and has no answer. Ask the steward.")
