"""Whether members and non-members differ even without a model.

Then an attack may measure that difference and not the model.
"""

import math

import numpy as np
from scipy.stats import chi2, rankdata

from privet.arguments import whole
from privet.attacks.estimators import BoostedTrees, Classifier
from privet.attacks.preflight.features import summarize_records, to_numbers
from privet.checks import Check, Outcome
from privet.errors import MissingPackage
from privet.scores import Bits, Challenge
from privet.views import Numbers

__all__ = ["label_shift", "membership_without_a_model"]

_FALSE_ALARM = 1e-3
_DEVIATIONS = 3.09  # one-sided, 1e-3
_MOST = 4000  # records of a side; enough to tell an AUC of 0.52 from ½
_FOLDS = 2
_FEWEST = 40  # of a side
_EXPECTED = 5.0


def membership_without_a_model(
    challenge: Challenge, *, seed: int = 0, classifier: Classifier | None = None
) -> Check:
    """A classifier that sees the records but not the model must have an AUC of ½.

    Cross-validated: each fold is scored by a classifier that has not seen it. Given that classifier, on a
    fair challenge all orders of the fold's coins are equally likely, so the AUC of a fold has mean ½ and
    variance (a + b + 1)/(12 ab) for a members and b others (Mann & Whitney 1947). The mean of both folds is
    tested, one-sided. The folds are dependent, because each is scored by a classifier that learnt from the
    other. So the test uses the deviation of a single fold, which the deviation of the mean never exceeds.
    """
    name = "members and non-members are alike"
    generator = np.random.default_rng(whole("seed", seed, least=0))
    chosen = _balance(challenge.members, generator)
    coin = challenge.members[chosen]
    if min(int(coin.sum()), int((~coin).sum())) < _FEWEST:
        return Check(
            name=name,
            outcome=Outcome.SKIPPED,
            finding=f"There are fewer than {_FEWEST} records of a side, too few to learn from.",
        )
    features = summarize_records(to_numbers(challenge.records.inputs[chosen]), generator).astype(np.float64)
    try:
        auc, deviation = _cross_validate(features, coin, classifier or BoostedTrees(), generator)
    except MissingPackage:
        return Check(
            name=name,
            outcome=Outcome.SKIPPED,
            finding="It needs the package 'scikit-learn', which is not installed.",
            advice="Run pip install 'privet[learn]'.",
        )
    finding = (
        f"Without the model, a classifier tells them apart with AUC {auc:.3f} (95 % interval "
        f"{auc - 1.96 * deviation:.3f} to {auc + 1.96 * deviation:.3f}); ½ is chance."
    )
    if auc - 0.5 > _DEVIATIONS * deviation:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Draw both sides from the same source by a fair coin. The measured leakage may be this "
                "shift alone."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def label_shift(challenge: Challenge) -> Check:
    """Whether classes are equally frequent on both sides: Pearson's χ², with rare classes put together."""
    name = "labels of both sides are alike"
    labels = challenge.records.labels
    coin = challenge.members
    if labels is None or not coin.any() or coin.all():
        return Check(name=name, outcome=Outcome.SKIPPED, finding="There are no labels, or only one side.")
    _, classes = np.unique(labels, return_inverse=True)
    table = np.stack([np.bincount(classes[side], minlength=classes.max() + 1) for side in (coin, ~coin)])
    rare = table.sum(0) * table.sum(1).min() / table.sum() < _EXPECTED
    merged = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], axis=1)
    merged = merged[:, merged.sum(0) > 0].astype(np.float64)
    if merged.shape[1] < 2:
        return Check(
            name=name,
            outcome=Outcome.PASSED,
            finding="There is one class, or too few records to compare them.",
        )
    expected = merged.sum(1, keepdims=True) * merged.sum(0) / merged.sum()
    chance = float(chi2.sf(((merged - expected) ** 2 / expected).sum(), merged.shape[1] - 1))
    distance = 0.5 * float(np.abs(merged[0] / merged[0].sum() - merged[1] / merged[1].sum()).sum())
    finding = (
        f"The shares of classes differ by {distance:.3f} in total variation; by chance in {chance:.2g} of "
        f"cases."
    )
    if chance < _FALSE_ALARM:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Sample both sides with the same classes, or an attack will detect the classes and not the "
                "members."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def _balance(coin: Bits, generator: np.random.Generator) -> np.ndarray:
    """At most ``_MOST`` records of each side, in random order."""
    sides = [generator.permutation(np.flatnonzero(side))[:_MOST] for side in (coin, ~coin)]
    return generator.permutation(np.concatenate(sides))


def _cross_validate(
    features: Numbers, coin: Bits, classifier: Classifier, generator: np.random.Generator
) -> tuple[float, float]:
    """The mean AUC over folds with equal shares of both sides, and a bound on its standard deviation on a
    fair challenge.
    """
    fold = np.empty(len(coin), dtype=np.int64)
    for side in (coin, ~coin):
        fold[side] = generator.permutation(np.arange(int(side.sum())) % _FOLDS)
    areas, variances = [], []
    for number in range(_FOLDS):
        held = fold == number
        learned = classifier.learn(features[~held], coin[~held])
        area, variance = _area(learned(features[held]), coin[held])
        areas.append(area)
        variances.append(variance)
    return float(np.mean(areas)), math.sqrt(max(variances))


def _area(scores: Numbers, coin: Bits) -> tuple[float, float]:
    members, others = int(coin.sum()), int((~coin).sum())
    ranks = rankdata(scores)
    area = (ranks[coin].sum() - members * (members + 1) / 2) / (members * others)
    return float(area), (members + others + 1) / (12 * members * others)
