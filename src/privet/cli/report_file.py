"""The file of a report, checked before the work begins: a missing folder or package must not cost minutes of
work.
"""

import os
import tempfile
from pathlib import Path

from privet.arguments import format_value
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.fingerprints import FingerprintKey
from privet.paths import can_be_named, is_folder

__all__ = ["key_file", "key_for", "read_key", "report_file"]

_PROBE = 2**16  # bytes that must find room before the work begins


def report_file(name: str) -> Path:
    """The path of ``--out``. Checks that a report can be written there in the format of its ending."""
    path = Path(name)
    if (
        not is_folder(path.parent)
        or is_folder(path)
        or not can_be_named(path.with_name(f".{path.name}.part"))
    ):
        raise InvalidArgument(
            f"'--out' must be a file in a folder that exists, got {format_value(name)}. Make the folder "
            "first."
        )
    if path.suffix.lower() not in (".html", ".json", ".md"):
        raise InvalidArgument(
            f"'--out' must end in .html, .json, .md, .dpia.html or .pia.json, got {name!r}. The ending "
            "says which form."
        )
    if path.name.lower().endswith(".html") and not path.name.lower().endswith(".dpia.html"):
        from privet.reporting.charts.plotting import plotting_script

        plotting_script()  # raises MissingPackage now rather than after the work
    try:
        _try_writing(path.parent)
    except OSError as failed:
        raise InvalidArgument(
            f"'--out' must be a place that can be written, got {name!r} ({failed.strerror}). "
            f"Name another file, or make room."
        ) from None
    return path


def _try_writing(folder: Path) -> None:
    handle, name = tempfile.mkstemp(prefix=".privet-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(bytes(_PROBE))
            file.flush()
            os.fsync(file.fileno())
    finally:
        Path(name).unlink(missing_ok=True)


def key_file(report: Path) -> Path:
    """The default file of the key of a report's fingerprints: beside the report, one for all its formats.

    >>> key_file(Path("a/report.dpia.html")).as_posix()
    'a/report.fingerprints.key'
    """
    stem = report.name
    for ending in (".dpia.html", ".pia.json", ".html", ".json", ".md"):
        if stem.lower().endswith(ending):
            stem = stem[: -len(ending)]
            break
    return report.with_name(f"{stem}.fingerprints.key")


def read_key(path: Path) -> FingerprintKey:
    """The key in a file."""
    try:
        return FingerprintKey.from_text(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as failed:
        if isinstance(failed, PrivetError):
            raise
        raise Unreadable(
            f"{str(path)!r} must be a file with a key of fingerprints, and cannot be read. Check the name."
        ) from None


def key_for(named: str | None, out: Path | None) -> tuple[FingerprintKey, Path | None]:
    """The key for a report and its file. An existing key is used again, so that all formats of a report
    agree.

    Without ``--key`` and without ``--out`` the key is not saved.
    """
    path = Path(named) if named is not None else None if out is None else key_file(out)
    if path is not None and not (is_folder(path.parent) and can_be_named(path)):
        raise InvalidArgument(
            f"'--key' must be a file in a folder that exists, got {format_value(str(path))}. Make the "
            "folder first."
        )
    if path is None or not os.path.lexists(path):
        return FingerprintKey.generate(), path
    return read_key(path), path
