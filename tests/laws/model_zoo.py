"""Models as other people write them: every layout, pooling, attention, order and routing that a clip must survive.

An entry makes a model and draws lots for it. Sequences are [examples, tokens, numbers] with a length each; tokens behind the length are
padding, and may be anything. Most entries are a product of parts: what carries the rows, and what pools them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

__all__ = ["COUPLED", "ENTRIES", "Entry"]

WIDTH, CLASSES, TOKENS, WORDS = 8, 3, 4, 11


class Model(nn.Module):
    """A model from a function of itself and its inputs."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


@dataclass(frozen=True)
class Entry:
    """How to make a model, and how to draw inputs for a lot of so many examples."""

    name: str
    make: Callable[[], nn.Module]
    draw: Callable[[int, torch.Generator], tuple]


def lengths_of(batch, generator, tokens=TOKENS):
    return torch.randint(1, tokens + 1, (batch,), generator=generator)


def sequences(tokens=TOKENS):
    return lambda batch, g: (
        torch.randn(batch, tokens, WIDTH, generator=g),
        lengths_of(batch, g, tokens),
    )


def words(tokens=TOKENS):
    return lambda batch, g: (
        torch.randint(0, WORDS, (batch, tokens), generator=g),
        lengths_of(batch, g, tokens),
    )


def images(*shape):
    return lambda batch, g: (torch.randn(batch, *shape, generator=g),)


def padding(x, lengths):
    return torch.arange(x.shape[1], device=x.device) >= lengths[:, None]


def linear(*shape):
    layer = nn.Linear(*(shape or (WIDTH, WIDTH)))
    nn.init.normal_(layer.bias)  # zero biases hide mistakes
    return layer


# What carries the rows: [examples, tokens, numbers] in and out.


def plain(s, x, lengths):
    return s.body(x).tanh()


def time_major(s, x, lengths):
    return s.body(x.transpose(0, 1)).tanh().transpose(0, 1)


def flat(s, x, lengths):
    return s.body(x.reshape(-1, WIDTH)).tanh().view(*x.shape)


def flat_time_major(s, x, lengths):
    y = s.body(x.transpose(0, 1).reshape(-1, WIDTH)).tanh()
    return y.view(x.shape[1], x.shape[0], WIDTH).transpose(0, 1)


def heads_outside(s, x, lengths):
    """Rows [half of the numbers, examples, tokens]."""
    y = x.view(*x.shape[:2], 2, WIDTH // 2).permute(2, 0, 1, 3)
    return s.narrow(y.reshape(-1, WIDTH // 2)).tanh().view(y.shape).permute(1, 2, 0, 3).reshape(x.shape)


def heads_between(s, x, lengths):
    """Rows [tokens, examples, half of the numbers]: examples in the middle of one size."""
    y = x.view(*x.shape[:2], 2, WIDTH // 2).transpose(0, 1)
    return s.narrow(y.reshape(-1, WIDTH // 2)).tanh().view(y.shape).transpose(0, 1).reshape(x.shape)


def einsum_heads(s, x, lengths):
    y = torch.einsum("btd,de->tbe", x, s.matrix)
    return s.body(y.flatten(0, 1)).view(y.shape).tanh().movedim(0, 1)


def attended(batch_first):
    def run(s, x, lengths):
        y = x if batch_first else x.transpose(0, 1)
        y, _ = s.attention(y, y, y, key_padding_mask=padding(x, lengths))
        return y if batch_first else y.transpose(0, 1)

    return run


def encoded(s, x, lengths):
    first = s.layer.self_attn.batch_first
    y = s.layer(x if first else x.transpose(0, 1), src_key_padding_mask=padding(x, lengths))
    return y if first else y.transpose(0, 1)


def scaled(s, x, lengths):
    q, k, v = s.qkv(x).view(*x.shape[:2], 3, 2, -1).permute(2, 0, 3, 1, 4)
    mask = ~padding(x, lengths)[:, None, None]
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return s.out(y.transpose(1, 2).reshape(x.shape))


def own_attention(s, x, lengths):
    q, k, v = s.qkv(x).chunk(3, -1)
    score = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(WIDTH)
    score = score.masked_fill(padding(x, lengths)[:, None], -1e9)
    return (
        s.out(torch.einsum("bij,bjd->ibd", score.softmax(-1), v).reshape(-1, WIDTH))
        .view(x.shape[1], x.shape[0], WIDTH)
        .transpose(0, 1)
    )


def crossed(s, x, lengths):
    queries = s.queries.expand(x.shape[0], -1, -1)
    y, _ = s.attention(queries, x, x, key_padding_mask=padding(x, lengths))
    return y


def recurrent(s, x, lengths):
    first = s.rnn.batch_first
    y = s.rnn(x if first else x.transpose(0, 1))[0]
    return y if first else y.transpose(0, 1)


def packed(s, x, lengths):
    y = pack_padded_sequence(s.body(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
    y, _ = pad_packed_sequence(s.rnn(y)[0], batch_first=True, total_length=x.shape[1])
    return y


def convolved(s, x, lengths):
    return s.conv(x.transpose(1, 2)).transpose(1, 2).tanh()


def sorted_by_length(s, x, lengths):
    order = lengths.argsort(stable=True)
    return s.body(x[order]).tanh()[order.argsort()]


def sorted_time_major(s, x, lengths):
    order = lengths.argsort(stable=True)
    y = s.body(x[order].transpose(0, 1).reshape(-1, WIDTH)).tanh()
    return y.view(x.shape[1], x.shape[0], WIDTH)[:, order.argsort()].transpose(0, 1)


def sorted_by_selects(s, x, lengths):
    order = lengths.argsort(stable=True)
    y = s.body(x.index_select(0, order)).tanh()
    return torch.zeros_like(y).index_copy(0, order, y)


def sorted_by_matrix(s, x, lengths):
    order = F.one_hot(lengths.argsort(stable=True), len(x)).to(x.dtype)
    y = s.body(torch.einsum("ij,jtd->itd", order, x)).tanh()
    return torch.einsum("ji,jtd->itd", order, y)


def sorted_by_python(s, x, lengths):
    order = lengths.argsort(stable=True)
    y = s.body(x[order]).tanh().unbind(0)
    return torch.stack([y[i] for i in order.argsort().tolist()])


def unpadded(s, x, lengths):
    kept = ~padding(x, lengths)
    y = torch.zeros_like(x)
    y[kept] = s.body(x[kept]).tanh()
    return y


def unpadded_scatter(s, x, lengths):
    at = (~padding(x, lengths)).flatten().nonzero().squeeze(1)
    y = s.body(x.reshape(-1, WIDTH)[at]).tanh()
    return x.new_zeros(x.shape[0] * x.shape[1], WIDTH).index_copy(0, at, y).view(x.shape)


def unpadded_split(s, x, lengths):
    kept = ~padding(x, lengths)
    parts = s.body(x[kept]).tanh().split(lengths.tolist())
    return torch.stack([F.pad(p, (0, 0, 0, x.shape[1] - len(p))) for p in parts])


def routed(s, x, lengths):
    flat = x.reshape(-1, WIDTH)
    choice = flat[:, 0] > 0
    y = torch.zeros_like(flat)
    y[choice] = s.body(flat[choice])
    y[~choice] = s.other(flat[~choice])
    return y.view(x.shape)


def routed_softly(s, x, lengths):
    gate = s.gate(x).softmax(-1)
    top, which = gate.topk(1, -1)
    every = torch.stack([s.body(x), s.other(x)], 2)
    return top * every.gather(2, which[..., None].expand(-1, -1, -1, WIDTH)).squeeze(2)


def windowed(s, x, lengths):
    y = x.roll(1, 1).view(x.shape[0] * 2, x.shape[1] // 2, WIDTH)
    y, _ = s.attention(y, y, y)
    return y.reshape(x.shape).roll(-1, 1)


def windows_outside(s, x, lengths):
    """Windows before examples: [window, examples, tokens of a window]."""
    y = x.view(x.shape[0], 2, -1, WIDTH).transpose(0, 1).flatten(0, 1)
    y, _ = s.attention(y, y, y)
    return y.view(2, x.shape[0], -1, WIDTH).transpose(0, 1).reshape(x.shape)


def axial(s, x, lengths):
    """Attention along the numbers of a grid, first one way and then the other."""
    grid = x.view(x.shape[0], 2, -1, WIDTH)
    y = grid.permute(1, 0, 2, 3).flatten(0, 1)
    y, _ = s.attention(y, y, y)
    y = y.view(2, x.shape[0], -1, WIDTH).permute(2, 1, 0, 3).flatten(0, 1)
    y = s.body(y).view(-1, x.shape[0], 2, WIDTH)
    return y.permute(1, 2, 0, 3).reshape(x.shape)


def flipped(s, x, lengths):
    return s.body(x.flip(0)).tanh().flip(0)


def rolled(s, x, lengths):
    return s.body(x.roll(1, 0)).tanh().roll(-1, 0)


def interleaved(s, x, lengths):
    """Even examples before odd ones."""
    order = torch.cat([torch.arange(0, len(x), 2), torch.arange(1, len(x), 2)])
    return s.body(x[order]).tanh()[order.argsort()]


def halves_swapped(s, x, lengths):
    half = len(x) // 2
    y = s.body(torch.cat([x[half:], x[:half]])).tanh()
    return torch.cat([y[len(x) - half :], y[: len(x) - half]])


def twice(s, x, lengths):
    """One layer over rows in two layouts."""
    y = s.body(x.transpose(0, 1).reshape(-1, WIDTH)).tanh().view(x.shape[1], x.shape[0], WIDTH)
    return s.body(y.transpose(0, 1).reshape(-1, WIDTH)).view(x.shape)


def scaled_rows(s, x, lengths):
    """Bare parameters over rows in time-major order."""
    y = (x.transpose(0, 1).reshape(-1, WIDTH) * s.scale + s.shift) @ s.matrix
    return y.view(x.shape[1], x.shape[0], WIDTH).transpose(0, 1)


def functional(s, x, lengths):
    y = F.linear(x.transpose(0, 1).reshape(-1, WIDTH), s.body.weight, s.body.bias)
    return s.body(y.view(x.shape[1], x.shape[0], WIDTH).transpose(0, 1)).tanh()


def normed(s, x, lengths):
    y = s.norm(x.transpose(0, 1).reshape(-1, WIDTH)) * s.scale
    return y.view(x.shape[1], x.shape[0], WIDTH).transpose(0, 1)


def one_by_one(s, x, lengths):
    return torch.stack([s.body(row).tanh() for row in x])


def step_by_step(s, x, lengths):
    return torch.stack([s.body(step).tanh() for step in x.unbind(1)], 1)


def cells(s, x, lengths):
    h = x.new_zeros(x.shape[0], WIDTH)
    states = []
    for step in x.unbind(1):
        h = s.cell(step, h)
        states.append(h)
    return torch.stack(states, 1)


def encoder(batch_first, norm_first):
    return nn.TransformerEncoderLayer(
        WIDTH, 2, 16, dropout=0.0, batch_first=batch_first, norm_first=norm_first
    )


def bare(*shape):
    return nn.Parameter(torch.randn(*shape))


BODIES: dict[str, tuple[Callable, Callable]] = {
    "plain": (plain, dict),
    "time-major": (time_major, dict),
    "flat": (flat, dict),
    "flat-time-major": (flat_time_major, dict),
    "heads-outside": (heads_outside, lambda: {"narrow": linear(WIDTH // 2, WIDTH // 2)}),
    "heads-between": (heads_between, lambda: {"narrow": linear(WIDTH // 2, WIDTH // 2)}),
    "einsum-rows": (einsum_heads, lambda: {"matrix": bare(WIDTH, WIDTH)}),
    "mha": (attended(True), lambda: {"attention": nn.MultiheadAttention(WIDTH, 2, batch_first=True)}),
    "mha-time-major": (attended(False), lambda: {"attention": nn.MultiheadAttention(WIDTH, 2)}),
    **{
        f"encoder-{'batch' if b else 'time'}-{'pre' if n else 'post'}": (
            encoded,
            lambda b=b, n=n: {"layer": encoder(b, n)},
        )
        for b in (True, False)
        for n in (True, False)
    },
    "sdpa": (scaled, lambda: {"qkv": linear(WIDTH, 3 * WIDTH), "out": linear()}),
    "own-attention": (own_attention, lambda: {"qkv": linear(WIDTH, 3 * WIDTH), "out": linear()}),
    "cross-attention": (
        crossed,
        lambda: {
            "queries": bare(1, 2, WIDTH),
            "attention": nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        },
    ),
    "lstm": (recurrent, lambda: {"rnn": nn.LSTM(WIDTH, WIDTH, batch_first=True)}),
    "lstm-time-major": (recurrent, lambda: {"rnn": nn.LSTM(WIDTH, WIDTH)}),
    "gru-both-ways": (
        recurrent,
        lambda: {"rnn": nn.GRU(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True)},
    ),
    "rnn": (recurrent, lambda: {"rnn": nn.RNN(WIDTH, WIDTH, batch_first=True)}),
    "packed-gru": (packed, lambda: {"rnn": nn.GRU(WIDTH, WIDTH, batch_first=True)}),
    "conv": (convolved, lambda: {"conv": nn.Conv1d(WIDTH, WIDTH, 3, padding=1)}),
    "sorted": (sorted_by_length, dict),
    "sorted-time-major": (sorted_time_major, dict),
    "sorted-select": (sorted_by_selects, dict),
    "sorted-matrix": (sorted_by_matrix, dict),
    "sorted-python": (sorted_by_python, dict),
    "unpadded": (unpadded, dict),
    "unpadded-scatter": (unpadded_scatter, dict),
    "unpadded-split": (unpadded_split, dict),
    "routed": (routed, lambda: {"other": linear()}),
    "routed-softly": (routed_softly, lambda: {"other": linear(), "gate": linear(WIDTH, 2)}),
    "windows": (windowed, lambda: {"attention": nn.MultiheadAttention(WIDTH, 2, batch_first=True)}),
    "windows-outside": (
        windows_outside,
        lambda: {"attention": nn.MultiheadAttention(WIDTH, 2, batch_first=True)},
    ),
    "axial": (axial, lambda: {"attention": nn.MultiheadAttention(WIDTH, 2, batch_first=True)}),
    "flipped": (flipped, dict),
    "rolled": (rolled, dict),
    "interleaved": (interleaved, dict),
    "halves-swapped": (halves_swapped, dict),
    "twice": (twice, dict),
    "scaled-rows": (
        scaled_rows,
        lambda: {"scale": bare(WIDTH), "shift": bare(WIDTH), "matrix": bare(WIDTH, WIDTH)},
    ),
    "functional": (functional, dict),
    "normed": (normed, lambda: {"norm": nn.LayerNorm(WIDTH), "scale": bare(WIDTH)}),
    "one-by-one": (one_by_one, dict),
    "step-by-step": (step_by_step, dict),
    "cells": (cells, lambda: {"cell": nn.GRUCell(WIDTH, WIDTH)}),
}


# What pools them: [examples, tokens, numbers] to [examples, numbers].


def first(s, y, lengths):
    return y[:, 0]


def last(s, y, lengths):
    return y[:, -1]


def last_by_length(s, y, lengths):
    return y[torch.arange(len(y)), lengths.clamp(max=y.shape[1]) - 1]


def last_by_gather(s, y, lengths):
    at = (lengths.clamp(max=y.shape[1]) - 1)[:, None, None].expand(-1, 1, y.shape[2])
    return y.gather(1, at).squeeze(1)


def mean(s, y, lengths):
    return y.mean(1)


def masked_mean(s, y, lengths):
    kept = ~padding(y, lengths)[..., None]
    return (y * kept).sum(1) / kept.sum(1)


def largest(s, y, lengths):
    return y.amax(1)


def top_two(s, y, lengths):
    return y.topk(min(2, y.shape[1]), 1)[0].mean(1)


def attention_pool(s, y, lengths):
    return torch.einsum("bt,btd->bd", s.pool(y).squeeze(-1).softmax(1), y)


def time_major_first(s, y, lengths):
    """The first step of a flat time-major product."""
    z = s.extra(y.transpose(0, 1).reshape(-1, WIDTH))
    return z[: len(y)]


def time_major_last(s, y, lengths):
    z = s.extra(y.transpose(0, 1).reshape(-1, WIDTH))
    return z[-len(y) :]


def flat_first(s, y, lengths):
    """The first step of a flat batch-major product."""
    return s.extra(y.reshape(-1, WIDTH))[:: y.shape[1]]


def flat_picked(s, y, lengths):
    """One row of each example out of flat rows, by number."""
    at = torch.arange(len(y)) * y.shape[1] + lengths.clamp(max=y.shape[1]) - 1
    return s.extra(y.reshape(-1, WIDTH))[at]


POOLINGS: dict[str, tuple[Callable, Callable]] = {
    "first": (first, dict),
    "last": (last, dict),
    "last-by-length": (last_by_length, dict),
    "last-by-gather": (last_by_gather, dict),
    "mean": (mean, dict),
    "masked-mean": (masked_mean, dict),
    "max": (largest, dict),
    "top-two": (top_two, dict),
    "attention": (attention_pool, lambda: {"pool": linear(WIDTH, 1)}),
    "time-major-first": (time_major_first, lambda: {"extra": linear()}),
    "time-major-last": (time_major_last, lambda: {"extra": linear()}),
    "flat-first": (flat_first, lambda: {"extra": linear()}),
    "flat-picked": (flat_picked, lambda: {"extra": linear()}),
}


def sequence_entry(body, pooling, tokens):
    (carry, parts), (pool, more) = BODIES[body], POOLINGS[pooling]

    def run(s, x, lengths):
        return s.head(pool(s, carry(s, x, lengths), lengths))

    def make():
        own = {"body": linear(), **parts(), **more(), "head": linear(WIDTH, CLASSES)}
        return Model(run, **own)

    return Entry(f"{body}/{pooling}/{tokens}", make, sequences(tokens))


def generated():
    """Every body with a third of the poolings, so that every pair of neighbours in the two lists is met; tokens vary."""
    found = []
    for i, body in enumerate(BODIES):
        for j, pooling in enumerate(POOLINGS):
            if (i + j) % 3 == 0 or pooling == "first":
                tokens = (
                    (4, 6, 2)[(i + 2 * j) % 3]
                    if body in ("windows", "windows-outside", "axial")
                    else ((4, 3, 5, 6)[(2 * i + j) % 4])
                )
                found.append(sequence_entry(body, pooling, tokens))
    return found


# By hand.


def class_token(layers, batch_first, norm_first, head):
    def run(s, x, lengths):
        y = torch.cat([s.token.expand(x.shape[0], -1, -1), s.body(x)], 1) + s.position[:, : x.shape[1] + 1]
        y = s.encoder(y if batch_first else y.transpose(0, 1))
        return s.head(y[:, 0] if batch_first else y[0])

    def make():
        model = Model(
            run,
            token=bare(1, 1, WIDTH),
            position=bare(1, 9, WIDTH),
            body=linear(),
            encoder=nn.TransformerEncoder(
                encoder(batch_first, norm_first), layers, enable_nested_tensor=False
            ),
            head=linear(WIDTH, CLASSES),
        )
        if head == "zero":
            nn.init.zeros_(model.head.weight)
        return model

    kind = f"{'batch' if batch_first else 'time'}-{'pre' if norm_first else 'post'}-{head}"
    return Entry(f"class-token/{layers}-{kind}", make, sequences())


def vision_transformer():
    def run(s, x):
        y = s.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([s.token.expand(len(x), -1, -1), y], 1) + s.position
        for block in (s.one, s.two):
            y = block(y)
        return s.head(s.norm(y)[:, 0])

    return Model(
        run,
        patches=nn.Conv2d(1, WIDTH, 4, 4),
        token=bare(1, 1, WIDTH),
        position=bare(1, 5, WIDTH),
        one=encoder(True, True),
        two=encoder(True, True),
        norm=nn.LayerNorm(WIDTH),
        head=linear(WIDTH, CLASSES),
    )


def shifted_windows():
    """Windows of a picture, shifted, with a table of relative positions."""

    def run(s, x):
        batch = len(x)
        y = s.patches(x).permute(0, 2, 3, 1)  # [examples, 4, 4, numbers]
        y = y.roll((-1, -1), (1, 2)).view(batch, 2, 2, 2, 2, WIDTH).permute(0, 1, 3, 2, 4, 5)
        rows = y.reshape(batch * 4, 4, WIDTH)
        q, k, v = s.qkv(rows).view(-1, 4, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        bias = s.table[torch.arange(16) % 5].view(4, 4, 2).permute(2, 0, 1)
        y = ((q @ k.transpose(-1, -2)) + bias).softmax(-1) @ v
        y = s.out(y.transpose(1, 2).reshape(batch, 2, 2, 2, 2, WIDTH))
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(batch, 4, 4, WIDTH).roll((1, 1), (1, 2))
        return s.head(y.mean((1, 2)))

    return Model(
        run,
        patches=nn.Conv2d(1, WIDTH, 2, 2),
        qkv=linear(WIDTH, 3 * WIDTH),
        table=bare(5, 2),
        out=linear(),
        head=linear(WIDTH, CLASSES),
    )


def frames(time_first):
    def run(s, x):  # [examples, frames, 1, 6, 6]
        rows = (x.transpose(0, 1) if time_first else x).flatten(0, 1)
        y = s.norm(s.conv(rows)).tanh().mean((2, 3))
        shape = (x.shape[1], x.shape[0]) if time_first else x.shape[:2]
        y = y.view(*shape, -1)
        return s.head(y[0] if time_first else y[:, 0])

    return lambda: Model(run, conv=nn.Conv2d(1, 4, 3), norm=nn.GroupNorm(2, 4), head=linear(4, CLASSES))


def tied():
    def run(s, ids, lengths):
        y = s.table(ids).transpose(0, 1).reshape(-1, WIDTH)
        y = F.linear(s.body(y).tanh(), s.table.weight).view(ids.shape[1], ids.shape[0], -1)
        return y[0, :, :CLASSES]

    return Model(run, table=nn.Embedding(WORDS, WIDTH), body=linear())


def positions():
    def run(s, ids, lengths):
        y = s.table(ids) + s.position(torch.arange(ids.shape[1]))
        y, _ = s.attention(y, y, y)
        return s.head(y[:, 0])

    return Model(
        run,
        table=nn.Embedding(WORDS, WIDTH),
        position=nn.Embedding(9, WIDTH),
        attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True),
        head=linear(WIDTH, CLASSES),
    )


def bag(mode, offsets):
    def run(s, ids, lengths):
        if not offsets:
            return s.head(s.bag(ids))
        rows = torch.cat([row[:n] for row, n in zip(ids, lengths.tolist(), strict=True)])
        return s.head(s.bag(rows, torch.cat([lengths.new_zeros(1), lengths.cumsum(0)[:-1]])))

    return lambda: Model(run, bag=nn.EmbeddingBag(WORDS, WIDTH, mode=mode), head=linear(WIDTH, CLASSES))


def segment_sum(s, ids, lengths):
    """Tokens of all examples in one row, added up by their example's number."""
    kept = torch.arange(ids.shape[1]) < lengths[:, None]
    rows = s.body(s.table(ids[kept])).tanh()
    owner = torch.arange(len(ids)).repeat_interleave(lengths)
    return s.head(rows.new_zeros(len(ids), WIDTH).index_add(0, owner, rows))


def segment_matrix(s, ids, lengths):
    kept = torch.arange(ids.shape[1]) < lengths[:, None]
    rows = s.body(s.table(ids[kept])).tanh()
    owner = F.one_hot(torch.arange(len(ids)).repeat_interleave(lengths), len(ids)).to(rows.dtype)
    return s.head(owner.t() @ rows)


def segment_product(s, ids, lengths):
    kept = torch.arange(ids.shape[1]) < lengths[:, None]
    rows = s.body(s.table(ids[kept])).tanh()
    owner = F.one_hot(torch.arange(len(ids)).repeat_interleave(lengths), len(ids)).to(rows.dtype)
    return s.head((owner.t()[..., None] * rows).sum(1))


def segment_cumulative(s, ids, lengths):
    kept = torch.arange(ids.shape[1]) < lengths[:, None]
    rows = s.body(s.table(ids[kept])).tanh().cumsum(0)
    ends = F.pad(rows, (0, 0, 1, 0))[F.pad(lengths.cumsum(0), (1, 0))]
    return s.head(ends[1:] - ends[:-1])


def packed_attention(s, ids, lengths):
    """All examples in one long sequence, kept apart by a mask in blocks."""
    batch, tokens = ids.shape
    y = s.table(ids).view(1, -1, WIDTH)
    owner = torch.arange(batch).repeat_interleave(tokens)
    y, _ = s.attention(y, y, y, attn_mask=owner[:, None] != owner)
    return s.head(y.view(batch, tokens, WIDTH)[:, 0])


def expert_by_index(s, x, lengths):
    """Each expert takes its examples; results are put back by number."""
    y = torch.zeros_like(x[:, 0])
    choice = lengths % 2
    for number, expert in enumerate((s.body, s.other)):
        at = (choice == number).nonzero().squeeze(1)
        y = y.index_add(0, at, expert(x[at, 0]).tanh())
    return s.head(y)


class Reversed(torch.autograd.Function):
    """A function of a user: the examples in reverse order."""

    @staticmethod
    def forward(ctx, x):
        return x.flip(0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.flip(0)


def own_function(s, x, lengths):
    return s.head(Reversed.apply(s.body(x.flip(0))).tanh().mean(1))


class Sorted(torch.autograd.Function):
    """A function of a user: the examples in the order of their lengths, or back."""

    @staticmethod
    def forward(ctx, x, order):
        ctx.order = order
        return x[order]

    @staticmethod
    def backward(ctx, gradient):
        return gradient[ctx.order.argsort()], None


def own_sorting(s, x, lengths):
    order = lengths.argsort(stable=True)
    y = s.body(x[order]).tanh()
    return s.head(Sorted.apply(y, order.argsort()).mean(1))


def pairs_of_images(s, x):
    """Two pictures of an example, all first ones before all second ones."""
    both = torch.cat([x[:, 0], x[:, 1]])
    a, b = s.net(both.flatten(1)).tanh().chunk(2)
    return s.head(a * b)


def recomputed(s, x, lengths):
    from torch.utils.checkpoint import checkpoint

    y = checkpoint(s.body, x.transpose(0, 1).reshape(-1, WIDTH).clone().requires_grad_(), use_reentrant=False)
    return s.head(y[: len(x)].tanh())


def pointer(s, x, lengths):
    """Scores over the example's own tokens."""
    y = s.body(x.transpose(0, 1).flatten(0, 1)).view(x.shape[1], x.shape[0], -1)
    scores = (y * s.query).sum(-1).t()
    return s.head(torch.stack([scores.amax(1), scores[:, 0], scores.mean(1)], 1))


def bilinear(s, x, lengths):
    return s.layer(x[:, 0], x[:, -1])


def graph_network(s, x, lengths):
    """Messages along the edges of each example's own ring, with nodes of all examples in one row."""
    batch, nodes = x.shape[:2]
    rows = s.body(x.reshape(-1, WIDTH))
    source = torch.arange(batch * nodes).view(batch, nodes)
    sink = source.roll(1, 1).flatten()
    y = torch.zeros_like(rows).index_add(0, sink, s.other(rows[source.flatten()]).tanh())
    return s.head((rows + y).view(batch, nodes, WIDTH).mean(1))


def forces(share):
    """An energy and its derivative by the inputs, which uses the weights once more; ``share`` is the derivative's part."""

    def run(s, x, lengths):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            y = s.other(s.norm(s.body(x).tanh()))
            (force,) = torch.autograd.grad(y.pow(2).sum(), x, create_graph=True)
        return s.head((y + share * force).mean(1))

    return run


def by_hand():
    found = [
        class_token(layers, b, n, head)
        for layers in (1, 2)
        for b in (True, False)
        for n in (True, False)
        for head in ("random", "zero")
    ]
    more = {"other": linear}
    found += [
        Entry("vision-transformer", vision_transformer, images(1, 8, 8)),
        Entry("shifted-windows", shifted_windows, images(1, 8, 8)),
        Entry("frames/batch-major", frames(False), images(3, 1, 6, 6)),
        Entry("frames/time-major", frames(True), images(3, 1, 6, 6)),
        Entry("tied", tied, words()),
        Entry("positions", positions, words()),
    ]
    found += [Entry(f"bag-{m}{'-offsets' * o}", bag(m, o), words()) for m in ("sum", "mean") for o in (0, 1)]
    for run in (segment_sum, segment_matrix, segment_product, segment_cumulative):
        found.append(
            Entry(
                run.__name__,
                lambda run=run: Model(
                    run, table=nn.Embedding(WORDS, WIDTH), body=linear(), head=linear(WIDTH, CLASSES)
                ),
                words(),
            )
        )
    found.append(
        Entry(
            "packed-attention",
            lambda: Model(
                packed_attention,
                table=nn.Embedding(WORDS, WIDTH),
                attention=nn.MultiheadAttention(WIDTH, 2, batch_first=True),
                head=linear(WIDTH, CLASSES),
            ),
            words(),
        )
    )
    for run in (expert_by_index, own_function, own_sorting, recomputed, graph_network):
        found.append(
            Entry(
                run.__name__,
                lambda run=run: Model(
                    run,
                    body=linear(),
                    head=linear(WIDTH, CLASSES),
                    **({"other": more["other"]()} if run in (expert_by_index, graph_network) else {}),
                ),
                sequences(),
            )
        )
    found += [
        Entry(
            f"forces/{share}",
            lambda share=share: Model(
                forces(share),
                body=linear(),
                norm=nn.LayerNorm(WIDTH),
                other=linear(),
                head=linear(WIDTH, CLASSES),
            ),
            sequences(),
        )
        for share in (1.0, 1e-3)
    ]
    found += [
        Entry(
            "pointer",
            lambda: Model(pointer, body=linear(), query=bare(WIDTH), head=linear(3, CLASSES)),
            sequences(),
        ),
        Entry("bilinear", lambda: Model(bilinear, layer=nn.Bilinear(WIDTH, WIDTH, CLASSES)), sequences()),
        Entry(
            "pairs-of-images",
            lambda: Model(pairs_of_images, net=linear(16, WIDTH), head=linear(WIDTH, CLASSES)),
            images(2, 1, 4, 4),
        ),
    ]
    return found


ENTRIES = [*generated(), *by_hand()]


# Models whose examples depend on each other: a sum of their gradients has no clip, and they are refused.


def centred(s, x, lengths):
    y = s.body(x[:, 0])
    return s.head(y - y.mean(0))


def centred_by_a_cut(s, x, lengths):
    y = s.body(x[:, 0])
    return s.head(y - y.detach().mean(0))


def centred_in_large_lots(s, x, lengths):
    y = s.body(x[:, 0])
    return s.head(y - y.detach().mean(0) if len(y) > 4 else y)


def mixed_up(s, x, lengths):
    """Each example is half of its neighbour."""
    y = s.body(x[:, 0])
    return s.head(y + 0.5 * y.roll(1, 0))


def attention_over_examples(s, x, lengths):
    y = x[:, 0]
    return s.head(s.attention(y[:, None], y[:, None], y[:, None])[0][:, 0])


def scaled_by_the_largest(s, x, lengths):
    y = s.body(x[:, 0])
    return s.head(y / y.detach().abs().max())


def ranked(s, x, lengths):
    """The example's rank among the others."""
    y = s.body(x[:, 0]).tanh()
    rank = y[:, 0].detach().argsort().argsort().to(y.dtype) / len(y)
    return s.head(y * (1 + rank[:, None]))


def longest(s, x, lengths):
    """The mean is over as many tokens as the longest example of the lot has."""
    y = s.body(x).tanh()
    return s.head((y * ~padding(x, lengths)[..., None]).sum(1) / lengths.max())


COUPLED = [
    Entry(
        run.__name__,
        lambda run=run: Model(
            run,
            body=linear(),
            head=linear(WIDTH, CLASSES),
            **({"attention": nn.MultiheadAttention(WIDTH, 2)} if run is attention_over_examples else {}),
        ),
        sequences(),
    )
    for run in (
        centred,
        centred_by_a_cut,
        centred_in_large_lots,
        mixed_up,
        attention_over_examples,
        scaled_by_the_largest,
        ranked,
        longest,
    )
]
