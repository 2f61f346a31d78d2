"""privet.release beside its peers and beside the plain query: 10⁷ rows, 1,000 keys, bounded people.

    bench/release/run.sh [--rows 1e7] [--rounds 5] [--markdown docs/benchmarks-release.md]

Every contestant has a process of its own, because OpenDP pins a Polars of its own, and they take turns, round by
round, so that a busy moment of the machine hits all alike. A turn is a fresh process that loads the table, which
is not timed, and answers twice. The best time of each counts. One that cannot be imported, fails or takes longer than ten minutes is shown as such.
"""

import argparse
import datetime
import json
import os
import platform
import queue
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from data import GROUPS_PER_PERSON, KEYS, ROWS_PER_PERSON, table

HERE = Path(__file__).resolve().parent
OWN = Path(sys.executable)
OPENDP = HERE.parent / ".venv-release-opendp" / "bin" / "python"
PLAIN, PEERS = ("plain Polars", "plain Polars, streaming", "plain DuckDB"), ("OpenDP", "diffprivlib")
LIMIT = 600.0  # seconds for one answer
SLOW = 30.0  # seconds after which nobody is asked twice
BAR = 1.5  # times the plain query of the same engine
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"


@dataclass
class Runner:
    """A contestant, and what it has said in its turns."""

    name: str
    path: Path
    source: str
    version: str = ""
    failure: str = ""
    seconds: list[float] = field(default_factory=list)
    work: list[float] = field(default_factory=list)  # of all cores, which says more on a busy machine
    total: float = 0.0
    extra: float = 0.0  # memory above that of the loaded table, in MB

    def turn(self) -> None:
        """A fresh process that loads the table and answers twice, or once if it is slow."""
        if self.failure:
            return
        python = OPENDP if self.name == "OpenDP" else OWN
        words = [str(python), str(HERE / "contestants.py"), self.name, str(self.path), self.source]
        with (
            tempfile.TemporaryFile("w+", encoding="utf-8") as log,
            subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            try:
                self._talk(process)
            except (OSError, ValueError, queue.Empty) as broken:
                process.kill()
                log.seek(0)
                last = (log.read().strip().splitlines() or [""])[-1]
                slow = isinstance(broken, queue.Empty)
                self.failure = (
                    f"no answer within {LIMIT:g} s" if slow else last[:100] or "ended without an answer"
                )
            finally:
                process.kill()

    @property
    def best(self) -> float | None:
        return min(self.seconds) if self.seconds else None

    def _talk(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        stdout = process.stdout

        def listen() -> None:
            for line in stdout:
                lines.put(line)
            lines.put("")  # which is no JSON

        threading.Thread(target=listen, daemon=True).start()
        self.version = json.loads(lines.get(timeout=LIMIT))["version"]
        for _ in range(2):
            process.stdin.write("again\n")
            process.stdin.flush()
            said = json.loads(lines.get(timeout=LIMIT))
            self.seconds.append(said["seconds"])
            self.work.append(said["work"])
            self.total, self.extra = said["total"], (said["peak"] - said["loaded"]) / 1024
            if said["seconds"] > SLOW:
                break


def main() -> None:
    options = _options()
    rows = int(options.rows)
    path = table(rows, options.data)
    parts, verdicts, versions = [], [], {}
    for source in ("memory", "file"):
        runners = _race(path, source, options.rounds)
        title = "Table in memory" if source == "memory" else "Table in a Parquet file"
        parts.append(_markdown(title, runners))
        verdicts += _verdicts(title, runners)
        versions |= {runner.version: None for runner in runners if runner.version}
        print(parts[-1], end="\n\n", flush=True)
    closing = [
        f"{rows:,} rows, {KEYS:,} keys, at most {ROWS_PER_PERSON} rows in each of {GROUPS_PER_PERSON} keys of a "
        f"person; best of {options.rounds} rounds of two answers.",
        f"Date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d}",
        f"Machine: {os.cpu_count()} cores, {_processor()}; load average {os.getloadavg()[0]:.1f} at the end",
        f"Python {platform.python_version()}; {', '.join(versions)}",
        *verdicts,
    ]
    print("\n".join(closing))
    if options.markdown:
        text = "\n\n".join(["\n".join(f"- {line}" for line in closing), *parts])
        old = options.markdown.read_text(encoding="utf-8")
        before, after = old.partition(BEGIN)[0], old.partition(END)[2]
        options.markdown.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _race(path: Path, source: str, rounds: int) -> list[Runner]:
    larger = ("Privet on DuckDB",) if source == "file" else ()
    runners = [Runner(name, path, source) for name in ("Privet", *larger, *PLAIN, *PEERS)]
    for turn in range(rounds):
        for runner in runners:
            runner.turn()
            said = runner.failure or f"{runner.seconds[-1]:.2f} s"
            print(f"… {source}, round {turn + 1}: {runner.name}: {said}", file=sys.stderr, flush=True)
    return runners


def _markdown(title: str, runners: list[Runner]) -> str:
    own, least = runners[0].best, min(runners[0].work, default=None)
    lines = [
        f"### {title}",
        "",
        "| contestant | best time | × Privet | least CPU time | × Privet | memory beyond the table | rows counted | remark |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for runner in runners:
        if runner.best is None:
            lines.append(f"| {runner.name} | – | – | – | – | – | – | {runner.failure} |")
            continue
        work = min(runner.work)
        times = f"{runner.best:.2f} s | {_ratio(runner.best, own)} | {work:.2f} s | {_ratio(work, least)}"
        rest = f"{runner.extra:,.0f} MB | {runner.total:,.0f} | {runner.failure}"
        lines.append(f"| {runner.name} | {times} | {rest} |")
    return "\n".join(lines)


def _ratio(one: float, other: float | None) -> str:
    return "–" if other is None else f"{one / other:.2f}"


def _verdicts(title: str, runners: list[Runner]) -> list[str]:
    best = {runner.name: runner.best for runner in runners}
    own = best["Privet"]
    if own is None:
        return [f"FAIL  {title}: Privet gave no answer"]
    plain = min((best[name] or float("inf"), name) for name in PLAIN)
    said = [
        f"{'PASS' if own <= BAR * plain[0] else 'FAIL'}  {title}: within {BAR:g}× of the fastest plain query "
        f"({plain[1]}): {own / plain[0]:.2f}×"
    ]
    for name in PEERS:
        seconds = best[name]
        if seconds is None:
            said.append(f"NOT MEASURED  {title}: ahead of {name}")
        else:
            said.append(
                f"{'PASS' if own < seconds else 'FAIL'}  {title}: ahead of {name}: {seconds / own:.1f}×"
            )
    return said


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text().splitlines() if line.startswith("model name")]
        if info.exists()
        else []
    )
    return names[0].partition(":")[2].strip() if names else platform.processor() or "unknown processor"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=float, default=1e7, help="of the table (default: 1e7)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contestant (default: 5)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(tempfile.gettempdir()) / "privet-bench",
        help="where the table is kept",
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results section of this page"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
