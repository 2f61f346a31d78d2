"""The engine's clipped sums equal those of a loop over the examples, for every layer and for random networks.

The oracle is a loop: one example at a time through the plain model, autograd, norm in float64, clip, add.
"""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from privet.training.per_example import ClippedSums, CrossExample, per_example_loss
from privet.training.per_example.forms import (
    conv_form,
    embedding_form,
    gradient_form,
    linear_form,
    mlp,
    single_token_linear,
)
from privet.training.per_example.graph import couplings
from privet.training.per_example.taps import group_normalization, layers, recurrent

BATCH = 5


class Flat:
    def __init__(self, bound):
        self.bound = self.ceiling = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt()).clamp(max=1.0)


def looped(model, loss, inputs, targets, bound):
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64)
    norms = []
    for i in range(len(targets)):
        value = loss(model(*[x[i : i + 1] for x in inputs]), targets[i : i + 1]).sum()
        found = torch.autograd.grad(value, parameters, allow_unused=True)
        rows = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
        row = torch.cat([g.flatten() for g in rows]).double()
        norms.append(row.square().sum())
        total += row * min(1.0, bound / max(float(norms[-1]) ** 0.5, 1e-300))
    return total, torch.stack(norms)


def error(model, inputs, targets, loss=None, bound=0.3):
    """The relative error of the sum and of the worst norm, for clips that do and do not bind."""
    loss = per_example_loss(nn.CrossEntropyLoss()) if loss is None else loss
    sums = ClippedSums(model, loss, Flat(bound))
    out = sums.layout.zeros()
    norms = sums.add(inputs, targets, out)
    again = sums.layout.zeros()
    sums.add(inputs, targets, again)  # by the plan that was learnt
    total, truth = looped(model, loss, inputs, targets, bound)
    assert norms.dtype == torch.float64
    assert torch.allclose(out, again, rtol=1e-4, atol=1e-6 * float(total.norm()))
    assert all("forward" not in m.__dict__ for m in model.modules())
    scale = float(total.norm()) or 1.0
    return max(
        float((out - total).norm()) / scale, float(((norms - truth).abs() / truth.clamp(min=1e-12)).max())
    )


def loose(model, inputs, targets, loss=None):
    """The parameters that went to brute force."""
    sums = ClippedSums(model, loss or per_example_loss(nn.CrossEntropyLoss()), Flat(1.0))
    sums.add(inputs, targets, sums.layout.zeros())
    return {sums.layout.names[i] for i in sums.brute_forced}


def classes(count=3, batch=BATCH):
    return torch.randint(0, count, (batch,))


@pytest.fixture(autouse=True)
def _same_weights():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny tensors: threads would only wait for each other
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        yield
    torch.set_num_threads(threads)


class Mean(nn.Module):
    """Any features to three classes, without parameters."""

    def forward(self, x):
        return x.flatten(1).unfold(1, 3, 1).mean(1)


class Rows(nn.Module):
    """The tokens of an example, averaged."""

    def forward(self, x):
        return x.mean(1)


class Tokens(nn.Module):
    """As ``Rows``, where there are tokens."""

    def forward(self, x):
        return x.mean(1) if x.dim() == 3 else x


CONVOLUTIONS = [
    nn.Conv1d(4, 6, 3),
    nn.Conv1d(4, 6, 3, stride=2, padding=2, dilation=2, groups=2, bias=False),
    nn.Conv1d(4, 6, 4, padding="same", padding_mode="circular"),
    nn.Conv2d(4, 6, 3),
    nn.Conv2d(4, 6, 3, bias=False),
    nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
    nn.Conv2d(4, 6, 3, groups=2, padding=1),
    nn.Conv2d(4, 8, 3, groups=4, padding="same"),
    nn.Conv2d(4, 4, 2, padding="same"),
    nn.Conv2d(4, 4, 3, padding="valid"),
    nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"),
    nn.Conv2d(4, 6, 3, padding=(1, 2), padding_mode="reflect"),
    nn.Conv2d(4, 6, 3, padding=2, padding_mode="replicate", groups=2),
    nn.Conv2d(4, 40, 7, padding=0),
    nn.Conv3d(4, 6, 2),
    nn.Conv3d(4, 6, 2, stride=2, padding=1, groups=2, dilation=2),
]


@pytest.mark.parametrize("layer", CONVOLUTIONS, ids=str)
@pytest.mark.parametrize(
    ("price", "gain"), [(1e9, 0.5), (1e-9, 0.0), (1e-9, 1e9)], ids=["written out", "gram", "gram of pixels"]
)
@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_convolutions(layer, price, gain, monkeypatch):
    monkeypatch.setattr(conv_form, "GRAM_PRICE", price)
    monkeypatch.setattr(conv_form, "SHIFT_GAIN", gain)
    layer.reset_parameters()
    size = {nn.Conv1d: (9,), nn.Conv2d: (9, 8), nn.Conv3d: (5, 4, 5)}[type(layer)]
    model = nn.Sequential(nn.Conv1d(4, 4, 1) if len(size) == 1 else nn.Identity(), layer, Mean())
    assert error(model, (torch.randn(BATCH, 4, *size),), classes()) < 2e-5
    assert not loose(model, (torch.randn(BATCH, 4, *size),), classes())


@pytest.mark.parametrize("shape", [(6,), (4, 6), (40, 6), (3, 4, 6), (2, 2, 3, 6)], ids=str)
@pytest.mark.parametrize("bias", [True, False])
def test_linear_of_two_to_five_sizes(shape, bias):
    model = nn.Sequential(nn.Linear(6, 7, bias=bias), nn.Tanh(), nn.Linear(7, 5, bias=bias), Mean())
    assert error(model, (torch.randn(BATCH, *shape),), classes()) < 3e-6
    assert not loose(model, (torch.randn(BATCH, *shape),), classes())


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.LayerNorm(6), (6,)),
        (nn.LayerNorm(6), (3, 6)),
        (nn.LayerNorm((3, 6)), (2, 3, 6)),
        (nn.LayerNorm(6, bias=False), (3, 6)),
        (nn.RMSNorm(6), (3, 6)),
        (nn.RMSNorm((3, 6), eps=1e-3), (3, 6)),
        (nn.GroupNorm(2, 6), (6,)),
        (nn.GroupNorm(3, 6), (6, 4, 5)),
        (nn.InstanceNorm1d(4, affine=True), (4, 7)),
        (nn.InstanceNorm2d(4, affine=True), (4, 3, 5)),
        (nn.InstanceNorm3d(2, affine=True), (2, 3, 2, 4)),
    ],
    ids=str,
)
def test_normalisations(layer, shape):
    for p in layer.parameters():
        nn.init.normal_(p)
    model = nn.Sequential(nn.Linear(shape[-1], shape[-1]), layer, nn.Tanh(), Mean())
    assert error(model, (torch.randn(BATCH, *shape),), classes()) < 5e-6
    assert not loose(model, (torch.randn(BATCH, *shape),), classes())


LOOPS = (embedding_form, linear_form)


@pytest.fixture(params=["load_kernels", "torch"])
def loops(request, monkeypatch):
    """With numba's loops, and without."""
    if request.param == "load_kernels":
        pytest.importorskip("numba")
    else:
        for module in (*LOOPS, layers, single_token_linear, mlp, recurrent, conv_form, group_normalization):
            monkeypatch.setattr(module, "load_kernels", lambda *loops: None)


IMAGE_LAYERS = {
    "pointwise": (nn.Conv2d(16, 5, 1), 6),
    "pointwise without bias": (nn.Conv2d(16, 16, 1, bias=False), 1),
    "depthwise": (nn.Conv2d(16, 16, 3, padding=1, groups=16), 6),
    "depthwise with strides": (nn.Conv2d(16, 16, (5, 4), (2, 3), (3, 1), groups=16, bias=False), 9),
    "depthwise that is padded in a circle": (
        nn.Conv2d(16, 16, 3, padding=1, groups=16, padding_mode="circular"),
        5,
    ),
    "groups, channels last": (nn.GroupNorm(4, 16), 6),
    "one group, channels last": (nn.GroupNorm(1, 16, eps=0.1), 7),
    "a channel in a group, one pixel": (nn.GroupNorm(8, 16), 1),
    "a large weight, one pixel": (nn.Conv2d(16, 700, 3, padding=1), 1),
    "a large weight, four pixels": (nn.Conv2d(16, 1200, 3, 1, 1, bias=False), 2),
}


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("kind", IMAGE_LAYERS)
def test_layers_between_convolutions(kind):
    layer, size = IMAGE_LAYERS[kind]
    for p in layer.parameters():
        nn.init.normal_(p, std=0.1)
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), layer, nn.ReLU(inplace=True), Mean())
    images = torch.randn(BATCH, 3, size, size)
    assert error(model, (images,), classes()) < 2e-5
    assert not loose(model, (images,), classes())


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("tokens", [1, 2, 12])
def test_embedding_with_repeated_tokens(padding, tokens):
    model = nn.Sequential(nn.Embedding(5, 4, padding_idx=padding), nn.Tanh(), Mean())
    ids = torch.randint(0, 5, (BATCH, tokens))
    assert error(model, (ids,), classes()) < 3e-6
    assert not loose(model, (ids,), classes())


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("width", [3, 1024, 2500])
def test_rows_wider_than_a_block(width):
    model = nn.Sequential(nn.Embedding(5, width), Rows(), nn.Linear(width, 3))
    ids = torch.randint(0, 5, (BATCH, 4))
    assert error(model, (ids,), classes()) < 3e-6
    assert error(nn.Linear(width, 3), (torch.randn(BATCH, width),), classes()) < 3e-6
    assert error(nn.Linear(4, width), (torch.randn(BATCH, 4),), classes()) < 3e-6


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("frozen", ["none", "weight", "bias", "first"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_plain_linear_networks(frozen, dtype):
    model = nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, 3))
    model = model.to(dtype)
    if frozen == "first":
        model[0].requires_grad_(False)
    elif frozen != "none":
        getattr(model[4], frozen).requires_grad_(False)
    x = torch.randn(BATCH, 14, dtype=dtype)
    for rows in (x[:, :7].contiguous(), x[:, ::2]):  # the second is not contiguous
        assert error(model, (rows,), classes()) < 3e-6
        assert not loose(model, (rows,), classes())


@pytest.mark.usefixtures("loops")
def test_a_loss_that_is_the_output_itself():
    """Its gradient is what the backward pass starts from; scaling it must not reach the next step."""
    model = nn.Linear(3, 1)
    x, y = torch.randn(BATCH, 3), torch.zeros(BATCH)
    sums = ClippedSums(model, lambda outputs, targets: outputs.squeeze(1), Flat(0.1))
    total, _ = looped(model, lambda outputs, targets: outputs.squeeze(1), (x,), y, 0.1)
    for _ in range(3):
        out = sums.layout.zeros()
        sums.add((x,), y, out)
        assert torch.allclose(out.double(), total, rtol=1e-5, atol=1e-7)


@pytest.mark.usefixtures("loops")
def test_a_fresh_buffer_is_overwritten_and_another_is_added_to():
    model = nn.Sequential(nn.Embedding(5, 4), Rows(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 3))
    model.register_parameter("unused", nn.Parameter(torch.ones(2)))
    ids, y = torch.randint(0, 5, (BATCH, 4)), classes()
    sums = ClippedSums(model, per_example_loss(nn.CrossEntropyLoss()), Flat(0.3))
    total, _ = looped(model, per_example_loss(nn.CrossEntropyLoss()), (ids,), y, 0.3)
    out = torch.full((sums.layout.size,), math.nan)
    sums.add((ids,), y, out, overwrite=True)
    assert torch.allclose(out.double(), total, rtol=1e-5, atol=1e-6)
    sums.add((ids,), y, out)
    assert torch.allclose(out.double(), 2 * total, rtol=1e-5, atol=2e-6)
    sums.add((ids[:0],), y[:0], out, overwrite=True)
    assert not out.any()


@pytest.mark.usefixtures("loops")
def test_what_is_learnt_of_a_model_does_not_outlive_a_change():
    """Shapes, modes, weights given anew, memory of weights given anew, layers put in place of others."""

    def check(x):
        out = sums.layout.zeros()
        sums.add((x,), y, out)
        total, _ = looped(model, loss, (x,), y, 0.3)
        assert torch.allclose(out.double(), total, rtol=1e-4, atol=1e-6)

    loss, y = per_example_loss(nn.CrossEntropyLoss()), classes()
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), Tokens(), nn.Linear(6, 3))
    sums = ClippedSums(model, loss, Flat(0.3))
    check(torch.randn(BATCH, 4))
    check(torch.randn(BATCH, 7, 4))
    check(torch.randn(BATCH, 4))
    model.eval()
    check(torch.randn(BATCH, 4))
    model.train()
    with torch.no_grad():
        model[0].weight.mul_(2.0)
    check(torch.randn(BATCH, 4))
    model[0].weight.data = torch.randn(6, 4)
    check(torch.randn(BATCH, 4))
    model[3].weight.data = torch.randn(6, 3).t()  # other strides
    check(torch.randn(BATCH, 2, 4))
    model[1] = nn.ReLU()
    check(torch.randn(BATCH, 4))
    model.load_state_dict({name: torch.randn_like(p) for name, p in model.state_dict().items()})
    check(torch.randn(BATCH, 4))


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
def test_embedding_bag_with_duplicates(mode, padding):
    model = nn.Sequential(nn.EmbeddingBag(4, 6, mode=mode, padding_idx=padding), nn.Linear(6, 3))
    ids = torch.randint(0, 4, (BATCH, 9))
    assert error(model, (ids,), classes()) < 3e-6


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(6, 3, mode="sum")

    def forward(self, ids, weights):
        return self.bag(ids, per_sample_weights=weights)


def test_embedding_bag_with_weights():
    assert error(Weighted(), (torch.randint(0, 6, (BATCH, 7)), torch.randn(BATCH, 7)), classes()) < 3e-6


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [True, False])
def test_embedding_bag_with_offsets(mode, last):
    """Alone in its model, so that nothing is left to ask the graph for in a second step."""

    def run(self, ids, lengths):
        flat = torch.cat([row[:n] for row, n in zip(ids, lengths.tolist(), strict=True)])
        ends = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        return self.bag(flat, ends if self.bag.include_last_offset else ends[:-1])

    model = Model(run, bag=nn.EmbeddingBag(6, 3, mode=mode, include_last_offset=last))
    lengths = torch.tensor([3, 1, 7, 0, 2])
    assert error(model, (torch.randint(0, 6, (BATCH, 7)), lengths), classes()) < 3e-6


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_lstm_with_projections(layers):
    def run(self, x):
        y, (h, c) = self.layer(self.before(x))
        return y.mean(1)[:, :3] + h.sum(0) + c.sum(0)[:, :3]

    layer = nn.LSTM(4, 5, layers, proj_size=3, bidirectional=layers == 2, batch_first=True)
    model = Model(run, before=nn.Linear(4, 4), layer=layer)
    for length in (1, 4, 40):
        assert error(model, (torch.randn(BATCH, length, 4),), classes()) < 1e-5


@pytest.mark.parametrize(
    "layer",
    [
        nn.LSTM(4, 3, 2, batch_first=True),
        nn.LSTM(4, 3, bidirectional=True, batch_first=True),
        nn.GRU(4, 3, batch_first=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("lengths", [(3, 6, 1, 6, 2), (2, 2, 2, 2, 2), (6, 6, 6, 6, 6)])
def test_packed_sequences(layer, lengths):
    layer.reset_parameters()

    def run(self, x, lengths):
        packed = pack_padded_sequence(self.before(x), lengths, batch_first=True, enforce_sorted=False)
        y, last = self.layer(packed)
        padded, _ = pad_packed_sequence(y, batch_first=True)
        return padded.sum(1)[:, :3] + (last[0] if isinstance(last, tuple) else last)[-1]

    model = Model(run, before=nn.Linear(4, 4), layer=layer)
    assert error(model, (torch.randn(BATCH, 6, 4), torch.tensor(lengths)), classes()) < 1e-5


RECURRENT = [
    nn.LSTM(4, 3, batch_first=True),
    nn.LSTM(4, 3, num_layers=2, bias=False),
    nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True),
    nn.GRU(4, 3, batch_first=True),
    nn.GRU(4, 3, num_layers=2, bias=False),
    nn.GRU(4, 3, num_layers=2, bidirectional=True, batch_first=True),
    nn.RNN(4, 3, batch_first=True),
]


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("layer", RECURRENT, ids=str)
@pytest.mark.parametrize("length", [1, 4, pytest.param(40, marks=pytest.mark.slow)])
def test_recurrent_layers(layer, length):
    layer.reset_parameters()

    def run(self, x):
        x = self.before(x)
        y, last = self.layer(x if self.layer.batch_first else x.transpose(0, 1))
        state = last[0] if isinstance(last, tuple) else last
        return y.mean(1 if self.layer.batch_first else 0)[:, :3] + state.sum(0)[:, :3]

    model = Model(run, before=nn.Linear(4, 4), layer=layer)
    x = (torch.randn(BATCH, length, 4),)
    assert error(model, x, classes()) < 1e-5
    assert not loose(model, x, classes())


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_from_a_given_state(kind):
    def run(self, x):
        h = self.start(x[:, 0]).unsqueeze(0)
        y, last = self.layer(x, (h, 2 * h) if isinstance(self.layer, nn.LSTM) else h)
        return y[:, -1] + (last[1][0] if isinstance(last, tuple) else last[0])

    model = Model(run, start=nn.Linear(4, 3), layer=kind(4, 3, batch_first=True))
    x = (torch.randn(BATCH, 6, 4),)
    assert error(model, x, classes()) < 1e-5
    assert not loose(model, x, classes())


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("masked", ["no", "causal", "padded"])
@pytest.mark.parametrize("sources", ["self", "pair", "three"])
def test_attention(batch_first, masked, sources):
    def run(self, x, padded):
        order = (lambda t: t) if batch_first else (lambda t: t.transpose(0, 1))
        key = x if sources == "self" else self.other(x)
        value = key if sources != "three" else self.third(x)
        causal = torch.full((6, 6), -torch.inf).triu(1) if masked == "causal" else None
        y, _ = self.layer(
            order(x),
            order(key),
            order(value),
            attn_mask=causal,
            key_padding_mask=padded if masked == "padded" else None,
        )
        return self.head(order(y).mean(1))

    model = Model(
        run,
        other=nn.Linear(8, 8),
        third=nn.Linear(8, 8),
        layer=nn.MultiheadAttention(8, 2, batch_first=batch_first),
        head=nn.Linear(8, 3),
    )
    if sources == "self":
        del model.other
    if sources != "three":
        del model.third
    padded = torch.zeros(BATCH, 6, dtype=torch.bool)
    padded[:, 4:] = True
    nn.init.normal_(model.layer.in_proj_bias)
    assert error(model, (torch.randn(BATCH, 6, 8), padded), classes()) < 1e-5
    assert not loose(model, (torch.randn(BATCH, 6, 8), padded), classes())


def test_a_transformer_layer():
    model = nn.Sequential(
        nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 5)
    )
    x, y = torch.randn(BATCH, 6, 8), torch.randint(0, 5, (BATCH, 6))
    assert error(model, (x,), y) < 1e-5
    assert not loose(model, (x,), y)


# Correct where peers are not.


class Model(nn.Module):
    """A model from a function of itself and its inputs."""

    def __init__(self, function, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self.function = function

    def forward(self, *inputs):
        return self.function(self, *inputs)


def test_a_weight_used_in_a_module_and_functionally():
    model = Model(lambda s, x: F.linear(s.a(x).tanh(), s.a.weight), a=nn.Linear(3, 3))
    x = (torch.randn(BATCH, 3),)
    assert error(model, x, classes()) < 3e-6
    assert not loose(model, x, classes())


def test_a_weight_of_an_embedding_used_as_a_matrix():
    model = Model(lambda s, ids: F.linear(s.e(ids).tanh(), s.e.weight).mean(1), e=nn.Embedding(3, 4))
    assert error(model, (torch.randint(0, 3, (BATCH, 6)),), classes()) < 3e-6


@pytest.mark.parametrize("padding", [None, 1])
def test_tied_embeddings(padding):
    table, head = nn.Embedding(7, 4, padding_idx=padding), nn.Linear(4, 7)
    head.weight = table.weight
    model = nn.Sequential(table, nn.Linear(4, 4), nn.Tanh(), head)
    ids = torch.randint(0, 7, (BATCH, 6))
    assert error(model, (ids,), torch.randint(0, 7, (BATCH, 6))) < 5e-6
    assert not loose(model, (ids,), torch.randint(0, 7, (BATCH, 6)))


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
def test_position_numbers_without_examples_as_many_as_examples(batch):
    model = Model(
        lambda s, ids: s.h(s.e(ids) + s.p(torch.arange(ids.shape[1]))).mean(1),
        e=nn.Embedding(9, 4),
        p=nn.Embedding(4, 4),
        h=nn.Linear(4, 3),
    )
    ids = torch.randint(0, 9, (batch, 4))
    assert error(model, (ids,), classes(3, batch)) < 3e-6
    assert not loose(model, (ids,), classes(3, batch))


def test_a_module_used_twice():
    linear = nn.Linear(4, 4)
    model = nn.Sequential(linear, nn.Tanh(), linear, nn.Tanh(), linear, nn.Linear(4, 3))
    assert error(model, (torch.randn(BATCH, 4),), classes()) < 3e-6
    assert not loose(model, (torch.randn(BATCH, 4),), classes())


def test_a_convolution_and_a_norm_used_twice():
    layer, norm = nn.Conv2d(3, 3, 3, padding=1), nn.GroupNorm(1, 3)
    model = nn.Sequential(layer, norm, nn.Tanh(), layer, norm, Mean())
    assert error(model, (torch.randn(BATCH, 3, 5, 5),), classes()) < 5e-6


def test_bare_parameters():
    model = Model(
        lambda s, x: (s.a(x) * s.scale + s.shift).tanh() @ s.matrix,
        a=nn.Linear(4, 4),
        scale=nn.Parameter(torch.randn(4)),
        shift=nn.Parameter(torch.randn(4)),
        matrix=nn.Parameter(torch.randn(4, 3)),
    )
    for shape in [(BATCH, 4), (BATCH, 1, 4)]:
        whole = nn.Sequential(model, Mean())
        assert error(whole, (torch.randn(*shape),), classes()) < 3e-6
        assert not loose(whole, (torch.randn(*shape),), classes())


def test_class_tokens_and_sliced_positions():
    def run(self, x):
        first = self.token.expand(x.shape[0], -1, -1)
        y = torch.cat([first, self.a(x)], 1) + self.position[:, : x.shape[1] + 1]
        return self.head((y - self.shift).tanh())[:, 0] + self.temperature * y.mean((1, 2)).unsqueeze(1)

    model = Model(
        run,
        token=nn.Parameter(torch.randn(1, 1, 4)),
        position=nn.Parameter(torch.randn(1, 9, 4)),
        shift=nn.Parameter(torch.randn(4)),
        temperature=nn.Parameter(torch.randn(())),
        a=nn.Linear(4, 4),
        head=nn.Linear(4, 3),
    )
    for batch, tokens in [(BATCH, 3), (4, 3), (3, 3), (1, 2)]:
        x = (torch.randn(batch, tokens, 4),)
        assert error(model, x, classes(3, batch)) < 5e-6
        assert not loose(model, x, classes(3, batch))


def test_frozen_parameters_are_left_out():
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    assert ClippedSums(model, per_example_loss(nn.CrossEntropyLoss()), Flat(1.0)).layout.names == (
        "0.bias",
        "2.weight",
    )
    assert error(model, (torch.randn(BATCH, 4),), classes()) < 3e-6


def test_in_place_activations():
    model = nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 6), nn.Hardtanh(inplace=True), nn.Linear(6, 3)
    )
    for shape in [(BATCH, 4), (BATCH, 2, 4)]:
        whole = nn.Sequential(model, Mean())
        assert error(whole, (torch.randn(*shape),), classes()) < 3e-6
        assert not loose(whole, (torch.randn(*shape),), classes())


def test_tokens_before_examples():
    model = Model(
        lambda s, x: s.b(s.a(x.transpose(0, 1)).tanh().flatten(0, 1)).view(x.shape[1], x.shape[0], 3).mean(0),
        a=nn.Linear(4, 5),
        b=nn.Linear(5, 3),
    )
    for batch, tokens in [(3, 3), (3, 4), (1, 4), (4, 1)]:
        assert error(model, (torch.randn(batch, tokens, 4),), classes(3, batch)) < 3e-6


def test_examples_and_tokens_in_one_size():
    model = Model(lambda s, x: s.a(x.flatten(0, 1)).view(x.shape[0], -1, 3).tanh().mean(1), a=nn.Linear(4, 3))
    assert error(model, (torch.randn(BATCH, 3, 4),), classes()) < 3e-6
    assert not loose(model, (torch.randn(BATCH, 3, 4),), classes())


def test_frames_of_an_example_in_the_first_size_of_a_convolution():
    model = Model(
        lambda s, x: s.n(s.a(x.flatten(0, 1))).tanh().view(x.shape[0], x.shape[1], 3, -1).mean((1, 3)),
        a=nn.Conv2d(2, 3, 3),
        n=nn.GroupNorm(1, 3),
    )
    assert error(model, (torch.randn(BATCH, 3, 2, 5, 5),), classes()) < 3e-6
    assert not loose(model, (torch.randn(BATCH, 3, 2, 5, 5),), classes())


def test_views_that_only_the_usual_layout_has():
    def late(self, x):
        return self.c(F.max_pool2d(self.b(self.a(x).relu()).relu(), 2).view(x.shape[0], -1))

    def often(self, x):
        x = self.a(x).relu()
        x = self.b(x.view(x.shape[0], -1).view(x.shape).tanh())
        return self.c(F.max_pool2d(x.view(x.shape[0], -1).view(x.shape), 2).flatten(1))

    for run in (late, often):
        model = Model(run, a=nn.Conv2d(2, 4, 3), b=nn.Conv2d(4, 3, 3), c=nn.Linear(12, 3))
        x = (torch.randn(BATCH, 2, 8, 8),)
        assert error(model, x, classes()) < 1e-5
        assert not loose(model, x, classes())


def test_routing_by_values():
    def route(self, x):
        high = x[:, 0] > 0
        y = torch.zeros(x.shape[0], 3)
        y[high] = self.a(x[high])
        y[~high] = self.b(x[~high])
        return y

    model = Model(route, a=nn.Linear(4, 3), b=nn.Linear(4, 3))
    for _ in range(4):
        assert error(model, (torch.randn(6, 4),), classes(3, 6)) < 3e-6


def test_checkpointed_blocks():
    from torch.utils.checkpoint import checkpoint

    model = Model(
        lambda s, x: s.b(checkpoint(s.a, x, use_reentrant=False)),
        a=nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6)),
        b=nn.Linear(6, 3),
    )
    assert error(model, (torch.randn(BATCH, 4, requires_grad=True),), classes()) < 3e-6


def test_weight_norm_and_subclasses_are_not_taken_for_plain_layers():
    class Doubled(nn.Linear):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)), nn.Tanh(), Doubled(4, 4), nn.Linear(4, 3)
    )
    assert error(model, (torch.randn(BATCH, 4),), classes()) < 3e-6


def test_gradients_that_share_memory():
    model = Model(lambda s, x: s.a(x) + s.b(x), a=nn.Linear(4, 3), b=nn.Linear(4, 3))
    assert error(model, (torch.randn(BATCH, 4),), classes()) < 3e-6


def test_ignored_tokens_are_counted_within_an_example():
    loss = per_example_loss(nn.CrossEntropyLoss(ignore_index=0))
    model = nn.Sequential(nn.Embedding(7, 5), nn.Linear(5, 7))
    ids = torch.randint(1, 7, (BATCH, 6))
    targets = ids.clone()
    targets[0, 1:] = 0
    targets[1] = 0
    assert error(model, (ids,), targets, loss) < 3e-6
    # A neighbour with other ignored tokens moves the sum by what it adds itself, and by no more than the
    # bound.
    sums = ClippedSums(model, loss, Flat(1.0))
    both, one = sums.layout.zeros(), sums.layout.zeros()
    sums.add((ids,), targets, both)
    sums.add((ids[1:],), targets[1:], one)
    assert float((both - one).norm()) <= 1 + 1e-5


def test_sum_and_mean_differ_by_the_number_of_outputs():
    model = nn.Linear(4, 6)
    x, y = torch.randn(BATCH, 4), torch.randn(BATCH, 6)
    flat = []
    for reduction in ("sum", "mean"):
        loss = per_example_loss(nn.MSELoss(reduction=reduction))
        assert error(model, (x,), y, loss) < 3e-6
        sums = ClippedSums(model, loss, Flat(math.inf))
        flat.append(sums.layout.zeros())
        sums.add((x,), y, flat[-1])
    assert torch.allclose(flat[0], 6 * flat[1], rtol=1e-5)


def test_norms_are_summed_in_float64():
    # 2²⁶ equal squares: a float32 accumulator is 4 % low in torch 2.13, and 0.6 % in others.
    rows = torch.full((1, 1 << 26), 0.3)
    assert float(gradient_form.squared_row_norms(rows)[0]) == pytest.approx(0.3**2 * 2**26, rel=1e-6)


def test_without_a_clip_the_sum_is_the_gradient_of_plain_training():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    x, y = torch.randn(8, 1, 8, 8), classes(3, 8)
    loss = per_example_loss(nn.CrossEntropyLoss())
    sums = ClippedSums(model, loss, Flat(math.inf))
    out = sums.layout.zeros()
    sums.add((x,), y, out)
    F.cross_entropy(model(x), y, reduction="sum").backward()
    plain = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert torch.allclose(out, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bound", [0.01, 1.0])
def test_no_example_adds_more_than_the_bound(bound):
    model = nn.Sequential(nn.Linear(30, 40), nn.Tanh(), nn.Linear(40, 3))
    loss = per_example_loss(nn.CrossEntropyLoss())
    sums = ClippedSums(model, loss, Flat(bound))
    for i in range(20):
        out = sums.layout.zeros()
        sums.add((10 * torch.randn(1, 30),), classes(3, 1), out)
        assert float(out.double().norm()) <= bound * (1 + 1e-6), i


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_a_tied_table_whose_two_uses_cancel_is_not_clipped_too_little(size):
    """The gradients of the matrix and of the table are opposite, up to their last digits."""
    generator = torch.Generator().manual_seed(3)
    for tokens in (1, 3, 12):
        x = size * torch.randn(20, tokens, 8, generator=generator)
        ids = torch.arange(tokens).expand(20, -1)
        g = torch.zeros(20, tokens, 15).scatter_(2, ids.unsqueeze(2), 1.0)  # row t of the matrix gets x_t
        e = -x * (1 + 2.0**-19 * torch.rand(x.shape, generator=generator))
        matrix = linear_form.LinearForm(x, gradient_form.OutputGradient(g, own=False), torch.Size((15, 8)))
        table = embedding_form.EmbeddingForm(
            ids, gradient_form.OutputGradient(e, own=False), torch.Size((15, 8)), None
        )
        found = embedding_form.TiedForm(matrix, table).squared_norms()
        truth = (x.double() + e.double()).square().sum((1, 2))
        assert bool((found >= truth * (1 - 1e-5)).all())


def test_tokens_that_cancel_are_not_clipped_too_little():
    # The Gram form: sixteen tokens whose gradients nearly cancel, so that rounding is large beside the sum.
    layer = nn.Linear(64, 64, bias=False)
    sums = ClippedSums(layer, lambda o, t: (o * t).sum((1, 2)), Flat(1.0))
    for size in (1.0, 1e-2, 1e-3):
        x = torch.randn(1, 1, 64).expand(4, 16, 64) + size * torch.randn(4, 16, 64)
        t = 30 * torch.randn(4, 16, 64)
        t -= t.mean(1, keepdim=True)
        for i in range(4):
            out = sums.layout.zeros()
            norms = sums.add((x[i : i + 1],), t[i : i + 1], out)
            truth = (t[i].double().t() @ x[i].double()).norm()
            assert float(norms[0]) > 1
            assert float(out.double().norm()) <= 1 + 1e-6
            assert float(norms[0].sqrt() / truth) > 1 - 1e-6


LAYERS = st.sampled_from(["linear", "tanh", "relu", "norm", "rms", "conv", "again", "scale", "residual"])


@given(st.lists(LAYERS, min_size=1, max_size=6), st.integers(0, 9), st.integers(1, 4), st.booleans())
def test_random_networks(kinds, seed, tokens, bias):
    torch.manual_seed(seed)
    width = 4
    parts, made = [nn.Embedding(9, width)], []
    for kind in kinds:
        made = [p for p in parts if isinstance(p, nn.Linear)]
        match kind:
            case "linear":
                parts.append(nn.Linear(width, width, bias=bias))
            case "tanh":
                parts.append(nn.Tanh())
            case "relu":
                parts.append(nn.LeakyReLU(inplace=isinstance(parts[-1], nn.Linear)))
            case "norm":
                parts.append(nn.LayerNorm(width))
            case "rms":
                parts.append(nn.RMSNorm(width))
            case "conv":
                conv = nn.Conv1d(width, width, 3, padding=1, bias=bias, groups=2)
                parts.append(Model(lambda s, x: s.c(x.transpose(1, 2)).transpose(1, 2), c=conv))
            case "again":
                parts.extend(made[:1])
            case "scale":
                parts.append(Model(lambda s, x: x * s.w, w=nn.Parameter(torch.randn(width))))
            case "residual":
                parts.append(Model(lambda s, x: x + s.a(x), a=nn.Linear(width, width)))
    head = nn.Linear(width, 3, bias=bias)
    model = nn.Sequential(*parts, head)
    loss = per_example_loss(nn.CrossEntropyLoss())
    ids, y = torch.randint(0, 9, (BATCH, tokens)), torch.randint(0, 3, (BATCH, tokens))
    if tokens == 3:

        def loss(outputs, targets):
            return F.cross_entropy(outputs.transpose(1, 2), targets, reduction="none").mean(1)

    assert error(model, (ids,), y, loss) < 1e-5


# Mutations: each mistake is put in on purpose, and the comparison with the loop must see it.


def tied_model():
    table, head = nn.Embedding(7, 4), nn.Linear(4, 7)
    head.weight = table.weight
    return nn.Sequential(table, nn.Tanh(), head)


def mutated_error():
    torch.manual_seed(3)
    ids = torch.randint(0, 7, (BATCH, 6))
    return error(tied_model(), (ids,), ids)


def test_the_mutations_start_from_no_error():
    assert mutated_error() < 5e-6


def refused_or_wrong(monkeypatch):
    """The coupling test sees that norms are not those of examples alone; without it, the sum is wrong."""
    with pytest.raises(CrossExample, match="alone"):
        mutated_error()
    monkeypatch.setattr(couplings.CouplingTests, "require_same_alone", lambda *args: None)
    return mutated_error() > 1e-3


def test_mutation_a_dropped_bias(monkeypatch):
    monkeypatch.setattr(
        gradient_form.BiasForm, "squared_norms", lambda s: torch.zeros(BATCH, dtype=torch.float64)
    )
    assert refused_or_wrong(monkeypatch)


def test_mutation_a_forgotten_cross_term(monkeypatch):
    monkeypatch.setattr(
        embedding_form.TiedForm, "squared_norms", lambda s: s.matrix.squared_norms() + s.table.squared_norms()
    )
    assert refused_or_wrong(monkeypatch)


def test_mutation_repeated_tokens_squared_one_by_one(monkeypatch):
    monkeypatch.setattr(embedding_form.EmbeddingForm, "squared_norms", lambda s: s.gradient.squared_norms())
    assert refused_or_wrong(monkeypatch)


def test_mutation_a_skipped_clip(monkeypatch):
    monkeypatch.setattr(Flat, "factors", lambda s, n: torch.ones_like(n))
    assert mutated_error() > 1e-3


def test_mutation_a_sum_that_is_not_scaled(monkeypatch):
    for module in (embedding_form, linear_form):
        monkeypatch.setattr(module, "load_kernels", lambda *loops: None)
    monkeypatch.setattr(gradient_form.OutputGradient, "scale", lambda s, c: s.rows)
    assert mutated_error() > 1e-3
