"""Results as aligned text for a terminal and as Markdown for docs/benchmarks.md."""

import datetime
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from clock import Result
from questions import Group, NoiseForEpsilon, NoiseForTpr, Setting, Tpr

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
SLACK = 1e-9  # relative; below the truth by more than the reference's last digit and this is unsound


@dataclass(frozen=True)
class Table:
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_text(self) -> str:
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
                 for row in (self.head, tuple("-" * width for width in widths), *self.rows)]  # fmt: skip
        return "\n".join([self.title, "=" * len(self.title), *lines])

    def as_markdown(self) -> str:
        lines = [_line(self.head), _line(tuple("---" for _ in self.head)), *map(_line, self.rows)]
        return "\n".join([f"### {self.title}", "", *lines])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def table_of(group: Group, found: Sequence[tuple[Setting, list[Result]]]) -> Table:
    """One row for each setting and tool; a tool that has no function for the question has no row."""
    rows = [
        _row(setting, result, results[0].best, first=place == 0)
        for setting, results in found
        for place, result in enumerate(result for result in results if result.offered)
    ]
    head = ("setting", "tool", group.unit, "certified gap", "error", "best time", "× Privet", "remark")
    return Table(group.title, head, tuple(rows))


def _row(setting: Setting, result: Result, base: float | None, *, first: bool) -> tuple[str, ...]:
    label = setting.label if first else ""
    if result.answer is None or result.best is None:
        return (label, result.tool.name, "–", "–", "–", "–", "–", result.failure or "no answer")
    value, lower = result.answer
    gap = "–" if lower is None or not value > 0 else f"{(value - lower) / value:.1e}"
    ratio = "–" if base is None else f"{result.best / base:.1f}"
    return (
        label,
        result.tool.name,
        f"{value:.7g}",
        gap,
        _error(setting, value),
        _seconds(result.best),
        ratio,
        _remark(setting, value) + (f"; then {result.failure}" if result.failure else ""),
    )


def _error(setting: Setting, value: float) -> str:
    if setting.reference is None:
        return "–"
    relative = value / setting.reference.value - 1
    shown = f"< {setting.reference.resolution:.0e}"
    return shown if abs(relative) <= setting.reference.resolution else f"{relative:+.2e}"


def _remark(setting: Setting, value: float) -> str:
    """Whether a value that should be an upper bound is one."""
    if isinstance(setting.question, Tpr) and value < setting.question.fpr:
        return "impossible: below the FPR itself"
    if setting.reference is None:
        return ""
    floor = setting.reference.value * (1 - setting.reference.resolution - SLACK)
    if value >= floor:
        return ""
    return (
        "too little noise"
        if isinstance(setting.question, NoiseForEpsilon | NoiseForTpr)
        else "below the truth"
    )


def _seconds(value: float) -> str:
    return f"{value * 1000:.1f} ms" if value < 1 else f"{value:.2f} s"


@dataclass(frozen=True)
class Bar:
    """How much faster than a peer Privet is to be."""

    peer: str
    least: float

    def lines(self, found: Sequence[tuple[Setting, list[Result]]]) -> list[str]:
        return [self._line(setting, results) for setting, results in found]

    def _line(self, setting: Setting, results: list[Result]) -> str:
        times = {result.tool.name: result.best for result in results}
        own, other = times.get("Privet"), times.get(self.peer)
        wanted = f"calibrate {setting.label}: at least {self.least:g}× faster than {self.peer}"
        if own is None or other is None:
            return f"NOT MEASURED  {wanted}"
        verdict = "PASS" if other / own >= self.least else "FAIL"
        return f"{verdict}  {wanted}: {other / own:.1f}× ({_seconds(own)} against {_seconds(other)})"


@dataclass(frozen=True)
class Deadline:
    """How long Privet may take at most."""

    seconds: float

    def lines(self, found: Sequence[tuple[Setting, list[Result]]]) -> list[str]:
        return [self._line(setting, results[0]) for setting, results in found]

    def _line(self, setting: Setting, own: Result) -> str:
        wanted = f"calibrate {setting.label}: within {self.seconds:g} s"
        if own.best is None:
            return f"FAIL  {wanted}: {own.failure}"
        return f"{'PASS' if own.best <= self.seconds else 'FAIL'}  {wanted}: {_seconds(own.best)}"


def machine(packages: Sequence[str]) -> list[str]:
    """When and on what: date, cores, processor, Python, versions."""
    load = os.getloadavg()[0]
    versions = ", ".join(f"{name} {_version(name)}" for name in ("numpy", "scipy", *dict.fromkeys(packages)))
    return [
        f"Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        f"Machine: {os.cpu_count()} cores, {_processor()}, {platform.system()} {platform.machine()}; "
        f"load average {load:.1f} at the end",
        f"Python {platform.python_version()}; {versions}",
    ]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def rewrite(page: Path, text: str) -> None:
    """Put the results between the two marks of the page, and leave the rest as it is."""
    old = page.read_text(encoding="utf-8")
    if BEGIN not in old or END not in old:
        raise SystemExit(
            f"{page} must hold the lines '{BEGIN}' and '{END}'. Add them where the results belong."
        )
    before, after = old.partition(BEGIN)[0], old.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")
