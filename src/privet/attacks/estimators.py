"""Classifiers and quantile regression for attacks: the only module here that imports scikit-learn."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.errors import MissingPackage
from privet.scores import Bits
from privet.views import Numbers

__all__ = [
    "BoostedTrees",
    "Classifier",
    "LogOdds",
    "LogisticClassifier",
    "boosted_quantiles",
    "out_of_fold_probabilities",
]

LogOdds = Callable[[Numbers], Numbers]  # from rows of features to the ln odds of membership


class Classifier(ABC):
    """A classifier that learns to tell members from others."""

    @abstractmethod
    def learn(self, features: Numbers, coin: Bits) -> LogOdds:
        """Fit on features and coins; gives a function from features to the ln odds of membership."""


@final
@dataclass(frozen=True)
class LogisticClassifier(Classifier):
    """Logistic regression on standardised features."""

    def learn(self, features: Numbers, coin: Bits) -> LogOdds:
        _require_sklearn()
        from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]
        from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
        from sklearn.preprocessing import StandardScaler  # type: ignore[import-untyped]

        model: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
        model.fit(features, coin)
        return lambda rows: np.asarray(model.decision_function(rows), dtype=np.float64)


@final
@dataclass(frozen=True)
class BoostedTrees(Classifier):
    """Boosted trees: they need no scaling, follow curved relations, and give scores in steps."""

    seed: int = 0

    def learn(self, features: Numbers, coin: Bits) -> LogOdds:
        _require_sklearn()
        from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]

        model: Any = HistGradientBoostingClassifier(
            max_iter=100, max_leaf_nodes=15, l2_regularization=1.0, random_state=whole("seed", self.seed, 0)
        )
        model.fit(features, coin)
        return lambda rows: np.asarray(model.decision_function(rows), dtype=np.float64)


def boosted_quantiles(
    features: Numbers, values: Numbers, levels: Sequence[float], seed: int
) -> Callable[[Numbers], Numbers]:
    """Conditional quantiles by boosted trees under the pinball loss: rows to rows × levels, in increasing
    order.
    """
    _require_sklearn()
    from sklearn.ensemble import HistGradientBoostingRegressor

    models: list[Any] = [
        HistGradientBoostingRegressor(
            loss="quantile", quantile=level, max_iter=60, max_leaf_nodes=15, random_state=seed
        ).fit(features, values)
        for level in levels
    ]

    def predict(rows: Numbers) -> Numbers:
        # Quantiles that cross are put in order, which is never further from the truth (Chernozhukov et al.
        # 2010).
        return np.sort(np.stack([np.asarray(m.predict(rows)) for m in models], axis=1), axis=1)

    return predict


def out_of_fold_probabilities(
    features: Numbers, classes: NDArray[np.intp], generator: np.random.Generator, folds: int = 4
) -> Numbers:
    """For each record the probability of every class by boosted trees that learnt from the other folds.

    ``classes`` are numbered from 0 without gaps.
    """
    _require_sklearn()
    from sklearn.ensemble import HistGradientBoostingClassifier

    fold = generator.permutation(len(classes)) % folds
    probabilities = np.zeros((len(classes), int(classes.max()) + 1))
    for number in range(folds):
        held = fold == number
        if len(np.unique(classes[~held])) < 2:
            probabilities[held] = np.bincount(classes) / len(classes)
            continue
        model: Any = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=8, l2_regularization=1.0, early_stopping=False, random_state=0
        )
        model.fit(features[~held], classes[~held])
        probabilities[np.ix_(held, model.classes_)] = model.predict_proba(features[held])
    return probabilities


def _require_sklearn() -> None:
    try:
        import sklearn  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "This attack needs the package 'scikit-learn', which is not installed. Run pip install "
            "'privet[learn]'."
        ) from None
