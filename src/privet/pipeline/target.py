"""The target of an audit: its view, its records as it takes them, and how good it is.

A classifier is asked for confidences, a regression model for quantities (``attacks.quantities``). Data frames
reach it as data frames.
"""

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks import Outputs, see
from privet.attacks.fitted import class_names
from privet.attacks.membership.signals import check_labels
from privet.attacks.quantities import Quantities, is_regression, predict_function, targets_of, typical_error
from privet.attacks.shadows import QuantityRecipe, Recipe
from privet.errors import InvalidArgument
from privet.frame_columns import FrameColumns
from privet.pipeline.records import read_records
from privet.reporting.regression_facts import RegressionFit
from privet.scores import Bits, Challenge, Records
from privet.views import Adversary, BlackBox, LabelOnly, Numbers

__all__ = ["AuditTarget", "see_target"]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class AuditTarget:
    """The target's view, and the records of both sides."""

    view: LabelOnly
    sides: tuple[Records, Records]
    names: NDArray[Any] | None

    @property
    def is_regression(self) -> bool:
        """Whether the target predicts quantities."""
        return isinstance(self.view, Quantities)

    def read(self, name: str, data: object) -> Records:
        """Further records, as the target takes them."""
        return read_records(name, data, self.names, quantities=self.is_regression)

    def adapt(self, recipe: Recipe | None) -> Recipe | None:
        """The recipe for the target's kind of records."""
        if recipe is None or not isinstance(self.view, Quantities) or isinstance(recipe, QuantityRecipe):
            return recipe
        return QuantityRecipe(recipe, self.view.unit)

    def describe(self, adversary: Adversary) -> Adversary:
        """The adversary in the words of the target: a regression model has no classes."""
        if not self.is_regression:
            return adversary
        return replace(
            adversary,
            sees=adversary.sees.replace("the confidence in every class", "the predicted quantity"),
            knows=adversary.knows.replace("its label", "its true quantity"),
        )

    def correct(self, challenge: Challenge) -> Bits | None:
        """Whether the model classifies each record correctly; None without labels or without classes."""
        labels, view = challenge.records.labels, self.view
        if labels is None or self.is_regression:
            return None
        if not isinstance(view, BlackBox):
            return np.asarray(view.labels(challenge.records.inputs) == labels, dtype=np.bool_)
        log_confidences = view.log_confidences(challenge.records.inputs)
        known = check_labels(challenge.records, log_confidences.shape[1])
        return np.asarray(log_confidences.argmax(axis=1) == known, dtype=np.bool_)

    def fit(self, challenge: Challenge) -> RegressionFit | None:
        """How well a regression model predicts both sides; None for a classifier."""
        if not isinstance(self.view, Quantities):
            return None
        rows, members = challenge.records.inputs, challenge.members
        targets, predictions = targets_of(rows), self.view.predictions(rows)
        return RegressionFit(
            train_r2=_r_squared(targets[members], predictions[members]),
            test_r2=_r_squared(targets[~members], predictions[~members]),
            train_error=_root_mean_square(targets[members] - predictions[members]),
            test_error=_root_mean_square(targets[~members] - predictions[~members]),
        )


def see_target(model: object, members: object, nonmembers: object, gives: Outputs | None) -> AuditTarget:
    """The view of a model, and the records of both sides as it takes them."""
    regression = is_regression(model, gives)
    names = None if regression else class_names(model)
    sides = (
        read_records("members", members, names, quantities=regression),
        read_records("nonmembers", nonmembers, names, quantities=regression),
    )
    columns = _join_columns(*sides)
    if not regression:
        return AuditTarget(view=see(model, gives=gives, columns=columns), sides=sides, names=names)
    if isinstance(model, Quantities):
        return AuditTarget(view=model, sides=sides, names=None)
    predict = predict_function(model, columns)
    rows = np.concatenate([side.inputs for side in sides])
    unit = typical_error(Quantities(predict, unit=1.0).predictions(rows), targets_of(rows))
    return AuditTarget(view=Quantities(predict, unit), sides=sides, names=None)


def _join_columns(members: Records, nonmembers: Records) -> FrameColumns | None:
    """The columns of both frames; refused where their names or order differ."""
    first, second = members.columns, nonmembers.columns
    if first is None or second is None:
        return first or second
    if first.names != second.names:
        raise InvalidArgument(
            "'members' and 'nonmembers' must have the same columns in the same order, got others. Give "
            "nonmembers[members.columns]."
        )
    return first.joined_with(second)


def _r_squared(targets: Numbers, predictions: Numbers) -> float | None:
    """1 − Σ(y − f)²/Σ(y − ȳ)²; None where all quantities are the same."""
    spread = float(((targets - targets.mean()) ** 2).sum())
    return None if spread == 0 else 1.0 - float(((targets - predictions) ** 2).sum()) / spread


def _root_mean_square(errors: Numbers) -> float:
    return float(np.sqrt(np.mean(errors**2)))
