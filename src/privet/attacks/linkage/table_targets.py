"""Who is attacked in a published table, and the coin of each: in the table, or the table without their row.

A table is published row by row, so the release without a person is the same table without their row. That
release exists for everybody at no cost, and is exact: *leave-one-out*. A fair half of the targets is attacked
in the table as it is; the other half, each in the table without their own row. What a reader can guess about
people who are not in the table is then the baseline of what the table tells about those who are.

*Leaks*: where a table was generalised after all rows had been seen, the table without one person might have
been cut differently. That is not looked at here.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.scores import Bits

__all__ = ["MOST_TARGETS", "TableTargets"]

MOST_TARGETS = 20_000


@final
@dataclass(frozen=True, eq=False)
class TableTargets:
    """Rows of a table, and for each whether it is attacked in the table or in the table without it."""

    rows: NDArray[np.int64]
    members: Bits

    @classmethod
    def draw(cls, rows: int, *, seed: int, most: int = MOST_TARGETS) -> "TableTargets":
        """Up to ``most`` of the rows at random; one half of them is in, the other half is left out."""
        if rows < 2:
            raise InvalidArgument(
                f"'rows' must be at least 2, got {rows}. Give a table with a target for each side of the "
                f"coin."
            )
        generator = np.random.default_rng(seed)
        chosen = generator.permutation(rows)[: whole("most", most, least=2)].astype(np.int64)
        return cls(chosen, np.arange(len(chosen)) % 2 == 0)

    def __len__(self) -> int:
        return len(self.rows)
