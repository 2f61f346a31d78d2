"""The form that builds a question: its fields, and the question in JSON that they say.

It works without a script: a further statistic is a button that sends the form. What the form cannot say, the
planner refuses in one sentence, which is shown above the form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

from privet.errors import InvalidArgument

__all__ = ["COMPARISONS", "KINDS", "FormStatistic", "QuestionForm", "read_form"]

KINDS = (
    ("count", "count of rows"),
    ("mean", "mean"),
    ("sum", "sum"),
    ("variance", "variance"),
    ("quantile", "quantile"),
    ("histogram", "histogram"),
)
COMPARISONS = (
    ("in", "is"),
    ("not", "is not"),
    ("at_least", "is at least"),
    ("at_most", "is at most"),
)
_MOST_STATISTICS, _CONDITIONS = 6, 2
_ABOUT_COLUMN = ("mean", "sum", "variance", "quantile", "histogram")


@final
@dataclass(frozen=True, kw_only=True)
class FormStatistic:
    """One statistic as the form has it: all text."""

    kind: str = "count"
    column: str = ""
    by: str = ""
    probability: str = "0.5"


@final
@dataclass(frozen=True, kw_only=True)
class FormCondition:
    """One condition as the form has it."""

    column: str = ""
    comparison: str = "in"
    value: str = ""


@final
@dataclass(frozen=True, kw_only=True)
class QuestionForm:
    """All fields of the form. ``mode`` is what fixes the noise: a price, or an accuracy."""

    statistics: tuple[FormStatistic, ...] = (FormStatistic(),)
    conditions: tuple[FormCondition, ...] = (FormCondition(),) * _CONDITIONS
    sql: str = ""
    is_sql: bool = False
    by_accuracy: bool = False
    epsilon: str = "0.1"
    within: str = "10"
    rows: str = ""
    delta: str = ""

    def add_statistic(self) -> "QuestionForm":
        """The form with one statistic more."""
        if len(self.statistics) >= _MOST_STATISTICS:
            return self
        return self._with((*self.statistics, FormStatistic()))

    def drop_statistic(self) -> "QuestionForm":
        """The form without its last statistic."""
        return self._with(self.statistics[:-1]) if len(self.statistics) > 1 else self

    @property
    def is_full(self) -> bool:
        """Whether no further statistic fits."""
        return len(self.statistics) >= _MOST_STATISTICS

    def fields(self) -> list[tuple[str, str]]:
        """All fields by name, to be sent along by another form."""
        named = [("mode", "sql" if self.is_sql else "form"), ("sql", self.sql)]
        for place, one in enumerate(self.statistics):
            named += [
                (f"kind{place}", one.kind),
                (f"column{place}", one.column),
                (f"by{place}", one.by),
                (f"probability{place}", one.probability),
            ]
        for place, part in enumerate(self.conditions):
            named += [
                (f"where{place}", part.column),
                (f"comparison{place}", part.comparison),
                (f"value{place}", part.value),
            ]
        return [
            *named,
            ("price", "within" if self.by_accuracy else "epsilon"),
            ("epsilon", self.epsilon),
            ("within", self.within),
            ("rows", self.rows),
            ("delta", self.delta),
        ]

    def question(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The question in JSON."""
        plain: dict[str, Any] = {"version": 1}
        if self.is_sql:
            plain |= {"sql": self.sql, "epsilon": _number("ε", self.epsilon)}
        else:
            plain["statistics"] = [self._statistic(one) for one in self.statistics]
            conditions = [_condition(part, metadata) for part in self.conditions if part.column]
            if conditions:
                plain["where"] = conditions[0] if len(conditions) == 1 else {"all": conditions}
            if not self.by_accuracy:
                plain["epsilon"] = _number("ε", self.epsilon)
            elif self.rows.strip():
                plain["assuming_rows"] = int(_number("rows", self.rows))
        if self.delta.strip():
            plain["delta"] = _number("δ", self.delta)
        return plain

    def _statistic(self, one: FormStatistic) -> dict[str, Any]:
        plain: dict[str, Any] = {"kind": one.kind}
        if one.kind in _ABOUT_COLUMN:
            plain["column"] = one.column
        if one.kind == "quantile":
            plain["probability"] = _number("quantile", one.probability)
        if one.by and one.kind != "histogram":
            plain["by"] = [one.by]
        if self.by_accuracy:
            plain["within"] = _number("error", self.within)
        return plain

    def _with(self, statistics: tuple[FormStatistic, ...]) -> "QuestionForm":
        return replace(self, statistics=statistics)


def read_form(sent: Mapping[str, str]) -> QuestionForm:
    """The form that a browser sent. Unknown fields are left out, and long ones are cut."""

    def take(name: str, default: str = "", longest: int = 200) -> str:
        return sent.get(name, default)[:longest]

    statistics = tuple(
        FormStatistic(
            kind=take(f"kind{place}", "count"),
            column=take(f"column{place}"),
            by=take(f"by{place}"),
            probability=take(f"probability{place}", "0.5"),
        )
        for place in range(_MOST_STATISTICS)
        if f"kind{place}" in sent
    )
    conditions = tuple(
        FormCondition(
            column=take(f"where{place}"),
            comparison=take(f"comparison{place}", "in"),
            value=take(f"value{place}"),
        )
        for place in range(_CONDITIONS)
    )
    return QuestionForm(
        statistics=statistics or (FormStatistic(),),
        conditions=conditions,
        sql=take("sql", longest=10_000),
        is_sql=take("mode") == "sql",
        by_accuracy=take("price") == "within",
        epsilon=take("epsilon", "0.1"),
        within=take("within", "10"),
        rows=take("rows"),
        delta=take("delta"),
    )


def _condition(part: FormCondition, metadata: Mapping[str, Any]) -> dict[str, Any]:
    types = {column["name"]: column["type"] for column in metadata.get("columns", ())}
    kind = types.get(part.column, "text")
    values = [_to_type(word.strip(), kind, part.column) for word in part.value.split(",")]
    match part.comparison:
        case "not":
            return {"not": {"column": part.column, "in": values}}
        case "at_least" | "at_most":
            return {"column": part.column, part.comparison: values[0]}
    return {"column": part.column, "in": values}


def _to_type(word: str, kind: str, column: str) -> str | float | int | bool:
    if kind == "truth" and word.lower() in ("true", "false", "yes", "no"):
        return word.lower() in ("true", "yes")
    if kind == "whole":
        number = _number(column, word)
        return int(number) if number == int(number) else number
    return _number(column, word) if kind == "number" else word


def _number(name: str, word: str) -> float:
    try:
        number = float(word.replace("−", "-").strip())
    except ValueError:
        number = float("nan")
    if not abs(number) < 1e300:
        raise InvalidArgument(f"{name!r} must be a number, got {word[:40]!r}. Write 0.5, say.")
    return number
