"""A rehearsal attacks stand-ins with the planned noise, and reads and spends nothing."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

import privet
from privet.errors import InvalidArgument
from privet.pipeline import rehearse_plan
from privet.pipeline.stand_ins import StandIns, secret_columns
from privet.randomness import SeededNoise, experiment
from privet.releasing import (
    Budget,
    Contribution,
    Count,
    Covariance,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    ReleasePlan,
    Sum,
    TopK,
    Variance,
)
from privet.releasing.simulated_releases import simulate_releases

polars = pytest.importorskip("polars")


def plan_of(*statistics, epsilon=1.0, delta=0.0, unit="person", **more):
    pairs = tuple((f"s{number}", statistic) for number, statistic in enumerate(statistics))
    return ReleasePlan(statistics=pairs, unit=unit, budget=Budget(epsilon=epsilon, delta=delta), **more)


EVERY = (
    Count(),
    Sum("salary", 0, 100),
    Mean("salary", 0, 100),
    Variance("salary", 0, 100),
    Quantile("age", 0.5, 0, 99),
    Covariance("salary", 0, 100, "age", 0, 99),
    Histogram("city", ("a", "b")),
    Marginal((("city", ("a", "b")), ("sex", ("f", "m")))),
    GroupBy("sex", Mean("age", 0, 99), ("f", "m")),
)


def flatten(value):
    return [number for _, number in value] if isinstance(value, tuple) else [value]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_simulated_releases_have_the_law_of_releases(delta):
    """Every number of every statistic, by Kolmogorov & Smirnov at 10⁻⁶: a false alarm in 2 of 10⁵ runs."""
    plan = plan_of(*EVERY, epsilon=20.0, delta=delta)
    stand_ins = StandIns.draw(plan, secret_columns(plan), 30, experiment(0))
    table = stand_ins.without_target()
    simulated = simulate_releases(plan, table, times=40, noise=SeededNoise(1))
    released = [plan.run(table, noise=SeededNoise(100 + number)) for number in range(40)]
    for label, numbers in simulated.items():
        real = np.array([flatten(each[label].value) for each in released])
        assert real.shape == numbers.shape
        for column in range(real.shape[1]):
            assert ks_2samp(real[:, column], numbers[:, column], method="asymp").pvalue > 1e-6


def test_half_of_the_noise_would_be_noticed():
    plan = plan_of(Sum("salary", 0, 100))
    table = StandIns.draw(plan, secret_columns(plan), 30, experiment(0)).without_target()
    once, twice = (
        simulate_releases(
            plan_of(Sum("salary", 0, 100), epsilon=epsilon), table, times=1500, noise=SeededNoise(1)
        )["s0"]
        for epsilon in (1.0, 2.0)
    )
    assert once.std() == pytest.approx(2 * twice.std(), rel=0.25)
    assert ks_2samp(once[:, 0], twice[:, 0], method="asymp").pvalue < 1e-6


def test_stand_ins_come_from_public_bounds_and_keys():
    plan = plan_of(*EVERY)
    columns = {column.name: column.values for column in secret_columns(plan)}
    assert columns == {"salary": (0, 100), "age": (0, 99), "city": ("a", "b"), "sex": ("f", "m")}
    people = StandIns.draw(plan, secret_columns(plan), 50, experiment(1))
    table = people.with_target(people.target(salary=100.0))
    assert len(table) == 51
    assert table["salary"].to_list()[-1] == 100
    assert table["person"].n_unique() == 51
    assert set(table["city"]) <= {"a", "b"}


def test_a_target_has_as_many_rows_as_count():
    plan = plan_of(Sum("salary", 0, 100), contribution=Contribution(rows=3))
    people = StandIns.draw(plan, secret_columns(plan), 5, experiment(1))
    table = people.with_target(people.farthest())
    assert (len(table), table["person"].n_unique()) == (8, 6)
    simulated = simulate_releases(
        plan_of(Sum("salary", 0, 100), epsilon=1e6, contribution=Contribution(rows=3)),
        table,
        times=1,
        noise=SeededNoise(0),
    )
    rest = simulate_releases(
        plan_of(Sum("salary", 0, 100), epsilon=1e6, contribution=Contribution(rows=3)),
        people.without_target(),
        times=1,
        noise=SeededNoise(0),
    )
    assert (simulated["s0"] - rest["s0"])[0, 0] == pytest.approx(300, abs=0.1)


@pytest.mark.parametrize("statistics", [[Mean("salary", 0, 100)], [Count(), Sum("salary", 0, 100)]])
def test_answers_that_were_given_shape_the_stand_ins(statistics):
    plan = plan_of(*statistics, Histogram("city", ("a", "b")), epsilon=1e4)
    table = polars.DataFrame({"person": range(200), "salary": [90.0] * 200, "city": ["a"] * 180 + ["b"] * 20})
    answers = plan.run(table, noise=SeededNoise(0)).answers
    people = StandIns.draw(plan, secret_columns(plan, answers), 500, experiment(2)).without_target()
    assert people["salary"].mean() == pytest.approx(90, abs=3)
    assert (people["city"] == "a").mean() == pytest.approx(0.9, abs=0.06)


def test_what_an_attacker_gets_grows_with_epsilon_and_stays_below_the_ceiling():
    plan = plan_of(Sum("salary", 0, 100), epsilon=2.0)
    found = rehearse_plan(plan, people=10, releases=400, noise=SeededNoise(3))
    assert [level.epsilon for level in found.levels] == [1.0, 2.0, 4.0]
    names = [result.name for result in found.levels[1].results]
    assert names == [
        "differencing: presence",
        "differencing: salary",
        "averaging 10 stored answers: salary",
        "averaging 10 fresh releases: salary",
    ]
    for level in found.levels:
        for result in level.results:
            assert not result.is_above_ceiling
            assert not result.is_violated
            assert result.ceiling is not None
        stored, fresh = level.results[2:]
        assert fresh.ceiling > stored.ceiling == level.results[1].ceiling
    success = np.array([[result.leakage.success.value for result in level.results] for level in found.levels])
    assert (np.diff(success[:, 1]) > 0).all()
    # Within four standard deviations of the best guess.
    assert success[1, 1] == pytest.approx(1 - 0.5 * np.exp(-1.0), abs=4 * 0.5 / np.sqrt(400))
    assert success[1, 2] == pytest.approx(success[1, 1], abs=0.2)  # stored answers add nothing
    assert success[0, 3] > success[0, 1] + 0.1  # fresh ones do


@pytest.mark.slow
def test_many_sums_by_group_are_solved_for_everybody():
    """At an ε without protection, sums over overlapping groups give away who has which value."""
    keys = tuple("abcdefgh")
    statistics = [GroupBy(f"group{number}", Sum("bit", 0, 1), keys) for number in range(4)]
    plan = plan_of(*statistics, epsilon=400.0)
    found = rehearse_plan(plan, people=20, releases=20, noise=SeededNoise(4))
    solved = next(result for result in found.levels[1].results if result.name == "least squares: bit")
    assert solved.leakage.success.value > 0.9


def test_the_facade_rehearses_without_data():
    found = privet.rehearse({"people": Count()}, unit=None, epsilon=1.0, people=5, releases=100)
    assert repr(found) == "Rehearsal(ε = 0.5, 1, 2; 1 attacks; 5 stand-ins)"
    assert not found.from_answers


def test_what_no_attack_understands_is_named():
    plan = plan_of(Count(), TopK("city", 1, ("a", "b")), GroupBy("sex", Count()), delta=1e-6)
    found = rehearse_plan(plan, people=5, releases=20, noise=SeededNoise(5))
    assert found.left_out == ("s1", "s2")
    with pytest.raises(InvalidArgument, match="keys are listed"):
        rehearse_plan(plan_of(GroupBy("sex", Count()), delta=1e-6))


@pytest.mark.parametrize(("argument", "value"), [("people", 1), ("releases", 3), ("confidence", 1.0)])
def test_bad_arguments(argument, value):
    with pytest.raises(InvalidArgument, match=argument):
        rehearse_plan(plan_of(Count()), **{argument: value})
