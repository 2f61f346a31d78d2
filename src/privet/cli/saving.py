"""A report and its key, written where they were asked for; where that fails, elsewhere, so that no audit is lost."""

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
    """Where the report and the key of its fingerprints are, and why they are not where they were asked for."""

    path: Path | None
    key: Path | None = None
    failed: str = ""

    @property
    def sentences(self) -> list[str]:
        """What to tell of it."""
        told = [self.failed] if self.failed else []
        if self.path is not None:
            told.append(f"The report is in {self.path}.")
        elif self.failed:
            told.append("It could be written nowhere else: keep what is printed here.")
        if self.key is not None:
            told.append(
                f"The key of its fingerprints is in {self.key}: keep it with the data, not with the report."
            )
        return told


def save_report(report: Report, out: Path | None, key: Path | None = None) -> Saved:
    """Write both. Where that fails, they are written elsewhere: in the same form, else as JSON, which is smaller."""
    try:
        return _saved(report, out, key)
    except (OSError, MemoryError, InvalidArgument) as failed:
        told = f"The report could not be written to {out or key} ({_reason(failed)})."
    form = Path("report.json") if out is None else Path(out.name)
    for folder in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
        for name in (form.name, f"{form.name.split('.')[0]}.json"):
            try:
                place = Path(tempfile.mkdtemp(prefix="privet-report-", dir=folder))
            except OSError:
                continue
            try:
                kept = _saved(report, place / name, None if key is None else place / key.name)
                return Saved(kept.path, kept.key, told)
            except (OSError, MemoryError):
                shutil.rmtree(place, ignore_errors=True)  # half of it helps nobody
    return Saved(None, None, told)


def _saved(report: Report, out: Path | None, key: Path | None) -> Saved:
    return Saved(None if out is None else report.save(out), None if key is None else report.save_key(key))


def _reason(failed: OSError | MemoryError | InvalidArgument) -> str:
    if isinstance(failed, InvalidArgument):  # its folder went away meanwhile
        return "its folder is not there"
    if isinstance(failed, MemoryError):
        return "there was not enough memory"
    return failed.strerror or type(failed).__name__
