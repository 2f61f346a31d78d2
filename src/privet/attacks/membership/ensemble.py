"""RMIA and BaVarIA together: a weighted sum of their standardised scores.

The two use the references differently. RMIA compares a confidence, which is bounded: it is strong with few
models and where little leaks. BaVarIA compares φ with what models of both kinds would say: it is strong with
many models and where much leaks. Their errors differ, so a sum is often better than either.

The weight is chosen by attacking the reference models (``choose_setting``), and so is RMIA's temperature.
With a single pair of them that cannot be done. Then BaVarIA's weight grows with d, how far training moves φ,
in standard deviations over records: 0 up to d = 0.2, half of the sum from d = 0.8 on. The two bounds come
from six sets of data, and were tried on others (docs/benchmarks-attacks.md). No target chooses anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.membership.bavaria import BaVarIA
from privet.attacks.membership.crossfit import choose_setting
from privet.attacks.membership.likelihood_ratio import choose_temperature, online_log_ratio
from privet.attacks.membership.reference_attack import ONLINE, ReferenceAttack, summarize_in, summarize_out
from privet.attacks.membership.signals import QueryTransform, TargetSignals, identity
from privet.scores import References
from privet.views import Numbers

__all__ = ["Ensemble"]

_WEIGHTS = (0.0, 1.0, 0.25, 0.5, 0.75)  # of BaVarIA; the first two are the attacks by themselves


@final
@dataclass(frozen=True, eq=False)
class Ensemble(ReferenceAttack):
    """RMIA's log ratio and BaVarIA's log likelihood ratio, each standardised over the records, and added with
    weights that the references choose.

    *Adversary*: sees the confidence in every class; knows the record, its label, and reference models trained
    with it and without it; wants its membership.

    Standardising takes the mean and the standard deviation over the judged records, members and others alike,
    so it uses no membership. A part that is the same for all records counts nothing.

    *Reference*: Zarifzadeh et al. 2024 and Brännvall 2026 for the parts; the sum is ours.
    """

    references: References
    queries: Sequence[QueryTransform] = (identity,)

    name = "RMIA + BaVarIA"
    adversary = ONLINE
    softens = True

    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        given = target if isinstance(target, TargetSignals) else TargetSignals(target)
        temperature = choose_temperature(self.references)
        weight = _choose_weight(self.references, temperature)
        return _combine(_parts(given, self.references, temperature), weight)


def _parts(target: TargetSignals, references: References, temperature: float) -> tuple[Numbers, Numbers]:
    ratios = online_log_ratio(target, references, temperature)
    return _standardize(ratios), _standardize(BaVarIA(references).judge(target))


def _combine(parts: tuple[Numbers, Numbers], weight: float) -> Numbers:
    answer: Numbers = (1.0 - weight) * parts[0] + weight * parts[1]
    return answer


def _choose_weight(references: References, temperature: float) -> float:
    def settings(target: TargetSignals, rest: References) -> list[Numbers]:
        parts = _parts(target, rest, temperature)
        return [_combine(parts, weight) for weight in _WEIGHTS]

    found = choose_setting(references, settings, published=2)
    return _fixed_weight(references) if found is None else _WEIGHTS[found]


def _fixed_weight(references: References) -> float:
    """Half of (d − 0.2)/0.6 within 0 and 1, with d the mean over queries."""
    trained, left_out = summarize_in(references), summarize_out(references)
    if not trained.known.any() or not left_out.known.any():
        return 0.0
    means_in, means_out = trained.means[:, trained.known], left_out.means[:, left_out.known]
    spread = means_out.std(axis=1)
    moved = (means_in.mean(axis=1) - means_out.mean(axis=1)) / np.where(spread > 0, spread, 1.0)
    return 0.5 * float(np.clip((moved.mean() - 0.2) / 0.6, 0.0, 1.0))


def _standardize(scores: Numbers) -> Numbers:
    spread = float(scores.std())
    centred: Numbers = scores - scores.mean()
    return centred / spread if spread > 0 else 0.0 * centred
