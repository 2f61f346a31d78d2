"""Linkage by exact match: the adversary knows the quasi-identifiers of a person and looks for their row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.linkage.table_targets import MOST_TARGETS, TableTargets
from privet.attacks.linkage.unique_counts import class_sizes
from privet.attacks.linkage.uniqueness import check_quasi
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Adversary

__all__ = ["ExactMatch"]


@final
@dataclass(frozen=True)
class ExactMatch:
    """Find the row of a person whose quasi-identifiers are known: claim a row if exactly one agrees.

    *Adversary* sees the table, knows the quasi-identifiers of the target as they stand in it, and wants the
    target's row. A hit is a claimed row that is the target's; for a target who is not in the table, any
    claimed row counts, so the baseline is the rate of "absent, and still found".

    *Reference*: Sweeney 2002, "k-anonymity: a model for protecting privacy".
    """

    name: str = "exact match"
    most_targets: int = MOST_TARGETS

    def __post_init__(self) -> None:
        whole("most_targets", self.most_targets, least=2)

    def run(self, published: PublishedTable, quasi: Sequence[str], *, seed: int = 0) -> Recoveries:
        """Attack rows of the table; the coin decides who is looked for in a table without their row."""
        names = check_quasi(published, quasi)
        targets = TableTargets.draw(len(published), seed=seed, most=self.most_targets)
        matches = class_sizes(published.combine(names))[targets.rows] - ~targets.members
        return Recoveries(
            self.name,
            Adversary(
                sees="the published table",
                knows=f"the quasi-identifiers of the target ({', '.join(names)})",
                wants="the row of the target",
            ),
            "one row agrees, and it is the target's; for targets who are absent, one row agrees",
            self._claim(matches),
            targets.members,
        )

    def _claim(self, matches: NDArray[np.int64]) -> Bits:
        """Whether the adversary names a row, from the number of rows that agree with each target."""
        return np.asarray(matches == 1)


check_public_calls(__name__)
