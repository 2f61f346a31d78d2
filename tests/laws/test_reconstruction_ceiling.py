"""No reconstruction of a differentially private release succeeds more often than the ledger's ceiling.

Everybody's bit enters random subset sums that are released with the noise of a plan. The ledger protects one
person with all of their answers, so the claim caps each hit on a bit: success ≤ claim.tpr(fpr=blind). Bits
are fair coins, so that a blind guess is right with probability ½, exactly. Success may exceed the ceiling by
chance; it must not by more than the Clopper & Pearson limit allows at 1 − 10⁻⁶. Bits of one release share
their noise, so the limit is taken over releases: each gives one bit at random.
"""

import numpy as np
import pytest

from privet.accounting import account
from privet.attacks.reconstruction import KnownOthers, LeastSquares, LinearProgram, SubsetSums
from privet.auditing.proportions import at_least
from privet.ledger import Entry, Ledger
from privet.randomness import SeededNoise
from privet.releasing import Budget, ReleasePlan, Sum
from privet.releasing.simulated_releases import simulate_releases

polars = pytest.importorskip("polars")

SURE = 1e-6


def released_sums(generator, people, sums, epsilon, delta, noise, *, break_noise=1.0):
    """Bits, subsets, noisy sums of one release and the claim of its ledger."""
    bits = generator.integers(0, 2, people)
    queries = generator.random((sums, people)) < 0.5
    columns = {f"q{number}": (row * bits).tolist() for number, row in enumerate(queries)}
    statistics = tuple((name, Sum(name, 0, 1)) for name in columns)
    plan = ReleasePlan(
        statistics=statistics, unit=None, budget=Budget(epsilon=epsilon * break_noise, delta=delta)
    )
    answers = simulate_releases(plan, polars.DataFrame(columns), times=1, noise=noise)
    honest = ReleasePlan(statistics=statistics, unit=None, budget=Budget(epsilon=epsilon, delta=delta))
    claim = account(Ledger(honest.relation, tuple(map(Entry, columns, honest.events))))
    return bits, queries, np.array([answers[name][0, 0] for name in columns]), claim


def play(attack, releases, *, people, sums, epsilon, delta=0.0, seed=0, break_noise=1.0):
    """One bit of each release: hit or miss; and the ceiling."""
    generator, noise = np.random.default_rng(seed), SeededNoise(seed)
    hits, shares, claim = [], [], None
    for _ in range(releases):
        bits, queries, answers, claim = released_sums(
            generator, people, sums, epsilon, delta, noise, break_noise=break_noise
        )
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


@pytest.mark.slow
@pytest.mark.parametrize("attack", [LeastSquares(), LinearProgram()], ids=lambda attack: attack.name)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.0), (2.0, 0.0), (2.0, 1e-5), (8.0, 1e-5)])
def test_two_hundred_releases_stay_below_the_ceiling(attack, epsilon, delta):
    hits, share, ceiling = play(attack, 200, people=12, sums=24, epsilon=epsilon, delta=delta)
    assert not surely_above(hits, ceiling)
    assert share <= ceiling
