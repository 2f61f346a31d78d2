"""How much does it leak? What the scores of an attack show, and the lower bound on ε that follows.

``roc`` counts, ``leakage`` gives every figure with its interval, ``harm`` says who is hurt, and
``record_calibration`` holds the false-positive rate of each record. ``audits`` says what a bound on ε is;
``many_runs``, ``gaussian_fit``, ``one_run``, ``one_run_fdp``, ``order_statistic``, ``ranked_thresholds`` and
``weighted_ranks`` are the bounds, and ``sequential`` watches a claim record by record. ``recovery_leakage``
and ``recovery_bounds`` judge attacks that recover something, by ``differences`` and ``candidates``. This room
needs numpy and scipy alone. It imports no attack and no accountant, so a measured bound shares no code with
a proved one.
``roc`` counts, ``leakage`` gives every figure with its interval, ``harm`` says who is hurt. ``audits`` says
what a bound on ε is; ``many_runs``, ``gaussian_fit``, ``one_run``, ``one_run_fdp``, ``order_statistic``,
``ranked_thresholds`` and ``weighted_ranks`` are the bounds, ``sequential`` watches a claim record by record.
This room needs numpy and scipy alone. It imports no attack and no accountant, so a measured bound shares no
code with a proved one.

A new bound is a module with a subclass of ``Audit`` or ``OneRunAudit``, named below.

>>> import numpy as np
>>> from privet.scores import Scores
>>> noise = np.random.default_rng(0).normal(size=2000)
>>> scores = Scores.of(noise[:1000] + 2, noise[1000:])
>>> round(measure(scores).auc.value, 1)
0.9
"""

from privet.auditing.attribute_values import ValueFigures, measure_values
from privet.auditing.audits import Audit
from privet.auditing.candidates import OneRunCandidates
from privet.auditing.curves import ApproximateCurves, Curves, GaussianCurves, SwapCurves
from privet.auditing.differences import difference_of_shares, paired_difference
from privet.auditing.gaussian_fit import GaussianFit
from privet.auditing.guesses import EVERYBODY, PLAN, Guesses
from privet.auditing.harm import (
    AtRisk,
    GeneralizationGap,
    GroupAccuracy,
    GroupHarm,
    accuracy_by_group,
    leakage_against_gap,
    leakage_by_group,
    most_at_risk,
    most_at_risk_over_targets,
)
from privet.auditing.leakage import Leakage, measure
from privet.auditing.many_runs import ClopperPearson
from privet.auditing.one_run import OneRun
from privet.auditing.one_run_fdp import OneRunFDP
from privet.auditing.order_statistic import OrderStatistic
from privet.auditing.proportions import Rate
from privet.auditing.ranked_thresholds import HALVINGS, RankedThresholds
from privet.auditing.record_calibration import RecordPValues, calibrate_per_record
from privet.auditing.recovery_bounds import RecoveryBound, bound_recoveries
from privet.auditing.recovery_leakage import (
    BaselineKind,
    GroupRecovery,
    RecoveryLeakage,
    measure_recoveries,
    recoveries_by_group,
)
from privet.auditing.roc import Band, OperatingPoint, Roc
from privet.auditing.sampled_gaussian import SampledGaussianCurves
from privet.auditing.sequential import SequentialTest, SequentialVerdict, Watch
from privet.auditing.shares import Shares
from privet.auditing.thresholds import SelectionSplit
from privet.auditing.weighted_ranks import WeightedRanks
from privet.public_calls import check_public_calls

__all__ = [
    "EVERYBODY",
    "HALVINGS",
    "PLAN",
    "ApproximateCurves",
    "AtRisk",
    "Audit",
    "Band",
    "BaselineKind",
    "ClopperPearson",
    "Curves",
    "GaussianCurves",
    "GaussianFit",
    "GeneralizationGap",
    "GroupAccuracy",
    "GroupHarm",
    "GroupRecovery",
    "Guesses",
    "Leakage",
    "OneRun",
    "OneRunCandidates",
    "OneRunFDP",
    "OperatingPoint",
    "OrderStatistic",
    "RankedThresholds",
    "Rate",
    "RecordPValues",
    "RecoveryBound",
    "RecoveryLeakage",
    "Roc",
    "SampledGaussianCurves",
    "SelectionSplit",
    "SequentialTest",
    "SequentialVerdict",
    "Shares",
    "SwapCurves",
    "ValueFigures",
    "Watch",
    "WeightedRanks",
    "accuracy_by_group",
    "bound_recoveries",
    "calibrate_per_record",
    "difference_of_shares",
    "leakage_against_gap",
    "leakage_by_group",
    "measure",
    "measure_recoveries",
    "measure_values",
    "most_at_risk",
    "most_at_risk_over_targets",
    "paired_difference",
    "recoveries_by_group",
]


check_public_calls(__name__)
