"""Answers of 0.1.0 at equal coins, on both engines, and the question texts under which its ledgers keep them.

*Source*: the code of 0.1.0 (commit 266d5a6) wrote ``release_answers.json`` with ``record`` below. If a number in it
changes, then an old seed gives another answer. If a question text changes, then a stored answer is not found again. So
the file is never written again, and a new statistic is not added here.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

pl = pytest.importorskip("polars")
pytest.importorskip("duckdb")

from privet.adjacency import AddRemove, ReplaceOne, Unit  # noqa: E402
from privet.randomness import SeededNoise  # noqa: E402
from privet.releasing import (  # noqa: E402
    Budget,
    Contribution,
    Count,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    Quantile,
    ReleasePlan,
    Sum,
    TopK,
    Variance,
    answer_to_plain,
    question_key,
)
from privet.releasing.engines.duckdb_engine import DuckDBEngine  # noqa: E402
from privet.releasing.engines.polars_engine import PolarsEngine  # noqa: E402

RECORDED = Path(__file__).with_name("release_answers.json")
KEYS = ("a", "b", "c")
SCALARS = (
    Count(),
    Sum("x", -3.0, 10.0),
    Mean("x", 0.0, 10.0),
    Variance("x", 0.0, 10.0),
    Quantile("x", 0.37, 0.0, 10.0, candidates=64),
)
LISTED = (
    *SCALARS,
    Histogram("k", KEYS),
    Marginal((("k", KEYS), ("f", (True, False)))),
    TopK("k", 2, KEYS),
    *(GroupBy("k", scalar, KEYS) for scalar in SCALARS),
    GroupBy(("k", "f"), Sum("x", 0, 10), (("a", True), ("c", False))),
)
HIDDEN = (
    TopK("k", 2),
    *(GroupBy("k", scalar) for scalar in SCALARS),
    GroupBy(("k", "f"), Sum("x", 0.0, 10.0)),
    GroupBy(("k", "f"), Count()),
)


def frame():
    random = np.random.default_rng(8)
    values = random.uniform(-2, 12, 2400)
    values[::17] = np.nan
    return pl.DataFrame(
        {
            "u": np.arange(2400) // 2,
            # One key for each unit, so that no hash decides, which may change with the version of Polars.
            "k": np.repeat(random.choice(KEYS, 1200), 2),
            "f": np.repeat(random.random(1200) < 0.5, 2),
            "x": values,
        }
    )


ENGINES = {"polars": lambda: PolarsEngine.over(frame()), "duckdb": lambda: DuckDBEngine(frame().to_arrow())}


def plan(statistics, delta, unit, exchange):
    kind = Unit.RECORD if unit is None else Unit.USER
    return ReleasePlan(
        statistics=tuple((f"s{place}", statistic) for place, statistic in enumerate(statistics)),
        unit=unit,
        budget=Budget(epsilon=0.5 * len(statistics), delta=delta),
        contribution=Contribution() if unit is None else Contribution(rows=2, groups=2),
        adjacency=ReplaceOne(kind) if exchange else AddRemove(kind),
    )


@cache
def plans():
    found = {}
    for unit in (None, "u"):
        for exchange in (False, True):
            name = f"{unit or 'row'}, {'replace-one' if exchange else 'add-remove'}"
            found[f"{name}, pure"] = plan(LISTED, 0.0, unit, exchange)
            found[f"{name}, approximate"] = plan(LISTED + HIDDEN, 1e-6, unit, exchange)
        found[f"{unit or 'row'}, few"] = plan(HIDDEN[:2], 1e-6, unit, False)
    return found


def answers(asked, engine):
    released = asked.run(ENGINES[engine](), noise=SeededNoise(3)).answers
    return json.loads(json.dumps([answer_to_plain(answer) for answer in released]))


def record():
    """How the file was written: by 0.1.0, once."""
    document = {
        "answers": {name: answers(asked, "polars") for name, asked in plans().items()},
        "questions": [
            question_key(question, "t.csv")
            for name, asked in plans().items()
            for question in asked.questions
            if "approximate" in name
        ],
    }
    lines = json.dumps(document, ensure_ascii=True).replace('{"value"', '\n{"value"').replace('"{', '\n"{')
    RECORDED.write_text(lines + "\n")


@cache
def recorded():
    return json.loads(RECORDED.read_text())


def close(now, then):
    """Equal, up to the last digits of a calibrated scale, which depend on the processor."""
    if isinstance(then, dict):
        return now.keys() == then.keys() and all(close(now[key], then[key]) for key in then)
    if isinstance(then, list):
        return len(now) == len(then) and all(map(close, now, then))
    return now == (pytest.approx(then, rel=1e-12, abs=0) if isinstance(then, float) else then)


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("name", list(plans()))
def test_equal_coins_give_the_answers_of_the_first_release(name, engine):
    found, before = answers(plans()[name], engine), recorded()["answers"][name]
    for (label, statistic), now, then in zip(plans()[name].statistics, found, before, strict=True):
        assert close(now, then), (label, statistic)


def test_gaussian_and_laplace_noise_are_both_recorded():
    text = RECORDED.read_text()
    assert "discrete-gaussian" in text
    assert "discrete-laplace" in text


def test_question_texts_are_those_of_the_first_release():
    asked = [
        question_key(question, "t.csv")
        for name, asked in plans().items()
        for question in asked.questions
        if "approximate" in name
    ]
    assert asked == recorded()["questions"]
