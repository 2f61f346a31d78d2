"""Logging in through an OpenID Connect provider: the authorisation code flow, with PKCE, state and nonce.

Authlib speaks to the provider and joserfc checks the token. What began in one browser can only end in the
same one, once, and within ten minutes.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, final
from urllib.parse import urlsplit

import httpx
from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped]  # it has no types
from authlib.integrations.httpx_client import OAuth2Client  # type: ignore[import-untyped]  # it has no types
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from sqlalchemy import Engine

from privet.curator.accounts.credentials import OpenIdIdentity
from privet.curator.accounts.secrets_of_login import digest_token, draw_token
from privet.curator.accounts.tables import openid_attempts
from privet.errors import InvalidArgument, PrivetError

__all__ = ["LoginRefused", "OpenIdLogin", "OpenIdSettings"]

_ALGORITHMS = ["RS256", "PS256", "ES256"]  # none, and nothing that is symmetric
_ATTEMPT_SECONDS, _METADATA_SECONDS, _HTTP_SECONDS, _LEEWAY = 600, 3600, 10.0, 60
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@final
@dataclass(frozen=True, kw_only=True)
class OpenIdSettings:
    """An OpenID Connect provider. Its metadata are read at ``issuer``/.well-known/openid-configuration."""

    issuer: str
    client: str
    secret: str = ""
    name: str = "your organisation"

    def __repr__(self) -> str:
        return f"OpenIdSettings(issuer={self.issuer!r}, client={self.client!r}, name={self.name!r})"

    def __post_init__(self) -> None:
        parts = urlsplit(self.issuer)
        if not (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)):
            raise InvalidArgument(
                f"'issuer' must begin with https://, got {self.issuer!r}. Give the provider's address "
                f"with TLS."
            )


@final
class LoginRefused(PrivetError):
    """The provider did not say who it is, or what it said does not hold."""


_REFUSED = "The provider did not confirm the login. Begin again, or log in with a password."


@final
class OpenIdLogin:
    """The two halves of a login: to the provider, and back."""

    def __init__(self, engine: Engine, settings: OpenIdSettings) -> None:
        self._engine, self.settings = engine, settings
        self._lock = Lock()
        self._metadata: tuple[float, Mapping[str, Any], KeySet] | None = None

    def begin(self, *, browser: str, back_to: str) -> str:
        """The address at the provider to which the browser is sent; ``browser`` is its cookie's value."""
        metadata, _ = self._read_metadata()
        nonce, verifier, state, now = (
            draw_token(),
            draw_token() + draw_token(),
            draw_token(),
            int(time.time()),
        )
        with self._client(back_to) as client:
            address, _ = client.create_authorization_url(
                metadata["authorization_endpoint"], state=state, nonce=nonce, code_verifier=verifier
            )
        with self._engine.begin() as connection:
            connection.execute(
                openid_attempts.delete().where(openid_attempts.c.created_at < now - _ATTEMPT_SECONDS)
            )
            connection.execute(
                openid_attempts.insert().values(
                    digest=digest_token(state),
                    browser=digest_token(browser),
                    nonce=nonce,
                    verifier=verifier,
                    created_at=now,
                )
            )
        return str(address)

    def finish(self, *, browser: str, back_to: str, state: str, code: str) -> OpenIdIdentity:
        """Who came back. ``LoginRefused`` if anything does not fit, in one sentence whatever it is."""
        with self._engine.begin() as connection:  # an attempt is used up, whatever becomes of it
            row = connection.execute(
                openid_attempts.delete()
                .where(openid_attempts.c.digest == digest_token(state))
                .returning(openid_attempts)
            ).first()
        if (
            row is None
            or row.browser != digest_token(browser)
            or row.created_at < time.time() - _ATTEMPT_SECONDS
        ):
            raise LoginRefused(_REFUSED)
        metadata, _ = self._read_metadata()
        try:
            with self._client(back_to) as client:
                token = client.fetch_token(
                    metadata["token_endpoint"],
                    code=code,
                    code_verifier=row.verifier,
                    grant_type="authorization_code",
                )
            claims = self._check_token(str(token["id_token"]), row.nonce)
        except (AuthlibBaseError, JoseError, httpx.HTTPError, KeyError, TypeError, ValueError):
            raise LoginRefused(_REFUSED) from None
        email = claims.get("email") if claims.get("email_verified") is True else None
        return OpenIdIdentity(
            issuer=self.settings.issuer,
            subject=str(claims["sub"]),
            email=email if isinstance(email, str) else None,
        )

    def _client(self, back_to: str) -> Any:  # noqa: ANN401  # authlib has no types
        return OAuth2Client(
            self.settings.client,
            self.settings.secret or None,
            token_endpoint_auth_method="client_secret_basic" if self.settings.secret else "none",
            scope="openid email",
            redirect_uri=back_to,
            code_challenge_method="S256",
            timeout=_HTTP_SECONDS,
        )

    def _check_token(self, token: str, nonce: str) -> Mapping[str, Any]:
        """The claims of an ID token, by OpenID Connect Core 1.0, section 3.1.3.7."""
        _, keys = self._read_metadata()
        try:
            decoded = jwt.decode(token, keys, algorithms=_ALGORITHMS)
        except (JoseError, ValueError):  # the provider may have new keys
            _, keys = self._read_metadata(fresh=True)
            decoded = jwt.decode(token, keys, algorithms=_ALGORITHMS)
        rules = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY,
            iss={"essential": True, "value": self.settings.issuer},
            aud={"essential": True, "value": self.settings.client},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        rules.validate(decoded.claims)
        audience = decoded.claims["aud"]
        if (
            isinstance(audience, list)
            and len(audience) > 1
            and decoded.claims.get("azp") != self.settings.client
        ):
            raise LoginRefused(_REFUSED)
        return dict(decoded.claims)

    def _read_metadata(self, *, fresh: bool = False) -> tuple[Mapping[str, Any], KeySet]:
        with self._lock:
            now = time.monotonic()
            if self._metadata is None or fresh or now - self._metadata[0] > _METADATA_SECONDS:
                try:
                    with httpx.Client(timeout=_HTTP_SECONDS) as http:
                        where = f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration"
                        document = http.get(where).raise_for_status().json()
                        if document["issuer"] != self.settings.issuer:
                            raise LoginRefused(_REFUSED)
                        keys = http.get(document["jwks_uri"]).raise_for_status().json()
                    self._metadata = (now, document, KeySet.import_key_set(keys))
                except (httpx.HTTPError, JoseError, KeyError, TypeError, ValueError):
                    raise LoginRefused(_REFUSED) from None
            return self._metadata[1], self._metadata[2]
