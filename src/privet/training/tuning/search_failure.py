"""What a search says if it breaks off: what was spent is never forgotten."""

from collections.abc import Iterator
from contextlib import contextmanager

from privet.errors import PrivetError
from privet.ledger import Ledger

__all__ = ["SearchFailed", "keep_cost"]


class SearchFailed(PrivetError):
    """A run of a search failed after the search was paid for. ``ledger`` has the cost of the whole search."""

    def __init__(self, message: str, ledger: Ledger) -> None:
        super().__init__(message)
        self.ledger = ledger

    def __reduce__(self) -> tuple[type["SearchFailed"], tuple[str, Ledger]]:
        return SearchFailed, (str(self), self.ledger)


@contextmanager
def keep_cost(ledger: Ledger, *, resumable: bool) -> Iterator[None]:
    """Tell what was spent, and how to go on, if a run fails or is interrupted."""
    on = "Call tune again with the same 'checkpoint' to go on."
    try:
        yield
    except KeyboardInterrupt as interruption:
        cost = on if resumable else f"Its ledger:\n{ledger.to_json()}"
        interruption.add_note(f"The search is paid for, seen or not. {cost}")
        raise
    except Exception as failed:
        raise SearchFailed(
            f"A run of the search must end, and failed with {type(failed).__name__}; the search is paid for, "
            f"and 'ledger' of this error has its cost. {on if resumable else 'Add it to your ledger.'}",
            ledger,
        ) from failed
