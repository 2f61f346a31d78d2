"""A model that a curator has answered, used again and again: post-processing, which costs nothing.

>>> answer = {
...     "estimator": "ridge",
...     "features": [{"name": "age", "lower": 0.0, "upper": 100.0, "keys": None}],
...     "target": {"name": "days", "lower": 0.0, "upper": 10.0, "keys": None},
...     "weights": [[0.5]],
...     "intercepts": [0.0],
... }
>>> AnsweredModel.from_answer(answer).predict([{"age": 100.0}, {"age": 50.0}])
[7.5, 5.0]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.errors import Unreadable
from privet.releasing.keys import Category

__all__ = ["AnsweredModel"]


@final
@dataclass(frozen=True)
class AnsweredModel:
    """A linear model with the public encoding of its features."""

    estimator: str
    features: tuple[Mapping[str, Any], ...]
    target: Mapping[str, Any]
    weights: tuple[tuple[float, ...], ...]
    intercepts: tuple[float, ...]

    @staticmethod
    def from_answer(answer: Mapping[str, Any]) -> "AnsweredModel":
        """The model of an answer's field ``model``."""
        try:
            return AnsweredModel(
                answer["estimator"],
                tuple(answer["features"]),
                answer["target"],
                tuple(tuple(float(weight) for weight in line) for line in answer["weights"]),
                tuple(float(intercept) for intercept in answer["intercepts"]),
            )
        except (KeyError, TypeError, ValueError):
            raise Unreadable("The answer must hold a model, and does not. Take its field 'model'.") from None

    def scores(self, rows: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """The score of each row for each class, or one score."""
        encoded = np.array([[x for one in self.features for x in _encode(one, row)] for row in rows])
        shaped = encoded.reshape(len(rows), -1)
        return np.asarray(shaped @ np.array(self.weights).T + np.array(self.intercepts))

    def predict(self, rows: Sequence[Mapping[str, Any]]) -> list[Category]:
        """The number or the class of each row; a value that is missing counts as the middle, or as no key."""
        scores = self.scores(rows)
        if self.estimator == "ridge":
            low, high = self.target["lower"], self.target["upper"]
            return [float(low + (high - low) * (score + 1) / 2) for score in scores[:, 0]]
        places = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else np.argmax(scores, axis=1)
        return [self.target["keys"][place] for place in places]


def _encode(feature: Mapping[str, Any], row: Mapping[str, Any]) -> list[float]:
    value = row.get(feature["name"])
    if feature["keys"] is not None:
        return [float(type(key) is type(value) and key == value) for key in feature["keys"]]
    if value is None:
        return [0.0]
    low, high = feature["lower"], feature["upper"]
    return [2 * (min(max(float(value), low), high) - low) / (high - low) - 1]
