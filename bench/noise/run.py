"""How many numbers a second: Privet's samplers beside their peers, in one process and in turns.

    bench/noise/run.sh [--quick] [--markdown docs/noise.md]

Processor time is measured, and the best of several runs of each counts. A peer that cannot be imported or fails is shown as such.
"""

import argparse
import datetime
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from samplers import EVERY, GAUSSIAN, LAPLACE, OpenDP, Privet, Sampler

from privet.mechanisms.sampling import bernoulli, choose, cumulative_table, noise, uniform_integers
from privet.randomness import SecureNoise

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
SCALES = {
    "0.01": 0.01,
    "1": 1.0,
    "10": 10.0,
    "100": 100.0,
    "1e3": 1e3,
    "1e4": 1e4,
    "1e6": 1e6,
    "2^50": 2.0**50,
}
BAR, BAR_SCALES = 1e7, ("1", "10", "100", "1e3", "1e4")


def main() -> None:
    options = _options()
    rounds = 3 if options.quick else 25
    samplers, missing = _loaded()
    rates = {
        (law, label): _race(samplers, law, scale, rounds)
        for law in (LAPLACE, GAUSSIAN)
        for label, scale in SCALES.items()
    }
    lines = [
        *_tables(samplers, rates),
        "### Other draws",
        "",
        *_others(rounds),
        "",
        *(f"- {line}" for line in [*_verdicts(samplers, rates), *missing, *_machine()]),
    ]
    text = "\n".join(lines)
    print(text)
    if options.markdown:
        page = options.markdown.read_text(encoding="utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        options.markdown.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="3 runs of each instead of 25")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results section of this page"
    )
    return parser.parse_args()


def _loaded() -> tuple[list[Sampler], list[str]]:
    ready, missing = [], []
    for sampler in EVERY:
        try:
            sampler.load()
        except Exception as broken:
            missing.append(f"{sampler.name} is missing: {type(broken).__name__}: {broken}")
        else:
            ready.append(sampler)
    return ready, missing


def _race(samplers: list[Sampler], law: str, scale: float, rounds: int) -> dict[str, float | str]:
    """Numbers a second of each: rounds in which each draws once, so that a busy moment hits all alike."""
    best: dict[str, float | str] = {}
    for _ in range(rounds):
        for sampler in samplers:
            if isinstance(best.get(sampler.name), str):
                continue
            try:
                seconds = _seconds(lambda sampler=sampler: sampler.draw(law, scale, sampler.size))
            except NotImplementedError:
                best[sampler.name] = "–"
            except Exception as broken:
                best[sampler.name] = type(broken).__name__
            else:
                best[sampler.name] = max(best.get(sampler.name, 0.0), sampler.size / seconds)
    print(f"… {law} {scale:g}", file=sys.stderr, flush=True)
    return best


def _seconds(work: Callable[[], object]) -> float:
    """Processor time, in which waiting for other programs does not count; all samplers use one core."""
    start = time.process_time()
    work()
    return time.process_time() - start


def _tables(samplers: list[Sampler], rates: dict[tuple[str, str], dict[str, float | str]]) -> list[str]:
    lines = []
    for law in (LAPLACE, GAUSSIAN):
        lines += [f"### {law[0].upper()}{law[1:]}: millions of numbers a second", ""]
        lines += [_line(["", *SCALES, "promise"]), _line(["---"] * (len(SCALES) + 2))]
        for sampler in samplers:
            cells = [rates[law, label][sampler.name] for label in SCALES]
            shown = [cell if isinstance(cell, str) else f"{cell / 1e6:.3g}" for cell in cells]
            lines.append(_line([sampler.name, *shown, sampler.promise]))
        lines.append("")
    return lines


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _others(rounds: int) -> list[str]:
    source = SecureNoise()
    scores = -np.random.default_rng(0).random(100_000) * 50

    def fresh(law: Callable[[float, bool], object], scale: float) -> None:
        law.cache_clear()
        cumulative_table.make_table.cache_clear()
        law(scale, False).draw(1, source)

    def best(work: Callable[[], object]) -> float:
        return min(_seconds(work) for _ in range(rounds))

    rows = [
        ("`SecureNoise.bits`, words", f"{1e6 / best(lambda: source.bits(1_000_000)) / 1e6:.3g} million/s"),
        ("`bernoulli(0.3)`", f"{1e6 / best(lambda: bernoulli(0.3, 1_000_000, source)) / 1e6:.3g} million/s"),
        ("`uniform_integers(10**6)`", f"{1e6 / best(lambda: uniform_integers(10**6, 1_000_000, source)) / 1e6:.3g} million/s"),
        ("`choose` among 100", f"{best(lambda: choose(scores[:100], source)) * 1e6:.0f} µs"),
        ("`choose` among 100,000", f"{best(lambda: choose(scores, source)) * 1e3:.1f} ms"),
        ("one Laplace number, new scale 12345.6", f"{best(lambda: fresh(noise._laplace_sampler, 12345.6)) * 1e3:.2f} ms"),
        ("one Gaussian number, new scale 12345.6", f"{best(lambda: fresh(noise._gaussian_sampler, 12345.6)) * 1e3:.2f} ms"),
        ("one Laplace number, table kept", f"{best(lambda: noise.discrete_laplace(12345.6, 1, source)) * 1e6:.0f} µs"),
    ]  # fmt: skip
    return [_line(["what", "best"]), _line(["---", "---"]), *(_line(list(row)) for row in rows)]


def _verdicts(samplers: list[Sampler], rates: dict[tuple[str, str], dict[str, float | str]]) -> list[str]:
    lines = []
    for law in (LAPLACE, GAUSSIAN):
        slowest = min(rates[law, label][Privet().name] for label in BAR_SCALES)
        word = "PASS" if slowest >= BAR else "FAIL"
        lines.append(f"{word}  {law}, scales 1 … 1e4: at least 1e7 numbers a second: {slowest:.2g}")
        if any(isinstance(sampler, OpenDP) for sampler in samplers):
            ratios = [rates[law, label]["Privet"] / rates[law, label]["OpenDP"] for label in BAR_SCALES]
            lines.append(f"{law}, scales 1 … 1e4: {min(ratios):.0f} to {max(ratios):.0f} times OpenDP")
    return lines


def _machine() -> list[str]:
    model = "unknown processor"
    if Path("/proc/cpuinfo").exists():
        names = [
            line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0].split(":")[1].strip() if names else model
    versions = []
    for package in ("numpy", "privet", "opendp", "diffprivlib"):
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} missing")
    return [
        f"{datetime.date.today().isoformat()}; {os.cpu_count()} cores, {model}, one used; "
        f"load average {os.getloadavg()[0]:.1f} at the end",
        f"Python {platform.python_version()}; {', '.join(versions)}",
    ]


if __name__ == "__main__":
    main()
