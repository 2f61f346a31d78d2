"""A report: one or more audited models, and every form in which they are told."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.fingerprints import FingerprintKey
from privet.paths import can_be_named, is_folder, path_from
from privet.reporting.facts import ModelAudit, Origin, Standing

__all__ = ["Report"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """What was found, for people and for programs.

    ``save`` takes the form from the name: ``.html`` (one page that needs nothing else), ``.json`` (the documented schema), ``.md`` (a
    section for a model card), ``.dpia.html`` and ``.pia.json`` (evidence for an impact assessment).

    ``key`` is that of the fingerprints of data and models. It is in none of these forms: ``save_key`` writes it to a file of its own, which
    stays with the data.
    """

    audits: tuple[ModelAudit, ...]
    origin: Origin
    title: str = "Privacy audit"
    key: FingerprintKey | None = None

    def __post_init__(self) -> None:
        if not self.audits:
            raise InvalidArgument("'audits' must hold at least one model, got none. Audit a model first.")
        names = [audit.name for audit in self.audits]
        if len(set(names)) < len(names):
            raise InvalidArgument("'audits' must have names that differ, got one twice. Name each model.")

    @property
    def worst(self) -> ModelAudit:
        """The model that stands worst; between equals, the one that leaks most."""
        order = list(Standing)
        return min(
            self.audits, key=lambda audit: (order.index(audit.standing), -audit.strongest.leakage.auc.value)
        )

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        from privet.reporting.verdicts import verdict

        return verdict(self)

    def save(self, path: str | Path) -> Path:
        """Write the report in the form that the name asks for, all of it or nothing."""
        wanted = _place(path)
        text = _writer(wanted)(self)
        beside = wanted.with_name(f".{wanted.name}.part")
        try:
            # A name may hold half a character, which no file can: it is written by its number.
            beside.write_text(text, encoding="utf-8", errors="backslashreplace")
            beside.replace(wanted)
        except BaseException:
            beside.unlink(missing_ok=True)  # half a report takes room and serves nobody
            raise
        return wanted

    def save_key(self, path: str | Path) -> Path:
        """Write the key of the fingerprints, for its owner alone to read. A file with another key is not written over."""
        if self.key is None:
            raise InvalidArgument("'key' must be there to be saved, and this report has none. Audit again.")
        wanted = _place(path)
        try:
            beside = os.open(wanted, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if FingerprintKey.from_text(wanted.read_text(encoding="utf-8")) != self.key:
                raise InvalidArgument(
                    f"'path' must be a new file or one with the same key, got {wanted.name!r} with another key. "
                    f"Choose another name, so that reports under the other key can still be checked."
                ) from None
            return wanted
        try:
            with os.fdopen(beside, "w", encoding="utf-8") as file:
                file.write(self.key.to_text())
        except BaseException:
            wanted.unlink(
                missing_ok=True
            )  # half a key opens nothing, and a later audit would stumble over it
            raise
        return wanted


def _place(path: str | Path) -> Path:
    wanted = path_from("path", path)
    if (
        not is_folder(wanted.parent)
        or is_folder(wanted)
        or not can_be_named(wanted.with_name(f".{wanted.name}.part"))
    ):
        raise InvalidArgument(
            f"'path' must be a file in a folder that exists, got {shown(str(wanted))}. Make the folder first."
        )
    return wanted


def _writer(path: Path) -> Callable[[Report], str]:
    """Loaded late: a reader of JSON needs no plotting library."""
    name = path.name.lower()
    if name.endswith(".pia.json"):
        from privet.reporting.cnil import cnil_document

        return cnil_document
    if name.endswith(".dpia.html"):
        from privet.reporting.dpia import dpia_page

        return dpia_page
    if name.endswith(".html"):
        from privet.reporting.page import page

        return page
    if name.endswith(".json"):
        from privet.reporting.document import document

        return document
    if name.endswith(".md"):
        from privet.reporting.model_card import model_card

        return model_card
    raise InvalidArgument(
        f"'path' must end in .html, .json, .md, .dpia.html or .pia.json, got {path.name!r}. "
        f"The ending says which form of the report to write."
    )
