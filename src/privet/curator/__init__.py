"""The trusted curator: analysts ask, are quoted, and are answered within a durable budget.

*What is in it*: ``service``, ``plans`` and ``principals`` are the contracts. ``questions`` reads what is
asked, by metadata alone; ``worker`` has the data; ``storage`` has the budget. ``accounts``, ``gateway`` and
``pages`` are HTTP in front of them, ``serving`` starts all of it, and ``client`` asks from elsewhere.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.curator.client import Client, CuratorFailed
    from privet.curator.client_answers import CuratorAnswers, CuratorDataset, QuestionQuote

__all__ = ["Client", "CuratorAnswers", "CuratorDataset", "CuratorFailed", "QuestionQuote"]

_MODULES = {
    "Client": "client",
    "CuratorFailed": "client",
    "CuratorAnswers": "client_answers",
    "CuratorDataset": "client_answers",
    "QuestionQuote": "client_answers",
}

__getattr__, __dir__ = load_lazily(__name__, _MODULES, needs={"Client": "httpx", "CuratorFailed": "httpx"})

check_public_calls(__name__)
