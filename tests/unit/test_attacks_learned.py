"""Quantile regression, labels alone, white box and the shadow classifier: on models whose answer is known."""

import math

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from privet.attacks import (
    AugmentationRobustness,
    BitFlips,
    BoostedQuantiles,
    BoostedTrees,
    BoundaryDistance,
    Gap,
    GaussianNoise,
    GaussianRidge,
    GradientAlignment,
    GradientNorm,
    LayerClassifier,
    LogisticClassifier,
    Logits,
    NoiseClassifier,
    NoiseRobustness,
    Predictions,
    Probabilities,
    QuantileRegression,
    Shadow,
    Shokri,
    mirror,
    see,
    shift_transforms,
)
from privet.attacks.membership.taught_label_only import noise_features
from privet.attacks.membership.white_box import layer_features, rank_columns
from privet.errors import InvalidArgument, MissingPackage
from privet.scores import Challenge, Records, References
from privet.views import WhiteBox

PLANE = Predictions(lambda rows: (rows.reshape(len(rows), -1)[:, 0] > 0).astype(np.int64))


def auc(scores, coin):
    members = int(coin.sum())
    return (rankdata(scores)[coin].sum() - members * (members + 1) / 2) / (members * (len(coin) - members))


class TestQuantiles:
    """φ given x is N(4 x₀, e^{2 x₁}) for non-members; a member's is two standard deviations higher."""

    def game(self, records=1500, seed=0):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, (2 * records, 3))
        coin = rng.random(2 * records) < 0.5
        coin[:records] = False
        deviate = rng.normal(size=2 * records) + 2.0 * coin
        phi = 4 * x[:, 0] + np.exp(x[:, 1]) * deviate
        rows = np.concatenate([x, phi[:, None]], axis=1)
        view = Logits(lambda r: np.stack([r[:, 3], np.zeros(len(r))], axis=1))
        hidden = np.concatenate([x, np.zeros((2 * records, 1))], axis=1)
        return rows, hidden, coin, deviate, view

    @pytest.mark.parametrize(
        ("law", "error"), [(BoostedQuantiles((0.1, 0.5, 0.9)), 0.4), (GaussianRidge(), 0.1)]
    )
    def test_finds_the_conditional_deviate(self, law, error):
        if isinstance(law, BoostedQuantiles):
            pytest.importorskip("sklearn")
        rows, hidden, coin, deviate, view = self.game()
        # φ is read by the model from the record itself here, so the regressor is given the record without it.
        learnt = law.learn(hidden[:1500], rows[:1500, 3])
        found = learnt(hidden[1500:], rows[1500:, 3])
        assert np.median(np.abs(found - deviate[1500:])) < error
        best = auc(deviate[1500:], coin[1500:])
        assert auc(found, coin[1500:]) > best - 0.05
        assert auc(rows[1500:, 3], coin[1500:]) < best - 0.1
        assert view.labels(rows[:2]).shape == (2,)

    def test_ranks_are_uniform_without_members(self):
        pytest.importorskip("sklearn")
        rows, hidden, coin, _, _ = self.game(seed=1)
        learnt = BoostedQuantiles((0.25, 0.5, 0.75, 0.9)).learn(hidden[:1500], rows[:1500, 3])
        found = norm.cdf(learnt(hidden[1500:], rows[1500:, 3]))[~coin[1500:]]
        for level in (0.25, 0.5, 0.75, 0.9):
            assert np.mean(found < level) == pytest.approx(level, abs=0.07)

    def test_through_a_view(self):
        rng = np.random.default_rng(2)
        view = Logits(lambda r: np.stack([r[:, 0], r[:, 1] * 0], axis=1))
        public, asked = (Records(rng.normal(size=(300, 2)), rng.integers(0, 2, 300)) for _ in range(2))
        scores = QuantileRegression(public, GaussianRidge()).score(view, asked)
        assert scores.shape == (300,)
        assert np.isfinite(scores).all()

    def test_constant_signals(self):
        pytest.importorskip("sklearn")
        view = Probabilities(lambda r: np.tile([0.5, 0.5], (len(r), 1)))
        records = Records(np.random.default_rng(3).normal(size=(60, 2)), np.zeros(60, dtype=int))
        for law in (BoostedQuantiles(), GaussianRidge()):
            scores = QuantileRegression(records, law).score(view, records)
            np.testing.assert_allclose(scores, scores[0], atol=1e-6)

    def test_arguments(self):
        with pytest.raises(InvalidArgument, match="increasing"):
            BoostedQuantiles(levels=(0.5, 0.25))
        with pytest.raises(InvalidArgument, match="strictly between"):
            BoostedQuantiles(levels=(0.5, 1.0))
        records = Records(np.zeros((3, 2)), np.zeros(3, dtype=int))
        view = Probabilities(lambda r: np.tile([0.5, 0.5], (len(r), 1)))
        with pytest.raises(InvalidArgument, match="same kind"):
            QuantileRegression(Records(np.zeros((3, 4)), np.zeros(3, dtype=int))).score(view, records)
        with pytest.raises(InvalidArgument, match="labels"):
            QuantileRegression(Records(np.zeros((3, 2)))).score(view, records)
        with pytest.raises(
            InvalidArgument, match="'view' must be a BlackBox, got a value of type Predictions"
        ):
            QuantileRegression(records).score(PLANE, records)


class TestBoundary:
    def test_of_a_plane_is_the_distance_to_it(self):
        rng = np.random.default_rng(4)
        rows = rng.normal(size=(200, 8))
        labels = (rng.random(200) < 0.8) == (rows[:, 0] > 0)
        found = BoundaryDistance(rounds=6, probes=150).score(PLANE, Records(rows, labels.astype(int)))
        exact = np.where(labels == (rows[:, 0] > 0), 1, -1) * np.abs(rows[:, 0])
        assert (np.abs(found) >= np.abs(rows[:, 0]) * (1 - 1e-9)).all()  # never nearer than the boundary is
        assert (np.sign(found) == np.sign(exact)).all()
        assert np.median(np.abs(found) / np.abs(exact)) < 1.15
        straight = BoundaryDistance(rounds=0).score(PLANE, Records(rows, labels.astype(int)))
        assert np.median(np.abs(straight)) > 1.5 * np.median(np.abs(found))

    def test_points_stay_within_bounds(self):
        asked = []

        def ask(rows):
            asked.append((rows.min(), rows.max()))
            return (rows.mean(axis=(1, 2)) > 0.5).astype(np.int64)

        rng = np.random.default_rng(5)
        rows = rng.random((30, 4, 4))
        labels = (rows.mean(axis=(1, 2)) > 0.5).astype(int)
        BoundaryDistance(rounds=2, probes=20, bounds=(0.0, 1.0)).score(
            Predictions(ask), Records(rows, labels)
        )
        assert min(low for low, _ in asked) >= 0.0
        assert max(high for _, high in asked) <= 1.0

    def test_a_model_with_one_answer(self):
        view = Predictions(lambda rows: np.zeros(len(rows), dtype=np.int64))
        records = Records(np.random.default_rng(6).normal(size=(5, 2)), np.array([0, 1, 0, 1, 0]))
        assert BoundaryDistance(rounds=2).score(view, records).tolist() == [1.0, -1.0, 1.0, -1.0, 1.0]

    def test_the_order_of_records_does_not_matter(self):
        rng = np.random.default_rng(7)
        records = Records(rng.normal(size=(40, 3)), rng.integers(0, 2, 40))
        order = rng.permutation(40)
        attack = BoundaryDistance(rounds=2, probes=10)
        np.testing.assert_allclose(
            attack.score(PLANE, records.take(order)), attack.score(PLANE, records)[order], rtol=1e-9
        )

    def test_arguments(self):
        with pytest.raises(InvalidArgument, match="bounds"):
            BoundaryDistance(bounds=(1.0, 0.0))


class TestNoise:
    def test_orders_by_the_distance_to_a_plane(self):
        rows = np.zeros((9, 4))
        rows[:, 0] = np.linspace(-0.8, 0.8, 9)
        records = Records(rows, np.ones(9, dtype=int))
        attack = NoiseRobustness((GaussianNoise(0.5),), draws=400)
        found = attack.score(PLANE, records)
        assert (np.diff(found) > 0).all()
        # Right itself or not, then Φ(distance/σ) of 400 draws: 5 standard errors fail by luck once in 2·10⁵ (nine values).
        share = (found - (rows[:, 0] > 0)) * 401 / 400
        np.testing.assert_allclose(share, norm.cdf(rows[:, 0] / 0.5), atol=5 * 0.5 / math.sqrt(400))

    def test_bits(self):
        rows = np.random.default_rng(8).integers(0, 2, (2000, 30)).astype(np.uint8)
        turned = BitFlips(0.1).apply(rows, np.random.default_rng(9))
        assert set(np.unique(turned)) == {0.0, 1.0}
        assert np.unique((turned != rows).mean(axis=1)).size == 1  # the same draw for each record
        shares = [
            (BitFlips(0.1).apply(rows[:1], np.random.default_rng(s)) != rows[:1]).mean() for s in range(300)
        ]
        assert np.mean(shares) == pytest.approx(0.1, abs=5 * math.sqrt(0.09 / 9000))

    def test_bounds(self):
        moved = GaussianNoise(5.0, (0.0, 1.0)).apply(np.full((2, 50), 0.5), np.random.default_rng(10))
        assert moved.min() == 0.0
        assert moved.max() == 1.0

    def test_arguments(self):
        with pytest.raises(InvalidArgument, match="at least one noise"):
            NoiseRobustness(())
        with pytest.raises(InvalidArgument, match="scale"):
            GaussianNoise(0.0)
        with pytest.raises(InvalidArgument, match="rate"):
            BitFlips(1.0)
        with pytest.raises(InvalidArgument, match="shift_transforms"):
            AugmentationRobustness(())


class TestAugmentations:
    def test_counts_right_copies(self):
        images = np.zeros((3, 1, 4, 4))
        images[0, 0, :, :] = 1.0  # bright everywhere: right under every shift
        images[1, 0, 0, 0] = 1.0  # bright in a corner, which some shifts lose
        view = Predictions(lambda rows: (rows[:, 0, 0, 0] > 0).astype(np.int64))
        found = AugmentationRobustness(shift_transforms(1)).score(
            view, Records(images, np.ones(3, dtype=int))
        )
        # The border is repeated: down and right keep the corner, up and left lose it.
        assert found.tolist() == [9.0, 4.0, 0.0]

    def test_noise_breaks_ties_and_nothing_more(self):
        rows = np.zeros((5, 1, 3, 3))
        rows[:, 0, 0, 0] = np.linspace(0.1, 0.9, 5)
        records = Records(rows, np.ones(5, dtype=int))
        plain = AugmentationRobustness((mirror, mirror)).score(PLANE, records)
        broken = AugmentationRobustness((mirror, mirror), (GaussianNoise(0.3),), draws=300).score(
            PLANE, records
        )
        assert len(np.unique(plain)) == 1
        assert (np.diff(broken) > 0).all()
        assert (np.floor(broken) == plain).all()

    def test_directions(self):
        picture = np.arange(9).reshape(1, 3, 3)
        up_left, right = shift_transforms(1)[0], shift_transforms(1)[4]
        assert up_left(picture)[0].tolist() == [[4, 5, 5], [7, 8, 8], [7, 8, 8]]
        assert right(picture)[0].tolist() == [[0, 0, 1], [3, 3, 4], [6, 6, 7]]

    def test_mirrored(self):
        assert mirror(np.arange(4).reshape(1, 2, 2)).tolist() == [[[1, 0], [3, 2]]]

    def test_gap(self):
        records = Records(np.array([[1.0], [-1.0], [2.0]]), np.array([1, 1, 0]))
        assert Gap().score(PLANE, records).tolist() == [1.0, 0.0, 0.0]


class TestShokri:
    def study(self, models=6, records=1200, classes=3, seed=11, gain=1.5, quiet=0.0):
        """Confidences of models that are surer of what they were trained on, by as much as class and coin say."""
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, classes, records)
        half = np.stack([rng.permutation(records) < records // 2 for _ in range(models // 2 + 1)])
        members = np.concatenate([half, ~half])[: models + 1]
        hard = rng.normal(1.0, 0.5, records)
        logits = rng.normal(size=(models + 1, records, classes)) * 0.7
        logits[:, np.arange(records), labels] += hard + gain * members * np.where(labels > 0, 1.0, quiet)
        logs = logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))
        view = Logits(lambda rows: logs[-1][rows[:, 0].astype(int)])
        references = References(np.zeros((models, 1, records)), members[:-1], logs[:-1])
        return references, view, Records(np.arange(records)[:, None], labels), members[-1]

    @pytest.mark.parametrize("classifier", [LogisticClassifier(), BoostedTrees()])
    def test_learns_from_the_shadows(self, classifier):
        pytest.importorskip("sklearn")
        references, view, records, coin = self.study()
        scores = Shokri(references, classifier=classifier).run(view, Challenge(records, coin)).values
        leaking = records.labels > 0
        assert auc(scores[leaking], coin[leaking]) > 0.75
        # Class 0 gives nothing away; its own classifier says so: AUC within 5 standard errors of ½ (6·10⁻⁷).
        quiet = ~leaking
        members, others = coin[quiet].sum(), (~coin[quiet]).sum()
        error = math.sqrt((members + others + 1) / (12 * members * others))
        assert abs(auc(scores[quiet], coin[quiet]) - 0.5) < 5 * error

    def test_each_class_has_its_own(self):
        """Class 0 loses confidence where the others gain it: one classifier for all would have it the wrong way round."""
        pytest.importorskip("sklearn")
        references, view, records, coin = self.study(quiet=-1.0)
        scores = Shokri(references).run(view, Challenge(records, coin)).values
        for label in range(3):
            mine = records.labels == label
            assert auc(scores[mine], coin[mine]) > 0.7

    def test_small_classes_share_a_classifier(self):
        pytest.importorskip("sklearn")
        references, view, records, coin = self.study(models=2, records=60, classes=20)
        scores = Shokri(references, least=50).run(view, Challenge(records, coin)).values
        assert np.isfinite(scores).all()

    def test_exchangeable_is_chance(self):
        pytest.importorskip("sklearn")
        references, view, records, coin = self.study(records=2000, gain=0.0, seed=12)
        scores = Shokri(references).run(view, Challenge(records, coin)).values
        assert abs(auc(scores, coin) - 0.5) < 5 * math.sqrt(2001 / (12 * 1000 * 1000))

    def test_without_scikit_learn(self, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "sklearn", None)
        references, view, records, _ = self.study(models=2, records=60)
        with pytest.raises(MissingPackage, match=r"pip install 'privet\[learn\]'"):
            Shokri(references).score(view, records)


@pytest.fixture(scope="module")
def trained():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(13)
    rows, labels = rng.normal(size=(700, 20)), rng.integers(0, 2, 700)
    records, public = Records(rows[:400], labels[:400]), Records(rows[400:], labels[400:])

    def fitted(coin, seed):
        torch.manual_seed(seed)
        module = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        x, y = torch.tensor(rows[:400][coin], dtype=torch.float32), torch.tensor(labels[:400][coin])
        for _ in range(250):
            loss = torch.nn.functional.cross_entropy(module(x), y)
            steps = torch.autograd.grad(loss, list(module.parameters()))
            with torch.no_grad():
                for parameter, step in zip(module.parameters(), steps, strict=True):
                    parameter.sub_(step)
        return see(module)

    coins = [rng.permutation(400) < 200 for _ in range(3)]
    views = [fitted(coin, seed) for seed, coin in enumerate(coins)]
    shadows = tuple(Shadow(v, Challenge(records, c)) for v, c in zip(views[1:], coins[1:], strict=True))
    return views[0], Challenge(records, coins[0]), public, shadows


class TestTaughtNoise:
    """Robustness to noise, with shadow models that teach which strength tells members apart."""

    NOISES = (GaussianNoise(0.03), GaussianNoise(0.3), GaussianNoise(1.0))

    def test_it_finds_what_was_learnt_by_heart_and_more_than_the_best_noise_alone(self, trained):
        pytest.importorskip("sklearn")
        view, challenge, _, shadows = trained
        taught = NoiseClassifier(shadows, self.NOISES, draws=40).run(view, challenge)
        assert auc(taught.values, taught.members) > 0.8
        for noise in self.NOISES:
            alone = NoiseRobustness((noise,), draws=40).run(view, challenge)
            assert auc(taught.values, taught.members) > auc(alone.values, alone.members) - 0.01

    def test_records_outside_are_chance(self, trained):
        """AUC within 5 standard errors of ½, as for the attacks on parameters."""
        pytest.importorskip("sklearn")
        view, _, public, shadows = trained
        coin = np.random.default_rng(14).permutation(200) < 100
        scores = NoiseClassifier(shadows, self.NOISES, draws=10).run(
            view, Challenge(public.take(np.arange(200)), coin)
        )
        assert abs(auc(scores.values, coin) - 0.5) < 5 * math.sqrt(201 / (12 * 100 * 100))

    def test_features_are_ln_odds_of_right_answers(self):
        view = Predictions(lambda rows: (rows[:, 0] > 0).astype(int))
        records = Records(np.array([[5.0], [-5.0], [1e-9]]), np.array([1, 1, 1]))
        found = noise_features(view, records, (GaussianNoise(0.1),), 1000, 0)
        assert found[:, 0].tolist() == [1.0, 0.0, 1.0]
        assert found[0, 1] == pytest.approx(math.log(1000.5 / 0.5))
        assert found[1, 1] == pytest.approx(-math.log(1000.5 / 0.5))
        assert abs(found[2, 1]) < 0.32  # five standard deviations of the ln odds of 1,000 fair coins

    def test_only_labels_of_the_shadows_are_seen(self, trained):
        pytest.importorskip("sklearn")
        view, challenge, _, shadows = trained

        class LabelsAlone(WhiteBox):
            layers = ()

            def __init__(self, inner):
                self.inner = inner

            def labels(self, inputs):
                return self.inner.labels(inputs)

            def log_confidences(self, inputs):
                raise AssertionError

            gradient_norms = gradients = activations = input_gradients = log_confidences

        blind = tuple(Shadow(LabelsAlone(one.view), one.challenge) for one in shadows)
        one, other = (
            NoiseClassifier(s, self.NOISES, draws=5).score(view, challenge.records) for s in (shadows, blind)
        )
        assert np.array_equal(one, other)

    def test_refusals(self, trained):
        _, challenge, public, shadows = trained
        with pytest.raises(InvalidArgument, match="at least one noise"):
            NoiseClassifier(shadows, ())
        with pytest.raises(InvalidArgument, match="at least one model"):
            NoiseClassifier((), self.NOISES)
        one_kind = Shadow(shadows[0].view, Challenge(public, np.ones(300, dtype=bool)))
        with pytest.raises(InvalidArgument, match="one kind only"):
            NoiseClassifier((one_kind,), self.NOISES, draws=1).score(shadows[0].view, challenge.records)


class TestWhiteBox:
    """A small network that learnt half of the records by heart."""

    def test_attacks_find_what_was_learnt_by_heart(self, trained):
        pytest.importorskip("sklearn")
        view, challenge, public, shadows = trained
        for attack in (
            GradientNorm(),
            GradientNorm("0"),
            GradientAlignment(public),
            LayerClassifier(shadows),
        ):
            scores = attack.run(view, challenge)
            assert auc(scores.values, scores.members) > 0.8, attack.name

    def test_records_outside_are_chance(self, trained):
        """Of records that were all left out, half are called members by a coin: AUC within 5 standard errors of ½."""
        pytest.importorskip("sklearn")
        view, _, public, shadows = trained
        asked, known = public.take(np.arange(200)), public.take(np.arange(200, 300))
        coin = np.random.default_rng(14).permutation(200) < 100
        for attack in (GradientNorm(), GradientAlignment(known), LayerClassifier(shadows)):
            scores = attack.run(view, Challenge(asked, coin))
            assert abs(auc(scores.values, coin) - 0.5) < 5 * math.sqrt(201 / (12 * 100 * 100)), attack.name

    def test_the_order_of_records_does_not_matter(self, trained):
        pytest.importorskip("sklearn")
        view, challenge, public, shadows = trained
        order = np.random.default_rng(15).permutation(400)
        for attack in (
            GradientNorm(),
            GradientAlignment(public, ("2",)),
            LayerClassifier(shadows, LogisticClassifier()),
        ):
            moved = attack.score(view, challenge.records.take(order))
            straight = attack.score(view, challenge.records)[order]
            assert np.corrcoef(rankdata(moved), rankdata(straight))[0, 1] > 0.9999, attack.name

    def test_features(self, trained):
        view, challenge, _, _ = trained
        found = layer_features(view, challenge.records)
        assert found.shape == (400, 2 + 4 * 2)
        norms = view.gradient_norms(challenge.records.inputs, challenge.records.labels)
        np.testing.assert_allclose(found[:, 2:4], norms)
        total = GradientNorm().score(view, challenge.records)
        np.testing.assert_allclose(total, -np.log(np.linalg.norm(norms, axis=1)), rtol=1e-9)

    def test_features_are_ranks_within_a_model(self):
        features = np.array([[1.0, 5.0], [3.0, 5.0], [3.0, 5.0], [9.0, 5.0]])
        expected = [[0.125, 0.5], [0.5, 0.5], [0.5, 0.5], [0.875, 0.5]]
        np.testing.assert_allclose(rank_columns(features), expected)
        np.testing.assert_allclose(rank_columns(1000.0 * features**3), expected)

    def test_refusals(self, trained):
        view, challenge, public, shadows = trained
        with pytest.raises(InvalidArgument, match="Take one of 0, 2"):
            GradientNorm("9").score(view, challenge.records)
        with pytest.raises(InvalidArgument, match="at least three"):
            GradientAlignment(public.take(np.arange(2)))
        with pytest.raises(InvalidArgument, match="at least one model"):
            LayerClassifier(())
        one_kind = Shadow(shadows[0].view, Challenge(public, np.ones(300, dtype=bool)))
        with pytest.raises(InvalidArgument, match="one kind only"):
            LayerClassifier((one_kind,)).score(view, challenge.records)
        with pytest.raises(InvalidArgument, match="wider view"):
            GradientNorm().run(PLANE, challenge)
        torch = pytest.importorskip("torch")
        other = Shadow(see(torch.nn.Linear(20, 2)), challenge)
        with pytest.raises(InvalidArgument, match="same architecture"):
            LayerClassifier((other,)).score(view, challenge.records)


def test_public_records_without_numbers_are_refused():
    public = Records(np.array([[0.0], [np.nan], [1.0]]), np.array([0, 1, 0]))
    view = Logits(lambda rows: np.zeros((len(rows), 2)))
    with pytest.raises(InvalidArgument, match="'public' must hold finite numbers"):
        QuantileRegression(public, GaussianRidge()).score(view, Records(np.zeros((2, 1)), np.zeros(2)))
