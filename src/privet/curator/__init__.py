"""The trusted curator: analysts ask, are quoted, and are answered within a durable budget.

*What is in it*: ``service``, ``plans`` and ``principals`` are the contracts. ``questions`` reads what is
asked, by metadata alone; ``worker`` has the data; ``storage`` has the budget. ``accounts``, ``gateway`` and
``pages`` are HTTP in front of them, ``serving`` starts all of it, and ``client`` asks from elsewhere.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily

if TYPE_CHECKING:
    from privet.curator.client import Client, CuratorFailed

__all__ = ["Client", "CuratorFailed"]

_MODULES = {"Client": "client", "CuratorFailed": "client"}

__getattr__, __dir__ = load_lazily(__name__, _MODULES, needs={"Client": "httpx", "CuratorFailed": "httpx"})
