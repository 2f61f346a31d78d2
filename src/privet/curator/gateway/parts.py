"""What a gateway is put together from, and the one way in which its routes call the service."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

from anyio import CapacityLimiter, to_thread
from starlette.requests import HTTPConnection

from privet.curator.accounts import BudgetRequests, Credentials, LoginSessions, ProgramKeys
from privet.curator.accounts.openid import OpenIdLogin
from privet.curator.gateway.rates import RateLimit
from privet.curator.gateway.refusals_http import TOO_MANY, TOO_SLOW, HttpRefusal
from privet.curator.gateway.settings import GatewaySettings
from privet.curator.principals import Principal
from privet.curator.service import CuratorService

__all__ = ["GatewayParts", "StewardActions", "parts_of"]

_THREADS = 32  # calls of the service at one time
_T = TypeVar("_T")


class StewardActions(ABC):
    """What only stewards do, and the chain that keeps what happened."""

    @abstractmethod
    def grant(
        self, who: Principal, dataset: str, analyst: str, *, epsilon: float, delta: float, reason: str
    ) -> None:
        """Set the cap of an analyst. The change is recorded."""

    @abstractmethod
    def verify(self, who: Principal) -> Mapping[str, Any]:
        """Recompute the chain and what was spent; ``chain_ok`` says whether all agree."""

    @abstractmethod
    def note(self, who: Principal | None, kind: str, fields: Mapping[str, str]) -> None:
        """Write an event into the chain: a refused login, a key, a decision. Never a value of the data."""


@final
@dataclass(frozen=True, kw_only=True)
class GatewayParts:
    """Everything that a request may need."""

    service: CuratorService
    actions: StewardActions
    credentials: Credentials
    keys: ProgramKeys
    sessions: LoginSessions
    requests: BudgetRequests
    settings: GatewaySettings
    openid: OpenIdLogin | None = None
    hints: tuple[tuple[str, str], ...] = ()  # name and password of the accounts of a demonstration
    _questions: RateLimit = field(init=False, repr=False)
    _logins: RateLimit = field(init=False, repr=False)
    _threads: list[CapacityLimiter] = field(init=False, repr=False, default_factory=list)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_questions", RateLimit(self.settings.questions_per_minute))
        object.__setattr__(self, "_logins", RateLimit(self.settings.logins_per_minute))

    async def call(self, work: Callable[[], _T]) -> _T:
        """Run a blocking call in a thread, and wait for it no longer than the limit.

        A call that is left behind goes on: what it charges is charged, and its answer is stored.
        """
        if not self._threads:
            self._threads.append(CapacityLimiter(_THREADS))
        try:
            async with asyncio.timeout(self.settings.longest_seconds):
                return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._threads[0])
        except TimeoutError:
            raise HttpRefusal(TOO_SLOW) from None

    def count_question(self, who: Principal) -> None:
        """Refuse an account that asks too often."""
        if not self._questions.take(str(who.account)):
            raise HttpRefusal(TOO_MANY)

    def count_login(self, *callers: str) -> None:
        """Refuse a client, or a name, with too many tries."""
        taken = [self._logins.take(caller) for caller in callers]  # each of them counts
        if not all(taken):
            raise HttpRefusal(TOO_MANY)


def parts_of(connection: HTTPConnection) -> GatewayParts:
    """The parts of the gateway that this request came to."""
    parts: GatewayParts = connection.app.state.parts
    return parts
