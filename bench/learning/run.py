"""Private linear models as they come, on real tables, beside diffprivlib and beside scikit-learn.

    bench/learning/run.sh [--only TABLE …] [--kinds logistic svm ridge bayes] [--repetitions 5] [--markdown FILE]

Each repetition has its own split into rows to learn from and rows to test, and fresh noise. Nothing is chosen on test
rows, but for one line of the peer, which gets the best C of four for each ε, as a favour.
"""

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import astuple
from pathlib import Path
from statistics import mean

import numpy as np
from contestants import DELTA, PRIVATE, measure_model, plain_model, private_model
from scoring import Quality
from tables import REGRESSIONS, SOURCES, Table, load_table

EPSILONS = (0.1, 1.0, 3.0, 10.0, 100.0)
DEVELOPED_ON = ("adult", "compas", "heart", "taxi tip", "adult hours", "german amount", "taxi fare")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
TITLES = {
    "logistic": "Logistic regression",
    "svm": "Linear support vector machine",
    "ridge": "Ridge regression",
    "bayes": "Gaussian naive Bayes",
}


def ask_peer(python: str, kind: str, table: Table) -> list[tuple[float, str, Quality]]:
    """One fit of diffprivlib for each ε."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        np.savez(path, **{name: value for name, value in vars(table).items() if name != "name"})
        command = [python, str(Path(__file__).with_name("peer.py")), str(path), kind, *map(str, EPSILONS)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"The peer failed on {table.name}: {done.stderr.strip().splitlines()[-1]}")
    return [(epsilon, how, Quality(**found)) for epsilon, how, found in json.loads(done.stdout)]


def measure_table(
    kind: str, name: str, repetitions: int, peer: str | None
) -> dict[tuple[str, float], list[Quality]]:
    """Every contestant at every ε; the model that is not private is filed under ε = ∞."""
    found = defaultdict(list)
    for seed in range(repetitions):
        table = load_table(name, seed=seed)
        found["not private", math.inf].append(measure_model(kind, plain_model(kind), table))
        for how in PRIVATE[kind]:
            for epsilon in EPSILONS:
                found[how, epsilon].append(
                    measure_model(kind, private_model(kind, how, table, epsilon), table)
                )
        if peer and kind != "svm":
            for epsilon, how, quality in ask_peer(peer, kind, table):
                found[f"diffprivlib {how}", epsilon].append(quality)
    return found


def kept_or_measured(
    folder: Path | None, kind: str, name: str, repetitions: int, peer: str | None
) -> dict[tuple[str, float], list[Quality]]:
    """What the folder holds of an earlier run, or a measurement that is then kept there."""
    path = None if folder is None else folder / f"{kind} {name}.json"
    if path is not None and path.exists():
        rows = json.loads(path.read_text(encoding="utf-8"))
        return {(how, float(epsilon)): [Quality(*each) for each in values] for how, epsilon, values in rows}
    found = measure_table(kind, name, repetitions, peer)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [(how, str(epsilon), [astuple(q) for q in values]) for (how, epsilon), values in found.items()]
        path.write_text(json.dumps(rows), encoding="utf-8")
    return found


def with_best_strength(
    found: dict[tuple[str, float], list[Quality]],
) -> dict[tuple[str, float], list[Quality]]:
    """diffprivlib with C = 1, which is its default, and with the C of the best mean accuracy for each ε."""
    kept = {key: value for key, value in found.items() if "C=" not in key[0]}
    tried = {key: value for key, value in found.items() if "C=" in key[0]}
    for (how, epsilon), measured in tried.items():
        if how == "diffprivlib C=1":
            kept["diffprivlib", epsilon] = measured
            same = [value for (_, other), value in tried.items() if other == epsilon]
            kept["diffprivlib, best C", epsilon] = max(same, key=lambda each: mean(q.accuracy for q in each))
    return kept


def lines_of_table(kind: str, name: str, found: dict[tuple[str, float], list[Quality]]) -> list[str]:
    """Markdown: a row for each contestant, a column for each ε."""
    size = load_table(name)
    rows, width = size.train.shape
    plain = found["not private", math.inf]
    told = " (development)" if name in DEVELOPED_ON else ""
    lines = [
        f"**{name}**{told}: {rows} rows to learn from, {width} features. Not private: {_cell(kind, plain)}.",
        "",
        "| | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |",
        "|---" * (len(EPSILONS) + 1) + "|",
    ]
    shown = dict.fromkeys(how for how, _ in found if how != "not private")
    for how in shown:
        cells = [_cell(kind, found[how, epsilon]) for epsilon in EPSILONS]
        lines.append(f"| {how} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def _cell(kind: str, found: list[Quality]) -> str:
    first = mean(quality.accuracy for quality in found)
    if kind == "ridge":
        return f"{first:.3f}" if first > -10 else "below −10"
    area, positives = mean(quality.auc for quality in found), mean(quality.positives for quality in found)
    return f"{100 * first:.1f}, {area:.3f}, {100 * positives:.0f}"


def lines_of_means(kind: str, tables: dict[str, dict[tuple[str, float], list[Quality]]]) -> list[str]:
    """The mean over tables: those the rule was developed on, and the others."""
    what = "R²" if kind == "ridge" else "AUC"
    lines = []
    for told, chosen in (("development", True), ("held out", False)):
        names = [name for name in tables if (name in DEVELOPED_ON) == chosen]
        if not names:
            continue
        plain = mean(_main(kind, q) for name in names for q in tables[name]["not private", math.inf])
        lines += [
            f"Mean {what} over the {len(names)} tables of {told} ({', '.join(names)}). Not private: {plain:.3f}.",
            "",
            "| | " + " | ".join(f"ε = {epsilon:g}" for epsilon in EPSILONS) + " |",
            "|---" * (len(EPSILONS) + 1) + "|",
        ]
        for how in dict.fromkeys(how for how, _ in tables[names[0]] if how != "not private"):
            means = [mean(_main(kind, q) for name in names for q in tables[name][how, e]) for e in EPSILONS]
            cells = [f"{value:.3f}" if value > -10 else "below −10" for value in means]
            lines.append(f"| {how} | " + " | ".join(cells) + " |")
        lines.append("")
    return lines


def _main(kind: str, quality: Quality) -> float:
    return quality.accuracy if kind == "ridge" else quality.auc


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=(*SOURCES, *REGRESSIONS))
    parser.add_argument("--kinds", nargs="+", choices=tuple(TITLES), default=tuple(TITLES))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two small tables, two repetitions")
    parser.add_argument("--peer", metavar="PYTHON", help="a Python that has diffprivlib")
    parser.add_argument(
        "--results", type=Path, help="a folder that keeps each table's figures, to go on later"
    )
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    only = ("heart", "german", "german amount") if asked.quick else asked.only
    repetitions = 2 if asked.quick else asked.repetitions
    text = [
        f"- Date: {time.strftime('%Y-%m-%d')}; Python {platform.python_version()}; {os.cpu_count()} cores, loaded.",
        f"- {repetitions} repetitions, each with its own split (70 % to learn from) and fresh noise; δ = {DELTA:g}; replace-one.",
        "- Cells of classifiers: accuracy in %, AUC, rows called positive in %. Cells of regressions: R². Means.",
        "",
    ]
    for kind in asked.kinds:
        names = [
            name for name in (REGRESSIONS if kind == "ridge" else SOURCES) if only is None or name in only
        ]
        tables, details = {}, []
        for name in names:
            tables[name] = with_best_strength(
                kept_or_measured(asked.results, kind, name, repetitions, asked.peer)
            )
            details += lines_of_table(kind, name, tables[name])
            print("\n".join(lines_of_table(kind, name, tables[name])), flush=True)
        if names:
            text += [f"### {TITLES[kind]}", "", *lines_of_means(kind, tables), *details]
    if asked.markdown:
        before, rest = asked.markdown.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        joined = "\n".join(text)
        asked.markdown.write_text(f"{before}{BEGIN}\n\n{joined}\n{END}{after}", encoding="utf-8")
    else:
        print("\n".join(text))


if __name__ == "__main__":
    main()
