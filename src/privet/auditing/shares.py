"""How the failure probability of a report is divided over its statements, so that all of them hold together.

A report at 95 % makes many statements: a lower bound on ε from each attack, intervals of its AUC and of its
rates, comparisons of classes and groups, and the same of attacks that recover something. Each is wrong with
its own small probability; by the union bound (Bonferroni) the probability that *any* of them is wrong is at
most the sum. Half of the failure goes to the bounds on ε, equally. The other half goes to the intervals of
attacks; where classes or groups are compared, a quarter goes to these instead. The shares depend only on
numbers that are known before a score is seen: how many attacks, records and groups there are.

"Membership was detected" means that one of these statements excludes chance. So a report on a model that
leaks nothing says "detected" with probability 1 − ``confidence`` at most, over everything that it shows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privet.arguments import open_fraction, whole
from privet.auditing.leakage import count_intervals
from privet.auditing.recovery_leakage import count_recovery_intervals
from privet.recoveries import Recoveries

__all__ = ["Shares"]


@final
@dataclass(frozen=True)
class Shares:
    """The confidence of each bound on ε, of each interval of an attack, and of each table of classes or
    groups.

    >>> shares = Shares.of(0.95, others=[1000, 1000])
    >>> round(shares.bound, 4), round(shares.interval, 5)
    (0.9875, 0.99792)
    """

    bound: float
    interval: float
    table: float

    @classmethod
    def of(
        cls,
        confidence: float,
        *,
        others: Sequence[int],
        tables: int = 0,
        recoveries: Sequence[Recoveries] = (),
    ) -> "Shares":
        """For attacks with so many non-members each, so many tables by class or group, and these recoveries.

        Of the recoveries only the numbers of statements are used: no hit is looked at.
        """
        failure = 1 - open_fraction("confidence", confidence)
        attacks = whole("the number of attacks", len(others) + len(recoveries))
        intervals = sum(count_intervals(count) for count in others)
        intervals += sum(count_recovery_intervals(each) for each in recoveries)
        tables += sum(each.groups is not None for each in recoveries)
        rest = failure / 4 if tables else failure / 2
        return cls(
            bound=1 - failure / 2 / attacks,
            interval=1 - rest / intervals,
            table=1 - failure / 4 / max(tables, 1),
        )
