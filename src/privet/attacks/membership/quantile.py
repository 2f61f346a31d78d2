"""Quantile regression: how high is φ for a record like this one that was not trained on? No reference model is trained.

The law of φ given the record is learnt from public records that the target was not trained on, by asking the target
itself. A record whose φ is far up in its own conditional law is called a member.
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

Deviates = Callable[
    [Numbers, Numbers], Numbers
]  # features and φ to the normal deviate of φ in its conditional law


class ConditionalDistribution(ABC):
    """How the law of φ given the record is learnt."""

    @abstractmethod
    def learn(self, features: Numbers, phi: Numbers) -> Deviates:
        """From public records; the answer gives the normal deviate of φ in the law of records like it."""


@final
@dataclass(frozen=True)
class BoostedQuantiles(ConditionalDistribution):
    """Quantiles at several levels, each by boosted trees under the pinball loss. Needs scikit-learn.

    Between two quantiles the deviate is interpolated, beyond them it goes on with the slope of the outer levels, so that
    scores have no ties that φ does not have.
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
                f"'levels' must be two or more increasing probabilities, got {self.levels!r}. Give (0.25, 0.5, 0.75, 0.95)."
            )

    def learn(self, features: Numbers, phi: Numbers) -> Deviates:
        predict = boosted_quantiles(features, phi, self.levels, self.seed)
        deviates = ndtri(np.array(self.levels))
        least = 1e-3 * max(
            float(phi.std()), 1e-9
        )  # levels that coincide are held this far apart, per deviate

        def place(rows: Numbers, values: Numbers) -> Numbers:
            knots = predict(rows)
            steps = np.maximum(np.diff(knots, axis=1), least * np.diff(deviates))
            knots = np.concatenate([knots[:, :1], knots[:, :1] + np.cumsum(steps, axis=1)], axis=1)
            piece = np.clip((values[:, None] >= knots).sum(axis=1) - 1, 0, len(deviates) - 2)
            each = np.arange(len(values))
            slope = np.diff(deviates)[piece] / steps[each, piece]
            answer: Numbers = deviates[piece] + (values - knots[each, piece]) * slope
            return answer

        return place


@final
@dataclass(frozen=True)
class GaussianRidge(ConditionalDistribution):
    """φ given the record is Gaussian; its mean and the logarithm of its variance are linear, by ridge regression.

    Penalties are chosen by leaving one public record out. Needs numpy alone.
    """

    def learn(self, features: Numbers, phi: Numbers) -> Deviates:
        if not np.isfinite(features).all():
            raise InvalidArgument(
                "'public' must hold finite numbers, got NaN or infinity. Fill in what is missing as in the model's "
                "training, or take BoostedQuantiles, which can do without."
            )
        centre, scale = features.mean(axis=0), features.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        mean, left_out = _ridge((features - centre) / scale, phi)
        squares = np.maximum(left_out**2, 1e-12 * max(float(np.mean(left_out**2)), 1e-12))
        log_variance, _ = _ridge((features - centre) / scale, np.log(squares) + _LOG_SQUARE)

        def place(rows: Numbers, values: Numbers) -> Numbers:
            table = (rows - centre) / scale
            answer: Numbers = (values - mean(table)) * np.exp(-0.5 * log_variance(table))
            return answer

        return place


@final
@dataclass(frozen=True, eq=False)
class QuantileRegression(Attack[BlackBox]):
    """The place of φ in its conditional law among public non-members, as a normal deviate.

    *Adversary*: sees the confidence in every class; knows the record, its label, and public records of the same kind that
    were not trained on (and are not among the records judged); wants its membership. Trains no model like the target.

    *Reference*: Bertran et al. 2023, algorithm 1 with its pinball loss (``BoostedQuantiles``) and its Gaussian variant
    (``GaussianRidge``). Deviations: the regressor is boosted trees or ridge on the flattened record and its label, where the
    paper trains a network on the record; one score for all levels instead of one threshold for each.
    """

    public: Records
    distribution: ConditionalDistribution = BoostedQuantiles()

    name = "quantile regression"
    sees = BlackBox
    adversary = Adversary(
        sees="the confidence in every class",
        knows="the record and its label, and public records that were not trained on",
        wants="whether a record was trained on",
    )

    def score(self, view: BlackBox, records: Records) -> Numbers:
        known, asked = self.public.known_labels, records.known_labels
        if self.public.inputs.shape[1:] != records.inputs.shape[1:]:
            raise InvalidArgument(
                f"'public' must hold records of the shape {records.inputs.shape[1:]} that are judged, got "
                f"{self.public.inputs.shape[1:]}. Give records of the same kind."
            )
        classes = int(max(known.max(), asked.max())) + 1
        learnt = self.distribution.learn(_features(self.public, known, classes), signal(view, self.public))
        return learnt(_features(records, asked, classes), signal(view, records))


def _features(records: Records, labels: Labels, classes: int) -> Numbers:
    flat = np.asarray(records.inputs, dtype=np.float64).reshape(len(records), -1)
    marks = (labels[:, None] == np.arange(classes)).astype(np.float64)
    return np.concatenate([flat, marks], axis=1)


def _ridge(table: Numbers, values: Numbers) -> tuple[Callable[[Numbers], Numbers], Numbers]:
    """A linear prediction with a constant, and what each record is off by when it is left out."""
    constant = float(values.mean())
    left, singular, right = np.linalg.svd(table, full_matrices=False)
    along = left.T @ (values - constant)

    def off(penalty: float) -> Numbers:
        shrink = singular**2 / (singular**2 + penalty)
        leverage = (left**2 * shrink).sum(axis=1) + 1.0 / len(values)
        answer: Numbers = (values - constant - left @ (shrink * along)) / np.maximum(1.0 - leverage, 1e-3)
        return answer

    penalty = min(_PENALTIES, key=lambda each: float(np.mean(off(each) ** 2)))
    weights = right.T @ (singular / (singular**2 + penalty) * along)
    return lambda rows: rows @ weights + constant, off(penalty)
