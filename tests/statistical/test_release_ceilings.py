"""Attacks on tables with a proof stay below its ceiling, and audits of them claim no breach.

Each table is drawn from the counts of a histogram with Gaussian noise, σ = 1 for one row more or fewer. A report on a sound
release is called broken with a probability of at most 5 %; over 200 releases, more than 20 have a probability of 6e-4.
"""

import numpy as np
import pytest
from scipy.stats import binom

import privet
from privet.events import Gaussian
from privet.reporting.facts import Standing

AGES, DISEASES, ROWS = 8, 4, 120
LEDGER = privet.Ledger(privet.AddRemove()).spend("histogram", Gaussian(1.0))


def draw_people(coins):
    ages = coins.integers(0, AGES, ROWS)
    return {"age": ages, "disease": (ages + coins.geometric(0.5, ROWS)) % DISEASES}


def publish(people, coins, *, noise):
    counts = np.bincount(people["age"] * DISEASES + people["disease"], minlength=AGES * DISEASES)
    noisy = np.maximum(counts + noise * coins.normal(size=counts.shape), 0.0)
    cells = coins.choice(AGES * DISEASES, ROWS, p=noisy / noisy.sum())
    return {"age": cells // DISEASES, "disease": cells % DISEASES}


def audit_one(seed, *, noise):
    coins = np.random.default_rng(seed)
    original, control = draw_people(coins), draw_people(coins)
    table = publish(original, coins, noise=noise)
    more = {"original": original, "control": control, "ledger": LEDGER, "seed": seed}
    return privet.audit_release(table, quasi=["age"], secret="disease", **more).audits[0]


def count_broken(releases):
    audits = [audit_one(seed, noise=1.0) for seed in range(releases)]
    above = sum(each.is_above_ceiling for audit in audits for each in audit.recoveries)
    return sum(audit.standing is Standing.BROKEN for audit in audits), above


@pytest.mark.filterwarnings("ignore:'control' has more rows")
def test_a_sound_release_breaks_no_claim():
    assert count_broken(3) == (0, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'control' has more rows")
def test_two_hundred_sound_releases():
    broken, above = count_broken(200)
    assert max(broken, above) <= binom.ppf(0.999, 200, 0.05)


def test_a_table_that_is_copied_breaks_the_claim():
    """Power: the original itself, published under the same claim."""
    coins = np.random.default_rng(3)
    rows = {"age": np.arange(400), "disease": coins.integers(0, DISEASES, 400)}
    original, control = (
        {name: values[part] for name, values in rows.items()} for part in (slice(0, 200), slice(200, 400))
    )
    more = {"original": original, "control": control, "ledger": LEDGER}
    found = privet.audit_release(original, quasi=["age"], secret="disease", **more).audits[0]
    assert found.standing is Standing.BROKEN
