"""Record linkage: Privet's engine, beside Splink 5 on DuckDB.

    python bench/published/linkage.py [--seeds 3] [--splink PYTHON]

For each pair of tables: F1 of the claimed links (interval by bootstrap over known people), the share of people in the table whose
likeliest row is theirs, the share found, and the share of absent people who were "found", with exact 95 % intervals. PYTHON is an
interpreter of an environment with ``splink==5.0.0``; it gets the same tables. Times are those of the processor. Nothing is
learnt from true links, and no setting differs between the tables, except that a text column with dates is named as one.
"""

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from linkage_data import febrl, historical, leave_out, voters
from scipy.stats import binomtest

from privet.attacks.linkage.records import DateComparison, RecordLinkage
from privet.published_tables import PublishedTable


def interval(hits):
    hits = np.asarray(hits)
    if len(hits) == 0:
        return "—"
    low, high = binomtest(int(hits.sum()), len(hits)).proportion_ci(method="exact")
    return f"{hits.mean():.4f} [{low:.4f}, {high:.4f}]"


def f1(right, claimed, inside, generator):
    """2 · right / (claimed + inside), and its interval over 1,000 resamples of the known people."""

    def score(rows):
        return 2 * right[rows].sum() / (claimed[rows].sum() + inside[rows].sum())

    count = len(right)
    draws = [score(generator.integers(0, count, count)) for _ in range(1000)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return f"{score(np.arange(count)):.4f} [{low:.4f}, {high:.4f}]"


def ours(case, *, one_to_one=False, absent_rate=None):
    tables = [
        PublishedTable.of(
            {name: list(frame[name].astype(object).where(frame[name].notna(), None)) for name in frame}
        )
        for frame in (case.published, case.known)
    ]
    dates = {name: DateComparison() for name, kind in case.kinds.items() if kind == "date"}
    started = time.process_time()
    attack = RecordLinkage(comparisons=dates, one_to_one=one_to_one, absent_rate=absent_rate)
    links = attack.link(*tables)
    return links.best, links.rows, time.process_time() - started


def splink(case, python):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, frame in (("published", case.published), ("known", case.known)):
            frame.rename_axis("unique_id").reset_index().to_csv(folder / f"{title}.csv", index=False)
        (folder / "kinds.json").write_text(json.dumps(case.kinds))
        subprocess.run([python, str(Path(__file__).parent / "splink_peer.py"), name], check=True)
        pairs = pd.read_csv(folder / "splink.csv")
        seconds = json.loads((folder / "splink.json").read_text())["seconds"]
    flipped = pairs["source_dataset_l"] != "published"
    known = np.where(flipped, pairs["unique_id_l"], pairs["unique_id_r"])
    rows = np.where(flipped, pairs["unique_id_r"], pairs["unique_id_l"])
    order = np.argsort(pairs["match_weight"].to_numpy(), kind="stable")
    best, chance = np.full(len(case.known), -1), np.zeros(len(case.known))
    best[known[order]], chance[known[order]] = rows[order], pairs["match_probability"].to_numpy()[order]
    return best, np.where(chance > 0.5, best, -1), seconds


def main(arguments):
    contestants = {
        "Privet": ours,
        "Privet, absent ≤ 1 %": lambda case: ours(case, absent_rate=0.01),
        "Privet, one to one": lambda case: ours(case, one_to_one=True),
    }
    if arguments.splink:
        contestants["Splink 5"] = lambda case: splink(case, arguments.splink)
    everybody = febrl()
    cases = {
        "FEBRL4": [everybody],
        "FEBRL4, half left out": [
            leave_out(everybody, np.random.default_rng(1000 + seed)) for seed in range(arguments.seeds)
        ],
        "historical figures, half left out": [
            leave_out(historical(np.random.default_rng(2000 + seed)), np.random.default_rng(seed))
            for seed in range(arguments.seeds)
        ],
    }
    for rate in (0.05, 0.15, 0.3):
        cases[f"voters, errors {100 * rate:.0f} %, half left out"] = [
            leave_out(voters(np.random.default_rng(3000 + seed), rate=rate), np.random.default_rng(seed))
            for seed in range(arguments.seeds)
        ]
    for title, draws in cases.items():
        for name, run in contestants.items():
            best, rows, truth, seconds = [], [], [], []
            for case in draws:
                found = run(case)
                best.append(found[0])
                rows.append(found[1])
                seconds.append(found[2])
                truth.append(case.truth)
            best, rows, truth = np.concatenate(best), np.concatenate(rows), np.concatenate(truth)
            inside, claimed = truth >= 0, rows >= 0
            right = inside & (rows == truth)
            print(
                f"{title:38} | {name:20} | F1 {f1(right, claimed, inside, np.random.default_rng(0))} | "
                f"top-1 {interval(best[inside] == truth[inside])} | found {interval(right[inside])} | "
                f"absent found {interval(claimed[~inside])} | {np.median(seconds):.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--splink", metavar="PYTHON", help="an interpreter with splink 5")
    main(parser.parse_args())
