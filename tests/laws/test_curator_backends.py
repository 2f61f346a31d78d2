"""One question, three places of the data: a file, a PostgreSQL server and a Spark session give the same answer."""

from contextlib import ExitStack

import polars as pl
import pytest
from tests.laws import table_servers as servers
from tests.unit.curator_tables import EMPTY, STEWARD, visits, write_clinic

from privet.curator.questions.planner import MetadataPlanner
from privet.curator.worker.answer_failed import AnswerFailed
from privet.curator.worker.answering import TableWorker
from privet.curator.worker.data_sources import DataSources
from privet.curator.worker.process import _needs_network
from privet.errors import InvalidArgument
from privet.randomness import SeededNoise

QUESTIONS = (
    {"statistics": [{"kind": "count"}, {"kind": "mean", "column": "age", "by": ["ward"]}, {"kind": "quantile", "column": "age", "probability": 0.5}]},
    {"statistics": [{"kind": "count", "by": ["urgent"]}], "where": {"all": [{"column": "ward", "in": ["surgery", "medicine"]}, {"column": "age", "at_least": 30}]}},
    {"statistics": [{"kind": "sum", "column": "cost", "lower": 0, "upper": 100}], "where": {"not": {"column": "day", "below": "2024-02-01"}}},
    {"statistics": [{"kind": "count"}], "where": {"any": [{"column": "age", "missing": True}, {"column": "urgent", "in": [True]}]}},
)  # fmt: skip


def answers(planner, worker, question):
    planned = planner.plan("visits", {"version": 1, "epsilon": 2.0, **question})
    return worker.answer("visits", planned, request="x")


def served(tmp_path, address, **spark):
    """The same metadata, with the data elsewhere; joined tables are files only."""
    text = STEWARD[: STEWARD.index("[datasets.visits.tables.patients]")].replace(
        'path = "visits.parquet"', address
    )
    (tmp_path / "served.toml").write_text(text)
    planner = MetadataPlanner.of_file(tmp_path / "served.toml")
    return planner, TableWorker(planner.stewardship, DataSources(b"s" * 32, spark), noise=SeededNoise(5))


def frame():
    return visits().select(pl.col(name).cast(kind) for name, kind in EMPTY.items())


def in_a_file(tmp_path):
    planner = MetadataPlanner.of_file(write_clinic(tmp_path, frame()))
    return planner, lambda: TableWorker(planner.stewardship, DataSources(b"s" * 32), noise=SeededNoise(5))


@pytest.mark.slow
def test_postgres_answers_as_a_file_does(tmp_path):
    psycopg = pytest.importorskip("psycopg")
    planner, make = in_a_file(tmp_path)
    with ExitStack() as held:
        try:
            address = held.enter_context(servers.open_postgres())
        except servers.Missing as missing:
            pytest.skip(str(missing))
        with psycopg.connect(address) as connection:
            servers.write_postgres(connection, frame(), "visits", None)
        url = address if "://" in address else "postgresql:///?" + "&".join(
            f"{name}={value}" for name, _, value in (word.partition("=") for word in address.split())
        )  # fmt: skip
        joined = "&" if "?" in url else "?"
        other, worker = served(tmp_path, f'postgres = "{url}{joined}table=visits"')
        worker.check()
        for question in QUESTIONS:
            fresh = TableWorker(other.stewardship, DataSources(b"s" * 32), noise=SeededNoise(5))
            assert answers(other, fresh, question) == answers(planner, make(), question)
        assert worker.fingerprint("visits") == worker.fingerprint("visits")
        for kind in (
            {"synthetic": {"columns": ["ward"]}},
            {"model": {"estimator": "ridge", "features": ["ward"], "target": "age", "population": 80}},
        ):
            with pytest.raises(InvalidArgument, match="file"):
                other.plan("visits", {"version": 1, "epsilon": 1.0, "delta": 1e-7, **kind})
        with psycopg.connect(address) as connection:
            connection.execute("DROP TABLE visits")
        with pytest.raises(AnswerFailed):
            answers(other, worker, QUESTIONS[0])


@pytest.mark.slow
def test_spark_answers_as_a_file_does(tmp_path):
    pytest.importorskip("pyspark")
    planner, make = in_a_file(tmp_path)
    with ExitStack() as held:
        try:
            session = held.enter_context(servers.open_spark())
        except servers.Missing as missing:
            pytest.skip(str(missing))
        data = session.createDataFrame(frame().to_arrow())
        for question in QUESTIONS[:2]:
            other, worker = served(tmp_path, 'spark = "clinic"', clinic=data)
            assert answers(other, worker, question) == answers(planner, make(), question)
        assert _needs_network(other.stewardship)


def test_a_table_of_spark_needs_its_session(tmp_path):
    planner, worker = served(tmp_path, 'spark = "clinic"')
    with pytest.raises(InvalidArgument, match="Spark table"):
        worker.check()
    with pytest.raises(AnswerFailed):
        answers(planner, worker, QUESTIONS[0])
