"""Attack by defence on two real datasets: every attack of ``compare_federated`` on live runs, under seven defences.

    OMP_NUM_THREADS=1 python bench/federated/attacks.py ../shared/data --out attacks.json

Location30 (places that people visited, 30 kinds of people) and Retail600 (items of real baskets, 50 kinds of baskets):
24 clients with 12 records each, 144 targets, a network with one hidden layer of 32. What is finished is in the file
at once, and the same command goes on from there. Noise, masks and keys are fresh, so figures under them differ a
little from run to run.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from privet.federated import FedAvg
from privet.pipeline.federated_attacks import FederatedAttackPlan
from privet.pipeline.federated_comparison import attack_defence, join_defences
from privet.pipeline.federated_defences import list_federated_defences
from privet.pipeline.federated_game import draw_federated_game
from privet.scores import Records

CLIENTS, OWN, SLOTS = 24, 6, 6
ROUNDS, HIDDEN, RATE = 10, 32, 1.0
EPSILON, DELTA, CLIP = 8.0, 1e-3, 1.0
MARKED = 12  # columns that are 1 in all of a client's own records, where it has the property
SEED = 3


def load_records(folder, name):
    if name == "location30":
        kept = np.load(folder / "location30.npz")
        labels = kept["y"].astype(np.int64)
        return Records(kept["x"].astype(np.float32), labels - labels.min())
    kept = np.load(folder / "retail600_purchaselike.npz")
    packed = next(kept[key] for key in kept.files if kept[key].ndim == 2)
    chosen = np.random.default_rng(0).permutation(len(packed))[:4000]
    inputs = np.unpackbits(packed[chosen], axis=1)[:, :600].astype(np.float32)
    return Records(inputs, kept["y50"][chosen].astype(np.int64))


def mark(inputs):
    marked = inputs.copy()
    marked[:, :MARKED] = 1.0
    return marked


def plan_attacks(records):
    width, classes = records.inputs.shape[1], int(records.labels.max()) + 1

    def make_model():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return nn.Sequential(nn.Linear(width, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))

    return FederatedAttackPlan(
        make_model=make_model,
        rounds=ROUNDS,
        training=FedAvg(epochs=1, batch_size=OWN + SLOTS, learning_rate=RATE),
        watched=5,
        active_from=2,
        simulations=40,
        tolerance=0.1,
        seed=SEED,
    )


def write_page(found):
    """The tables of docs/benchmarks-federated.md."""
    lines = []
    for name, rows in found.items():
        keys = [attack["attack"] for attack in next(iter(rows.values()))["attacks"]]
        lines += [f"## {name}", ""]
        lines.append("| defence | test accuracy | ε of a client | " + " | ".join(keys) + " |")
        lines.append("|" + "---|" * (3 + len(keys)))
        for defence, run in rows.items():
            epsilon = "no proof" if run["epsilon_proved"] is None else f"≤ {EPSILON:g}"
            cells = [_write_cell(attack) for attack in run["attacks"]]
            accuracy = f"{100 * run['test_accuracy']:.0f} %"
            lines.append(f"| {defence} | {accuracy} | {epsilon} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _write_cell(attack):
    low, high = (round(100 * end) for end in attack["success_interval"])
    ceiling = attack["sure_ceiling"]
    proved = "" if ceiling is None else f"; ≤ {math.ceil(1000 * ceiling) / 10:.1f}"
    return f"{100 * attack['success']:.0f} [{low}, {high}] / {100 * attack['baseline']:.0f}{proved}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("federated-attacks.json"))
    parser.add_argument("--datasets", nargs="*", default=["location30", "retail600"])
    parser.add_argument(
        "--page", action="store_true", help="print the tables of what is in --out, and measure nothing"
    )
    options = parser.parse_args()
    if options.page:
        print(write_page(json.loads(options.out.read_text())))
        return 0
    if not options.folder.is_dir():
        print(f"{options.folder} is not there: nothing to measure.", file=sys.stderr)
        return 1
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.datasets:
        records = load_records(options.folder, name)
        game = draw_federated_game(records, clients=CLIENTS, own=OWN, slots=SLOTS, seed=SEED, mark=mark)
        plan = plan_attacks(records)
        rows = found.setdefault(name, {})
        for defence in list_federated_defences(
            clients=CLIENTS, epsilon=EPSILON, delta=DELTA, clip=CLIP, everything=True
        ):
            if defence.name in rows:
                continue
            began = time.process_time()
            attacked = attack_defence(plan, game, defence)
            row = join_defences(plan, game, [attacked]).to_plain()["runs"][0]
            row["processor_seconds"] = round(time.process_time() - began, 1)
            rows[defence.name] = row
            options.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
            print(name, defence.name, f"{row['processor_seconds']} s", flush=True)
            for attack in row["attacks"]:
                low, high = attack["success_interval"]
                print(
                    f"    {attack['attack']:32} {attack['success']:.3f} [{low:.3f}, {high:.3f}] against "
                    f"{attack['baseline']:.3f}, ceiling {attack['sure_ceiling']}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
