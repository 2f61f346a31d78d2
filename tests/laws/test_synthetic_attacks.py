"""Laws of attacks on synthetic tables.

*Nothing seen, nothing found*: a generator that saw neither side leads to a claimed leak in at most 5 % of tables. *The ceiling*: on tables
of Privet's own generators no attack succeeds more often than the claim allows. *Power*: a copy is found by every attack, copies of one row
in twenty by nearest records. And why a hit is about a person: counts of predicates on two tables do not obey the ceiling.

Bounds on counts are binomial at 1 − 10⁻⁶, so that a law raises a false alarm in fewer than one of 10,000 runs of this file.
"""

import functools
from collections import defaultdict

import numpy as np
import pytest
from scipy.stats import binom, poisson

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.attacks.synthetic import ShadowGenerators, attack_synthetic, name_members
from privet.attacks.synthetic.shadow_generators import to_arrays
from privet.auditing import measure_recoveries
from privet.events import Opaque
from privet.published_tables import PublishedTable
from privet.randomness import SeededNoise, experiment
from privet.releasing.synthetic import MST, MWEM, Categories, Domain, all_marginals

SURE = 1e-6
NAMES = ("sex", "region", "work", "smoker", "disease")
SIZES = (2, 4, 5, 2, 6)
DOMAIN = Domain(tuple(Categories(name, tuple(range(size))) for name, size in zip(NAMES, SIZES, strict=True)))
PEOPLE = 80


def population(count, generator):
    """Columns that depend on each other, in a domain of 480 cells."""
    hidden = generator.random(count)
    return {
        name: np.minimum((hidden ** generator.uniform(0.3, 3.0, count) * size).astype(int), size - 1)
        for name, size in zip(NAMES, SIZES, strict=True)
    }


def mixed(count, generator):
    """Numbers with many values, texts of few, and missing values."""
    ages = np.round(generator.gamma(9.0, 5.0, count), 1)
    ages[generator.random(count) < 0.05] = np.nan
    return {
        "age": ages,
        "zip": generator.integers(0, 40, count).astype(str),
        "income": np.round(np.exp(generator.normal(10, 1, count)), -2),
        "sex": generator.choice(np.array(["f", "m"]), count),
    }


@functools.cache
def mwem(epsilon):
    return MWEM(
        domain=DOMAIN, workload=all_marginals(DOMAIN, 2), rounds=4, epsilon=epsilon, adjacency=AddRemove()
    )


@functools.cache
def mst(epsilon):
    return MST(domain=DOMAIN, epsilon=epsilon, delta=1e-6, adjacency=AddRemove())


def promise(mechanism):
    """The (ε, δ) that was asked for, and nothing finer: its ceiling is a formula."""
    delta = mechanism.delta if isinstance(mechanism, MST) else 0.0
    return account(Opaque(epsilon=mechanism.epsilon, delta=delta), adjacency=AddRemove())


def sides(generator):
    rows = population(2 * PEOPLE, generator)
    return tuple(
        {name: values[part] for name, values in rows.items()} for part in (slice(PEOPLE), slice(PEOPLE, None))
    )


def attack_releases(mechanism, count, seed):
    """Attack ``count`` releases, each of people of its own: attack → measured leakages; and the claim."""
    generator, found = experiment(seed), defaultdict(list)
    for number in range(count):
        original, control = sides(generator)
        released = mechanism.release(original, noise=SeededNoise(1000 * seed + number))
        synthetic = released.sample(PEOPLE, generator)
        for recoveries in attack_synthetic(
            synthetic, original, control, secret="disease", seed=number
        ).recoveries:
            found[recoveries.attack].append(measure_recoveries(recoveries))
    return found, promise(mechanism)


def check_ceiling(found, claim):
    for attack, measured in found.items():
        # In no single release, at its intervals; binomial over releases, which are independent.
        above = sum(each.is_above_ceiling(claim) for each in measured)
        assert above <= binom.ppf(1 - SURE, len(measured), 0.05), attack
        # And for the mean of all of them: hits of one release depend on each other, so releases are counted.
        success = np.array([each.success.value for each in measured])
        ceilings = np.array([each.ceiling(claim) for each in measured])
        baseline = float(np.mean([each.baseline.value for each in measured]))
        slack = 5 * float(np.std(success - ceilings)) / np.sqrt(len(measured)) if len(measured) > 1 else 1.0
        assert success.mean() <= claim.tpr(fpr=max(baseline, 1e-10)) + slack, attack


# ---- the ceiling


@pytest.mark.parametrize("mechanism", [mwem(1.0), mst(1.0)], ids=["MWEM", "MST"])
def test_no_attack_on_a_private_table_is_above_its_ceiling(mechanism):
    check_ceiling(*attack_releases(mechanism, 3, seed=1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism", [mwem(1.0), mwem(4.0), mst(1.0), mst(10.0)], ids=["MWEM 1", "MWEM 4", "MST 1", "MST 10"]
)
def test_no_attack_on_200_private_tables_is_above_its_ceiling(mechanism):
    check_ceiling(*attack_releases(mechanism, 200, seed=2))


def test_a_generator_with_a_false_claim_is_above_its_ceiling():
    """The claim of ε = 1, and every fourth row copied: the law notices."""
    generator = experiment(3)
    original, control = (mixed(400, generator) for _ in range(2))
    fresh = mixed(400, generator)
    synthetic = {name: np.concatenate([original[name][:100], fresh[name][100:]]) for name in fresh}
    claim = promise(mwem(1.0))
    measured = [
        measure_recoveries(each) for each in attack_synthetic(synthetic, original, control).recoveries
    ]
    above = {each.attack for each in measured if each.is_above_ceiling(claim)}
    assert {"exact copies", "nearest records"} <= above


@pytest.mark.slow
def test_shadow_generators_stay_below_the_ceiling():
    """LiRA on the generator, with people of its own for each of 200 releases."""
    mechanism, generator, found = mwem(4.0), experiment(4), defaultdict(list)

    def generate(table, rng):
        released = mechanism.release(dict(table), noise=SeededNoise(int(rng.integers(2**31))))
        return released.sample(PEOPLE, rng)

    for number in range(200):
        original, control = (PublishedTable.of(side) for side in sides(generator))
        synthetic = PublishedTable.of(generate(to_arrays(original), generator))
        scores = ShadowGenerators(generate, runs=6, seed=number).run(synthetic, original, control)
        found["shadow generators"].append(measure_recoveries(name_members(scores)))
    check_ceiling(found, promise(mechanism))


# ---- nothing seen, nothing found


def false_alarms(count, seed, draw):
    generator, alarms, small = experiment(seed), defaultdict(int), 0
    for number in range(count):
        synthetic, original, control = (draw(100, generator) for _ in range(3))
        secret = "disease" if "disease" in original else "sex"
        found = attack_synthetic(synthetic, original, control, secret=secret, seed=number)
        small += found.distances.p_value <= 0.05
        for recoveries in found.recoveries:
            alarms[recoveries.attack] += measure_recoveries(recoveries).detected
    return alarms | {"share nearer": small}


@pytest.mark.parametrize("draw", [mixed, population])
def test_a_generator_that_saw_nobody_is_not_accused(draw):
    alarms = false_alarms(6, 5, draw)
    assert len(alarms) >= 8
    assert max(alarms.values()) <= binom.ppf(1 - SURE, 6, 0.05), dict(alarms)


@pytest.mark.slow
@pytest.mark.parametrize("draw", [mixed, population])
def test_a_generator_that_saw_nobody_is_accused_in_at_most_one_of_twenty_tables(draw):
    alarms = false_alarms(400, 6, draw)
    assert max(alarms.values()) <= binom.ppf(1 - SURE, 400, 0.05), dict(alarms)


def test_synthetic_rows_that_share_a_nearest_person_are_not_independent_coins():
    """Fifty rows around one point have one nearest person. A binomial test of rows would accuse half of the time."""
    generator, small = experiment(7), 0
    for number in range(60):
        spread = generator.normal(size=(3, 40))
        synthetic = {"x": np.concatenate([spread[0, :4], np.full(200, 3.5)])}
        found = attack_synthetic(synthetic, {"x": spread[1]}, {"x": spread[2]}, seed=number)
        small += found.distances.p_value <= 0.05
    assert small <= binom.ppf(1 - SURE, 60, 0.05)


# ---- power


def test_a_copy_is_found_by_every_attack():
    generator = experiment(8)
    original, control = mixed(500, generator), mixed(500, generator)
    found = attack_synthetic(original, original, control, secret="sex").recoveries
    leaks = {each.attack: measure_recoveries(each) for each in found}
    del leaks["density ratio by a tree of pairs"]  # it sees marginals, which a copy hardly changes
    assert all(each.leak.lower > 0 for each in leaks.values()), leaks


@pytest.mark.parametrize("moved", [0.0, 0.003])
def test_copies_of_one_row_in_twenty_are_found_by_nearest_records(moved):
    """Also where each number of the copies was moved a little, which ``ExactCopies`` cannot see."""
    generator = experiment(9)
    original, control, synthetic = (mixed(1000, generator) for _ in range(3))
    for name in synthetic:
        copies = original[name][:50]
        if copies.dtype.kind == "f":
            copies = copies * (1 + moved * generator.normal(size=50))
        synthetic[name][:50] = copies
    found = {each.attack: each for each in attack_synthetic(synthetic, original, control).recoveries}
    assert measure_recoveries(found["nearest records"]).leak.lower > 0
    assert measure_recoveries(found["exact copies"]).detected == (moved == 0.0)


# ---- why a hit is about a person


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_counts_of_predicates_do_not_obey_the_ceiling_and_hits_of_people_do(epsilon):
    """Many predicates, each of which ten people are expected to match. A mechanism publishes one by the exponential mechanism, the nearer
    its count in the original is to 1 the rather: ε-DP. Of the original it isolates one person far more often than e^ε times as often as of
    a control. The chance to be the only match among all people of both tables differs by e^(ε/2) for a person: within the claim.
    """
    mean, counts = 10.0, np.arange(200)
    weights = poisson.pmf(counts, mean) * np.exp(-epsilon / 2 * np.abs(counts - 1))
    chosen = weights / weights.sum()
    of_original, of_control = chosen[1], poisson.pmf(1, mean)
    assert of_original > 5 * np.exp(epsilon) * of_control
    people = 1000
    hit_inside = chosen[1] * poisson.pmf(0, mean) / people
    hit_outside = chosen[0] * poisson.pmf(1, mean) / people
    assert hit_inside / hit_outside == pytest.approx(np.exp(epsilon / 2))
