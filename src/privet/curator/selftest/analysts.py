"""Analysts who ask at once, ask again with the same key when nobody answers, and keep what they were told."""

import random
import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

from privet.curator.principals import Principal
from privet.curator.selftest.judging import SeenAnswer
from privet.curator.selftest.sockets import LineClient

__all__ = ["Analysts"]

_PAUSE = 0.02
_TRIES = 400


@final
class Analysts:
    """One thread for each account, until ``stop``."""

    def __init__(self, socket: Path, accounts: Sequence[Principal], *, questions: int) -> None:
        self.seen: list[SeenAnswer] = []
        self.asked = 0
        self.errors: set[tuple[int, str]] = set()  # requests that ended with an error of an unknown kind
        self._client = LineClient(socket)
        self._questions = questions
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, args=(account,), daemon=True) for account in accounts
        ]

    def start(self) -> None:
        """Let them ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let them finish what they asked, or give it up."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def ask(self, account: Principal, number: int, key: str, **fault: int) -> dict[str, object] | None:
        """One request; None if the gateway did not answer. What was answered is kept."""
        request = {"account": account.account, "name": account.name, "number": number, "key": key, **fault}
        try:
            found = self._client.call(request)
        except OSError:
            return None
        with self._lock:
            if found["status"] == "broken":
                self.errors.add((account.account, key))
            if found["status"] == "answered":
                self.seen.append(
                    SeenAnswer(
                        account=account.account,
                        key=key,
                        number=number,
                        record=str(found["record"]),
                        value=int(found["value"]),
                    )
                )
        return found

    def _work(self, account: Principal) -> None:
        chance = random.Random()
        while not self._stopping.is_set():
            number, key = chance.randrange(self._questions), secrets.token_hex(8)
            with self._lock:
                self.asked += 1
            for _ in range(_TRIES):
                found = self.ask(account, number, key)
                if found is not None and found["status"] not in ("unavailable",):
                    break
                if self._stopping.is_set():
                    break
                time.sleep(chance.uniform(_PAUSE, 3 * _PAUSE))
            time.sleep(chance.uniform(0.0, 100 * _PAUSE))
        self._client.close()
