"""The worker's secret: without it, a fingerprint of the data could be compared with a guess of the data."""

import os
import secrets
from contextlib import suppress
from pathlib import Path

from privet.errors import Unreadable

__all__ = ["read_salt"]

_BYTES = 32


def read_salt(steward: Path) -> bytes:
    """The secret beside the steward's file, ``<name>.salt``; made at the first start, for the worker's eyes
    only.

    If it is lost, fingerprints change, and a dataset that must not change waits for its steward.
    """
    path = steward.with_name(steward.name + ".salt")
    with suppress(FileExistsError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
    salt = path.read_bytes()
    if len(salt) != _BYTES:
        raise Unreadable(
            f"The worker's secret {str(path)!r} must have {_BYTES} bytes, and has not. Restore it."
        )
    return salt
