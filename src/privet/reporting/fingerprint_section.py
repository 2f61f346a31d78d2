"""The fingerprints of models, data, ledgers and code in a report, and how they are checked."""

from privet.fingerprints import Fingerprint, Hashing
from privet.reporting.content import ReportContent
from privet.reporting.facts import ModelAudit
from privet.reporting.markup import Html, description_list, element, paragraph, section, text

__all__ = ["HOW_TO_CHECK", "code_row", "fingerprint_rows", "fingerprint_sentences", "identified_section"]

HOW_TO_CHECK = (
    "Fingerprints say what this report is about. privet verify report.json compares a model, data and a "
    "ledger with them. Keyed fingerprints (hmac-sha256) can be checked only with the key, which stays with "
    "the owner of the data: a plain one would confirm guesses of the data. A fingerprint identifies; it is "
    "no signature."
)


def fingerprint_rows(audit: ModelAudit) -> list[tuple[str, str]]:
    """A row for each fingerprint of one model, also for those that are missing."""
    prints = audit.fingerprints
    if prints is None:
        return [("Model and data", "no fingerprint was taken")]
    what = "scores of " if prints.data == "scores" else ""
    if audit.table is not None:
        return [
            ("Table", _format(prints.model, "none")),
            ("Ledger", _format(prints.ledger, "none: no ledger was given")),
            ("Key", f"named {prints.key}"),
        ]
    rows = [
        ("Model", _format(prints.model, "none: the model cannot be identified by what was given")),
        (f"{what}members".capitalize(), _format(prints.members, "none")),
        (f"{what}others".capitalize(), _format(prints.nonmembers, "none")),
        ("Ledger", _format(prints.ledger, "none: no ledger was given")),
    ]
    keyed = any(
        taken.hashing is Hashing.KEYED for taken in (prints.model, prints.members, prints.nonmembers) if taken
    )
    return [*rows, ("Key", f"named {prints.key}")] if keyed else rows


def code_row(report: ReportContent) -> tuple[str, str]:
    """The code that made the report, with the packages that it ran on."""
    packages = ", ".join(f"{name} {version}" for name, version in report.origin.packages.items())
    return "Code", f"Privet {report.origin.version}, {report.origin.code}, on {packages}"


def identified_section(report: ReportContent) -> Html:
    """The section with all fingerprints, under the name of each model where there are several."""
    parts = [paragraph(HOW_TO_CHECK)]
    for audit in report.audits:
        if len(report.audits) > 1:
            parts.append(element("h3", text(audit.name)))
        parts.append(description_list(fingerprint_rows(audit)))
    return section("identified", "What this report is about", [*parts, description_list([code_row(report)])])


def fingerprint_sentences(report: ReportContent) -> list[str]:
    """The fingerprints as sentences, for forms without a table."""
    several = len(report.audits) > 1
    sentences = [
        f"{f'{audit.name}: ' if several else ''}{name}: {value}."
        for audit in report.audits
        for name, value in fingerprint_rows(audit)
    ]
    name, value = code_row(report)
    return [*sentences, f"{name}: {value}.", HOW_TO_CHECK]


def _format(fingerprint: Fingerprint | None, otherwise: str) -> str:
    return otherwise if fingerprint is None else str(fingerprint)
