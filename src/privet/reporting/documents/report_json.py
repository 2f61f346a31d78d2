"""``report.json``: everything that a report knows, for programs. Its fields are described in docs/report-schema.md.

Within version 1 a field keeps its name, type and meaning; fields may be added, and readers pass over those that they do not know.
"""

import json
import re

from privet.documents import opened
from privet.reporting.documents.plain_data import Plain, report_figures
from privet.reporting.documents.schema import conform, report_schema
from privet.reporting.report import Report

__all__ = ["FORMAT", "VERSION", "document", "read_document"]

FORMAT = "privet.report"
VERSION = 1
_COLUMN = re.compile(r"\[\n[^\[\]{}\"]*\]")  # a list of numbers; inside of text a line never breaks


def document(report: Report) -> str:
    """The report as JSON, the same text for the same report."""
    plain = {"format": FORMAT, "version": VERSION, **report_figures(report)}
    text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
    return (
        _COLUMN.sub(lambda column: " ".join(column[0].split()).replace("[ ", "[").replace(" ]", "]"), text)
        + "\n"
    )


def read_document(text: str) -> Plain:
    """The plain data of a report, after its format, its version and every field were found right."""
    plain = opened(text, FORMAT, VERSION)
    conform(plain, report_schema())
    return plain
