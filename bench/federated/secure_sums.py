"""Secure aggregation of 100,000 numbers: processor time of a client and of the server, and exactness.

    PYTHONPATH=src python bench/federated/secure_sums.py [--quick] [--markdown docs/federated-sums.md]

30 % of the clients leave at the worst moment: after their masks are in the vectors of the others, before their own vector is sent.
One thread; times are processor time. Everybody runs in this process, so a client's time has no network in it.
"""

import argparse
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from parties import measure_round, write_section

from privet.federated.sums import (
    DistributedGaussian,
    DistributedSum,
    FixedPoint,
    HonestServer,
    MaliciousServer,
    SecureSum,
    SharedSum,
)

LENGTH = 100_000
CLIENT_BAR, SERVER_BAR = 0.050, 5.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="n = 50 and 100 only")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results section of this page"
    )
    options = parser.parse_args()
    text = "\n".join(run((50, 100) if options.quick else (50, 100, 200, 400)))
    print(text)
    if options.markdown:
        write_section(options.markdown, "secure-sums", text)


def run(sizes):
    lines = [
        "| protocol | clients | neighbours | threshold | client, median (largest) | server | sent by a client | exact |",
        "|---|---|---|---|---|---|---|---|",
    ]
    curious = HonestServer(colluding=0.2, dropouts=0.3)
    found = {}
    for size in sizes:
        lines.append(measure("SecureSum, curious server", size, curious, found))
    lines.append(
        measure("SecureSum, malicious server", 100, MaliciousServer(colluding=0.2, dropouts=0.3), {})
    )
    few = MaliciousServer(colluding=0.05, dropouts=0.05)
    lines.append(measure("SecureSum, malicious server, 5 % and 5 %", sizes[-1], few, {}))
    lines.append(measure_noise())
    lines.append(measure_shares())
    lines += ["", *judge(found)]
    return lines


def vectors_of(size):
    return np.random.default_rng(size).uniform(-1, 1, (size, LENGTH))


def measure(name, size, threat, found):
    vectors = vectors_of(size)
    protocol = SecureSum.for_one_process(range(size), encoding=FixedPoint(largest=1.0), threat=threat)
    protocol.serve(round_number=1, clients=list(range(size)), length=LENGTH)
    plan = threat.plan(size)
    gone = range(threat.count_dropouts(size))
    measured = measure_round(protocol, vectors, leaving={2: gone})
    kept = list(measured.result.contributors)
    exact = (measured.result.total == np.rint(np.ldexp(vectors[kept], 24)).sum(axis=0) / 2.0**24).all()
    found[size] = (plan.neighbours, *measured.client_times(), measured.server, bool(exact))
    return row(name, size, plan.neighbours, plan.threshold, measured, kept, "yes" if exact else "NO")


def measure_noise():
    size, threat = 100, HonestServer(colluding=0.2, dropouts=0.3)
    plan = threat.plan(size)
    encoding = DistributedGaussian.fit(
        clip=1.0, noise_multiplier=1.0, clients=size, shares=plan.together, length=LENGTH, bits=16
    )
    protocol = DistributedSum(SecureSum.for_one_process(range(size), encoding=encoding, threat=threat))
    vectors = vectors_of(size)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    measured = measure_round(protocol, vectors, leaving={2: range(30)})
    kept = list(measured.result.contributors)
    error = float((measured.result.total - vectors[kept].sum(axis=0)).std())
    wanted = math.sqrt(len(kept) / plan.together)
    return row(
        "DistributedSum, 16 bits",
        size,
        plan.neighbours,
        plan.threshold,
        measured,
        kept,
        f"noise {error:.3f} ({wanted:.3f})",
    )


def measure_shares():
    size, vectors = 100, vectors_of(100)
    protocol = SharedSum.for_one_process(range(size), encoding=FixedPoint(largest=1.0))
    measured = measure_round(protocol, vectors, leaving={0: range(30)})
    kept = list(measured.result.contributors)
    exact = (measured.result.total == np.rint(np.ldexp(vectors[kept], 24)).sum(axis=0) / 2.0**24).all()
    return row("SharedSum, 3 aggregators", size, "–", "–", measured, kept, "yes" if exact else "NO")


def row(name, size, neighbours, threshold, measured, kept, exact):
    middle, most = measured.client_times()
    sent = max(measured.sent[client] for client in kept) / 1e6
    return (
        f"| {name} | {size} | {neighbours} | {threshold} | {1e3 * middle:.1f} ms ({1e3 * most:.1f}) | "
        f"{measured.server:.2f} s | {sent:.2f} MB | {exact} |"
    )


def judge(found):
    _, middle, most, server, exact = found[100]
    yield (
        f"- n = 100, 30 % gone: client {1e3 * middle:.1f} ms, at most {1e3 * most:.1f} (bar {1e3 * CLIENT_BAR:.0f} ms: "
        f"{'met' if middle <= CLIENT_BAR else 'MISSED'}); server {server:.2f} s (bar {SERVER_BAR:.0f} s: "
        f"{'met' if server <= SERVER_BAR else 'MISSED'}); exact: {'yes' if exact else 'NO'}."
    )
    sizes = sorted(found)
    if len(sizes) > 2:
        logs = np.log2(sizes)
        for name, place, unit in (("neighbours", 0, 1.0), ("client time", 1, 1e3)):
            values = np.array([found[size][place] * unit for size in sizes])
            slope, start = np.polyfit(logs, values, 1)
            off = float(np.abs(values - (start + slope * logs)).max())
            power = float(np.polyfit(logs, np.log2(values), 1)[0])
            yield (
                f"- {name} against log₂ n: {start:.1f} + {slope:.1f} log₂ n fits to within {off:.1f}"
                f"{' ms' if place else ''}; as a power of n it would be n^{power:.2f}."
            )


if __name__ == "__main__":
    main()
