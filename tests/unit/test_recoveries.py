"""The nouns of recoveries: hits by a criterion fixed beforehand, the coin joined afterwards, exhibits that stay closed."""

import numpy as np
import pytest

from privet.errors import InvalidArgument
from privet.recoveries import Criterion, Exhibit, Picture, Recoveries, RecoveryGame
from privet.views import Adversary

ADVERSARY = Adversary(sees="the confidences", knows="the other columns", wants="the secret")
COIN = np.array([True, False, True, False])


def recoveries(**changes):
    return Recoveries(
        **{"attack": "a", "adversary": ADVERSARY, "criterion": "exact", "hits": COIN, "members": COIN}
        | changes
    )


def test_hits_are_distances_within_the_threshold_and_nan_misses():
    criterion = Criterion("near", lambda found, truth: np.abs(found - truth)[:, 0], 0.5)
    game = RecoveryGame(np.zeros((4, 1)), COIN, criterion=criterion)
    found = game.judge(np.array([[0.5], [0.51], [np.nan], [0.0]]), "a", adversary=ADVERSARY)
    assert found.hits.tolist() == [True, False, False, True]
    assert found.members.tolist() == COIN.tolist()
    assert found.criterion == "near"


@pytest.mark.parametrize("kind", [str, object, int])
def test_exact_values_of_every_type(kind):
    secrets = np.array(["1", "2", "3", "4"]).astype(kind)
    found = RecoveryGame(secrets, COIN).judge(secrets[[0, 1, 2, 2]], "a", adversary=ADVERSARY)
    assert found.hits.tolist() == [True, True, True, False]


def test_the_blind_guess_is_judged_by_the_same_criterion():
    game = RecoveryGame(np.array([1.0, 2, 3, 4]), None, np.array([2.0, 2, 2, 2]), Criterion.within(1))
    found = game.judge(np.array([1.0, 2, 3, 9]), "a", adversary=ADVERSARY)
    assert found.blind_hits.tolist() == [True, True, True, False]
    assert found.blind_distances.tolist() == [1, 0, 1, 2]
    assert found.members is None
    assert found.inside.all()


def test_an_attack_gets_no_way_to_the_coin_through_the_criterion():
    """The distance sees secrets and answers, so that the coin can only be joined afterwards."""
    seen = []
    criterion = Criterion("spy", lambda *arguments: seen.append(arguments) or np.zeros(4), 0)
    RecoveryGame(np.arange(4), COIN, criterion=criterion).judge(np.arange(4), "a", adversary=ADVERSARY)
    assert [len(arguments) for arguments in seen] == [2]


class TestScores:
    def test_hits_come_first_and_confidence_orders_them(self):
        scores = recoveries(hits=[1, 1, 0, 0], confidence=[0.1, 0.7, 0.7, 0.1]).to_scores()
        assert np.argsort(-scores.values).tolist() == [1, 0, 3, 2]

    def test_without_confidence_there_are_two_values(self):
        assert set(recoveries().to_scores().values) == {1.0, -1.0}

    def test_infinite_confidence_has_a_rank(self):
        values = recoveries(hits=[1, 1, 1, 0], confidence=[-np.inf, np.inf, 0, 0]).to_scores().values
        assert values.tolist() == [1, 3, 2, -2]

    def test_without_a_coin_it_is_refused(self):
        with pytest.raises(InvalidArgument, match="'members' must be known"):
            recoveries(members=None, blind_hits=COIN).to_scores()


class TestExhibits:
    def judged(self, **options):
        game = RecoveryGame(np.arange(10.0), np.arange(10) < 8, np.zeros(10), Criterion.within(2))
        return game.judge(
            np.arange(10.0) * 2, "a", adversary=ADVERSARY, draw=lambda row: f"{row:g}", **options
        )

    def test_they_go_evenly_from_the_nearest_to_the_farthest(self):
        exhibits = self.judged(shown=3).exhibits
        assert [exhibit.truth for exhibit in exhibits] == ["0", "4", "7"]
        assert [exhibit.recovered for exhibit in exhibits] == ["0", "8", "14"]
        assert exhibits[-1].caption == "miss; number 8 of 8 by nearness"
        assert all(exhibit.blind == "0" and exhibit.member for exhibit in exhibits)

    @pytest.mark.parametrize(("shown", "there"), [(0, 0), (1, 1), (2, 2), (8, 8), (99, 8)])
    def test_as_many_as_asked_for(self, shown, there):
        assert len(self.judged(shown=shown).exhibits) == there

    def test_nothing_private_is_printed(self):
        found = self.judged()
        assert "14" not in repr(found) + repr(found.exhibits)
        assert repr(Exhibit("the truth", "a guess")) == "Exhibit(text, confidential)"


class TestPictures:
    def test_values_outside_are_clipped(self):
        assert Picture(np.array([[-1.0, 0.5], [np.inf, np.nan]])).pixels.tolist() == [[0, 128], [255, 128]]

    def test_wide_integers_and_one_channel(self):
        assert Picture(np.array([[[300], [-3]]])).pixels.tolist() == [[255, 0]]

    @pytest.mark.parametrize("shape", [(3, 8, 8), (8,), (0, 4), (2, 2, 2, 3)])
    def test_other_shapes_are_refused(self, shape):
        with pytest.raises(InvalidArgument, match="'pixels' must be height × width"):
            Picture(np.zeros(shape))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: recoveries(members=None), "'members' or the blind guesses must be given"),
        (lambda: recoveries(members=np.ones(4)), "got no target that is left out"),
        (lambda: recoveries(members=np.zeros(4)), "got no target that is in the data"),
        (lambda: recoveries(members=[1, 0]), "one entry for each of 4 targets"),
        (lambda: recoveries(members=[0, 1, 2, 3]), "'members' must be True or False"),
        (lambda: recoveries(hits=[]), "'hits' must be a hit or a miss"),
        (lambda: recoveries(confidence=[1, 2, np.nan, 3]), "'confidence' must be numbers, got NaN"),
        (lambda: recoveries(candidates=1), "'candidates' must be at least 2"),
        (lambda: RecoveryGame(np.zeros(0), None), "truth of at least one target"),
        (lambda: RecoveryGame(np.zeros(4)), "'members' or the blind guesses"),
        (lambda: RecoveryGame(np.zeros(4), COIN, np.zeros(3)), "'blind' must have one row for each of 4"),
        (
            lambda: RecoveryGame(np.zeros(4), COIN).judge(np.zeros(3), "a", adversary=ADVERSARY),
            "'recovered' must have one row",
        ),
        (
            lambda: RecoveryGame(np.zeros(4), COIN).judge(np.zeros((4, 2)), "a", adversary=ADVERSARY),
            "shape of the secrets",
        ),
        (lambda: Criterion.within(-1.0), "'tolerance' must be at least 0"),
        (lambda: Criterion("x", lambda a, b: a, float("nan")), "'at_most' must be a number"),
        (
            lambda: RecoveryGame(np.zeros((4, 2)), COIN, criterion=Criterion("x", lambda a, b: a, 0.0)).judge(
                np.zeros((4, 2)), "a", adversary=ADVERSARY
            ),
            "'distance' must give one number for each of 4 targets",
        ),
    ],
)
def test_refusals(make, sentence):
    with pytest.raises(InvalidArgument, match=sentence):
        make()


def test_a_part_of_the_targets():
    found = recoveries(confidence=[1, 2, 3, 4], groups=["a", "b", "a", "b"], hits=[1, 1, 0, 0])
    part = found.take(np.array([3, 0]))
    assert (part.hits.tolist(), part.members.tolist(), part.groups.tolist()) == (
        [False, True],
        [False, True],
        ["b", "a"],
    )
    assert part.confidence.tolist() == [4, 1]
