"""A report: one or more audited models, and every form in which the report can be saved."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent
from typing import Any, final

from privet.data_frames import to_data_frame
from privet.errors import InvalidArgument
from privet.fingerprints import FingerprintKey
from privet.reporting.content import ReportContent
from privet.reporting.documents.cnil import cnil_document
from privet.reporting.documents.dpia import dpia_page
from privet.reporting.documents.model_card import model_card
from privet.reporting.documents.report_json import document
from privet.reporting.facts import Origin
from privet.reporting.notebook import notebook_summary
from privet.reporting.page import page
from privet.reporting.report_files import check_target, write_whole
from privet.reporting.verdicts import verdict

__all__ = ["Report"]

_SHOWN = 3  # models in the text of a report on one line

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

    ``save`` takes the form from the name: ``.html`` (one page that needs nothing else), ``.json`` (the
    documented schema), ``.md`` (a section for a model card), ``.dpia.html`` and ``.pia.json`` (evidence for
    an impact assessment).

    ``key`` is the key of the fingerprints of data and models. No form contains it: ``save_key`` writes it to
    a file of its own, which stays with the data.
    """

    key: FingerprintKey | None = None

    @classmethod
    def of(cls, *reports: "Report", title: str | None = None) -> "Report":
        """One report on the models of several reports, whose names must differ.

        Where the reports have different keys, the joint report has none: save the key of each report with
        that report. To have one key for all, give the same ``key`` to each audit. Reports with comparisons
        must have the same one.
        """
        if not reports:
            raise InvalidArgument("'reports' must hold at least one report, got none. Audit a model first.")
        keys = {None if report.key is None else report.key.secret: report.key for report in reports}
        comparisons = {id(report.comparison): report.comparison for report in reports if report.comparison}
        if len(comparisons) > 1:
            raise InvalidArgument(
                f"'reports' must share one comparison of defences, got {len(comparisons)} different ones. "
                "Audit all models with the same comparison, or save the reports one by one."
            )
        return cls(
            audits=[audit for report in reports for audit in report.audits],
            origin=_join_origins([report.origin for report in reports]),
            title=reports[0].title if title is None else title,
            key=next(iter(keys.values())) if len(keys) == 1 else None,
            comparison=next(iter(comparisons.values()), None),
        )

    def __repr__(self) -> str:
        models = "; ".join(f"{audit.name!r} {audit.standing}" for audit in self.audits[:_SHOWN])
        more = f"; and {len(self.audits) - _SHOWN} more" if len(self.audits) > _SHOWN else ""
        return f"Report({self.title!r}: {models}{more})"

    def _repr_html_(self) -> str:
        """The verdict and a table of all attacks, for a notebook."""
        return notebook_summary(self)

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """A data frame with one row for each model and attack."""
        return to_data_frame(row for audit in self.audits for row in audit.rows())

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        return verdict(self)

    def save(self, path: str | Path, *, exhibits: bool = False) -> Path:
        """Write the report in the form that the ending of the name asks for, all of it or nothing.

        ``exhibits=True`` shows what attacks recovered beside the truth, in .html, .json and .md. These are
        private data, and the report says so: keep the file as confidential as the data.
        """
        target = check_target(path)
        text = _form(target)(replace(self, exhibits=self.exhibits or exhibits))
        return write_whole(target, text)

    def save_key(self, path: str | Path) -> Path:
        """Write the key of the fingerprints to a file that only its owner can read.

        A file with another key is not overwritten.
        """
        if self.key is None:
            raise InvalidArgument(
                "'key' must be there to be saved, and this report has none. Save the keys of the reports "
                "that it was made of, or audit again."
            )
        target = check_target(path)
        try:
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            if FingerprintKey.from_text(target.read_text(encoding="utf-8")) != self.key:
                raise InvalidArgument(
                    f"'path' must be a new file or one with the same key, got {target.name!r} with another "
                    f"key. Choose another name, so that reports under the other key can still be checked."
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


def _join_origins(origins: Sequence[Origin]) -> Origin:
    """How a joint report was made: every command and call, and what all of them share."""
    seeds = {origin.seed for origin in origins}
    calls = [origin.call for origin in origins]
    return replace(
        origins[0],
        command="; ".join(dict.fromkeys(origin.command for origin in origins)),
        version=", ".join(dict.fromkeys(origin.version for origin in origins)),
        seed=origins[0].seed if len(seeds) == 1 else None,
        call=calls[0]
        if len(calls) == 1
        else _joint_call([call for call in calls if call is not None], len(calls)),
        created=max(origin.created for origin in origins),
    )


def _joint_call(calls: Sequence[str], reports: int) -> str | None:
    """The Python call for a joint report; None where the call of one of them is not known."""
    if len(calls) < reports:
        return None
    arguments = ",\n".join(indent(call, "    ") for call in calls)
    return f"privet.Report.of(\n{arguments},\n)"


def _form(path: Path) -> Callable[[ReportContent], str]:
    for ending, form in _FORMS.items():
        if path.name.lower().endswith(ending):
            return form
    raise InvalidArgument(
        f"'path' must end in .html, .json, .md, .dpia.html or .pia.json, got {path.name!r}. "
        f"The ending says which form of the report to write."
    )
