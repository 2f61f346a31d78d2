"""Bounds on ε from one set of scores, beside jax_privacy.auditing, on the same scores; and how often each is above the truth.

    python -m venv /tmp/bench-audit-venv && /tmp/bench-audit-venv/bin/pip install jax-privacy==2.0.0
    python bench/audit/beside_jax_privacy.py --peer /tmp/bench-audit-venv/bin/python

*Scores*: N(μ, 1) for members and N(0, 1) for others, a fair coin for each, as for canaries that do not interfere. The truth is ε
of μ-GDP at δ = 1e-5. The first table has the median over seeds 0, 1, …, at 95 %; the second the share of null runs (μ = 0, the true ε
is 0) in which a bound is above 0.01, which a valid bound is in at most 5 %.

Each row has one question, with the medians of all bounds that answer it. "two rates": independent scores, nothing is assumed of the
mechanism. "Gaussian": independent scores and a Gaussian trade-off curve. "one run" holds however canaries interfere; its f-DP form
assumes a Gaussian curve. jax_privacy chooses a threshold by ``Bonferroni`` (its default), ``Split`` or ``MultiSplit``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

DELTA, LEVEL = 1e-5, 0.05
CASES = [(1.0, 1_000), (1.0, 10_000), (2.0, 1_000), (2.0, 10_000)]
NULLS = [(0.0, 200), (0.0, 1_000), (0.0, 10_000)]

PEER = """
import json, sys
import numpy as np
from jax_privacy import auditing
delta, level = 1e-5, 0.05
out = []
for path in sys.argv[1:]:
    with np.load(path) as found:
        auditor = auditing.CanaryScoreAuditor(found["members"], found["others"])
    ways = {"bonferroni": auditing.Bonferroni(), "split": auditing.Split(seed=0), "multi-split": auditing.MultiSplit(num_samples=20, seed=0)}
    row = {"Gaussian: epsilon_from_gdp": float(auditor.epsilon_from_gdp(level, delta))}
    for name, way in ways.items():
        row[f"two rates: {name}"] = float(auditor.epsilon_clopper_pearson(level, delta, one_sided=False, threshold_strategy=way))
        row[f"one run: {name}"] = float(auditor.epsilon_one_run(level, delta, threshold_strategy=way))
        if name != "multi-split" and auditor._fn_counts[-1] < 2000:
            row[f"one run, f-DP: {name}"] = float(auditor.epsilon_one_run_fdp(level, delta, threshold_strategy=way))
        elif name == "split":
            row[f"one run, f-DP: {name}"] = float(auditor.epsilon_one_run_fdp(level, delta, threshold_strategy=way))
    out.append(row)
print(json.dumps(out))
"""


def draw(separation: float, records: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    coins = generator.random(records) < 0.5
    return generator.normal(size=records) + separation * coins, coins


def ours(values: np.ndarray, coins: np.ndarray, separation: float) -> dict[str, float]:
    from privet.auditing import (
        ApproximateCurves,
        ClopperPearson,
        GaussianFit,
        OneRun,
        OneRunFDP,
        OrderStatistic,
        RankedThresholds,
        WeightedRanks,
    )
    from privet.scores import Scores

    scores = Scores(values, coins)
    audits = {
        "two rates: ClopperPearson": ClopperPearson(1 - LEVEL),
        "two rates: RankedThresholds": RankedThresholds(1 - LEVEL, ApproximateCurves(DELTA)),
        "one run: OneRun": OneRun(1 - LEVEL),
        "one run, f-DP: OneRunFDP": OneRunFDP(1 - LEVEL),
        "Gaussian: GaussianFit": GaussianFit(1 - LEVEL),
        "Gaussian: RankedThresholds": RankedThresholds(1 - LEVEL, shares=(0.25,)),
        "Gaussian: WeightedRanks": WeightedRanks(1 - LEVEL, expected=separation or 1.0),
        "Gaussian: OrderStatistic": OrderStatistic(1 - LEVEL),
    }
    return {name: audit.epsilon(scores, delta=DELTA) for name, audit in audits.items()}


def theirs(peer: str, folder: Path, drawn: list[tuple[np.ndarray, np.ndarray]]) -> list[dict[str, float]]:
    paths = []
    for index, (values, coins) in enumerate(drawn):
        paths.append(str(folder / f"{index}.npz"))
        np.savez(paths[-1], members=values[coins], others=values[~coins])
    done = subprocess.run([peer, "-c", PEER, *paths], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer", required=True, help="a python that has jax-privacy")
    parser.add_argument("--seeds", type=int, default=9)
    parser.add_argument("--nulls", type=int, default=40)
    asked = parser.parse_args()
    from privet.auditing.curves import gaussian_epsilon

    print("| true ε | canaries | question | Privet | jax_privacy |\n|---|---|---|---|---|")
    for separation, records in CASES:
        drawn = [draw(separation, records, seed) for seed in range(asked.seeds)]
        with tempfile.TemporaryDirectory() as folder:
            peers = theirs(asked.peer, Path(folder), drawn)
        mine = [ours(*one, separation) for one in drawn]
        for theorem in ("two rates", "one run", "one run, f-DP", "Gaussian"):
            cells = [
                ", ".join(
                    f"{np.median([row[name] for row in rows]):.2f} ({name.partition(': ')[2]})"
                    for name in rows[0]
                    if name.partition(": ")[0] == theorem
                )
                for rows in (mine, peers)
            ]
            truth = gaussian_epsilon(separation, DELTA)
            print(f"| {truth:.2f} | {records:,} | {theorem} | {cells[0]} | {cells[1]} |", flush=True)
    print("\n| canaries, none leaks | bound | runs with ε above 0.01 |\n|---|---|---|")
    for separation, records in NULLS:
        drawn = [draw(separation, records, 1000 + seed) for seed in range(asked.nulls)]
        with tempfile.TemporaryDirectory() as folder:
            peers = theirs(asked.peer, Path(folder), drawn)
        mine = [ours(*one, separation) for one in drawn]
        for owner, rows in (("Privet", mine), ("jax_privacy", peers)):
            for name in rows[0]:
                above = np.mean([row[name] > 0.01 for row in rows])
                print(
                    f"| {records:,} | {owner} {name.partition(': ')[2]} ({name.partition(': ')[0]}) | {above:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    sys.exit(main())
