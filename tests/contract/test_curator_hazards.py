"""The hazards of NIST SP 800-226 that concern questions and the worker: a test for each.

Collusion, refunds and the history of a budget are tested with the curator's storage.

*Reference*: Near, Darais, Lefkovitz & Howarth, "Guidelines for Evaluating Differential Privacy Guarantees", NIST Special
Publication 800-226, 2025; Haeberlen, Pierce & Narayan 2011 for time and state.
"""

import json
import logging
import math
import time
from contextlib import suppress

import numpy as np
import polars as pl
import pytest

pytest.importorskip("sklearn")

from tests.unit.curator_tables import EMPTY, STEWARD, patients, visits, write_clinic

from privet.accounting import account
from privet.adjacency import Unit
from privet.curator.questions.answered_models import AnsweredModel
from privet.curator.questions.planner import MetadataPlanner
from privet.curator.questions.steward_file import read_steward_file
from privet.curator.worker.answer_failed import AnswerFailed
from privet.curator.worker.answering import TableWorker
from privet.curator.worker.data_sources import DataSources
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.randomness import SecureNoise, SeededNoise


def clinic(folder, frame=None, people=None, noise=None, steward=STEWARD):
    path = write_clinic(folder, frame, people)
    path.write_text(steward)
    planner = MetadataPlanner.of_file(path)
    return planner, TableWorker(planner.stewardship, DataSources(b"s" * 32), noise=noise or SecureNoise())


def ask(pair, *statistics, **fields):
    planner, worker = pair
    question = {"version": 1, "statistics": list(statistics), "epsilon": 2.0, **fields}
    return worker.answer("visits", planner.plan("visits", question), request="x")["answers"]


COUNT, AGE = {"kind": "count"}, {"kind": "mean", "column": "age"}


def test_unit_it_is_named_and_one_person_s_rows_are_bounded_together(tmp_path):
    """A person with 10,000 rows moves a count by no more than the declared rows, at any filter and join."""
    base = visits().select(pl.col(name).cast(kind) for name, kind in EMPTY.items())
    crowd = pl.DataFrame([(5000, 50.0, 1.0, "surgery", True, None, "x")] * 10_000, schema=EMPTY, orient="row")
    people = pl.concat([patients(), pl.DataFrame({"id": [5000], "sex": ["f"], "smokes": [True]})])
    for number, fields in enumerate(
        ({}, {"where": {"column": "age", "at_least": 40}}, {"join": ["patients"]})
    ):
        values = []
        for side, frame in enumerate((base, pl.concat([base, crowd]))):
            pair = clinic(tmp_path / f"{number}{side}", frame, people, noise=SeededNoise(1))
            values.append(ask(pair, COUNT, epsilon=2.0, **fields)[0]["value"])
        assert abs(values[0] - values[1]) <= 2


def test_unit_a_person_with_two_rows_in_a_joined_table_moves_nobody_else(tmp_path):
    people = pl.concat([patients(), patients().head(1)])
    counts = [
        ask(clinic(tmp_path / name, visits(rows=300), table, noise=SeededNoise(4)), COUNT, join=["patients"])[
            0
        ]["value"]
        for name, table in (("a", patients()), ("b", people), ("c", patients().slice(1)))
    ]
    assert counts[1] == counts[2]  # twice is as never
    assert abs(counts[0] - counts[1]) <= 2


def test_unit_it_must_be_said(tmp_path):
    (tmp_path / "steward.toml").write_text(STEWARD.replace('unit = "patient"\n', "", 1))
    with pytest.raises(InvalidArgument, match="who is protected"):
        read_steward_file(tmp_path / "steward.toml")


def test_delta_is_zero_unless_it_is_given_and_is_limited(tmp_path):
    planner, _ = clinic(tmp_path)
    planned = planner.plan("visits", {"version": 1, "statistics": [COUNT], "epsilon": 1.0})
    assert planned.delta == 0
    assert account(Ledger(planned.adjacency, planned.entries)).curve.delta(1.0).upper == 0
    with pytest.raises(InvalidArgument, match="limit"):
        planner.plan("visits", {"version": 1, "statistics": [COUNT], "epsilon": 1.0, "delta": 0.01})


def test_bounds_come_from_metadata_and_never_from_data(tmp_path):
    """Plans, error bars and keys are the same for a table of other values; no question has a minimum or a maximum."""
    bodies = []
    for name, factor in (("a", 1.0), ("b", 1e6)):
        frame = visits().with_columns((pl.col("age") * factor).alias("age"), pl.lit("nowhere").alias("ward"))
        bodies.append(
            ask(
                clinic(tmp_path / name, frame, noise=SeededNoise(2)),
                {"kind": "sum", "column": "age"},
                {**COUNT, "by": ["ward"]},
            )
        )
    for first, second in zip(*bodies, strict=True):
        assert first["error"] == second["error"]
        assert first["event"] == second["event"]
    total = next(one for one in bodies[1] if one["label"] == "sum of age")
    assert abs(total["value"]) <= 120 * 200 + total["error"] + 1000
    planner, _ = clinic(tmp_path / "a")
    for kind in ("min", "max", "range", "mode"):
        with pytest.raises(InvalidArgument):
            planner.plan(
                "visits", {"version": 1, "statistics": [{"kind": kind, "column": "age"}], "epsilon": 1.0}
            )


def test_rare_keys_are_never_shown_and_need_a_delta(tmp_path):
    rare = pl.concat(
        [
            visits(rows=3000, people=2500),
            visits(rows=3).with_columns(pl.lit("Alice's own ward").alias("ward")),
        ]
    )
    pair = clinic(tmp_path, rare)
    found = ask(pair, {**COUNT, "by": ["ward"], "keys": "discover"}, delta=1e-6)[0]
    assert "Alice's own ward" not in json.dumps(found)
    assert len(found["value"]) >= 3
    with pytest.raises(InvalidArgument, match="rare key"):
        ask(pair, {**COUNT, "by": ["ward"], "keys": "discover"})


def test_refresh_other_content_has_another_fingerprint(tmp_path):
    planner, worker = clinic(tmp_path)
    before = worker.fingerprint("visits")
    assert worker.fingerprint("visits") == before
    patients(seed=9).write_parquet(tmp_path / "patients.parquet")  # also that of a joined table
    middle = worker.fingerprint("visits")
    visits(seed=5).write_parquet(tmp_path / "visits.parquet")
    assert len({before, middle, worker.fingerprint("visits")}) == 3
    other = TableWorker(planner.stewardship, DataSources(b"t" * 32))
    assert other.fingerprint("visits") != worker.fingerprint(
        "visits"
    )  # a guess of the data cannot be compared


def test_float_noise_answers_are_whole_steps_of_a_public_grid(tmp_path):
    """Mironov's attack reads the last bits of float noise. Here noise is drawn on whole numbers."""
    pair = clinic(tmp_path)
    for _ in range(5):
        total, count = ask(
            pair, COUNT, {"kind": "sum", "column": "age"}
        )  # in the order of the canonical form
        assert isinstance(count["value"], int)
        event = total["event"]
        assert event["kind"] == "discrete-laplace"
        step = 2 * 120 / event["contribution"]  # rows · upper / grid
        assert math.isclose(total["value"] / step, round(total["value"] / step), abs_tol=1e-6)


EXTREMES = [math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, 2.0**63, -0.0]


def test_overflow_extreme_values_fail_nothing(tmp_path):
    base = visits().select(pl.col(name).cast(kind) for name, kind in EMPTY.items())
    rows = [(9000 + place, value, value, "surgery", None, None, None) for place, value in enumerate(EXTREMES)]
    wild = pl.concat([base, pl.DataFrame(rows, schema=EMPTY, orient="row")])
    pair = clinic(tmp_path, wild)
    statistics = [AGE, {"kind": "variance", "column": "age"}, {"kind": "sum", "column": "cost", "lower": -1e289, "upper": 1e289},
                  {"kind": "quantile", "column": "age", "probability": 0.5},
                  {"kind": "covariance", "x": "age", "y": "cost", "y_lower": -1e100, "y_upper": 1e100}]  # fmt: skip
    for answer in ask(pair, *statistics):
        assert json.loads(json.dumps(answer, allow_nan=False)) == answer


def test_timing_an_answer_and_a_failure_come_at_one_time(tmp_path):
    text = STEWARD.replace("groups = 2", "groups = 2\nanswer_after = 0.25", 1)
    planner, worker = clinic(tmp_path, steward=text)
    planned = planner.plan("visits", {"version": 1, "statistics": [COUNT], "epsilon": 1.0})
    worker.answer("visits", planned, request="x")  # libraries load
    times = []
    for broken in (False, True):
        if broken:
            (tmp_path / "visits.parquet").write_bytes(
                (tmp_path / "visits.parquet").read_bytes()[:-60] + b"Alice" + b"\0" * 47 + b"\1\0\0\0PAR1"
            )
        began = time.monotonic()
        with suppress(AnswerFailed):
            worker.answer("visits", planned, request="x")
        times.append(time.monotonic() - began)
    assert min(times) >= 0.25


def test_errors_have_one_text_and_no_cause(tmp_path, caplog, capfd):
    planner, worker = clinic(tmp_path)
    planned = planner.plan("visits", {"version": 1, "statistics": [COUNT, AGE], "epsilon": 1.0})
    texts = set()
    caplog.set_level(logging.DEBUG)
    for break_it in (
        (tmp_path / "visits.parquet").unlink,
        lambda: (tmp_path / "visits.parquet").write_bytes(b"PAR1 row 17: Alice PAR1"),
        lambda: pl.DataFrame({"patient": ["Alice"]}).write_parquet(tmp_path / "visits.parquet"),
        lambda: pl.DataFrame({"patient": [["Alice"]], "age": [["Alice"]]}).write_parquet(
            tmp_path / "visits.parquet"
        ),
    ):
        break_it()
        with pytest.raises(AnswerFailed) as failed:
            worker.answer("visits", planned, request="x")
        texts.add(str(failed.value))
        assert failed.value.__cause__ is None
        assert failed.value.__context__ is None
    assert len(texts) == 1
    assert "Alice" not in caplog.text + "".join(capfd.readouterr()) + texts.pop()


def test_invariants_nothing_is_released_exactly(tmp_path):
    """No number of rows, of people or of keys is told without noise: what is not noisy is the same for every table."""
    frames = (visits(), visits(rows=977, people=500, seed=3), pl.DataFrame(schema=EMPTY))
    bodies = []
    for number, frame in enumerate(frames):
        pair = clinic(tmp_path / str(number), frame)
        answers = ask(pair, COUNT, {**AGE, "by": ["ward"]}, {"kind": "top_k", "column": "ward", "k": 2})
        synthetic = {
            "version": 1,
            "synthetic": {"columns": ["age", "ward"], "bins": 4},
            "epsilon": 2.0,
            "delta": 1e-6,
        }
        made = pair[1].answer("visits", pair[0].plan("visits", synthetic), request="s")["synthetic"]
        keys = [
            [key for key, _ in answer["value"]]
            for answer in answers
            if answer["label"] == "mean of age by ward"
        ]
        fixed = [{n: v for n, v in answer.items() if n not in ("value", "error")} for answer in answers]
        bodies.append((fixed, keys, {name: len(values) for name, values in made["columns"].items()}))
    assert bodies[0] == bodies[1] == bodies[2]


def test_tuning_cost_a_model_is_fitted_once_with_what_public_numbers_say(tmp_path):
    """No search on private data: the price is that of one fit, and the same for every table."""
    pair = clinic(tmp_path)
    model = {
        "estimator": "logistic_regression",
        "features": ["age", "ward"],
        "target": "urgent",
        "population": 80,
    }
    planned = pair[0].plan("visits", {"version": 1, "model": model, "epsilon": 2.0, "delta": 1e-6})
    spent = account(Ledger(planned.adjacency, planned.entries)).epsilon(delta=1e-6)
    assert spent <= 2.0
    for extra in ({"alpha": [1, 2]}, {"grid": 3}, {"solver": "best"}):
        with pytest.raises(InvalidArgument):
            pair[0].plan("visits", {"version": 1, "model": {**model, **extra}, "epsilon": 2.0, "delta": 1e-6})
    answer = pair[1].answer("visits", planned, request="x")["model"]
    used = AnsweredModel.from_answer(answer).predict(
        [{"age": 30, "ward": "surgery"}, {"age": None, "ward": "?"}]
    )
    assert set(used) <= {False, True}


def test_logs_have_no_value_and_no_question(tmp_path, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    pair = clinic(tmp_path)
    ask(pair, COUNT, {**AGE, "by": ["ward"]}, where={"column": "ward", "in": ["surgery"]})
    pair[0].plan(
        "visits", {"version": 1, "sql": "SELECT count(*) FROM visits WHERE ward = 'surgery'", "epsilon": 1.0}
    )
    words = caplog.text + "".join(capfd.readouterr())
    assert "surgery" not in words
    assert "visits" not in words


def test_small_groups_are_answered_with_noise_like_all_others(tmp_path):
    """No suppression of small counts, which would tell that they are small; and no group without noise."""
    nobody, one = (
        pl.DataFrame(schema=EMPTY),
        pl.DataFrame([(1, 40.0, 1.0, "surgery", True, None, "x")], schema=EMPTY, orient="row"),
    )
    for name, frame in (("nobody", nobody), ("one", one)):
        pair = clinic(tmp_path / name, frame)
        values = np.array(
            [
                [number for _, number in ask(pair, {**COUNT, "by": ["ward"]}, epsilon=0.5)[0]["value"]]
                for _ in range(25)
            ]
        )
        assert values.shape == (25, 3)
        assert (values.std(axis=0) > 2).all()  # noise of scale 8; 25 draws are below 2 once in 10⁹ or less
    question = {
        "version": 1,
        "statistics": [COUNT],
        "epsilon": 0.5,
        "where": {"column": "age", "above": 10**9},
    }
    planner, worker = clinic(tmp_path / "filtered")
    planned = planner.plan("visits", question)
    assert len({worker.answer("visits", planned, request="x")["answers"][0]["value"] for _ in range(30)}) > 5


def test_adjacency_is_with_every_plan(tmp_path):
    planner, _ = clinic(tmp_path)
    assert (
        planner.plan("visits", {"version": 1, "statistics": [COUNT], "epsilon": 1.0}).adjacency.unit
        is Unit.USER
    )


@pytest.mark.parametrize("people", [39, 40, 200])
def test_errors_a_model_does_not_fail_for_more_people_than_the_analyst_has_named(tmp_path, people):
    """A failure above a multiple of 'population' would count any group exactly, for next to no ε."""
    frame = visits(rows=people).with_columns(patient=pl.int_range(people))
    planner, worker = clinic(tmp_path, frame, patients(people))
    model = {"estimator": "ridge", "features": ["ward"], "target": "age", "population": 10}
    question = {"version": 1, "model": model, "epsilon": 0.01, "delta": 1e-7}
    answer = worker.answer("visits", planner.plan("visits", question), request="x")
    assert len(answer["model"]["weights"][0]) == 3
