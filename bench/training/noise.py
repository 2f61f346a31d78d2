"""What noise costs for each parameter: Privet's beside torch's and numpy's, interleaved in one run.

    python bench/training/noise.py [--parameters 1300000] [--rounds 15]

The columns are nanoseconds for one number: of processor time with one thread, and of the clock with all threads. The least
of the rounds counts, because whatever else the machine does only adds. Privet's noise is on a grid, dithered, with
whole tails, and from a cipher; the others have none of it.
"""

import argparse
import os
import time
from collections.abc import Callable
from unittest import mock

import numpy as np
import torch

from privet.randomness import SecureNoise, SeededNoise
from privet.training.noise import compiled_normals, secure_stream
from privet.training.noise.gradient_noise import add_gaussian_
from privet.training.noise.secure_stream import expand_source
from privet.training.sampling.batch_sampler import BatchSampler, FixedSizeBatchSampler, PoissonBatchSampler

Case = Callable[[], object]
LOTS = 64


def cases(buffer: torch.Tensor) -> dict[str, Case]:
    flat, generator = buffer.numpy(), np.random.Generator(np.random.SFC64(1))

    def in_torch() -> None:
        with mock.patch.object(compiled_normals, "is_available", return_value=False):
            add_gaussian_(buffer, 1.0, SecureNoise())

    def from_package() -> None:
        with mock.patch.object(compiled_normals, "has_cipher", return_value=False):
            add_gaussian_(buffer, 1.0, SecureNoise())

    def from_system() -> None:
        with (
            mock.patch.object(compiled_normals, "has_cipher", return_value=False),
            mock.patch.object(secure_stream, "_has_cipher", return_value=False),
        ):
            add_gaussian_(buffer, 1.0, SecureNoise())

    found: dict[str, Case] = {
        "torch normal_ (insecure)": buffer.normal_,
        "numpy standard_normal (insecure)": lambda: generator.standard_normal(out=flat, dtype=np.float32),
        "Privet, secure, torch only": in_torch,
        "Privet, secure, no cipher": from_system,
        "Privet, secure, cipher of a package": from_package,
    }
    if compiled_normals.is_available():
        found["Privet, secure, compiled"] = lambda: add_gaussian_(buffer, 1.0, SecureNoise())
        found["Privet, seeded, compiled"] = lambda: add_gaussian_(buffer, 1.0, SeededNoise(1))
    return found


def streams(size: int) -> dict[str, Case]:
    return {
        "os.urandom": lambda: os.urandom(size),
        "cipher": lambda: expand_source(SecureNoise()).bits(size // 8),
        "numpy PCG64DXSM": lambda: SeededNoise(1).bits(size // 8),
    }


def samplers() -> dict[str, Case]:
    source = SecureNoise()
    found: dict[str, Case] = {}
    for population, rate in ((60_000, 256 / 60_000), (10**6, 1e-3), (10**8, 1e-5), (10**8, 1e-3)):
        lots = PoissonBatchSampler(population, rate, source)
        found[f"Poisson, n = {population:.0e}, lot {population * rate:.0f}"] = many(lots)
    found["fixed size, n = 1e+06, lot 1000"] = many(FixedSizeBatchSampler(10**6, 1000, source))
    return found


def many(lots: BatchSampler) -> Case:
    """As many lots as may be drawn at once."""
    return lambda: [lots.draw() for _ in range(LOTS)]


def least(measured: dict[str, Case], rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    found = dict.fromkeys(measured, float("inf"))
    for case in measured.values():
        case()
    for _ in range(rounds):
        for name, case in measured.items():
            start = clock()
            case()
            found[name] = min(found[name], clock() - start)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parameters", type=int, default=1_300_000)
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    buffer, threads = torch.zeros(asked.parameters), torch.get_num_threads()
    print(
        f"{asked.parameters} parameters, {threads} threads, load {os.getloadavg()[0]:.1f}; ns for one number"
    )
    torch.set_num_threads(1)
    alone = least(cases(buffer), asked.rounds, time.process_time)
    torch.set_num_threads(threads)
    together = least(cases(buffer), asked.rounds, time.perf_counter)
    for name, seconds in alone.items():
        one, all_ = (1e9 * value / asked.parameters for value in (seconds, together[name]))
        print(f"  {name:34s} {one:7.2f} one core {all_:7.2f} clock, {threads} threads")
    print("bits, GB/s on one core")
    size = 1 << 22
    for name, seconds in least(streams(size), asked.rounds, time.process_time).items():
        print(f"  {name:34s} {size / seconds / 1e9:7.2f}")
    print("lots, milliseconds for one")
    for name, seconds in least(samplers(), 3, time.process_time).items():
        print(f"  {name:34s} {1e3 * seconds / LOTS:7.3f}")


if __name__ == "__main__":
    main()
