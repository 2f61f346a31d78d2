"""Accuracy at a given ε on real data, by one table.

    OMP_NUM_THREADS=1 .venv/bin/python bench/utility/run.py [--only adult mnist tanh imdb] [--repetitions 3]
                                                            [--cache FOLDER] [--markdown docs/benchmarks-utility.md]

Needs scikit-learn, pandas, polars and torch, as ``make test`` installs them, and the data folder beside the repository.
"""

import argparse
import os
import platform
import time
from pathlib import Path

import adult
import imdb
import mnist
import torch
from outcome import Outcome, table

from privet import __version__

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
NAMES = ("adult", "mnist", "tanh", "imdb")
DEFAULT = ("adult", "mnist", "imdb")  # the tanh network takes longer than the others together


def bars(outcomes: dict[str, Outcome]) -> list[str]:
    """What the project wants of each, and whether the mean of the runs reaches it."""
    held = {
        name: sum(outcome.accuracies) / len(outcome.accuracies) * 100 for name, outcome in outcomes.items()
    }
    lines = []
    if "adult" in held:
        lost = 100 * outcomes["adult"].plain - held["adult"]
        lines.append((lost <= 0.5, f"Adult: within 0.5 points of the non-private model: {lost:.2f}"))
    if "mnist" in held:
        lines.append((held["mnist"] >= 98.1, f"MNIST: at least 98.1 %: {held['mnist']:.2f}"))
    if "imdb" in held:
        lines.append((held["imdb"] >= 80, f"IMDB: well above 75 %, taken as 80: {held['imdb']:.2f}"))
    for outcome in outcomes.values():
        enough = outcome.proved <= outcome.epsilon * (1 + 1e-9)
        lines.append((enough, f"{outcome.dataset}, {outcome.model}: proved ε within the one asked for"))
    return [f"- {'PASS' if passed else 'FAIL'}  {line}" for passed, line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=DEFAULT)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--cache", type=Path, help="a folder in which features of images are kept")
    parser.add_argument("--markdown", type=Path)
    asked = parser.parse_args()
    ways = {
        "adult": lambda: adult.measured(asked.repetitions),
        "mnist": lambda: mnist.measured("scattering", asked.repetitions, cache=asked.cache),
        "tanh": lambda: mnist.measured("tanh", asked.repetitions, cache=asked.cache),
        "imdb": lambda: imdb.measured(asked.repetitions),
    }
    outcomes = {}
    for name in asked.only:
        outcomes[name] = ways[name]()
        print(table([outcomes[name]]), flush=True)
    runs = [
        f"- {outcome.dataset}, {outcome.model}: {', '.join(f'{100 * score:.2f}' for score in outcome.accuracies)}"
        for outcome in outcomes.values()
    ]
    text = "\n".join(
        [
            f"- Date: {time.strftime('%Y-%m-%d')}",
            f"- Machine: {os.cpu_count()} cores; {torch.get_num_threads()} thread of torch; load average "
            f"{os.getloadavg()[0]:.1f} at the end",
            f"- Python {platform.python_version()}; privet {__version__}, torch {torch.__version__}",
            *bars(outcomes),
            "",
            table(list(outcomes.values())),
            "",
            "Every run:",
            "",
            *runs,
        ]
    )
    print(text)
    if asked.markdown:
        before, rest = asked.markdown.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        asked.markdown.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
