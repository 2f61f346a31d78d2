"""LiRA where nothing leaks: a target that is not among its references has an AUC of ½; one that is taken out of a finite study has not.

False alarm 1e-6: the AUC of 16,000 records has a standard error of 0.0046, and five of them are allowed.
"""

import numpy as np
import pytest
from scipy.special import expit

from privet.attacks import LiRA, Probabilities
from privet.auditing import measure
from privet.scores import Challenge, Records, References

RECORDS = 4000


def _null_auc(generator, models, leave_one_out):
    """The mean over four studies. Each record is in exactly half of the models of a study, as in Privet's."""
    areas = []
    for _ in range(4):
        spots = models + 2 if leave_one_out else models
        inside = np.argsort(generator.random((spots, RECORDS)), axis=0) < spots // 2
        signals = 2 * generator.normal(size=RECORDS) + generator.normal(size=(spots, RECORDS))
        if (
            leave_one_out
        ):  # the last model is the target, and those that are left know how often each record was in
            coin, target, inside, signals = inside[-1], signals[-1], inside[:-1], signals[:-1]
        else:
            centre = signals.mean(axis=0)
            coin = generator.random(RECORDS) < 0.5
            target = centre + generator.normal(size=RECORDS)
        view = Probabilities(lambda rows, target=target: _confidences(target[rows[:, 0].astype(int)]))
        records = Records(np.arange(RECORDS)[:, None], np.zeros(RECORDS, dtype=int))
        references = References(signals[:, None, :], inside)
        areas.append(measure(LiRA(references).run(view, Challenge(records, coin))).auc.value)
    return float(np.mean(areas))


def _confidences(signals):
    return np.stack([expit(signals), expit(-signals)], axis=1)


@pytest.mark.parametrize("models", [4, 8, 16])
def test_a_target_of_its_own_is_not_told(models):
    assert abs(_null_auc(np.random.default_rng(models), models, leave_one_out=False) - 0.5) < 5 * 0.0046


def test_a_target_out_of_a_finite_study_is_biased():
    """What Privet does not do: with each record in half of 6 models, 5 of them tell the coin of the sixth."""
    assert abs(_null_auc(np.random.default_rng(1), 4, leave_one_out=True) - 0.5) > 5 * 0.0046
