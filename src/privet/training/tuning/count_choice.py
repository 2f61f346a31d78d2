"""The law of the number of runs, where the user names none.

Every candidate law gets the mean with which a search tries one of the best tenth of the recipes in 19
searches of 20. Then they differ in price only: a concentrated law needs fewer runs and costs more for each
of them. The law with the lowest price is taken; a law that costs up to 5 % more is taken if it needs fewer
runs. The choice uses public numbers only.
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq

from privet.accounting import EpsilonTarget, account, calibrate
from privet.adjacency import Adjacency
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import Gaussian
from privet.training.tuning.run_counts import NegativeBinomialCount, PoissonCount, RunCount

__all__ = ["choose_count", "count_for_share"]

_MISSED = 0.05
_TOP = 0.1
_NEARLY = 1.05  # prices up to here, relative to the lowest, count as equal
_FEWEST, _MOST = 1.02, 499.0
_SHAPES = (1.0, 3.0)


def choose_count(recipes: int, *, epsilon: float, delta: float, adjacency: Adjacency) -> RunCount:
    """The law for a search among so many recipes, by the price of a Gaussian run of half of ε.

    >>> from privet.adjacency import AddRemove
    >>> choose_count(1, epsilon=3, delta=1e-5, adjacency=AddRemove()).mean
    1.02
    """
    if recipes == 1:
        return NegativeBinomialCount(_FEWEST)
    share = math.ceil(_TOP * recipes) / recipes
    makers: list[Callable[[float], RunCount]] = [PoissonCount]
    makers += [_negative_binomial(shape) for shape in _SHAPES]
    found = [count for make in makers if (count := count_for_share(make, share)) is not None]
    try:
        half = EpsilonTarget(epsilon=epsilon / 2, delta=delta)
        run = Gaussian(calibrate(Gaussian, half, adjacency=adjacency, between=(1e-3, 1e8)).value)
        prices = [account(c.best_of((run,)), adjacency=adjacency).epsilon(delta=delta) for c in found]
    except (NotProved, OutOfReach) as failed:
        raise InvalidArgument(
            f"'runs' must be given for 'epsilon' = {epsilon:g} and 'delta' = {delta:g}, because the laws of "
            f"the number of runs cannot be compared there. Write NegativeBinomialCount(20). Nothing was "
            f"spent."
        ) from failed
    near = [count for count, price in zip(found, prices, strict=True) if price <= _NEARLY * min(prices)]
    return min(near, key=_mean_of)


def count_for_share(make: Callable[[float], RunCount], share: float) -> RunCount | None:
    """The law with the least mean that tries one of a share of the recipes in 19 searches of 20; None if the
    mean would be too large.
    """

    def excess(log_mean: float) -> float:
        return make(math.exp(log_mean)).chance_to_miss(share) - _MISSED

    low, high = math.log(_FEWEST), math.log(_MOST)
    if excess(low) <= 0:
        return make(_FEWEST)
    if excess(high) > 0:
        return None
    mean = math.exp(float(brentq(excess, low, high, xtol=1e-6)))
    return make(min(math.ceil(10 * mean) / 10, _MOST))


def _negative_binomial(shape: float) -> Callable[[float], RunCount]:
    return lambda mean: NegativeBinomialCount(mean, shape)


def _mean_of(count: RunCount) -> float:
    return count.mean
