"""Models of the literature that no package at hand defines, written from their papers in the layers of torch."""

import itertools
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

PADDING = 0  # the token behind the end of a sequence


def _double(before: int, width: int) -> nn.Module:
    parts: list[nn.Module] = []
    for channels in (before, width):
        parts += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.GroupNorm(8, width), nn.ReLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Ronneberger et al. 2015, with group normalisation; the way up transposes convolutions, or resizes."""

    def __init__(self, *, transposed: bool, widths: tuple[int, ...] = (16, 32, 64, 128), classes: int = 4):
        super().__init__()
        before = (3, *widths[:-1])
        self.down = nn.ModuleList([_double(a, b) for a, b in zip(before, widths, strict=True)])
        steps = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList([_step_up(a, b, transposed) for a, b in steps])
        self.join = nn.ModuleList([_double(2 * b, b) for _, b in steps])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for number, block in enumerate(self.down):
            x = block(x if number == 0 else F.max_pool2d(x, 2))
            kept.append(x)
        for up, join, beside in zip(self.up, self.join, kept[-2::-1], strict=True):
            x = join(torch.cat([beside, up(x)], 1))
        return self.head(x)


def _step_up(before: int, width: int, transposed: bool) -> nn.Module:
    if transposed:
        return nn.ConvTranspose2d(before, width, 2, 2)
    resize = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
    return nn.Sequential(resize, nn.Conv2d(before, width, 3, padding=1))


class WideDeep(nn.Module):
    """Cheng et al. 2016: a linear model of hashed crossings beside an MLP of embeddings and numbers.

    The numbers come first in a row, then the categories.
    """

    def __init__(self, fields: int = 16, numbers: int = 13, categories: int = 5000, width: int = 32) -> None:
        super().__init__()
        self.numbers, self.categories = numbers, categories
        self.tables = nn.ModuleList([nn.Embedding(categories, width) for _ in range(fields)])
        self.wide = nn.Embedding(4 * categories, 2)
        sizes = (fields * width + numbers, 1024, 512, 256)
        deep = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), nn.ReLU())]
        self.deep, self.head = nn.Sequential(*deep), nn.Linear(sizes[-1], 2)

    def forward(self, x: Tensor) -> Tensor:
        numbers, ids = x[:, : self.numbers], x[:, self.numbers :].long()
        crossed = (ids[:, 1:] * 7919 + ids[:, :-1]) % self.wide.num_embeddings
        parts = [table(ids[:, i]) for i, table in enumerate(self.tables)]
        return self.wide(crossed).sum(1) + self.head(self.deep(torch.cat([numbers, *parts], 1)))


def categories_and_numbers(
    fields: int = 16, numbers: int = 13, categories: int = 5000
) -> Callable[[int], Tensor]:
    def draw(count: int) -> Tensor:
        return torch.cat(
            [torch.randn(count, numbers), torch.randint(0, categories, (count, fields)).float()], 1
        )

    return draw


class EncoderClassifier(nn.Module):
    """nn.TransformerEncoder over padded tokens, and the mean over those that are there."""

    def __init__(self, vocabulary: int = 5000, width: int = 128, layers: int = 2, longest: int = 64) -> None:
        super().__init__()
        self.table, self.places = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 4)

    def forward(self, ids: Tensor) -> Tensor:
        there = ids != PADDING
        x = self.table(ids) + self.places(torch.arange(ids.shape[1]))
        x = self.encoder(x, src_key_padding_mask=~there)
        return self.head((x * there.unsqueeze(2)).sum(1) / there.sum(1, keepdim=True))


class PackedBiLSTM(nn.Module):
    def __init__(self, vocabulary: int = 5000, width: int = 64, hidden: int = 64) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width, padding_idx=PADDING)
        self.rnn = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 4)

    def forward(self, ids: Tensor) -> Tensor:
        lengths = (ids != PADDING).sum(1)
        packed = pack_padded_sequence(self.table(ids), lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.head(out.sum(1) / lengths.unsqueeze(1))


def padded_tokens(vocabulary: int, longest: int) -> Callable[[int], Tensor]:
    """Sequences of half the length and more."""

    def draw(count: int) -> Tensor:
        ids = torch.randint(1, vocabulary, (count, longest))
        lengths = torch.randint(longest // 2, longest + 1, (count, 1))
        return ids.masked_fill_(torch.arange(longest) >= lengths, PADDING)

    return draw


class _FTBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        a, b = self.up(self.second(x)).chunk(2, -1)
        return x + self.down(a * F.relu(b))


class FTTransformer(nn.Module):
    """Gorishniy et al. 2021: each number is a token, its own vector times the number; a class token in front."""

    def __init__(self, features: int = 24, width: int = 128, layers: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, width) / width**0.5)
        self.bias = nn.Parameter(torch.randn(features, width) / width**0.5)
        self.first = nn.Parameter(torch.randn(1, 1, width) / width**0.5)
        self.blocks = nn.ModuleList([_FTBlock(width, 4) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 4)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.unsqueeze(2) * self.weight + self.bias
        tokens = torch.cat([self.first.expand(len(x), -1, -1), tokens], 1)
        for block in self.blocks:
            tokens = block(tokens)
        return self.head(F.relu(self.norm(tokens[:, 0])))
