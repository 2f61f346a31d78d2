"""Many releases of one plan about a table that nobody needs to protect: what its answers would look like.

Sums are taken once, and each release draws its own noise. Nothing is written into a ledger. So this is for
stand-ins and for experiments, **never for private data**: ``ReleasePlan.run`` is for those.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.releasing.engines.choice import choose_engine
from privet.releasing.executor import Executor
from privet.releasing.plan import ReleasePlan
from privet.releasing.tables.schema import check_columns

__all__ = ["simulate_releases"]


def simulate_releases(
    plan: ReleasePlan,
    stand_ins: object,
    *,
    times: int,
    noise: NoiseSource,
    labels: Collection[str] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """The numbers of each statistic in so many releases: releases × keys, by label.

    ``labels`` picks some of the statistics, which keep the noise that they have in the whole plan. Their keys
    must be listed. ``noise`` must be given, because what this returns is not accounted for.

    >>> import pandas
    >>> from privet.randomness import SeededNoise
    >>> from privet.releasing import Budget, Count
    >>> plan = ReleasePlan(statistics=(("n", Count()),), unit=None, budget=Budget(epsilon=1.0))
    >>> table = pandas.DataFrame({"x": range(50)})
    >>> simulate_releases(plan, table, times=4, noise=SeededNoise(0))["n"].shape
    (4, 1)
    """
    engine = choose_engine(stand_ins)
    check_columns(plan.questions, engine.schema)
    calibrated = plan._calibrated
    statistics = tuple(
        statistic for statistic in calibrated if labels is None or statistic.compiled.question.label in labels
    )
    if any(statistic.discovery is not None for statistic in statistics):
        raise InvalidArgument(
            "'plan' must list the keys of every statistic, got one whose keys are found in the table. Leave "
            "it out of the simulated plan."
        )
    return Executor(engine, noise, plan.confidence).repeat(statistics, times)
