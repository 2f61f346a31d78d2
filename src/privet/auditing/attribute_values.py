"""Which values of a secret attribute are recovered: a rate and an area for each value, members beside others.

Where four people of five share one value, an attack that always names it is right for 80 %. So each value has
its own figures: of the people who have it, the share that is found, and the area under the curve of the
attack's score for this value against everybody who does not have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import logsumexp

from privet.arguments import open_fraction
from privet.auditing.leakage import measure
from privet.auditing.proportions import Rate, rate
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Labels, Numbers

__all__ = ["ValueFigures", "measure_values"]

_LARGEST = 1e9  # infinite scores are cut here, so that differences exist


@final
@dataclass(frozen=True)
class ValueFigures:
    """One value of a secret: how well it is told from the others, among members and among targets left out.

    ``auc_blind`` is the area of the imputation on the members. ``found`` is the share of the people with this
    value for whom the attack names it. A figure is None where one side has nobody with this value, or nobody
    without it.
    """

    value: str
    share: float  # of the targets who have it
    auc: Rate | None
    auc_left_out: Rate | None
    auc_blind: Rate | None
    found: Rate | None
    found_left_out: Rate | None


def measure_values(
    scores: Numbers,
    truths: Labels,
    members: Bits,
    names: Sequence[str],
    *,
    chosen: Labels | None = None,
    blind: Numbers | None = None,
    confidence: float = 0.95,
) -> tuple[ValueFigures, ...]:
    """The figures of each value, from scores of targets × values.

    Each interval holds by itself at ``confidence``. The score of a value is compared with that of all others
    together: s_v − ln Σ exp s_w over the other values w. ``chosen`` are the values that the attack named,
    where ties were broken by more than the scores.

    >>> scores = np.log(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3]]))
    >>> first, _ = measure_values(
    ...     scores, np.array([0, 1, 0, 1]), np.array([True, True, False, False]), ["no", "yes"]
    ... )
    >>> first.auc.value, first.auc_left_out.value
    (1.0, 0.0)
    """
    open_fraction("confidence", confidence)
    table = np.clip(np.asarray(scores, dtype=np.float64), -_LARGEST, _LARGEST)
    truths, members = np.asarray(truths), np.asarray(members, dtype=np.bool_)
    shape = (len(truths), len(names))
    if table.shape != shape or members.shape != (len(truths),) or np.isnan(table).any():
        raise InvalidArgument(
            f"'scores' must be numbers for {shape[0]} targets × {shape[1]} values, with one coin for each "
            f"target, got an array of shape {table.shape}. Give what the attack gave, with the names of all "
            f"values."
        )
    named = np.argmax(table, axis=1) if chosen is None else np.asarray(chosen)
    prior = None if blind is None else np.clip(np.asarray(blind, dtype=np.float64), -_LARGEST, _LARGEST)

    def area(part: Numbers, value: int, side: Bits) -> Rate | None:
        has = truths[side] == value
        if has.all() or not has.any():
            return None
        return measure(Scores(_odds(part[side], value), has), confidence=confidence).auc

    def found(value: int, side: Bits) -> Rate | None:
        has = side & (truths == value)
        return rate(int((named[has] == value).sum()), int(has.sum()), confidence) if has.any() else None

    return tuple(
        ValueFigures(
            value=name,
            share=float((truths == number).mean()),
            auc=area(table, number, members),
            auc_left_out=area(table, number, ~members),
            auc_blind=None if prior is None else area(prior, number, members),
            found=found(number, members),
            found_left_out=found(number, ~members),
        )
        for number, name in enumerate(names)
    )


def _odds(table: Numbers, value: int) -> Numbers:
    others = np.delete(table, value, axis=1)
    odds: Numbers = table[:, value] - logsumexp(others, axis=1)
    return odds
