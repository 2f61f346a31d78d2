"""Private linear models as scikit-learn estimators."""

import warnings
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax

from privet.adjacency import Adjacency, ReplaceOne
from privet.arguments import format_value, positive
from privet.callers import level_of_caller
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.learning.classifier import SEEN_CLASSES, LeakWarning
from privet.learning.estimator import PrivateLinear
from privet.learning.inputs import list_classes, to_numbers, to_scalar
from privet.learning.losses import ConvexLoss, Floats, HuberLoss, LogisticLoss, SmoothedHingeLoss
from privet.learning.solver import Solver
from privet.mechanisms.records import indices
from privet.randomness import NoiseSource

from sklearn.base import ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]  # isort: skip
from sklearn.utils.multiclass import (  # type: ignore[import-untyped]  # isort: skip
    check_classification_targets,
)

__all__ = ["LinearSVC", "LogisticRegression", "Ridge"]


class LinearClassifier(ClassifierMixin, PrivateLinear):  # type: ignore[misc]
    """One private fit for two classes; for more, one for each class against the rest, on one ledger."""

    classes: Sequence[Any] | None

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on some dozens of rows the noise is louder than the data
        return tags

    def fit(self, X: Any, y: Any) -> "LinearClassifier":  # noqa: N803, ANN401 - scikit-learn's names
        """Learn from a table. Refused arguments spend nothing; weights of samples are not supported."""
        features, answers = self._read_data(X, y, declared=self.classes is not None)
        labels, caveats = self._labels(answers)
        known = np.where(labels < 0, np.nan, 1.0)
        positions = range(self.classes_.size) if self.classes_.size > 2 else (1,)
        columns = [known * np.where(labels == k, 1.0, -1.0) for k in positions]
        self._learn(features, columns, caveats, f"{type(self).__name__}, {len(columns)} fitted")
        return self

    def decision_function(self, X: Any) -> Floats:  # noqa: N803, ANN401
        """The score of each class, or of the second where there are two."""
        scores = self._scores(X)
        return scores.ravel() if self.classes_.size == 2 else scores

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803, ANN401
        """The class with the highest score."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            return np.asarray(self.classes_[(scores.ravel() > 0).astype(int)])
        return np.asarray(self.classes_[np.argmax(scores, axis=1)])

    def _labels(self, answers: np.ndarray) -> tuple[np.ndarray, frozenset[Caveat]]:
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
            self._check_classes("those seen in the data")
            return np.asarray(labels).reshape(-1), SEEN_CLASSES
        self.classes_ = list_classes(self.classes)
        self._check_classes(format_value(self.classes))
        if self.classes_.size < len(list(self.classes)):
            raise InvalidArgument(
                f"'classes' must be different from each other, got {format_value(self.classes)}. List each "
                f"class once."
            )
        positions = {label: position for position, label in enumerate(self.classes_.tolist())}
        return indices(answers, positions), frozenset()

    def _check_classes(self, got: str) -> None:
        if self.classes_.size < 2:
            raise InvalidArgument(
                f"'classes' must hold at least two classes, got one class or none: {got}. Declare two or "
                f"more."
            )


@final
class LogisticRegression(LinearClassifier):
    """LogisticLoss regression, (ε, δ)-differentially private.

    Minimises the mean of ln(1 + e^{−ys}) plus ½ alpha ‖θ‖², where rows are scaled into the unit ball by a
    public bound. With more than two classes, each is fitted against the rest, and the ledger holds all fits.

    Parameters
    ----------
    epsilon : float, default=1.0
        ε of one ``fit``, all classes together.
    delta : float
        δ of one ``fit``. There is no default: it belongs far below 1/n.
    solver : Solver, default=None
        ``OutputPerturbation()``, ``ObjectivePerturbation()`` or ``NoisySGD()``. None is ``NoisySGD()``, whose
        steps and momentum follow from n, d, ε, δ and alpha (``privet.learning.hyperparameters``). Mean AUC on
        five tables that the rule was not developed on (docs/benchmarks-learning.md), at ε = 1, 3, 10, 100:
        0.750, 0.769, 0.782, 0.784. Objective perturbation: 0.748, 0.764, 0.779, 0.784. Output perturbation:
        0.735, 0.759, 0.774, 0.784. Not private: 0.784.
    alpha : float, default=None
        The regularisation of the scaled problem, which is that of the mean loss. None chooses it from n, ε, δ
        and the solver: less for more rows and for a larger ε. With ``OutputPerturbation`` the noise is ∝ 1/(n
        alpha); ``ObjectivePerturbation`` raises it where its theorem needs more.
    norm_bound : float, default=1.0
        The Euclidean norm of a row, from public knowledge. Longer rows are shortened to it.
    fit_intercept : bool, default=True
        Whether a constant feature, of the length ``norm_bound``, is added. It is regularised too.
    classes : sequence, default=None
        The classes, from public knowledge; rows of other classes are left out. None takes those seen in
        ``y``, which is not private, and warns.
    population : int, default=None
        The number that losses are divided by, which is public. None takes the number of rows, which is public
        under replace-one and zero-out adjacency. Under add-remove the number of rows is secret, and None is
        refused.
    adjacency : Adjacency or its class, default=ReplaceOne
        When two tables are neighbours. The unit is a row.
    noise : NoiseSource, default=None
        Where privacy noise comes from; None is the operating system.
    random_state : int, default=None
        A seed, for tests only: it leaves the caveat SEEDED_NOISE on the ledger.

    Attributes
    ----------
    ledger_ : Ledger
        What ``fit`` spent.
    coef_, intercept_ : arrays
        Of the features as they were given.
    alpha_ : float
        The regularisation that was used.
    prepared_ : PreparedFit
        The solver with all its public numbers: noise, sensitivity, grid.

    *Guarantee.* That of the solver; see there for theorem and proof.

    *Leaks.* The number of columns, the container type of ``y``, and how long it took. Under add-remove,
    and with another solver than ``NoisySGD``, also whether there are more than four times as many rows as
    ``population``, which is refused.

    *Reference.* Chaudhuri, Monteleoni & Sarwate 2011.

    >>> X, y = np.array([[0.1], [0.9], [0.2], [0.8]] * 500), np.array([0, 1, 0, 1] * 500)
    >>> model = LogisticRegression(epsilon=2.0, delta=1e-6, classes=(0, 1)).fit(X, y)
    >>> int(model.predict([[0.95]])[0])
    1
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float,
        solver: Solver | None = None,
        alpha: float | None = None,
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        population: int | None = None,
        adjacency: Adjacency | type[Adjacency] = ReplaceOne,
        noise: NoiseSource | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.alpha = alpha
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.population = population
        self.adjacency = adjacency
        self.noise = noise
        self.random_state = random_state

    def predict_proba(self, X: Any) -> Floats:  # noqa: N803, ANN401
        """The probability of each class; of more than two, the softmax of their scores."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            return np.column_stack([expit(-scores.ravel()), expit(scores.ravel())])
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any) -> Floats:  # noqa: N803, ANN401
        """The logarithm of ``predict_proba``."""
        scores = self._scores(X)
        if self.classes_.size == 2:
            return np.asarray(log_expit(scores * np.array([-1.0, 1.0])))
        return np.asarray(log_softmax(scores, axis=1))

    def _loss(self) -> ConvexLoss:
        return LogisticLoss()


@final
class LinearSVC(LinearClassifier):
    """A linear support vector machine with a rounded hinge, (ε, δ)-differentially private.

    Minimises the mean hinge loss (1 − ys)₊, its corner rounded over 1 ± ``smoothing``, plus ½ alpha ‖θ‖². All
    other parameters and attributes are those of ``LogisticRegression``.

    Parameters
    ----------
    smoothing : float, default=0.5
        Half the width of the rounded corner. The second derivative is at most 1/(2 smoothing), and
        ``ObjectivePerturbation`` pays for it.

    *Reference.* Chaudhuri, Monteleoni & Sarwate 2011, with their Huber loss.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float,
        solver: Solver | None = None,
        alpha: float | None = None,
        smoothing: float = 0.5,
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        classes: Sequence[Any] | None = None,
        population: int | None = None,
        adjacency: Adjacency | type[Adjacency] = ReplaceOne,
        noise: NoiseSource | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.alpha = alpha
        self.smoothing = smoothing
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.population = population
        self.adjacency = adjacency
        self.noise = noise
        self.random_state = random_state

    def _loss(self) -> ConvexLoss:
        return SmoothedHingeLoss(to_scalar(self.smoothing))


@final
class Ridge(RegressorMixin, PrivateLinear):  # type: ignore[misc]
    """Ridge regression with clipped residuals, (ε, δ)-differentially private.

    Minimises the mean of ½(s − y)² plus ½ alpha ‖θ‖². Targets are clipped to ± ``target_bound``. A residual
    beyond ``residual_bound`` has the gradient of one at the bound (Huber's loss); otherwise one row could
    move the answer any distance. If no residual is beyond the bound, then the answer is that of ridge
    regression. Other parameters and attributes are those of ``LogisticRegression``.

    Parameters
    ----------
    target_bound : float, default=1.0
        The largest |y|, from public knowledge.
    residual_bound : float, default=None
        The largest residual that counts in full; None is ``target_bound``. The noise is proportional to it.

    *Reference.* Chaudhuri, Monteleoni & Sarwate 2011; Huber 1964.

    >>> x = np.linspace(-1, 1, 4000)
    >>> model = Ridge(epsilon=2.0, delta=1e-6, alpha=1e-3).fit(x[:, None], 0.5 * x)
    >>> bool(abs(model.predict([[1.0]])[0] - 0.5) < 0.1)
    True
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float,
        solver: Solver | None = None,
        alpha: float | None = None,
        target_bound: float = 1.0,
        residual_bound: float | None = None,
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        population: int | None = None,
        adjacency: Adjacency | type[Adjacency] = ReplaceOne,
        noise: NoiseSource | None = None,
        random_state: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.solver = solver
        self.alpha = alpha
        self.target_bound = target_bound
        self.residual_bound = residual_bound
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.population = population
        self.adjacency = adjacency
        self.noise = noise
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any) -> "Ridge":  # noqa: N803, ANN401 - scikit-learn's names
        """Learn from a table. Refused arguments spend nothing; weights of samples are not supported."""
        features, answers = self._read_data(X, y, declared=True)
        bound = positive("target_bound", to_scalar(self.target_bound))
        # Scaled to ±1, so that regularisation and noise do not depend on the unit of the target.
        targets = np.clip(to_numbers(answers.reshape(-1, 1)).ravel() / bound, -1.0, 1.0)
        self._learn(features, [targets], frozenset(), "Ridge")
        self.coef_ = bound * self.coef_[0]
        self.intercept_ = bound * self.intercept_[0]
        return self

    def predict(self, X: Any) -> Floats:  # noqa: N803, ANN401
        """The score of each row."""
        return self._scores(X).ravel()

    def _loss(self) -> ConvexLoss:
        bound = positive("target_bound", to_scalar(self.target_bound))
        if self.residual_bound is None:
            return HuberLoss(1.0)
        return HuberLoss(positive("residual_bound", to_scalar(self.residual_bound)) / bound)
