"""The signal that most attacks read: φ = ln(p/(1−p)) of the confidence p in the true label, and what follows from it.

Everything is computed from φ, so that p near 1 and p near 0 both keep their digits: 1 − p is the logistic function of −φ.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from privet.errors import InvalidArgument
from privet.scores import Records
from privet.views import BlackBox, Labels, Numbers, Rows, scaled

__all__ = [
    "Query",
    "checked_labels",
    "identity",
    "log_confidence",
    "log_mean",
    "mean_confidence",
    "signal",
    "signals",
]

_LEAST = float(np.nextafter(0.0, 1.0))

Query = Callable[[Rows], Rows]  # how a record is shown to the model: as it is, mirrored, shifted …


def identity(inputs: Rows) -> Rows:
    """The records as they are."""
    return inputs


def signal(view: BlackBox, records: Records) -> Numbers:
    """φ of every record's true label, under one query."""
    log_confidences = view.log_confidences(records.inputs)
    if not isinstance(log_confidences, np.ndarray) or log_confidences.ndim != 2:
        raise InvalidArgument(
            "'view' must give rows × classes as an array, got something else. Return one from log_confidences."
        )
    return scaled(log_confidences, checked_labels(records, log_confidences.shape[1]))


def signals(view: BlackBox, records: Records, queries: tuple[Query, ...] = (identity,)) -> Numbers:
    """φ of every query and record, queries × records."""
    if not queries:
        raise InvalidArgument("'queries' must hold at least one query, got none. Give (identity,).")
    known = records.known_labels
    return np.stack([signal(view, Records(_shown(query, records.inputs), known)) for query in queries])


def _shown(query: Query, inputs: Rows) -> Rows:
    rows = query(inputs)
    if not isinstance(rows, np.ndarray) or rows.ndim == 0 or len(rows) != len(inputs):
        raise InvalidArgument(
            "'queries' must give one row for each record, got something else. Change the rows, and keep their number."
        )
    return rows


def checked_labels(records: Records, classes: int) -> Labels:
    """The true labels, or a refusal where there are none, or where the model has fewer classes."""
    labels = records.known_labels
    if labels.max() >= classes:
        raise InvalidArgument(
            f"'labels' must be below the model's {classes} classes, got a larger one. Number the classes as the model "
            f"does, and leave out records of classes that it does not know."
        )
    return labels


def log_confidence(phi: Numbers) -> Numbers:
    """ln p = −ln(1 + e^−φ): the negative cross-entropy loss.

    >>> log_confidence(np.array([0.0, 40.0])).tolist()
    [-0.6931471805599453, -4.248354255291589e-18]
    """
    answer: Numbers = -np.logaddexp(0.0, -phi)
    return answer


def log_mean(confidence: Numbers, rest: Numbers) -> Numbers:
    """ln p from p and 1 − p, whichever of the two has the digits; not below that of the least number above 0."""
    answer: Numbers = np.where(
        rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), np.log(np.maximum(confidence, _LEAST))
    )
    return answer


def mean_confidence(phi: Numbers, among: Numbers) -> tuple[Numbers, Numbers]:
    """p̄ and 1 − p̄ over the models (first axis), weighted by ``among``; NaN where no model has a weight."""
    weight = among.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (expit(phi) * among).sum(axis=0) / weight, (expit(-phi) * among).sum(axis=0) / weight
