"""``report.json``: all figures of a report, for programs. docs/report-schema.md describes its fields.

Within version 1 a field keeps its name, type and meaning. Fields may be added, and readers ignore unknown
fields.
"""

import json
import re

from privet.documents import open_document
from privet.reporting.content import ReportContent
from privet.reporting.documents.plain_data import PlainData, report_figures
from privet.reporting.documents.schema import conform, report_schema

__all__ = ["FORMAT", "VERSION", "document", "read_document"]

FORMAT = "privet.report"
VERSION = 1
_COLUMN = re.compile(r"\[\n[^\[\]{}\"]*\]")  # a list of numbers; JSON text has no line breaks


def document(report: ReportContent) -> str:
    """The report as JSON. The same report gives the same text."""
    plain = {"format": FORMAT, "version": VERSION, **report_figures(report)}
    text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
    return (
        _COLUMN.sub(lambda column: " ".join(column[0].split()).replace("[ ", "[").replace(" ]", "]"), text)
        + "\n"
    )


def read_document(text: str) -> PlainData:
    """The plain data of a report, after its format, its version and every field were checked."""
    plain = open_document(text, FORMAT, VERSION)
    conform(plain, report_schema())
    return plain
