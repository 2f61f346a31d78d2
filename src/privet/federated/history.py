"""What happened in each round, as the server saw it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

__all__ = ["RoundRecord"]


@final
@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """One round.

    ``asked`` and ``contributors`` are numbers of clients. ``dropped`` were asked and are not in the sum;
    ``refused`` says in one sentence each why a reply was not used (−1 for a node that is no client).
    ``failure`` says why there is no sum at all. ``clip_bound`` is the bound of this round, and ``watched``
    what ``watch`` returned for the model after it.

    *Leaks*: no guarantee covers who took part, who was refused and how long it took. Keep the history at the
    server. ``clip_bound`` is covered by the ledger, and ``watched`` is as public as the data that it used.
    """

    number: int
    asked: int
    contributors: int
    dropped: tuple[int, ...] = ()
    refused: Mapping[int, str] = field(default_factory=dict)
    failure: str = ""
    clip_bound: float | None = None
    seconds: float = 0.0
    watched: float | None = None
