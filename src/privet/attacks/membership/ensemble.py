"""RMIA and BaVarIA together: the sum of their standardised scores.

The two use the references differently. RMIA compares a confidence, which is bounded: it is strong with few
models and on records that models are sure of. BaVarIA compares φ with what models of both kinds would say: it
is strong with many models and on records whose models scatter unlike others. Their errors differ, so the sum
is better than either (docs/benchmarks-attacks.md). No weight is chosen: each counts alike, on every target.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privet.attacks.membership.bavaria import BaVarIA
from privet.attacks.membership.likelihood_ratio import online_log_ratio
from privet.attacks.membership.reference_attack import ONLINE, ReferenceAttack
from privet.attacks.membership.signals import QueryTransform, TargetSignals, identity
from privet.scores import References
from privet.views import Numbers

__all__ = ["Ensemble"]

_TEMPERATURE = 2.0


@final
@dataclass(frozen=True, eq=False)
class Ensemble(ReferenceAttack):
    """RMIA's log ratio and BaVarIA's log likelihood ratio, each standardised over the records, and added.

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
        ratios = online_log_ratio(target, self.references, _TEMPERATURE)
        likelihoods = BaVarIA(self.references, queries=self.queries).judge(target)
        return _standardize(ratios) + _standardize(likelihoods)


def _standardize(scores: Numbers) -> Numbers:
    spread = float(scores.std())
    centred: Numbers = scores - scores.mean()
    return centred / spread if spread > 0 else 0.0 * centred
