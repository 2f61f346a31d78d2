"""The tables of those who log in. Times are whole seconds since 1970, in UTC.

An account is named by its number, without a foreign key: the table of accounts may be in another file.
No table holds a password, a key or the value of a cookie, only their hashes.
"""

from sqlalchemy import Boolean, Column, Float, Integer, MetaData, String, Table, UniqueConstraint

__all__ = ["METADATA", "api_keys", "budget_requests", "credentials", "openid_attempts", "sessions"]

METADATA = MetaData()

credentials = Table(
    "credentials",
    METADATA,
    Column("account", Integer, primary_key=True, autoincrement=False),
    Column("password", String(256)),  # argon2id, or none: then by OpenID Connect or key only
    Column("email", String(320), unique=True),  # who may claim this account by OpenID Connect
    Column("issuer", String(512)),
    Column("subject", String(255)),
    Column("disabled", Boolean, nullable=False),
    UniqueConstraint("issuer", "subject"),
)

api_keys = Table(
    "api_keys",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("account", Integer, nullable=False, index=True),
    Column("hash", String(256), nullable=False),  # argon2id
    Column("label", String(100), nullable=False),
    Column("created_at", Integer, nullable=False),
    Column("expires_at", Integer),
    Column("revoked_at", Integer),
)

sessions = Table(
    "login_sessions",
    METADATA,
    Column("digest", String(64), primary_key=True),  # SHA-256 of the cookie, which has 256 random bits
    Column("account", Integer, nullable=False, index=True),
    Column("csrf", String(64), nullable=False),
    Column("created_at", Integer, nullable=False),
    Column("seen_at", Integer, nullable=False),
)

openid_attempts = Table(
    "openid_attempts",
    METADATA,
    Column("digest", String(64), primary_key=True),  # SHA-256 of the state
    Column("browser", String(64), nullable=False),  # SHA-256 of the cookie that began it
    Column("nonce", String(64), nullable=False),
    Column("verifier", String(128), nullable=False),
    Column("created_at", Integer, nullable=False),
)

budget_requests = Table(
    "budget_requests",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("account", Integer, nullable=False),
    Column("analyst", String(200), nullable=False),
    Column("dataset", String(200), nullable=False),
    Column("epsilon", Float, nullable=False),  # the cap that is asked for
    Column("reason", String(1000), nullable=False),
    Column("asked_at", Integer, nullable=False),
    Column("decided_at", Integer),
    Column("decided_by", String(200)),
    Column("granted", Boolean),
)
