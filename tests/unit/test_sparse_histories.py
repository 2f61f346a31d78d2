"""Sparse histories: the scoreboard, the likelihood, calibration, the game, and what is refused."""

import numpy as np
import pytest

from privet.attacks.linkage.histories import (
    Histories,
    HistoryGame,
    HistoryLikelihood,
    KnownItems,
    Scoreboard,
)
from privet.attacks.linkage.histories.joined_items import join_items
from privet.auditing import BaselineKind, measure_recoveries
from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable
from privet.randomness import experiment

ATTACKS = [Scoreboard(), HistoryLikelihood()]


def ratings(people=300, items=400, seed=0):
    """Films of very different popularity, half stars, days over three years."""
    generator = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, items + 1) ** 0.8
    person, item = [], []
    for who in range(people):
        seen = generator.choice(items, generator.integers(8, 40), replace=False, p=share / share.sum())
        person += [who] * len(seen)
        item += seen.tolist()
    count = len(person)
    return Histories.of(
        person, item, value=generator.integers(1, 11, count) / 2, day=generator.uniform(0, 1000, count)
    )


def scores_by_loops(released, knowledge):
    """Scoreboard-RH as it is written in the paper, with log(1 + supp)."""
    entries = {
        (p, i): (v, d)
        for p, i, v, d in zip(released.person, released.item, released.value, released.day, strict=True)
    }
    answer = np.zeros((len(knowledge.people), len(released.people)))
    for target, item, value, day in zip(
        knowledge.person, knowledge.item, knowledge.value, knowledge.day, strict=True
    ):
        having = [p for p in range(len(released.people)) if (p, item) in entries]
        for person in having:
            other_value, other_day = entries[person, item]
            similar = np.exp(-abs(value - other_value) / 1.5) + np.exp(-abs(day - other_day) / 30)
            answer[target, person] += similar / np.log(1 + len(having))
    return answer


def test_the_scoreboard_is_that_of_the_paper():
    histories = ratings(people=60, items=80)
    knowledge = KnownItems(4, wrong=1, day_error=14).draw(histories, np.arange(20), experiment(1))
    expected = scores_by_loops(histories, knowledge)
    attack = Scoreboard()
    (joined,) = join_items(histories, knowledge)
    assert attack.score(joined, histories) == pytest.approx(expected)
    found = attack.identify(histories, knowledge)
    ordered = np.sort(expected, axis=1)
    eccentricity = (ordered[:, -1] - ordered[:, -2]) / expected.std(axis=1)
    assert found.confidence == pytest.approx(eccentricity)
    assert np.array_equal(found.people, np.where(eccentricity > 1.5, expected.argmax(axis=1), -1))


def log_odds_by_loops(released, knowledge, attack):
    """The formula in the docstring of ``likelihood``, person by person."""
    entries = {
        (p, i): (v, d)
        for p, i, v, d in zip(released.person, released.item, released.value, released.day, strict=True)
    }
    people, answer = range(len(released.people)), []
    for target in range(len(knowledge.people)):
        ratios = np.ones(len(people))
        for known in np.flatnonzero(knowledge.person == target):
            item = knowledge.item[known]
            having = [p for p in people if (p, item) in entries]
            factors = np.full(len(people), attack.wrong)
            for person in having:
                ratio = len(released) / len(having) / released.sizes[person]
                for place, (mine, everybody, scale) in enumerate(
                    (
                        (knowledge.value[known], released.value, attack.value_scale),
                        (knowledge.day[known], released.day, attack.day_scale),
                    )
                ):
                    near = {p: np.exp(-abs(entries[p, item][place] - mine) / scale) for p in having}
                    anywhere = np.exp(-np.abs(everybody - mine) / scale).mean()
                    ratio *= near[person] / ((sum(near.values()) + anywhere) / (len(having) + 1))
                factors[person] += (1 - attack.wrong) * ratio
            ratios *= factors
        best = int(ratios.argmax())
        answer.append(np.log(ratios[best] / (len(people) + ratios.sum() - ratios[best])))
    return np.array(answer)


def test_the_likelihood_is_that_of_its_docstring():
    histories = ratings(people=40, items=60)
    knowledge = KnownItems(3, wrong=1, day_error=14).draw(histories, np.arange(15), experiment(1))
    attack = HistoryLikelihood()
    assert len(np.unique(histories.day)) < 1001  # no quantiles
    found = attack.identify(histories, knowledge)
    assert found.confidence == pytest.approx(log_odds_by_loops(histories, knowledge, attack))


def test_parts_of_targets_give_the_same_scores(monkeypatch):
    histories = ratings(people=60, items=80)
    knowledge = KnownItems(3).draw(histories, np.arange(30), experiment(2))
    for attack in ATTACKS:
        whole = attack.identify(histories, knowledge)
        with monkeypatch.context() as patched:
            patched.setattr("privet.attacks.linkage.histories.joined_items._MOST_ROWS", 40)
            assert len(list(join_items(histories, knowledge))) > 3
            parts = attack.identify(histories, knowledge)
        assert np.array_equal(whole.best, parts.best)
        assert parts.confidence == pytest.approx(whole.confidence)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_the_order_of_entries_and_people_does_not_matter(attack):
    histories = ratings()
    game = HistoryGame.draw(histories, KnownItems(4, day_error=14), targets=100, generator=experiment(3))
    plain = attack.identify(game.released, game.knowledge)
    generator = np.random.default_rng(4)
    entries = game.released.take(generator.permutation(len(game.released)))
    renamed = generator.permutation(len(histories.people))
    moved = Histories(
        renamed[entries.person], entries.item, entries.value, entries.day, histories.people, histories.items
    )
    found = attack.identify(moved, game.knowledge)
    assert np.array_equal(found.best, np.where(plain.best >= 0, renamed[plain.best], -1))
    assert found.confidence == pytest.approx(plain.confidence)


def test_the_likelihood_finds_more_and_both_say_how_many_absent_ones():
    histories = ratings()
    known = KnownItems(4, day_error=14)
    game = HistoryGame.draw(histories, known, targets=200, generator=experiment(5))
    measured = [measure_recoveries(attack.play(game)) for attack in ATTACKS]
    assert measured[1].success.value >= measured[0].success.value > 0.6
    assert all(each.baseline_kind is BaselineKind.LEFT_OUT for each in measured)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_calibration_holds_the_rate_of_absent_targets(attack):
    """Three games of 250 absent targets in expectation at a rate of 10 %: more than 14 % of 750 has probability < 0.1 %, with the
    error of a threshold from about 350 decoys (standard deviation 1.6 %) counted in."""
    histories = ratings(people=600)
    known = KnownItems(3, day_error=14)
    absent = []
    for seed in range(3):
        game = HistoryGame.draw(histories, known, targets=500, generator=experiment(50 + seed))
        calibrated = attack.calibrate(game.released, known, absent_rate=0.1, seed=seed)
        recoveries = calibrated.play(game)
        absent.append(recoveries.hits[game.truth < 0].mean())
        assert recoveries.hits[game.truth >= 0].mean() > 0.4
    assert np.mean(absent) < 0.14 + 0.02
    if isinstance(attack, Scoreboard):  # the threshold of the paper does not hold it
        assert attack.play(game).hits[game.truth < 0].mean() > 0.2


def test_a_threshold_that_few_decoys_cannot_prove_claims_nobody():
    histories = ratings(people=15)
    strict = Scoreboard().calibrate(histories, KnownItems(2), absent_rate=0.01)
    assert strict.threshold == np.inf
    game = HistoryGame.draw(histories, KnownItems(2), targets=10, generator=experiment(0))
    assert not strict.play(game).hits.any()


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_twins_are_never_claimed(attack):
    histories = ratings(people=80)
    twin = np.flatnonzero(histories.person < 20)
    doubled = Histories(
        np.concatenate([histories.person, histories.person[twin] + 80]),
        np.concatenate([histories.item, histories.item[twin]]),
        np.concatenate([histories.value, histories.value[twin]]),
        np.concatenate([histories.day, histories.day[twin]]),
        np.arange(100),
        histories.items,
    )
    knowledge = KnownItems(6).draw(doubled, np.arange(40), experiment(1))
    found = attack.identify(doubled, knowledge)
    assert (found.people[:20] == -1).all()
    assert (found.best[:20] == -1).all()
    assert (found.people[20:] == np.arange(20, 40)).mean() > 0.5


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_items_that_everybody_has_tell_nothing(attack):
    baskets = Histories.of(np.repeat(np.arange(50), 3), np.tile(np.arange(3), 50))
    knowledge = KnownItems(2).draw(baskets, np.arange(10), experiment(0))
    assert (attack.identify(baskets, knowledge).people == -1).all()


def test_baskets_without_values_or_days():
    histories = ratings().without(values=True, days=True)
    game = HistoryGame.draw(histories, KnownItems(6), targets=100, generator=experiment(6))
    assert game.knowledge.value is None
    assert game.knowledge.day is None
    for attack in ATTACKS:
        assert measure_recoveries(attack.play(game)).success.value > 0.5


def test_the_best_of_several_visits_counts():
    visits = Histories.of(["a", "a", "b"], ["cafe", "cafe", "cafe"], day=[0.0, 100.0, 50.0])
    assert visits.supports.tolist() == [2]
    knowledge = Histories.of(["target"], ["cafe"], day=[100.0])
    (joined,) = join_items(visits, knowledge)
    scores = Scoreboard().score(joined, visits)[0]
    assert scores == pytest.approx(np.array([1.0, np.exp(-50 / 30)]) / np.log(3))


def test_what_is_drawn():
    histories = ratings()
    known = KnownItems(5, wrong=2, day_error=7, value_error=1)
    game = HistoryGame.draw(histories, known, targets=150, generator=experiment(8))
    people = game.truth[game.truth >= 0]
    assert not np.isin(np.setdiff1d(np.arange(300), people), game.truth).any()
    assert (game.released.sizes[people] > 0).all()
    assert 50 < len(people) < 100  # a fair coin: outside with probability < 1e-4
    own = {
        (p, i): (v, d)
        for p, i, v, d in zip(histories.person, histories.item, histories.value, histories.day, strict=True)
    }
    for target in np.flatnonzero(game.truth >= 0)[:20]:
        mine = game.knowledge.person == target
        entries = [(game.truth[target], item) in own for item in game.knowledge.item[mine]]
        assert entries == [False, False, True, True, True]
        for item, value, day in zip(
            game.knowledge.item[mine][2:],
            game.knowledge.value[mine][2:],
            game.knowledge.day[mine][2:],
            strict=True,
        ):
            true_value, true_day = own[game.truth[target], item]
            assert abs(value - true_value) <= 1
            assert value * 2 == round(value * 2)
            assert 0 < abs(day - true_day) <= 7
    absent = np.flatnonzero(game.released.sizes == 0)
    assert len(absent) == (game.truth < 0).sum()


def test_histories_of_a_table_and_items_by_name():
    table = PublishedTable.of(
        {
            "user": ["a", "a", "b", None],
            "film": ["Alien", "Brazil", "Cube", "Cube"],
            "stars": [5.0, 3.0, None, 1.0],
            "when": np.array(["2005-01-02", "2005-03-04", "2006-01-01", "2006-01-01"], dtype="datetime64[D]"),
        }
    )
    histories = Histories.read(table, person="user", item="film", value="stars", day="when")
    assert repr(histories) == "Histories(1 people, 2 items, 2 entries, with values and days)"
    assert np.diff(histories.day).tolist() == [61.0]
    everything = Histories.read(table, person="user", item="film")
    known = Histories.of(["x", "x"], ["Cube", "Dune"])  # an item that nobody has
    assert everything.people[HistoryLikelihood(threshold=-9.0).identify(everything, known).best].tolist() == [
        "b"
    ]
    with pytest.raises(InvalidArgument, match="'value' must be a column of numbers or dates, got text"):
        Histories.read(table, person="user", item="film", value="film")


def test_refusals():
    histories = ratings(people=30)
    known = KnownItems(3)
    knowledge = known.draw(histories, np.arange(4), experiment(0))
    attack = Scoreboard()
    with pytest.raises(InvalidArgument, match="'truth' must be a released person for each of 4 targets"):
        attack.run(histories, knowledge, np.zeros(3, dtype=np.int64))
    with pytest.raises(InvalidArgument, match="'truth' must be numbers of released people below 30"):
        attack.run(histories, knowledge, np.array([0, 1, 2, 30]))
    with pytest.raises(InvalidArgument, match="'knowledge' must name items as the release does"):
        attack.identify(histories, Histories.of(["x"], ["Alien"]))
    with pytest.raises(InvalidArgument, match="'knowledge' must hold at least one known item"):
        attack.identify(histories, knowledge.take(np.arange(0)))
    with pytest.raises(InvalidArgument, match="'released' must hold at least one entry"):
        attack.identify(histories.take(np.arange(0)), knowledge)
    with pytest.raises(InvalidArgument, match="'person' must name somebody"):
        Histories.of([], [])
    with pytest.raises(InvalidArgument, match="'value' must be finite.*Leave these entries out"):
        Histories.of(["a"], ["x"], value=[np.nan])
    with pytest.raises(InvalidArgument, match=r"'value' must be below 1e\+100 in size"):
        Histories.of(["a"], ["x"], value=[-1e308])
    with pytest.raises(InvalidArgument, match="'table' must have entries without missing values, got none"):
        Histories.read(
            PublishedTable.of({"who": [], "film": [], "stars": []}), person="who", item="film", value="stars"
        )
    with pytest.raises(InvalidArgument, match="'day' must have one entry for each of 1 entries"):
        Histories.of(["a"], ["x"], day=[1.0, 2.0])
    with pytest.raises(InvalidArgument, match="'people' must have 100 entries each"):
        KnownItems(100).draw(histories, np.arange(2), experiment(0))
    with pytest.raises(
        InvalidArgument, match="'targets' must be at most the number of people with 3 entries"
    ):
        HistoryGame.draw(histories, known, targets=31, generator=experiment(0))
    with pytest.raises(InvalidArgument, match="'threshold' must be at least 0"):
        Scoreboard(threshold=-1.0)
    with pytest.raises(InvalidArgument, match="'known' must be at most the entries of somebody"):
        attack.calibrate(histories, KnownItems(100))
    everybody = Histories.of(np.repeat(np.arange(5), 2), np.tile(np.arange(2), 5))
    with pytest.raises(InvalidArgument, match="'wrong' must be 0 where a person has nearly all items"):
        KnownItems(2, wrong=1).draw(everybody, np.arange(2), experiment(0))
