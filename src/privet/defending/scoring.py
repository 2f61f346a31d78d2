"""Attacks on a set of models of one kind: each is the target once, and the others are its references.

So all references use the defence, and every model counts. The complement of a target is left out: its members
would tell the coins.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

from privet.attacks.membership.bavaria import BaVarIA
from privet.attacks.membership.likelihood_ratio import RMIA
from privet.attacks.membership.lira import LiRA
from privet.attacks.membership.reference_attack import ReferenceAttack
from privet.attacks.membership.signals import TargetSignals
from privet.attacks.membership.variances import Moderated, Overall
from privet.auditing.proportions import Rate, rate
from privet.auditing.roc import Roc
from privet.scores import TEMPERATURES, Bits, References, Scores
from privet.views import Labels, Numbers, confidence_logits

__all__ = [
    "AttackedRate",
    "attack_models",
    "best_rate",
    "label_references",
    "plain_accuracy",
    "to_references",
]

_Attack = Callable[[References], ReferenceAttack]


def _global_lira(references: References) -> ReferenceAttack:
    return LiRA(references, Overall())


def _lira_by_record(references: References) -> ReferenceAttack:
    return LiRA(references, Moderated())


def _rmia(references: References) -> ReferenceAttack:
    return RMIA(references, temperature=2.0)


# With their settings: to choose them anew for every target takes twenty times as long, and the best of all
# counts anyway.
_ATTACKS: tuple[tuple[str, _Attack], ...] = (
    ("LiRA, one variance", _global_lira),
    ("LiRA, a variance for each record", _lira_by_record),
    ("RMIA", _rmia),
    ("BaVarIA", BaVarIA),
)
_LABEL_ATTACKS: tuple[tuple[str, _Attack], ...] = (
    ("label-only LiRA, one variance", _global_lira),
    ("label-only LiRA, a variance for each record", _lira_by_record),
)


class AttackedRate(NamedTuple):
    """The rate of the best attack, and its name."""

    attack: str
    tpr: Rate


def to_references(log_confidences: Numbers, labels: Labels, members: Bits, most: float) -> References:
    """Models × rows × classes as references; φ is cut at ± ``most``, beyond which answers say nothing."""
    tables = [
        [np.clip(confidence_logits(table, labels, each), -most, most) for table in log_confidences]
        for each in (1.0, *TEMPERATURES)
    ]
    found = np.array(tables)[:, :, None, :]
    return References(found[0], members, softened=found[1:])


def label_references(right: Numbers, asked: int, members: Bits) -> References:
    """References by labels alone: the ln odds of a right answer over ``asked`` copies of a record.

    *Reference*: Choquette-Choo et al. 2021, robustness to noise, as the signal of a likelihood ratio.
    """
    odds = np.log((right + 0.5) / (asked - right + 0.5))
    return References(odds[:, None, :], members)


def attack_models(references: References, *, by_labels: bool = False) -> Iterable[tuple[str, Numbers]]:
    """For each attack the scores, models × records; higher = more likely a member."""
    for name, attack in _LABEL_ATTACKS if by_labels else _ATTACKS:
        yield name, np.array([_attack_one(attack, references, each) for each in range(references.models)])


def _attack_one(attack: _Attack, references: References, target: int) -> Numbers:
    others = (references.members != ~references.members[target]).any(axis=1)
    others[target] = False
    rest = references.pick_models(others)
    softened = references.softened
    signals = TargetSignals(references.signals[target], None if softened is None else softened[:, target])
    return attack(rest).judge(signals)


def best_rate(
    scored: Iterable[tuple[str, Numbers]], members: Bits, fpr: float, confidence: float
) -> AttackedRate:
    """The attack that finds most members at the false-positive rate.

    The threshold is one for all models. Where ``fpr`` is below one false positive, it is that of one. The
    interval is the wider of two: the exact one for independent trials, and Student's over models, because
    records of one model depend on each other. It is that of each attack at a confidence at which all hold at
    once (Bonferroni).
    """
    found = list(scored)
    each = 1.0 - (1.0 - confidence) / len(found)
    rates = [AttackedRate(name, _rate_at(values, members, fpr, each)) for name, values in found]
    return max(rates, key=lambda one: one.tpr.value)


def _rate_at(values: Numbers, members: Bits, fpr: float, confidence: float) -> Rate:
    pooled = Scores(values.ravel(), members.ravel())
    roc = Roc.of(pooled)
    point = roc.at(max(fpr, roc.fpr_floor), confidence)
    assert point is not None  # the rate is at least the floor
    hits = (values >= point.threshold) & members
    return cover_models(hits.sum(axis=1), members.sum(axis=1), confidence)


def cover_models(hits: Numbers, trials: Numbers, confidence: float) -> Rate:
    """A share over all models, with an interval that allows for differences between models."""
    exact = rate(int(hits.sum()), int(trials.sum()), confidence)
    shares = hits / np.maximum(trials, 1)
    if len(shares) < 2:
        return exact
    width = float(
        student.ppf((1 + confidence) / 2, len(shares) - 1) * shares.std(ddof=1) / len(shares) ** 0.5
    )
    lower, upper = min(exact.lower, exact.value - width), max(exact.upper, exact.value + width)
    return Rate(exact.value, max(lower, 0.0), min(upper, 1.0))


def plain_accuracy(references: References) -> float:
    """The balanced accuracy of one threshold on the loss, which was chosen on the other models."""
    phi, members = references.signals[:, 0], references.members
    found = []
    for target in range(references.models):
        others = np.arange(references.models) != target
        roc = Roc.of(Scores(phi[others].ravel(), members[others].ravel()))
        threshold = roc.thresholds[int(np.argmax(roc.tpr - roc.fpr))]
        called = phi[target] >= threshold
        found.append(0.5 * (called[members[target]].mean() + 1.0 - called[~members[target]].mean()))
    return float(np.mean(found))
