"""Fingerprints: hashes of the model, data, ledger and code of a report, so that others can check that they
have the same.

A fingerprint is 64 hexadecimal digits: SHA-256 of a thing in the canonical form below, or HMAC-SHA256 of it
under a key.

*Why a key.* A plain hash confirms guesses of the data: somebody who knows all records of a table except one
can try every value of that record, so the report would break differential privacy. A model that was trained
without noise, or that holds records (nearest neighbours, support vectors), confirms guesses of its data in
the same way. So fingerprints of data, scores and models use a key of 32 random bytes that stays with the
owner of the data. Without the key they tell nothing, under the usual assumption that HMAC-SHA256 is a
pseudorandom function. A published model may have a plain fingerprint. Ledgers and code are plain: the ledger
is in the report, and the code is public.

*What they are not.* A fingerprint identifies; it does not sign. The author of a report can write any
fingerprint into it.

*Canonical forms.* Each begins with one line, ``privet fingerprint 1: KIND``. Then:

- ``records``: the hash of every record by value, sorted (``privet.record_hashes``), with its group where
  there is one. The order of records and the types of their numbers do not matter.
- ``scores``: the scores in the same form.
- ``parameters``: SHA-256 of a state dict, each tensor by its name in sorted order: name, type, shape, and
  bytes in little-endian order.
- ``object``: any other model, the 64 digits of ``privet.attacks.shadows.fingerprints`` over all its parts.
- ``ledger``: its JSON with sorted keys and no spaces.
- ``code``: SHA-256 of every file of the package by its path in sorted order: path, length and bytes.
"""

import hashlib
import hmac
import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, final

import numpy as np

from privet.errors import Unreadable
from privet.ledger import Ledger
from privet.public_calls import check_public_calls
from privet.record_hashes import combine_hashes, hash_records
from privet.scores import Records
from privet.views import Numbers

__all__ = [
    "Fingerprint",
    "FingerprintKey",
    "Fingerprints",
    "Hashing",
    "code_fingerprint",
    "ledger_document_fingerprint",
    "ledger_fingerprint",
    "package_versions",
    "records_content",
    "scores_content",
    "take_fingerprint",
]

_KEY_FORMAT = "privet-fingerprint-key-1"
_KEY_BYTES = 32
_PACKAGES = ("numpy", "scipy", "torch", "scikit-learn")


@final
class Hashing(StrEnum):
    """Whether a fingerprint is plain or keyed."""

    PLAIN = "sha256"
    KEYED = "hmac-sha256"


@final
@dataclass(frozen=True)
class Fingerprint:
    """64 hexadecimal digits, and whether they are plain or keyed."""

    hashing: Hashing
    digest: str

    def __str__(self) -> str:
        return f"{self.hashing}:{self.digest}"


@final
@dataclass(frozen=True)
class FingerprintKey:
    """A secret that stays with the owner of the data. No form of a report contains it.

    ``name`` is public: it distinguishes keys and says nothing about the secret.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != _KEY_BYTES:
            raise Unreadable(
                f"A key of fingerprints must have {_KEY_BYTES} bytes, and this one has {len(self.secret)}. "
                f"Give the file that was written beside the report."
            )

    @classmethod
    def generate(cls) -> "FingerprintKey":
        """A new key from the entropy of the operating system."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    @property
    def name(self) -> str:
        """16 hexadecimal digits."""
        return hmac.new(self.secret, b"privet name of a key", hashlib.sha256).hexdigest()[:16]

    def to_text(self) -> str:
        """One line, for a file that stays with the data."""
        return f"{_KEY_FORMAT} {self.secret.hex()}\n"

    @staticmethod
    def from_text(text: str) -> "FingerprintKey":
        """The key of such a line."""
        words = text.split()
        try:
            if len(words) != 2 or words[0] != _KEY_FORMAT:
                raise ValueError
            return FingerprintKey(bytes.fromhex(words[1]))
        except ValueError:
            raise Unreadable(
                f"A file with a key of fingerprints must hold one line, {_KEY_FORMAT} and {2 * _KEY_BYTES} "
                f"hexadecimal digits, and does not. Give the file that was written beside the report."
            ) from None


@final
@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """The fingerprints of one audit; None for a part that was not there, or could not be hashed.

    ``data`` says what members and others are: ``records``, or ``scores`` where the attack ran elsewhere.
    ``key`` is the name of the key.
    """

    key: str
    data: str = "records"
    model: Fingerprint | None = None
    members: Fingerprint | None = None
    nonmembers: Fingerprint | None = None
    ledger: Fingerprint | None = None


def take_fingerprint(kind: str, content: bytes, key: FingerprintKey | None) -> Fingerprint:
    """The fingerprint of content in canonical form: keyed, or plain without a key.

    >>> take_fingerprint("ledger", b"{}", None).digest[:16]
    '8dcf8c4acc5deb86'
    """
    whole = f"privet fingerprint 1: {kind}\n".encode(errors="surrogatepass") + content
    if key is None:
        return Fingerprint(Hashing.PLAIN, hashlib.sha256(whole).hexdigest())
    return Fingerprint(Hashing.KEYED, hmac.new(key.secret, whole, hashlib.sha256).hexdigest())


def records_content(records: Records) -> bytes:
    """Records in canonical form: one hash of all of them, in any order."""
    if records.groups is None:
        return combine_hashes(records.hashes).encode()
    groups = [
        hashlib.sha256(group.encode(errors="surrogatepass")).hexdigest().encode()
        for group in records.groups.tolist()
    ]
    return combine_hashes(
        np.array([*map(b"".join, zip(records.hashes.tolist(), groups, strict=True))])
    ).encode()


def scores_content(values: Numbers) -> bytes:
    """Scores in canonical form: one hash of all of them, in any order."""
    return combine_hashes(hash_records(values)).encode()


def ledger_fingerprint(ledger: Ledger) -> Fingerprint:
    """The fingerprint of a ledger, always plain."""
    return ledger_document_fingerprint(json.loads(ledger.to_json()))


def ledger_document_fingerprint(document: Mapping[str, Any]) -> Fingerprint:
    """The fingerprint of a ledger in a document, which another version may have written."""
    try:
        text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return take_fingerprint("ledger", text.encode(), None)
    except (TypeError, ValueError, RecursionError):  # also a lone surrogate, which UTF-8 cannot hold
        raise Unreadable(
            "A ledger must be a JSON document, and is not. Give it as it stands in its file."
        ) from None


@cache
def code_fingerprint() -> Fingerprint:
    """The fingerprint of the installed code of this package, always plain."""
    digest = hashlib.sha256()
    for path, content in sorted(_sources(files("privet"), "")):
        digest.update(f"{path}\n{len(content)}\n".encode() + content)
    return take_fingerprint("code", digest.hexdigest().encode(), None)


def package_versions() -> dict[str, str]:
    """The versions of Python and of installed packages that figures depend on."""
    versions = {"python": sys.version.split()[0]}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _sources(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    for part in folder.iterdir():
        name = f"{path}{part.name}"
        if part.is_dir():
            if part.name != "__pycache__":
                yield from _sources(part, f"{name}/")
        else:
            yield name, part.read_bytes()


check_public_calls(__name__)
