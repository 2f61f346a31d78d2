"""``release``: a plan that runs at once, for whoever needs no more."""

from collections.abc import Mapping

from privet.adjacency import Adjacency
from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.releasing.answers import Released
from privet.releasing.budget import Budget
from privet.releasing.contribution import Contribution
from privet.releasing.plan import Plan
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
    contribution: Contribution | None = None,
    adjacency: Adjacency | None = None,
    noise: NoiseSource | None = None,
    store: Store | None = None,
) -> Released:
    """Statistics of a table under one budget, in equal shares. ``Plan`` has more to choose, and quotes beforehand.

    ``unit`` names the column that says whose row it is, or is None where every row is somebody's only one.

    >>> import polars as pl
    >>> from privet.releasing import Count, Mean
    >>> table = pl.DataFrame({"person": range(1000), "age": [n % 90 for n in range(1000)]})
    >>> released = release(table, {"people": Count(), "age": Mean("age", 0, 100)}, unit="person", epsilon=1.0)
    >>> [answer.label for answer in released.answers]
    ['people', 'age']
    """
    if not isinstance(statistics, Mapping):
        raise InvalidArgument(
            f"'statistics' must map labels to statistics, got {shown(statistics)}. Write {{\"people\": Count()}}."
        )
    plan = Plan(
        statistics=tuple(statistics.items()),
        unit=unit,
        budget=Budget(epsilon=epsilon, delta=delta),
        contribution=Contribution() if contribution is None else contribution,
        adjacency=adjacency,
    )
    return plan.run(data, noise=noise, store=store)
