"""Whether members and non-members differ even without a model.

Then an attack may measure that difference and not the model.
"""

import math

import numpy as np
from scipy.special import ndtri
from scipy.stats import chi2, rankdata

from privet.arguments import whole
from privet.attacks.estimators import BoostedTrees, Classifier
from privet.attacks.preflight.columns import SideDifference, count_columns, join_counts, largest_difference
from privet.attacks.preflight.false_alarms import LEVEL, draw_sides
from privet.attacks.preflight.features import summarize_records, to_numbers
from privet.attacks.preflight.label_fit import compare_label_fit
from privet.attacks.preflight.row_summaries import derive_columns, read_columns, summarize_rows
from privet.checks import Check, Outcome
from privet.errors import MissingPackage
from privet.scores import Bits, Challenge
from privet.views import Numbers, Rows

__all__ = ["label_shift", "mann_whitney", "membership_without_a_model"]

_DEVIATIONS = -float(ndtri(LEVEL))  # one-sided
_MOST = 4000  # records of a side; enough to tell an AUC of 0.52 from ½
_NUMBERS = 8_000_000  # numbers of records that are looked at column by column
_FOLDS = 2
_FEWEST = 40  # of a side
_EXPECTED = 5.0


def membership_without_a_model(
    challenge: Challenge, *, seed: int = 0, classifier: Classifier | None = None
) -> Check:
    """No column of the records, and no classifier that sees them, may tell members from others without the
    model.

    *Columns*: every cut and every common value of each column, of the counts of each value in a record, and
    of how precisely numbers are written, by exact tests that share one false-alarm rate
    (``preflight.columns``). This finds a mark, another missing-value code, another rounding.

    *Classifier*: cross-validated: each fold is scored by a classifier that has not seen it. Given that
    classifier, on a fair challenge all orders of the fold's coins are equally likely, so the AUC of a fold
    has mean ½ and variance (a + b + 1)/(12 ab) for a members and b others (Mann & Whitney 1947). The mean of
    both folds is tested, one-sided. The folds are dependent, because each is scored by a classifier that
    learnt from the other. So the test uses the deviation of a single fold, which the deviation of the mean
    never exceeds. It sees the label with the record.
    """
    name = "members and non-members are alike"
    generator = np.random.default_rng(whole("seed", seed, least=0))
    width = max(1, int(np.prod(challenge.records.inputs.shape[1:])))
    chosen = draw_sides(challenge, max(_FEWEST, min(_MOST, _NUMBERS // width // 2)), generator)
    coin = challenge.members[chosen]
    inputs = challenge.records.inputs[chosen]
    found = _compare_columns(inputs, coin)
    if found is not None:
        return Check(name=name, outcome=Outcome.WARNED, finding=found, advice=_ADVICE)
    if min(int(coin.sum()), int((~coin).sum())) < _FEWEST:
        return Check(
            name=name,
            outcome=Outcome.SKIPPED,
            finding=f"There are fewer than {_FEWEST} records of a side, too few to learn from.",
        )
    parts = [summarize_records(to_numbers(inputs), generator), summarize_rows(inputs)]
    if challenge.records.labels is not None:
        parts.append(challenge.records.labels[chosen, None].astype(np.float32))
    features = np.concatenate(parts, axis=1).astype(np.float64)
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
        return Check(name=name, outcome=Outcome.WARNED, finding=finding, advice=_ADVICE)
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


_ADVICE = (
    "Draw both sides from the same source by a fair coin, and prepare them in the same way. The measured "
    "leakage may be this shift alone."
)


def label_shift(challenge: Challenge, *, seed: int = 0) -> Check:
    """Whether classes are equally frequent on both sides, and labels fit the inputs equally well.

    The shares of classes are compared by Pearson's χ², with rare classes put together. The fit is that of
    ``preflight.label_fit``: each label is predicted from all other records.
    """
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
    if chance < LEVEL:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Sample both sides with the same classes, or an attack will detect the classes and not the "
                "members."
            ),
        )
    generator = np.random.default_rng(whole("seed", seed, least=0))
    chosen = draw_sides(challenge, _MOST, generator)
    own = coin[chosen]
    if min(int(own.sum()), int((~own).sum())) < _FEWEST:
        return Check(name=name, outcome=Outcome.PASSED, finding=finding)
    fit = compare_label_fit(challenge.records.inputs[chosen], labels[chosen], own, generator)
    finding += (
        f" By a prediction from other records, {fit.of_members:.1%} of the members' labels look wrong and "
        f"{fit.of_others:.1%} of the others'; by chance in {fit.p_value:.2g} of cases. Predictions from "
        f"either side alone differ as much by chance in {fit.labelling_p_value:.2g} of cases."
    )
    if min(fit.p_value, fit.labelling_p_value) < LEVEL:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Take the labels of both sides from one source. A model is surer of labels that fit, so an "
                "attack would detect the labels and not the members."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def _compare_columns(inputs: Rows, coin: Bits) -> str | None:
    """A sentence on the column that tells the sides apart, or None."""
    tables = [("column", read_columns(inputs)), *derive_columns(inputs)]
    starts = np.cumsum([0, *(table.shape[1] for _, table in tables)])
    counts = join_counts(
        [count_columns(table, coin, first=int(at)) for (_, table), at in zip(tables, starts, strict=False)]
    )
    members = int(coin.sum())
    found = largest_difference(counts, members, len(coin) - members)
    if found is None or not found.significant:
        return None
    number = int(np.searchsorted(starts, found.column, side="right")) - 1
    return _describe(found, tables[number][0], found.column - int(starts[number]), members, len(coin))


def _describe(found: SideDifference, what: str, column: int, members: int, total: int) -> str:
    which = "share one value" if found.is_value else "are on one side of a cut"
    return (
        f"One {what} (number {column}) tells them apart without the model: {found.of_members} of {members} "
        f"members and {found.of_others} of {total - members} others {which}; by chance in "
        f"{found.p_value:.2g} of cases, all columns counted."
    )


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
        area, variance = mann_whitney(learned(features[held]), coin[held])
        areas.append(area)
        variances.append(variance)
    return float(np.mean(areas)), math.sqrt(max(variances))


def mann_whitney(scores: Numbers, coin: Bits) -> tuple[float, float]:
    """The AUC with ties counted half, and its variance if all orders of the coins are equally likely."""
    members, others = int(coin.sum()), int((~coin).sum())
    ranks = rankdata(scores)
    area = (ranks[coin].sum() - members * (members + 1) / 2) / (members * others)
    return float(area), (members + others + 1) / (12 * members * others)
