"""False-positive rates that hold for each record, and not only on average over records.

One threshold for all records has the stated false-positive rate on average. Records differ: some score high
whether or not they were trained on, and nearly all false positives are theirs, while others are never
accused. At small rates this decides who is found. Here a record is compared with itself: with its scores
under reference models that were not trained on it.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import stdtr

from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["RecordPValues", "calibrate_per_record"]

_FEWEST = 4  # reference models that were not trained on a record, for a deviation of its own


@final
@dataclass(frozen=True, eq=False)
class RecordPValues:
    """How rare the target's score of each record is among models that were not trained on it.

    ``exact`` are ranks among the record's own reference models, (1 + as high)/(1 + models): calling a record
    a member where its value is at most α is wrong with probability at most α, for every record, whatever the
    distribution. It cannot be below 1/(1 + models). ``pooled`` reaches small rates with few models, and rests
    on an assumption (``calibrate_per_record``). ``models`` counts the references not trained on each record.
    """

    exact: Numbers
    pooled: Numbers
    models: Numbers

    def __repr__(self) -> str:
        fewest = int(self.models.min()) if len(self.models) else 0
        return f"RecordPValues({len(self.exact)} records, {fewest} or more references each)"

    def to_scores(self, members: Bits, attack: str = "calibrated per record") -> Scores:
        """Scores by the pooled values, higher = more likely a member, as ``measure`` takes them."""
        return Scores(-self.pooled, members, attack)


def calibrate_per_record(values: Numbers, reference_values: Numbers, trained: Bits) -> RecordPValues:
    """P-values of "the target was not trained on this record", one for each record.

    ``values`` are the target's scores, one for each record, higher = more likely a member.
    ``reference_values`` are the same scores of reference models, models × records, and ``trained`` says which
    model was trained on which record; for φ they are ``references.signals[:, 0]`` and ``references.members``.

    *Guarantee*: under a target of the references' recipe that was not trained on the record, its score and
    those of references that were not trained on it are exchangeable. So ``exact`` is a p-value for every
    single record. For ``pooled`` each score becomes a Student deviate among the record's own references,
    (x − mean)/(s √(1 + 1/k)), and its tail is ranked among those of all records, in which the target and each
    reference are left out of the mean and deviation in turn; a record counts once, whatever its number of
    references. On average over records its rate holds, up to the noise of the pooled ranks, which shrinks
    with the number of records; for each record it holds if scores of different records differ
    in place and width only. Where the scores of a record are normal, the tails are uniform already.

    A record with fewer than 4 such references has ``pooled`` = 1.

    Reference: Jälkö, Pradhan, Räisä & Honkela 2026 (arXiv 2605.25819) show that one threshold over records is
    not calibrated for each of them, and propose a calibration of scores under a normal assumption. This is a
    construction of our own: Student's deviate allows for the estimated mean and deviation, ranks replace the
    normal tail, and the exact ranks need no assumption.

    >>> generator = np.random.default_rng(0)
    >>> place = 5 * generator.normal(size=200)  # some records always score high
    >>> references = place + generator.normal(size=(32, 200))
    >>> trained = generator.random((32, 200)) < 0.5
    >>> found = calibrate_per_record(place + generator.normal(size=200), references, trained)
    >>> bool((found.pooled <= 0.05).mean() < 0.12)
    True
    """
    values, reference_values, trained = _check(values, reference_values, trained)
    outside = ~trained
    models = outside.sum(axis=0)
    as_high = (outside & (reference_values >= values)).sum(axis=0)
    exact = (1.0 + as_high) / (1.0 + models)
    usable = models >= _FEWEST
    pooled = np.ones(len(values))
    if usable.any():
        together = np.vstack([reference_values, values])[:, usable]
        judged = np.vstack([outside, np.ones_like(outside[:1])])[:, usable]
        tails = _tails_left_out(together, judged)
        pooled[usable] = _rank_in_pool(tails, judged)
    return RecordPValues(exact, pooled, models.astype(np.float64))


def _tails_left_out(values: Numbers, judged: Bits) -> Numbers:
    """Student's tail of each model's score among the other models that are judged with it, models × records.

    With d = x − mean over all k models, the others have mean − d/(k − 1) and squares Σ − d² k/(k − 1).
    """
    count = judged.sum(axis=0).astype(np.float64)
    mean = (values * judged).sum(axis=0) / count
    differences = np.where(judged, values - mean, 0.0)
    squares = (differences**2).sum(axis=0)
    others = squares - differences**2 * count / (count - 1)
    others = np.where(others > 1e-9 * squares, others, 0.0)  # what rounding left of equal scores
    tails = _tail(differences * count / (count - 1), others, np.broadcast_to(count - 1, others.shape))
    return tails.astype(np.float32).astype(np.float64)  # equal cases are ties, whatever the order of the sums


def _rank_in_pool(tails: Numbers, judged: Bits) -> Numbers:
    """The share of all tails that are at most the target's, which is the last; each record counts once."""
    weights = np.broadcast_to(1.0 / judged.sum(axis=0), judged.shape)[judged]
    pool = tails[judged]
    order = np.argsort(pool, kind="stable")
    share = np.cumsum(weights[order]) / tails.shape[1]
    found: Numbers = share[np.searchsorted(pool[order], tails[-1], side="right") - 1]
    return np.minimum(found, 1.0)


def _tail(differences: Numbers, squares: Numbers, count: Numbers) -> Numbers:
    """P[T > difference/(s √(1 + 1/k))] of Student's T with k − 1 degrees of freedom."""
    spread = np.sqrt(squares / (count - 1) * (1 + 1 / count))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviates = np.where(differences == 0, 0.0, differences / spread)  # equal scores are at the middle
    return np.asarray(stdtr(count - 1, -deviates), dtype=np.float64)


def _check(values: Numbers, reference_values: Numbers, trained: Bits) -> tuple[Numbers, Numbers, Bits]:
    values, reference_values = (np.asarray(array, dtype=np.float64) for array in (values, reference_values))
    trained = np.asarray(trained, dtype=np.bool_)
    shape = reference_values.shape
    if reference_values.ndim != 2 or values.shape != shape[1:] or trained.shape != shape:
        raise InvalidArgument(
            f"'values' must have one score for each record, and 'reference_values' and 'trained' must be "
            f"models × records, got shapes {values.shape}, {shape} and {trained.shape}. Give the target's "
            f"scores, and those of each reference model with the records that it was trained on."
        )
    if not (np.isfinite(values).all() and np.isfinite(reference_values).all()):
        raise InvalidArgument(
            "'values' and 'reference_values' must be finite, got NaN or infinity among them. Look for models "
            "that diverged."
        )
    return values, reference_values, trained
