"""The signal of most attacks: φ = ln(p/(1−p)) of the confidence p in the true label, and functions of it.

Everything is computed from φ, so that p near 1 and p near 0 both keep their digits: 1 − p is the logistic
function of −φ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import expit

from privet.errors import InvalidArgument
from privet.scores import TEMPERATURES, Records
from privet.views import BlackBox, Labels, Numbers, Rows, confidence_logits

__all__ = [
    "QueryTransform",
    "TargetSignals",
    "check_labels",
    "identity",
    "log_confidence",
    "log_mean",
    "mean_confidence",
    "signal",
    "signals",
    "softened_signals",
]

_LEAST = float(np.nextafter(0.0, 1.0))

QueryTransform = Callable[[Rows], Rows]  # how a record is shown to the model: unchanged, mirrored, shifted …


@final
@dataclass(frozen=True, eq=False)
class TargetSignals:
    """φ of the target, queries × records, and the same at each of ``TEMPERATURES`` where it was asked for."""

    phi: Numbers
    softened: Numbers | None = None  # temperatures × queries × records


def identity(inputs: Rows) -> Rows:
    """The records as they are."""
    return inputs


def signal(view: BlackBox, records: Records) -> Numbers:
    """φ of every record's true label, for one query."""
    answer: Numbers = _signals_at(view, records, (1.0,))[0]
    return answer


def _signals_at(view: BlackBox, records: Records, temperatures: Sequence[float]) -> Numbers:
    """φ of every record at each temperature, from one query of the model."""
    log_confidences = view.log_confidences(records.inputs)
    if not isinstance(log_confidences, np.ndarray) or log_confidences.ndim != 2:
        raise InvalidArgument(
            "'view' must give an array of rows × classes, got something else. Return one from "
            "log_confidences."
        )
    labels = check_labels(records, log_confidences.shape[1])
    return np.stack([confidence_logits(log_confidences, labels, each) for each in temperatures])


def signals(view: BlackBox, records: Records, queries: Sequence[QueryTransform] = (identity,)) -> Numbers:
    """φ of every query and record, queries × records."""
    answer: Numbers = _query(view, records, queries, (1.0,))[0]
    return answer


def softened_signals(view: BlackBox, records: Records, queries: Sequence[QueryTransform]) -> TargetSignals:
    """φ of every query and record, plain and at each of ``TEMPERATURES``."""
    found = _query(view, records, queries, (1.0, *TEMPERATURES))
    return TargetSignals(found[0], found[1:])


def _query(
    view: BlackBox, records: Records, queries: Sequence[QueryTransform], temperatures: Sequence[float]
) -> Numbers:
    """φ, temperatures × queries × records."""
    if not queries:
        raise InvalidArgument("'queries' must hold at least one query, got none. Give (identity,).")
    known = records.known_labels
    shown = [Records(_transform(query, records.inputs), known) for query in queries]
    return np.stack([_signals_at(view, each, temperatures) for each in shown], axis=1)


def _transform(query: QueryTransform, inputs: Rows) -> Rows:
    rows = query(inputs)
    if not isinstance(rows, np.ndarray) or rows.ndim == 0 or len(rows) != len(inputs):
        raise InvalidArgument(
            "'queries' must give one row for each record, got something else. Change the rows, "
            "and keep their number."
        )
    return rows


def check_labels(records: Records, classes: int) -> Labels:
    """The true labels; refused where there are none, or where the model has fewer classes."""
    labels = records.known_labels
    if labels.max() >= classes:
        raise InvalidArgument(
            f"'labels' must be below the model's {classes} classes, got a larger one. Number the classes as "
            f"the model does, and leave out records of classes that it does not know."
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
    """ln p from p and 1 − p, whichever is more accurate.

    Not below the logarithm of the smallest float above 0.
    """
    answer: Numbers = np.where(
        rest < 0.5, np.log1p(-np.minimum(rest, 0.5)), np.log(np.maximum(confidence, _LEAST))
    )
    return answer


def mean_confidence(phi: Numbers, among: Numbers) -> tuple[Numbers, Numbers]:
    """p̄ and 1 − p̄ over the models (first axis), weighted by ``among``; NaN where no model has a weight."""
    weight = among.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (expit(phi) * among).sum(axis=0) / weight, (expit(-phi) * among).sum(axis=0) / weight
