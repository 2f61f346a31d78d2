"""A model as a question: which columns predict which, by which private estimator, at which budget.

Everything that the fit needs is public: columns are scaled by their declared bounds, categories by their
declared keys, the norm of a row is bounded by the number of its features, and the losses are divided by a
declared population. So the price is known before a row is read. One row of each unit counts, its first. The
model may then be used and shared without end: that is post-processing.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from privet.adjacency import AddRemove, Unit
from privet.arguments import format_value
from privet.curator.questions.conditions import normalize_condition, read_condition
from privet.curator.questions.fields import Fields
from privet.curator.questions.metadata import ColumnMetadata, DatasetMetadata
from privet.curator.questions.question import check_header, read_price, write_frame
from privet.errors import InvalidArgument
from privet.events import Event
from privet.learning import LinearSVC, LogisticRegression, Ridge
from privet.learning.estimator import PrivateLinear
from privet.randomness import NoiseSource
from privet.releasing import RowCondition

__all__ = ["ESTIMATORS", "ModelQuestion", "read_model_question"]

ESTIMATORS = ("linear_svc", "logistic_regression", "ridge")
_MOST_FEATURES = 200


@final
@dataclass(frozen=True, kw_only=True)
class ModelQuestion:
    """A linear model of a target by features."""

    dataset: DatasetMetadata
    estimator: str
    features: tuple[ColumnMetadata, ...]
    target: ColumnMetadata
    population: int
    where: RowCondition | None
    joins: tuple[str, ...]
    epsilon: float
    delta: float

    @property
    def label(self) -> str:
        """What is released."""
        return f"{self.estimator.replace('_', ' ')} of {self.target.name}"

    @property
    def width(self) -> int:
        """The number of features: one for a number, one for each key."""
        return sum(1 if column.keys is None else len(column.keys) for column in self.features)

    @property
    def fits(self) -> int:
        """How many models are fitted: one for each class where there are more than two."""
        classes = len(self.target.keys or ())
        return classes if self.estimator != "ridge" and classes > 2 else 1

    @cached_property
    def event(self) -> Event:
        """What the fit spends."""
        return self.make(None).quote(self.width, fits=self.fits)

    def make(self, noise: NoiseSource | None) -> PrivateLinear:
        """The estimator, not fitted. Numbers are within ±1 and each category is a unit vector."""
        bound = math.sqrt(len(self.features))
        adjacency = AddRemove(Unit.RECORD)  # each unit has one row here
        if self.estimator == "ridge":
            return Ridge(
                self.epsilon,
                delta=self.delta,
                norm_bound=bound,
                population=self.population,
                adjacency=adjacency,
                noise=noise,
            )
        kind = LogisticRegression if self.estimator == "logistic_regression" else LinearSVC
        return kind(
            self.epsilon,
            delta=self.delta,
            norm_bound=bound,
            classes=tuple(range(len(self.target.keys or ()))),
            population=self.population,
            adjacency=adjacency,
            noise=noise,
        )

    def to_plain(self) -> dict[str, Any]:
        """As JSON, readable as a question again."""
        return {
            **write_frame(self.dataset, self.where, self.joins),
            "model": {
                "estimator": self.estimator,
                "features": [column.name for column in self.features],
                "target": self.target.name,
                "population": self.population,
            },
            "epsilon": self.epsilon,
            "delta": self.delta,
        }


def read_model_question(question: object, dataset: DatasetMetadata) -> ModelQuestion:
    """The model that JSON asks for, in its canonical form."""
    given = Fields(question, "The question")
    check_header(given, dataset)
    check_row_access(dataset, "model")
    joins = tuple(sorted(given.texts("join"))) if "join" in given else ()
    model = given.inner("model")
    estimator = model.text("estimator")
    if estimator not in ESTIMATORS:
        raise InvalidArgument(
            f"{model.place}: 'estimator' must be one of {', '.join(ESTIMATORS)}, got "
            f"{format_value(estimator)}. "
            f"Choose one."
        )
    features = [dataset.find_column(name, joins) for name in sorted(model.texts("features"))]
    target = dataset.find_column(model.text("target"), joins)
    for column in features:
        _check_feature(model, column)
    if target in features:
        raise InvalidArgument(f"{model.place}: 'target' must be no feature, got {target.name!r}. Remove it.")
    _check_target(model, target, numeric=estimator == "ridge")
    epsilon, delta = read_price(given, dataset, accuracy=False)
    if delta == 0 or epsilon is None:
        raise InvalidArgument("A model must have a 'delta' above 0, and has none. Give one far below 1/n.")
    read = ModelQuestion(
        dataset=dataset,
        estimator=estimator,
        features=tuple(features),
        target=target,
        population=model.whole("population", least=10),
        where=normalize_condition(
            read_condition(given.inner("where"), dataset, joins) if "where" in given else None
        ),
        joins=joins,
        epsilon=epsilon,
        delta=delta,
    )
    if read.width > _MOST_FEATURES:
        raise InvalidArgument(
            f"{model.place} must have at most {_MOST_FEATURES} features, got {read.width}. Leave some out."
        )
    model.close()
    given.close()
    return read


def check_row_access(dataset: DatasetMetadata, kind: str) -> None:
    """Refuse what needs rows from a dataset that does not allow it, or is no file."""
    if kind not in dataset.kinds:
        raise InvalidArgument(
            f"The dataset {dataset.name!r} does not allow {kind} questions. Ask for statistics."
        )
    if not dataset.in_files:
        raise InvalidArgument(
            f"The dataset {dataset.name!r} is a table of a server, and {kind} questions need a file. Ask for "
            f"statistics, or export the table."
        )
    if dataset.exchange:
        raise InvalidArgument(
            f"The dataset {dataset.name!r} is protected under replace-one, and {kind} questions are priced "
            f"under "
            f"add-remove. Ask for statistics."
        )


def _check_feature(model: Fields, column: ColumnMetadata) -> None:
    if column.keys is None and (column.lower is None or not column.type.numeric):
        raise InvalidArgument(
            f"{model.place}: the feature {column.name!r} must have declared bounds or keys, and has "
            f"neither. Choose "
            f"another one."
        )


def _check_target(model: Fields, column: ColumnMetadata, *, numeric: bool) -> None:
    if numeric and column.lower is None:
        raise InvalidArgument(
            f"{model.place}: the target {column.name!r} of ridge must have declared bounds. Choose another "
            f"one."
        )
    if not numeric and len(column.keys or ()) < 2:
        raise InvalidArgument(
            f"{model.place}: the target {column.name!r} must have two declared keys or more. Choose another "
            f"one."
        )
