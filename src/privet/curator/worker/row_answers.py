"""Models and synthetic tables, which need the rows themselves: one row of each unit, read by the rules of
all engines.
"""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.curator.questions.metadata import ColumnMetadata, DatasetMetadata
from privet.curator.questions.model_question import ModelQuestion
from privet.curator.questions.synthetic_question import UNIT, SyntheticQuestion
from privet.randomness import NoiseSource
from privet.releasing import RowCondition
from privet.releasing.engines.aggregates import KeyColumn, KeyKind
from privet.releasing.engines.columns import ColumnExpressions
from privet.releasing.engines.conditions import row_condition
from privet.releasing.tables.sources import TableSource, pl

__all__ = ["answer_rows"]

_MARK = "\x00unit"


def answer_rows(
    question: ModelQuestion | SyntheticQuestion, table: TableSource, noise: NoiseSource
) -> Mapping[str, Any]:
    """The answer to a question that needs single rows."""
    if isinstance(question, ModelQuestion):
        return {"answers": [], "model": _fit_model(question, table, noise)}
    return {"answers": [], "synthetic": _make_table(question, table, noise)}


def _fit_model(question: ModelQuestion, table: TableSource, noise: NoiseSource) -> Mapping[str, Any]:
    """The fitted model: its public encoding and its noisy weights."""
    frame = _UnitRows(question.dataset, question.where, table).read((*question.features, question.target))
    features = np.column_stack([_encode(frame, place, c) for place, c in enumerate(question.features)])
    target = frame[f"v{len(question.features)}"].to_numpy()
    known = ~np.isnan(target)
    features, target = features[known], target[known]
    if question.estimator == "ridge":
        target = _center(target, question.target)
    model: Any = question.make(noise)
    # One public row of zeros, in every table alike: a table without rows is fitted too.
    rows, answers = np.vstack([features, np.zeros((1, question.width))]), np.append(target, 0.0)
    model.fit(rows, answers if question.estimator == "ridge" else answers.astype(int))
    if model.ledger_.entries[0].event != question.event:
        raise AssertionError("the fit spent something else than was planned")
    return {
        "estimator": question.estimator,
        "features": [_describe(column) for column in question.features],
        "target": _describe(question.target),
        "weights": np.atleast_2d(model.coef_).tolist(),
        "intercepts": np.atleast_1d(model.intercept_).tolist(),
    }


def _make_table(question: SyntheticQuestion, table: TableSource, noise: NoiseSource) -> Mapping[str, Any]:
    """A synthetic table of as many rows as the limits say, whatever the number of real ones."""
    frame = _UnitRows(question.dataset, question.where, table).read(question.columns)
    columns: dict[str, NDArray[Any]] = {UNIT: np.arange(frame.height)}
    for place, column in enumerate(question.columns):
        codes = frame[f"v{place}"].to_numpy()
        columns[column.name] = codes if column.keys is None else _name_keys(codes, column)
    made = question.mechanism.release(columns, noise)
    drawn = made.sample(question.dataset.limits.synthetic_rows, np.random.default_rng())
    return {
        "columns": {column.name: drawn[column.name].tolist() for column in question.columns},
        "estimated_rows": float(made.total),
    }


@final
class _UnitRows:
    """The rows that pass a condition: the first of each unit."""

    def __init__(self, dataset: DatasetMetadata, where: RowCondition | None, table: TableSource) -> None:
        self._unit, self._where, self._table = dataset.unit, where, table
        self._columns = ColumnExpressions(table)

    def read(self, columns: tuple[ColumnMetadata, ...]) -> pl.DataFrame:
        """A column of floats for each: the number, or the place of the key; NaN where there is none."""
        values = [self._value(column).alias(f"v{place}") for place, column in enumerate(columns)]
        unit = [] if self._unit is None else [self._columns.unit(self._unit).alias(_MARK)]
        passes = [] if self._where is None else [row_condition(self._columns, self._where)]
        roots = [name for one in (*values, *unit, *passes) for name in one.meta.root_names()]
        frame = self._table.scan(dict.fromkeys(roots))
        for condition in passes:
            frame = frame.filter(condition)
        frame = frame.select(*values, *unit)
        if unit:
            frame = frame.filter(pl.col(_MARK).is_not_null())
            frame = frame.unique(subset=[_MARK], keep="first", maintain_order=True)
        return frame.collect().with_columns(pl.col("^v[0-9]+$").fill_null(float("nan")))

    def _value(self, column: ColumnMetadata) -> pl.Expr:
        if column.keys is None:
            return self._columns.number(column.name)
        codec = self._columns.key(KeyColumn(column.name, KeyKind.of(column.keys[0])))
        places = {codec.encode(key): float(place) for place, key in enumerate(column.keys)}
        places.pop(None, None)
        return codec.expression.replace_strict(places, default=None, return_dtype=pl.Float64)


def _encode(frame: pl.DataFrame, place: int, column: ColumnMetadata) -> NDArray[np.float64]:
    values: NDArray[np.float64] = frame[f"v{place}"].to_numpy()
    if column.keys is None:
        return np.nan_to_num(_center(values, column), nan=0.0)[:, None]
    return np.asarray(values[:, None] == np.arange(len(column.keys)), dtype=np.float64)


def _center(values: NDArray[np.float64], column: ColumnMetadata) -> NDArray[np.float64]:
    """Within ±1 by the declared bounds."""
    assert column.lower is not None
    assert column.upper is not None
    share = (np.clip(values, column.lower, column.upper) - column.lower) / (column.upper - column.lower)
    return np.asarray(2 * share - 1)


def _name_keys(codes: NDArray[np.float64], column: ColumnMetadata) -> NDArray[Any]:
    names = np.empty(codes.size, dtype=object)
    for row, code in enumerate(codes.tolist()):
        names[row] = None if np.isnan(code) else (column.keys or ())[int(code)]
    return names


def _describe(column: ColumnMetadata) -> dict[str, Any]:
    keys = None if column.keys is None else list(column.keys)
    return {"name": column.name, "lower": column.lower, "upper": column.upper, "keys": keys}
