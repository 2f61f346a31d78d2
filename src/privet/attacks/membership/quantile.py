"""Quantile regression: how high is φ for a similar record that was not trained on?

No reference model is trained.

The distribution of φ given the record is learnt from public records that the target was not trained on, by
querying the target itself. A record whose φ is high in its own conditional distribution is called a member.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import ndtri

from privet.arguments import open_fraction, whole
from privet.attacks.estimators import boosted_quantiles
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.signals import signal
from privet.errors import InvalidArgument
from privet.scores import Records
from privet.views import Adversary, BlackBox, Labels, Numbers

__all__ = ["BoostedQuantiles", "ConditionalDistribution", "GaussianRidge", "QuantileRegression"]

_PENALTIES = tuple(10.0**power for power in range(-3, 7))
_LOG_SQUARE = 1.2703628454614782  # −E ln χ²₁ = γ + ln 2

# From features and φ to the normal deviate of φ in its conditional distribution.
Deviates = Callable[[Numbers, Numbers], Numbers]


class ConditionalDistribution(ABC):
    """A model of the distribution of φ given the record."""

    @abstractmethod
    def learn(self, features: Numbers, phi: Numbers) -> Deviates:
        """Fit on public records.

        Gives a function to the normal deviate of φ in its conditional distribution.
        """


@final
@dataclass(frozen=True)
class BoostedQuantiles(ConditionalDistribution):
    """Quantiles at several levels, each by boosted trees under the pinball loss. Needs scikit-learn.

    Between two quantiles the deviate is interpolated, beyond them it is extrapolated with the slope of the
    outer levels, so scores have no ties that φ does not have.
    """

    levels: Sequence[float] = (0.05, 0.25, 0.5, 0.75, 0.9, 0.97)
    seed: int = 0

    def __post_init__(self) -> None:
        whole("seed", self.seed, least=0)
        object.__setattr__(self, "levels", tuple(self.levels))
        for level in self.levels:
            open_fraction("levels", level)
        if len(self.levels) < 2 or list(self.levels) != sorted(set(self.levels)):
            raise InvalidArgument(
                f"'levels' must be two or more increasing probabilities, got {self.levels!r}. Give (0.25, "
                f"0.5, 0.75, 0.95)."
            )

    def learn(self, features: Numbers, phi: Numbers) -> Deviates:
        predict = boosted_quantiles(features, phi, self.levels, self.seed)
        deviates = ndtri(np.array(self.levels))
        # Levels that coincide are moved this far apart, per deviate.
        least = 1e-3 * max(float(phi.std()), 1e-9)

        def deviate(rows: Numbers, values: Numbers) -> Numbers:
            knots = predict(rows)
            steps = np.maximum(np.diff(knots, axis=1), least * np.diff(deviates))
            knots = np.concatenate([knots[:, :1], knots[:, :1] + np.cumsum(steps, axis=1)], axis=1)
            piece = np.clip((values[:, None] >= knots).sum(axis=1) - 1, 0, len(deviates) - 2)
            records = np.arange(len(values))
            slope = np.diff(deviates)[piece] / steps[records, piece]
            answer: Numbers = deviates[piece] + (values - knots[records, piece]) * slope
            return answer

        return deviate


@final
@dataclass(frozen=True)
class GaussianRidge(ConditionalDistribution):
    """φ given the record is Gaussian; ridge regression gives its mean and the logarithm of its variance.

    Penalties are chosen by leave-one-out on the public records. It needs numpy alone.
    """

    def learn(self, features: Numbers, phi: Numbers) -> Deviates:
        if not np.isfinite(features).all():
            raise InvalidArgument(
                "'public' must hold finite numbers, got NaN or infinity. Fill in what is missing as in the "
                "model's training, or take BoostedQuantiles, which can do without."
            )
        centre, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        mean, left_out = _ridge((features - centre) / scale, phi)
        squares = np.maximum(left_out**2, 1e-12 * max(float(np.mean(left_out**2)), 1e-12))
        log_variance, _ = _ridge((features - centre) / scale, np.log(squares) + _LOG_SQUARE)

        def deviate(rows: Numbers, values: Numbers) -> Numbers:
            table = (rows - centre) / scale
            answer: Numbers = (values - mean(table)) * np.exp(-0.5 * log_variance(table))
            return answer

        return deviate


@final
@dataclass(frozen=True, eq=False)
class QuantileRegression(Attack[BlackBox]):
    """The position of φ in its conditional distribution among public non-members, as a normal deviate.

    *Adversary*: sees the confidence in every class; knows the record, its label, and public records of the
    same kind that were not trained on (and are not among the records judged); wants its membership. They
    train no model like the target.

    *Reference*: Bertran et al. 2023, algorithm 1 with its pinball loss (``BoostedQuantiles``) and its
    Gaussian variant (``GaussianRidge``). Deviations: the regressor is boosted trees or ridge on the flattened
    record and its label, where the paper trains a network on the record; one score for all levels instead of
    one threshold for each.
    """

    public: Records
    distribution: ConditionalDistribution = BoostedQuantiles()

    name = "quantile regression"
    sees = BlackBox
    is_calibrated = True
    adversary = Adversary(
        sees="the confidence in every class",
        knows="the record and its label, and public records that were not trained on",
        wants="whether a record was trained on",
    )

    def score(self, view: BlackBox, records: Records) -> Numbers:
        known, judged = self.public.known_labels, records.known_labels
        if self.public.inputs.shape[1:] != records.inputs.shape[1:]:
            raise InvalidArgument(
                f"'public' must hold records of the shape {records.inputs.shape[1:]} that are judged, got "
                f"{self.public.inputs.shape[1:]}. Give records of the same kind."
            )
        classes = int(max(known.max(), judged.max())) + 1
        deviate = self.distribution.learn(_features(self.public, known, classes), signal(view, self.public))
        return deviate(_features(records, judged, classes), signal(view, records))


def _features(records: Records, labels: Labels, classes: int) -> Numbers:
    flat = np.asarray(records.inputs, dtype=np.float64).reshape(len(records), -1)
    marks = (labels[:, None] == np.arange(classes)).astype(np.float64)
    return np.concatenate([flat, marks], axis=1)


def _ridge(table: Numbers, values: Numbers) -> tuple[Callable[[Numbers], Numbers], Numbers]:
    """A linear prediction with a constant, and the leave-one-out error of each record."""
    constant = float(values.mean())
    left, singular, right = np.linalg.svd(table, full_matrices=False)
    along = left.T @ (values - constant)

    def leave_one_out_errors(penalty: float) -> Numbers:
        shrink = singular**2 / (singular**2 + penalty)
        leverage = (left**2 * shrink).sum(axis=1) + 1.0 / len(values)
        answer: Numbers = (values - constant - left @ (shrink * along)) / np.maximum(1.0 - leverage, 1e-3)
        return answer

    penalty = min(_PENALTIES, key=lambda value: float(np.mean(leave_one_out_errors(value) ** 2)))
    weights = right.T @ (singular / (singular**2 + penalty) * along)
    return lambda rows: rows @ weights + constant, leave_one_out_errors(penalty)
