"""References of an audit: of the records that are judged, of the target's size, and told of as they are."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from privet.attacks import Ensemble, LiRA, Shokri
from privet.attacks.shadows import CallableRecipe, HalvesBesideRest, ScikitRecipe, study
from privet.auditing import measure
from privet.checks import Outcome
from privet.errors import InvalidArgument
from privet.pipeline import TimeLimit, audit
from privet.pipeline.records import draw_challenge
from privet.pipeline.time_limit import train_references
from privet.scores import Challenge, Records, References

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(400, 60))
LABELS = (ROWS[:, 0] + GENERATOR.normal(size=400) > 0).astype(int)
RECIPE = ScikitRecipe(LogisticRegression(C=100.0, max_iter=500))
MEMBERS, OTHERS = (ROWS[:200], LABELS[:200]), (ROWS[200:], LABELS[200:])


@pytest.fixture(scope="module")
def target():
    return RECIPE.fit(*MEMBERS, 0)


@pytest.fixture(scope="module")
def references():
    return study(RECIPE, Records(ROWS, LABELS), 4, seed=1, progress=False, keep_confidences=True)


class TestTheRightRecords:
    @pytest.mark.parametrize("make", [LiRA, Shokri])
    def test_an_audit_finds_what_the_attack_finds(self, target, references, make):
        """An audit mixes its records, and must not read the references of other records."""
        coin = np.arange(400) < 200
        direct = measure(make(references).run(target, Challenge(Records(ROWS, LABELS), coin))).auc.value
        for seed in (0, 1):
            found = audit(target, MEMBERS, OTHERS, attacks=[make(references)], seed=seed).audits[0]
            assert found.results[0].leakage.auc.value == pytest.approx(direct, abs=2e-3)

    def test_ready_references_are_taken(self, target, references):
        by_name = audit(target, MEMBERS, OTHERS, references=references).audits[0]
        own = audit(target, MEMBERS, OTHERS, attacks=[Ensemble(references)]).audits[0]
        assert [result.name for result in by_name.results] == ["loss", "RMIA + BaVarIA"]
        told = {check.name: check.finding for check in by_name.checks}
        assert "loss and RMIA + BaVarIA" in told["attacks were fixed before any score was seen"]
        assert "attacks were fixed before any score was seen" not in [check.name for check in own.checks]
        assert by_name.results[1].leakage.auc.value == own.results[0].leakage.auc.value
        assert by_name.reference_models.asked is None
        assert (by_name.reference_models.used, by_name.reference_models.records) == (4, 200)

    @pytest.mark.parametrize("by", ["references", "attacks"])
    def test_references_of_other_records_are_refused(self, target, references, by):
        other = (ROWS[:200] + 1e-6, LABELS[:200])
        given = {by: references if by == "references" else [LiRA(references)]}
        with pytest.raises(
            InvalidArgument, match="'references' must cover the records that are judged, and 200 of 400"
        ):
            audit(target, other, OTHERS, **given)

    @pytest.mark.parametrize("by", ["references", "attacks"])
    def test_references_that_do_not_say_of_which_records_are_refused(self, target, references, by):
        bare = References(references.signals, references.members)
        given = {by: bare if by == "references" else [LiRA(bare)]}
        with pytest.raises(
            InvalidArgument, match=rf"'{by}' must say which records.*references.about\(records\)"
        ):
            audit(target, MEMBERS, OTHERS, **given)
        given = {by: bare.about(Records(ROWS, LABELS))}
        if by == "references":
            assert audit(target, MEMBERS, OTHERS, **given)

    def test_references_from_a_cache_are_of_these_records(self, tmp_path):
        records = Records(ROWS[:60], LABELS[:60])
        first = study(RECIPE, records, 2, seed=0, cache=tmp_path, progress=False)
        again = study(RECIPE, records, 2, seed=0, cache=tmp_path, progress=False)
        np.testing.assert_array_equal(first.hashes, again.hashes)
        moved = records.take(np.random.default_rng(3).permutation(60))
        other = study(RECIPE, moved, 2, seed=0, cache=tmp_path, progress=False)
        np.testing.assert_array_equal(other.hashes, moved.hashes)


def _spied():
    sizes = []

    def train(rows, labels, seed):
        sizes.append(len(rows))
        return LogisticRegression().fit(rows, labels)

    return CallableRecipe(train), sizes


class TestTheRightSize:
    @pytest.mark.parametrize(("members", "others"), [(300, 40), (40, 300), (100, 100), (101, 100)])
    def test_references_are_as_large_as_the_target(self, members, others, target):
        recipe, sizes = _spied()
        found = audit(
            target,
            (ROWS[:members], LABELS[:members]),
            (ROWS[members : members + others], LABELS[members : members + others]),
            recipe=recipe,
            references=4,
            progress=False,
        ).audits[0]
        assert sizes == [members] * 4
        assert found.reference_models.records == members
        (check,) = [one for one in found.checks if one.name.startswith("reference models have as many")]
        assert check.outcome is Outcome.PASSED

    def test_each_judged_record_is_in_half_of_them(self):
        asked = draw_challenge(
            Records(ROWS[:300], LABELS[:300]), Records(ROWS[300:340], LABELS[300:340]), seed=0
        )
        recipe, _ = _spied()
        found = train_references(recipe, asked, 6, None, seed=0, cache=None, progress=False).references
        judged = found.align(asked.challenge.records)
        assert (judged.members.sum(axis=0) == 3).all()
        assert found.align(asked.other_members).members.all()
        assert len(found) == 340

    def test_ready_references_of_another_size_are_warned_of(self, target, references):
        part = Records(ROWS[:300], LABELS[:300])
        ready = study(RECIPE, Records(ROWS, LABELS), 2, seed=0, split=HalvesBesideRest(400), progress=False)
        found = audit(
            target, (part.inputs, part.labels), (ROWS[300:], LABELS[300:]), references=ready
        ).audits[0]
        assert "reference models have as many records as the target" in [one.name for one in found.warnings]

    @pytest.mark.slow
    def test_the_size_of_the_target_gains_and_is_not_below_the_loss(self):
        """4,000 members and 600 others: LiRA 0.79 with references of half of 1,200 records, 0.89 at the target's size.

        The standard error of an AUC with 600 + 600 records is at most 0.017; the gain asked for is 4 of them.
        """
        nn = pytest.importorskip("torch").nn
        from privet.attacks.shadows import Adam, TorchRecipe

        generator = np.random.default_rng(0)
        weights = generator.normal(size=(30, 10))
        rows = generator.normal(size=(4600, 30)).astype(np.float32)
        labels = (rows @ weights + 2 * generator.gumbel(size=(4600, 10))).argmax(axis=1)
        recipe = TorchRecipe(
            model=lambda: nn.Sequential(nn.Linear(30, 256), nn.ReLU(), nn.Linear(256, 10)),
            epochs=60,
            learning_rate=1e-3,
            optimizer=Adam(),
        )
        members, others = (rows[:4000], labels[:4000]), (rows[4000:], labels[4000:])
        model = recipe.fit(*members, 123)
        found = audit(model, members, others, recipe=recipe, references=16, progress=False).audits[0]
        loss, strongest = (result.leakage.auc.value for result in found.results)
        small = draw_challenge(Records(*members), Records(*others), seed=0).challenge
        halves = study(recipe, small.records, 16, seed=0, progress=False)
        before = measure(LiRA(halves).run(model, small)).auc.value
        assert strongest > before + 0.07
        assert strongest > loss + 0.07


class TestWhatIsTold:
    def test_fewer_references_than_asked_for_are_told(self, target):
        import time

        def slow(rows, labels, seed):
            time.sleep(0.2)
            return LogisticRegression().fit(rows, labels)

        report = audit(
            target,
            MEMBERS,
            OTHERS,
            recipe=CallableRecipe(slow),
            references=64,
            time_limit=TimeLimit(0.5),
            progress=False,
        )
        audited = report.audits[0]
        used = audited.reference_models.used
        assert used < 64
        assert "as many reference models as were asked for" in [one.name for one in audited.warnings]
        assert f"references={used}," in report.origin.call
        assert "64 were asked for" in report.origin.call

    def test_the_call_gives_the_same_figures(self, target):
        first = audit(
            target,
            MEMBERS,
            OTHERS,
            recipe=RECIPE,
            references=2,
            attacks=["loss", "rmia"],
            delta=1e-4,
            confidence=0.9,
            seed=5,
            progress=False,
        )
        names = {"model": target, "members": MEMBERS, "nonmembers": OTHERS, "recipe": RECIPE}
        for written in (first.origin.call, first.origin.command):
            again = eval(written, {"privet": __import__("privet"), **names})
            pairs = zip(first.audits[0].results, again.audits[0].results, strict=True)
            for one, two in pairs:
                np.testing.assert_array_equal(one.scores.values, two.scores.values)
                assert one.finding == two.finding
            assert again.origin.call == first.origin.call

    def test_the_call_of_scores_gives_the_same_figures(self):
        import privet

        first = privet.audit_scores([3.0, 4.0, 5.0], [0.0, 1.0, 4.5], name="mine", delta=1e-3, confidence=0.9)
        names = {"privet": privet, "members": [3.0, 4.0, 5.0], "nonmembers": [0.0, 1.0, 4.5]}
        again = eval(first.origin.call, names)
        assert again.audits[0].results[0].finding == first.audits[0].results[0].finding
        assert again.origin.call == first.origin.call


def test_an_estimator_lends_its_ledger():
    from privet import learning

    model = learning.LogisticRegression(epsilon=2.0, delta=1e-6, classes=(0, 1)).fit(*MEMBERS)
    found = audit(model, MEMBERS, OTHERS).audits[0]
    assert found.ledger == model.ledger_
    assert found.epsilon_proved is not None
