"""SQL as a question: one SELECT, read by an allow-list and never run.

The text is parsed by sqlglot. What stands on the list becomes the same JSON that any client may send;
everything else, known or not, is refused by name. No text of an analyst reaches a database, so there is
nothing to inject into.

Allowed: ``count(*)``; ``sum``, ``avg``, ``var_pop``, ``median``, ``quantile(x, p)``, ``percentile_cont(p)
WITHIN GROUP (ORDER BY x)``, ``covar_pop(x, y)``, ``histogram(x)``; ``AS``; ``FROM`` one dataset; ``JOIN`` of
its tables on the unit; ``WHERE`` with public columns and literals; ``GROUP BY`` columns with declared keys.

*Deviation from SQL*: values are clamped to their bounds, a person's rows are bounded, all declared keys are
answered whether there are rows or not, and a row whose value is missing counts in none of the groups.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, final

from privet.arguments import format_value
from privet.curator.questions.metadata import DatasetMetadata
from privet.errors import InvalidArgument, MissingPackage

try:
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError
except ImportError as missing:
    raise MissingPackage(
        "Questions in SQL need the package 'sqlglot', and it is not installed. Run: pip install "
        "'privet[curator]'."
    ) from missing

__all__ = ["read_sql"]

_DIALECT = "postgres"
_ONE_COLUMN: Mapping[type[exp.Expression], str] = {
    exp.Sum: "sum",
    exp.Avg: "mean",
    exp.VariancePop: "variance",
    exp.Median: "quantile",
}
_COMPARISONS: Mapping[type[exp.Expression], tuple[str, str]] = {
    exp.GT: ("above", "below"),
    exp.GTE: ("at_least", "at_most"),
    exp.LT: ("below", "above"),
    exp.LTE: ("at_most", "at_least"),
}
_MOST_NODES = 3000
_TWO = ("this", "expression")
_ALLOWED: Mapping[type[exp.Expression], tuple[str, ...]] = {
    exp.Select: ("expressions", "from_", "from", "joins", "where", "group"),
    exp.From: ("this",),
    exp.Join: ("this", "on", "using", "kind"),
    exp.Where: ("this",),
    exp.Group: ("expressions",),
    exp.Table: ("this", "alias"),
    exp.TableAlias: ("this",),
    exp.Alias: ("this", "alias"),
    exp.Identifier: ("this", "quoted"),
    exp.Column: ("this", "table"),
    exp.Paren: ("this",),
    exp.Star: (),
    exp.Count: ("this", "big_int"),
    exp.Sum: ("this",),
    exp.Avg: ("this",),
    exp.VariancePop: ("this",),
    exp.Median: ("this",),
    exp.CovarPop: _TWO,
    exp.Quantile: ("this", "quantile"),
    exp.WithinGroup: _TWO,
    exp.PercentileCont: ("this",),
    exp.PercentileDisc: ("this",),
    exp.Order: ("expressions",),
    exp.Ordered: ("this",),
    exp.Anonymous: ("this", "expressions"),
    exp.And: _TWO,
    exp.Or: _TWO,
    exp.Not: ("this",),
    exp.EQ: _TWO,
    exp.NEQ: _TWO,
    **dict.fromkeys(_COMPARISONS, _TWO),
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions"),
    exp.Is: ("this", "expression", "negate"),
    exp.Literal: ("this", "is_string"),
    exp.Neg: ("this",),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.Cast: ("this", "to"),
    exp.DataType: ("this",),
}
"""Every part that a question may have, with the fields that it may have.

A field that is not here, such as DISTINCT, FILTER or one that a later sqlglot adds, is refused wherever it
stands.
"""

_COUNT_ROWS = "The SQL may count rows, by count(*), and no values. Write count(*) … WHERE column IS NOT NULL."
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # its warnings repeat what an analyst wrote


def read_sql(text: str, dataset: DatasetMetadata) -> dict[str, Any]:
    """The statistics, the condition and the joins of a SELECT, as fields of a question."""
    select = _parse(text)
    return _Reader(dataset).read(select)


def _parse(text: str) -> exp.Select:
    trees: list[Any] | None = None
    with suppress(SqlglotError, RecursionError, ValueError):
        trees = [tree for tree in parse(text, read=_DIALECT) if tree is not None]
    if trees is None:  # the parser's own message would repeat the text with colours
        raise InvalidArgument("The SQL cannot be read. Write SELECT … FROM … WHERE … GROUP BY … .")
    if len(trees) != 1:
        raise InvalidArgument(f"The SQL must be one SELECT, got {len(trees)} statements. Send one.")
    (tree,) = trees
    if not isinstance(tree, exp.Select):
        raise _refuse(tree)
    nodes = list(tree.walk())
    if len(nodes) > _MOST_NODES:
        raise InvalidArgument(f"The SQL must have at most {_MOST_NODES} parts, and has more. Shorten it.")
    for node in nodes:
        _check_node(node)
    return tree


def _check_node(node: Any) -> None:  # noqa: ANN401 - a part of SQL
    allowed = _ALLOWED.get(type(node))
    if allowed is None:
        raise _refuse(node)
    for name, value in node.args.items():
        if value and name not in allowed:
            part = value[0] if isinstance(value, list) else value
            if isinstance(part, exp.Expression) and not isinstance(part, exp.Identifier):
                raise _refuse(part)
            raise _refuse(node, name)


def _refuse(node: exp.Expression, field: str = "") -> InvalidArgument:
    name = node.name if isinstance(node, exp.Anonymous) else f"{node.key} {field}".strip().upper()
    return InvalidArgument(
        f"The SQL may have count, sum, avg, var_pop, median, quantile, covar_pop, histogram, JOIN, WHERE "
        f"and GROUP BY, got {format_value(name)}. Leave it out."
    )


@final
class _Reader:
    """One SELECT over one dataset; ``names`` are those of its tables, by alias."""

    def __init__(self, dataset: DatasetMetadata) -> None:
        self._dataset = dataset
        self._names: dict[str, str] = {}
        self._joins: list[str] = []
        self._groups: list[str] = []

    def read(self, select: exp.Select) -> dict[str, Any]:
        self._read_tables(select)
        group = select.args.get("group")
        if group is not None:
            named = [self._column(self._resolve(select, one)) for one in group.expressions]
            self._groups = list(dict.fromkeys(named))
        statistics = [one for one in map(self._read_output, select.expressions) if one is not None]
        if not statistics:
            raise InvalidArgument("The SQL must ask for a statistic, and asks for none. Write count(*).")
        question: dict[str, Any] = {"statistics": statistics}
        where = select.args.get("where")
        if where is not None:
            question["where"] = self._condition(where.this)
        if self._joins:
            question["join"] = self._joins
        return question

    def _read_tables(self, select: exp.Select) -> None:
        source = select.args.get("from_") or select.args.get("from")
        if source is None:
            raise InvalidArgument(f"The SQL must read FROM {self._dataset.name}, and has no FROM. Add it.")
        self._read_table(source.this, self._dataset.name)
        for join in select.args.get("joins") or ():
            self._read_join(join)

    def _read_table(self, table: exp.Expression, expected: str | None) -> str:
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise _refuse(table)
        name = table.name
        known = expected if expected is not None else self._dataset.find_table(name).name
        if name != known:
            raise InvalidArgument(f"The SQL must read FROM {known}, got {format_value(name)}. Correct it.")
        alias = table.alias or name
        if alias in self._names:
            raise InvalidArgument(f"The SQL names {format_value(alias)} twice. Give another alias.")
        self._names[alias] = name
        return name

    def _read_join(self, join: exp.Join) -> None:
        if str(join.args.get("kind") or "INNER").upper() != "INNER":
            raise InvalidArgument(
                f"The SQL may have an inner JOIN, got {join.args['kind']}. Write JOIN … USING (unit)."
            )
        name = self._read_table(join.this, None)
        unit, own = self._dataset.unit, self._dataset.find_table(name).unit
        using, on = join.args.get("using"), join.args.get("on")
        if using is not None and unit == own and [column.name for column in using] == [unit]:
            pass
        elif not (isinstance(on, exp.EQ) and self._is_unit_join(on, name)):
            raise InvalidArgument(
                f"The SQL must JOIN {name} on the unit, {format_value(unit)}, and does not. Write USING "
                f"({unit}), or "
                f"ON {self._dataset.name}.{unit} = {name}.{own}."
            )
        self._joins.append(name)

    def _is_unit_join(self, on: exp.EQ, name: str) -> bool:
        sides = set()
        for side in (on.this, on.expression):
            if not isinstance(side, exp.Column) or not side.table:
                return False
            sides.add((self._names.get(side.table), side.name))
        table = self._dataset.find_table(name)
        return sides == {(self._dataset.name, self._dataset.unit), (name, table.unit)}

    def _resolve(self, select: exp.Select, node: exp.Expression) -> Any:  # noqa: ANN401 - a part of SQL
        """A column of GROUP BY, also where it is the number or the alias of an output."""
        if isinstance(node, exp.Literal) and not node.is_string:
            outputs, place = select.expressions, str(node.this)
            if not place.isdecimal() or len(place) > 9 or not 1 <= int(place) <= len(outputs):
                raise InvalidArgument(
                    f"GROUP BY must name columns, got {format_value(place)}. Write their names."
                )
            return outputs[int(place) - 1].unalias()
        if isinstance(node, exp.Column) and not node.table:
            for output in select.expressions:
                if isinstance(output, exp.Alias) and output.alias == node.name:
                    return output.this
        return node

    def _column(self, node: exp.Expression) -> str:
        if isinstance(node, exp.Paren):
            return self._column(node.this)
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            raise _refuse(node)
        if node.table and node.table not in self._names:
            raise InvalidArgument(
                f"The SQL has no table {format_value(node.table)}. Name one of FROM or JOIN."
            )
        column = self._dataset.find_column(self._spell(node), tuple(self._joins))
        if node.table:
            owner = self._names[node.table]
            listed = (
                self._dataset.columns
                if owner == self._dataset.name
                else self._dataset.find_table(owner).columns
            )
            if column not in listed:  # in another table of the question
                raise InvalidArgument(
                    f"The table {format_value(node.table)} has no public column {format_value(node.name)}. "
                    f"Correct "
                    f"it."
                )
        return column.name

    def _spell(self, node: exp.Column) -> str:
        """The name as the metadata write it: capitals do not count in SQL without quotes."""
        joined = [column for name in self._joins for column in self._dataset.find_table(name).columns]
        names = [column.name for column in (*self._dataset.columns, *joined)]
        same = [name for name in names if name.lower() == node.name.lower()]
        return same[0] if len(same) == 1 and not node.this.args.get("quoted") else node.name

    def _read_output(self, output: exp.Expression) -> dict[str, Any] | None:
        label, node = (output.alias, output.this) if isinstance(output, exp.Alias) else ("", output)
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Column):
            if self._column(node) not in self._groups:
                raise InvalidArgument(
                    f"The SQL may show a column that it groups by, got {format_value(node.name)}. Add it to "
                    f"GROUP BY, "
                    f"or ask for a statistic of it."
                )
            return None  # the keys come with every answer
        statistic = self._read_statistic(node)
        if self._groups:
            if statistic["kind"] == "histogram":
                raise InvalidArgument(
                    "The SQL may have histogram without GROUP BY. Group by its column, too."
                )
            statistic["by"] = self._groups
        return {"label": label, **statistic} if label else statistic

    def _read_statistic(self, node: exp.Expression) -> dict[str, Any]:
        match node:
            case exp.Count():
                if not isinstance(node.this, exp.Star):
                    raise InvalidArgument(_COUNT_ROWS)
                return {"kind": "count"}
            case exp.CovarPop():
                return {
                    "kind": "covariance",
                    "x": self._column(node.this),
                    "y": self._column(node.expression),
                }
            case exp.Quantile():
                return self._quantile(node.this, node.args["quantile"])
            case exp.WithinGroup() if isinstance(node.this, (exp.PercentileCont, exp.PercentileDisc)):
                return self._percentile(node)
            case exp.Anonymous() if node.name.lower() == "histogram" and len(node.expressions) == 1:
                return {"kind": "histogram", "column": self._column(node.expressions[0])}
        kind = _ONE_COLUMN.get(type(node))
        if kind is None:
            raise _refuse(node)
        if kind == "quantile":
            return self._quantile(node.this, exp.Literal.number("0.5"))
        return {"kind": kind, "column": self._column(node.this)}

    def _percentile(self, node: exp.WithinGroup) -> dict[str, Any]:
        order = node.expression
        if not isinstance(order, exp.Order) or len(order.expressions) != 1:
            raise _refuse(order)
        return self._quantile(order.expressions[0].this, node.this.this)

    def _quantile(self, column: exp.Expression, probability: exp.Expression) -> dict[str, Any]:
        value = _literal(probability)
        return {"kind": "quantile", "column": self._column(column), "probability": value}

    def _condition(self, node: exp.Expression) -> dict[str, Any]:
        read = _CONDITIONS.get(type(node))
        if read is not None:
            return read(self, node)
        if type(node) in _COMPARISONS:
            return self._comparison(node)
        raise _refuse(node)

    def _comparison(self, node: exp.Expression) -> dict[str, Any]:
        straight, turned = _COMPARISONS[type(node)]
        if isinstance(node.this.unnest(), exp.Column):
            return {"column": self._column(node.this), straight: _literal(node.expression)}
        return {"column": self._column(node.expression), turned: _literal(node.this)}

    def _equality(self, node: exp.Expression) -> dict[str, Any]:
        column, value = node.this, node.expression
        if not isinstance(column.unnest(), exp.Column):
            column, value = value, column
        equal: dict[str, Any] = {"column": self._column(column), "in": [_literal(value)]}
        return {"not": equal} if isinstance(node, exp.NEQ) else equal

    def _between(self, node: exp.Expression) -> dict[str, Any]:
        column = self._column(node.this)
        low, high = _literal(node.args["low"]), _literal(node.args["high"])
        return {"all": [{"column": column, "at_least": low}, {"column": column, "at_most": high}]}

    def _in(self, node: exp.Expression) -> dict[str, Any]:
        return {"column": self._column(node.this), "in": [_literal(one) for one in node.expressions]}

    def _is(self, node: exp.Expression) -> dict[str, Any]:
        column, what = self._column(node.this), node.expression
        if isinstance(what, exp.Null):
            return {"column": column, "missing": not node.args.get("negate")}
        if isinstance(what, exp.Boolean):  # unlike =, also where the value is missing
            known = {"column": column, "missing": False}
            positive = {"all": [known, {"column": column, "in": [_literal(what)]}]}
            return {"not": positive} if node.args.get("negate") else positive
        raise _refuse(what)

    def _truth(self, node: exp.Expression) -> dict[str, Any]:
        return {"column": self._column(node), "in": [True]}

    def _negation(self, node: exp.Expression) -> dict[str, Any]:
        return {"not": self._condition(node.this)}

    def _inner(self, node: exp.Expression) -> dict[str, Any]:
        return self._condition(node.this)

    def _join(self, node: exp.Expression) -> dict[str, Any]:
        kind, word = (exp.And, "all") if isinstance(node, exp.And) else (exp.Or, "any")
        parts, waiting = list[dict[str, Any]](), [node]
        while waiting:
            one = waiting.pop()
            if isinstance(one, kind):
                waiting += [one.expression, one.this]
            else:
                parts.append(self._condition(one))
        return {word: parts}


_CONDITIONS: Mapping[type[exp.Expression], Callable[[_Reader, Any], dict[str, Any]]] = {
    exp.EQ: _Reader._equality,
    exp.NEQ: _Reader._equality,
    exp.Between: _Reader._between,
    exp.In: _Reader._in,
    exp.Is: _Reader._is,
    exp.Column: _Reader._truth,
    exp.Not: _Reader._negation,
    exp.Paren: _Reader._inner,
    exp.And: _Reader._join,
    exp.Or: _Reader._join,
}


def _literal(node: exp.Expression) -> str | float | bool:
    """A number, a text, a truth value or a date that stands there as it is."""
    match node:
        case exp.Paren():
            return _literal(node.this)
        case exp.Literal() if node.is_string:
            return str(node.this)
        case exp.Literal():
            return _number(str(node.this))
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return -_number(str(node.this.this))
        case exp.Boolean():
            return bool(node.this)
        case exp.Cast() if isinstance(node.this, exp.Literal) and node.to.this is exp.DataType.Type.DATE:
            return str(node.this.this)
    raise InvalidArgument(
        f"The SQL must compare a public column with a literal, got {format_value(node.key.upper())}. Write "
        f"a number, a "
        f"text or DATE '2024-05-31'."
    )


def _number(text: str) -> float:
    try:
        return int(text) if text.isdigit() and len(text) < 20 else float(text)
    except ValueError:
        raise InvalidArgument(
            f"The SQL has a number that cannot be read, {format_value(text)}. Write it as 0.5."
        ) from None
