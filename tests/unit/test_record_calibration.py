"""P-values of each record, among reference models that were not trained on it."""

import numpy as np
import pytest
from scipy.stats import t as student

from privet.auditing import calibrate_per_record, measure
from privet.errors import InvalidArgument


def test_the_exact_value_is_the_rank_among_models_without_the_record():
    references = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0], [9.0, 8.0]])
    trained = np.array([[False, True], [False, True], [False, True], [True, True]])
    found = calibrate_per_record(np.array([2.0, 0.0]), references, trained)
    assert found.exact.tolist() == [3 / 4, 1.0]  # a tie counts against the claim; no model says p = 1
    assert found.models.tolist() == [3, 0]
    assert found.pooled.tolist() == [1.0, 1.0]  # fewer than four models


def test_the_pooled_value_ranks_students_tails_of_all_records():
    generator = np.random.default_rng(0)
    references, trained = generator.normal(size=(9, 5)) * 3 + 7, generator.random((9, 5)) < 0.4
    values = generator.normal(size=5) * 3 + 8

    def tail(value, others):
        deviate = (value - others.mean()) / (others.std(ddof=1) * (1 + 1 / len(others)) ** 0.5)
        return student.sf(deviate, len(others) - 1)

    outside = [references[~trained[:, record], record] for record in range(5)]
    together = [np.append(own, value) for own, value in zip(outside, values, strict=True) if len(own) >= 4]
    pool = [(tail(all_[i], np.delete(all_, i)), 1 / len(all_)) for all_ in together for i in range(len(all_))]
    found = calibrate_per_record(values, references, trained)
    for record, own in enumerate(outside):
        mine = tail(values[record], own) * (1 + 1e-6)
        share = sum(weight for other, weight in pool if other <= mine) / len(together)
        assert found.pooled[record] == pytest.approx(share if len(own) >= 4 else 1.0)


def test_units_of_the_scores_do_not_matter():
    generator = np.random.default_rng(1)
    values, references = generator.normal(size=20), generator.normal(size=(12, 20))
    trained = generator.random((12, 20)) < 0.5
    scale, place = np.exp(generator.normal(size=20)), 10 * generator.normal(size=20)
    first = calibrate_per_record(values, references, trained)
    second = calibrate_per_record(values * scale + place, references * scale + place, trained)
    assert np.array_equal(first.exact, second.exact)
    assert first.pooled == pytest.approx(second.pooled, abs=1e-9)


def test_equal_scores_say_nothing():
    found = calibrate_per_record(np.ones(3), np.ones((8, 3)), np.zeros((8, 3), dtype=bool))
    assert found.exact.tolist() == [1.0] * 3
    assert found.pooled.tolist() == [1.0] * 3


def test_members_that_stand_out_from_their_own_past_are_found():
    generator = np.random.default_rng(2)
    place = 5 * generator.normal(size=400)  # hides everything from one threshold
    trained, members = generator.random((16, 400)) < 0.5, np.arange(400) % 2 == 0
    references = place + generator.normal(size=(16, 400)) + 4 * trained
    values = place + generator.normal(size=400) + 4 * members
    found = calibrate_per_record(values, references, trained)
    assert measure(found.to_scores(members)).auc.value > 0.95
    assert repr(found).startswith("RecordPValues(400 records, ")


@pytest.mark.parametrize(
    ("values", "references", "fix"),
    [
        (np.zeros(2), np.zeros((4, 3)), "Give the target's scores"),
        (np.zeros(3), np.zeros(3), "Give the target's scores"),
        (np.array([0.0, np.nan, 1.0]), np.zeros((4, 3)), "Look for models that diverged"),
    ],
)
def test_refusals_say_what_to_do(values, references, fix):
    with pytest.raises(InvalidArgument, match=fix):
        calibrate_per_record(values, references, np.zeros(references.shape, dtype=bool))
