"""Asking a curator from Python: ``Client("https://…", key=…)``.

A question is quoted, then asked. The answers are the same objects that ``privet.release`` gives. A call
that breaks off is tried again with the same idempotency key, so it is charged at most once.
"""

import math
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Self, final
from urllib.parse import quote as escape_path
from urllib.parse import urlsplit

import httpx

from privet.curator.client_answers import CuratorAnswers, CuratorDataset, QuestionQuote
from privet.errors import BudgetExceeded, InvalidArgument, PrivetError

__all__ = ["Client", "CuratorFailed"]

_TRIES, _TRIES_OF_ASK, _FIRST_WAIT, _LONGEST_WAIT = 6, 10, 0.5, 15.0
_LATER = (429, 502, 503, 504)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@final
class CuratorFailed(PrivetError):
    """The curator did not answer, or not as a curator does. What it charged, it has not forgotten."""


@final
class Client:
    """A curator over HTTP, for the account of a key.

    The key is ``key``, or else the environment variable ``PRIVET_CURATOR_KEY``. It is sent over TLS, or to
    this machine.
    """

    def __init__(
        self, address: str, *, key: str | None = None, dataset: str | None = None, seconds: float = 180.0
    ) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"'address' must begin with https://, got {address!r}. Write https://host.")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise InvalidArgument(
                f"'address' must begin with https:// for another machine, got {address!r}. A key must "
                f"not travel "
                "unencrypted: switch TLS on."
            )
        found = os.environ.get("PRIVET_CURATOR_KEY", "") if key is None else key
        if not found:
            raise InvalidArgument(
                "'key' must be a key of your account, got none. Make one on the page Account, and set "
                "PRIVET_CURATOR_KEY."
            )
        self.address, self._dataset = address.rstrip("/"), dataset
        self._http = httpx.Client(
            base_url=f"{self.address}/api/v1",
            headers={"authorization": f"Bearer {found}"},
            timeout=httpx.Timeout(seconds, connect=10.0),
            trust_env=parts.scheme == "https",  # no proxy between this machine and itself
        )

    def __repr__(self) -> str:
        return f"Client({self.address!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def datasets(self) -> "DatasetList":
        """The datasets that this account may ask."""
        return DatasetList(CuratorDataset(plain=one) for one in self._get("/datasets")["datasets"])

    def quote(
        self,
        question: Mapping[str, Any] | str,
        *,
        dataset: str | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> QuestionQuote:
        """What a question would cost, and how exact its answers would be. Nothing is spent.

        ``question`` is the JSON form, or a SELECT as text with its ``epsilon``.
        """
        body = {"question": _question(question, epsilon, delta)}
        return QuestionQuote(plain=self._post(f"{self._path(dataset)}/quote", body))

    def ask(
        self,
        question: Mapping[str, Any] | str,
        *,
        dataset: str | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        idempotency_key: str | None = None,
    ) -> CuratorAnswers:
        """Charge and answer. ``result["label"]`` is an ``Answer``, as ``privet.release`` gives it.

        With your own ``idempotency_key`` a program that was ended may ask again, and is charged once.
        """
        key = secrets.token_urlsafe(24) if idempotency_key is None else idempotency_key
        body = {"question": _question(question, epsilon, delta)}
        record = self._post(f"{self._path(dataset)}/ask", body, {"idempotency-key": key})
        return self._wait(CuratorAnswers(plain=record))

    def record(self, record_id: str) -> CuratorAnswers:
        """One record of the history."""
        return CuratorAnswers(plain=self._get(f"/records/{_escape(record_id)}"))

    def history(self, *, dataset: str | None = None, limit: int = 50) -> tuple[CuratorAnswers, ...]:
        """What this account asked, the newest first."""
        words = {"limit": str(limit)} | ({} if dataset is None else {"dataset": dataset})
        return tuple(CuratorAnswers(plain=one) for one in self._get("/records", words)["records"])

    def request_budget(self, *, epsilon: float, reason: str, dataset: str | None = None) -> None:
        """Ask a steward for a cap of this ε."""
        self._post(f"{self._path(dataset)}/requests", {"epsilon": epsilon, "reason": reason})

    def _path(self, dataset: str | None) -> str:
        name = dataset or self._dataset
        if name is None:
            names = [one.name for one in self.datasets()]
            if len(names) != 1:
                raise InvalidArgument(
                    f"'dataset' must be one of {', '.join(map(repr, names)) or 'none'}, got none. Name it."
                )
            self._dataset = name = names[0]
        return f"/datasets/{_escape(name)}"

    def _wait(self, asked: CuratorAnswers) -> CuratorAnswers:
        """A question that another call is answering now is looked up until it is answered."""
        wait = _FIRST_WAIT
        for _ in range(_TRIES):
            if asked.status != "reserved":
                break
            time.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)
            asked = self.record(asked.id)
        return asked

    def _get(self, path: str, words: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._send("GET", path, params=words)

    def _post(
        self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return self._send("POST", path, body=body, headers=headers)

    def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send, and try again where that is safe: every call may be repeated, an ask by its key."""
        may_repeat = not path.endswith("/requests")
        for wait in _waits(_TRIES_OF_ASK if path.endswith("/ask") else _TRIES):
            is_last = wait is None or not may_repeat
            try:
                response = self._http.request(method, path, params=params, json=body, headers=headers)
            except httpx.TransportError as broken:
                if is_last:
                    raise CuratorFailed(
                        f"The curator at {self.address} must be reachable, and is not "
                        f"({type(broken).__name__}). "
                        "Check the address, and ask again."
                    ) from None
            else:
                if response.status_code not in _LATER or is_last:
                    return _read(response)
            time.sleep(0.0 if wait is None else wait)
        raise AssertionError("the last try returns or raises")


@final
class DatasetList(tuple[CuratorDataset, ...]):
    """Datasets, shown as a table in a notebook."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(one.name)}</th><td "
            f"style='text-align:left'>{escape(one.description)}</td>"
            f"<td>{one.remaining:.3g}</td></tr>"
            for one in self
        )
        return (
            "<table><thead><tr><th>dataset</th><th>what it is</th><th>ε left</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


def _question(
    question: Mapping[str, Any] | str, epsilon: float | None, delta: float | None
) -> dict[str, Any]:
    plain: dict[str, Any] = {"sql": question} if isinstance(question, str) else dict(question)
    plain.setdefault("version", 1)
    for name, value in (("epsilon", epsilon), ("delta", delta)):
        if value is not None:
            if not math.isfinite(value):
                raise InvalidArgument(f"{name!r} must be finite, got {value}. Write 0.1, say.")
            plain[name] = value
    return plain


def _read(response: httpx.Response) -> dict[str, Any]:
    try:
        plain = response.json()
    except ValueError:
        plain = None
    if response.is_success and isinstance(plain, dict):
        return plain
    error = plain.get("error") if isinstance(plain, dict) else None
    if not isinstance(error, dict) or not {"code", "message"} <= error.keys():
        raise CuratorFailed(
            f"A curator must answer in JSON, got status {response.status_code} of something else. Check "
            f"the address."
        )
    if error["code"] == "budget_exceeded":
        raise BudgetExceeded(str(error["message"]))
    if response.status_code in (401, 403, 404, 408, 413, 422):
        raise InvalidArgument(str(error["message"]))
    raise CuratorFailed(str(error["message"]))


def _waits(tries: int) -> Iterator[float | None]:
    """Seconds before each next try; None for the last one. Random, so that many clients do not come at
    once.
    """
    wait = _FIRST_WAIT
    for _ in range(tries - 1):
        yield wait * (0.5 + secrets.randbelow(1000) / 1000)
        wait = min(2 * wait, _LONGEST_WAIT)
    yield None


def _escape(name: str) -> str:
    return escape_path(name, safe="")
