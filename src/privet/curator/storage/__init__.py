"""The curator's durable budget: one database, one protocol, one chain of hashes.

*What is in it*: ``database`` (durable transactions), ``tables`` and ``migrations/`` (their shape), ``units``
and ``rules`` (privacy in whole numbers, by filters), ``caps``, ``reservations`` and ``settlements`` (the two
transactions of an answer), ``chain`` and ``heads`` (what was committed, and how a restored backup is
noticed), ``contents`` (whose data a budget is for), ``stewardship`` (what people decide),
``database_curator`` (the curator over all of these), ``verification`` and ``evidence``.

docs/curator-protocol.md has the protocol, and the proof that what is spent is at least what was answered.
"""

from privet.curator.storage.accounts import AccountCard
from privet.curator.storage.database import Database, open_engine
from privet.curator.storage.database_curator import DatabaseCurator, open_database
from privet.curator.storage.heads import HeadExport, HeadFile, HeadStream, NoHeadExport
from privet.curator.storage.stewardship import Stewardship

__all__ = [
    "AccountCard",
    "Database",
    "DatabaseCurator",
    "HeadExport",
    "HeadFile",
    "HeadStream",
    "NoHeadExport",
    "Stewardship",
    "open_database",
    "open_engine",
]
