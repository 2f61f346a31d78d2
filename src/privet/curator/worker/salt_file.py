"""The worker's secret: without it, a fingerprint of the data could be compared with a guess of the data."""

import secrets
from contextlib import suppress
from pathlib import Path

from privet.durable_files import ChangedMeanwhile, read_whole, replace_durably
from privet.errors import Unreadable

__all__ = ["read_salt"]

_BYTES = 32


def read_salt(steward: Path) -> bytes:
    """The secret beside the steward's file, ``<name>.salt``; made at the first start, for the worker's eyes
    only.

    If it is lost, fingerprints change, and a dataset that must not change waits for its steward.
    """
    path = steward.with_name(steward.name + ".salt")
    salt = read_whole(path)
    if salt is None:
        with suppress(ChangedMeanwhile):  # another start was first
            replace_durably(path, secrets.token_bytes(_BYTES), expected=None, mode=0o600)
        salt = read_whole(path)
    if salt is None or len(salt) != _BYTES:
        raise Unreadable(
            f"The worker's secret {str(path)!r} must have {_BYTES} bytes, and has not. Restore it."
        )
    return salt
