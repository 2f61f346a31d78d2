"""Whether the losses of the target look like those of one more reference model.

Reference models that were trained for other epochs, or at another rate, may be as accurate as the target and
still be surer or less sure of their answers. Attacks compare the target's φ = ln(p/(1−p)) with theirs, so
what matters is the whole distribution of φ, on records that a model was trained on and on others.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import t as student

from privet.attacks.preflight.false_alarms import LEVEL
from privet.scores import Bits
from privet.views import Numbers

__all__ = ["LossDifference", "compare_losses"]

_LARGEST = 30.0  # beyond it φ is rounding
_PRIOR_MODELS = 4.0  # how many models the prior spread counts for
_PRIOR_SPREAD = 0.05  # of the deviation of φ over records; usual for models of one recipe
_APART = 0.1  # of that deviation; what is below it changes no attack
_FEWEST = 20  # records of a side
_FEWEST_MODELS = 4  # for slopes


@final
@dataclass(frozen=True)
class LossDifference:
    """The figure by which the target differs most from the references, and its corrected probability."""

    figure: str
    of_target: float
    of_references: float
    p_value: float
    matters: bool

    @property
    def significant(self) -> bool:
        """Whether it matters, and one more reference differs so much in less than ``LEVEL`` of cases."""
        return self.matters and self.p_value <= LEVEL


def compare_losses(target: Numbers, members: Bits, signals: Numbers, trained: Bits) -> LossDifference | None:
    """The target's φ against those of reference models, on both sides: mean, deviation and slope.

    The slope is that of a model's φ against the mean φ of the other references, record by record: a model
    that was trained longer has larger φ of the same records. From four references on it is the sharpest
    figure.

    A target of the same recipe is one more model: each figure is compared with the mean over references, by
    Student's t for a new observation. Their spread shows how much models of one recipe differ. With few
    references it is uncertain, so a prior spread counts for some more models (Smyth 2004, section 4, with a
    prior that is fixed here). The figures share the false-alarm rate by Bonferroni's inequality. A difference
    below a tenth of the deviation of φ over records, or of a slope, is not told.

    ``signals`` and ``trained`` are models × records. None where no side has enough records.
    """
    target, signals = (np.clip(phi, -_LARGEST, _LARGEST) for phi in (target, signals))
    coins, phis = np.concatenate([members[None], trained]), np.concatenate([target[None], signals])
    figures: list[tuple[str, Numbers, float, float]] = []  # target first; unit; prior variance in units
    for words, side in (("trained on", coins), ("not trained on", ~coins)):
        count = int(side.sum(axis=1).min())
        if count < _FEWEST:
            continue
        means, deviations = (
            np.array([figure(phi[inside]) for phi, inside in zip(phis, side, strict=True)])
            for figure in (np.mean, np.std)
        )
        scale = max(float(np.sqrt(np.mean(deviations[1:] ** 2))), 1e-9)
        prior = _PRIOR_SPREAD**2 + 1 / count
        figures.append((f"the mean of φ on records {words}", means, scale, prior))
        spreads = np.log(np.maximum(deviations, 1e-9))  # the deviation grows by factors
        figures.append((f"the logarithm of the deviation of φ on records {words}", spreads, 1.0, prior))
        slopes = _slopes(phis, side) if len(signals) >= _FEWEST_MODELS else None
        if slopes is not None:
            text = f"the slope of φ against that of other models on records {words}"
            figures.append((text, slopes, 1.0, prior))
    if not figures:
        return None
    compared = [_compare(*figure, tests=len(figures)) for figure in figures]
    # The least likely difference that matters; without one, the least likely.
    return min(compared, key=lambda found: (not found.significant, found.p_value))


def _slopes(phis: Numbers, side: Bits) -> Numbers | None:
    """The slope of each model's φ against the mean of references that do not include it; the target is first.

    The mean that leaves out a reference is used for that reference and for the target on the same records, so
    that both slopes are flattened equally by its noise.
    """
    sums, counts = (phis[1:] * side[1:]).sum(axis=0), side[1:].sum(axis=0)
    own, slopes = [], []
    for phi, inside in zip(phis[1:], side[1:], strict=True):
        others = counts - inside
        usual = (sums - phi * inside) / np.maximum(others, 1)
        usable = inside & (others > 0)
        pair = [_slope(phi, usual, usable), _slope(phis[0], usual, usable & side[0])]
        if pair[0] is None or pair[1] is None:
            return None
        slopes.append(pair[0])
        own.append(pair[1])
    return np.array([np.mean(own), *slopes])


def _slope(phi: Numbers, usual: Numbers, usable: Bits) -> float | None:
    centred = usual[usable] - usual[usable].mean() if usable.sum() >= _FEWEST else np.zeros(1)
    squares = float((centred**2).sum())
    return float((centred * phi[usable]).sum()) / squares if squares > 0 else None


def _compare(name: str, values: Numbers, unit: float, prior: float, *, tests: int) -> LossDifference:
    """Student's t of the first value as a new observation; ``prior`` is the prior variance in units."""
    own, others = float(values[0]), values[1:]
    freedom = _PRIOR_MODELS + len(others) - 1
    squares = _PRIOR_MODELS * prior * unit**2 + float(((others - others.mean()) ** 2).sum())
    spread = (squares / freedom * (1 + 1 / len(others))) ** 0.5
    difference = abs(own - float(others.mean()))
    return LossDifference(
        figure=name,
        of_target=own,
        of_references=float(others.mean()),
        p_value=min(1.0, tests * 2 * float(student.sf(difference / spread, freedom))),
        matters=difference > _APART * unit,
    )
