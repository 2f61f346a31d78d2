"""What tiny databases tell, by enumeration: every neighbour, every sample, concrete mechanisms. No accounting code.

A unit is (place, value) with a value in {−1, 0, 1}; 0 is a zeroed unit. A mechanism maps a database to the probabilities
of its finitely many outputs. Samples are mixtures over subsets, and compositions are products, exactly as they
are defined. ``divergence`` is then the hockey-stick divergence of two outputs, maximised over neighbours, over both
orders, and over mechanisms that an event describes. It is what an upper bound must not be below, and what a lower bound
must not be above.

Continuous noise is read off in bins, which is post-processing: it shows a little less. ``bins`` is how many of them
one contribution spans.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import laplace, norm
from tests.oracle.repeated_runs import number_of_runs, shown

from privet import events
from privet.events import Event

Unit = tuple[int, int]
Database = tuple[Unit, ...]
Law = NDArray[np.float64]
Reader = Callable[[Database], Law]

PLACES = 3  # at most so many units
TARGET = 0  # the place of the unit that neighbours differ in


def divergence(event: Event, relation: str, epsilons: tuple[float, ...], bins: int) -> list[float]:
    """The largest H_{exp ε} over neighbours, orders and mechanisms, at each ε."""
    worst = [0.0] * len(epsilons)
    for mechanism in mechanisms(event, relation, bins):
        for first, second in neighbours(event, relation):
            laws = mechanism(first), mechanism(second)
            for place, epsilon in enumerate(epsilons):
                for p, q in (laws, laws[::-1]):
                    worst[place] = max(worst[place], float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()))
    return worst


# --- neighbours ---------------------------------------------------------------------------------------------


def neighbours(event: Event, relation: str) -> Iterator[tuple[Database, Database]]:
    """Every two neighbours that differ in the target, of the sizes that the event allows."""
    population = _population(event)
    for size in (1, 2) if population is None else (population,):
        values = (-1, 0, 1) if relation == "zero-out" else (-1, 1)
        for others in itertools.product(values, repeat=size - 1):
            rest = tuple(enumerate(others, start=1))
            for value in (-1, 1):
                here = ((TARGET, value), *rest)
                if relation == "add-remove":
                    yield here, rest
                elif relation == "zero-out":
                    yield here, ((TARGET, 0), *rest)
                elif value == 1:
                    yield here, ((TARGET, -1), *rest)


def _population(event: Event) -> int | None:
    """The number of units that the outermost sample of a fixed size is drawn from."""
    match event:
        case events.FixedSize(_, population, _):
            return population
        case events.Poisson(_, inner) | events.Repeat(inner, _):
            return _population(inner)
        case events.Compose(parts) | events.Parallel(parts):
            return next((size for size in map(_population, parts) if size is not None), None)
    return None


# --- how looks are put together -----------------------------------------------------------------------------


def mechanisms(event: Event, relation: str, bins: int) -> list[Reader]:
    """Mechanisms that the event describes; leaves take turns among their kinds, all at once."""
    counts = [len(_kinds(leaf, relation, bins)) for leaf in leaves(event)]
    turns = max(counts, default=1)
    if _has_search(event):
        turns *= 2  # scores rise or fall with the output
    return [_reader(event, relation, turn, bins) for turn in range(turns)]


def _has_search(event: Event) -> bool:
    match event:
        case events.BestOfPoisson() | events.BestOfNegativeBinomial():
            return True
        case events.Compose(parts) | events.Parallel(parts):
            return any(map(_has_search, parts))
        case events.Poisson(_, inner) | events.FixedSize(_, _, inner) | events.Repeat(inner, _):
            return _has_search(inner)
    return False


def leaves(event: Event) -> Iterator[Event]:
    match event:
        case events.Compose(parts) | events.Parallel(parts):
            for part in parts:
                yield from leaves(part)
        case events.Poisson(_, inner) | events.FixedSize(_, _, inner) | events.Repeat(inner, _):
            yield from leaves(inner)
        case events.BestOfPoisson(candidates) | events.BestOfNegativeBinomial(candidates):
            for candidate in candidates:
                yield from leaves(candidate)
        case _:
            yield event


def _reader(event: Event, relation: str, turn: int, bins: int) -> Reader:
    match event:
        case events.Repeat(inner, times):
            return _all([_reader(inner, relation, turn, bins)] * times)
        case events.Compose(parts):
            return _all([_reader(part, relation, turn, bins) for part in parts])
        case events.Parallel(parts):
            return _split([_reader(part, relation, turn, bins) for part in parts])
        case events.Poisson(rate, inner):
            return _poisson(_reader(inner, relation, turn, bins), rate)
        case events.FixedSize(size, _, inner):
            return _fixed_size(_reader(inner, relation, turn, bins), size)
        case events.BestOfPoisson(candidates) | events.BestOfNegativeBinomial(candidates):
            return _best(
                [_reader(each, relation, turn // 2, bins) for each in candidates], event, turn % 2 == 0
            )
    kinds = _kinds(event, relation, bins)
    return kinds[turn % len(kinds)]


def _best(readers: list[Reader], event: Event, rising: bool) -> Reader:
    """The best of a random number of runs; each run has a candidate at random, which its result tells."""
    runs, _ = number_of_runs(event)

    def read(database: Database) -> Law:
        law = np.concatenate([reader(database) for reader in readers]) / len(readers)
        rank = np.arange(law.size)
        return shown(law, rank if rising else rank[::-1], runs, {})

    return read


def _all(readers: list[Reader]) -> Reader:
    def read(database: Database) -> Law:
        law = np.ones(1)
        for reader in readers:
            law = np.multiply.outer(law, reader(database)).ravel()
        return law

    return read


def _split(readers: list[Reader]) -> Reader:
    """Units with a positive value are in the first part: the split looks at the unit, and at nobody else."""

    def read(database: Database) -> Law:
        law = np.ones(1)
        for index, reader in enumerate(readers):
            own = tuple(unit for unit in database if min(0 if unit[1] > 0 else 1, len(readers) - 1) == index)
            law = np.multiply.outer(law, reader(own)).ravel()
        return law

    return read


def _poisson(inner: Reader, rate: float) -> Reader:
    def read(database: Database) -> Law:
        total: Law | float = 0.0
        for size in range(len(database) + 1):
            weight = rate**size * (1 - rate) ** (len(database) - size)
            for sample in itertools.combinations(database, size):
                total = total + weight * inner(sample)
        return np.asarray(total)

    return read


def _fixed_size(inner: Reader, size: int) -> Reader:
    def read(database: Database) -> Law:
        samples = list(itertools.combinations(database, size))
        return np.asarray(sum(inner(sample) for sample in samples) / len(samples))

    return read


# --- one look -----------------------------------------------------------------------------------------------


def _kinds(event: Event, relation: str, bins: int) -> list[Reader]:
    match event:
        case events.Gaussian(noise):
            return [_sum(norm(scale=noise).cdf, 1.0, 7 * noise, bins)]
        case events.Laplace(noise):
            return [_sum(laplace(scale=noise).cdf, 1.0, 2 * noise, bins)]
        case events.DiscreteGaussian(scale, contribution):
            return [_lattice(lambda x: np.exp(-0.5 * (x / scale) ** 2), contribution, 9 * scale)]
        case events.DiscreteLaplace(scale, contribution):
            return [_lattice(lambda x: np.exp(-np.abs(x) / scale), contribution, 20 * scale)]
        case events.DiscreteGaussianShares(scale, shares, contribution, 1):
            return [_noisy_shares(scale, shares, contribution)]
        case events.TreeNoise(noise, steps, separation, participations):
            reach = max(map(_tree_norm(steps), _patterns(steps, separation, participations)))
            return [_sum(norm(scale=noise).cdf, reach, 7 * noise, bins)]
        case events.BandedNoise(noise, column, steps, separation, participations):
            reach = max(map(_banded_norm(column, steps), _patterns(steps, separation, participations)))
            return [_sum(norm(scale=noise).cdf, reach, 7 * noise, bins)]
        case events.RandomizedResponse(truth, categories):
            return [_answers(truth, categories, labelled=relation == "zero-out")]
        case events.ExponentialMechanism(epsilon=epsilon):
            # two candidates whose scores the unit moves apart, from both sides of a tie, or from the tie
            return [
                *_binary(_chosen(epsilon, 0.5), _chosen(epsilon, -0.5), relation),
                *_binary(_chosen(epsilon, 1.0), _chosen(epsilon, 0.0), relation),
            ]
        case events.ReportNoisyMax(epsilon=epsilon):
            # exponential noise on two scores that are alike, or that the unit moves apart by 2Δ
            rare = 0.5 * math.exp(-epsilon)
            return _binary(np.array([0.5, 0.5]), np.array([rare, 1 - rare]), relation)
        case events.SparseVector(epsilon=epsilon, positives=1):
            return [
                *_binary(_stream(epsilon, (1.0,)), _stream(epsilon, (0.0,)), relation),
                *_binary(_stream(epsilon, (1.0, 1.0, 0.0)), _stream(epsilon, (0.0, 0.0, 1.0)), relation),
            ]
        case events.Opaque(epsilon=epsilon, delta=delta):
            high = (1 - delta) / (1 + math.exp(-epsilon))
            p = np.array([delta, high, 1 - delta - high, 0.0])
            found = _binary(p, p[::-1].copy(), relation)
            return [*found, _between(epsilon, delta)] if relation == "add-remove" else found
    raise NotImplementedError(event)


def _total(database: Database) -> int:
    return sum(value for _, value in database)


def _sum(cdf: Callable[[Law], Law], reach: float, spread: float, bins: int) -> Reader:
    """A sum with noise that has a density, in bins; all units contribute along one direction."""
    far = math.ceil(bins * (PLACES + spread / reach))
    edges = np.concatenate([[-np.inf], np.arange(-far, far + 1) * (reach / bins), [np.inf]])
    return lambda database: np.diff(cdf(edges - reach * _total(database)))


def _lattice(height: Callable[[Law], Law], contribution: float, reach: float) -> Reader:
    """A sum of whole numbers with noise on whole numbers; the tails that are left out are below 1e-8."""
    far = math.ceil(reach) + math.ceil(PLACES * contribution)
    x = np.arange(-far, far + 1)
    total = height(np.arange(-4 * far, 4 * far + 1)).sum()
    return lambda database: height(x - contribution * _total(database)) / total


def _noisy_shares(scale: float, shares: int, contribution: float) -> Reader:
    """A sum of whole numbers with several discrete Gaussians, and the places of all who contributed."""
    reach = math.ceil(9 * scale)
    share = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    noise = np.ones(1)
    for _ in range(shares):
        noise = np.convolve(noise, share / share.sum())
    step, far = int(contribution), PLACES * int(contribution)

    def read(database: Database) -> Law:
        law = np.zeros((2**PLACES, noise.size + 2 * far))
        start = far + step * _total(database)
        law[sum(1 << place for place, _ in database), start : start + noise.size] = noise
        return law.ravel()

    return read


def _binary(p: Law, q: Law, relation: str) -> list[Reader]:
    """One of two laws: by whether the target is there, by whether it is zeroed, or by whether there is a positive value.

    Under zero-out the output also shows all places, which a claim under zero-out does not forbid.
    """
    if relation == "add-remove":
        return [
            lambda database: p if any(place == TARGET for place, _ in database) else q,
            lambda database: q if any(place == TARGET for place, _ in database) else p,
        ]
    if relation == "replace-one":
        return [lambda database: p if any(value > 0 for _, value in database) else q]

    def shown(database: Database) -> Law:
        law = np.zeros((2**PLACES, p.size))
        held = any(place == TARGET and value != 0 for place, value in database)
        law[sum(1 << place for place, _ in database)] = p if held else q
        return law.ravel()

    return [shown]


def _chosen(epsilon: float, score: float) -> Law:
    """P ∝ exp(ε u/2Δ) with u = (score · Δ, −score · Δ)."""
    heights = np.exp(0.5 * epsilon * np.array([score, -score]))
    return np.asarray(heights / heights.sum())


def _between(epsilon: float, delta: float) -> Reader:
    """Two laws that are both within (ε, δ) of a third one, and 2ε apart; which one depends on the number of units.

    Adding or removing a unit moves by one step in P – R – Q, so this is (ε, δ)-DP. In a sample of one unit, out of two or
    more, an exchanged unit moves by two steps.
    """
    up, down = math.exp(epsilon) / (1 + math.exp(epsilon)), math.exp(-epsilon) / (1 + math.exp(epsilon))
    middle = 1 / (1 + math.exp(epsilon))
    laws = {
        1: [up, down, 1 - up - down, 1.0, 0.0, 0.0],
        0: [middle, middle, 1 - 2 * middle, 0.0, 1.0, 0.0],
        -1: [down, up, 1 - up - down, 0.0, 0.0, 1.0],
    }
    weights = np.array([1 - delta] * 3 + [delta] * 3)

    def read(database: Database) -> Law:
        held = any(place == TARGET for place, _ in database)
        size = len(database)
        step = (1 if size <= 1 else 0) if held else (0 if size == 0 else -1)
        return np.asarray(weights * np.array(laws[step]))

    return read


def _answers(truth: float, categories: int, *, labelled: bool) -> Reader:
    """An answer of each unit: beside its place, or counted with the others' answers. A zeroed unit answers at random."""
    other = (1 - truth) / (categories - 1)
    laws = {
        1: np.array([truth] + [other] * (categories - 1)),
        -1: np.array([other] * (categories - 1) + [truth]),
        0: np.full(categories, 1 / categories),
    }

    def with_places(database: Database) -> Law:
        values = dict(database)
        law = np.ones(1)
        for place in range(PLACES):
            answer = np.zeros(categories + 1)
            if place in values:
                answer[:categories] = laws[values[place]]
            else:
                answer[categories] = 1.0
            law = np.multiply.outer(law, answer).ravel()
        return law

    def counted(database: Database) -> Law:
        law = np.zeros((PLACES + 1,) * categories)
        law[(0,) * categories] = 1.0
        for _, value in database:
            law = sum(chance * np.roll(law, 1, axis=category) for category, chance in enumerate(laws[value]))
        return np.asarray(law).ravel()

    return with_places if labelled else counted


def _stream(epsilon: float, queries: tuple[float, ...]) -> Law:
    """Above-threshold on a few queries, until the first one above: discrete Laplace noise, four steps a Δ.

    Threshold Δ/ε₁, queries 2Δ/ε₂ (Lyu, Su & Li 2017, Algorithm 7); the threshold is ½ Δ.
    """
    steps, often = 4, 2 ** (2 / 3)
    first, second = steps * (1 + often) / epsilon, 2 * steps * (1 + 1 / often) / epsilon
    far = math.ceil(40 * max(first, second))
    x = np.arange(-far, far + 1)
    noise = np.exp(-np.abs(x) / first)
    noise /= noise.sum()
    each = np.exp(-np.abs(x) / second)
    above = np.cumsum((each / each.sum())[::-1])[::-1]
    law, running = [], noise
    for query in queries:
        need = np.clip(x + 2 - round(steps * query), -far, far) + far
        law.append(float(running @ above[need]))
        running = running * (1 - above[need])
    return np.array([*law, float(running.sum())])


# --- noise that is correlated over the steps -----------------------------------------------------------------


def _patterns(steps: int, separation: int, participations: int) -> list[tuple[int, ...]]:
    """Every way to take part at most so often, so many steps apart."""
    return [
        chosen
        for count in range(1, participations + 1)
        for chosen in itertools.combinations(range(steps), count)
        if all(later - earlier >= separation for earlier, later in itertools.pairwise(chosen))
    ]


def _tree_norm(steps: int) -> Callable[[tuple[int, ...]], float]:
    """√Σ over the finished nodes of a binary tree of (participations below it)²."""

    def found(pattern: tuple[int, ...]) -> float:
        total = 0
        for level in range(steps.bit_length()):
            for block in range(steps >> level):
                total += sum(1 for step in pattern if step >> level == block) ** 2
        return math.sqrt(total)

    return found


def _banded_norm(column: tuple[float, ...], steps: int) -> Callable[[tuple[int, ...]], float]:
    def found(pattern: tuple[int, ...]) -> float:
        total = np.zeros(steps + len(column))
        for step in pattern:
            total[step : step + len(column)] += column
        return float(np.linalg.norm(total[:steps]))

    return found
