"""Two models, with and without one person."""

import numpy as np
import pytest

from privet.attacks import Probabilities, see
from privet.attacks.reconstruction import ModelDifferencing, ModelPair
from privet.auditing import measure_recoveries
from privet.errors import InvalidArgument
from privet.scores import Records


def fit(inputs, labels):
    linear = pytest.importorskip("sklearn.linear_model", reason="the models are scikit-learn's")
    return see(linear.LogisticRegression(max_iter=500, tol=1e-6).fit(inputs, labels))


@pytest.fixture(scope="module")
def people():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(700, 12))
    labels = (inputs[:, 0] + inputs[:, 1] + generator.normal(size=700) > 0).astype(int)
    return inputs, labels


def test_who_came_in_and_with_which_label(people):
    inputs, labels = people
    others, candidates, generator = slice(0, 200), np.arange(200, 700), np.random.default_rng(1)
    before = fit(inputs[others], labels[others])
    truths = generator.integers(0, 500, 30)
    pairs = [
        ModelPair(before, fit(np.vstack([inputs[others], inputs[[who]]]), np.r_[labels[others], labels[who]]))
        for who in candidates[truths].tolist()
    ]
    attack = ModelDifferencing()
    named = measure_recoveries(
        attack.run_records(pairs, Records(inputs[candidates], labels[candidates]), truths)
    )
    assert named.baseline.value == 1 / 500
    assert named.success.value > 0.4  # 200 times the baseline
    targets = Records(inputs[candidates[truths]], labels[candidates[truths]])
    found = attack.run_labels(pairs, targets, blind=before.labels(targets.inputs))
    assert found.hits.all()
    assert not found.blind_hits.all()

    elsewhere = pairs[1:] + pairs[:1]  # somebody else came in
    both = Records(np.vstack([targets.inputs] * 2), np.tile(targets.labels, 2))
    judged = attack.run_labels(pairs + elsewhere, both, members=np.repeat([True, False], 30))
    assert measure_recoveries(judged).success.value == 1
    assert measure_recoveries(judged).baseline.value < 0.9


def test_a_sure_model_still_moves():
    """From 1 − 10⁻¹² to 1 − 10⁻¹⁴ the loss hardly changes; its logit does."""
    before = Probabilities(lambda rows: np.tile([1e-12, 1 - 1e-12], (len(rows), 1)))
    after = Probabilities(
        lambda rows: np.column_stack([10.0 ** (-12 - rows[:, 0]), 1 - 10.0 ** (-12 - rows[:, 0])])
    )
    candidates = Records(np.array([[0.0], [2.0], [1.0]]), np.array([1, 1, 1]))
    assert ModelDifferencing().pick(ModelPair(before, after), candidates) == 1


def test_a_class_that_only_one_model_knows():
    before = Probabilities(lambda rows: np.tile([0.5, 0.5], (len(rows), 1)))
    after = Probabilities(lambda rows: np.tile([0.4, 0.4, 0.2], (len(rows), 1)))
    assert ModelDifferencing().label(ModelPair(before, after), np.zeros(3)) == 2


def test_bad_arguments():
    view = Probabilities(lambda rows: np.tile([0.5, 0.5], (len(rows), 1)))
    candidates = Records(np.zeros((3, 1)), np.zeros(3, dtype=int))
    with pytest.raises(InvalidArgument, match="'pairs' must be one pair"):
        ModelDifferencing().run_records([], candidates, np.array([0]))
    with pytest.raises(InvalidArgument, match="'truths' must be places"):
        ModelDifferencing().run_records([ModelPair(view, view)], candidates, np.array([3]))
