"""The models of the bench, in torch: what is trained, on inputs of which shape, in lots of which size.

Each is made from a seed, so that every contestant starts from the same numbers. All losses are cross entropies; that of
the language model is the mean over an example's own tokens.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    """``spread`` repeats the positions for each example, as peers need that take the first size of an input as the lot."""

    def __init__(self, vocabulary: int = 1000, width: int = 256, layers: int = 4, tokens: int = 64) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*[Block(width, 4) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.spread = False

    def forward(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1])
        x = self.tokens(ids) + self.positions(places.repeat(len(ids), 1) if self.spread else places)
        return self.head(self.norm(self.blocks(x)))


class Bag(nn.Module):
    def __init__(self, vocabulary: int = 10_000, width: int = 64) -> None:
        super().__init__()
        self.table, self.a, self.b = nn.Embedding(vocabulary, width), nn.Linear(width, 64), nn.Linear(64, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.b(F.relu(self.a(self.table(ids).mean(1))))


class Recurrent(nn.Module):
    def __init__(
        self, kind: type[nn.RNNBase] = nn.LSTM, vocabulary: int = 1000, width: int = 64, hidden: int = 128
    ) -> None:
        super().__init__()
        self.table, self.rnn = nn.Embedding(vocabulary, width), kind(width, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.rnn(self.table(ids))[0][:, -1])


class Attention(nn.Module):
    def __init__(self, vocabulary: int = 1000, width: int = 128) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.head = nn.Linear(width, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.layer(self.table(ids)).mean(1))


def mnist_cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, 2, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
        nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


class GlobalMean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean((2, 3))


CIFAR = ((32, False), (32, True), (64, False), (64, True), (128, False), (128, True), (256, False))


def cifar_cnn() -> nn.Module:
    parts: list[nn.Module] = []
    before = 3
    for width, pools in CIFAR:
        parts += [nn.Conv2d(before, width, 3, 1, 1), nn.ReLU()] + [nn.AvgPool2d(2, 2)] * pools
        before = width
    return nn.Sequential(*parts, nn.Conv2d(256, 10, 3, 1, 1), GlobalMean())


def mlp(*widths: int) -> nn.Module:
    parts = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


def image(*shape: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randn(batch, *shape)


def tokens(vocabulary: int, length: int) -> Callable[[int], Tensor]:
    return lambda batch: torch.randint(0, vocabulary, (batch, length))


@dataclass(frozen=True)
class Task:
    """A model, its inputs, the number of classes (none: the inputs are the targets, as for a language model), and its lots.

    ``targets`` makes them from the inputs where they are something else.
    """

    title: str
    make: Callable[[], nn.Module]
    draw: Callable[[int], Tensor]
    classes: int | None
    lots: tuple[int, ...]
    images: bool = False
    claimed: bool = True  # part of the table, and not for tuning alone
    targets: Callable[[Tensor], Tensor] | None = None
    tolerance: float = 2e-3  # of the largest weight change: float32, and orders of addition that differ

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return self.make()

    def data(self, count: int, seed: int = 1) -> tuple[Tensor, Tensor]:
        torch.manual_seed(seed)
        inputs = self.draw(count)
        if self.targets is not None:
            return inputs, self.targets(inputs)
        return inputs, inputs if self.classes is None else torch.randint(0, self.classes, (count,))


OWN = {
    "logistic": Task("logistic regression", lambda: nn.Linear(784, 10), image(784), 10, (64, 256, 1024)),
    "mlp-50": Task("MLP 784-50-10", lambda: mlp(784, 50, 10), image(784), 10, (64, 256, 1024)),
    "mlp-1024": Task(
        "MLP 600-1024-512-256-100", lambda: mlp(600, 1024, 512, 256, 100), image(600), 100, (64, 256, 1024)
    ),
    "mnist-cnn": Task("MNIST CNN", mnist_cnn, image(1, 28, 28), 10, (64, 256, 1024), images=True),
    "cifar-cnn": Task("CIFAR CNN", cifar_cnn, image(3, 32, 32), 10, (64, 256, 1024), images=True),
    "embedding": Task("embedding net", Bag, tokens(10_000, 64), 2, (64, 256, 1024)),
    "lstm": Task("LSTM", Recurrent, tokens(1000, 32), 2, (64, 256, 1024)),
    "gru": Task("GRU", lambda: Recurrent(nn.GRU), tokens(1000, 32), 2, (64, 256), claimed=False),
    "attention": Task("encoder layer", Attention, tokens(1000, 64), 2, (64,), claimed=False),
    "gpt": Task("GPT-like", GPT, tokens(1000, 64), None, (16, 64, 256)),
}
CLAIMED = tuple(name for name, task in OWN.items() if task.claimed)


def mean_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean over the lot; every example has as many tokens or pixels, so that their mean is that over examples."""
    if outputs.dim() == 4:  # pixels: the classes come second
        return F.cross_entropy(outputs, targets)
    return F.cross_entropy(outputs.flatten(0, -2), targets.flatten())


def losses(outputs: Tensor, targets: Tensor) -> Tensor:
    """One number for each example."""
    if outputs.dim() == 4:
        outputs = outputs.movedim(1, -1)
    each = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction="none")
    return each.view(len(targets), -1).mean(1) if targets.dim() > 1 else each
