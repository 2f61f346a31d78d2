"""Can the time of an answer tell neighbouring tables apart? And how long does an answer take?

*Timing*: an adversary asks two curators whose tables differ in one person, and times each answer. They know which is which
for a half of the answers, and classify the other half: by the likelihood of the time under the two histograms, and by
the time alone. AUC ½ is a coin. The person has as many rows as the attack can make of them (``--rows``), the worst case.
Answers come at a fixed time (``answer_after``); without it the same adversary is shown to win.

*Speed*: a count and a group-by over a million rows through the worker's process, quoted by their median.

    python bench/curator/timing.py [--answers 2000] [--json FILE]
"""

import argparse
import json
import os
import secrets
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from privet.curator.questions.planner import MetadataPlanner
from privet.curator.worker.answer_failed import AnswerFailed
from privet.curator.worker.process_worker import ProcessWorker

STEWARD = """
[datasets.{name}]
path = "{name}.parquet"
unit = "person"
rows = 2
groups = 2
budget = {{ epsilon = 1.0, delta = 0.0 }}
{timing}
[datasets.{name}.columns]
age = {{ type = "whole", lower = 0, upper = 120 }}
city = {{ type = "text", keys = ["a", "b", "c", "d", "e", "f", "g", "h"] }}
"""
COUNT = {"version": 1, "statistics": [{"kind": "count"}], "epsilon": 0.1}
GROUPS = {"version": 1, "statistics": [{"kind": "mean", "column": "age", "by": ["city"]}], "epsilon": 0.1}


def table(rows: int, people: int, seed: int = 0) -> pl.DataFrame:
    """Rows of people in cities."""
    draw = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "person": draw.integers(0, people, rows),
            "age": draw.integers(0, 100, rows),
            "city": pl.Series(draw.choice(list("abcdefgh"), rows)),
        }
    )


def auc(scores: np.ndarray, labels: np.ndarray) -> float:
    """The chance that a positive scores higher than a negative; ties count one half."""
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    for value in np.unique(scores):
        same = scores == value
        ranks[same] = ranks[same].mean()
    positives = labels.sum()
    return float(
        (ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives))
    )


def time_answers(folder: Path, answers: int, rows: int, timing: str) -> tuple[np.ndarray, np.ndarray]:
    """Seconds of answers about two neighbours, in random order; and which neighbour each was about."""
    folder.mkdir()
    base = table(rows // 10, rows // 20)
    person = pl.DataFrame({"person": [10**9] * rows, "age": [50] * rows, "city": ["a"] * rows})
    base.write_parquet(folder / "without.parquet")
    pl.concat([base, person]).write_parquet(folder / "with.parquet")
    text = "".join(STEWARD.format(name=name, timing=timing) for name in ("without", "with"))
    (folder / "steward.toml").write_text("version = 1\n" + text)
    planner = MetadataPlanner.of_file(folder / "steward.toml")
    labels = np.random.default_rng(secrets.randbits(64)).permutation(np.arange(answers) % 2 == 0)
    seconds, late = np.empty(answers), [0, 0]
    with ProcessWorker(folder / "steward.toml") as worker:
        plans = {name: planner.plan(name, COUNT) for name in ("without", "with")}
        for name, plan in plans.items():
            worker.answer(name, plan, request=f"warm {name}")
        for place, label in enumerate(labels):
            name = "with" if label else "without"
            began = time.perf_counter()
            try:
                worker.answer(name, plans[name], request=f"{place}")
            except AnswerFailed:
                late[int(label)] += 1  # it did not end in time; the adversary sees the failure, too
            seconds[place] = time.perf_counter() - began
    print(f"not in time: {late[0]} of the table without, {late[1]} of the table with the person")
    return seconds, labels


def attack(seconds: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The AUC of two adversaries on the second half of the answers; they learn from the first half."""
    half = len(seconds) // 2
    edges = np.quantile(seconds[:half], np.linspace(0, 1, 21)[1:-1])
    cells = np.searchsorted(edges, seconds)
    counts = [np.bincount(cells[:half][labels[:half] == side], minlength=20) + 1.0 for side in (False, True)]
    likelihood = np.log(counts[1] / counts[1].sum()) - np.log(counts[0] / counts[0].sum())
    late, mine = labels[half:], slice(half, None)
    by_time = auc(seconds[mine], late)
    return {
        "answers": len(seconds),
        "auc_likelihood": auc(likelihood[cells[mine]], late),
        "auc_time": max(by_time, 1 - by_time),
        "auc_time_all_answers": max(auc(seconds, labels), 1 - auc(seconds, labels)),
        "one_sigma_of_a_coin": (1 / 12 * (2 / late.sum() + 2 / (len(late) - late.sum())) / 2) ** 0.5,
        "median_seconds": float(np.median(seconds)),
    }


def processor_seconds(pid: int) -> float:
    """What a process has used so far, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_speed(folder: Path, rows: int, repeats: int) -> dict[str, float]:
    """The median seconds of a count and of a group-by over so many rows."""
    folder.mkdir()
    table(rows, rows // 3).write_parquet(folder / "big.parquet")
    (folder / "steward.toml").write_text("version = 1\n" + STEWARD.format(name="big", timing=""))
    planner, found = MetadataPlanner.of_file(folder / "steward.toml"), {}
    with ProcessWorker(folder / "steward.toml") as worker:
        for name, question in (("count", COUNT), ("group_by", GROUPS)):
            plan, seconds, busy = planner.plan("big", question), [], []
            for repeat in range(repeats + 1):
                began, used = time.perf_counter(), processor_seconds(worker.pid())
                worker.answer("big", plan, request=f"{name} {repeat}")
                seconds.append(time.perf_counter() - began)
                busy.append(processor_seconds(worker.pid()) - used)
            found[f"{name}_p50_seconds"] = statistics.median(seconds[1:])
            found[f"{name}_p50_processor_seconds"] = statistics.median(busy[1:])
            found[f"{name}_p95_seconds"] = float(np.quantile(seconds[1:], 0.95))
    return found


def main(words: list[str]) -> int:
    """Measure both."""
    parser = argparse.ArgumentParser(description="Does the time of an answer tell?")
    parser.add_argument("--answers", type=int, default=2000)
    parser.add_argument(
        "--rows", type=int, default=100_000, help="rows of the person who is in one table only"
    )
    parser.add_argument("--answer-after", type=float, default=0.15)
    parser.add_argument("--speed-rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = {"speed": measure_speed(folder / "speed", options.speed_rows, 15)}
        print(json.dumps(result["speed"]), flush=True)
        result["as_soon_as_possible"] = attack(*time_answers(folder / "soon", 200, options.rows, ""))
        print("as soon as possible", json.dumps(result["as_soon_as_possible"]), flush=True)
        timing = f"answer_after = {options.answer_after}"
        result["fixed_time"] = attack(*time_answers(folder / "fixed", options.answers, options.rows, timing))
        print("at a fixed time", json.dumps(result["fixed_time"]), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
