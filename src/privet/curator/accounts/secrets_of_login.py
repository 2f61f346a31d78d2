"""Passwords, keys and tokens: how they are drawn, hashed and compared.

Passwords and keys are hashed with argon2id, so that a stolen database does not give them away. The value of
a cookie has 256 random bits, so one SHA-256 is enough, and every request can afford it.
"""

import secrets
from hashlib import sha256

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from privet.errors import InvalidArgument

__all__ = ["check_password", "check_secret", "digest_token", "draw_password", "draw_token", "hash_secret"]

_HASHER = PasswordHasher(
    time_cost=2, memory_cost=19 * 1024, parallelism=1
)  # OWASP's first choice for argon2id
_NOBODY = _HASHER.hash(secrets.token_urlsafe(16))
_SHORTEST, _LONGEST = 12, 200


def draw_token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(32)


def draw_password() -> str:
    """A password of 96 random bits, in four parts that can be typed."""
    word = secrets.token_hex(12)
    return "-".join(word[place : place + 6] for place in range(0, 24, 6))


def digest_token(token: str) -> str:
    """What the database keeps of a token."""
    return sha256(token.encode()).hexdigest()


def hash_secret(secret: str) -> str:
    """The argon2id hash of a password or key."""
    return _HASHER.hash(secret)


def check_secret(stored: str | None, secret: str) -> bool:
    """Whether the secret is the one that was hashed. Without a hash it takes as long, and says no."""
    try:
        return _HASHER.verify(_NOBODY if stored is None else stored, secret) and stored is not None
    except (VerificationError, InvalidHashError):
        return False


def check_password(password: str) -> str:
    """The password, if it is one that may be set."""
    if not _SHORTEST <= len(password) <= _LONGEST:
        raise InvalidArgument(
            f"A password must have {_SHORTEST} to {_LONGEST} characters, got {len(password)}. Choose another."
        )
    return password
