"""The planned answers about stand-in people, as rows of numbers: with the planned noise, and without noise.

What the answers would be without noise is asked of the same plan at an ε so large that its noise is below the
last digit.
"""

from dataclasses import replace
from typing import final

import numpy as np

from privet.randomness import NoiseSource, SeededNoise
from privet.releasing import Budget, ReleasePlan, TopK
from privet.releasing.simulated_releases import simulate_releases
from privet.views import Numbers

__all__ = ["RehearsedAnswers", "attackable_labels"]

_HARDLY_ANY_NOISE = 1e6  # ε of each answer


def attackable_labels(plan: ReleasePlan) -> tuple[str, ...]:
    """The statistics whose answers have a fixed form: numbers, one for each public key."""
    return tuple(
        label
        for label, statistic in plan.statistics
        if statistic.grouping.keys is not None and not isinstance(statistic, TopK)
    )


@final
class RehearsedAnswers:
    """Releases of one plan about tables of stand-ins."""

    def __init__(self, plan: ReleasePlan, noise: NoiseSource) -> None:
        self.plan, self._noise = plan, noise
        self._labels = attackable_labels(plan)
        wanted = tuple(pair for pair in plan.statistics if pair[0] in self._labels)
        budget = Budget(epsilon=_HARDLY_ANY_NOISE * len(wanted))
        self._exact = replace(plan, statistics=wanted, split=None, budget=budget)

    def exactly(self, table: object) -> Numbers:
        """The answers about a table without noise."""
        answers: Numbers = _join(simulate_releases(self._exact, table, times=1, noise=SeededNoise(0)))[0]
        return answers

    def release(self, table: object, times: int) -> Numbers:
        """So many releases of the same table, each with fresh noise: releases × answers."""
        return _join(simulate_releases(self.plan, table, times=times, noise=self._noise, labels=self._labels))


def _join(answers: dict[str, Numbers]) -> Numbers:
    joined: Numbers = np.concatenate(list(answers.values()), axis=1)
    return joined
