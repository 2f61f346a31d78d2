"""The long form of the crash harness: python bench/curator/crashes.py --kills 10000 [--postgres] [--folder /dev/shm] [--json out.json]

A process that dies takes nothing off a disk, so a folder in memory is as good for SIGKILL as a disk, and much faster. What a
power cut may take is the business of fsync, which the curator checks at every start and does not test here.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from privet.curator.selftest import ScratchServer, run_selftest, start_postgres


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--analysts", type=int, default=32)
    parser.add_argument("--minutes", type=float, help="stop after this time, at the end of a round")
    parser.add_argument("--postgres", action="store_true", help="on a server of its own, which is killed too")
    parser.add_argument("--folder", type=Path, help="where databases and sockets lie")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="privet-crashes-", dir=arguments.folder))
    tempfile.tempdir = str(folder)
    began = time.monotonic()
    told = 0

    def tell(done):
        nonlocal told
        if done >= told + 100:
            told = done
            print(f"{done:,} kills, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)

    stop = None if arguments.minutes is None else began + 60 * arguments.minutes
    options = {"kills": arguments.kills, "analysts": arguments.analysts, "tell": tell, "stop": stop}
    if arguments.postgres:
        folder.chmod(0o755)  # the server runs as another user
        with start_postgres(folder) as server:
            report = run_selftest(server.address, scratch=ScratchServer(server), **options)
    else:
        report = run_selftest(f"sqlite:///{folder}/curator.db", **options)
    print(report.to_json())
    if arguments.json is not None:
        arguments.json.write_text(report.to_json() + "\n")
    return int(not report.is_sound)


if __name__ == "__main__":
    sys.exit(main())
