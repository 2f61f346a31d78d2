"""Who is hurt: leakage per record, per class and per group, and next to the generalisation gap.

An average hides the victims: half of all members may be safe and the others exposed. Each statement about
many records or groups is corrected for their number, so that a long list of suspects is not a list of
coincidences.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from privet.arguments import open_fraction
from privet.auditing.leakage import Leakage, area_variance, measure
from privet.auditing.proportions import Rate, rate
from privet.auditing.roc import Roc
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = [
    "AtRisk",
    "GeneralizationGap",
    "GroupAccuracy",
    "GroupHarm",
    "accuracy_by_group",
    "leakage_against_gap",
    "leakage_by_group",
    "most_at_risk",
    "most_at_risk_over_targets",
]

Places = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class AtRisk:
    """Records by how exposed they are, the most exposed first.

    ``records`` are positions in the given scores; ``p_values`` say how rare such exposure is without leakage.
    Among the first ``flagged`` records, at most a share ``false_discoveries`` is expected to be coincidence.
    """

    records: Places
    p_values: Numbers
    flagged: int
    false_discoveries: float

    def __repr__(self) -> str:
        return (
            f"AtRisk({self.flagged} of {len(self.records)} records flagged at {self.false_discoveries:g} "
            f"false discoveries)"
        )

    @property
    def exposed(self) -> Places:
        """The flagged records."""
        return self.records[: self.flagged]


def most_at_risk(scores: Scores, *, false_discoveries: float = 0.1) -> AtRisk:
    """The members whose scores stand out from those of non-members, for one target.

    A member's p-value is (1 + non-members who score as high)/(1 + non-members): exact if the member could as
    well be one of them. The list is Benjamini & Hochberg's. Its p-values share their non-members, which the
    theorem allows (Bates, Candès, Lei, Romano & Sesia 2023, Theorem 2). No p-value is below 1/(1 +
    non-members), so few non-members make an empty list.

    *Guarantee*: a false discovery is a listed member whose score does not depend on whether it was trained
    on. Such records may score higher than others, in or out; a fair coin still puts about as many of them
    among the non-members. With V of them among R listed, and O among the non-members who score as high, the
    list has m (1 + O)/(1 + n) ≤ level · R for m members and n non-members, so V/R ≤ level · (1 + n)/m ·
    V/(1 + O). Where a coin says "member" with probability p, V/(1 + O) has a mean of at most p/(1 − p), at
    every threshold and at the chosen one, which is a stopping time of the coins from the lowest score up
    (Barber & Candès 2015, Lemma 4). So the rate is at most level · (1 + n)/m · p/(1 − p), which is about the
    level.
    """
    members = np.flatnonzero(scores.members)
    others = np.sort(scores.of_others)
    as_high = len(others) - np.searchsorted(others, scores.values[members], side="left")
    p_values: Numbers = (1.0 + as_high.astype(np.float64)) / (1.0 + len(others))
    return _benjamini_hochberg(members, p_values, false_discoveries)


def most_at_risk_over_targets(values: Numbers, members: Bits, *, false_discoveries: float = 0.1) -> AtRisk:
    """The records that several targets expose: scores and coins, targets × records.

    For each record the scores of targets that were trained on it are compared with those of targets that were
    not, by Mann & Whitney's statistic with mid-ranks and the normal approximation with corrections for ties
    and continuity, whose p-values are too large in the far tail, which is safe, unless most scores are equal.
    Where more than half of the targets give a record the same score, it counts which targets score higher,
    exactly (Fisher 1935); so do scores with two values only (a label that is right or not). A record that was
    always in or always out has p = 1. The targets may be the models of a shadow study:
    ``most_at_risk_over_targets(references.signals[:, 0], references.members)``.

    *Guarantee*: records share their targets, so their scores depend on each other. Given all scores, the
    coins of a record that does not leak are independent of them and of other coins, and so are the p-values
    of such records, which Benjamini & Hochberg 1995 need.
    """
    values, members = np.asarray(values, dtype=np.float64), np.asarray(members, dtype=np.bool_)
    if values.ndim != 2 or values.shape != members.shape:
        raise InvalidArgument(
            f"'values' and 'members' must both be targets × records, got shapes {values.shape} and "
            f"{members.shape}. Give one score and one coin for each target and record."
        )
    targets = len(values)
    ranks, ties = _midranks(values)
    inside = members.sum(axis=0)
    outside = targets - inside
    wins = (ranks * members).sum(axis=0) - inside * (inside + 1) / 2
    variance = inside * outside / 12 * (targets + 1 - ties / max(targets * (targets - 1), 1))
    known = (inside > 0) & (outside > 0) & (variance > 0)
    z = (wins - inside * outside / 2 - 0.5) / np.sqrt(np.where(known, variance, 1.0))
    p_values = np.where(known, ndtr(-z), 1.0)
    highest = values == values.max(axis=0, initial=-np.inf)
    exact = known & (highest | (values == values.min(axis=0, initial=np.inf))).all(axis=0)
    common, count = _most_frequent(values)
    tied = known & ~exact & (2 * count > targets)
    p_values[exact] = _fisher(highest[:, exact], members[:, exact])
    p_values[tied] = _fisher((values > common)[:, tied], members[:, tied])
    return _benjamini_hochberg(np.arange(values.shape[1]), p_values, false_discoveries)


class GroupHarm(NamedTuple):
    """One class or group: its leakage, and whether it is worse off than the rest.

    ``p_value`` tests "no worse than all others together", by the areas and their variances; ``flagged`` is
    Holm's decision over all groups. ``at_common`` is the share of its members found at the threshold that all
    groups share.
    """

    name: str
    leakage: Leakage
    at_common: Rate | None
    p_value: float
    flagged: bool


def leakage_by_group(
    scores: Scores, groups: NDArray[np.generic], *, fpr: float = 0.01, confidence: float = 0.95
) -> tuple[GroupHarm, ...]:
    """The leakage of each class or group, the worst first.

    ``groups`` names the group (or class) of every record.

    A group is compared by the AUC among its own records, which does not change if all of its scores are
    higher. A group with members or non-members only is left out: nothing can be said about it.

    All statements hold together with ``confidence``: half of the failure is for the flags (Holm), the other
    half is divided over two intervals of each group, its AUC and ``at_common``.
    """
    names = np.asarray(groups).astype(str)
    if names.shape != scores.values.shape:
        raise InvalidArgument(
            f"'groups' must name one group for each of {len(scores)} records, got an array of shape "
            f"{names.shape}. Give one axis of that length."
        )
    common = Roc.of(scores).at(fpr)
    harms: list[GroupHarm] = []
    complete = [(name, inside) for name in np.unique(names) if _both_sides(scores, inside := names == name)]
    per_interval = 1 - (1 - confidence) / 4 / max(len(complete), 1)
    for name, inside in complete:
        own = scores.take(inside)
        hits = None
        if common is not None:
            of_members = own.of_members
            # The threshold ∞ means "nobody", and a score of ∞ would reach it: where no member is found, none
            # is found here.
            hit = int((of_members >= common.threshold).sum()) if common.tpr.value > 0 else 0
            hits = rate(hit, len(of_members), per_interval)
        leakage = measure(own, confidence=per_interval)
        harms.append(GroupHarm(str(name), leakage, hits, _worse(scores, inside, leakage), False))
    harms.sort(key=lambda group: -group.leakage.auc.value)
    flags = _holm(np.array([group.p_value for group in harms]), (1 - confidence) / 2)
    return tuple(group._replace(flagged=bool(flag)) for group, flag in zip(harms, flags, strict=True))


class GroupAccuracy(NamedTuple):
    """How often the model is right on one class or group: on its members, and on its records that were not
    trained on.

    A side without records has no rate.
    """

    name: str
    on_members: Rate | None
    on_others: Rate | None


def accuracy_by_group(
    members: Bits, right: Bits, groups: NDArray[np.generic], *, confidence: float = 0.95
) -> tuple[GroupAccuracy, ...]:
    """The accuracy on each class or group, the lowest on non-members first.

    Intervals are exact, each by itself.

    >>> members, right = np.array([1, 1, 0, 0]) > 0, np.array([1, 1, 1, 0]) > 0
    >>> accuracies = accuracy_by_group(members, right, np.array(["a", "b", "a", "b"]))
    >>> [(group.name, group.on_others.value) for group in accuracies]
    [('b', 0.0), ('a', 1.0)]
    """
    members, right = np.asarray(members, dtype=np.bool_), np.asarray(right, dtype=np.bool_)
    names = np.asarray(groups).astype(str)
    if not members.shape == right.shape == names.shape:
        raise InvalidArgument(
            f"'members', 'right' and 'groups' must have one entry for each record, got shapes "
            f"{members.shape}, {right.shape} and {names.shape}. Give one axis of the same length."
        )

    def share(side: Bits) -> Rate | None:
        return rate(int(right[side].sum()), int(side.sum()), confidence) if side.any() else None

    accuracies = [
        GroupAccuracy(str(name), share(members & (names == name)), share(~members & (names == name)))
        for name in np.unique(names)
    ]
    return tuple(
        sorted(accuracies, key=lambda group: 2.0 if group.on_others is None else group.on_others.value)
    )


class GeneralizationGap(NamedTuple):
    """The generalisation gap and the leakage.

    ``explained`` is the balanced accuracy of guessing "member" for every record that is classified correctly,
    ½ + gap/2 (Yeom et al. 2018): the leak by the gap alone. What the attack finds beyond it does not come
    from overfitting of the label.
    """

    name: str
    on_members: Rate
    on_others: Rate
    gap: float
    explained: float
    leakage: Leakage


def leakage_against_gap(
    scores: Scores,
    right: Bits,
    *,
    groups: NDArray[np.generic] | None = None,
    confidence: float = 0.95,
) -> tuple[GeneralizationGap, ...]:
    """Leakage and gap, for everybody and then for each group.

    ``right`` marks records that the model classifies correctly.
    """
    right = np.asarray(right, dtype=np.bool_)
    if right.shape != scores.values.shape:
        raise InvalidArgument(
            f"'right' must have one entry for each of {len(scores)} records, got an array of shape "
            f"{right.shape}. Say for each record whether the model classifies it correctly."
        )
    gaps = [_gap("everybody", scores, right, confidence)]
    if groups is not None:
        names = np.asarray(groups).astype(str)
        for harm in leakage_by_group(scores, groups, confidence=confidence):
            inside = names == harm.name
            gaps.append(_gap(harm.name, scores.take(inside), right[inside], confidence))
    return tuple(gaps)


def _gap(name: str, scores: Scores, right: Bits, confidence: float) -> GeneralizationGap:
    sides = [right[scores.members], right[~scores.members]]
    on_members, on_others = (rate(int(side.sum()), len(side), confidence) for side in sides)
    gap = on_members.value - on_others.value
    return GeneralizationGap(
        name, on_members, on_others, gap, 0.5 + gap / 2, measure(scores, confidence=confidence)
    )


def _both_sides(scores: Scores, inside: Bits) -> bool:
    members = scores.members[inside]
    return bool(members.any() and not members.all())


def _benjamini_hochberg(records: Places, p_values: Numbers, false_discoveries: float) -> AtRisk:
    """Benjamini & Hochberg 1995: the longest list whose i-th smallest p-value is at most i/n of the share
    allowed.
    """
    open_fraction("false_discoveries", false_discoveries)
    order = np.argsort(p_values, kind="stable")
    ordered = p_values[order]
    within = ordered <= false_discoveries * np.arange(1, len(ordered) + 1) / len(ordered)
    flagged = int(np.flatnonzero(within)[-1]) + 1 if within.any() else 0
    return AtRisk(records[order], ordered, flagged, false_discoveries)


def _most_frequent(values: Numbers) -> tuple[Numbers, Numbers]:
    """The most frequent value of each column, and how often it occurs."""
    ordered = np.sort(values, axis=0)
    run = best = np.ones(values.shape[1])
    common = ordered[0]
    for before, row in pairwise(ordered):
        run = np.where(row == before, run + 1, 1.0)
        common, best = np.where(run > best, row, common), np.maximum(run, best)
    return common, best


def _fisher(high: Bits, members: Bits) -> Numbers:
    """P[as many high scores with the record in, or more], with the numbers of high scores and of targets that
    had the record fixed.
    """
    counts = np.stack([(high & members).sum(axis=0), high.sum(axis=0), members.sum(axis=0)])
    distinct, inverse = np.unique(counts, axis=1, return_inverse=True)
    columns = (tuple(int(part) for part in column) for column in distinct.T)
    tails = np.array([_hypergeometric_tail(*column, targets=len(high)) for column in columns])
    found: Numbers = tails[inverse.ravel()]
    return found


def _hypergeometric_tail(least: int, high: int, members: int, *, targets: int) -> float:
    """P[at least so many of the high targets are members], if every set of members is as likely."""
    counts = np.arange(max(least, high + members - targets, 0), min(high, members) + 1)
    if least <= max(high + members - targets, 0):
        return 1.0

    def log_choose(total: int, part: Numbers) -> Numbers:
        logs: Numbers = gammaln(total + 1.0) - gammaln(part + 1.0) - gammaln(total - part + 1.0)
        return logs

    part = counts.astype(np.float64)
    logs = log_choose(high, part) + log_choose(targets - high, members - part)
    logs = logs - log_choose(targets, np.array([float(members)]))
    return min(float(np.exp(logs).sum()), 1.0)


def _holm(p_values: Numbers, level: float) -> Bits:
    """Holm 1979: the smallest p-value against level/n, the next against level/(n − 1), until one fails."""
    flags = np.zeros(len(p_values), dtype=np.bool_)
    for rank, index in enumerate(np.argsort(p_values, kind="stable")):
        if p_values[index] > level / (len(p_values) - rank):
            break
        flags[index] = True
    return flags


def _worse(scores: Scores, inside: Bits, own: Leakage) -> float:
    """The p-value of "the AUC of this group is no larger than that of all others together"."""
    rest = scores.members[~inside]
    sides = (own.roc.members, own.roc.others, int(rest.sum()), int((~rest).sum()))
    if min(sides) < 2:
        return 1.0
    outside = Roc.of(scores.take(~inside))
    variance = area_variance(own.roc, outside.area) + area_variance(outside, outside.area)
    return float(ndtr((outside.area - own.roc.area) / variance**0.5))


def _midranks(values: Numbers) -> tuple[Numbers, Numbers]:
    """Ranks from 1 in each column, ties with their mean rank, and Σ(t³ − t) over the groups of ties."""
    order = np.argsort(values, axis=0, kind="stable")
    climbing = np.take_along_axis(values, order, axis=0)
    rows = np.broadcast_to(np.arange(len(values))[:, None], values.shape)
    rises = climbing[1:] != climbing[:-1]
    edge = np.ones((1, values.shape[1]), dtype=np.bool_)
    starts = np.maximum.accumulate(np.where(np.concatenate([edge, rises]), rows, 0), axis=0)
    falls = np.where(np.concatenate([rises, edge]), rows, len(values))
    ends = np.minimum.accumulate(falls[::-1], axis=0)[::-1]
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, order, (starts + ends) / 2 + 1.0, axis=0)
    sizes = (ends - starts + 1).astype(np.float64)
    ties: Numbers = (sizes**2 - 1).sum(axis=0)  # t records of a group, t² − 1 each
    return ranks, ties
