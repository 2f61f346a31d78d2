"""What an analyst can see besides noisy numbers is the same on two tables that differ in one person.

For every question that can be drawn: it is refused before a table is there, with words that cannot depend on one; or it
is answered on both tables, in the same shape and at the same price. Keys that are found in the data are noisy answers
themselves, so their number is not compared.
"""

import os

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("sqlglot")
pytest.importorskip("sklearn")

from tests.laws.curator_questions import ROW_QUESTIONS, SQL_QUESTIONS, TABLE_QUESTIONS
from tests.unit.curator_tables import EMPTY, patients, visits, write_clinic

from privet.curator.questions.planner import MetadataPlanner
from privet.curator.worker.answering import TableWorker
from privet.curator.worker.data_sources import DataSources
from privet.errors import InvalidArgument
from privet.randomness import SeededNoise

LONG = int(os.environ.get("PRIVET_CURATOR_QUESTIONS", "100000"))  # of the grammar, planned only
LONG_NEIGHBOURS = int(os.environ.get("PRIVET_CURATOR_NEIGHBOURS", "3000"))
PERSON = 10**6  # in no table but the neighbour

ODD = pl.DataFrame(
    [
        (PERSON, 50.0, 1.0, "surgery", True, None, "x"),
        (PERSON, float("inf"), -1e308, "", None, None, None),
        (PERSON, float("nan"), float("-inf"), "a ward that nobody else has", False, None, "é\x00"),
        (PERSON, -1e308, 1e308, None, True, None, "x" * 1000),
        *[(PERSON, 1e300, 1e300, "medicine", True, None, "y")] * 50,
    ],
    schema=EMPTY,
    orient="row",
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Pairs of neighbours: an empty table, a usual one, and the people of the joined table."""
    usual, empty = visits(), pl.DataFrame(schema=EMPTY)
    usual = usual.select(pl.col(name).cast(kind) for name, kind in EMPTY.items())
    everybody = patients()
    one_more = pl.concat(
        [everybody, pl.DataFrame({"id": [PERSON], "sex": ["f"], "smokes": [None]}, schema=everybody.schema)]
    )
    twice = pl.concat([one_more, one_more.tail(1)])
    pairs = {
        "usual": ((usual, everybody), (pl.concat([usual, ODD]), one_more)),
        "empty": ((empty, everybody.clear()), (ODD, twice)),
        "first": ((usual, everybody), (pl.concat([ODD, usual]), twice)),
    }
    made = {}
    for name, pair in pairs.items():
        made[name] = []
        for number, (frame, people) in enumerate(pair):
            path = write_clinic(tmp_path_factory.mktemp(f"{name}{number}"), frame, people)
            planner = MetadataPlanner.of_file(path)
            made[name].append(
                (planner, TableWorker(planner.stewardship, DataSources(b"s" * 32), noise=SeededNoise(7)))
            )
    return made


def shape(value):
    """Everything but numbers; lists of pairs keep their keys."""
    match value:
        case bool() | None:
            return value
        case int() | float():
            return "number"
        case dict():
            return {name: shape(item) for name, item in value.items()}
        case list():
            return [shape(item) for item in value]
    return value


def discovered(planned):
    return {
        label
        for label, entry in zip(
            [a["label"] for a in planned.answers], planned.canonical.get("statistics", []), strict=False
        )
        if "discover" in entry.values()
    }


def check(tables, question):
    for pair in tables.values():
        plans = []
        for planner, _ in pair:
            try:
                plans.append(planner.plan("visits", question))
            except InvalidArgument as refused:
                plans.append(str(refused))
        assert plans[0] == plans[1]
        if isinstance(plans[0], str):
            return False
        bodies = [
            worker.answer("visits", plan, request="x") for (_, worker), plan in zip(pair, plans, strict=True)
        ]
        hidden = discovered(plans[0])
        for body in bodies:
            for answer in body["answers"]:
                assert answer["cost"]["epsilon"] <= plans[0].epsilon * (1 + 1e-9)
                if answer["label"] in hidden or "top" in answer["label"]:
                    answer["value"] = answer["error"] = None
            for column in body.get("synthetic", {}).get("columns", {}):
                body["synthetic"]["columns"][column] = len(body["synthetic"]["columns"][column])
        assert shape(bodies[0]) == shape(bodies[1])
    return True


QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@given(question=TABLE_QUESTIONS)
@settings(max_examples=120, suppress_health_check=QUIET)
def test_questions_about_neighbours(tables, question):
    check(tables, question)


@given(question=SQL_QUESTIONS)
@settings(max_examples=60, suppress_health_check=QUIET)
def test_sql_about_neighbours(tables, question):
    check(tables, question)


@given(question=ROW_QUESTIONS)
@settings(max_examples=4, suppress_health_check=QUIET)
def test_models_and_synthetic_tables_of_neighbours(tables, question):
    check(tables, question)


@pytest.mark.slow
@given(question=st.one_of(TABLE_QUESTIONS, TABLE_QUESTIONS, SQL_QUESTIONS, ROW_QUESTIONS))
@settings(max_examples=LONG_NEIGHBOURS, suppress_health_check=QUIET)
def test_many_questions_about_neighbours(tables, question):
    check(tables, question)


@pytest.mark.slow
@given(question=st.one_of(TABLE_QUESTIONS, SQL_QUESTIONS))
@settings(max_examples=LONG, suppress_health_check=QUIET)
def test_a_hundred_thousand_questions_are_planned_or_refused_in_words(tables, question):
    """No error but ``InvalidArgument``, and a canonical form that means itself."""
    planner = tables["usual"][0][0]
    try:
        planned = planner.plan("visits", question)
    except InvalidArgument as refused:
        assert str(refused).endswith(".")
        return
    assert planner.plan("visits", planned.canonical).key == planned.key
