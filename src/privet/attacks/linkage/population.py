"""Who is unique in the population, judged by a file that is a sample of it.

A row that is unique in a sample may have many doubles among those who were not drawn. What can be known is
how many classes have one row in the file, two rows, three rows …: with m_k classes of k rows, N_F classes of
F people in the population, and a share π of the people drawn at random,

    E[m_k] = Σ_F N_F · P[Binomial(F, π) = k],      Σ_F F · N_F = N.

*The interval* assumes nothing about the N_F. Each m_k is a sum of independent bits, so its mean lies in an
interval by Chernoff's bound, P[X ≥ x] ≤ exp(−μ + x − x ln(x/μ)) and the same below. The least and the
greatest N_1 under all these intervals are two linear programmes. The true N_F are feasible with probability
≥ confidence, so the interval holds N_1 at least as often. It is wide where the sample is small: from 5 % of
the people one can often say only "at most so many", and that is the truth about such samples.

*The estimate* inside of it is that of Pitman's sampling formula (Hoshino 2001), fitted by maximum likelihood:
a person is unique among N with probability ∏_{i=1}^{N−1} (θ + α + i − 1)/(θ + i). It is a model, and is
moved to the nearest end where it leaves the interval.

Reference: Bethlehem, Keller & Pannekoek 1990, "Disclosure control of microdata"; Skinner & Elliot 2002, "A
measure of disclosure risk for microdata"; Hoshino 2001, "Applying Pitman's sampling formula to microdata
disclosure risk assessment"; the linear programme follows Efron & Thisted 1976, "Estimating the number of
unseen species", section 5. Deviation: Chernoff's bounds in place of normal ones, so that the coverage is a
theorem for people drawn independently; for a sample of fixed size it is measured (tests).
"""

from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, linprog, minimize
from scipy.special import gammaln
from scipy.stats import binom

from privet.arguments import open_fraction
from privet.bounds import Interval
from privet.errors import InvalidArgument

__all__ = ["PopulationUniqueness", "estimate_population_uniqueness"]

_Counts: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float64]

_DISTINGUISHED = 12  # classes of 1 to 12 rows are counted each; larger ones together
_EXACT_SIZES = 400  # population classes up to this size are each a variable; larger ones stand on a grid


@final
@dataclass(frozen=True)
class PopulationUniqueness:
    """The share of people who are unique in the population, and of unique rows that are.

    ``share`` is an estimate by a model; ``share_between`` holds the truth with ``confidence``, whatever the
    population. ``of_unique`` and ``of_unique_between`` say the same of the rows that are unique in the file:
    how many of them are unique among all people; None where no row is unique.
    """

    fraction: float
    share: float
    share_between: Interval
    of_unique: float | None
    of_unique_between: Interval | None
    confidence: float


def estimate_population_uniqueness(
    sizes: _Counts, fraction: float, *, confidence: float = 0.95
) -> PopulationUniqueness:
    """What a random sample says about the population, from the sizes of its classes.

    ``fraction`` is the share of the population that is in the file. 1 is the whole population.

    >>> found = estimate_population_uniqueness(np.array([1, 1, 2]), 1.0)
    >>> found.share, found.share_between.lower
    (0.5, 0.5)
    """
    open_fraction("confidence", confidence)
    if not 0 < fraction <= 1:
        raise InvalidArgument(
            f"'fraction' must be above 0 and at most 1, got {fraction:g}. Give the share of the population "
            f"that is in the file, 0.05 for a sample of 5 %."
        )
    sizes = np.asarray(sizes, dtype=np.int64)
    rows, alone = int(sizes.sum()), int(np.count_nonzero(sizes == 1))
    if fraction == 1:
        share, all_of_them = alone / rows, 1.0 if alone else None
        certain = None if all_of_them is None else Interval(1.0, 1.0)
        return PopulationUniqueness(1.0, share, Interval(share, share), all_of_them, certain, 1.0)
    people = max(rows / fraction, rows)
    failure = 1 - confidence
    low, high = _bound_unique_people(sizes, fraction, people, 0.75 * failure)
    modelled = people * _pitman_share(sizes, people)
    unique = min(max(modelled, low), high)
    between = Interval(low / people, high / people)
    if alone == 0:
        return PopulationUniqueness(fraction, unique / people, between, None, None, confidence)
    # Of the N_1 unique people each was drawn with probability π: the drawn ones are among the unique rows.
    drawn_low = _chernoff_tail(fraction * low, failure / 8, above=False)
    drawn_high = _chernoff_tail(fraction * high, failure / 8, above=True)
    ends = Interval(*(min(max(drawn / alone, 0.0), 1.0) for drawn in (drawn_low, drawn_high)))
    of_unique = min(max(fraction * unique / alone, ends.lower), ends.upper)
    return PopulationUniqueness(fraction, unique / people, between, of_unique, ends, confidence)


def _bound_unique_people(
    sizes: _Counts, fraction: float, people: float, failure: float
) -> tuple[float, float]:
    """The least and the greatest number of unique people that the file allows."""
    counts = np.bincount(np.minimum(sizes, _DISTINGUISHED + 1), minlength=_DISTINGUISHED + 2)[1:]
    each = failure / (2 * len(counts))
    low, high = np.array([_mean_between(int(count), each) for count in counts]).T
    grid = _class_sizes(people)
    rows = [binom.pmf(size, grid, fraction) for size in range(1, _DISTINGUISHED + 1)]
    chances = np.array([*rows, binom.sf(_DISTINGUISHED, grid, fraction)])
    # The variables are shares of all people, y_F = F·N_F/N, so that they are all of one scale.
    weights = chances / grid * people
    scale = 1 / np.maximum(high, 1.0)
    goal = np.zeros(len(grid))
    ends = []
    for sign in (1.0, -1.0):
        goal[0] = sign
        solved = linprog(
            goal,
            A_ub=np.vstack([weights * scale[:, None], -weights * scale[:, None]]),
            b_ub=np.concatenate([high * scale, -low * scale]),
            A_eq=np.ones((1, len(grid))),
            b_eq=[1.0],
            bounds=(0, None),
            method="highs",
        )
        if (
            solved.status != 0 or solved.x is None
        ):  # no population fits all intervals: then m_1 alone bounds N_1
            return 0.0, min(float(high[0]) / fraction, people)
        ends.append(float(min(max(solved.x[0], 0.0), 1.0)) * people)
    return ends[0], max(ends)


def _class_sizes(people: float) -> _Floats:
    """Sizes of classes of the population: all small ones, and larger ones at even ratios."""
    largest = max(int(people), 1)
    small = np.arange(1, min(largest, _EXACT_SIZES) + 1)
    large = np.geomspace(1, largest, _EXACT_SIZES).astype(np.int64)
    return np.unique(np.concatenate([small, large])).astype(np.float64)


def _mean_between(count: int, failure: float) -> tuple[float, float]:
    """Where the mean of a sum of independent bits lies, by Chernoff's bound on either side."""
    needed = -np.log(failure)

    def excess(mean: float) -> float:
        return float(mean - count + (count * np.log(count / mean) if count else 0.0) - needed)

    far = count + 2 * needed + 3 * np.sqrt(needed * (count + 1))
    high = float(brentq(excess, max(count, 1e-12), far))
    low = 0.0 if count == 0 else float(brentq(excess, count * np.exp(-needed / count - 1), count))
    return low, high


def _chernoff_tail(mean: float, failure: float, *, above: bool) -> float:
    """What a sum of independent bits with this mean passes with probability ≤ ``failure`` only."""
    needed = -np.log(failure)
    if mean <= 0:
        return 0.0

    def excess(count: float) -> float:
        return float(mean - count + (count * np.log(count / mean) if count > 0 else 0.0) - needed)

    if above:
        return float(brentq(excess, mean, mean + 2 * needed + 3 * np.sqrt(needed * (mean + 1))))
    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, mean))


def _pitman_share(sizes: _Counts, people: float) -> float:
    """The probability that a person is unique, by Pitman's formula at its likeliest parameters."""
    rows, classes = float(sizes.sum()), len(sizes)
    larger, times = np.unique(sizes[sizes > 1], return_counts=True)

    def minus_log_likelihood(parameters: _Floats) -> float:
        alpha = 1 / (1 + np.exp(-parameters[0]))
        theta = np.exp(parameters[1])
        # ∏_{i=1}^{u−1} (θ + iα) = α^{u−1} · Γ(θ/α + u)/Γ(θ/α + 1)
        new = (classes - 1) * np.log(alpha) + gammaln(theta / alpha + classes) - gammaln(theta / alpha + 1)
        all_rows = gammaln(theta + rows) - gammaln(theta + 1)
        again = float(np.sum(times * (gammaln(larger - alpha) - gammaln(1 - alpha))))
        return float(all_rows - new - again)

    fitted = minimize(minus_log_likelihood, np.array([0.0, np.log(classes)]), method="Nelder-Mead")
    alpha, theta = 1 / (1 + np.exp(-fitted.x[0])), np.exp(fitted.x[1])
    log_share = (
        gammaln(theta + alpha + people - 1)
        + gammaln(theta + 1)
        - gammaln(theta + alpha)
        - gammaln(theta + people)
    )
    return float(min(np.exp(log_share), 1.0))
