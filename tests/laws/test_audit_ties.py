"""Ties are no evidence: the null law of every bound under heavy ties, by enumeration and without simulation.

Where a model tells nothing, the members are a random half of the records, whatever the scores are. Of scores with two values
the number of members among the high ones is then hypergeometric, so the probability that a bound is above 0 is a sum. It is
taken for every line of the plan, for every number of high scores, at every size: there is no noise in it, and nothing to tune.
A form that samples the sizes runs by default, all sizes from 20 to 600 are ``slow``.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import gammaln
from scipy.stats import binom, hypergeom

from privet.auditing import (
    EVERYBODY,
    PLAN,
    ApproximateCurves,
    ClopperPearson,
    GaussianFit,
    Guesses,
    OneRun,
    OneRunFDP,
    OrderStatistic,
    RankedThresholds,
    SelectionSplit,
    WeightedRanks,
    measure,
)
from privet.auditing.curves import NEAR_NOTHING
from privet.auditing.draws import Draw, balance_draw
from privet.auditing.guesses import (
    GuessCounts,
    GuessResult,
    count_right_guesses,
    lines_between_ties,
    plan_counts,
)
from privet.auditing.one_run import p_value as one_run_p_value
from privet.auditing.one_run_fdp import is_refuted
from privet.auditing.order_statistic import p_value as order_p_value
from privet.auditing.thresholds import Errors
from privet.scores import Scores

DELTA = 1e-5
SIZES = (20, 21, 33, 40, 57, 100, 124, 183, 240, 367, 488, 600)
EVERY_SIZE = range(20, 601)
ONE_RUN = [
    OneRun(),
    OneRun(split=None),
    OneRunFDP(),
    OneRunFDP(curves=ApproximateCurves(DELTA)),
    OrderStatistic(),
    pytest.param(OrderStatistic(plan=PLAN), marks=pytest.mark.slow),
]
SEVERAL_RUNS = [ClopperPearson(), GaussianFit()]
INDEPENDENT = [RankedThresholds(), RankedThresholds(curves=ApproximateCurves(DELTA)), WeightedRanks()]


@pytest.fixture(autouse=True)
def _few_simulations(monkeypatch):
    monkeypatch.setattr("privet.auditing.weighted_ranks._SIMULATIONS", 2000)


def _named(audit):
    return type(audit).__name__


def _either(sizes):
    """The default form, and the slow one."""
    return [
        pytest.param(SIZES if sizes is None else sizes, id="some sizes"),
        pytest.param(EVERY_SIZE, id="every size", marks=pytest.mark.slow),
    ]


def _log_choose(count, taken):
    inside = (taken >= 0) & (taken <= count)
    safe = np.where(inside, taken, 0)
    return np.where(inside, gammaln(count + 1) - gammaln(safe + 1) - gammaln(count - safe + 1), -np.inf)


# ---- what is counted


@pytest.mark.parametrize("seed", range(20))
def test_ties_are_counted_as_the_worst_way_to_break_them(seed):
    """Against all orders of tied records, tried one by one at random: none has fewer right guesses, and one has as few."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(4, 10))
    values, members = generator.integers(0, 3, count).astype(float), generator.random(count) < 0.5
    called = int(generator.integers(0, count + 1))
    line = GuessCounts(called, int(generator.integers(0, count - called + 1)))
    (found,) = count_right_guesses(values, members, [line])
    broken = []
    for _ in range(3000):
        order = np.lexsort([generator.random(count), values])
        lowest, highest = order[: line.others], order[count - line.members :]
        broken.append(int(members[highest].sum() + (~members[lowest]).sum()))
    assert found.right == min(broken)


def test_the_order_of_records_changes_nothing():
    generator = np.random.default_rng(0)
    values, members = generator.integers(0, 4, 300).astype(float), generator.permutation(np.arange(300) < 150)
    lines = plan_counts(PLAN, 300)
    orders = [generator.permutation(300) for _ in range(5)]
    sorted_by_coin = np.argsort(members)
    counts = {
        str(count_right_guesses(values[o], members[o], lines))
        for o in (*orders, sorted_by_coin, sorted_by_coin[::-1])
    }
    assert len(counts) == 1


def test_scores_without_ties_are_counted_as_before():
    generator = np.random.default_rng(1)
    values, members = generator.normal(size=200), generator.random(200) < 0.5
    order = np.argsort(values)
    for line, found in zip(
        plan_counts(PLAN, 200), count_right_guesses(values, members, plan_counts(PLAN, 200)), strict=True
    ):
        right = members[order[200 - line.members :]].sum() + (~members[order[: line.others]]).sum()
        assert found == GuessResult(line.members + line.others, right)


# ---- scores that say nothing at all


@pytest.mark.parametrize("sizes", _either((20, 21, 39, 40, 100, 120, 124, 367, 600)))
@pytest.mark.parametrize("audit", [*ONE_RUN, *SEVERAL_RUNS, *INDEPENDENT], ids=_named)
def test_constant_scores_show_nothing_at_any_size(audit, sizes):
    for size in sizes:
        assert audit.epsilon(Scores.of(np.zeros(size), np.zeros(size)), delta=DELTA) == 0, size
        uneven = Scores.of(np.zeros(size), np.zeros(size - 1))
        assert audit.epsilon(uneven, delta=DELTA) == 0, size


# ---- a random half: the exact law of the number of right guesses


def _right_guesses(line, records):
    """P[V = v] for v = 0, …, r, where the members are a uniformly random half of the records."""
    half, rest = records // 2, records - line.members - line.others
    called = np.arange(line.members + 1)[:, None]
    denied = np.arange(line.others + 1)[None, :]
    logs = (
        _log_choose(line.members, called)
        + _log_choose(line.others, denied)
        + _log_choose(rest, half - called - denied)
        - _log_choose(records, np.array(half))
    )
    right = called + line.others - denied
    return np.bincount(right.ravel(), np.exp(logs).ravel(), minlength=line.members + line.others + 1)


@pytest.mark.parametrize("sizes", _either((2, 4, 10, 26, 40, 62, 124, 300)))
def test_one_guess_less_covers_a_random_half(sizes):
    """P[V ≥ v] ≤ P[Binomial(r, ½) ≥ v − 1] for every line, wherever the latter is at most ½: why ``Draw.counted`` leaves one out."""
    for size in sizes:
        records = 2 * (size // 2)
        for line in plan_counts(PLAN, records):
            made = line.members + line.others
            at_least = _right_guesses(line, records)[::-1].cumsum()[::-1]
            binomial = binom.sf(np.arange(made + 1) - 2, made, 0.5)
            tail = binomial <= 0.5
            assert (at_least[tail] <= binomial[tail] * (1 + 1e-9)).all(), (records, line)


def test_without_it_a_random_half_is_above_the_level():
    """The mutation: 13 + 13 records, everybody guessed. The binomial p-value of 18 right is 3.8 %, the true one 5.8 %."""
    law = _right_guesses(GuessCounts(13, 13), 26)
    assert binom.sf(17, 26, 0.5) < 0.05 < law[18:].sum()
    assert Draw(np.zeros(26), np.arange(26) < 13, halved=True).discount(GuessResult(26, 18)) == GuessResult(
        26, 17
    )
    assert Draw(np.zeros(26), np.arange(26) < 13, halved=False).discount(GuessResult(26, 18)) == GuessResult(
        26, 18
    )


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 4.0])
@pytest.mark.parametrize("half", [5, 13, 40, 150])
def test_a_random_half_at_epsilon_is_the_law_for_coins_but_for_evenness(half, epsilon):
    """Fisher's non-central hypergeometric law with the odds e^{2ε}, against the binomial count of the theorem, one guess less.

    In the tail, below 20 %, where levels are.
    """
    hits = np.arange(half + 1)
    logs = 2 * _log_choose(half, hits) + 2 * epsilon * hits
    law = np.exp(logs - logs.max())
    law /= law.sum()
    at_least = law[::-1].cumsum()[::-1]
    binomial = binom.sf(2 * hits - 2, 2 * half, 1 / (1 + np.exp(-epsilon)))
    tail = binomial <= 0.2
    assert (at_least[tail] <= binomial[tail] * (1 + 1e-9)).all()


def _most_likely(line, half, right, epsilon):
    """The largest P[V ≥ right] over *all* ε-DP runs whose members are a random half of 2·half records: a linear program.

    Averaged over permutations a run is a law f of what it calls, by how many members are among those whom it calls members,
    among those whom it denies, and among the rest. f is ε-Lipschitz in its logarithm, and its mass is 1 for every number of members.
    """
    records, sizes = 2 * half, (line.members, line.others, 2 * half - sum(line))
    cells = list(itertools.product(*(range(size + 1) for size in sizes)))
    place = {cell: number for number, cell in enumerate(cells)}
    chance = np.array(
        [math.prod(map(math.comb, sizes, cell)) / math.comb(records, sum(cell)) for cell in cells]
    )
    masses = sparse.csr_array((chance, ([sum(cell) for cell in cells], range(len(cells)))))
    steps = [
        (place[cell], place[near])
        for cell in cells
        for near in ((cell[0] + 1, *cell[1:]), (cell[0], cell[1] + 1, cell[2]), (*cell[:2], cell[2] + 1))
        if near in place
    ]
    pairs = np.array(steps + [(below, above) for above, below in steps])
    rows = np.repeat(np.arange(len(pairs)), 2)
    ratios = sparse.csr_array((np.tile([1.0, -math.exp(epsilon)], len(pairs)), (rows, pairs.ravel())))
    hit = [sum(cell) == half and cell[0] + line.others - cell[1] >= right for cell in cells]
    found = linprog(
        -chance * hit, A_ub=ratios, b_ub=np.zeros(len(pairs)), A_eq=masses, b_eq=np.ones(records + 1)
    )
    assert found.status == 0
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
@pytest.mark.parametrize(
    ("called", "denied", "half"), [(10, 10, 10), (15, 15, 15), (5, 5, 10), (8, 8, 15), (7, 0, 10), (3, 9, 10)]
)
def test_no_private_run_on_a_random_half_is_refuted_more_often_than_the_level_allows(
    called, denied, half, epsilon
):
    """Over all runs there are, by a linear program: not only at ε = 0, and with abstention."""
    line, draw = GuessCounts(called, denied), Draw(np.zeros(2), np.array([True, False]), halved=True)
    made = called + denied
    refuting = [
        right
        for right in range(made + 1)
        if one_run_p_value(draw.discount(GuessResult(made, right)), 2 * half, epsilon, 0.0) < 0.05
    ]
    if refuting:
        assert _most_likely(line, half, refuting[0], epsilon) <= 0.05 + 1e-9


def test_a_perfect_guess_of_a_random_half_shows_no_more_than_it_may():
    """15 + 15 records, all guessed rightly: an ε = 2 run has that in 9.5 % of all runs, so it does not refute ε = 2."""
    assert _most_likely(GuessCounts(15, 15), 15, 30, 2.0) > 0.09
    audit = OneRun(plan=EVERYBODY)
    shown = audit.epsilon(Scores.of(np.ones(15), np.zeros(15)), delta=1e-12)
    assert shown == pytest.approx(audit.ceiling(15, 15, delta=1e-12))
    assert 1.5 < shown < 2.0
    assert _most_likely(GuessCounts(15, 15), 15, 30, shown) <= 0.05


# ---- two values: the probability of ε > 0, summed


def _refutes_nothing(audit, line, records, level):
    """Whether the least parameter of the bound's family is refuted, which makes the bound larger than 0: best() without its search."""
    if isinstance(audit, OneRun):
        return one_run_p_value(line, records, 0.0, DELTA) < level
    if isinstance(audit, OneRunFDP):
        return is_refuted(line, records, audit.curves, NEAR_NOTHING, level)
    return order_p_value(line, records, audit.curves, NEAR_NOTHING) < level


@pytest.mark.parametrize("audit", ONE_RUN, ids=_named)
def test_the_shortcut_of_these_tests_is_none(audit):
    for right in range(30, 61, 3):
        line = GuessResult(60, right)
        assert _refutes_nothing(audit, line, 100, 0.05) == (audit.best_epsilon([line], 100, 0.05, DELTA) > 0)


@functools.cache
def _fewest(audit, line, records, level):
    """The fewest right guesses of a random half that make a bound above 0; one more than all where none do."""
    made = line.members + line.others
    draw = Draw(np.zeros(2), np.array([True, False]), halved=True)

    def shown(right):
        found = GuessResult(made, right)
        return _refutes_nothing(audit, draw.discount(found), records, level)

    low, high = made // 2, made + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def _surely_right(line, high, inside, records):
    """Right guesses with ties against the attacker, for ``high`` records of the upper value with ``inside`` members among them."""
    half, low = records // 2, records - high
    wrong_high, low_members = high - inside, half - inside
    low_others = low - low_members
    top = np.where(
        line.members >= high,
        inside + np.maximum(line.members - high - low_others, 0),
        np.maximum(line.members - wrong_high, 0),
    )
    bottom = np.where(
        line.others >= low,
        low_others + np.maximum(line.others - low - inside, 0),
        np.maximum(line.others - low_members, 0),
    )
    return top + bottom


def _null_rate(audit, line, records, level):
    """The largest probability of ε > 0, over all numbers of high scores."""
    fewest = _fewest(audit, line, records, level)
    half = records // 2
    highs, inside = np.arange(records + 1)[:, None], np.arange(half + 1)[None, :]
    possible = (inside <= highs) & (highs - inside <= half)
    law = np.where(
        possible,
        np.exp(_log_choose(half, inside) + _log_choose(half, highs - inside) - _log_choose(records, highs)),
        0.0,
    )
    right = _surely_right(line, highs, np.where(possible, inside, 0), records)
    return float((law * (possible & (right >= fewest))).sum(axis=1).max())


@pytest.mark.parametrize("sizes", _either((20, 40, 57, 124, 240)))
@pytest.mark.parametrize("audit", ONE_RUN, ids=_named)
def test_binary_scores_are_found_no_more_often_than_the_level_allows(audit, sizes):
    """Every line that may be chosen, every number of high scores. The lines of a plan without a choice share the level."""
    for size in sizes:
        split = audit._split(2 * size)
        records = 2 * size if split is None else 2 * split.remaining(size)
        lines = plan_counts(audit.plan, records)
        level = 1 - audit.confidence
        if split is None:
            assert sum(_null_rate(audit, line, records, level / len(lines)) for line in lines) <= level, size
            continue
        lines += [line.counts(records) for share in (0.1, 0.5, 0.9) for line in _lines_at(share)]
        for line in dict.fromkeys(lines):
            assert _null_rate(audit, line, records, level) <= level, (size, line)


def _lines_at(share):
    """The lines between the two groups where a part of 50 records has this share of high scores."""
    return lines_between_ties((np.arange(50) < 50 * share).astype(float), 1.0)


def test_the_sum_sees_what_it_is_there_for():
    """The mutation: ties cut in the middle by a coin that knows the order, as if half of a cut group were right."""
    line, records = GuessCounts(60, 60), 120
    generous = GuessResult(
        120, 120 // 2 + 14
    )  # what a fixed permutation of 124 + 124 constant scores once gave
    assert OneRun().best_epsilon([generous], records, 0.05, DELTA) > 0
    assert _surely_right(line, np.array(120), np.array(60), records) == 0


def test_lines_between_ties_cut_no_large_group():
    values = np.repeat([0.0, 1.0], [30, 70])
    lines = lines_between_ties(values, 1.0)
    assert [(line.members > 0, line.others > 0) for line in lines] == [
        (True, True),
        (True, False),
        (False, True),
    ]
    error = (0.3 * 0.7 / 100) ** 0.5
    assert lines[0].members == pytest.approx(0.7 - error)
    assert lines[0].others == pytest.approx(0.3 - error)
    assert lines_between_ties(np.arange(100.0), 1.0) == []
    assert lines_between_ties(np.zeros(100), 1.0) == []
    assert all(line.members + line.others <= 0.3 for line in lines_between_ties(values, 0.3))


def test_a_label_only_attack_is_heard():
    """All members are classified rightly and 80 % of others: what the ties take away, lines between them give back."""
    generator = np.random.default_rng(2)
    bounds = [
        OneRun().epsilon(Scores.of(np.ones(2000), (generator.random(2000) < 0.8) * 1.0), delta=DELTA)
        for _ in range(5)
    ]
    assert (
        np.median(bounds) > 3
    )  # 0.9 where a tie was broken at random; 5.9 is the most that so many can show
    assert max(bounds) <= OneRun().ceiling(2000, 2000, delta=DELTA)


@pytest.mark.parametrize("audit", [OneRun(), OneRunFDP()], ids=_named)
def test_a_ceiling_holds_for_lines_between_ties(audit):
    """More guesses show more where all are right, so no line of another length passes the ceiling of the plan."""
    for records in (50, 300, 2000, 100_000):
        shown = [
            audit.best_epsilon([GuessResult(made, made)], records, 0.05, DELTA)
            for made in np.geomspace(10, records, 12).astype(int)
        ]
        assert shown == sorted(shown), records


# ---- several runs: thresholds do not cut ties, and the counts are those of two values


@pytest.mark.parametrize("sizes", _either((20, 57, 124, 300)))
@pytest.mark.parametrize("audit", SEVERAL_RUNS, ids=_named)
def test_two_rates_of_binary_scores_are_found_no_more_often_than_the_level_allows(audit, sizes):
    for size in sizes:
        half = audit.split.remaining(size)
        inside, outside = np.arange(half + 1)[:, None], np.arange(half + 1)[None, :]
        errors = Errors(half - inside, half, outside, half)
        if isinstance(audit, ClopperPearson):
            shown = [audit._bounds(errors, DELTA, flipped) > 0 for flipped in (False, True)]
        else:
            from privet.auditing.gaussian_fit import _least

            shown = [_least(errors, 1 - audit.confidence) > 0]
        highs = inside + outside
        law = np.exp(_log_choose(half, inside) + _log_choose(half, outside) - _log_choose(2 * half, highs))
        for positive in shown:
            rates = np.bincount(highs.ravel(), (law * positive).ravel())
            assert rates.max() <= 1 - audit.confidence, size


# ---- the intervals that "detected" looks at


@pytest.mark.parametrize("confidence", [0.95, 0.998])
@pytest.mark.parametrize("sizes", _either((20, 57, 124)))
def test_intervals_of_binary_scores_exclude_chance_no_more_often_than_they_may(sizes, confidence):
    """AUC and each true-positive rate, exactly; at the confidence of one figure and at that of a figure of a report."""
    for size in sizes:
        for high in {size // 20 + 1, size // 2, size, 2 * size - size // 5}:
            missed = {}
            for inside in range(max(0, high - size), min(high, size) + 1):
                chance = hypergeom.pmf(inside, 2 * size, high, size)
                if chance < 1e-9:
                    continue
                members = (np.arange(size) < inside) * 1.0
                others = (np.arange(size) < high - inside) * 1.0
                found = measure(Scores.of(members, others), confidence=confidence)
                held = {"auc": (0.5, found.auc), **{fpr: (fpr, tpr) for fpr, tpr in found.tprs.items()}}
                for name, (fair, rate) in held.items():
                    excluded = rate is not None and not rate.lower <= fair <= rate.upper
                    missed[name] = missed.get(name, 0.0) + chance * excluded
            assert max(missed.values()) <= 1 - confidence + 1e-9, (size, high, missed)


# ---- who is in which order


def test_sides_in_a_row_are_a_random_half_and_coins_are_coins():
    generator = np.random.default_rng(3)
    values = generator.normal(size=101)
    row = balance_draw(Scores(values, np.arange(101) < 48))
    assert row.halved
    assert row.members.sum() == 48 == (~row.members).sum()
    coins = np.resize([True, False, True, False, True], 101)[generator.permutation(101)]
    kept = balance_draw(Scores(values, coins))
    assert not kept.halved
    assert np.array_equal(kept.members, coins)
    even = balance_draw(Scores(values[:100], np.arange(100) % 2 == 0))
    assert even.halved


def test_a_part_of_a_random_half_has_as_many_of_one_side_as_of_the_other():
    for size in range(20, 200, 7):
        drawn = balance_draw(Scores.of(np.zeros(size), np.zeros(size)))
        seen = drawn.selection_mask(SelectionSplit())
        assert drawn.members[seen].sum() == (~drawn.members[seen]).sum()
        assert drawn.members[~seen].sum() == (~drawn.members[~seen]).sum()


def test_a_seed_that_breaks_ties_is_gone():
    kinds = (OneRun, OneRunFDP, OrderStatistic)
    assert "seed" not in {field.name for kind in kinds for field in dataclasses.fields(kind)}
    assert Guesses(members=0.5, others=0.5).counts(4) == GuessCounts(2, 2)
