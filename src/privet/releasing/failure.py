"""The error of a release that was paid for and did not come about."""

from typing import final

from privet.errors import PrivetError
from privet.ledger import Ledger

__all__ = ["ReleaseFailed"]


@final
class ReleaseFailed(PrivetError):
    """The engine failed after the spending was written down. What was spent stays spent: see ``ledger``.

    *Leaks*: that it failed. The message is the same whatever the cause, and the cause is not attached, because
    an engine's own message may quote a row.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(
            "The table could not be aggregated after the spending was written down, so that the budget is spent and "
            "there is no answer. Check that the file is whole and memory suffices, and run it again at its cost."
        )
        self.ledger = ledger
