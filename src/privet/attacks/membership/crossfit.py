"""A choice among settings of an attack by the references alone: each reference model in turn is the target.

A model is attacked with the others, except for its complement, whose members would reveal the coins to guess.
The setting that does best against the references is then used against the target, which had no part in the
choice. So the choice costs no confidence, and where nothing leaks it finds nothing.

*Reference*: Zarifzadeh et al. 2024 choose a of RMIA so, on one model. Deviations: up to eight models are
targets, and a setting must do well in two figures, the AUC and the true-positive rate at a low
false-positive rate. The merit of a setting is the smaller of its two leads over the best published setting.
"""

from collections.abc import Callable, Iterable

import numpy as np
from scipy.stats import rankdata

from privet.attacks.membership.signals import TargetSignals
from privet.scores import Bits, References
from privet.views import Numbers

__all__ = ["Settings", "choose_setting"]

_MOST_TARGETS = 8  # of the first pairs: more change the choice little, and take their time
_LOW_RATE, _LEAST_OTHERS = 0.01, 10  # the rate is that of ten others at least: fewer say little

# From the target's signals and references to the scores of each setting.
Settings = Callable[[TargetSignals, References], Iterable[Numbers]]


def choose_setting(
    references: References, settings: Settings, *, published: int, least: int = 1
) -> int | None:
    """The place of the best setting; the first ``published`` ones are those of papers and libraries.

    A record is judged where the other models hold ``least`` models with it and ``least`` without it. None
    where no model can be attacked like that, as with a single pair.
    """
    found = [
        figures
        for model in range(min(references.models, _MOST_TARGETS))
        if (figures := _attack_one(model, references, settings, least)) is not None
    ]
    if not found:
        return None
    means = np.mean(found, axis=0)
    merit = (means - means[:published].max(axis=0)).min(axis=1)
    return int(np.argmax(merit))


def _attack_one(model: int, references: References, settings: Settings, least: int) -> Numbers | None:
    """Settings × figures, with this model as the target; None where it has no two sides to tell apart."""
    members = references.members
    # Neither its complement nor a twin: both would show who was in its training.
    is_other = (members != ~members[model]).any(axis=1) & (members != members[model]).any(axis=1)
    others = is_other & (np.arange(len(members)) != model)
    trained = members[others].sum(axis=0)
    judged = (trained >= least) & (others.sum() - trained >= least)
    coin = members[model][judged]
    if coin.all() or not coin.any():
        return None
    rest = references.pick_models(others).pick_records(judged)
    softened = references.softened
    target = TargetSignals(
        references.signals[model][:, judged], None if softened is None else softened[:, model][:, :, judged]
    )
    return np.array([_figures(scores, coin) for scores in settings(target, rest)])


def _figures(scores: Numbers, coin: Bits) -> tuple[float, float]:
    """The AUC (Mann–Whitney, ties counted half), and the TPR where one in a hundred others is above."""
    members, others = int(coin.sum()), int((~coin).sum())
    area = (float(rankdata(scores)[coin].sum()) - members * (members + 1) / 2) / (members * others)
    above = min(max(int(_LOW_RATE * others), _LEAST_OTHERS), others - 1)
    threshold = np.sort(scores[~coin])[others - 1 - above]
    return area, float((scores[coin] > threshold).mean())
