"""What a report is about, in words: fingerprints of models, data, ledgers and code, and how they are checked."""

from privet.fingerprints import Fingerprint, Hashing
from privet.reporting.facts import ModelAudit
from privet.reporting.markup import Html, described, element, paragraph, section, text
from privet.reporting.report import Report

__all__ = ["HOW_TO_CHECK", "code_row", "fingerprint_rows", "fingerprint_sentences", "identified_section"]

HOW_TO_CHECK = (
    "Fingerprints say what this report is about. privet verify report.json holds a model, data and a ledger against them. Those that are "
    "keyed (hmac-sha256) can be checked only with the key, which stays with the owner of the data: a plain one would confirm guesses of "
    "the data. A fingerprint identifies; it is no signature."
)


def fingerprint_rows(audit: ModelAudit) -> list[tuple[str, str]]:
    """What was identified of one model, with its fingerprint, and what was not."""
    found = audit.fingerprints
    if found is None:
        return [("Model and data", "no fingerprint was taken")]
    what = "scores of " if found.data == "scores" else ""
    rows = [
        ("Model", _shown(found.model, "none: the model cannot be identified by what was given")),
        (f"{what}members".capitalize(), _shown(found.members, "none")),
        (f"{what}others".capitalize(), _shown(found.nonmembers, "none")),
        ("Ledger", _shown(found.ledger, "none: no ledger was given")),
    ]
    keyed = any(one.hashing is Hashing.KEYED for one in (found.model, found.members, found.nonmembers) if one)
    return [*rows, ("Key", f"named {found.key}")] if keyed else rows


def code_row(report: Report) -> tuple[str, str]:
    """The code that made the report, with the packages that it ran on."""
    packages = ", ".join(f"{name} {version}" for name, version in report.origin.packages.items())
    return "Code", f"Privet {report.origin.version}, {report.origin.code}, on {packages}"


def identified_section(report: Report) -> Html:
    """The fingerprints on a page, under the name of each model where there are several."""
    parts = [paragraph(HOW_TO_CHECK)]
    for audit in report.audits:
        if len(report.audits) > 1:
            parts.append(element("h3", text(audit.name)))
        parts.append(described(fingerprint_rows(audit)))
    return section("identified", "What this report is about", [*parts, described([code_row(report)])])


def fingerprint_sentences(report: Report) -> list[str]:
    """The same as sentences, where there is no table."""
    several = len(report.audits) > 1
    told = [
        f"{f'{audit.name}: ' if several else ''}{name}: {value}."
        for audit in report.audits
        for name, value in fingerprint_rows(audit)
    ]
    name, value = code_row(report)
    return [*told, f"{name}: {value}.", HOW_TO_CHECK]


def _shown(found: Fingerprint | None, otherwise: str) -> str:
    return otherwise if found is None else str(found)
