"""The steward's file: which datasets there are, where they are, and what is public of them.

::

    version = 1

    [datasets.visits] description = "Visits to the clinic, 2020 to 2025" path = "visits.parquet"            #
    or postgres = "postgresql://db/clinic?table=visits", or spark = "visits" unit = "patient"
    # or each_row_is_a_person = true rows = 3                           # of one patient that count in each
    group groups = 2                         # in which one patient counts refresh = "never"
    # or "continue": new content draws on the same budget answer_after = 2.0                 # seconds; leave
    out to answer as soon as possible budget = { epsilon = 3.0, delta = 1e-6 } limits = { epsilon = 1.0, delta
    = 1e-7 }

    [datasets.visits.columns]
    age = { type = "whole", lower = 0, upper = 120 }
    ward = { type = "text", keys = ["surgery", "medicine", "children"] }

    [datasets.visits.tables.patients]  # at most one row for each patient; joined on the unit
    path = "patients.parquet"
    unit = "patient"
    columns = { sex = { type = "text", keys = ["f", "m"] } }

Nothing has a default that decides for the steward who is protected or how much may be spent. A dataset is
added to the end of the file, so comments stay.
"""

import json
import math
import os
import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from privet.arguments import format_value
from privet.curator.questions.fields import Fields
from privet.curator.questions.metadata import (
    KINDS,
    ColumnMetadata,
    ColumnType,
    DatasetMetadata,
    JoinedTable,
    QuestionLimits,
    SparkTable,
    StewardFile,
    TableAddress,
)
from privet.curator.refresh import RefreshPolicy
from privet.durable_files import hold_lock, replace_durably
from privet.errors import InvalidArgument, Unreadable
from privet.releasing import Contribution, PostgresTable
from privet.releasing.keys import Category
from privet.releasing.validation import check_bounds, check_categories

__all__ = ["append_dataset", "format_dataset", "read_dataset", "read_steward_file"]

VERSION = 1
_LONGEST_WAIT = 3600.0
_PLACES = ("path", "postgres", "spark")


def read_steward_file(path: Path) -> StewardFile:
    """All datasets of a file. Paths in it are relative to it. Each mistake is one sentence."""
    try:
        document = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        raise Unreadable(
            f"The steward's file {str(path)!r} cannot be read. Check the path and its rights."
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise Unreadable(
            f"The steward's file {str(path)!r} is no TOML: {error}. Correct that place."
        ) from None
    return _read_document(document, Path(path).resolve().parent)


def append_dataset(path: Path, name: str, entry: Mapping[str, Any]) -> StewardFile:
    """The file with one dataset more; what is wrong with it is said before anything is written."""
    with hold_lock(path):
        text = path.read_text(encoding="utf-8") if path.exists() else f"version = {VERSION}\n"
        text = f"{text.rstrip()}\n\n{format_dataset(name, entry)}"
        try:
            document = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            raise InvalidArgument(
                f"The steward's file {str(path)!r} has a dataset {name!r} already, or is no TOML. Choose "
                f"another name, or correct the file."
            ) from None
        read = _read_document(document, path.resolve().parent)
        replace_durably(path, text.encode())
    return read


def format_dataset(name: str, entry: Mapping[str, Any]) -> str:
    """A dataset as TOML."""
    plain = {key: value for key, value in entry.items() if key not in ("columns", "tables")}
    lines = [
        f"[datasets.{_toml_key(name)}]",
        *(f"{_toml_key(key)} = {_toml(value)}" for key, value in plain.items()),
    ]
    lines += ["", f"[datasets.{_toml_key(name)}.columns]"]
    lines += [f"{_toml_key(key)} = {_toml(value)}" for key, value in entry.get("columns", {}).items()]
    for table, described in entry.get("tables", {}).items():
        lines += ["", f"[datasets.{_toml_key(name)}.tables.{_toml_key(table)}]"]
        lines += [f"{_toml_key(key)} = {_toml(value)}" for key, value in described.items()]
    return "\n".join(lines) + "\n"


def read_dataset(name: str, entry: object, folder: Path) -> DatasetMetadata:
    """One dataset of the file."""
    place = f"datasets.{name}"
    if not name or len(name) > 100 or not name.replace("-", "").replace("_", "").isalnum():
        raise InvalidArgument(
            f"A dataset must have a name of letters, digits, '-' and '_', got {format_value(name)}. Rename "
            f"it."
        )
    given = Fields(entry, place)
    unit = _read_unit(given)
    columns = _read_columns(given.inner("columns"))
    tables = _read_tables(given, unit, folder)
    known: dict[str, str] = {}
    for owner, listed in (("the dataset", columns), *((repr(table.name), table.columns) for table in tables)):
        for column in listed:
            if column.name in known:
                raise InvalidArgument(
                    f"{place}: the column {column.name!r} is in {known[column.name]} and in {owner}. Rename "
                    f"one."
                )
            known[column.name] = owner
    contribution = _read_contribution(given, unit)
    budget = given.inner("budget")
    address = _read_address(given, folder)
    refresh = _read_refresh(given, address)
    dataset = DatasetMetadata(
        name=name,
        description=given.text("description", " ").strip(),
        address=address,
        unit=unit,
        columns=columns,
        contribution=contribution,
        exchange=_read_exchange(given),
        tables=tables,
        kinds=_read_kinds(given),
        limits=_read_limits(given),
        answer_after=_read_seconds(given, "answer_after"),
        refresh=refresh,
        budget_epsilon=_above_zero(budget, "epsilon", 100.0),
        budget_delta=_read_delta(budget),
    )
    budget.close()
    given.close()
    return dataset


def _read_document(document: Mapping[str, Any], folder: Path) -> StewardFile:
    given = Fields(document, "The steward's file")
    version = given.whole("version")
    if version != VERSION:
        raise InvalidArgument(
            f"The steward's file has version {version}, and this Privet reads version {VERSION}. Install the "
            f"Privet that wrote it."
        )
    datasets = given.inner("datasets")
    read = {name: read_dataset(name, datasets.raw(name), folder) for name in datasets.names}
    _check_files(read)
    given.raw("curator")  # settings of the gateway, which reads them itself
    given.close()
    return StewardFile(read)


def _check_files(datasets: Mapping[str, DatasetMetadata]) -> None:
    """Refuse two datasets that share a file and are not the same files: they would have two budgets for the
    people in it.
    """
    seen: dict[Path, tuple[str, tuple[Path, ...]]] = {}
    for dataset in datasets.values():
        addresses = (dataset.address, *(table.address for table in dataset.tables))
        files = tuple(address.resolve() for address in addresses if isinstance(address, Path))
        for file in files:
            other, others = seen.setdefault(file, (dataset.name, files))
            if others != files:
                raise InvalidArgument(
                    f"The datasets {other!r} and {dataset.name!r} both read {file.name!r}, with different "
                    f"other files, so people in it would have two budgets. Describe them as one dataset."
                )


def _read_unit(given: Fields) -> str | None:
    rows_are_people = given.truth("each_row_is_a_person", False)
    if rows_are_people == ("unit" in given):
        raise InvalidArgument(
            f'{given.place} must say who is protected, by unit = "column" or by each_row_is_a_person = true, '
            f"and says {'both' if rows_are_people else 'neither'}. Name the column of the person if one can "
            f"have several rows."
        )
    return None if rows_are_people else given.text("unit")


def _read_contribution(given: Fields, unit: str | None) -> Contribution:
    if unit is not None:
        return Contribution(rows=given.whole("rows"), groups=given.whole("groups"))
    if "rows" in given or "groups" in given:
        raise InvalidArgument(
            f"{given.place} must not have 'rows' or 'groups' where each row is a person. Remove them, or "
            f"name "
            f"the unit."
        )
    return Contribution()


def _read_exchange(given: Fields) -> bool:
    adjacency = given.text("adjacency", "add-remove")
    if adjacency not in ("add-remove", "replace-one"):
        raise InvalidArgument(
            f"{given.place}: 'adjacency' must be add-remove or replace-one, got {format_value(adjacency)}. "
            f"Leave it out for add-remove."
        )
    return adjacency == "replace-one"


def _read_address(given: Fields, folder: Path) -> TableAddress:
    places = [name for name in _PLACES if name in given]
    if len(places) != 1:
        raise InvalidArgument(
            f"{given.place} must say where the data are by one of {', '.join(_PLACES)}, got "
            f"{' and '.join(places) or 'none'}. Give one."
        )
    (place,) = places
    text = given.text(place)
    if place == "postgres":
        return PostgresTable.from_url(text)
    return SparkTable(text) if place == "spark" else _read_path(given, text, folder)


def _read_path(given: Fields, text: str, folder: Path) -> Path:
    path = folder / text
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidArgument(
            f"{given.place}: 'path' must name a .csv or .parquet file, got {format_value(text)}. Convert it."
        )
    return path


def _read_refresh(given: Fields, address: TableAddress) -> RefreshPolicy:
    text = given.text("refresh", "frozen" if isinstance(address, Path) else "same-people")
    if text not in list(RefreshPolicy):
        raise InvalidArgument(
            f"{given.place}: 'refresh' must be {' or '.join(RefreshPolicy)}, got {format_value(text)}. "
            f"Choose one."
        )
    policy = RefreshPolicy(text)
    if policy is RefreshPolicy.FROZEN and not isinstance(address, Path):
        raise InvalidArgument(
            f"{given.place}: 'refresh' must be same-people for a table of a server, whose content cannot be "
            f'fingerprinted. Write refresh = "same-people".'
        )
    return policy


def _read_kinds(given: Fields) -> tuple[str, ...]:
    if "kinds" not in given:
        return KINDS
    kinds = given.texts("kinds")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise InvalidArgument(
            f"{given.place}: 'kinds' may list {', '.join(KINDS)}, got {format_value(unknown[0])}. Correct it."
        )
    return tuple(kind for kind in KINDS if kind in kinds)


def _read_limits(given: Fields) -> QuestionLimits:
    if "limits" not in given:
        return QuestionLimits()
    limits, default = given.inner("limits"), QuestionLimits()
    read = QuestionLimits(
        epsilon=_above_zero(limits, "epsilon", default.epsilon),
        delta=_read_delta(limits, default.delta),
        statistics=limits.whole("statistics", default.statistics, most=200),
        keys=limits.whole("keys", default.keys, most=10**6),
        seconds=_read_seconds(limits, "seconds") or default.seconds,
        synthetic_rows=limits.whole("synthetic_rows", default.synthetic_rows, most=10**6),
    )
    limits.close()
    return read


def _read_seconds(given: Fields, name: str) -> float | None:
    if name not in given:
        return None
    seconds = given.number(name)
    if not 0 < seconds <= _LONGEST_WAIT:
        raise InvalidArgument(
            f"{given.place}: '{name}' must be above 0 and at most {_LONGEST_WAIT:g} seconds, got "
            f"{seconds:g}. "
            f"Choose a time that the largest possible table needs."
        )
    return seconds


def _above_zero(given: Fields, name: str, default: float) -> float:
    value = given.number(name, None if given.place.endswith("budget") else default)
    if value <= 0:
        raise InvalidArgument(
            f"{given.place}: '{name}' must be above 0, got {value:g}. Give a positive number."
        )
    return value


def _read_delta(given: Fields, default: float | None = None) -> float:
    delta = given.number("delta", default)
    if not 0 <= delta < 1:
        raise InvalidArgument(
            f"{given.place}: 'delta' must be at least 0 and below 1, got {delta:g}. Give 0, or a probability "
            f"far below 1 / the number of people."
        )
    return delta


def _read_tables(given: Fields, unit: str | None, folder: Path) -> tuple[JoinedTable, ...]:
    if "tables" not in given:
        return ()
    if unit is None:
        raise InvalidArgument(
            f"{given.place} must have a unit for 'tables' to be joined on, and has none. Name the unit."
        )
    tables, read = given.inner("tables"), []
    for name in tables.names:
        described = tables.inner(name)
        path = _read_path(described, described.text("path"), folder)
        columns = _read_columns(described.inner("columns"))
        read.append(JoinedTable(name=name, address=path, unit=described.text("unit"), columns=columns))
        described.close()
    if not isinstance(_read_address(given, folder), Path):
        raise InvalidArgument(
            f"{given.place} must be a file for 'tables' to be joined with. Join in a view of the server."
        )
    return tuple(read)


def _read_columns(given: Fields) -> tuple[ColumnMetadata, ...]:
    if not given.names:
        raise InvalidArgument(f"{given.place} must describe a column, and is empty. Describe one.")
    return tuple(_read_column(name, given.inner(name)) for name in given.names)


def _read_column(name: str, given: Fields) -> ColumnMetadata:
    text = given.text("type")
    if text not in list(ColumnType):
        raise InvalidArgument(
            f"{given.place}: 'type' must be one of {', '.join(ColumnType)}, got {format_value(text)}. "
            f"Choose one."
        )
    kind = ColumnType(text)
    lower = upper = None
    if ("lower" in given) != ("upper" in given):
        raise InvalidArgument(f"{given.place} must have both 'lower' and 'upper', or neither. Add the other.")
    if "lower" in given:
        if not kind.numeric:
            raise InvalidArgument(
                f"{given.place} may have bounds for numbers only, and its type is {kind}. Remove them."
            )
        lower, upper = given.number("lower"), given.number("upper")
        check_bounds(name, lower, upper)
    keys = _read_keys(given, kind) if "keys" in given else None
    read = ColumnMetadata(
        name=name,
        type=kind,
        lower=lower,
        upper=upper,
        keys=(False, True) if keys is None and kind is ColumnType.TRUTH else keys,
        discover=given.truth("discover", False),
        filter=given.truth("filter", True),
        description=given.text("description", " ").strip(),
    )
    given.close()
    return read


_PYTHON_TYPES: dict[ColumnType, tuple[type, ...]] = {
    ColumnType.NUMBER: (int, float),
    ColumnType.WHOLE: (int,),
    ColumnType.TEXT: (str,),
    ColumnType.TRUTH: (bool,),
    ColumnType.DATE: (str, date),
}


def _read_keys(given: Fields, kind: ColumnType) -> tuple[Category, ...]:
    keys = given.read_list("keys")
    for key in keys:
        if type(key) not in _PYTHON_TYPES[kind]:
            raise InvalidArgument(
                f"{given.place}: 'keys' must be of the type {kind}, got {format_value(key)}. Write them so."
            )
    plain = tuple(
        float(key) if kind is ColumnType.NUMBER else key.isoformat() if isinstance(key, date) else key
        for key in keys
    )
    check_categories("keys", plain)
    return plain


def _toml(value: object) -> str:
    """A value as TOML: JSON's own forms of text, numbers and lists are TOML's, too."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            raise InvalidArgument(f"A number in a steward's file must be finite, got {value}. Correct it.")
        case Mapping():
            inner = ", ".join(f"{_toml_key(str(key))} = {_toml(item)}" for key, item in value.items())
            return f"{{ {inner} }}"
        case list() | tuple():
            return f"[{', '.join(_toml(item) for item in value)}]"
        case str() | int() | float():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case os.PathLike():
            return json.dumps(os.fspath(value), ensure_ascii=False)
    raise InvalidArgument(
        f"A steward's file can hold text, numbers, lists and objects, got {format_value(value)}. Convert it."
    )


def _toml_key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else json.dumps(key)
