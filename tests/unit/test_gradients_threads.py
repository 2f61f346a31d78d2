"""Compiled loops on several of torch's threads: every loop gives the same as on one thread."""

import itertools
import os
import signal

import numpy as np
import pytest
import torch
from torch import nn

from privet.randomness import SeededNoise
from privet.training.noise.gradient_noise import add_gaussian_
from privet.training.per_example import ClippedSums, per_example_loss
from privet.training.per_example.forms.gradient_form import load_kernels
from privet.training.threads import choose_threads

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="numba is not installed")

THREADS = (2, 3, 5)


@pytest.fixture(autouse=True)
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def outcome(loop, count, *arguments):
    """What the loop gives, and what it makes of its arrays."""
    own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    found = loop(count, *own)
    return found, [a for a in own if isinstance(a, np.ndarray)]


def cases():
    ids = np.random.default_rng(1).integers(0, 600, (17, 6))  # keys of every thread
    x, g, norms = numbers(17, 9), numbers(17, 40), np.abs(numbers(17)).astype(np.float64)
    gates, cells = numbers(2, 17, 4, 5), numbers(3, 17, 5)
    labels, loops, mlp_loops = (
        np.random.default_rng(2).integers(0, 40, 17),
        load_kernels(),
        load_kernels("mlp_loops"),
    )
    nothing, no_matrix = numbers(0), numbers(0, 0)
    tokens, rows = numbers(17, 35, 20), numbers(17, 35, 33)
    found = {
        "layer_norm_sums": (
            loops.layer_norm_sums, tokens, numbers(17, 35), numbers(17, 35), numbers(17, 35, 20),
            numbers(17, 20), numbers(17, 20),
        ),
    }  # fmt: skip
    grams = load_kernels("gram_loops")
    if grams.has_wide_registers():
        none = np.zeros((0, 0, 0), np.float32)
        first = (np.ascontiguousarray(t.swapaxes(0, 1)) for t in (tokens, rows))
        found["gram_squared_norms"] = (
            grams.gram_squared_norms,
            tokens,
            rows,
            (False, False),
            none,
            none,
            (False, False),
            0.0,
            norms,
        )
        found["gram_squares, tokens first"] = (
            grams.gram_squared_norms,
            *first,
            (True, True),
            none,
            none,
            (False, False),
            0.0,
            norms,
        )
    return found | {
        "embedding_squared_norms": (loops.embedding_squared_norms, ids, numbers(17, 6, 5), 3, 600, norms),
        "add_embedding_rows": (
            loops.add_embedding_rows, ids, numbers(17, 6, 5), numbers(17), 3, numbers(600, 5),
        ),
        "copy_windows": (loops.copy_windows, numbers(17, 8, 12), 2, 2, numbers(17, 3, 5, 4, 4)),
        "lstm_forward": (loops.lstm_forward, gates, cells, numbers(2, 17, 5), numbers(2, 17, 5), 1),
        "lstm_backward": (
            loops.lstm_backward, gates, cells, numbers(2, 17, 5), numbers(2, 17, 4, 5),
            numbers(17, 5), numbers(17, 5), 1,
        ),
        "cross entropy": (
            mlp_loops.cross_entropy_gradient, x, no_matrix, nothing, g, labels, 7, 1.0, 1.0, norms,
        ),
        "cross entropy with the last layer": (
            mlp_loops.cross_entropy_gradient, x, numbers(40, 9), numbers(40), g, labels, 7, 1.0, 0.0, norms,
        ),
        "add_layer_squared_norms": (
            mlp_loops.add_layer_squared_norms, x, numbers(17, 40), g, 2, 1.0, 1.0, norms,
        ),
        "add_linear_squared_norms": (mlp_loops.add_linear_squared_norms, x, g, 1.0, 1.0, norms),
        "scale_and_sum": (mlp_loops.scale_and_sum, numbers(17, 130), numbers(17), numbers(130), False),
        "scale, and no sum": (mlp_loops.scale_and_sum, numbers(17, 130), numbers(17), nothing, True),
    }  # fmt: skip


CASES = cases() if load_kernels() is not None else {}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("count", THREADS)
def test_a_loop_gives_the_same_on_any_number_of_threads(name, count):
    loop, *arguments = CASES[name]
    (alone, one), (together, many) = (outcome(loop, n, *arguments) for n in (1, count))
    assert alone == together
    changed = False
    for before, a, b in zip([x for x in arguments if isinstance(x, np.ndarray)], one, many, strict=True):
        np.testing.assert_array_equal(a, b)
        changed |= not np.array_equal(before, a)
    assert changed  # so that a loop that does nothing does not pass


@pytest.mark.parametrize("count", [1, 3])
def test_rows_of_a_table_by_hand(count):
    ids, rows = np.random.default_rng(1).integers(0, 600, (17, 6)), numbers(17, 6, 5)
    factors, out = numbers(17), np.zeros((600, 5), dtype=np.float32)
    expected = np.zeros((600, 5))
    np.add.at(expected, ids, factors[:, None, None] * rows)
    expected[ids[0, 0]] = 0  # the row that is skipped
    load_kernels().add_embedding_rows(count, ids, rows, factors, int(ids[0, 0]), out)
    np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 100])
def test_sums_of_layer_norms_by_hand(tokens):
    x, means, scales, g = (
        numbers(4, tokens, 7),
        numbers(4, tokens),
        numbers(4, tokens),
        numbers(4, tokens, 7, seed=1),
    )
    weights, biases = numbers(4, 7), numbers(4, 7)
    load_kernels().layer_norm_sums(2, x, means, scales, g, weights, biases)
    normed = (x - means[..., None]) * scales[..., None]
    np.testing.assert_allclose(weights, (normed * g).sum(1), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(biases, g.sum(1), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(not load_kernels("gram_loops").has_wide_registers(), reason="no registers of 512 bits")
@pytest.mark.parametrize("tokens", [1, 7, 8, 16, 17, 33, 48, 64, 81, 100])
@pytest.mark.parametrize("widths", [(3, 5), (16, 32), (17, 70)])
def test_gram_norms_of_every_size(tokens, widths):
    x, g = (torch.randn(3, tokens, n, generator=torch.Generator().manual_seed(n)) for n in widths)
    exact = torch.bmm(g.double().transpose(1, 2), x.double()).flatten(1).square().sum(1)
    across = -(-tokens // 16) * 16
    empty, diagonal = np.zeros((0, 0, 0), np.float32), (x.square().sum(2) * g.square().sum(2)).sum(1)
    for turned in itertools.product((False, True), repeat=2):
        arrays = [
            (t.transpose(0, 1).contiguous() if first else t).numpy()
            for t, first in zip((x, g), turned, strict=True)
        ]
        norms, guarded, again = np.zeros(3), np.zeros(3), np.zeros(3)
        run = load_kernels("gram_loops").gram_squared_norms
        run(2, *arrays, turned, empty, empty, (False, False), 0.0, norms)
        np.testing.assert_allclose(norms, exact.numpy(), rtol=2e-5)
        kept = [np.full((3, across, across), np.nan, np.float32) for _ in range(2)]
        run(2, *arrays, turned, *kept, (False, False), 0.5, guarded)
        np.testing.assert_allclose(guarded - norms, diagonal.double().numpy() / 2, rtol=1e-5)
        for known in itertools.product((False, True), repeat=2):  # what is known is not read from the rows
            given = [np.full_like(t, np.nan) if knows else t for t, knows in zip(arrays, known, strict=True)]
            run(2, *given, turned, *kept, known, 0.5, again)
            np.testing.assert_array_equal(again, guarded)


class Attention(nn.Module):
    """Query, key and value of one input, and a fourth matrix of another input of the same size."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        y = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2), 2) @ self.value(x)
        return self.out(y).mean((1, 2))


@pytest.mark.parametrize("model", [Attention(), nn.LSTM(32, 32, batch_first=True)])
def test_shared_inner_products_give_the_norms_of_the_loop(model):
    torch.manual_seed(3)
    x = torch.randn(4, 20, 32)

    def loss(outputs, targets):
        outputs = outputs if isinstance(outputs, torch.Tensor) else outputs[0].mean((1, 2))
        return (outputs - targets).square() * 1e3

    sums = ClippedSums(model, loss, Flat())
    for _ in range(2):  # nothing is left from the lot before
        norms = sums.add((x,), torch.zeros(4), sums.layout.zeros())
        expected = []
        for b in range(4):
            found = torch.autograd.grad(
                loss(model(x[b : b + 1]), torch.zeros(1)).sum(), list(model.parameters())
            )
            expected.append(sum(float(g.double().square().sum()) for g in found))
        np.testing.assert_allclose(norms.numpy(), expected, rtol=1e-4)
        x = x.flip(0) * 1.5 + 0.1


@pytest.mark.parametrize("bad", [-1, 40])
def test_a_label_out_of_range_is_seen_by_every_thread(bad):
    loop, *arguments = CASES["cross entropy"]
    for place in (0, 8, 16):
        labels = arguments[4].copy()
        labels[place] = bad
        arguments[4] = labels
        assert not outcome(loop, 3, *arguments)[0]
    assert outcome(*[CASES["cross entropy"][0], 3, *CASES["cross entropy"][1:]])[0]


class Flat:
    ceiling = 0.5

    def factors(self, squared_norms):
        return (0.5 / squared_norms.sqrt()).clamp(max=1.0)


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.rnn = nn.Embedding(50, 16), nn.LSTM(16, 24, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, ids):
        return self.head(self.rnn(self.table(ids))[0][:, -1])


class Last(nn.Module):
    def forward(self, x):
        return x.tanh().mean(1)


MODELS = {
    "an MLP": (
        lambda: nn.Sequential(nn.Linear(300, 60), nn.ReLU(), nn.Linear(60, 3)),
        lambda: torch.randn(200, 300),
    ),
    "thin": (lambda: nn.Linear(300, 3), lambda: torch.randn(200, 300)),
    "text": (Text, lambda: torch.randint(0, 50, (200, 20))),
    "sentences": (
        lambda: nn.Sequential(
            nn.Embedding(50, 40), nn.LayerNorm(40), nn.Linear(40, 60), nn.GELU(), nn.Linear(60, 3), Last()
        ),
        lambda: torch.randint(0, 50, (100, 20)),
    ),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 8, 5, 2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(800, 3)
        ),
        lambda: torch.randn(64, 1, 28, 28),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_clipped_sums_are_the_same_on_several_threads(name):
    """Up to the order in which torch's own products add up."""
    make, draw = MODELS[name]
    torch.manual_seed(0)
    model, x = make(), draw()
    y = torch.randint(0, 3, (len(x),))
    found = []
    for count in (1, *THREADS):
        torch.set_num_threads(count)
        sums = ClippedSums(model, per_example_loss(nn.CrossEntropyLoss()), Flat())
        for _ in range(2):  # the second may be a chain's
            out = sums.layout.zeros()
            norms = sums.add((x,), y, out)
        found.append((norms, out))
    for norms, out in found[1:]:
        assert torch.allclose(norms, found[0][0], rtol=1e-5)
        assert torch.allclose(out, found[0][1], rtol=1e-4, atol=1e-5)


def test_a_fork_has_no_threads_but_its_own():
    """Torch's pool is not there in a child; asking for it would wait for ever."""
    torch.set_num_threads(2)
    assert choose_threads(1 << 20) == 2
    assert choose_threads(10) == 1
    buffer = torch.zeros(1 << 20)  # made here: torch itself would wait in the child
    add_gaussian_(buffer, 1.0, SeededNoise(1))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(20)
        add_gaussian_(buffer, 1.0, SeededNoise(1))
        os.write(writer, b"%d" % choose_threads(1 << 20))
        os._exit(0)
    os.close(writer)
    assert os.read(reader, 10) == b"1"
    assert os.waitpid(child, 0)[1] == 0
    os.close(reader)
