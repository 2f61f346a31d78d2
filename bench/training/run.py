"""Private training beside its peers and beside plain torch, interleaved in one run: a full step, model by model.

    bench/training/run.sh [--table foreign] [--quick] [--models mlp-50 gpt] [--lots 64 256] [--markdown docs/benchmarks-training.md]

Every contestant has a fresh process for each model and lot, and they take turns, round by round. A step is forward, backward,
clip, noise and SGD update, on a lot that is in memory. What is there is written after every model and lot, and when the run
is interrupted.
"""

import argparse
import datetime
import json
import os
import platform
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

import torch
from catalogue import TABLES, TASKS
from contestants import CONTESTANTS, IN_TORCH, PLAIN, SECURE, entrants
from extras import Extras, extras
from race import Cell, Pace, agreements, race, say
from tables import Agreements, report

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PACKAGES = (
    "torch",
    "opacus",
    "backpack-for-pytorch",
    "jax",
    "jax-privacy",
    "numba",
    "cryptography",
    "privet",
    "fastDP",
    "private-transformers",
    "transformers",
    "timm",
)
IDLE = 0.3  # load average for each core above which figures are to be doubted


class Results:
    """Everything so far, and where it is written."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.began = options, time.monotonic()
        self.loads = [os.getloadavg()[0]]
        self.agreements: Agreements = {}
        self.cells: list[Cell] = []
        self.extras: Extras | None = None
        self.finished = False

    def text(self) -> str:
        return report(self._facts(), self.agreements, self.cells, self.extras)

    def write(self) -> None:
        if self.options.markdown:
            page = self.options.markdown
            old = (
                page.read_text(encoding="utf-8")
                if page.exists()
                else "# Private training beside its peers\n\n"
            )
            before, after = old.partition(BEGIN)[0], old.partition(END)[2] or "\n"
            page.write_text(f"{before}{BEGIN}\n\n{self.text()}\n\n{END}{after}", encoding="utf-8")
        if self.options.json:
            self.options.json.write_text(json.dumps(self._plain(), indent=1), encoding="utf-8")

    def _plain(self) -> dict[str, object]:
        return {
            "facts": self._facts(),
            "agreement": [[*key, value] for key, value in self.agreements.items()],
            "cells": [asdict(cell) for cell in self.cells],
            "extras": None if self.extras is None else asdict(self.extras),
        }

    def _facts(self) -> list[str]:
        cores, loads = os.cpu_count() or 1, self.loads
        facts = [
            f"Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}; {(time.monotonic() - self.began) / 60:.1f} minutes",
            f"Machine: {cores} cores, {_processor()}; {self.options.threads} threads; load average {loads[0]:.1f} at the start, "
            f"{max(loads):.1f} at most",
            f"Python {platform.python_version()}; {', '.join(_versions())}",
        ]
        if self.options.cpu_time:
            facts.append(
                "Times of steps are those of the processor, of all threads together, and not of the clock."
            )
        if loads[0] > IDLE * cores:
            facts.append(
                "**The machine was not idle at the start: times are too long, and ratios are rough.**"
            )
        if not self.finished:
            facts.append("**Not the whole run: it was interrupted, or is still going on.**")
        return facts


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    results = Results(options)
    if results.loads[0] > IDLE * (os.cpu_count() or 1):
        print(f"warning: load average {results.loads[0]:.1f}; figures want an idle machine", file=sys.stderr)
    try:
        _measure(results, options)
        results.finished = True
    except KeyboardInterrupt:
        print("\ninterrupted; this is what there is", file=sys.stderr)
    say("")
    results.write()
    print(f"\n{results.text()}")


def _measure(results: Results, options: argparse.Namespace) -> None:
    foreign = options.table == "foreign"
    wanted = options.only or (IN_TORCH if foreign else CONTESTANTS)
    names = [n for n in CONTESTANTS if n in wanted or n in (PLAIN, SECURE)]
    if not foreign:
        results.extras = extras(options.models, options.threads, quick=options.quick)
    results.write()
    cells = [(m, lot) for m in options.models for lot in _lots(m, options)]
    slow: dict[str, set[str]] = {model: set() for model in options.models}
    broken: set[str] = set()
    for place, (model, lot) in enumerate(cells):
        start = time.monotonic()
        if place == 0 or cells[place - 1][0] != model:
            broken = _disagreeing(results, names, model, options.threads)
        left = 60 * options.minutes - (start - results.began)
        pace = _pace(left / (len(cells) - place), options)
        only = [n for n in entrants(TASKS[model]) if n in names and n not in broken]
        if left < 0:  # compiling takes longest; better no JAX in the last lines than no last lines
            only = [n for n in only if "jax" not in n.lower()]
        if foreign:
            exact = agreements([SECURE], [model], options.threads, lot)[SECURE, model]
            results.agreements[f"{SECURE}, lot {lot}", model] = exact
        cell = race(model, lot, pace, slow[model], only)
        following = cells[place + 1][1] if place + 1 < len(cells) else lot
        for name, times in cell.times.items():
            # What takes too long here, or will in the next lot, is not tried again.
            if times.slow or times.first * max(1.0, following / lot) > 1.5 * options.cap:
                slow[model].add(name)
        results.cells.append(cell)
        results.loads.append(os.getloadavg()[0])
        results.write()
        ratios = ", ".join(f"{n} {r:.2f}" for n in cell.times if (r := cell.ratio(n)) is not None)
        say("")
        took = time.monotonic() - start
        print(f"{model}, lot {lot} ({took:.0f} s): {ratios}", file=sys.stderr, flush=True)


def _disagreeing(results: Results, names: list[str], model: str, threads: int) -> set[str]:
    """Who computes something else than the loop over examples: they are not raced.

    Privet is, unless it fails, and its cells are shown with what is wrong.
    """
    judged = [name for name in names if not name.startswith("plain")]
    found = agreements(judged, [model], threads)
    results.agreements.update(found)
    for (name, _), value in found.items():
        if isinstance(value, str):
            print(f"{name} on {model}: {value}", file=sys.stderr, flush=True)
    return {
        name
        for (name, _), value in found.items()
        if isinstance(value, str) or (value > TASKS[model].tolerance and name != SECURE)
    }


def _pace(seconds: float, options: argparse.Namespace) -> Pace:
    """How long the rounds may take, so that the whole run stays within its minutes."""
    rounds = 3 if options.quick else max(3, min(9, int(seconds / 7)))
    return Pace(rounds, 0.05 if options.quick else 0.12, options.cap, options.threads, options.cpu_time)


def _lots(model: str, options: argparse.Namespace) -> list[int]:
    if options.lots:
        return list(options.lots)
    return list(TASKS[model].lots[: 2 if options.quick else None])


def _versions() -> list[str]:
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"{package} not installed")
    return found


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line for line in lines if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor() or "unknown processor"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rounds, the two smaller lots")
    parser.add_argument(
        "--table",
        choices=list(TABLES),
        default="own",
        help="our models, or those that others wrote (one thread)",
    )
    parser.add_argument("--models", nargs="+", choices=[m for names in TABLES.values() for m in names])
    parser.add_argument("--lots", nargs="+", type=int, help="instead of each model's own")
    parser.add_argument(
        "--only", nargs="+", choices=list(CONTESTANTS), help="contestants beside plain torch and Privet"
    )
    parser.add_argument("--threads", type=int, help="default: torch's; one for foreign models")
    parser.add_argument(
        "--cpu-time", action="store_true", help="time the processor and not the clock, for busy machines"
    )
    parser.add_argument(
        "--cap", type=float, default=3.0, help="seconds of the slowest step that is raced (default: 3)"
    )
    parser.add_argument(
        "--minutes", type=float, default=17.0, help="rounds get fewer to stay within (default: 17)"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results section of this page"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    foreign = options.table == "foreign"
    options.models = options.models or list(TABLES[options.table])
    options.threads = options.threads or (1 if foreign else torch.get_num_threads())
    options.cpu_time = options.cpu_time or foreign
    return options


if __name__ == "__main__":
    main()
