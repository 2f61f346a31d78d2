"""A report: one or more audited models, and every form in which the report can be saved."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.errors import InvalidArgument
from privet.fingerprints import FingerprintKey
from privet.reporting.content import ReportContent
from privet.reporting.documents.cnil import cnil_document
from privet.reporting.documents.dpia import dpia_page
from privet.reporting.documents.model_card import model_card
from privet.reporting.documents.report_json import document
from privet.reporting.page import page
from privet.reporting.verdicts import verdict

__all__ = ["Report"]

# The form for each ending of a file name; a longer ending stands before the one that it ends in.
_FORMS: dict[str, Callable[[ReportContent], str]] = {
    ".pia.json": cnil_document,
    ".dpia.html": dpia_page,
    ".html": page,
    ".json": document,
    ".md": model_card,
}


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Report(ReportContent):
    """The findings of an audit, for people and for programs.

    ``save`` takes the form from the name: ``.html`` (one page that needs nothing else), ``.json`` (the documented schema), ``.md`` (a
    section for a model card), ``.dpia.html`` and ``.pia.json`` (evidence for an impact assessment).

    ``key`` is the key of the fingerprints of data and models. No form contains it: ``save_key`` writes it to a file of its own,
    which stays with the data.
    """

    key: FingerprintKey | None = None

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        return verdict(self)

    def save(self, path: str | Path) -> Path:
        """Write the report in the form that the ending of the name asks for, all of it or nothing."""
        target = Path(path)
        text = _form(target)(self)
        partial = target.with_name(f".{target.name}.part")
        try:
            partial.write_text(text, encoding="utf-8")
            partial.replace(target)
        except BaseException:
            partial.unlink(missing_ok=True)  # half a report takes room and is of no use
            raise
        return target

    def save_key(self, path: str | Path) -> Path:
        """Write the key of the fingerprints to a file that only its owner can read. A file with another key is not overwritten."""
        if self.key is None:
            raise InvalidArgument("'key' must be there to be saved, and this report has none. Audit again.")
        target = Path(path)
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if FingerprintKey.from_text(target.read_text(encoding="utf-8")) != self.key:
                raise InvalidArgument(
                    f"'path' must be a new file or one with the same key, got {target.name!r} with another key. "
                    f"Choose another name, so that reports under the other key can still be checked."
                ) from None
            return target
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(self.key.to_text())
        except BaseException:
            target.unlink(
                missing_ok=True
            )  # with half a key nothing can be checked, and a later audit would refuse it
            raise
        return target


def _form(path: Path) -> Callable[[ReportContent], str]:
    for ending, form in _FORMS.items():
        if path.name.lower().endswith(ending):
            return form
    raise InvalidArgument(
        f"'path' must end in .html, .json, .md, .dpia.html or .pia.json, got {path.name!r}. "
        f"The ending says which form of the report to write."
    )
