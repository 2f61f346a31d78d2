"""Questions as JSON: one canonical form, one price, and every mistake in one sentence, without a look at the data."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("polars")

import polars as pl
from tests.unit.curator_tables import STEWARD, visits, write_clinic

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, Unit
from privet.curator.questions.accuracy import round_epsilon_up
from privet.curator.questions.planner import MetadataPlanner, read_canonical
from privet.curator.questions.steward_file import append_dataset, read_steward_file
from privet.curator.worker.data_sources import DataSources
from privet.errors import InvalidArgument, Unreadable
from privet.ledger import Ledger


@pytest.fixture(scope="module")
def planner(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    (folder / "steward.toml").write_text(STEWARD)  # no table is there: nothing of this needs one
    return MetadataPlanner.of_file(folder / "steward.toml")


def ask(planner, *statistics, dataset="visits", **fields):
    return planner.plan(dataset, {"version": 1, "statistics": list(statistics), "epsilon": 0.5, **fields})


COUNT, AGE = {"kind": "count"}, {"kind": "mean", "column": "age"}


def test_the_metadata_that_an_analyst_sees(planner):
    shown = planner.describe("visits")
    assert shown["unit"] == "patient"
    assert shown["contribution"] == {"rows": 2, "groups": 2}
    assert {column["name"]: column["type"] for column in shown["columns"]}["urgent"] == "truth"
    assert "path" not in json.dumps(shown)
    assert "parquet" not in json.dumps(shown)
    assert planner.describe("rows")["kinds"] == ["count", "mean"]
    assert planner.describe("rows")["unit"] is None


SAME = [
    ([COUNT, AGE], [AGE, COUNT]),
    ([COUNT], [COUNT, COUNT]),
    ([{**COUNT, "label": "n"}], [{**COUNT, "label": "how many"}]),
    ([AGE], [{**AGE, "lower": 0, "upper": 120.0}]),
    ([{**COUNT, "by": ["ward"]}], [{"kind": "histogram", "column": "ward"}]),
    (
        [{**COUNT, "by": ["ward"]}],
        [{**COUNT, "by": ["ward"], "keys": [["medicine"], ["children"], ["surgery"], ["medicine"]]}],
    ),
    ([{**COUNT, "by": ["ward", "urgent"]}], [{"kind": "marginal", "columns": ["urgent", "ward"]}]),
    ([{**COUNT, "weight": 2}, {**AGE, "weight": 2}], [COUNT, AGE]),
    ([{**COUNT, "weight": 1}, {**AGE, "weight": 3}], [{**AGE, "weight": 6}, {**COUNT, "weight": 2}]),
]


@pytest.mark.parametrize(("first", "second"), SAME)
def test_the_same_question_has_one_key(planner, first, second):
    assert ask(planner, *first).key == ask(planner, *second).key


FILTERS = [
    ({"column": "age", "at_least": 18}, {"not": {"column": "age", "below": 18.0}}),
    ({"all": [{"column": "age", "above": 1}, {"column": "urgent", "in": [True]}]},
     {"all": [{"all": [{"column": "urgent", "in": [True]}]}, {"column": "age", "above": 1}, {"column": "age", "above": 1}]}),
    ({"column": "ward", "in": ["surgery", "medicine"]},
     {"any": [{"column": "ward", "in": ["medicine"]}, {"column": "ward", "in": ["surgery"]}]}),
    ({"not": {"any": [{"column": "age", "above": 3}, {"column": "age", "missing": True}]}},
     {"all": [{"column": "age", "missing": False}, {"column": "age", "at_most": 3}]}),
    ({"not": {"not": {"column": "day", "below": "2024-02-01"}}}, {"column": "day", "below": "2024-02-01"}),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second"), FILTERS)
def test_the_same_filter_has_one_key(planner, first, second):
    assert ask(planner, COUNT, where=first).key == ask(planner, COUNT, where=second).key


DIFFERENT = [
    ([COUNT], {}),
    ([COUNT], {"epsilon": 0.4}),
    ([COUNT], {"delta": 1e-7}),
    ([COUNT], {"where": {"column": "age", "above": 3}}),
    ([COUNT], {"where": {"column": "age", "at_least": 3}}),
    ([COUNT], {"join": ["patients"]}),
    ([COUNT], {"contribution": {"rows": 1}}),
    ([AGE], {}),
    ([{**AGE, "upper": 100}], {}),
    ([COUNT, AGE], {}),
    ([COUNT, {**AGE, "weight": 2}], {}),
    ([{**COUNT, "by": ["ward"]}], {}),
    ([{**COUNT, "by": ["ward"], "keys": [["surgery"]]}], {}),
]


def test_different_questions_have_different_keys(planner):
    keys = [ask(planner, *statistics, **fields).key for statistics, fields in DIFFERENT]
    keys.append(ask(planner, COUNT, dataset="rows", epsilon=0.5).key)
    assert len(set(keys)) == len(keys)


EVERY = [
    COUNT,
    {"kind": "sum", "column": "cost", "lower": 0, "upper": 500},
    AGE,
    {"kind": "variance", "column": "age"},
    {"kind": "covariance", "x": "cost", "x_lower": 0, "x_upper": 9, "y": "age"},
    {"kind": "quantile", "column": "age", "probability": 0.5},
    {"kind": "histogram", "column": "ward"},
    {"kind": "marginal", "columns": ["ward", "urgent"]},
    {"kind": "top_k", "column": "ward", "k": 2},
    {"kind": "top_k", "column": "ward", "k": 2, "categories": "discover"},
    {**AGE, "by": ["ward"]},
    {**COUNT, "by": ["ward"], "keys": "discover"},
]


@pytest.mark.parametrize("statistic", EVERY, ids=lambda s: s["kind"])
@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_every_statistic_is_within_its_budget_and_reads_its_own_form(planner, statistic, delta):
    if delta == 0 and "discover" in statistic.values():
        with pytest.raises(InvalidArgument, match="rare key"):
            ask(planner, statistic, delta=delta)
        return
    planned = ask(planner, statistic, COUNT, delta=delta)
    assert planner.plan("visits", planned.canonical).key == planned.key
    ledger = Ledger(planned.adjacency, planned.entries)
    spent = account(ledger).curve.delta(planned.epsilon).upper
    assert spent <= planned.delta + (1e-15 if delta == 0 else 0)
    assert json.loads(json.dumps(planned.canonical)) == planned.canonical
    assert {"label", "by", "error", "epsilon", "delta"} <= set(planned.answers[0])


def test_labels_are_those_of_the_analyst_in_the_order_of_the_answers(planner):
    planned = ask(planner, {**COUNT, "label": "n"}, {**AGE, "label": "how old"})
    labels = dict(zip([answer["label"] for answer in planned.answers], planned.labels, strict=True))
    assert labels == {"count": "n", "mean of age": "how old"}


def test_accuracy_first_gives_the_smallest_epsilon(planner):
    planned = planner.plan("visits", {"version": 1, "statistics": [{**COUNT, "within": 20}]})
    assert planned.answers[0]["error"] <= 20
    less = ask(planner, COUNT, epsilon=planned.epsilon * 0.97)
    assert less.answers[0]["error"] > 20
    nearly = planner.plan("visits", {"version": 1, "statistics": [{**COUNT, "within": 20, "label": "x"}]})
    assert nearly.key == planned.key


def test_accuracy_of_several_statistics(planner):
    wish = [
        {**COUNT, "within": 50},
        {**AGE, "within": 2},
        {"kind": "quantile", "column": "age", "probability": 0.5, "within": 300},
    ]
    planned = planner.plan("visits", {"version": 1, "statistics": wish, "assuming_rows": 1000})
    errors = {answer["label"]: answer["error"] for answer in planned.answers}
    assert errors["count"] <= 50
    assert errors["mean of age"] <= 2 * 1000
    assert errors["0.5 quantile of age"] <= 300


@given(st.floats(1e-8, 1e3))
@settings(max_examples=100)
def test_epsilon_is_rounded_up_and_to_three_digits(epsilon):
    rounded = round_epsilon_up(epsilon)
    assert epsilon * (1 - 1e-11) <= rounded <= epsilon * 1.011
    assert float(f"{rounded:.3g}") == rounded


MISTAKES = [
    ({}, "'version'"),
    ({"version": 2, "statistics": [COUNT], "epsilon": 1}, "version 1"),
    ({"version": 1, "statistics": [], "epsilon": 1}, "'statistics'"),
    ({"version": 1, "statistics": [COUNT] * 6, "epsilon": 1}, "at most 5"),
    ({"version": 1, "statistics": [COUNT]}, "neither"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 0}, "above 0"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 3}, "limit"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "delta": 1e-3}, "limit"),
    ({"version": 1, "statistics": [COUNT], "epsilon": float("nan")}, "finite"),
    ({"version": 1, "statistics": [COUNT], "epsilon": True}, "number"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "colour": 1}, "colour"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "dataset": "rows"}, "dataset"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "unit": None, "x": 1}, "unit"),
    ({"version": 1, "statistics": [{"kind": "secret"}], "epsilon": 1}, "one of count"),
    ({"version": 1, "statistics": [{"kind": "mean", "column": "diagnosis"}], "epsilon": 1}, "public columns"),
    ({"version": 1, "statistics": [{"kind": "mean", "column": "ward"}], "epsilon": 1}, "numbers"),
    ({"version": 1, "statistics": [{"kind": "mean", "column": "cost"}], "epsilon": 1}, "no declared bounds"),
    ({"version": 1, "statistics": [{**AGE, "lower": 9, "upper": 3}], "epsilon": 1}, "below"),
    ({"version": 1, "statistics": [{**COUNT, "by": ["note"]}], "epsilon": 1}, "declared keys"),
    ({"version": 1, "statistics": [{**COUNT, "by": ["note"], "keys": "discover"}], "epsilon": 1, "delta": 1e-7}, "List them"),
    ({"version": 1, "statistics": [{**COUNT, "by": ["ward"], "keys": [["attic"]]}], "epsilon": 1}, "no declared key"),
    ({"version": 1, "statistics": [{**COUNT, "by": ["ward"], "keys": [["a", "b"]]}], "epsilon": 1}, "1 columns"),
    ({"version": 1, "statistics": [{**COUNT, "keys": [["surgery"]]}], "epsilon": 1}, "'by'"),
    ({"version": 1, "statistics": [{"kind": "quantile", "column": "age", "probability": 0.5, "by": ["ward"], "keys": "discover", "candidates": 2**20}], "epsilon": 1, "delta": 1e-7}, "cells"),
    ({"version": 1, "statistics": [{**COUNT, "column": "age"}], "epsilon": 1}, "no 'column'"),
    ({"version": 1, "statistics": [{**COUNT, "label": "a"}, {**AGE, "label": "a"}], "epsilon": 1}, "label"),
    ({"version": 1, "statistics": [{**COUNT, "within": 3}], "epsilon": 1}, "both"),
    ({"version": 1, "statistics": [{**AGE, "within": 3}]}, "assuming_rows"),
    ({"version": 1, "statistics": [{**COUNT, "within": 0.001}]}, "limit"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "where": {"column": "note", "in": ["x"]}}, "not for filters"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "where": {"column": "ward", "above": "a"}}, "no order"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "where": {"column": "age", "in": ["x"]}}, "type whole"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "where": {"column": "age"}}, "one of in"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "where": {"column": "day", "above": "1.2.2024"}}, "2024-05-31"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "where": {"column": "sex", "in": ["f"]}}, "public columns"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "join": ["secrets"]}, "joined with 'patients'"),
    ({"version": 1, "statistics": [COUNT], "epsilon": 1, "contribution": {"rows": 9}}, "at most rows 2"),
    ({"version": 1, "statistics": [{**COUNT, "label": "\ud800"}], "epsilon": 1}, "Unicode"),
    ({"version": 1, "statistics": [{**COUNT, "label": "x" * 300_000}], "epsilon": 1}, "bytes"),
    ({"version": 1, "model": {"estimator": "ridge", "features": ["age"], "target": "ward", "population": 99}, "epsilon": 1, "delta": 1e-7}, "bounds"),
    ({"version": 1, "model": {"estimator": "ridge", "features": ["age"], "target": "age", "population": 99}, "epsilon": 1, "delta": 1e-7}, "no feature"),
    ({"version": 1, "model": {"estimator": "linear_svc", "features": ["cost"], "target": "ward", "population": 99}, "epsilon": 1, "delta": 1e-7}, "neither"),
    ({"version": 1, "model": {"estimator": "linear_svc", "features": ["age"], "target": "ward", "population": 99}, "epsilon": 1}, "'delta'"),
    ({"version": 1, "synthetic": {"columns": ["cost"]}, "epsilon": 1, "delta": 1e-7}, "neither"),
    ({"version": 1, "synthetic": {"columns": ["ward"]}, "model": {}, "epsilon": 1, "delta": 1e-7}, "model"),
    ({"version": 1, "sql": "SELECT count(*) FROM visits", "statistics": [COUNT], "epsilon": 1}, "both"),
]  # fmt: skip


@pytest.mark.parametrize(("question", "words"), MISTAKES, ids=range(len(MISTAKES)))
def test_every_mistake_is_one_sentence_and_a_fix(planner, question, words):
    with pytest.raises(InvalidArgument) as refused:
        planner.plan("visits", question)
    message = str(refused.value)
    assert words in message or "JSON" in message
    assert message.endswith(".")
    assert len(message) < 700


def test_deep_and_cyclic_json_is_refused(planner):
    deep = {"column": "age", "above": 1}
    for _ in range(20):
        deep = {"not": deep}
    with pytest.raises(InvalidArgument, match="levels"):
        ask(planner, COUNT, where=deep)
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(InvalidArgument):
        ask(planner, COUNT, where=deep)


def test_an_unknown_dataset_is_refused(planner):
    with pytest.raises(InvalidArgument, match="no dataset"):
        planner.plan("salaries", {"version": 1})


def test_the_adjacency_is_that_of_the_metadata(tmp_path):
    text = STEWARD.replace("rows = 2\n", 'rows = 2\nadjacency = "replace-one"\n')
    (tmp_path / "steward.toml").write_text(text)
    planner = MetadataPlanner.of_file(tmp_path / "steward.toml")
    assert ask(planner, COUNT).adjacency == ReplaceOne(Unit.USER)
    assert ask(planner, COUNT, dataset="rows").adjacency == AddRemove(Unit.RECORD)
    with pytest.raises(InvalidArgument, match="replace-one"):
        planner.plan(
            "visits", {"version": 1, "synthetic": {"columns": ["ward"]}, "epsilon": 1, "delta": 1e-7}
        )


FILES = [
    ("version = 1", "version = 9", "version 9"),
    ("version = 1", "version = ", "no TOML"),
    ('unit = "patient"\nrows = 2\n', "rows = 2\n", "who is protected"),
    ('unit = "patient"\nrows', 'unit = "patient"\neach_row_is_a_person = true\nrows', "both"),
    ("rows = 2\n", "", "'rows'"),
    ("budget = { epsilon = 5.0, delta = 1e-5 }", "", "'budget'"),
    ("epsilon = 5.0, delta", "epsilon = 0, delta", "above 0"),
    ("delta = 1e-5 }", "delta = 2 }", "below 1"),
    ('path = "visits.parquet"', "", "where the data are"),
    ('path = "visits.parquet"', 'path = "visits.xlsx"', ".csv or .parquet"),
    ('path = "visits.parquet"', 'path = "visits.parquet"\nspark = "v"', "path and spark"),
    ("lower = 0, upper = 120 }", "lower = 0 }", "both 'lower' and 'upper'"),
    ("lower = 0, upper = 120", "lower = 120, upper = 0", "below"),
    ('type = "whole", lower', 'type = "int", lower', "one of number"),
    ('"surgery", "medicine"', '"surgery", 3', "type text"),
    ('"surgery", "medicine"', '"surgery", "surgery"', "twice"),
    ('ward = { type = "text"', 'ward = { lower = 1, upper = 2, type = "text"', "numbers only"),
    ("groups = 2", "groups = 2\ncolor = 1", "color"),
    ("smokes = {", "age = {", "in the dataset and in 'patients'"),
    ('["count", "mean"]', '["count", "secrets"]', "secrets"),
    ("[datasets.rows]", '[datasets."a b"]', "letters"),
    ("groups = 2", 'groups = 2\nrefresh = "always"', "frozen or same-people"),
    ("groups = 2", 'groups = 2\nadjacency = "edit"', "add-remove or replace-one"),
    ("groups = 2", "groups = 2\nanswer_after = -1", "answer_after"),
    ('path = "visits.parquet"', 'postgres = "postgresql://db/clinic?table=v"', "must be a file"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "words"), FILES, ids=[words for *_, words in FILES])
def test_every_mistake_in_the_file_is_said(tmp_path, old, new, words):
    assert old in STEWARD
    (tmp_path / "steward.toml").write_text(STEWARD.replace(old, new, 1))
    with pytest.raises((InvalidArgument, Unreadable)) as refused:
        read_steward_file(tmp_path / "steward.toml")
    assert words in str(refused.value)


def test_a_server_is_never_frozen(tmp_path):
    text = STEWARD.replace(
        'path = "rows.csv"', 'postgres = "postgresql://u:pw@db/clinic?table=v"\nrefresh = "frozen"'
    )
    (tmp_path / "steward.toml").write_text(text)
    with pytest.raises(InvalidArgument, match="same-people"):
        read_steward_file(tmp_path / "steward.toml")


def test_a_dataset_is_appended_and_read_back(tmp_path):
    path = write_clinic(tmp_path)
    path.write_text(path.read_text() + "\n# the clinic's own words\n")
    entry = {
        "description": 'Says "hello" to\nall',
        "path": "rows.csv",
        "each_row_is_a_person": True,
        "budget": {"epsilon": 1.0, "delta": 0.0},
        "columns": {
            "a key": {"type": "text", "keys": ["p", 'q"']},
            "x": {"type": "number", "lower": -1.5, "upper": 2},
        },
    }
    read = append_dataset(path, "more", entry)
    assert read.datasets["more"].description == 'Says "hello" to\nall'
    assert read.datasets["more"].columns[0].keys == ("p", 'q"')
    assert read_steward_file(path).datasets == read.datasets
    assert "# the clinic's own words" in path.read_text()
    before = path.read_text()
    for name, broken in (("more", entry), ("other", {**entry, "budget": {"epsilon": -1.0, "delta": 0.0}})):
        with pytest.raises(InvalidArgument):
            append_dataset(path, name, broken)
    assert path.read_text() == before


def test_planning_opens_no_file(planner, monkeypatch):
    """The planner of this module has no table at all; here the words of the system are watched, too."""
    import builtins
    import os

    def refuse(*arguments, **options):
        raise AssertionError(f"opened {arguments}")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(os, "open", refuse)
    for place, statistic in enumerate(EVERY):
        ask(planner, {**statistic, "label": f"new {place}"}, delta=1e-8)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.1, 0.3, 1, 2, 3, 5, 7, 11, 1e3]), min_size=3, max_size=3))
def test_a_worker_reads_the_canonical_form_of_weights_as_itself(planner, weights):
    """Otherwise the worker refuses, after the charge, what the planner has priced."""
    total = {"kind": "sum", "column": "age"}
    planned = ask(
        planner,
        *({**one, "weight": weight} for one, weight in zip([COUNT, AGE, total], weights, strict=True)),
    )
    metadata = planner.stewardship.find("visits")
    assert read_canonical(metadata, planned.canonical).to_plain() == planned.canonical


NOT_CANONICAL = [
    {"statistics": [{**COUNT, "weight": 1e-6}, {**AGE, "weight": 10}]},
    {"where": {"any": [{"column": "age", "in": [*range(k, k + 1000)]} for k in (0, 1000)]}},
    {"where": {"column": "cost", "in": [10**400]}},
]


@pytest.mark.parametrize("fields", NOT_CANONICAL, ids=["weights", "joined lists", "huge"])
def test_what_no_worker_can_read_is_refused_before_the_charge(planner, fields):
    with pytest.raises(InvalidArgument):
        planner.plan("visits", {"version": 1, "statistics": [COUNT], "epsilon": 0.5, **fields})


def test_two_datasets_that_share_a_file_in_part_are_refused(tmp_path):
    """They would have two fingerprints, and so two budgets for the same people."""
    second = STEWARD[STEWARD.index("[datasets.visits]") : STEWARD.index("[datasets.visits.tables")]
    (tmp_path / "steward.toml").write_text(STEWARD + second.replace("datasets.visits", "datasets.again"))
    with pytest.raises(InvalidArgument, match="two budgets"):
        read_steward_file(tmp_path / "steward.toml")


def test_a_joined_column_that_the_main_file_has_too_is_refused(tmp_path):
    """The join would read the main file's, which the steward did not make public."""
    write_clinic(tmp_path, visits().with_columns(sex=pl.lit("x")))
    sources = DataSources(b"salt")
    with pytest.raises(InvalidArgument, match="Rename"):
        sources.check(read_steward_file(tmp_path / "steward.toml").find("visits"))
