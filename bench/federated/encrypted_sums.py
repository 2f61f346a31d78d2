"""Encrypted sums and scores: processor time, errors, and what encryption stops and what not.

PYTHONPATH=src python bench/federated/encrypted_sums.py [--quick] [--markdown docs/federated-sums.md]
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
from parties import measure_round, processor_seconds, write_section

from privet.federated.plain_sum import PlainSum
from privet.federated.sums import (
    DistributedGaussian,
    DistributedSum,
    EncryptedScorer,
    EncryptedSum,
    HonestServer,
    RowOwner,
    SecureSum,
    sum_in_process,
)

CLIENTS, LENGTH, FEATURES = 100, 100_000, 30
SUM_BAR, SCORE_BAR = 12.0, 0.100


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="10 clients")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="rewrite the results section of this page"
    )
    options = parser.parse_args()
    text = "\n".join(
        [*measure_sum(10 if options.quick else CLIENTS), *measure_scores(), "", *compare_leaks()]
    )
    print(text)
    if options.markdown:
        write_section(options.markdown, "encrypted-sums", text)


def measure_sum(clients):
    vectors = np.random.default_rng(0).uniform(-1, 1, (clients, LENGTH))
    protocol = EncryptedSum.for_one_process(largest=1.0, clients=clients)
    measured = measure_round(protocol, vectors, leaving={})
    error = float(np.abs(measured.result.total - vectors.sum(axis=0)).max())
    middle, _ = measured.client_times()
    chosen = protocol.parameters
    yield f"- Parameters by the rule: ring {chosen.ring}, primes of {chosen.primes} bits, scale 2^{chosen.scale_bits}."
    yield (
        f"- Sum of {clients} × {LENGTH:,} numbers: {measured.total:.2f} s of processor time in all (bar for 100: {SUM_BAR:.0f} s: "
        f"{'met' if measured.total <= SUM_BAR else 'MISSED'}), of which a client {1e3 * middle:.0f} ms and the server with the key "
        f"holder {measured.server:.2f} s; {measured.sent[0] / 1e6:.1f} MB from each client; largest error {error:.1e}, stated bound "
        f"{measured.result.error_bound:.1e}."
    )


def measure_scores():
    generator = np.random.default_rng(1)
    weights = generator.normal(size=FEATURES)
    start = processor_seconds()
    owner = RowOwner(features=FEATURES, largest=10.0, largest_score=1000.0)
    keys = processor_seconds() - start
    scorer = EncryptedScorer(weights, 0.5, owner.public_context)
    times, errors = [], []
    for _ in range(20):
        values = generator.normal(size=FEATURES)
        start = processor_seconds()
        encrypted = owner.encrypt_row(values)
        scored = scorer.score_row(encrypted)
        read = owner.read_score(scored, scorer.size)
        times.append(processor_seconds() - start)
        errors.append(abs(read.score - (values @ weights + 0.5)))
    middle = float(np.median(times))
    yield (
        f"- Score of a row of {FEATURES} features, encrypted, scored and read: {1e3 * middle:.1f} ms (bar {1e3 * SCORE_BAR:.0f} ms: "
        f"{'met' if middle <= SCORE_BAR else 'MISSED'}); largest error of 20 rows {max(errors):.1e}, stated bound {read.error_bound:.1e}. "
        f"New keys {1e3 * keys:.0f} ms; the public context has {len(owner.public_context) / 1e6:.1f} MB, most of it rotation keys."
    )


def compare_leaks():
    """What a server learns of one client's vector: from its message, and from two sums that differ in it."""
    count, length = 20, 2_000
    generator = np.random.default_rng(2)
    everybody = {client: generator.normal(size=length) for client in range(count)}
    everybody = {client: vector / np.linalg.norm(vector) for client, vector in everybody.items()}
    without = {client: vector for client, vector in everybody.items() if client}
    threat = HonestServer(colluding=0.0, dropouts=0.0)
    noisy = DistributedGaussian.fit(
        clip=1.0, noise_multiplier=1.0, clients=count, shares=count - 1, length=length
    )
    protocols = {
        "no protection": PlainSum(),
        "encryption (`EncryptedSum`)": EncryptedSum.for_one_process(largest=1.0, clients=count),
        "noise in shares under masks (`DistributedSum`)": DistributedSum(
            SecureSum.for_one_process(range(count), encoding=noisy, threat=threat)
        ),
    }
    yield "| what the server has | of a message, it reads | of two sums that differ in one client |"
    yield "|---|---|---|"
    for name, protocol in protocols.items():
        first = sum_in_process(protocol, everybody, round_number=1)
        second = sum_in_process(protocol, without, round_number=2)
        seen = 1.0 if first.opened else 0.0
        explained = float(np.corrcoef(first.total - second.total, everybody[0])[0, 1] ** 2)
        yield f"| {name} | {seen:.0%} of the vector's variance | {explained:.1%} of the vector's variance |"


if __name__ == "__main__":
    main()
