"""How a shadow model is made. A recipe is a value: the same recipe, records and seed give the same model.

The recipe of the shadow models should be that of the target: what a record does to a model depends on how it is trained.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from privet.attacks.model_views import Outputs, see
from privet.attacks.shadows.fingerprints import fingerprint
from privet.errors import InvalidArgument, MissingPackage
from privet.views import BlackBox, Labels, Rows

__all__ = ["CallableRecipe", "Recipe", "ScikitRecipe"]


class Recipe(ABC):
    """Everything that decides a model, but its records and its seed."""

    @abstractmethod
    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        """A trained model, as its owner would serve it."""

    def giving(self, outputs: Outputs | None) -> "Recipe":
        """The same recipe for models that give this, where that is not said yet and matters to the training."""
        del outputs
        return self

    @abstractmethod
    def description(self) -> str | None:
        """Text that changes whenever the recipe does; None where nobody can tell, and nothing may be cached."""


@final
@dataclass(frozen=True, eq=False)
class ScikitRecipe(Recipe):
    """An estimator with ``fit`` and ``predict_proba``; a fresh copy is trained each time.

    Every ``random_state`` among its parameters, also of the parts of a pipeline, is set from the model's seed.
    """

    estimator: Any

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        fresh = _clone(self.estimator)
        state = seed % 2**32
        random = {
            name: state for name in fresh.get_params(deep=True) if name.rpartition("__")[2] == "random_state"
        }
        if random:
            fresh.set_params(**random)
        fresh.fit(inputs, labels)
        return _confidences(see(fresh), "estimator")

    def description(self) -> str | None:
        import sklearn  # type: ignore[import-untyped]

        fresh = _clone(self.estimator)
        return fingerprint((sklearn.__version__, type(fresh), fresh.get_params(deep=True)))


@final
@dataclass(frozen=True, eq=False)
class CallableRecipe(Recipe):
    """Your own training: ``train(inputs, labels, seed)`` gives a model, or a view of one.

    A function can read anything, so nobody but its author knows when it has changed. With a ``version`` its models' answers
    are cached under that word, and it is for you to change the word; without one nothing is cached.
    """

    train: Callable[[Rows, Labels, int], object]
    version: str | None = None

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        return _confidences(see(self.train(inputs, labels, seed)), "train")

    def description(self) -> str | None:
        return None if self.version is None else f"callable, version {self.version}"


def _confidences(view: object, name: str) -> BlackBox:
    if not isinstance(view, BlackBox):
        raise InvalidArgument(
            f"'{name}' must give a model that shows confidences, got one that shows labels alone. "
            f"Take a model with predict_proba, or wrap its confidences in Probabilities."
        )
    return view


def _clone(estimator: Any) -> Any:  # noqa: ANN401 - scikit-learn has no types
    try:
        from sklearn.base import clone  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackage(
            "ScikitRecipe needs the package 'scikit-learn', which is not installed. Run pip install 'privet[learn]'."
        ) from None
    try:
        return clone(estimator)
    except Exception:  # no estimator, or one that cannot be made again from its parameters
        raise InvalidArgument(
            f"'estimator' must be an estimator of scikit-learn that can be cloned, got {type(estimator).__name__}. "
            f"Give one with fit and predict_proba, or a CallableRecipe."
        ) from None


def widened(log_confidences: np.ndarray, classes: int) -> np.ndarray:
    """The same table with a column for every class; a class that the model has never seen has confidence 0."""
    missing = classes - log_confidences.shape[1]
    if missing <= 0:
        return log_confidences
    return np.pad(log_confidences, ((0, 0), (0, missing)), constant_values=-np.inf)
