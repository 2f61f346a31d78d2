"""Save a report and its key. If that fails, save them in another folder, so that no audit is lost."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.errors import InvalidArgument
from privet.reporting import Report

__all__ = ["Saved", "save_report"]


@final
@dataclass(frozen=True)
class Saved:
    """Where the report and the key of its fingerprints are, and why, if that is not the requested place."""

    path: Path | None
    key: Path | None = None
    failed: str = ""

    @property
    def sentences(self) -> list[str]:
        """Sentences for the user."""
        sentences = [self.failed] if self.failed else []
        if self.path is not None:
            sentences.append(f"The report is in {self.path}.")
        elif self.failed:
            sentences.append("It could be written nowhere else: keep what is printed here.")
        if self.key is not None:
            sentences.append(
                f"The key of its fingerprints is in {self.key}: keep it with the data, not with the report."
            )
        return sentences


def save_report(report: Report, out: Path | None, key: Path | None = None) -> Saved:
    """Write both. If that fails, write them to another folder, in the same form or as JSON, which is
    smaller.
    """
    try:
        return _write_report(report, out, key)
    except (OSError, MemoryError, InvalidArgument) as failed:
        failure = f"The report could not be written to {out or key} ({_reason(failed)})."
    form = Path("report.json") if out is None else Path(out.name)
    for folder in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
        for name in (form.name, f"{form.name.split('.')[0]}.json"):
            try:
                place = Path(tempfile.mkdtemp(prefix="privet-report-", dir=folder))
            except OSError:
                continue
            try:
                kept = _write_report(report, place / name, None if key is None else place / key.name)
                return Saved(kept.path, kept.key, failure)
            except (OSError, MemoryError):
                shutil.rmtree(place, ignore_errors=True)  # an incomplete report is of no use
    return Saved(None, None, failure)


def _write_report(report: Report, out: Path | None, key: Path | None) -> Saved:
    return Saved(None if out is None else report.save(out), None if key is None else report.save_key(key))


def _reason(failed: OSError | MemoryError | InvalidArgument) -> str:
    if isinstance(failed, InvalidArgument):  # its folder went away meanwhile
        return "its folder is not there"
    if isinstance(failed, MemoryError):
        return "there was not enough memory"
    return failed.strerror or type(failed).__name__
