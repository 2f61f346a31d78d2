"""A published table as plain data, for ``report.json``."""

from typing import Any, TypeAlias

from privet.bounds import Interval
from privet.reporting.table_facts import PopulationShare, TableFacts, UniquenessBySize

__all__ = ["table_figures"]

_Plain: TypeAlias = dict[str, Any]


def table_figures(table: TableFacts) -> _Plain:
    """Uniqueness, classes, and the secret within them. No value of the table is among the figures."""
    return {
        "rows": table.rows,
        "rows_are_people": table.rows_are_people,
        "quasi": list(table.quasi),
        "secret": table.secret,
        "unique_share": table.unique_share,
        "uniqueness": [_size_figures(each) for each in table.curve],
        "classes": table.classes,
        "class_sizes": [each._asdict() for each in table.bins],
        "k_anonymity": table.k_anonymity,
        "l_diversity": table.l_diversity,
        "l_entropy": table.l_entropy,
        "t_closeness": table.t_closeness,
        "t_ordered": table.t_ordered,
        "homogeneous_share": table.homogeneous_share,
        "presence": _between(table.presence),
        "population": None if table.population is None else _population_figures(table.population),
    }


def _size_figures(each: UniquenessBySize) -> _Plain:
    return {
        "size": each.size,
        "sets": each.sets,
        "lowest": each.lowest,
        "median": each.median,
        "highest": each.highest,
        "worst": [{"columns": list(found.columns), "share": found.share} for found in each.worst],
    }


def _population_figures(found: PopulationShare) -> _Plain:
    return {
        "fraction": found.fraction,
        "unique_share": _estimate(found.unique, found.between),
        "of_unique_rows": _estimate(found.of_unique_rows, found.of_unique_rows_between),
        "confidence": found.confidence,
    }


def _estimate(value: float | None, interval: Interval | None) -> _Plain | None:
    between = _between(interval)
    return None if value is None or between is None else {"value": value, **between}


def _between(interval: Interval | None) -> _Plain | None:
    return None if interval is None else {"lower": interval.lower, "upper": interval.upper}
