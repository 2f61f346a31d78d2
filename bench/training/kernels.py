"""Step time of the clipped sums beside a plain backward pass, interleaved: for tuning, not for claims.

``python bench/training/kernels.py [names…] [--threads n] [--rounds n]`` prints, for each model and lot, the median
time of a plain forward and backward pass (gradients zeroed, default layout) and the ratio of the engine's ``add``.
Neither side has noise or an optimiser here.
"""

import argparse
import itertools
import statistics
import time

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.training.gradients import ClippedSums, per_example


class Flat:
    def factors(self, squared_norms):
        return squared_norms.sqrt().clamp_(min=1.0).reciprocal_()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary=1000, width=256, layers=4, tokens=64):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Bag(nn.Module):
    def __init__(self, vocabulary=10_000, width=64):
        super().__init__()
        self.table, self.a, self.b = nn.Embedding(vocabulary, width), nn.Linear(width, 64), nn.Linear(64, 2)

    def forward(self, ids):
        return self.b(F.relu(self.a(self.table(ids).mean(1))))


class Recurrent(nn.Module):
    def __init__(self, kind=nn.LSTM, vocabulary=1000, width=64, hidden=128):
        super().__init__()
        self.table, self.rnn = nn.Embedding(vocabulary, width), kind(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)

    def forward(self, ids):
        return self.head(self.rnn(self.table(ids))[0][:, -1])


class Attention(nn.Module):
    def __init__(self, vocabulary=1000, width=128):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, ids):
        return self.head(self.layer(self.table(ids)).mean(1))


def mnist_cnn():
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


class GlobalMean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def cifar_cnn():
    parts, before = [], 3
    for width, pool in [(32, 0), (32, 1), (64, 0), (64, 1), (128, 0), (128, 1), (256, 0)]:
        parts += [nn.Conv2d(before, width, 3, 1, 1), nn.ReLU()] + [nn.AvgPool2d(2, 2)] * pool
        before = width
    return nn.Sequential(*parts, nn.Conv2d(256, 10, 3, 1, 1), GlobalMean())


def mlp(*widths):
    parts = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


def image(*shape):
    return lambda batch: torch.randn(batch, *shape)


def tokens(vocabulary, length):
    return lambda batch: torch.randint(0, vocabulary, (batch, length))


MODELS = {
    "logistic": (lambda: nn.Linear(784, 10), image(784), 10, (64, 256, 1024)),
    "mlp-50": (lambda: mlp(784, 50, 10), image(784), 10, (64, 256, 1024)),
    "mlp-1024": (lambda: mlp(600, 1024, 512, 256, 100), image(600), 100, (64, 256, 1024)),
    "mnist-cnn": (mnist_cnn, image(1, 28, 28), 10, (64, 256, 1024)),
    "cifar-cnn": (cifar_cnn, image(3, 32, 32), 10, (64, 256)),
    "embedding": (Bag, tokens(10_000, 64), 2, (64, 256, 1024)),
    "lstm": (Recurrent, tokens(1000, 32), 2, (64, 256)),
    "gru": (lambda: Recurrent(nn.GRU), tokens(1000, 32), 2, (64, 256)),
    "attention": (Attention, tokens(1000, 64), 2, (64,)),
    "gpt": (GPT, tokens(1000, 64), None, (16, 64)),
}


def measure(name, batch, rounds):
    torch.manual_seed(0)
    make, draw, count, _ = MODELS[name]
    model, x = make(), draw(batch)
    y = x if count is None else torch.randint(0, count, (batch,))
    loss = per_example(nn.CrossEntropyLoss())
    sums = ClippedSums(model, loss, Flat())
    out = sums.layout.zeros()
    parameters = list(model.parameters())
    gradients = [torch.zeros_like(p) for p in parameters]

    def plain():
        for p, g in zip(parameters, gradients, strict=True):
            p.grad = g
        torch._foreach_zero_(gradients)
        outputs = model(x)
        F.cross_entropy(outputs.flatten(0, -2), y.flatten()).backward()

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
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.names:
        for batch in MODELS[name][3]:
            start = time.perf_counter()
            measure(name, batch, 1)
            rounds = max(5, min(300, int(options.seconds / (time.perf_counter() - start) * 3)))
            measure(name, batch, rounds)


if __name__ == "__main__":
    main()
