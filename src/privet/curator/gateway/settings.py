"""How the gateway listens, and what it takes. The defaults are safe: loopback only, until TLS or a proxy is
named.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, final

from privet.curator.accounts.openid import OpenIdSettings
from privet.errors import InvalidArgument, Unreadable

__all__ = ["GatewaySettings", "read_gateway_settings", "read_secret"]


@final
@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """Where the gateway listens and what it takes.

    ``proxies`` are the addresses of proxies that end TLS and whose X-Forwarded headers are believed.
    ``hosts`` are the names under which browsers reach the curator; other names are refused, against DNS
    rebinding.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    private_key: Path | None = None
    proxies: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    largest_body: int = 64 * 1024
    longest_seconds: float = 120.0
    questions_per_minute: int = 120
    logins_per_minute: int = 10
    requests_per_minute: int = 600  # from one address, before anybody is asked who they are
    openid: OpenIdSettings | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise InvalidArgument(
                "'certificate' and 'private_key' must be given together, got one. Give both files, or none."
            )
        if not _is_loopback(self.host) and not self.is_encrypted:
            raise InvalidArgument(
                f"'host' must be a loopback address without TLS, got {self.host!r}. Give 'certificate' and "
                "'private_key', or name the proxy that ends TLS in 'proxies'."
            )
        if not _is_loopback(self.host) and not self.hosts:
            raise InvalidArgument(
                "'hosts' must name the addresses under which browsers reach the curator, got none. Write "
                'hosts = ["curator.example.org"].'
            )
        for name in (
            *("largest_body", "longest_seconds", "questions_per_minute", "logins_per_minute"),
            "requests_per_minute",
        ):
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name!r} must be above 0, got {getattr(self, name)}. Leave it out.")

    @property
    def is_encrypted(self) -> bool:
        """Whether browsers reach the curator by TLS only."""
        return self.certificate is not None or bool(self.proxies)

    @property
    def known_hosts(self) -> frozenset[str]:
        """The names in a Host header that are served."""
        own = {"127.0.0.1", "localhost", "::1"} if _is_loopback(self.host) else set()
        return frozenset(own | {host.lower() for host in self.hosts})

    @property
    def address(self) -> str:
        """Where a browser finds the curator."""
        name = self.hosts[0] if self.hosts else f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self.is_encrypted else "http"
        return f"{scheme}://{name}" if self.proxies else f"{scheme}://{name}:{self.port}"


def read_gateway_settings(
    document: Mapping[str, Any], *, environment: Mapping[str, str] = os.environ
) -> GatewaySettings:
    """The sections [gateway] and [openid] of ``steward.toml``."""
    values = _read_known(document.get("gateway", {}), "gateway", GatewaySettings, without=("openid",))
    for name in ("certificate", "private_key"):
        if name in values:
            values[name] = Path(values[name])
    for name in ("proxies", "hosts"):
        if name in values:
            values[name] = tuple(str(part) for part in values[name])
    openid = None
    if "openid" in document:
        section = dict(document["openid"])
        secret = read_secret(
            "PRIVET_OPENID_SECRET", section.pop("secret_file", None), environment=environment
        )
        named = _read_known(section, "openid", OpenIdSettings, without=("secret",))
        if not {"issuer", "client"} <= named.keys():
            raise InvalidArgument(
                "[openid] of steward.toml must have 'issuer' and 'client', and one is missing. Add it."
            )
        openid = OpenIdSettings(**named, secret=secret)
    return GatewaySettings(**values, openid=openid)


def read_secret(name: str, file: object, *, environment: Mapping[str, str] = os.environ) -> str:
    """A secret from its file, or else from the environment; "" if neither is there.

    A secret never stands in ``steward.toml`` itself, which is shown around and kept with the code.
    """
    if file is None:
        return environment.get(name, "")
    try:
        path = Path(str(file))
        if path.stat().st_mode & 0o077:
            raise InvalidArgument(
                f"{str(path)!r} must be readable by its owner only, and others can read it. Run chmod "
                f"600 on it."
            )
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise Unreadable(
            f"{str(file)!r} must be a file with a secret, and cannot be read. Check it."
        ) from None


def _read_known(section: object, name: str, of: type, *, without: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(section, Mapping):
        raise InvalidArgument(f"[{name}] of steward.toml must be a section, and is not. Write [{name}].")
    known = {field.name: field.type for field in fields(of) if field.name not in without}
    for key, value in section.items():
        if key not in known:
            raise InvalidArgument(
                f"[{name}] of steward.toml must have only {', '.join(known)}, got {key!r}. Take it out."
            )
        if not _fits(value, str(known[key])):
            raise InvalidArgument(
                f"{key!r} in [{name}] of steward.toml must be of another type, got {value!r}. Read "
                f"docs/curator.md."
            )
    return dict(section)


def _fits(value: object, hint: str) -> bool:
    if "tuple" in hint:
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if "int" in hint:
        return isinstance(value, int) and not isinstance(value, bool)
    if "float" in hint:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
