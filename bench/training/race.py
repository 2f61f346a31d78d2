"""The contestants take turns on one model and lot, round by round, so that a busy moment hits all alike."""

import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agreement import EXAMPLES
from catalogue import TASKS
from contestants import OWN, PLAIN, entrants
from worker import agree, call, serve

os.environ["PRIVET_WAIT_FOR_LOOPS"] = "1"  # what is timed is a step with compiled loops
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "torch",
        "opacus",
        "opacus.validators",
        "backpack",
        "jax_privacy",
        "worker",
        "in_jax",
        "foreign_packages",
        "numba",
        "cryptography",
    ]
)
SETUP = 300.0  # seconds of the clock in which a contestant must be ready, also on a busy machine
LONGEST = 4.0  # seconds of one peer's rounds if its steps are slow
LONGEST_OWN = 16.0  # those of plain torch and of Privet, whose ratio is the finer one
Found = TypeVar("Found")


@dataclass
class Times:
    """What one contestant did: the median of each round, the extra memory, or why there is nothing."""

    rounds: dict[int, float] = field(default_factory=dict)
    first: float = 0.0
    memory: int = 0
    failure: str = ""
    slow: bool = False

    @property
    def seconds(self) -> float | None:
        return statistics.median(self.rounds.values()) if self.rounds else None

    def ratio(self, other: "Times") -> float | None:
        """The median over rounds of this one's time over the other's in the same round."""
        both = [self.rounds[r] / other.rounds[r] for r in self.rounds if r in other.rounds]
        return statistics.median(both) if both else None


@dataclass
class Cell:
    model: str
    lot: int
    times: dict[str, Times] = field(default_factory=dict)

    def ratio(self, name: str, to: str = PLAIN) -> float | None:
        both = self.times.get(name), self.times.get(to)
        return None if both[0] is None or both[1] is None else both[0].ratio(both[1])


@dataclass(frozen=True)
class Pace:
    rounds: int
    slice: float  # seconds of one turn
    cap: float  # seconds of the slowest step that is still measured
    threads: int
    work: bool  # time of the processor and not of the clock


class Process:
    """A forked process at the other end of a pipe; it is ended when the block is left."""

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self.pipe, far = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=work, args=(far, *arguments), daemon=True)
        self.process.start()
        far.close()

    def hear(self, limit: float) -> Any:
        """What it says; a sentence if it says nothing in time, or is gone."""
        try:
            return self.pipe.recv() if self.pipe.poll(limit) else f"no answer within {limit:g} s"
        except (EOFError, ConnectionError):
            return "the process ended (out of memory?)"

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def race(model: str, lot: int, pace: Pace, too_slow: set[str], only: list[str] | None = None) -> Cell:
    """One cell of the table. Those in ``too_slow`` are left out."""
    cell, running = Cell(model, lot), {}
    names = [name for name in entrants(TASKS[model]) if only is None or name in only]
    try:
        for name in names:
            cell.times[name] = times = Times()
            if name in too_slow:
                times.slow = True
                continue
            say(f"{model}, lot {lot}: {name}")
            process = Process(serve, name, model, lot, pace.threads, pace.cap, pace.work)
            said = process.hear(SETUP)
            if isinstance(said, str):
                times.failure = said
                process.end()
                continue
            times.first, times.memory = said
            times.slow = times.first > pace.cap
            if times.slow:
                process.end()
            else:
                running[name] = process
        _rounds(cell, running, pace)
    finally:
        for process in running.values():
            process.end()
    return cell


def _rounds(cell: Cell, running: dict[str, Process], pace: Pace) -> None:
    for turn in range(pace.rounds):
        say(f"{cell.model}, lot {cell.lot}: round {turn + 1} of {pace.rounds}")
        for name, process in list(running.items()):
            times = cell.times[name]
            longest = LONGEST_OWN if name in (PLAIN, *OWN) else LONGEST
            if turn * 2 * times.first > longest and turn > 0:
                continue
            process.pipe.send(pace.slice)
            said = process.hear(SETUP)
            if isinstance(said, str):
                times.failure = said
                running.pop(name).end()
            else:
                times.rounds[turn] = statistics.median(said)


def agreements(
    contestants: list[str], models: list[str], threads: int, examples: int = EXAMPLES
) -> dict[tuple[str, str], float | str]:
    """How far each is from a loop over examples, for each model; a sentence where it cannot be said."""
    found: dict[tuple[str, str], float | str] = {}
    for name in contestants:
        for model in models:
            say(f"agreement: {name}, {model}")
            process = Process(
                agree, name, model, examples, threads
            )  # each its own: a late answer must not count for the next
            found[name, model] = process.hear(SETUP)
            process.end()
    return found


def apart(work: Callable[[], Found], threads: int, limit: float = 120.0) -> Found | str:
    """What a function gives in a process of its own."""
    process = Process(call, work, threads)
    try:
        return process.hear(limit)
    finally:
        process.end()


def say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K… {text}", end="", file=sys.stderr, flush=True)
    elif os.environ.get("PRIVET_BENCH_VERBOSE"):
        print(f"… {text}", file=sys.stderr, flush=True)
