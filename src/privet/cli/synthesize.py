"""``privet synthesize``: a synthetic table with the marginals of a private one, and what it costs.

The domain comes from the command line, never from the data: ``--column city:a,b,c`` lists the values of a
column, ``--bins age:0:100:10`` cuts a range of numbers into ten bins. The ledger is written before the table,
so no table exists without its cost.
"""

import argparse
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privet.accounting import account
from privet.adjacency import adjacency_from_name
from privet.cli.account import claim_document, claim_sentence, epsilon_of, neighbours
from privet.cli.output import CliAnswer, caveat_text, facts, write_progress
from privet.cli.output_files import check_new_file, write_new_file
from privet.cli.query import GuaranteeQuery
from privet.errors import InvalidArgument, MissingPackage, Unreadable
from privet.paths import is_file
from privet.randomness import experiment
from privet.releasing.statistics.option_words import read_categories, read_number
from privet.releasing.synthetic import AIM, MST, MWEM, Bins, Categories, Domain, SyntheticData, all_marginals
from privet.releasing.synthetic.domain import Column

__all__ = ["run"]

_MOST_BINS = 10_000


def run(arguments: argparse.Namespace) -> CliAnswer:
    """Fit a model to noisy marginals, and write a table that is drawn from it."""
    domain = _read_domain(arguments)
    mechanism = _make_mechanism(arguments, domain)
    path = Path(arguments.data)
    if not is_file(path):
        raise Unreadable(
            f"{arguments.data!r} must be a .csv or .parquet file that exists, and is not. Check the name."
        )
    out = check_new_file("--out", arguments.out, (".csv", ".parquet"))
    ledger_path = check_new_file("--ledger", arguments.ledger or f"{arguments.out}.ledger.json", (".json",))
    write_progress(f"Reading {path.name} …")
    columns = _read_columns(path, domain, arguments.privacy_unit)
    write_progress("")
    process = mechanism.start(columns)
    try:
        released = process.finish()
    finally:
        if process.ledger.entries:
            write_new_file(ledger_path, process.ledger.to_json().encode())
    rows = arguments.rows or max(round(released.total), 1)
    seed = secrets.randbits(63) if arguments.seed is None else arguments.seed
    _write_table(out, released.sample(rows, experiment(seed)))
    return _tell(arguments, released, rows, out, ledger_path)


def _tell(
    arguments: argparse.Namespace, released: SyntheticData, rows: int, out: Path, ledger_path: Path
) -> CliAnswer:
    guarantee = account(released.ledger)
    question = GuaranteeQuery(guarantee, arguments.delta or 0.0, arguments.adjacency is None)
    bounds = epsilon_of(question)
    unit = arguments.privacy_unit
    lines = [
        ("table", f"{out}, {rows:,} rows"),
        ("ledger", f"{ledger_path}, {len(released.ledger):,} entries"),
        ("method", f"{arguments.method.upper()}, {len(released.domain.columns)} columns"),
        ("privacy unit", "each row by itself" if unit is None else f"{unit}; the first row of each counts"),
        ("accountant", guarantee.accountant),
        ("adjacency", neighbours(guarantee.adjacency, chosen=question.chosen)),
    ]
    document = {
        **claim_document(question, bounds),
        "table": str(out),
        "rows": rows,
        "ledger": str(ledger_path),
        "method": arguments.method,
        "columns": list(released.domain.names),
    }
    sentence = f"This table costs {claim_sentence(question, bounds)}."
    note = "It has no error bars. Compare what you read off it with a release of the same statistic."
    return CliAnswer([sentence, note, facts(lines), *caveat_text(guarantee.caveats)], document)


def _make_mechanism(arguments: argparse.Namespace, domain: Domain) -> AIM | MST | MWEM:
    if arguments.epsilon is None:
        raise InvalidArgument(
            "--epsilon must be given, because the table costs it. Use --epsilon 1 to begin with."
        )
    unit = "record" if arguments.privacy_unit is None else "user"
    adjacency = adjacency_from_name(arguments.adjacency or "add-remove", unit)
    if arguments.method == "mwem":
        if arguments.delta:
            raise InvalidArgument("--delta must be left out with --method mwem, which needs none. Drop it.")
        workload = all_marginals(domain, min(arguments.order, len(domain.columns)))
        return MWEM(
            domain=domain,
            workload=workload,
            epsilon=arguments.epsilon,
            adjacency=adjacency,
            unit=arguments.privacy_unit,
        )
    if not arguments.delta:
        raise InvalidArgument(
            f"--delta must be given with --method {arguments.method}, got none. Use a value far below 1/n, "
            f"such as 1e-9, or --method mwem."
        )
    budget = {"epsilon": arguments.epsilon, "delta": arguments.delta}
    if arguments.method == "mst":
        return MST(domain=domain, adjacency=adjacency, unit=arguments.privacy_unit, **budget)
    workload = all_marginals(domain, min(arguments.order, len(domain.columns)))
    return AIM(domain=domain, workload=workload, adjacency=adjacency, unit=arguments.privacy_unit, **budget)


def _read_domain(arguments: argparse.Namespace) -> Domain:
    """The columns in the order in which they were written."""
    if not arguments.columns:
        raise InvalidArgument(
            "At least one --column or --bins must be given, because the domain must not come from the data. "
            "Write --column sex:f,m or --bins age:0:100:10."
        )
    return Domain(tuple(_read_column(option, words) for option, words in arguments.columns))


def _read_column(option: str, words: str) -> Column:
    if option == "column":
        name, _, values = words.partition(":")
        if not name or not values:
            raise InvalidArgument(
                f"--column must be COL:A,B,…, as in sex:f,m, got {words!r}. Write it in this way."
            )
        return Categories(name, read_categories("--column", values))
    parts = words.rsplit(":", 3)
    if len(parts) != 4 or not parts[0]:
        raise InvalidArgument(
            f"--bins must be COL:LOW:HIGH:N, as in age:0:100:10, got {words!r}. Write it in this way."
        )
    low, high, number = (read_number("--bins", part) for part in parts[1:])
    if not (1 <= number <= _MOST_BINS and number == int(number) and low < high and np.isfinite(high - low)):
        raise InvalidArgument(
            f"--bins must have LOW below HIGH and 1 to {_MOST_BINS:,} bins, got {words!r}. Write "
            "age:0:100:10."
        )
    return Bins(parts[0], tuple(np.linspace(low, high, int(number) + 1).tolist()))


def _read_columns(path: Path, domain: Domain, unit: str | None) -> Mapping[str, Any]:
    """The columns of the domain: numbers for bins; values as they are for categories, from text in a CSV
    file.
    """
    try:
        from privet.releasing.engines.columns import ColumnExpressions
        from privet.releasing.tables.sources import open_file
    except ImportError:
        raise MissingPackage(
            "privet synthesize needs the package 'polars', which is not installed. Run pip install "
            "'privet[tables]'."
        ) from None
    table = open_file(path)
    names = [*domain.names, *([] if unit is None else [unit])]
    missing = [name for name in names if name not in table.types]
    if missing:
        raise InvalidArgument(
            f"The table must have a column {missing[0]!r}, and does not. Check the spelling."
        )
    numbers = ColumnExpressions(table)
    frame = table.scan(names).with_columns(
        numbers.number(column.name).alias(column.name)
        for column in domain.columns
        if isinstance(column, Bins)
    )
    columns = frame.collect()
    read: dict[str, Any] = {name: columns[name].to_list() for name in names}
    if table.of_text:
        for column in domain.columns:
            if isinstance(column, Categories):
                known = {str(value): value for value in column.categories}
                read[column.name] = [known.get(text) for text in read[column.name]]
    return read


def _write_table(out: Path, columns: Mapping[str, Any]) -> None:
    import polars as pl

    frame = pl.DataFrame({name: values.tolist() for name, values in columns.items()})
    if out.suffix.lower() == ".csv":
        write_new_file(out, frame.write_csv().encode())
        return
    from io import BytesIO

    buffer = BytesIO()
    frame.write_parquet(buffer)
    write_new_file(out, buffer.getvalue())
