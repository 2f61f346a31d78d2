"""How a shadow model is trained. A recipe is a value: the same recipe, records and seed give the same model.

Shadow models should be trained by the recipe of the target: how much a model remembers depends on how it is
trained.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from privet.arguments import format_value
from privet.attacks.model_views import see
from privet.attacks.outputs import Outputs
from privet.attacks.quantities import is_regression, predict_function
from privet.attacks.shadows.fingerprints import fingerprint
from privet.errors import InvalidArgument, MissingPackage
from privet.frame_columns import FrameColumns
from privet.record_inputs import to_arguments
from privet.views import BlackBox, Labels, Numbers, Rows

__all__ = ["CallableRecipe", "Recipe", "ScikitRecipe", "to_recipe", "widen"]

_NOT_LEARNT = ("random_state", "n_jobs", "verbose", "verbose_feature_names_out")


class Recipe(ABC):
    """Everything that determines a model, except its records and its seed."""

    @abstractmethod
    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        """Train a model and give the view that its users would have."""

    def fit_quantities(self, inputs: Rows, targets: Numbers, seed: int) -> Callable[[Any], object]:
        """Train a regression model, and give the function from rows to its predictions."""
        raise InvalidArgument(
            f"'recipe' must train regression models for a target that predicts quantities, got a "
            f"{type(self).__name__}. Give a ScikitRecipe, a TorchRecipe or a CallableRecipe."
        )

    def giving(self, outputs: Outputs | None) -> "Recipe":
        """The same recipe for models with these outputs, where the recipe does not say its outputs and
        training depends on them.
        """
        del outputs
        return self

    def naming(self, columns: FrameColumns | None) -> "Recipe":
        """The same recipe for records that came in a data frame with these columns."""
        del columns
        return self

    @abstractmethod
    def description(self) -> str | None:
        """Text that changes whenever the recipe changes.

        None where that cannot be known, so that nothing is cached.
        """


@final
@dataclass(frozen=True, eq=False)
class ScikitRecipe(Recipe):
    """An estimator with ``fit`` and ``predict_proba``; a new copy is trained each time.

    Every ``random_state`` among its parameters, in steps of a pipeline too, is set from the model's seed. It
    is fitted on a data frame where the records came in one, so a pipeline can pick its columns by name or
    type.
    """

    estimator: Any
    columns: FrameColumns | None = None

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        estimator = self._fit(inputs, labels, seed)
        return _require_confidences(see(estimator, columns=self.columns), "estimator")

    def fit_quantities(self, inputs: Rows, targets: Numbers, seed: int) -> Callable[[Any], object]:
        return predict_function(self._fit(inputs, targets, seed), self.columns)

    def _fit(self, inputs: Rows, labels: Labels | Numbers, seed: int) -> Any:  # noqa: ANN401
        estimator = _clone(self.estimator)
        state = seed % 2**32
        random = {
            name: state
            for name in estimator.get_params(deep=True)
            if name.rpartition("__")[2] == "random_state"
        }
        if random:
            estimator.set_params(**random)
        return estimator.fit(_to_given_form(inputs, self.columns), labels)

    def naming(self, columns: FrameColumns | None) -> "ScikitRecipe":
        return self if columns is None else replace(self, columns=columns)

    def with_settings_of(self, model: Any) -> "ScikitRecipe":  # noqa: ANN401 - scikit-learn has no types
        """The recipe by which a fitted estimator of the same class was trained, by its own settings.

        Settings that do not change what is learnt (random states, which a recipe sets, and the number of
        jobs) are those of this recipe.
        """
        own, copied = self.estimator.get_params(deep=True), _clone(model)
        kept = [name for name in copied.get_params(deep=True) if name.rpartition("__")[2] in _NOT_LEARNT]
        return ScikitRecipe(copied.set_params(**{name: own[name] for name in kept if name in own}))

    def description(self) -> str | None:
        import sklearn  # type: ignore[import-untyped]

        estimator = _clone(self.estimator)
        own = fingerprint((sklearn.__version__, type(estimator), estimator.get_params(deep=True)))
        return own if self.columns is None else f"{own} {self.columns.description()}"


@final
@dataclass(frozen=True, eq=False)
class CallableRecipe(Recipe):
    """Your own training: ``train(inputs, labels, seed)`` gives a model, or a view of one.

    A function can read anything, so only its author knows when it has changed. With a ``version`` its models'
    signals are cached under that word; change the word whenever the function changes. Without a version
    nothing is cached. The function gets the inputs as they were given: an array, a data frame, a dictionary
    or a tuple of arrays.
    """

    train: Callable[..., object]
    version: str | None = None
    columns: FrameColumns | None = None

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        model = self.train(_to_given_form(inputs, self.columns), labels, seed)
        return _require_confidences(see(model, columns=self.columns), "train")

    def fit_quantities(self, inputs: Rows, targets: Numbers, seed: int) -> Callable[[Any], object]:
        return predict_function(self.train(_to_given_form(inputs, self.columns), targets, seed), self.columns)

    def naming(self, columns: FrameColumns | None) -> "CallableRecipe":
        return self if columns is None else replace(self, columns=columns)

    def description(self) -> str | None:
        if self.version is None:
            return None
        columns = "" if self.columns is None else f" {self.columns.description()}"
        return f"callable, version {self.version}{columns}"


def to_recipe(value: object) -> Recipe:
    """A recipe, from a recipe, from ``train(inputs, labels, seed)``, or from an unfitted scikit-learn
    classifier or regressor.

    >>> to_recipe(lambda inputs, labels, seed: None)
    CallableRecipe(train=<function <lambda> at ...>, version=None, columns=None)
    """
    if isinstance(value, Recipe):
        return value
    learns = isinstance(value, _Classifies) or is_regression(value)
    if learns and isinstance(value, _Estimator) and not isinstance(value, type):
        return ScikitRecipe(value)
    if callable(value) and not isinstance(value, type) and _takes_three_arguments(value):
        return CallableRecipe(value)
    raise InvalidArgument(
        f"'recipe' must be a Recipe, an unfitted scikit-learn classifier or regressor, or a function "
        f"train(inputs, labels, seed), got {format_value(value)}. For a torch model give "
        f"TorchRecipe(model=…, epochs=…), where model makes an untrained module."
    )


@runtime_checkable
class _Estimator(Protocol):
    """A scikit-learn classifier or regressor."""

    def fit(self, inputs: Any, labels: Any) -> Any: ...  # noqa: ANN401
    def get_params(self, deep: bool = True) -> Any: ...  # noqa: ANN401


@runtime_checkable
class _Classifies(Protocol):
    def predict_proba(self, inputs: Any) -> Any: ...  # noqa: ANN401


def _to_given_form(inputs: Rows, columns: FrameColumns | None) -> Any:  # noqa: ANN401 - an array, frame, dict or tuple
    """The inputs as they were given."""
    return to_arguments(inputs) if columns is None else columns.to_frame(inputs)


def _takes_three_arguments(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # a function of a compiled library does not tell its arguments
        return True
    return True


def _require_confidences(view: object, name: str) -> BlackBox:
    if not isinstance(view, BlackBox):
        raise InvalidArgument(
            f"'{name}' must give a model that shows confidences, got one that shows only labels. "
            f"Take a model with predict_proba, or wrap its confidences in Probabilities."
        )
    return view


def _clone(estimator: Any) -> Any:  # noqa: ANN401 - scikit-learn has no types
    try:
        from sklearn.base import clone  # type: ignore[import-untyped]
    except ImportError:
        raise MissingPackage(
            "ScikitRecipe needs the package 'scikit-learn', which is not installed. Run pip install "
            "'privet[learn]'."
        ) from None
    try:
        return clone(estimator)
    except Exception:  # no estimator, or one that cannot be made again from its parameters
        raise InvalidArgument(
            f"'estimator' must be an estimator of scikit-learn that can be cloned, got "
            f"{type(estimator).__name__}. "
            f"Give one with fit and predict_proba, or a CallableRecipe."
        ) from None


def widen(log_confidences: np.ndarray, classes: int) -> np.ndarray:
    """The table with a column for every class; a class that the model has never seen has confidence 0."""
    missing = classes - log_confidences.shape[1]
    if missing <= 0:
        return log_confidences
    return np.pad(log_confidences, ((0, 0), (0, missing)), constant_values=-np.inf)
