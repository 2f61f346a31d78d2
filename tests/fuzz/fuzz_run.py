"""A long run in a process of its own: python tests/fuzz/fuzz_run.py CALLS SEED. Memory is limited to 4 GB beyond what is loaded."""

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
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + 4 * GIGABYTE, resource.RLIM_INFINITY))
    turns = max(least, -(-calls // len(found)))
    for turn in range(turns):
        for target in found:
            began = time.perf_counter()
            fuzzer.call(target, hostile=(1, 1, 2, 0, 1, 9)[turn % 6])
            fuzzer.outcomes.seconds[target.name] += time.perf_counter() - began
    out = fuzzer.outcomes
    return {
        "targets": len(found), "calls": out.calls, "answered": sum(out.answered.values()),
        "refused": sum(out.refused.values()), "never answered": [t.name for t in found if not out.answered[t.name]],
        "unmade": out.unmade, "faults": out.faults, "kinds": Counter(kind for _, _, kind, _ in out.faults),
        "slow": out.seconds.most_common(12), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }  # fmt: skip


if __name__ == "__main__":
    found = run(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:4])
    print(json.dumps(found, default=str))
