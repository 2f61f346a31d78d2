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
from privet.views import Labels, Numbers

__all__ = [
    "BoostedTrees",
    "Classifier",
    "LogOdds",
    "LogisticClassifier",
    "boosted_quantiles",
    "discriminant_judge",
    "impute",
    "kernel_judge",
    "learn_texts",
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


Columns = Sequence[NDArray[Any]]  # a table by its columns, of any type

_MOST_CATEGORIES = 200


def impute(columns: Columns, numbers: Labels, count: int, *, seed: int) -> Callable[[Columns], Numbers]:
    """The probability of each of ``count`` values, learnt from columns of any type: rows × values.

    A logistic regression (categories one-hot, numbers standardised) and boosted trees are compared by the log
    loss in three-fold cross-validation; the better one is fitted on everything. A value that never occurs has
    probability 0.
    """
    _require_sklearn()
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    tables = [_EncodedColumn.learn(column) for column in columns]

    def encode(new: Columns) -> Numbers:
        return np.stack([table.encode(column) for table, column in zip(tables, new, strict=True)], axis=1)

    features, seen = encode(columns), np.unique(numbers)
    if len(seen) == 1:  # nothing to learn
        return lambda new: np.tile(np.eye(count)[seen[0]], (len(new[0]), 1))
    words = np.array([table.is_words for table in tables])
    boosted: Any = HistGradientBoostingClassifier(
        max_iter=100,
        max_leaf_nodes=15,
        l2_regularization=1.0,
        categorical_features=words,
        early_stopping=False,
        random_state=whole("seed", seed, 0),
    )
    steps = [
        ("words", OneHotEncoder(handle_unknown="ignore", min_frequency=2), np.flatnonzero(words)),
        ("numbers", make_pipeline(_simple_imputer(), StandardScaler()), np.flatnonzero(~words)),
    ]
    from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]

    logistic: Any = make_pipeline(ColumnTransformer(steps), LogisticRegression(max_iter=2000))
    chosen = boosted
    if np.bincount(numbers)[seen].min() >= 3:
        folds = StratifiedKFold(3, shuffle=True, random_state=seed)
        losses = [
            float(cross_val_score(model, features, numbers, cv=folds, scoring="neg_log_loss").mean())
            for model in (boosted, logistic)
        ]
        chosen = logistic if losses[1] > losses[0] else boosted
    chosen.fit(features, numbers)

    def predict(new: Columns) -> Numbers:
        table = np.zeros((len(new[0]), count))
        table[:, chosen.classes_] = chosen.predict_proba(encode(new))
        return table

    return predict


@final
@dataclass(frozen=True, eq=False)
class _EncodedColumn:
    """A column as numbers: numbers as they are, words by their rank among the frequent ones, and NaN for the
    rest.
    """

    codes: dict[str, int] | None

    @classmethod
    def learn(cls, column: NDArray[Any]) -> "_EncodedColumn":
        if _is_number(column):
            return cls(None)
        words, counts = np.unique(column.astype(str), return_counts=True)
        frequent = words[np.argsort(-counts, kind="stable")][:_MOST_CATEGORIES]
        return cls({word: code for code, word in enumerate(frequent.tolist())})

    @property
    def is_words(self) -> bool:
        return self.codes is not None

    def encode(self, column: NDArray[Any]) -> Numbers:
        if self.codes is None:
            return column.astype(np.float64)
        codes = self.codes
        return np.array([codes.get(word, np.nan) for word in column.astype(str).tolist()])


def _is_number(column: NDArray[Any]) -> bool:
    if column.dtype.kind in "biuf":
        return True
    try:
        column.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return all(isinstance(value, int | float) for value in column.tolist())


def _simple_imputer() -> Any:  # noqa: ANN401 - scikit-learn has no types
    from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]

    return SimpleImputer(strategy="median", keep_empty_features=True)


def discriminant_judge(rows: Numbers, names: Labels) -> Callable[[Numbers], Labels]:
    """A linear discriminant with shrinkage, on the principal components of the rows."""
    _require_sklearn()
    from sklearn.decomposition import PCA  # type: ignore[import-untyped]
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # type: ignore[import-untyped]
    from sklearn.pipeline import make_pipeline

    components = max(1, min(100, len(rows) - len(np.unique(names)), rows.shape[1]))
    return _fitted_judge(
        make_pipeline(
            PCA(components, svd_solver="full"), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
        ),
        rows,
        names,
    )


def kernel_judge(rows: Numbers, names: Labels) -> Callable[[Numbers], Labels]:
    """A support vector machine with a radial kernel."""
    _require_sklearn()
    from sklearn.svm import SVC  # type: ignore[import-untyped]

    return _fitted_judge(SVC(C=10.0, gamma="scale"), rows, names)


def _fitted_judge(model: Any, rows: Numbers, names: Labels) -> Callable[[Numbers], Labels]:  # noqa: ANN401
    model.fit(rows, names)
    return lambda new: np.asarray(model.predict(new), dtype=np.int64)


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


def learn_texts(texts: Sequence[str], coin: Bits) -> Callable[[Sequence[str]], Numbers]:
    """A classifier that reads texts alone: from texts to the ln odds of membership.

    Logistic regression on words, pairs of words and parts of words (tf-idf, hashed, so that nothing is kept
    of the texts), and on the style: length, and the shares of capitals, digits, punctuation and other
    letters.
    """
    _require_sklearn()
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import (  # type: ignore[import-untyped]
        HashingVectorizer,
        TfidfTransformer,
    )
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    words: Any = make_pipeline(
        HashingVectorizer(n_features=2**17, ngram_range=(1, 2), alternate_sign=False, token_pattern=r"\S+"),
        TfidfTransformer(sublinear_tf=True),
    )
    parts: Any = make_pipeline(
        HashingVectorizer(n_features=2**16, ngram_range=(3, 4), analyzer="char_wb", alternate_sign=False),
        TfidfTransformer(sublinear_tf=True),
    )
    style: Any = StandardScaler()

    def read(some: Sequence[str], *, learn: bool) -> Any:  # noqa: ANN401 - a sparse matrix
        tables = [step.fit_transform(some) if learn else step.transform(some) for step in (words, parts)]
        numbers = _style(some)
        scaled = style.fit_transform(numbers) if learn else style.transform(numbers)
        return hstack([*tables, csr_matrix(0.3 * scaled)]).tocsr()

    # The dual problem has one variable for each text, and there are far more words than texts.
    model: Any = LogisticRegression(C=10.0, solver="liblinear", dual=True, random_state=0, max_iter=1000)
    model.fit(read(texts, learn=True), coin)
    return lambda some: np.asarray(model.decision_function(read(some, learn=False)), dtype=np.float64)


def _style(texts: Sequence[str]) -> Numbers:
    rows = []
    for text in texts:
        size = max(1, len(text))
        rows.append(
            [
                np.log1p(len(text)),
                np.log1p(len(text.split())),
                sum(map(str.isupper, text)) / size,
                sum(map(str.isdigit, text)) / size,
                sum(not (letter.isalnum() or letter.isspace()) for letter in text) / size,
                sum(not letter.isascii() for letter in text) / size,
                text.count("\n") / size,
            ]
        )
    return np.array(rows)


def _require_sklearn() -> None:
    try:
        import sklearn  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "This attack needs the package 'scikit-learn', which is not installed. Run pip install "
            "'privet[learn]'."
        ) from None
