"""A search on disk: its whole cost before its first run, and its secret state, so that it can be resumed.

``ledger.json`` is written before anything is trained, and holds the cost of the whole search: runs that never
happen are paid for too. ``search.pt`` has the secret number of runs, the drawn recipes, and the best run so
far. A search that was killed goes on with the same numbers. The run that was under way starts again; nobody
has seen its result, and only the best run's result is ever shown, so it costs nothing more.

*Leaks*: both the number of runs and the best run so far are secret until the search ends. Only the owner can
read the folder.
"""

import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch

from privet.durable_files import lock_file, read_whole, replace_durably, unlock
from privet.errors import InvalidArgument, Unreadable
from privet.ledger import Ledger

__all__ = ["SavedSearch", "SearchState"]

_LEDGER, _STATE, _LOCK = "ledger.json", "search.pt", "lock"
_OWNER = 0o600


@final
@dataclass(frozen=True)
class SearchState:
    """The drawn recipes, how many of them ran, and the best run: its place, its score, its weights."""

    draws: tuple[int, ...]
    done: int = 0
    place: int | None = None
    score: int | None = None
    weights: dict[str, Any] | None = None

    def after_run(self, score: int | None, weights: dict[str, Any] | None) -> "SearchState":
        """The state after one more run; equal scores are won by who came first. A run that failed has no
        score and is never the best.
        """
        if score is not None and (self.score is None or score > self.score):
            return SearchState(self.draws, self.done + 1, self.draws[self.done], score, weights)
        return replace(self, done=self.done + 1)


@final
class SavedSearch:
    """A folder for one search, or nothing at all where ``folder`` is None."""

    def __init__(self, folder: str | Path | None, ledger: Ledger, description: str) -> None:
        self._folder = None if folder is None else Path(folder)
        self._ledger = ledger
        self._mark = hashlib.sha256(f"{description}\n{ledger.to_json()}".encode()).hexdigest()
        self._lock: int | None = None

    def open(self) -> SearchState | None:
        """The state of an earlier part of this search; None for a new one."""
        if self._folder is None:
            return None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as failed:
            raise InvalidArgument(
                f"'checkpoint' must be a folder that can be made, and {str(self._folder)!r} cannot "
                f"({failed.strerror}). Give another path. Nothing was spent."
            ) from failed
        self._lock = lock_file(self._folder / _LOCK, wait=False)
        if self._lock is None:
            raise InvalidArgument(
                f"'checkpoint' must be a folder that no other process uses, and {str(self._folder)!r} is in "
                f"use. Wait for the other search, or give another folder."
            )
        content = read_whole(self._folder / _STATE)
        if content is None:
            if read_whole(self._folder / _LEDGER) is not None:
                raise Unreadable(
                    f"{str(self._folder)!r} has the ledger of a search without its state, so the search "
                    f"cannot go on. Its ledger counts; give another folder for a new search."
                )
            return None
        return self._read(content)

    def _read(self, content: bytes) -> SearchState:
        try:
            held = torch.load(io.BytesIO(content), weights_only=True)
            mark, fields = held["mark"], held["state"]
            state = SearchState(tuple(fields.pop("draws")), **fields)
        except Exception as failed:  # torch raises what it likes on a damaged file
            raise Unreadable(
                f"The state of the search in {str(self._folder)!r} cannot be read. Its ledger counts; give "
                f"another folder for a new search."
            ) from failed
        if mark != self._mark:
            raise InvalidArgument(
                f"'checkpoint' must be the folder of the same search, and {str(self._folder)!r} has another "
                f"one, with other recipes, models, data or budget. Give another folder. Nothing was spent."
            )
        return state

    def begin(self, state: SearchState) -> None:
        """Write down the whole cost, and then the state, before the first run."""
        if self._folder is not None:
            replace_durably(self._folder / _LEDGER, self._ledger.to_json().encode(), mode=_OWNER)
            self.save(state)

    def save(self, state: SearchState) -> None:
        """Write down the state after a run."""
        if self._folder is None:
            return
        fields = {
            "draws": list(state.draws),
            "done": state.done,
            "place": state.place,
            "score": state.score,
            "weights": state.weights,
        }
        buffer = io.BytesIO()
        torch.save({"mark": self._mark, "state": fields}, buffer)
        replace_durably(self._folder / _STATE, buffer.getvalue(), mode=_OWNER)

    def close(self) -> None:
        """Let other processes in."""
        if self._lock is not None:
            unlock(self._lock)
            self._lock = None
