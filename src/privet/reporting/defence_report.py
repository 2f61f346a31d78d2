"""A comparison of defences, and every form in which it can be saved."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from privet.data_frames import to_data_frame
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.paths import path_from
from privet.reporting.defence_choice import recommendation
from privet.reporting.defence_facts import ComparisonContent
from privet.reporting.defence_page import defence_page
from privet.reporting.documents.defence_data import (
    comparison_figures,
    comparison_json,
    comparison_markdown,
)
from privet.reporting.documents.defence_reading import read_comparison
from privet.reporting.report_files import check_target, write_whole

__all__ = ["DefenceComparison"]

_FORMS: dict[str, Callable[[ComparisonContent], str]] = {
    ".html": defence_page,
    ".json": comparison_json,
    ".md": comparison_markdown,
}


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DefenceComparison(ComparisonContent):
    """What several defences cost and what attacks that know them still find.

    ``save`` takes the form from the name: ``.html`` (one page that needs nothing else), ``.json`` or ``.md``.
    ``load`` reads ``.json`` again. ``privet.audit(…, comparison=…)`` quotes it.
    """

    @classmethod
    def load(cls, path: str | Path) -> "DefenceComparison":
        """The comparison that was saved as ``.json``."""
        source = path_from("path", path)
        try:
            return cls(**read_comparison(source.read_text(encoding="utf-8")))
        except (OSError, ValueError) as failed:
            if isinstance(failed, PrivetError):
                raise
            raise Unreadable(
                f"{str(path)!r} must be a comparison of defences as .json, and cannot be read. Check the "
                "name, or save the comparison again."
            ) from None

    def __repr__(self) -> str:
        return f"DefenceComparison({len(self.defences)} defences: {self.recommendation})"

    @property
    def recommendation(self) -> str:
        """What to take, in one sentence with numbers."""
        return recommendation(self)

    def to_plain(self) -> dict[str, Any]:
        """All figures as plain data, as ``.json`` has them."""
        return comparison_figures(self)

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """A data frame with one row for each defence."""
        rows = comparison_figures(self)["defences"]
        return to_data_frame(
            {name: value for name, value in row.items() if name != "intervals"} for row in rows
        )

    def save(self, path: str | Path) -> Path:
        """Write the comparison in the form that the ending of the name asks for, all of it or nothing."""
        target = check_target(path)
        form = _FORMS.get(target.suffix.lower())
        if form is None:
            raise InvalidArgument(
                f"'path' must end in .html, .json or .md, got {target.name!r}. The ending says which form "
                "to write."
            )
        return write_whole(target, form(self))
