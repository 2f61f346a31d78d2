"""Attacks on synthetic tables: Privet beside Anonymeter 1.1.0, on the same tables, in one run.

    python -m venv /tmp/bench-published-venv-synth && /tmp/bench-published-venv-synth/bin/pip install anonymeter==1.1.0
    python bench/published/synthetic.py [--rows 4000] [--attempts 1000] [--only adult] [--picture docs/pictures/attacks-synthetic.svg]

Adult (ten columns, secret: income) and PUMS of California (nine columns, secret: married). ``rows`` people are the original, as many the
control. Generators: a copy; a bootstrap in which 5 or 30 % of the values are exchanged between rows; columns drawn independently; 5 % of
rows copied, the others fresh people; fresh people alone; MST and AIM at ε = 1, 10, 1000 (δ = 10⁻⁹, add-remove). The figures are success of the
original, success of the control, and the difference with its exact 95 % interval. Anonymeter's counts get the same interval.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "synthetic"))
import adult  # noqa: E402 - the domain of bench/synthetic

from privet.accounting import account  # noqa: E402
from privet.adjacency import AddRemove  # noqa: E402
from privet.attacks.synthetic import (  # noqa: E402
    ShadowGenerators,
    SinglingOut,
    attack_synthetic,
    name_members,
)
from privet.auditing import measure, measure_recoveries  # noqa: E402
from privet.auditing.differences import difference_of_shares  # noqa: E402
from privet.events import Opaque  # noqa: E402
from privet.published_tables import PublishedTable  # noqa: E402
from privet.releasing.synthetic import AIM, MST, Bins, Categories, Domain, all_marginals  # noqa: E402

PEER = Path("/tmp/bench-published-venv-synth/bin/python")
PUMS = Domain(
    (
        Categories("puma", tuple(range(60100, 68300, 100)), others_to_last=True),
        Categories("sex", (0, 1)),
        Bins("age", (18.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 65.0, 75.0, 100.0)),
        Categories("educ", tuple(range(1, 17))),
        Bins("income", (-1e5, 0.0, 5e3, 1e4, 2e4, 3e4, 4e4, 6e4, 1e5, 1e6)),
        Categories("latino", (0, 1)),
        Categories("black", (0, 1)),
        Categories("asian", (0, 1)),
        Categories("married", (0, 1)),
    )
)
TABLES = {
    "adult": ("adult.csv.gz", Domain(adult.COLUMNS), "income"),
    "pums": ("pums5_extract10k.csv.gz", PUMS, "married"),
}


def main():
    warnings.filterwarnings("ignore")
    options = _options()
    shown = {}
    for name, (file, domain, secret) in TABLES.items():
        if options.only not in (None, name):
            continue
        people = pd.read_csv(options.data / file)[[column.name for column in domain.columns]]
        people = people.iloc[np.random.default_rng(0).permutation(len(people))].reset_index(drop=True)
        rows = min(options.rows, len(people) // 2)
        original, control, fresh = people[:rows], people[rows : 2 * rows], people[2 * rows : 3 * rows]
        made = dict(generate_all(original, fresh, domain, options))
        with tempfile.TemporaryDirectory() as folder:
            peers = ask_anonymeter(Path(folder), made, original, control, secret, options.attempts)
        print(f"\n### {name}: {rows:,} people on each side\n", flush=True)
        shown[name] = compare(made, original, control, secret, peers, options.attempts)
        attack_generators(original, control, domain, options)
    if options.picture:
        draw(shown, options.picture)


def generate_all(original, fresh, domain, options):
    generator = np.random.default_rng(1)
    yield "copy", original
    yield "bootstrap, 5 % exchanged", bootstrap(original, 0.05, generator)
    yield "bootstrap, 30 % exchanged", bootstrap(original, 0.3, generator)
    yield "independent columns", independent(original, generator)
    if len(fresh) >= len(original) // 2:
        count = len(original) // 20
        yield "5 % copied, others fresh", pd.concat([original[:count], fresh[count:]], ignore_index=True)
        yield "fresh people", fresh.reset_index(drop=True)
    for method in ("MST", "AIM"):
        for epsilon in options.epsilons:
            began = time.process_time()
            released = mechanism(method, domain, epsilon).release(original)
            print(
                f"{method} at {epsilon:g}: {time.process_time() - began:.1f} s", file=sys.stderr, flush=True
            )
            yield f"{method}, ε = {epsilon:g}", pd.DataFrame(released.sample(len(original), generator))


def mechanism(method, domain, epsilon):
    common = {"domain": domain, "epsilon": epsilon, "delta": 1e-9, "adjacency": AddRemove()}
    return MST(**common) if method == "MST" else AIM(workload=all_marginals(domain, 2), **common)


def bootstrap(table, share, generator):
    drawn = table.iloc[generator.integers(0, len(table), len(table))].reset_index(drop=True)
    for name in drawn.columns:
        chosen = generator.random(len(drawn)) < share
        drawn.loc[chosen, name] = generator.permutation(drawn[name].to_numpy())[chosen]
    return drawn


def independent(table, generator):
    return pd.DataFrame({name: generator.permutation(table[name].to_numpy()) for name in table})


def ask_anonymeter(folder, made, original, control, secret, attempts):
    """generator → risk → counts of hits and trials on both sides, or the error."""
    if not PEER.exists():
        print("Anonymeter is not installed; see the docstring of this file.", file=sys.stderr)
        return {}
    original.to_parquet(folder / "original.parquet")
    control.reset_index(drop=True).to_parquet(folder / "control.parquet")
    for place, table in enumerate(made.values()):
        table.reset_index(drop=True).to_parquet(folder / f"made-{place:02}.parquet")
    command = [PEER, HERE / "anonymeter_peer.py", folder, secret, str(attempts)]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    found = {}
    for line in map(json.loads, lines):
        found.setdefault(list(made)[int(line["generator"])], {})[line["risk"]] = line
    return found


def compare(made, original, control, secret, peers, attempts):
    print(
        "| generator | attack | Privet: in / out | leak | ceiling | Anonymeter: in / out | leak |\n"
        "|---|---|---|---|---|---|---|"
    )
    shown, seconds = {}, [0.0, 0.0]
    for name, table in made.items():
        began = time.process_time()
        found = attack_synthetic(table, original, control, secret=secret, targets=attempts)
        seconds[0] += time.process_time() - began
        measured = {each.attack: measure_recoveries(each) for each in found.recoveries}
        shown[name] = measured
        for attack, ours in measured.items():
            risk = "inference" if attack.startswith("inference") else attack
            theirs = peers.get(name, {}).get(risk)
            seconds[1] += theirs["seconds"] if theirs else 0.0
            print(
                f"| {name} | {attack} | {ours.success.value:.3f} / {ours.baseline.value:.3f} | {write(ours.leak)} "
                f"| {ceiling(name, ours)} | {other(theirs)} |",
                flush=True,
            )
        for width in (1, 3):
            counts = SinglingOut(width, attempts).run_with_counts(
                *map(PublishedTable.of, (table, original, control))
            )
            print(f"| {name} | predicates of {width} | {counts.counts} | | | |")
        for scores in found.scores:
            print(f"| {name} | {scores.attack}: AUC | {measure(scores).auc} | | | |")
        print(f"| {name} | distances | {found.distances} | | | |", flush=True)
    print(f"\nProcessor seconds of all attacks: Privet {seconds[0]:.0f}, Anonymeter {seconds[1]:.0f}.")
    return shown


def ceiling(name, measured):
    """Of the (ε, δ) that a generator promises; its formula."""
    if "ε = " not in name:
        return ""
    promise = Opaque(epsilon=float(name.rpartition(" ")[2]), delta=1e-9)
    return f"{measured.ceiling(account(promise, adjacency=AddRemove())):.3f}"


def write(rate):
    return f"{rate.value:+.3f} [{rate.lower:+.3f}, {rate.upper:+.3f}]"


def other(theirs):
    if theirs is None:
        return " | "
    if isinstance(theirs["counts"], str):
        return f"{theirs['counts'][:60]} | "
    hits, others, trials, other_trials = theirs["counts"]
    leak = difference_of_shares(hits, trials, min(others, other_trials), other_trials, 0.95)
    return f"{hits / trials:.3f} / {others / other_trials:.3f} | {write(leak)}"


def attack_generators(original, control, domain, options):
    """Shadow generators, on fewer people: AUC of the scores."""
    count = min(options.shadow_rows, len(original))
    original, control = (PublishedTable.of(side[:count]) for side in (original, control))

    def release(epsilon):
        def generate(table, rng):
            return mechanism("MST", domain, epsilon).release(dict(table)).sample(count, rng)

        return generate

    generators = {
        "bootstrap, 30 % exchanged": lambda table, rng: bootstrap(pd.DataFrame(dict(table)), 0.3, rng),
        "independent columns": lambda table, rng: independent(pd.DataFrame(dict(table)), rng),
        **{f"MST, ε = {epsilon:g}": release(epsilon) for epsilon in (1.0, 1000.0)},
    }
    print(
        f"\nShadow generators, {count:,} people on each side, 16 runs:\n\n| generator | AUC | named tenth: leak |\n|---|---|---|"
    )
    for name, generate in generators.items():
        table = {column.name: column.values for column in original.columns}
        table = {
            key: np.where(original[key].missing, None, value) if value.dtype == object else value
            for key, value in table.items()
        }
        synthetic = PublishedTable.of(generate(table, np.random.default_rng(2)))
        scores = ShadowGenerators(generate).run(synthetic, original, control)
        print(
            f"| {name} | {measure(scores).auc} | {write(measure_recoveries(name_members(scores)).leak)} |",
            flush=True,
        )


def draw(shown, path):
    """Success and baseline of four attacks for each generator of the first table."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    (title, found), *_ = shown.items()
    attacks = [
        "singling out, 3 columns",
        "linkability",
        "nearest records",
        "density ratio by a tree of pairs",
    ]
    figure, axes = plt.subplots(1, len(attacks), figsize=(11, 4.2), sharey=True)
    places = np.arange(len(found))[::-1]
    for axis, attack in zip(axes, attacks, strict=True):
        for place, measured in zip(places, found.values(), strict=True):
            each = measured[attack]
            axis.plot(
                [each.baseline.value, each.success.value], [place, place], color="#b0b8c4", lw=3, zorder=1
            )
            axis.errorbar(
                each.success.value,
                place,
                xerr=[[each.success.value - each.success.lower], [each.success.upper - each.success.value]],
                fmt="o",
                ms=5,
                color="#c2410c" if each.leak.lower > 0 else "#475569",
                zorder=3,
            )
            axis.plot(each.baseline.value, place, "|", ms=11, mew=2, color="#1d4ed8", zorder=2)
        axis.set_title(attack, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="x", alpha=0.25)
        axis.set_xlim(left=0)
    axes[0].set_yticks(places, list(found), fontsize=8)
    figure.text(
        0.5,
        0.01,
        f"{title.title()}: share of people hit. Bar: people of the control. Dot: people of the original, with a 95 % interval; "
        f"orange where a leak is shown.",
        ha="center",
        fontsize=8,
    )
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(path, metadata={"Date": None})


def _options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--attempts", type=int, default=1000)
    parser.add_argument("--shadow-rows", type=int, default=1000)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0, 1000.0])
    parser.add_argument("--only", choices=list(TABLES))
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--data", type=Path, default=adult.DATA.parent, help="the folder of the files")
    return parser.parse_args()


if __name__ == "__main__":
    main()
