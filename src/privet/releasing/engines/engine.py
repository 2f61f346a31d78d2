"""What an engine must do."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from privet.releasing.engines.aggregates import AggregateRequest, CellCountRequest, Totals
from privet.releasing.tables.column_kind import ColumnKind

__all__ = ["TableEngine"]


class TableEngine(ABC):
    """Runs bounded aggregations over one table. Its results are private, and so are its error messages."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, ColumnKind]:
        """Names and kinds of the columns. It reads no row."""

    @abstractmethod
    def totals(self, request: AggregateRequest) -> Totals:
        """The sums that the request asks for. Public keys keep their order; others are sorted."""

    @abstractmethod
    def cells(self, request: CellCountRequest) -> NDArray[np.int64]:
        """Weighted counts: a line for each public key, a column for each cell."""

    def cancel(self) -> None:  # noqa: B027 - an engine without batches has nothing to do
        """Let the request that runs in another thread fail at its next batch of rows. Later requests are not
        affected."""
