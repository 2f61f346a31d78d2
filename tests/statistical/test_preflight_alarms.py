"""How often preflight warns of fair challenges, and how often it misses tricks.

All checks against chance together may warn of 1 in 50 fair challenges. The short test has 22 challenges of several
kinds, of which 0.44 may warn; five have a chance of 1e-4 or less. The long one has 240, on real data where they are
at hand; 16 of them (1 in 15) have a chance of 5e-5.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from privet.attacks.preflight import (
    exact_duplicates,
    label_shift,
    membership_without_a_model,
    near_duplicates,
)
from privet.checks import Outcome
from privet.scores import Challenge, Records

DATA = Path(__file__).parents[3] / "shared" / "data"


def warns(inputs, labels, coin, seed):
    challenge = Challenge(Records(inputs, labels), coin)
    checks = (
        label_shift(challenge, seed=seed),
        near_duplicates(challenge, fpr=1e-3, seed=seed),
        membership_without_a_model(challenge, seed=seed),
        exact_duplicates(challenge, seed=seed),
    )
    return any(check.outcome is Outcome.WARNED for check in checks)


def draw(inputs, labels, count, generator):
    chosen = generator.permutation(len(inputs))[: 2 * count]
    return inputs[chosen], labels[chosen], generator.permutation(np.arange(len(chosen)) % 2 == 0)


def make(kind, count, generator):
    records = 2 * count
    coin = generator.permutation(np.arange(records) % 2 == 0)
    labels = generator.integers(0, 3, records)
    if kind == "ties":
        return generator.integers(0, 3, (records, 6)), labels, coin
    if kind == "constant columns":
        return np.c_[generator.normal(size=(records, 4)), np.ones((records, 3))], labels, coin
    if kind == "one-hot":
        marks = [np.eye(size)[generator.integers(0, size, records)] for size in (3, 5, 2, 8)]
        return np.concatenate(marks, axis=1), labels, coin
    if kind == "missing":
        table = generator.normal(size=(records, 8))
        table[generator.random(table.shape) < 0.1] = np.nan
        return table, labels, coin
    if kind == "far out":
        return generator.standard_cauchy((records, 10)), labels, coin
    if kind == "uneven":
        return (
            generator.normal(size=(records, 5)),
            labels,
            generator.permutation(np.arange(records) < records // 5),
        )
    words = np.array(["a", "b", "c", "dd", "e", "f"])
    if kind == "texts":
        return np.array([" ".join(generator.choice(words, 14)) for _ in range(records)]), labels, coin
    table = np.empty((records, 3), dtype=object)  # mixed
    table[:, 0], table[:, 1] = (
        generator.choice(["x", "y", "?"], records),
        generator.normal(size=records).round(2),
    )
    table[:, 2] = [None if number == 2 else words[number] for number in generator.integers(0, 3, records)]
    return table, labels, coin


KINDS = ["ties", "constant columns", "one-hot", "missing", "far out", "uneven", "texts", "mixed"]
SETS = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}


def test_fair_challenges_are_seldom_warned_of():
    alarms = 0
    for number, kind in enumerate(KINDS):
        for count in (6, 50):
            generator = np.random.default_rng([number, count])
            alarms += warns(*make(kind, count, generator), seed=count)
    for number, load in enumerate(SETS.values()):
        for count in (20, 80):
            generator = np.random.default_rng([50 + number, count])
            data = load()
            alarms += warns(*draw(data.data, data.target, count, generator), seed=count)
    assert alarms < 5


def real_sets():
    """Real records as (name, inputs, labels); those of the shared folder where it is there."""
    found = [(name, load().data, load().target) for name, load in SETS.items()]
    if not DATA.exists():
        return found
    sys.path.insert(0, str(DATA))
    from load import load as read

    mnist, cifar, location = read("mnist"), read("cifar10"), read("location30")
    found.append(("mnist", mnist["x_train"][:10000], mnist["y_train"][:10000]))
    found.append(("cifar", cifar["x_train"], cifar["y_train"]))
    inputs, labels = (location[name] for name in sorted(location, key=lambda name: -location[name].ndim)[:2])
    found.append(("location", inputs, labels))
    return found


@pytest.mark.slow
def test_fair_challenges_of_real_data_are_seldom_warned_of():
    alarms = []
    sets = real_sets()
    for number, (_, inputs, labels) in enumerate(sets):
        for seed in range(-(-120 // len(sets))):
            generator = np.random.default_rng([100 + number, seed])
            count = (25, 100, 400)[seed % 3]
            alarms.append(warns(*draw(inputs, labels.astype(np.int64), count, generator), seed=seed))
    for number, kind in enumerate(KINDS):
        for seed in range(15):
            generator = np.random.default_rng([200 + number, seed])
            alarms.append(warns(*make(kind, (8, 50, 300)[seed % 3], generator), seed=seed))
    assert len(alarms) >= 240
    assert sum(alarms) < len(alarms) / 15


def mark(inputs, labels, coin, generator):
    flat = inputs.reshape(len(inputs), -1)
    flat[~coin, generator.integers(flat.shape[1])] = flat.max()


def shuffle_labels(inputs, labels, coin, generator):
    some = generator.permutation(np.flatnonzero(~coin))[: int((~coin).sum()) // 5]
    labels[some] = labels[generator.permutation(some)]


def place_copies(inputs, labels, coin, generator):
    """A fifth of the non-members are members, moved by a pixel and with noise; of marks, three are turned."""
    count = int((~coin).sum()) // 5
    members, others = (generator.permutation(np.flatnonzero(side))[:count] for side in (coin, ~coin))
    copies = inputs[members].astype(np.float64)
    if inputs.ndim > 2:
        copies = np.roll(copies, (1, -1), axis=(1, 2)) + 0.02 * copies.std() * generator.normal(
            size=copies.shape
        )
    elif set(np.unique(inputs)) == {0, 1}:
        for row in copies:
            turned = generator.integers(0, len(row), 3)
            row[turned] = 1 - row[turned]
    else:
        copies += 0.02 * inputs.std(axis=0) * generator.normal(size=copies.shape)
    low, high = inputs.min(), inputs.max()
    inputs[others] = np.clip(copies, low, high).round() if inputs.dtype.kind in "iu" else copies
    labels[others] = labels[members]


@pytest.mark.slow
@pytest.mark.parametrize("trick", [mark, shuffle_labels, place_copies])
def test_tricks_are_found_in_nine_of_ten_trials(trick):
    sets = [chosen for chosen in real_sets() if chosen[0] in ("digits", "mnist", "cifar", "location")]
    if len(sets) < 4:
        pytest.skip("needs ../shared/data with mnist, cifar10 and location30")
    for number, (name, inputs, labels) in enumerate(sets):
        found = 0
        for seed in range(10):
            generator = np.random.default_rng([300 + number, seed])
            own, classes, coin = draw(
                inputs, labels.astype(np.int64), 800 if name != "mnist" else 400, generator
            )
            trick(own, classes, coin, generator)
            found += warns(own, classes, coin, seed)
        # A check that finds 19 of 20 misses more than two of ten in 1 % of cases; the seeds are fixed.
        assert found >= 8, name
