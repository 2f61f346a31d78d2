"""No reconstruction of a differentially private release succeeds more often than the ledger's ceiling.

Everybody's bit enters random subset sums that are released with the noise of a plan. The ledger protects one
person with all of their answers, so the claim caps each hit on a bit: success ≤ claim.tpr(fpr=blind). Bits
are fair coins, so that a blind guess is right with probability ½, exactly. Success may exceed the ceiling by
chance; it must not by more than the Clopper & Pearson limit allows at 1 − 10⁻⁶. Bits of one release share
their noise, so the limit is taken over releases: each gives one bit at random.
"""

from dataclasses import replace

import numpy as np
import pytest

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.attacks import see
from privet.attacks.reconstruction import (
    Averaging,
    ConsistentTables,
    Differencing,
    KnownOthers,
    LeastSquares,
    LinearProgram,
    ModelDifferencing,
    ModelPair,
    PeopleColumns,
    PeopleGroup,
    PublishedStatistic,
    SecretNumber,
    SubsetSums,
)
from privet.auditing import measure_recoveries
from privet.auditing.proportions import at_least
from privet.events import Opaque
from privet.ledger import Entry, Ledger
from privet.randomness import SeededNoise
from privet.recoveries import Recoveries
from privet.releasing import Budget, ReleasePlan, Sum
from privet.releasing.simulated_releases import simulate_releases
from privet.scores import Records

polars = pytest.importorskip("polars")

SURE = 1e-6


def plan_sums(sums, epsilon, delta):
    statistics = tuple((f"q{number}", Sum(f"q{number}", 0, 1)) for number in range(sums))
    return ReleasePlan(statistics=statistics, unit=None, budget=Budget(epsilon=epsilon, delta=delta))


def release_bits(plan, bits, queries, noise):
    """The noisy sums of one release."""
    table = polars.DataFrame({f"q{number}": row * bits for number, row in enumerate(queries)})
    answers = simulate_releases(plan, table, times=1, noise=noise)
    return np.array([answers[label][0, 0] for label, _ in plan.statistics])


def play(attack, releases, *, people, sums, epsilon, delta=0.0, seed=0, break_noise=1.0):
    """One bit of each release: hit or miss; the mean share of hits; and the ceiling."""
    generator, noise = np.random.default_rng(seed), SeededNoise(seed)
    honest, used = plan_sums(sums, epsilon, delta), plan_sums(sums, epsilon * break_noise, delta)
    claim = account(Ledger(honest.relation, tuple(Entry("sum", event) for event in honest.events)))
    hits, shares = [], []
    for _ in range(releases):
        bits = generator.integers(0, 2, people)
        queries = generator.integers(0, 2, (sums, people))
        answers = release_bits(used, bits, queries, noise)
        found = attack.run(SubsetSums(queries, answers), bits, candidates=2).hits
        hits.append(found[generator.integers(people)])
        shares.append(found.mean())
    return np.array(hits), float(np.mean(shares)), claim.tpr(fpr=0.5)


def surely_above(hits, ceiling):
    return float(at_least(int(hits.sum()), len(hits), SURE)) > ceiling


def test_bits_of_a_private_release_stay_below_the_ceiling():
    hits, share, ceiling = play(LeastSquares(), 20, people=8, sums=16, epsilon=1.0)
    assert not surely_above(hits, ceiling)
    assert share < ceiling < 0.85


def test_a_ledger_that_says_too_little_is_noticed():
    """With the noise of forty times the ε the attack is surely above what the ledger allows."""
    hits, _, ceiling = play(LeastSquares(), 40, people=4, sums=8, epsilon=0.25, break_noise=40 / 0.25)
    assert surely_above(hits, ceiling)


def test_the_best_guess_about_one_person_comes_near_the_ceiling():
    """One sum, everybody else known: 1 − ½e^{−ε/2} of the guesses are right, and the ceiling is above."""
    generator = np.random.default_rng(1)
    plan = ReleasePlan(statistics=(("s", Sum("x", 0, 1)),), unit=None, budget=Budget(epsilon=1.0))
    claim = account(Ledger(plan.relation, (Entry("s", plan.events[0]),)))
    truths = generator.integers(0, 2, 4000)
    answers = np.zeros((4000, 1))
    for value in (0, 1):
        table = polars.DataFrame({"x": [value, 1, 0, 1]})
        chosen = truths == value
        answers[chosen] = simulate_releases(plan, table, times=int(chosen.sum()), noise=SeededNoise(2))["s"]
    hits = KnownOthers().run(answers, np.array([[2.0], [3.0]]), np.array([1.0]), truths).hits
    assert not surely_above(hits, claim.tpr(fpr=0.5))
    assert hits.mean() > 0.8 * claim.tpr(fpr=0.5)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_two_sums_with_and_without_a_person(epsilon):
    """Both sums are released, so the claim is about both. A fair coin is the value of the person."""
    generator = np.random.default_rng(3)
    plan = ReleasePlan(statistics=(("s", Sum("x", 0, 1)),), unit=None, budget=Budget(epsilon=epsilon / 2))
    both = account(Ledger(plan.relation, tuple(Entry("s", event) for event in plan.events * 2)))
    truths = generator.integers(0, 2, 2000)
    with_target, without = np.zeros(2000), np.zeros(2000)
    for value in (0, 1):
        chosen, noise = truths == value, SeededNoise(value)
        for answers, rows in ((with_target, [value, 1, 0, 1]), (without, [1, 0, 1])):
            table = polars.DataFrame({"x": rows})
            answers[chosen] = simulate_releases(plan, table, times=int(chosen.sum()), noise=noise)["s"][:, 0]
    found = Differencing(SecretNumber(values=(0, 1))).run(with_target, without, truths, candidates=2)
    assert not surely_above(found.hits, both.tpr(fpr=0.5))
    assert found.hits.mean() > 0.5


@pytest.mark.parametrize("fresh", [True, False])
def test_the_mean_of_ten_answers(fresh):
    """Ten fresh releases have the ceiling of ten; a stored answer has that of one, however often it is given."""
    generator = np.random.default_rng(4)
    plan = ReleasePlan(statistics=(("s", Sum("x", 0, 1)),), unit=None, budget=Budget(epsilon=1.0))
    once = account(Ledger(plan.relation, (Entry("s", plan.events[0]),))).tpr(fpr=0.5)
    ten = account(Ledger(plan.relation, tuple(Entry("s", event) for event in plan.events * 10))).tpr(fpr=0.5)
    truths = generator.integers(0, 2, 4000)
    answers = np.zeros((4000, 10))
    for value in (0, 1):
        chosen = truths == value
        count = int(chosen.sum())
        table = polars.DataFrame({"x": [value, 1, 0, 1]})
        drawn = simulate_releases(plan, table, times=10 * count, noise=SeededNoise(value))["s"]
        drawn = drawn.reshape(count, 10)
        answers[chosen] = drawn if fresh else drawn[:, :1]
    found = Averaging(SecretNumber(values=(0, 1))).run(answers - 2, truths, candidates=2)
    assert not surely_above(found.hits, ten if fresh else once)
    assert surely_above(found.hits, once) == fresh


@pytest.mark.slow
@pytest.mark.parametrize("attack", [LeastSquares(), LinearProgram()], ids=lambda attack: attack.name)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.0), (2.0, 1e-5), (8.0, 1e-5)])
def test_two_hundred_releases_stay_below_the_ceiling(attack, epsilon, delta):
    hits, share, ceiling = play(attack, 200, people=12, sums=24, epsilon=epsilon, delta=delta)
    assert not surely_above(hits, ceiling)
    assert share <= ceiling


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_tables_that_agree_with_noisy_counts(epsilon):
    """200 blocks of six people. A coin decides whether a seventh is in; discrete Laplace noise on the count of every cell
    is ε-private for one person more or fewer. A hit: their row is in the table that was solved for."""
    generator = np.random.default_rng(6)
    attack = ConsistentTables(PeopleColumns({"sex": ("f", "m")}, "age", 0, 3))
    cells = [(sex, age) for sex in ("f", "m") for age in range(4)]
    success = 1 - np.exp(-epsilon)
    hits, members = [], generator.random(200) < 0.5
    for inside in members.tolist():
        *others, target = generator.integers(0, len(cells), 7).tolist()
        counts = np.bincount([*others, *([target] if inside else [])], minlength=len(cells))
        noisy = counts + generator.geometric(success, len(cells)) - generator.geometric(success, len(cells))
        published = [
            PublishedStatistic(PeopleGroup({"sex": sex}, lower=age, upper=age), count=int(count))
            for (sex, age), count in zip(cells, np.maximum(noisy, 0), strict=True)
        ]
        published.append(PublishedStatistic(PeopleGroup(), count=int(np.maximum(noisy, 0).sum())))
        hits.append(cells[target] in attack.solve(published))
    found = Recoveries(attack.name, attack.adversary, "the row is in the table", np.array(hits), members)
    measured = measure_recoveries(found, confidence=1 - SURE)
    claim = account(Opaque(epsilon=epsilon), adjacency=AddRemove())
    assert not measured.is_above_ceiling(claim)
    assert measured.ceiling(claim) < 1
    assert epsilon < 1 or measured.success.value > measured.baseline.value


def private_regression(epsilon):
    """A function that fits a private logistic regression."""
    learning = pytest.importorskip("privet.learning", reason="the models are private estimators")
    noise = SeededNoise(5)

    def fit(inputs, classes):
        model = learning.LogisticRegression(
            epsilon=epsilon,
            delta=1e-6,
            solver=learning.OutputPerturbation(),
            norm_bound=3.0,
            classes=(0, 1),
            noise=noise,
        )
        return model.fit(inputs, classes)

    return fit


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_which_of_ten_came_in_between_two_private_models(epsilon):
    """200 pairs of private logistic regressions. Only the second saw the person, one of ten candidates at random."""
    generator, fit = np.random.default_rng(7), private_regression(epsilon)
    inputs = generator.normal(size=(10, 3))
    candidates = Records(inputs, (inputs[:, 0] < 0).astype(int))  # against what the others say
    pairs, truths = [], generator.integers(0, 10, 200)
    for truth in truths.tolist():
        others = generator.normal(size=(40, 3))
        classes = (others[:, 0] > 0).astype(int)
        before = fit(others, classes)
        after = fit(np.vstack([others, inputs[truth]]), np.append(classes, candidates.labels[truth]))
        pairs.append(ModelPair(see(before), see(after)))
    found = ModelDifferencing().run_records(pairs, candidates, truths)
    measured = measure_recoveries(found)
    assert measured.baseline.value == pytest.approx(0.1)
    ceiling = measured.ceiling(account(after.ledger_))
    assert not surely_above(found.hits, ceiling)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 8.0])
def test_two_private_models_with_and_without_a_person(epsilon):
    """200 pairs of private logistic regressions; the label of the person is a fair coin.

    Only the second model saw the person, so its ledger is the claim; the labels 0 and 1 of one record are an
    exchange.
    """
    generator, fit = np.random.default_rng(5), private_regression(epsilon)
    pairs, rows, labels = [], [], generator.integers(0, 2, 200)
    for label in labels.tolist():
        inputs = generator.normal(size=(41, 3))
        classes = (inputs[:, 0] > 0).astype(int)
        classes[-1] = label
        before, after = fit(inputs[:-1], classes[:-1]), fit(inputs, classes)
        pairs.append(ModelPair(see(before), see(after)))
        rows.append(inputs[-1])
    targets = Records(np.array(rows), labels)
    found = ModelDifferencing().run_labels(pairs, targets, blind=np.zeros(200, dtype=int))
    measured = measure_recoveries(replace(found, candidates=2))
    ceiling = measured.ceiling(account(after.ledger_))
    assert ceiling < 1
    assert not surely_above(found.hits, ceiling)
