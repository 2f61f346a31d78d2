"""No linkage attack succeeds more often than the claim of a private release allows: 200 simulated releases each.

Each cell of a table is randomised (k-ary randomised response), so that a row is ε-private with ε the sum over its cells, and one person
in place of another moves one row (replace-one adjacency). A fair coin decides for each target whether the row is theirs or
somebody else's.
"""

import numpy as np
import pytest

import privet
from privet import events
from privet.attacks.linkage.histories import Histories, HistoryLikelihood, Scoreboard
from privet.attacks.linkage.records import ExactComparison, RecordLinkage
from privet.auditing import measure_recoveries
from privet.published_tables import PublishedTable
from privet.recoveries import Recoveries

pytestmark = pytest.mark.slow

RELEASES, PEOPLE, VALUES = 200, 40, 8


def claim(epsilon, cells):
    truth = np.exp(epsilon) / (np.exp(epsilon) + VALUES - 1)
    return privet.account(
        events.Repeat(events.RandomizedResponse(truth, categories=VALUES), cells),
        adjacency=privet.ReplaceOne(),
    )


def randomize(cells, epsilon, generator):
    keep = np.exp(epsilon) / (np.exp(epsilon) + VALUES - 1)
    other = (cells + generator.integers(1, VALUES, cells.shape)) % VALUES
    return np.where(generator.random(cells.shape) < keep, cells, other)


def join(parts):
    first = parts[0]
    return Recoveries(
        first.attack,
        first.adversary,
        first.criterion,
        np.concatenate([part.hits for part in parts]),
        np.concatenate([part.members for part in parts]),
    )


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_record_linkage_stays_below_the_ceiling(epsilon):
    generator, columns, parts = np.random.default_rng(31), 4, []
    attack = RecordLinkage(comparisons={f"c{place}": ExactComparison() for place in range(columns)})
    for _ in range(RELEASES):
        known = generator.integers(0, VALUES, (PEOPLE, columns))
        members = generator.random(PEOPLE) < 0.5
        rows = np.where(members[:, None], known, generator.integers(0, VALUES, known.shape))
        tables = [
            PublishedTable.of({f"c{place}": column for place, column in enumerate(cells.T)})
            for cells in (randomize(rows, epsilon, generator), known)
        ]
        parts.append(attack.run(*tables, np.where(members, np.arange(PEOPLE), -1)))
    measured = measure_recoveries(join(parts), confidence=0.999)
    assert measured.success.lower <= measured.sure_ceiling(claim(epsilon, columns)) <= 1


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
@pytest.mark.parametrize("attack", [Scoreboard(threshold=0.0), HistoryLikelihood(wrong=0.4)])
def test_histories_stay_below_the_ceiling(attack, epsilon):
    """Each person has one item of each of six shelves; all are randomised, and the adversary knows all of them."""
    generator, shelves, parts = np.random.default_rng(32), 6, []
    who = np.repeat(np.arange(PEOPLE), shelves)
    shelf = np.tile(np.arange(shelves) * VALUES, PEOPLE)
    for _ in range(RELEASES):
        known = generator.integers(0, VALUES, (PEOPLE, shelves))
        members = generator.random(PEOPLE) < 0.5
        rows = np.where(members[:, None], known, generator.integers(0, VALUES, known.shape))
        released = Histories.of(who, randomize(rows, epsilon, generator).ravel() + shelf)
        knowledge = Histories.of(who, known.ravel() + shelf)
        parts.append(attack.run(released, knowledge, np.where(members, np.arange(PEOPLE), -1)))
    measured = measure_recoveries(join(parts), confidence=0.999)
    assert measured.success.lower <= measured.sure_ceiling(claim(epsilon, shelves)) <= 1
    if epsilon > 1:
        assert measured.success.value > 1 / PEOPLE  # it does find people
