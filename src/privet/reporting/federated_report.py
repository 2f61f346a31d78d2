"""Attacks on federated runs, and every form in which they can be saved."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from privet.data_frames import to_data_frame
from privet.errors import InvalidArgument
from privet.reporting.documents.federated_data import (
    federated_figures,
    federated_json,
    federated_markdown,
)
from privet.reporting.federated_facts import FederatedContent
from privet.reporting.federated_page import federated_page
from privet.reporting.federated_words import federated_sentence
from privet.reporting.report_files import check_target, write_whole

__all__ = ["FederatedComparison"]

_FORMS: dict[str, Callable[[FederatedContent], str]] = {
    ".html": federated_page,
    ".json": federated_json,
    ".md": federated_markdown,
}


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FederatedComparison(FederatedContent):
    """Attack by defence, on live federated runs: success with its interval, and the proved ceiling beside it.

    ``save`` takes the form from the name: ``.html`` (one page that needs nothing else), ``.json`` or ``.md``.
    """

    def __repr__(self) -> str:
        return f"FederatedComparison({len(self.defences)} defences, {len(self.keys)} attacks: {self.verdict})"

    @property
    def verdict(self) -> str:
        """What was found, in one or two sentences."""
        return federated_sentence(self)

    def to_plain(self) -> dict[str, Any]:
        """All figures as plain data, as ``.json`` has them."""
        return federated_figures(self)

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """A data frame with one row for each defence and attack."""
        return to_data_frame(
            {
                "defence": run["defence"],
                "test_accuracy": run["test_accuracy"],
                "epsilon_proved": run["epsilon_proved"],
                **{name: value for name, value in attack.items() if not name.endswith("_interval")},
            }
            for run in self.to_plain()["runs"]
            for attack in run["attacks"]
        )

    def save(self, path: str | Path) -> Path:
        """Write it in the form that the ending of the name asks for, all of it or nothing."""
        target = check_target(path)
        form = _FORMS.get(target.suffix.lower())
        if form is None:
            raise InvalidArgument(
                f"'path' must end in .html, .json or .md, got {target.name!r}. The ending says which form "
                "to write."
            )
        return write_whole(target, form(self))
