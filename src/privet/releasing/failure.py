"""The error of a release that was paid for and failed."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

from privet.errors import PrivetError
from privet.ledger import Ledger

__all__ = ["ReleaseFailed", "contain_errors"]


@final
class ReleaseFailed(PrivetError):
    """The engine failed after the spending was written down. What was spent stays spent: see ``ledger``.

    *Leaks*: that it failed. The message is the same whatever the cause, and the cause is not attached,
    because an engine's own message may quote a row.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(
            "The table could not be aggregated after the spending was written down, so the budget is spent "
            "and there is no answer. Check that the file is complete and that memory and time suffice, and "
            "run it again at its cost."
        )
        self.ledger = ledger


@contextmanager
def contain_errors() -> Iterator[None]:
    """Suppress every error and warning inside, because an engine's message may quote a row.

    A panic of Polars is not an ``Exception``. So every ``BaseException`` is suppressed, except those that
    stop the program.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException:  # its text may quote a row
            pass
