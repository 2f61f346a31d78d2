"""How much does it leak: what an attack's scores say, and the ε that they prove was spent.

numpy and scipy only. Nothing here knows an attack or an accountant, so a measured bound shares no code with a proved one.

>>> import numpy as np
>>> from privet.scores import Scores
>>> noise = np.random.default_rng(0).normal(size=2000)
>>> scores = Scores.of(noise[:1000] + 2, noise[1000:])
>>> round(measure(scores).auc.value, 1)
0.9
"""

from privet.auditing.audits import Audit
from privet.auditing.curves import ApproximateCurves, Curves, GaussianCurves
from privet.auditing.gaussian_fit import GaussianFit
from privet.auditing.guesses import EVERYBODY, PLAN, Guesses
from privet.auditing.harm import (
    AtRisk,
    Gap,
    GroupAccuracy,
    GroupHarm,
    accuracy_by_group,
    against_gap,
    by_group,
    most_at_risk,
    over_targets,
)
from privet.auditing.leakage import Leakage, measure
from privet.auditing.many_runs import ClopperPearson
from privet.auditing.one_run import OneRun
from privet.auditing.one_run_fdp import OneRunFDP
from privet.auditing.order_statistic import OrderStatistic
from privet.auditing.proportions import Rate
from privet.auditing.roc import Band, OperatingPoint, Roc
from privet.auditing.shares import Shares
from privet.auditing.thresholds import Split
from privet.public_calls import check_public_calls

__all__ = [
    "EVERYBODY",
    "PLAN",
    "ApproximateCurves",
    "AtRisk",
    "Audit",
    "Band",
    "ClopperPearson",
    "Curves",
    "Gap",
    "GaussianCurves",
    "GaussianFit",
    "GroupAccuracy",
    "GroupHarm",
    "Guesses",
    "Leakage",
    "OneRun",
    "OneRunFDP",
    "OperatingPoint",
    "OrderStatistic",
    "Rate",
    "Roc",
    "Shares",
    "Split",
    "accuracy_by_group",
    "against_gap",
    "by_group",
    "measure",
    "most_at_risk",
    "over_targets",
]


check_public_calls(__name__)
