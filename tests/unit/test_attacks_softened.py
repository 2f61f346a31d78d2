"""Softened confidences: what a study stores of them, and which attacks compare them."""

import pickle

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from privet.attacks import BASE, RMIA, Logits, OfflineBASE, OfflineRMIA
from privet.attacks.membership.reference_attack import at_temperature
from privet.attacks.membership.signals import TargetSignals, softened_signals
from privet.attacks.shadows import CallableRecipe, study
from privet.errors import InvalidArgument
from privet.scores import TEMPERATURES, Records, References
from privet.views import confidence_logits

CLASSES, RECORDS, MODELS = 5, 60, 4
RNG = np.random.default_rng(0)
LOGITS = 3 * RNG.normal(size=(MODELS + 1, RECORDS, CLASSES))  # of each model, and of the target
LABELS = RNG.integers(0, CLASSES, RECORDS)
LOGITS[:, np.arange(RECORDS), LABELS] += 4
RECORDS_ = Records(np.arange(float(RECORDS))[:, None], LABELS)
HALF = RNG.permutation(RECORDS) < RECORDS // 2
MEMBERS = np.stack([HALF, ~HALF, HALF[::-1], ~HALF[::-1]])


def confidence(model, temperature):
    return softmax(LOGITS[model] / temperature, axis=1)[np.arange(RECORDS), LABELS]


def phi(model, temperature):
    return confidence_logits(log_softmax(LOGITS[model], axis=1), LABELS, temperature)


def references(*, softened=True):
    signals = np.stack([phi(model, 1.0) for model in range(MODELS)])[:, None]
    table = np.stack([[phi(model, each)[None] for model in range(MODELS)] for each in TEMPERATURES])
    return References(signals, MEMBERS, softened=table if softened else None).about(RECORDS_)


VIEW = Logits(lambda rows: LOGITS[-1][rows[:, 0].astype(int)])


class TestTheSignal:
    @pytest.mark.parametrize("temperature", [1.0, *TEMPERATURES])
    def test_is_the_softmax_of_divided_logits(self, temperature):
        p = confidence(0, temperature)
        np.testing.assert_allclose(phi(0, temperature), np.log(p / (1 - p)), rtol=1e-9)

    def test_is_divided_where_there_are_two_classes(self):
        logs = log_softmax(RNG.normal(size=(20, 2)) * 9, axis=1)
        labels = np.zeros(20, dtype=int)
        np.testing.assert_allclose(
            confidence_logits(logs, labels, 3.0), confidence_logits(logs, labels) / 3, rtol=1e-9
        )

    def test_keeps_its_digits_near_certainty_and_stays_finite_beyond(self):
        logits = np.stack([np.arange(0.0, 3000.0, 100.0), np.zeros(30), np.zeros(30)], axis=1)
        found = confidence_logits(log_softmax(logits, axis=1), np.zeros(30, dtype=int), 2.0)
        np.testing.assert_allclose(found[:8], logits[:8, 0] / 2 - np.log(2), rtol=1e-9)
        assert np.isfinite(found).all()
        assert (np.diff(found) >= 0).all()

    def test_many_classes_of_equal_confidence(self):
        logs = np.full((1, 1000), -np.log(1000))
        assert confidence_logits(logs, np.array([3]), 4.0)[0] == pytest.approx(-np.log(999), abs=1e-9)

    def test_of_the_target_are_those_of_its_logits(self):
        found = softened_signals(VIEW, RECORDS_, (lambda rows: rows,))
        np.testing.assert_allclose(found.phi[0], phi(-1, 1.0), rtol=1e-9)
        for place, temperature in enumerate(TEMPERATURES):
            np.testing.assert_allclose(found.softened[place, 0], phi(-1, temperature), rtol=1e-9)


class TestAttacks:
    @pytest.mark.parametrize("temperature", [1.0, 2.0, 3.0])
    def test_base_is_the_published_formula(self, temperature):
        """A temperature that is ignored, by the target or by the references, fails here."""
        mean = np.mean([confidence(model, temperature) for model in range(MODELS)], axis=0)
        expected = np.log(confidence(-1, temperature) / mean)
        found = BASE(references(), temperature=temperature).score(VIEW, RECORDS_)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12)
        order = np.argsort(RMIA(references(), temperature=temperature).score(VIEW, RECORDS_))
        np.testing.assert_array_equal(order, np.argsort(expected))

    @pytest.mark.parametrize("temperature", [1.0, 2.0])
    def test_offline_are_the_published_formulas(self, temperature):
        p = np.stack([confidence(model, temperature) for model in range(MODELS)])
        left_out = (p * ~MEMBERS).sum(axis=0) / (~MEMBERS).sum(axis=0)
        own = confidence(-1, temperature)
        found = OfflineBASE(references(), scale=0.4, temperature=temperature).score(VIEW, RECORDS_)
        np.testing.assert_allclose(found, np.log(own) - 0.4 * np.log(left_out), rtol=1e-7, atol=1e-12)
        ratio = own / (0.5 * (1.4 * left_out + 0.6))
        order = np.argsort(OfflineRMIA(references(), a=0.4, temperature=temperature).score(VIEW, RECORDS_))
        np.testing.assert_array_equal(order, np.argsort(ratio))

    def test_references_with_phi_alone_divide_it_on_both_sides(self):
        bare = references(softened=False)
        target, known = at_temperature(TargetSignals(phi(-1, 1.0)[None]), bare, 2.0)
        np.testing.assert_allclose(target[0], phi(-1, 1.0) / 2)
        np.testing.assert_allclose(known.signals, bare.signals / 2)
        scores = BASE(bare, temperature=2.0).score(VIEW, RECORDS_)
        np.testing.assert_array_equal(scores, BASE(bare, temperature=2.0).judge(phi(-1, 1.0)[None]))

    def test_a_target_with_phi_alone_is_not_compared_with_softened_references(self):
        target, known = at_temperature(phi(-1, 1.0)[None], references(), 2.0)
        np.testing.assert_allclose(target[0], phi(-1, 1.0) / 2)
        np.testing.assert_allclose(known.signals, references().signals / 2)

    @pytest.mark.parametrize("make", [RMIA, BASE, OfflineRMIA, OfflineBASE])
    def test_a_temperature_that_no_study_stores_is_refused(self, make):
        with pytest.raises(
            InvalidArgument, match=r"'temperature' must be 1, 2, 3, 4.*got 1.5\. Leave it out"
        ):
            make(references(), temperature=1.5)


class TestReferences:
    def test_a_study_stores_them(self):
        def train(inputs, labels, seed):
            model = seed % MODELS
            return Logits(lambda rows: LOGITS[model][rows[:, 0].astype(int)])

        found = study(CallableRecipe(train), RECORDS_, 2, seed=0, progress=False)
        assert found.softened.shape == (len(TEMPERATURES), 2, 1, RECORDS)
        for model in range(2):
            of = next(k for k in range(MODELS) if np.allclose(found.signals[model, 0], phi(k, 1.0)))
            np.testing.assert_allclose(found.softened[1, model, 0], phi(of, TEMPERATURES[1]), rtol=1e-9)

    def test_follow_models_and_records(self):
        given = references()
        few = given.first(3).align(RECORDS_.take(np.array([7, 3])))
        np.testing.assert_array_equal(few.softened, given.softened[:, :3, :, [7, 3]])
        np.testing.assert_array_equal(few.members, MEMBERS[:3, [7, 3]])

    def test_of_another_shape_or_not_finite_are_refused(self):
        given = references()
        with pytest.raises(InvalidArgument, match="'softened' must be finite, temperatures × models"):
            References(given.signals, given.members, softened=given.softened[:2])
        with pytest.raises(InvalidArgument, match="leave it out"):
            References(given.signals, given.members, softened=np.full_like(given.softened, np.nan))

    def test_that_were_pickled_without_them_still_work(self):
        old = references(softened=False)
        state = {name: value for name, value in vars(old).items() if name != "softened"}
        again = References.__new__(References)
        again.__dict__.update(state)
        again = pickle.loads(pickle.dumps(again))
        np.testing.assert_array_equal(RMIA(again).score(VIEW, RECORDS_), RMIA(old).score(VIEW, RECORDS_))
