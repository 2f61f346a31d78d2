"""Who may come in: passwords, keys of programs, sessions, OpenID Connect, and requests for more budget.

An account itself (its number, name and role) belongs to the ledger's database; ``directory`` looks it up.
Here is only what shows that somebody is that account. Nothing here is about the data.
"""

from privet.curator.accounts.credentials import Credentials, OpenIdIdentity
from privet.curator.accounts.database import open_accounts
from privet.curator.accounts.directory import AccountDirectory
from privet.curator.accounts.program_keys import KeyCard, ProgramKeys
from privet.curator.accounts.requests import BudgetRequest, BudgetRequests
from privet.curator.accounts.sessions import LoginSession, LoginSessions

__all__ = [
    "AccountDirectory",
    "BudgetRequest",
    "BudgetRequests",
    "Credentials",
    "KeyCard",
    "LoginSession",
    "LoginSessions",
    "OpenIdIdentity",
    "ProgramKeys",
    "open_accounts",
]
