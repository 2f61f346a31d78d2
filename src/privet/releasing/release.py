"""``release``: a plan and its answers in one call."""

from collections.abc import Mapping

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.releasing.answers import Released
from privet.releasing.budget import Budget
from privet.releasing.contribution import Contribution
from privet.releasing.plan import ReleasePlan
from privet.releasing.statistics import Statistic
from privet.releasing.store import Store

__all__ = ["release"]


def release(
    data: object,
    statistics: Mapping[str, Statistic],
    *,
    unit: str | None,
    epsilon: float,
    delta: float = 0.0,
    rows: int = 1,
    groups: int = 1,
    store: Store | None = None,
    answer_after: float | None = None,
) -> Released:
    """Several statistics of one table, in equal shares of one budget.

    ``unit`` names the column that says whose row it is; None makes every row a person of its own. At most
    ``rows`` rows and ``groups`` groups of each unit count. With ``answer_after`` the answer comes so many
    seconds after the table is opened, whatever is in it, and work that takes longer fails: the defence
    against the timing side channel. ``ReleasePlan`` has everything else: weights, another adjacency, a
    quote first.

    *Guarantee*: all answers together are (ε, δ)-DP under add-remove adjacency of one user, or of one record.

    >>> import pandas
    >>> from privet.releasing import Count, Mean
    >>> table = pandas.DataFrame({"person": [1, 1, 2, 3], "age": [30, 30, 41, 55]})
    >>> statistics = {"people": Count(), "age": Mean("age", 0, 100)}
    >>> released = release(table, statistics, unit="person", epsilon=1.0)
    >>> released["people"].error
    6
    """
    if not isinstance(statistics, Mapping):
        raise InvalidArgument(
            f"'statistics' must map labels to statistics, got {format_value(statistics)}. Write "
            f"{{'people': Count()}}."
        )
    plan = ReleasePlan(
        statistics=tuple(statistics.items()),
        unit=unit,
        budget=Budget(epsilon=epsilon, delta=delta),
        contribution=Contribution(rows=rows, groups=groups),
    )
    return plan.run(data, store=store, answer_after=answer_after)


check_public_calls(__name__)
