"""Attacks with reference models where they are few, one-sided, constant or unfit."""

import numpy as np
import pytest
from scipy.stats import norm

from privet.attacks import (
    BASE,
    RMIA,
    Attack,
    BaVarIA,
    Ensemble,
    LiRA,
    Logits,
    Moderated,
    OfflineBASE,
    OfflineBaVarIA,
    OfflineLiRA,
    OfflineRMIA,
    PerRecord,
    Population,
    Shokri,
    identity,
)
from privet.attacks.membership.lira import both_means
from privet.attacks.membership.pairwise import count_dominated
from privet.attacks.membership.reference_attack import summarize_in, summarize_out
from privet.attacks.membership.signals import signals
from privet.attacks.membership.variances import pooled_variance
from privet.errors import InvalidArgument
from privet.scores import Challenge, Records, References
from privet.views import BlackBox, WhiteBox

ONLINE = [LiRA, lambda r: LiRA(r, PerRecord()), RMIA, BASE, BaVarIA, Ensemble, lambda r: LiRA(r, Moderated())]
OFFLINE = [OfflineLiRA, lambda r: OfflineLiRA(r, PerRecord()), OfflineRMIA, OfflineBASE, OfflineBaVarIA]


def study(models=4, records=20, queries=1, seed=0):
    rng = np.random.default_rng(seed)
    half = np.stack([rng.permutation(records) < records // 2 for _ in range(max(1, models // 2))])
    members = np.concatenate([half, ~half])[:models]
    shape = (models, queries, records)
    return References(rng.normal(size=shape) + members[:, None, :], members), rng.normal(
        size=(queries, records)
    )


class TestFewModels:
    @pytest.mark.parametrize("make", ONLINE + OFFLINE)
    def test_two_are_enough(self, make):
        references, target = study(models=2)
        scores = make(references).judge(target)
        assert np.isfinite(scores).all()
        assert len(np.unique(scores)) == 20

    @pytest.mark.parametrize("make", OFFLINE)
    def test_one_that_saw_none_of_the_records_is_enough(self, make):
        signals_ = np.random.default_rng(1).normal(size=(1, 1, 20))
        references = References(signals_, np.zeros((1, 20), dtype=bool))
        target = signals_[0] + np.linspace(-1, 1, 20)
        scores = make(references).judge(target)
        assert np.isfinite(scores).all()
        assert scores[-1] > scores[0]

    @pytest.mark.parametrize("make", [LiRA, RMIA, BaVarIA])
    def test_one_side_alone_is_refused_online(self, make):
        references = References(np.zeros((3, 1, 5)), np.zeros((3, 5), dtype=bool))
        with pytest.raises(InvalidArgument, match=r"with and without a record.*[Oo]ffline"):
            make(references).judge(np.zeros((1, 5)))

    @pytest.mark.parametrize("make", [OfflineLiRA, OfflineRMIA, OfflineBASE])
    def test_records_that_all_models_saw_are_refused_offline(self, make):
        references, target = study()
        members = references.members.copy()
        members[:, 3] = True
        with pytest.raises(InvalidArgument, match="1 of 20 records"):
            make(References(references.signals, members)).judge(target)

    @pytest.mark.parametrize("make", ONLINE)
    @pytest.mark.parametrize("side", [True, False])
    def test_a_record_that_lacks_a_side_is_judged_online(self, make, side):
        references, target = study(models=6, records=40)
        members = references.members.copy()
        members[:, 3] = side
        scores = make(References(references.signals, members)).judge(target)
        assert np.isfinite(scores).all()
        # It is not thrown to an end of the order by what is missing.
        assert scores.min() <= scores[3] <= scores.max()

    def test_a_missing_mean_is_the_other_one_moved(self):
        signals_ = np.array([[[1.0, 2.0, 3.0]], [[0.0, 0.5, 3.5]]])
        members = np.array([[True, True, False], [False, False, False]])
        mean_in, mean_out = both_means(
            summarize_in(References(signals_, members)), summarize_out(References(signals_, members))
        )
        np.testing.assert_allclose(mean_in, [[1.0, 2.0, 3.25 + 1.25]])
        np.testing.assert_allclose(mean_out, [[0.0, 0.5, 3.25]])

    def test_variances_are_borrowed(self):
        rng = np.random.default_rng(2)
        records = 20000
        members = np.array([[True], [False], [False]]).repeat(records, axis=1)
        references = References(
            rng.normal(size=(1, 1, records)) * 5 + rng.normal(size=(3, 1, records)), members
        )
        trained, left_out = summarize_in(references), summarize_out(references)
        assert pooled_variance(left_out, trained)[0, 0] == pytest.approx(1.0, rel=0.05)
        assert pooled_variance(trained, left_out)[0, 0] == pytest.approx(1.0, rel=0.05)

    def test_one_model_to_a_side_keeps_two_deviations(self):
        """IN scatters half as much as OUT over records, so its variance is a quarter; the noise of models is a fifth of each,
        and the true means are correlated by 0.85, as the estimate assumes. 20,000 records: within 5 %."""
        rng = np.random.default_rng(3)
        shared, own = rng.normal(size=(1, 20000)), rng.normal(size=(2, 20000))
        means = np.sqrt(0.85) * shared + np.sqrt(0.15) * own
        noise = np.sqrt(0.25) * rng.normal(size=(2, 20000))
        signals_ = (means + noise) * np.array([[1.0], [2.0]])
        members = np.array([[True], [False]]).repeat(20000, axis=1)
        pair = References(signals_[:, None, :], members)
        trained, left_out = summarize_in(pair), summarize_out(pair)
        assert pooled_variance(trained, left_out)[0, 0] == pytest.approx(0.25, rel=0.05)
        assert pooled_variance(left_out, trained)[0, 0] == pytest.approx(1.0, rel=0.05)
        assert pooled_variance(left_out, left_out)[0, 0] == pytest.approx(1.0, rel=0.05)  # a fifth of 5

    def test_lira_with_one_pair_is_the_published_global_variance(self):
        references, target = study(models=2, records=40)
        phi, members = references.signals[:, 0], references.members
        own_in, own_out = phi[:, members[0]], phi[:, ~members[0]]
        spread_in = np.std(np.concatenate([own_in[0], own_out[1]]))
        spread_out = np.std(np.concatenate([own_in[1], own_out[0]]))
        assert spread_in != pytest.approx(spread_out, rel=0.01)
        mean_in, mean_out = np.where(members[0], phi[0], phi[1]), np.where(members[0], phi[1], phi[0])
        expected = norm.logpdf(target[0], mean_in, spread_in) - norm.logpdf(target[0], mean_out, spread_out)
        np.testing.assert_allclose(LiRA(references).judge(target), expected, rtol=1e-9)


class TestConstant:
    @pytest.mark.parametrize("make", ONLINE + OFFLINE)
    def test_models_that_agree_on_everything(self, make):
        references = References(np.zeros((4, 1, 6)), study(models=4, records=6)[0].members)
        scores = make(references).judge(np.zeros((1, 6)))
        assert np.isfinite(scores).all()
        assert len(np.unique(scores)) == 1  # a tie is a tie

    @pytest.mark.parametrize("make", [*ONLINE[:2], *OFFLINE[:2]])
    def test_one_record_on_which_all_agree(self, make):
        references, target = study(models=8)
        signals_ = references.signals.copy()
        signals_[:, :, 5] = 1.0
        assert np.isfinite(make(References(signals_, references.members)).judge(target)).all()

    @pytest.mark.parametrize("make", ONLINE + OFFLINE)
    def test_extreme_signals(self, make):
        references, _ = study(models=4, records=6)
        target = np.array([[745.0, -745.0, 700.0, -700.0, 1e-300, 0.0]])
        big = References(np.sign(references.signals) * 745.0, references.members)
        assert np.isfinite(make(big).judge(target)).all()


class TestUnfit:
    @pytest.mark.parametrize("make", ONLINE + OFFLINE)
    def test_nan(self, make):
        references, target = study()
        target[0, 3] = np.nan
        with pytest.raises(InvalidArgument, match="NaN"):
            make(references).judge(target)

    @pytest.mark.parametrize("make", ONLINE + OFFLINE)
    def test_shape(self, make):
        references, target = study()
        with pytest.raises(InvalidArgument, match="queries × records"):
            make(references).judge(target[:, :-1])

    def test_other_records(self):
        references, _ = study()
        view = Logits(lambda rows: np.stack([rows[:, 0], -rows[:, 0]], axis=1))
        with pytest.raises(InvalidArgument, match="the 20 that the references cover, got 3"):
            LiRA(references).score(view, Records(np.ones((3, 1)), np.zeros(3, dtype=int)))

    def test_other_queries(self):
        references, _ = study(queries=2)
        view = Logits(lambda rows: np.stack([rows[:, 0], -rows[:, 0]], axis=1))
        with pytest.raises(InvalidArgument, match="the 2 that the references answered, got 1"):
            LiRA(references).score(view, Records(np.ones((20, 1)), np.zeros(20, dtype=int)))
        with pytest.raises(InvalidArgument, match="at least one query"):
            signals(view, Records(np.ones((20, 1)), np.zeros(20, dtype=int)), ())

    def test_parameters(self):
        references, _ = study()
        for make in (
            lambda: RMIA(references, gamma=0.0),
            lambda: OfflineRMIA(references, a=1.5),
            lambda: BaVarIA(references, prior_weight=0.0),
            lambda: OfflineBaVarIA(references, prior_weight=-1.0),
            lambda: OfflineBASE(references, scale=float("nan")),
            lambda: count_dominated(np.zeros(2), np.zeros(0)),
            lambda: Population(Records(np.zeros((3, 1))), references),
            lambda: Shokri(references, top=0),
        ):
            with pytest.raises(InvalidArgument):
                make()

    def test_shokri_needs_confidences_of_both_kinds(self):
        references, _ = study()
        view = Logits(lambda rows: np.stack([rows[:, 0], -rows[:, 0]], axis=1))
        records = Records(np.ones((20, 1)), np.zeros(20, dtype=int))
        with pytest.raises(InvalidArgument, match="keep_confidences=True"):
            Shokri(references).score(view, records)
        said = np.log(np.full((4, 20, 2), 0.5))
        with pytest.raises(InvalidArgument, match="one kind only"):
            Shokri(References(references.signals, np.ones((4, 20), dtype=bool), said)).score(view, records)
        with pytest.raises(InvalidArgument, match="the 20 that the references cover, got 5"):
            Shokri(References(references.signals, references.members, said)).score(
                view, records.take(np.arange(5))
            )


class TestScore:
    """Through a view: φ is what the target says, under each query, and a population is asked too."""

    view = Logits(lambda rows: np.stack([rows[:, 0], np.zeros(len(rows))], axis=1))

    def test_is_judge_of_phi(self):
        references, target = study()
        records = Records(target.T, np.zeros(20, dtype=int))
        np.testing.assert_allclose(
            LiRA(references).score(self.view, records), LiRA(references).judge(target), rtol=1e-9
        )

    def test_queries(self):
        references, target = study(queries=2)
        records = Records(target[:1].T, np.zeros(20, dtype=int))
        attack = LiRA(references, queries=(identity, np.negative))
        expected = attack.judge(np.concatenate([target[:1], -target[:1]]))
        np.testing.assert_allclose(attack.score(self.view, records), expected, rtol=1e-9)

    @pytest.mark.parametrize("make", [RMIA, OfflineRMIA])
    def test_population(self, make):
        references, target = study()
        others, asked = study(records=30, seed=3)
        population = Population(Records(asked.T, np.zeros(30, dtype=int)), others)
        attack = make(references, population=population)
        found = attack.score(self.view, Records(target.T, np.zeros(20, dtype=int)))
        np.testing.assert_allclose(found, attack.judge(target, asked), rtol=1e-9)
        assert not np.allclose(found, make(references).judge(target))


class TestTuning:
    def test_tuned_writes_out_what_is_used(self):
        references, target = study(models=6, records=400, seed=5)
        tuned = OfflineRMIA(references).tune()
        assert 0 <= tuned.a <= 1
        assert tuned.temperature in (1.0, 2.0, 3.0, 4.0)
        np.testing.assert_array_equal(tuned.judge(target), OfflineRMIA(references).judge(target))

    def test_what_is_given_is_kept(self):
        references, _ = study(models=6, records=400, seed=5)
        assert OfflineRMIA(references, a=0.7).tune().a == 0.7
        assert OfflineRMIA(references, temperature=3.0).tune().temperature == 3.0

    @pytest.mark.parametrize("members", [None, False])
    def test_the_published_constants_where_no_reference_can_be_attacked(self, members):
        references, _ = study(models=2, records=400)
        if members is False:
            references = References(references.signals, np.zeros_like(references.members))
        tuned = OfflineRMIA(references).tune()
        assert (tuned.a, tuned.temperature) == (0.33, 2.0)


class TestGame:
    class Peeking(Attack[BlackBox]):
        name = "peeking"
        sees = BlackBox
        adversary = LiRA.adversary

        def __init__(self, answer):
            self.answer, self.seen = answer, None

        def score(self, view, records):
            self.seen = (view, records)
            return self.answer

    challenge = Challenge(Records(np.ones((3, 1)), np.zeros(3, dtype=int)), np.array([True, False, True]))

    def test_the_coin_is_not_shown_and_the_view_is_narrow(self):
        class Whole(WhiteBox):
            layers = ()

            def log_confidences(self, inputs):
                return np.log(np.full((len(inputs), 2), 0.5))

            def gradient_norms(self, inputs, labels):
                raise AssertionError

            gradients = activations = input_gradients = gradient_norms

        attack = self.Peeking(np.arange(3.0))
        scores = attack.run(Whole(), self.challenge)
        view, records = attack.seen
        assert not isinstance(view, WhiteBox)
        assert isinstance(records, Records)
        assert set(vars(records)) == {"inputs", "labels", "groups", "columns"}
        assert scores.attack == "peeking"
        assert scores.members.tolist() == [True, False, True]

    @pytest.mark.parametrize("answer", [np.zeros(2), np.zeros((3, 1)), np.array([0.0, np.nan, 1.0])])
    def test_unfit_answers_are_refused(self, answer):
        with pytest.raises(InvalidArgument, match="peeking"):
            self.Peeking(answer).run(TestScore.view, self.challenge)

    def test_a_view_that_shows_too_little_is_refused(self):
        from privet.attacks import Loss, Predictions

        with pytest.raises(InvalidArgument, match="wider view"):
            Loss().run(Predictions(lambda rows: np.zeros(len(rows), dtype=int)), self.challenge)


@pytest.mark.parametrize(
    "attack", [LiRA, OfflineLiRA, RMIA, OfflineRMIA, BASE, OfflineBASE, BaVarIA, OfflineBaVarIA]
)
def test_a_target_that_is_certain_has_a_score(attack):
    generator = np.random.default_rng(0)
    references = References(generator.normal(size=(8, 1, 20)), np.arange(160).reshape(8, 20) % 3 == 0)
    target = generator.normal(size=(1, 20))
    target[0, 3], target[0, 4] = np.inf, -np.inf
    found = attack(references).judge(target)
    assert np.isfinite(found).all()
    target[0, 3], target[0, 4] = 745.0, -745.0  # as far as the signal of any confidence goes
    np.testing.assert_array_equal(attack(references).judge(target), found)


def test_coins_of_references_may_be_numbers():
    generator = np.random.default_rng(0)
    signals, coins = generator.normal(size=(8, 1, 20)), np.arange(160).reshape(8, 20) % 3 == 0
    target = generator.normal(size=(1, 20))
    for given in (coins.astype(int), coins.astype(float), coins.tolist()):
        found = LiRA(References(signals.tolist(), given)).judge(target)
        np.testing.assert_array_equal(found, LiRA(References(signals, coins)).judge(target))
    with pytest.raises(InvalidArgument, match="True or False"):
        References(signals, coins + 1.0)
