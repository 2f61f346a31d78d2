"""The most that an analyst can learn who chooses each question in view of the answers: exact, by dynamic programming.

Questions are randomised responses, the worst of all ε-DP mechanisms, with every ε a whole multiple of one step. So the
privacy loss so far is a whole number of steps, and what was asked is a count for each kind. At every state the analyst
may stop, or ask any kind that is still permitted; they take what raises E[(1 − exp(ε − L))₊] most, under the law of the
first neighbour. That maximum is the δ(ε) of the whole interaction: its supremum over all adaptive strategies. Nothing of
the package is used; what is permitted is asked of a function that is given.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count

import numpy as np
from scipy.stats import binom

__all__ = ["fixed_delta", "largest_delta", "largest_delta_with_a_last_question"]

Counts = tuple[int, ...]


def largest_delta(
    permits: Callable[[Counts], bool],
    kinds: Sequence[int],
    *,
    step: float,
    epsilon: float,
    leaks: Sequence[float] | None = None,
) -> float:
    """Over all strategies with these kinds of questions, ``kinds`` in steps; ``permits`` sees how many of each.

    A kind with a leak d tells everything with probability d, as the worst (ε, d)-DP mechanism does.
    """
    told = _told(step, epsilon)

    @cache
    def permitted(counts: Counts) -> bool:
        return permits(counts)

    @cache
    def values(counts: Counts) -> np.ndarray:
        """For every loss from −reach to reach."""
        reach = sum(n * kind for n, kind in zip(counts, kinds, strict=True))
        best = told(reach)
        for place, kind in enumerate(kinds):
            more = tuple(n + (place == index) for index, n in enumerate(counts))
            if not permitted(more):
                continue
            after = values(more)
            share = 1 / (1 + math.exp(-kind * step))
            asked = share * after[2 * kind :] + (1 - share) * after[: after.size - 2 * kind]
            if leaks is not None:
                asked = leaks[place] + (1 - leaks[place]) * asked
            best = np.maximum(best, asked)
        return best

    return float(values((0,) * len(kinds))[0])


def largest_delta_with_a_last_question(
    permits: Callable[[int, int], bool], *, step: float, epsilon: float, largest: int
) -> float:
    """One small question after the other, and at any time one last question of up to ``largest`` steps, or none.

    ``permits`` sees the number of small questions and the size of the last one, 0 for none; it permits no larger one
    where it refuses a smaller.
    """
    told = _told(step, epsilon)
    most = next(n for n in count(1) if not permits(n, 0)) - 1
    value = np.zeros(2 * most + 3)
    for asked in range(most, -1, -1):
        now = told(asked)
        last = bisect_left(range(1, largest + 1), True, key=lambda size: not permits(asked, size))
        if last:
            after, share = told(asked + last), 1 / (1 + math.exp(-last * step))
            now = np.maximum(now, share * after[2 * last :] + (1 - share) * after[: after.size - 2 * last])
        if asked < most:
            share = 1 / (1 + math.exp(-step))
            now = np.maximum(now, share * value[2:] + (1 - share) * value[:-2])
        value = now
    return float(value[0])


def fixed_delta(counts: dict[int, int], *, step: float, epsilon: float) -> float:
    """δ(ε) of so many questions of each size where all are fixed beforehand: their law, by convolution."""
    law, reach = np.ones(1), 0
    for size, times in counts.items():
        own = np.zeros(2 * size * times + 1)
        own[:: 2 * size] = binom.pmf(np.arange(times + 1), times, 1 / (1 + math.exp(-size * step)))
        law, reach = np.convolve(law, own), reach + size * times
    return float(law @ _told(step, epsilon)(reach))


def _told(step: float, epsilon: float) -> Callable[[int], np.ndarray]:
    """(1 − exp(ε − L))₊ for L from −reach to reach steps."""

    def told(reach: int) -> np.ndarray:
        losses = step * np.arange(-reach, reach + 1)
        return np.maximum(-np.expm1(epsilon - losses), 0.0)

    return told
