"""A long run in a process of its own: python tests/fuzz/fuzz_run.py calls|commands NUMBER SEED. Memory is limited to 4 GB beyond what is loaded."""

import importlib
import json
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

GIGABYTE = 2**30


def run(calls: int, seed: int, only: str = "", least: int = 1) -> dict:
    """The same number of calls for every target, in turns."""
    from fuzz_calls import Fuzzer
    from fuzz_surface import targets

    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    os.chdir(folder)
    found = [target for target in targets() if only in target.name]
    fuzzer = Fuzzer(seed, folder)
    _limit_memory()
    turns = max(least, -(-calls // len(found)))
    for turn in range(turns):
        for target in found:
            began = time.perf_counter()
            fuzzer.random.seed(f"{seed} {target.name} {turn}")  # a new target changes the calls of no other
            fuzzer.call(target, hostile=(1, 1, 2, 0, 1, 9)[turn % 6])
            fuzzer.outcomes.seconds[target.name] += time.perf_counter() - began
    out = fuzzer.outcomes
    return {
        "targets": len(found), "calls": out.calls, "answered": sum(out.answered.values()),
        "refused": sum(out.refused.values()), "never answered": [t.name for t in found if not out.answered[t.name]],
        "unmade": out.unmade, "faults": out.faults, "kinds": Counter(kind for _, _, kind, _ in out.faults),
        "slow": out.seconds.most_common(12), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


def run_commands(calls: int, seed: int) -> dict:
    """Calls of the command line, every command in turn."""
    from fuzz_commands import CommandFuzzer

    import privet

    importlib.import_module("torch")  # now: a limit of time must not cut its import in two
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    os.chdir(folder)
    os.environ["HOME"] = tempfile.tempdir = str(folder)
    fuzzer = CommandFuzzer(seed, folder)

    def no_demo() -> None:  # it trains for a minute
        raise privet.errors.NotProved("The demo would begin. It is not fuzzed further.")

    importlib.import_module("privet.cli.demo").injuries = no_demo
    _limit_memory()
    for turn in range(calls):
        fuzzer.call(fuzzer.words(list(fuzzer.commands)[turn % len(fuzzer.commands)]))
    return {
        "calls": fuzzer.calls,
        "codes": fuzzer.codes,
        "faults": fuzzer.faults,
        "commands": list(fuzzer.commands),
    }


def _limit_memory() -> None:
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 4 * GIGABYTE, resource.RLIM_INFINITY))


if __name__ == "__main__":
    started = {"calls": run, "commands": run_commands}[sys.argv[1]]
    found = started(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:5])
    print(json.dumps(found, default=str))
