"""Step time of the clipped sums beside a plain backward pass, interleaved: for tuning, not for claims.

``python bench/training/kernels.py [names…] [--threads n] [--rounds n]`` prints, for each model and lot, the median
time of a plain forward and backward pass (gradients zeroed, default layout) and the ratio of the engine's ``add``.
Neither side has noise or an optimiser here.
"""

import argparse
import statistics
import time

import torch
from catalogue import TASKS
from models import mean_loss
from torch import nn

from privet.training.per_example import ClippedSums, per_example_loss


class Flat:
    ceiling = 1.0

    def factors(self, squared_norms):
        return squared_norms.sqrt().clamp_(min=1.0).reciprocal_()


def measure(name, batch, rounds):
    task = TASKS[name]
    model, (x, y) = task.model(), task.data(batch)
    loss = per_example_loss(nn.CrossEntropyLoss())
    sums = ClippedSums(model, loss, Flat())
    out = sums.layout.zeros()
    parameters = list(model.parameters())
    gradients = [torch.zeros_like(p) for p in parameters]

    def plain():
        for p, g in zip(parameters, gradients, strict=True):
            p.grad = g
        torch._foreach_zero_(gradients)
        mean_loss(model(x), y).backward()

    def ours():
        out.zero_()
        sums.add((x,), y, out)

    times = {plain: [], ours: []}
    for f in times:
        f(), f()
    for _ in range(rounds):
        for f, kept in times.items():
            start = time.perf_counter()
            f()
            kept.append(time.perf_counter() - start)
    a, b = (statistics.median(t) * 1e3 for t in times.values())
    low = [min(t) * 1e3 for t in times.values()]
    ratio = statistics.median(o / p for p, o in zip(*times.values(), strict=True))
    size = sum(p.numel() for p in parameters)
    print(
        f"{name:10} {batch:5} {size:9,} plain {a:8.2f} ms  ours {b:8.2f} ms  ratio {ratio:5.2f}  of minima "
        f"{low[1] / low[0]:5.2f}  brute force {len(sums.brute_forced)}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TASKS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.names:
        for batch in TASKS[name].lots:
            start = time.perf_counter()
            measure(name, batch, 1)
            rounds = max(5, min(300, int(options.seconds / (time.perf_counter() - start) * 3)))
            measure(name, batch, rounds)


if __name__ == "__main__":
    main()
