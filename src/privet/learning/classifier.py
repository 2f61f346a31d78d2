"""What the private naive Bayes classifiers share: labels, noise, ledger, and predictions from a posterior."""

import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from privet.adjacency import Adjacency
from privet.arguments import format_value, positive
from privet.callers import level_of_caller
from privet.caveats import Caveat
from privet.errors import InvalidArgument, MissingPackage
from privet.events import Event
from privet.learning.inputs import (
    choose_noise_source,
    list_classes,
    read_adjacency,
    read_table,
    read_targets,
    to_scalar,
    to_table,
)
from privet.ledger import Ledger
from privet.mechanisms.records import indices
from privet.randomness import NoiseSource

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
    from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted  # type: ignore[import-untyped]
except ImportError:
    raise MissingPackage(
        "privet.learning needs the package 'scikit-learn', version 1.6 or newer, which is not installed. "
        "Run pip install 'privet[learn]'."
    ) from None

__all__ = ["LeakWarning", "PrivateBayes"]

SLACK = 2.0**-40  # relative to a scale: more than the round-off of a sum of ε

SEEN_CLASSES = frozenset({Caveat.KEYS_FROM_DATA})


class LeakWarning(UserWarning):
    """Something that is not protected was taken from the data."""


class PrivateBayes(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):  # type: ignore[misc]
    """A naive Bayes classifier that sees its training data through noise only."""

    epsilon: float
    classes: Sequence[Any] | None
    adjacency: Adjacency | type[Adjacency]
    noise: NoiseSource | None
    random_state: int | None

    @abstractmethod
    def _learn(self, rows: np.ndarray, labels: np.ndarray, source: NoiseSource, adjacency: Adjacency) -> None:
        """Spend and set the fitted attributes; ``labels`` are positions in ``classes_``."""

    @abstractmethod
    def _check_declared(self, features: int) -> Any:  # noqa: ANN401 - each classifier has its own
        """What was declared about the features; refuses a declaration that does not fit."""

    @abstractmethod
    def _log_joint(self, rows: np.ndarray) -> np.ndarray:
        """ln P(class) + ln P(features | class), a column for each class."""

    def fit(self, X: Any, y: Any) -> "PrivateBayes":  # noqa: N803, ANN401 - scikit-learn's names
        """Learn from a table. Refused arguments spend nothing; weights of samples are not supported."""
        positive("epsilon", to_scalar(self.epsilon))
        source, adjacency = choose_noise_source(self.noise, self.random_state), self._checked_adjacency()
        # Missing values and texts stay: an error would tell that they are there.
        records = to_table(X)
        if self.classes is None:
            rows, answers = read_table(self, records, y)
        else:
            rows = read_table(self, records)
            answers = read_targets(y, rows.shape[0])
        self._check_declared(rows.shape[1])
        labels = self._labels(answers)
        known = labels >= 0
        caveats = source.caveats | (SEEN_CLASSES if self.classes is None else frozenset())
        self.ledger_ = Ledger(adjacency, caveats=caveats)
        self._learn(rows[known], labels[known], source, adjacency)
        return self

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803, ANN401
        """The most likely class of each row."""
        joint = self._log_joint_of(X)
        return np.asarray(self.classes_[np.argmax(joint, axis=1)])

    def predict_log_proba(self, X: Any) -> np.ndarray:  # noqa: N803, ANN401
        """ln of the posterior of each class."""
        joint = self._log_joint_of(X)
        top = joint.max(axis=1, keepdims=True)
        return np.asarray(joint - top - np.log(np.exp(joint - top).sum(axis=1, keepdims=True)))

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803, ANN401
        """The posterior of each class."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.classifier_tags.poor_score = True  # on some dozens of rows the noise is louder than the data
        return tags

    def _spend(self, label: str, event: Event) -> None:
        self.ledger_ = self.ledger_.spend(label, event)

    def _log_joint_of(self, X: Any) -> np.ndarray:  # noqa: N803, ANN401
        check_is_fitted(self)
        rows = read_table(self, to_table(X), reset=False)
        return self._log_joint(rows)

    def _checked_adjacency(self) -> Adjacency:
        return read_adjacency(self.adjacency, "Use AddRemove(), ReplaceOne() or ZeroOut().")

    def _labels(self, answers: np.ndarray) -> np.ndarray:
        """Each row's position in ``classes_``, or −1 for a class that was not declared."""
        if self.classes is None:
            check_classification_targets(answers)
            warnings.warn(
                "'classes' was not given, so the classes are taken from the data, and their occurrence is "
                "not protected. Declare them.",
                LeakWarning,
                stacklevel=level_of_caller(),
            )
            self.classes_, labels = np.unique(answers, return_inverse=True)
            return np.asarray(labels).reshape(-1)
        self.classes_ = list_classes(self.classes)
        if not self.classes_.size or self.classes_.size < len(list(self.classes)):
            raise InvalidArgument(
                f"'classes' must be a sequence of different classes, at least one, got "
                f"{format_value(self.classes)}. List each class once."
            )
        positions = {label: position for position, label in enumerate(self.classes_.tolist())}
        return indices(answers, positions)
