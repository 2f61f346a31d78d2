"""Parameters used outside of known layers: exact against a loop over the examples, and never by brute force.

The oracle is a loop: one example at a time through the plain model, autograd, norm in float64, clip, add.
"""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm

from privet.training.per_example import ClippedSums, CrossExample, fallback, per_example_loss
from privet.training.per_example.forms import gradient_form, sum_form
from privet.training.per_example.graph import layer_uses, parameter_uses, proofs, shared_parts, shared_steps
from privet.training.per_example.graph.parameter_uses import BroadcastUse
from privet.training.per_example.refusals import NotFinite

LOSS = per_example_loss(nn.CrossEntropyLoss())
TOKENS, WIDTH, WORDS = 5, 6, 9


class Flat:
    def __init__(self, bound):
        self.bound = self.ceiling = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt()).clamp(max=1.0)


class Model(nn.Module):
    """Parameters and modules by name, a body that uses them, and a head on the mean of what it returns."""

    def __init__(self, body, parts):
        super().__init__()
        self.body = body
        for name, part in parts.items():
            value = part() if callable(part) else nn.Parameter(torch.randn(part) * 0.4)
            setattr(self, name, value)

    def forward(self, x):
        y = self.body(self, x)
        return y.flatten(1).unfold(1, 3, 1).mean(1)


def sequences(n):
    return torch.randn(n, TOKENS, WIDTH, dtype=torch.float64)


def words(n):
    return torch.randint(0, WORDS, (n, TOKENS))


def images(n):
    return torch.randn(n, 4, 6, 5, dtype=torch.float64)


def looped(model, x, y, bound):
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for i in range(len(y)):
        found = torch.autograd.grad(
            LOSS(model(x[i : i + 1]), y[i : i + 1]).sum(), parameters, allow_unused=True
        )
        each = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
        rows.append(torch.cat([g.flatten() for g in each]))
    norms = torch.stack(rows).square().sum(1)
    return sum(r * min(1.0, bound / float(n) ** 0.5) for r, n in zip(rows, norms, strict=True)), norms


def errors(model, draw, sizes=(4, 6, 5)):
    """The relative error of sums and norms in a few lots, and the parameters on brute force."""
    sums = ClippedSums(model, LOSS, Flat(0.2))
    worst = 0.0
    for size in sizes:
        x, y = draw(size), torch.randint(0, 3, (size,))
        out = sums.layout.zeros()
        norms = sums.add((x,), y, out)
        total, truth = looped(model, x, y, 0.2)
        worst = max(worst, float((out - total).norm() / total.norm()))
        worst = max(worst, float(((norms - truth).abs() / truth.clamp(min=1e-12)).max()))
    return worst, {sums.layout.names[i] for i in sums.brute_forced}


@pytest.fixture(autouse=True)
def _same_weights():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        yield
    torch.set_num_threads(threads)


# Layouts: the rows of a body's layer as the model has them.


def layouts(use):
    """The same use with examples first, second, and in one size with the tokens."""

    def second(s, x):
        return use(s, x.transpose(0, 1)).transpose(0, 1)

    def flat(s, x):
        return use(s, x.flatten(0, 1)).view(x.shape[0], x.shape[1], -1)

    def flat_second(s, x):
        y = use(s, x.transpose(0, 1).flatten(0, 1))
        return y.view(x.shape[1], x.shape[0], -1).transpose(0, 1)

    def twice(s, x):
        return use(s, use(s, x).tanh())

    return {"": use, " second": second, " flat": flat, " flat second": flat_second, " twice": twice}


def rms(x):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def project(s, x):
    """A tapped layer first, so that the examples are in the graph."""
    return s.first(x).tanh()


FIRST = {"first": lambda: nn.Linear(WIDTH, WIDTH)}
VECTORS = {**FIRST, "w": (WIDTH,), "b": (WIDTH,)}
MATRIX = {**FIRST, "w": (WIDTH, WIDTH), "b": (WIDTH,)}

SEQUENCE_USES = {
    "layer norm": (VECTORS, lambda s, x: F.layer_norm(input=project(s, x), normalized_shape=(WIDTH,),
                                                      weight=s.w, bias=s.b)),
    "layer norm without bias": ({**FIRST, "w": (WIDTH,)},
                                lambda s, x: F.layer_norm(project(s, x), (WIDTH,), s.w)),
    "layer norm of a slice": ({**FIRST, "w": (9,)},
                              lambda s, x: F.layer_norm(project(s, x), (WIDTH,), s.w[2:8])),
    "scale": (VECTORS, lambda s, x: rms(project(s, x)) * s.w + s.b),
    "scale around one": ({**FIRST, "w": (WIDTH,)}, lambda s, x: rms(project(s, x)) * (1.0 + s.w)),
    "exponential scale": ({**FIRST, "w": (WIDTH,)}, lambda s, x: project(s, x) * s.w.exp()),
    "divisor": ({**FIRST, "w": (WIDTH,)}, lambda s, x: project(s, x) / (s.w + 3.0)),
    "dividend": ({**FIRST, "w": (1,)}, lambda s, x: s.w / (project(s, x) + 3.0)),
    "subtracted": ({**FIRST, "b": (WIDTH,)}, lambda s, x: torch.sub(project(s, x), s.b, alpha=2)),
    "added with a weight": ({**FIRST, "b": (WIDTH,)}, lambda s, x: torch.add(project(s, x), s.b, alpha=-3)),
    "product and sum": (VECTORS, lambda s, x: torch.addcmul(s.b, project(s, x), s.w, value=0.5)),
    "mask": ({**FIRST, "b": (WIDTH,)}, lambda s, x: torch.where(project(s, x) > 0, x, s.b)),
    "inverted mask": ({**FIRST, "b": (WIDTH,)}, lambda s, x: torch.where(project(s, x) > 0, s.b, x)),
    "gate": ({**FIRST, "w": (1,)}, lambda s, x: project(s, x) * s.w.sigmoid() + x * (1 - s.w.sigmoid())),
    "one number": ({**FIRST, "w": ()}, lambda s, x: project(s, x) * s.w),
    "linear": (MATRIX, lambda s, x: F.linear(input=project(s, x), weight=s.w, bias=s.b)),
    "linear of a part": ({**FIRST, "w": (8, WIDTH)}, lambda s, x: F.linear(project(s, x), s.w[1:7])),
    "matmul": (MATRIX, lambda s, x: project(s, x) @ s.w + s.b),
    "product of matrices": ({**FIRST, "w": (WIDTH, 2), "v": (2, WIDTH)},
                            lambda s, x: project(s, x) @ (s.w @ s.v)),
    "vector": ({**FIRST, "w": (WIDTH,)}, lambda s, x: (project(s, x) @ s.w).unsqueeze(-1) * x),
    "joined bias": ({**FIRST, "w": (WIDTH, WIDTH), "b": (2,), "c": (3,)}, lambda s, x: F.linear(
        project(s, x), s.w, torch.cat([s.b, torch.zeros(1, dtype=x.dtype), s.c]))),
    "weight norm": ({**FIRST, "w": lambda: weight_norm(nn.Linear(WIDTH, WIDTH))},
                    lambda s, x: s.w(project(s, x))),
    "standardised weight": (MATRIX, lambda s, x: F.linear(
        project(s, x), F.layer_norm(s.w, (WIDTH,)), s.b)),
    "weight as it is and changed": ({**FIRST, "w": (WIDTH, WIDTH)}, lambda s, x: F.linear(
        project(s, x), s.w) + F.linear(x, s.w.tanh())),
    "matrix as it is and changed": ({**FIRST, "w": (WIDTH, WIDTH)}, lambda s, x: (
        project(s, x) @ s.w + x @ s.w.tanh())),
    "rank one update": ({**FIRST, "a": (WIDTH, 2), "b": (2, WIDTH), "m": (WIDTH,)}, lambda s, x: (
        (s.m / (s.first.weight + s.b.t() @ s.a.t()).norm(dim=1).detach() - 1) * s.first(x)
        + project(s, x) @ s.a @ s.b)),
}  # fmt: skip


@pytest.mark.parametrize("layout", layouts(None))
@pytest.mark.parametrize("name", SEQUENCE_USES)
def test_uses_in_every_layout(name, layout):
    parts, use = SEQUENCE_USES[name]
    model = Model(layouts(use)[layout], parts).double()
    worst, brute_forced = errors(model, sequences)
    assert worst < 1e-6
    assert not brute_forced


INDEX = torch.tensor([[0, 1, 2, 3, 4], [5, 0, 1, 2, 3], [6, 5, 0, 1, 2], [7, 6, 5, 0, 1], [8, 7, 6, 5, 0]])


def biased_attention(bias):
    def attend(s, x):
        q, k, v = s.first(x).view(*x.shape[:2], 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) + bias(s)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)

    return attend


def windows(attend):
    """Each example is two windows, which the first size holds."""

    def use(s, x):
        both = torch.cat([x, x.flip(1)], 1).view(2 * len(x), TOKENS, WIDTH)
        return attend(s, both).view(len(x), 2 * TOKENS, WIDTH)

    return use


QKV = {"first": lambda: nn.Linear(WIDTH, 3 * WIDTH)}
ATTENTIONS = {
    "table": ({**QKV, "t": (9, 2)}, lambda s: s.t[INDEX].permute(2, 0, 1).unsqueeze(0)),
    "flat table": ({**QKV, "t": (9, 2)}, lambda s: s.t[INDEX.view(-1)].view(5, 5, 2).permute(2, 0, 1)),
    "negative numbers": ({**QKV, "t": (9, 2)}, lambda s: s.t[INDEX - 9].permute(2, 0, 1)),
    "embedding": ({**QKV, "t": lambda: nn.Embedding(9, 2)}, lambda s: s.t(INDEX).permute(2, 0, 1)[None]),
    "functional": ({**QKV, "t": (9, 2)}, lambda s: F.embedding(INDEX, s.t).permute(2, 0, 1)[None]),
    "selected": ({**QKV, "t": (9, 2)}, lambda s: s.t.index_select(0, INDEX.view(-1)).t().view(2, 5, 5)),
    "scaled": ({**QKV, "t": (9, 2)}, lambda s: 4 * s.t[INDEX].permute(2, 0, 1).sigmoid()),
    "coded": ({**QKV, "t": lambda: nn.Sequential(nn.Linear(1, 7), nn.ReLU(), nn.Linear(7, 2))},
              lambda s: s.t(INDEX.double().unsqueeze(2)).permute(2, 0, 1)),
    "masked": ({**QKV, "t": (9, 2)},
               lambda s: s.t[INDEX].permute(2, 0, 1).masked_fill(INDEX > 6, -1e4)),
}  # fmt: skip


@pytest.mark.parametrize("shape", [lambda use: use, windows], ids=["plain", "windows"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_tables_of_relative_positions(name, shape):
    parts, bias = ATTENTIONS[name]
    worst, brute_forced = errors(Model(shape(biased_attention(bias)), parts).double(), sequences)
    assert worst < 1e-6
    assert not brute_forced


class Scaled(nn.Embedding):
    def forward(self, ids):
        return super().forward(ids) * 3.0


class Offset(nn.Embedding):
    def forward(self, length):
        return super().forward(torch.arange(length) + 2)


def tied(s, ids):
    return s.table(ids).tanh() @ s.table.weight.t()


EMBEDDINGS = {
    "functional": ({"t": (WORDS, WIDTH)}, lambda s, ids: F.embedding(input=ids, weight=s.t)),
    "padding": ({"t": (WORDS, WIDTH)}, lambda s, ids: F.embedding(ids, s.t, padding_idx=2)),
    "last row as padding": ({"t": (WORDS, WIDTH)}, lambda s, ids: F.embedding(ids, s.t, padding_idx=-1)),
    "indexed": ({"t": (WORDS, WIDTH)}, lambda s, ids: s.t[ids]),
    "indexed numbers": ({"t": (WORDS,)}, lambda s, ids: s.t[ids]),
    "indexed matrices": ({"t": (WORDS, 2, 3)}, lambda s, ids: s.t[ids - WORDS]),
    "a table for each place": (
        {"t": (TOKENS, WORDS, WIDTH)},
        lambda s, ids: s.t[torch.arange(TOKENS), ids - WORDS],
    ),
    "a number for each pair": ({"t": (WORDS, WORDS)}, lambda s, ids: s.t[ids, ids.flip(1).int()]),
    "selected": ({"t": (WORDS, WIDTH)}, lambda s, ids: s.t.index_select(0, ids[:, 1])),
    "transposed": ({"t": (WIDTH, WORDS)}, lambda s, ids: F.embedding(ids, s.t.t())),
    "part": ({"t": (WORDS + 3, WIDTH)}, lambda s, ids: F.embedding(ids, s.t[3:])),
    "normed rows": ({"t": (WORDS, WIDTH)}, lambda s, ids: F.embedding(ids, F.normalize(s.t, dim=1))),
    "tokens first": ({"t": (WORDS, WIDTH)}, lambda s, ids: F.embedding(ids.t(), s.t).transpose(0, 1)),
    "flat": ({"t": (WORDS, WIDTH)}, lambda s, ids: s.t[ids.reshape(-1)].view(len(ids), -1)),
    "scaled subclass": ({"table": lambda: Scaled(WORDS, WIDTH, padding_idx=1)}, lambda s, ids: s.table(ids)),
    "scaled and tied": ({"table": lambda: Scaled(WORDS, WIDTH, padding_idx=1)}, tied),
    "plain and tied": ({"table": lambda: nn.Embedding(WORDS, WIDTH)}, tied),
    "used twice": ({"table": lambda: Scaled(WORDS, WIDTH)}, lambda s, ids: s.table(ids) + s.table(ids.flip(1))),
    "with positions": ({"table": lambda: Scaled(WORDS, WIDTH), "p": lambda: Offset(TOKENS + 2, WIDTH)},
                       lambda s, ids: s.table(ids) * s.p(TOKENS)),
    "expanded positions": ({"table": lambda: Scaled(WORDS, WIDTH), "p": lambda: nn.Embedding(TOKENS, WIDTH)},
                           lambda s, ids: s.table(ids) * s.p(torch.arange(TOKENS).expand(len(ids), -1))),
}  # fmt: skip


@pytest.mark.parametrize("name", EMBEDDINGS)
def test_embeddings_without_the_layer(name):
    parts, use = EMBEDDINGS[name]
    worst, brute_forced = errors(Model(use, parts).double(), words)
    assert worst < (
        2e-6 if "tied" in name else 1e-6
    )  # norms of tied tables have a margin of 2⁻²⁰ for uses that cancel
    assert not brute_forced


CHANNELS = {"first": lambda: nn.Conv2d(4, 4, 1)}
FRAMES = {**CHANNELS, "w": (4,), "b": (4,)}


def framed(use):
    """Each example is two frames, which the first size holds; in order of the examples, or of the frames."""

    def by_example(s, x):
        return use(s, torch.stack([x, x.flip(3)], 1).flatten(0, 1)).reshape(len(x), -1)

    def by_frame(s, x):
        return use(s, torch.cat([x, x.flip(3)])).reshape(2, len(x), -1).transpose(0, 1)

    return {"": use, " by example": by_example, " by frame": by_frame}


IMAGE_USES = {
    "group norm": (FRAMES, lambda s, x: F.group_norm(project(s, x), 2, s.w, s.b)),
    "channels last norm": (FRAMES, lambda s, x: F.layer_norm(
        project(s, x).permute(0, 2, 3, 1), (4,), s.w, s.b).permute(0, 3, 1, 2)),
    "norm of pictures": ({**CHANNELS, "w": (4, 6, 5), "b": (4, 6, 5)}, lambda s, x: F.layer_norm(
        project(s, x), (4, 6, 5), s.w, s.b)),
    "batch norm with fixed statistics": ({**CHANNELS, "n": lambda: nn.BatchNorm2d(4).eval()},
                                         lambda s, x: s.n(project(s, x))),
    "instance norm": (FRAMES, lambda s, x: F.instance_norm(project(s, x), weight=s.w, bias=s.b)),
    "scale of channels": (FRAMES, lambda s, x: project(s, x) * s.w.view(1, -1, 1, 1) + s.b[:, None, None]),
    "prelu": ({**CHANNELS, "w": (4,)}, lambda s, x: F.prelu(project(s, x), s.w)),
    "convolution": ({**CHANNELS, "w": (6, 2, 3, 2), "b": (6,)}, lambda s, x: F.conv2d(
        input=project(s, x), weight=s.w, bias=s.b, stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2)),
    "depthwise": ({**CHANNELS, "w": (4, 1, 3, 3)}, lambda s, x: F.conv2d(project(s, x), s.w, groups=4)),
    "weight norm": ({**CHANNELS, "n": lambda: weight_norm(nn.Conv2d(4, 5, 3, padding=1))},
                    lambda s, x: s.n(project(s, x))),
    "einsum": ({**CHANNELS, "w": (3, 4)}, lambda s, x: torch.einsum("oc,nchw->nohw", s.w, project(s, x))),
    "per pixel": ({**CHANNELS, "w": (6, 4, 3)}, lambda s, x: torch.einsum("nchw,hcd->nhwd", project(s, x), s.w)),
}  # fmt: skip


@pytest.mark.parametrize("layout", framed(None))
@pytest.mark.parametrize("name", IMAGE_USES)
def test_uses_on_pictures_and_frames(name, layout):
    parts, use = IMAGE_USES[name]
    worst, brute_forced = errors(Model(framed(use)[layout], parts).double(), images)
    assert worst < 1e-6
    assert not brute_forced


TRANSPOSED = [
    nn.ConvTranspose1d(4, 6, 3),
    nn.ConvTranspose1d(4, 6, 4, stride=3, padding=2, output_padding=1, groups=2),
    nn.ConvTranspose1d(4, 3, 3, dilation=2, bias=False),
    nn.ConvTranspose2d(4, 6, 2, stride=2),
    nn.ConvTranspose2d(4, 4, (3, 2), stride=(2, 1), padding=(1, 0), output_padding=(1, 0), groups=4),
    nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False),
    nn.ConvTranspose3d(4, 6, 2, stride=(1, 2, 1), padding=(0, 1, 1), groups=2),
]


@pytest.mark.parametrize("layout", framed(None))
@pytest.mark.parametrize("layer", TRANSPOSED, ids=str)
def test_transposed_convolutions(layer, layout):
    sizes = {1: (8, 1), 2: (4, 5), 3: (3, 4, 3)}[len(layer.stride)]
    use = framed(lambda s, x: s.layer(x.squeeze(3) if len(s.layer.stride) == 1 else x))[layout]
    worst, brute_forced = errors(
        Model(use, {"layer": lambda: layer}).double(), lambda n: torch.randn(n, 4, *sizes).double()
    )
    assert worst < 1e-6
    assert not brute_forced


PROMPTS = {
    "expanded": ({**FIRST, "p": (1, 2, WIDTH)}, lambda s, x: s.p.expand(len(x), -1, -1)),
    "repeated": ({**FIRST, "p": (1, 2, WIDTH)}, lambda s, x: s.p.repeat(len(x), 1, 1)),
    "repeated from fewer sizes": ({**FIRST, "p": (2, WIDTH)}, lambda s, x: s.p.repeat(len(x), 1, 1)),
    "tiled": ({**FIRST, "p": (2, WIDTH // 2)},
              lambda s, x: s.p.repeat(len(x), 2).view(len(x), 2, WIDTH)),
    "coded": ({**FIRST, "p": (2, 3), "m": lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, WIDTH))},
              lambda s, x: s.m(s.p).expand(len(x), -1, -1)),
    "normed": ({**FIRST, "p": (2, WIDTH), "n": lambda: nn.LayerNorm(WIDTH)},
               lambda s, x: s.n(s.p).expand(len(x), -1, -1)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts(name):
    parts, make = PROMPTS[name]
    model = Model(lambda s, x: s.first(torch.cat([make(s, x), x], 1)).tanh().cumsum(1), parts)
    worst, brute_forced = errors(model.double(), sequences)
    assert worst < 1e-6
    assert not brute_forced


@pytest.mark.parametrize("wrap", [spectral_norm, orthogonal, weight_norm], ids=lambda f: f.__name__)
@pytest.mark.parametrize("lot", [1 << 23, 300], ids=["at once", "in slices"])
def test_parametrisations(wrap, lot, monkeypatch):
    monkeypatch.setattr(shared_parts, "WRITTEN_AT_A_TIME", lot)
    parts = {"first": lambda: wrap(nn.Linear(WIDTH, 8)), "second": lambda: wrap(nn.Linear(8, WIDTH))}
    model = Model(lambda s, x: s.second(s.first(x).tanh()) + s.second(x[:, :, :2].repeat(1, 1, 4)), parts)
    worst, brute_forced = errors(model.double().eval(), sequences)
    assert worst < 1e-6
    assert not brute_forced


def test_large_parameters_are_written_out_in_slices(monkeypatch):
    """A table that is used in three ways is the sum of three forms, written out for two examples at a time."""
    monkeypatch.setattr(sum_form, "WRITTEN_AT_A_TIME", 2 * WORDS * WIDTH)
    parts = {"table": lambda: nn.Embedding(WORDS, WIDTH), "s": (WORDS, 1)}
    model = Model(lambda s, ids: s.table(ids) @ s.table.weight.t() @ (s.table.weight * s.s), parts)
    worst, brute_forced = errors(model.double(), words)
    assert worst < 1e-6
    assert not brute_forced
    assert gradient_form.WRITTEN_AT_A_TIME * 4 <= 1 << 26


# Models for which a rule does not hold: brute force handles the parameter, and the sums are right.


UNKNOWN = {
    "an exponent": ({**FIRST, "w": (WIDTH,)}, lambda s, x: (project(s, x) + 2.0) ** s.w.abs(), {"w"}),
    "a known and an unknown use": ({**FIRST, "w": (WIDTH,)}, lambda s, x: torch.lerp(
        project(s, x), x * s.w, s.w), {"w"}),
    "scaled sums of products": ({**FIRST, "w": (WIDTH, WIDTH), "b": (WIDTH,)}, lambda s, x: torch.addmm(
        s.b, project(s, x)[:, 0], s.w, alpha=2.0), {"w", "b"}),
    "both factors": ({**FIRST, "w": (1, WIDTH)}, lambda s, x: torch.baddbmm(
        s.w, project(s, x), x.transpose(1, 2) @ x, beta=0.5), {"w"}),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_uses_go_to_brute_force(name):
    parts, use, expected = UNKNOWN[name]
    worst, brute_forced = errors(Model(use, parts).double(), sequences)
    assert worst < 1e-6
    assert brute_forced == expected


def test_a_graph_that_changes_is_by_brute_force_in_that_lot_only():
    """One lot scales by the exponential, and the next one does not."""

    def use(s, x):
        return (project(s, x) + 2.0) ** s.w.abs() if s.is_odd else project(s, x) * s.w

    model = Model(use, {**FIRST, "w": (WIDTH,)}).double()
    sums, found = ClippedSums(model, LOSS, Flat(0.2)), []
    for is_odd in (False, False, True, False, False):
        model.is_odd = is_odd
        x, y = sequences(5), torch.randint(0, 3, (5,))
        out = sums.layout.zeros()
        norms = sums.add((x,), y, out)
        total, truth = looped(model, x, y, 0.2)
        assert torch.allclose(norms, truth, rtol=1e-6)
        assert torch.allclose(out, total, atol=1e-8)
        found.append(len(sums.brute_forced))
    assert found == [0, 0, 1, 0, 0]


class StochasticDepth(nn.Module):
    """A block that is left out for a few examples."""

    def __init__(self, share):
        super().__init__()
        self.inner, self.head, self.share = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3), share

    def forward(self, x):
        kept = torch.rand(len(x), 1, 1, dtype=x.dtype) > self.share if self.training else 1.0
        return self.head((x + self.inner(x) * kept).mean(1))


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_blocks_that_are_left_out_at_random_are_no_coupling(share):
    for seed in range(5):
        torch.manual_seed(seed)
        model = StochasticDepth(share).double()
        sums = ClippedSums(model, LOSS, Flat(0.2))
        norms = sums.add((sequences(40),), torch.randint(0, 3, (40,)), sums.layout.zeros())
        assert bool((norms > 0).all())


@pytest.mark.parametrize("wrap", [weight_norm, spectral_norm, orthogonal], ids=lambda f: f.__name__)
def test_parametrised_models_are_certified_as_rarely_as_others(wrap, monkeypatch):
    monkeypatch.setattr(proofs, "CERTIFICATE_RATE", 0.0)
    model = Model(lambda s, x: s.first(x), {"first": lambda: wrap(nn.Linear(WIDTH, 8))}).double().eval()
    sums, certified = ClippedSums(model, LOSS, Flat(0.2)), []
    certify = proofs.RowProof.certify
    monkeypatch.setattr(
        proofs.RowProof, "certify", lambda proof, *args: certified.append(1) or certify(proof, *args)
    )
    for _ in range(10):
        sums.add((sequences(5),), torch.randint(0, 3, (5,)), sums.layout.zeros())
    assert len(certified) < 6


class FunctionalImages(nn.Module):
    """A convolution and a normalisation that are called as functions, and a channel that is seldom on."""

    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(4, 3, 3, 3) / 5)
        self.scale, self.shift = nn.Parameter(torch.ones(4)), nn.Parameter(torch.tensor([-2.5, 1, 1, 1]))
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        y = F.group_norm(F.conv2d(x, self.kernel, padding=1), 2, self.scale, self.shift)
        return self.head(F.relu(y).mean((2, 3)))


def test_a_row_of_images_is_a_whole_image(monkeypatch):
    """A pixel that is on for the first time asks for no certificate: its image was not zero before."""
    monkeypatch.setattr(proofs, "CERTIFICATE_RATE", 0.0)
    torch.manual_seed(0)
    model = FunctionalImages().double()
    assert errors(model, lambda n: torch.randn(n, 3, 5, 5).double(), (8, 7, 4)) == (
        pytest.approx(0, abs=1e-6),
        frozenset(),
    )
    sums, certified = ClippedSums(model, LOSS, Flat(0.2)), []
    certify = proofs.RowProof.certify
    monkeypatch.setattr(
        proofs.RowProof, "certify", lambda proof, *args: certified.append(1) or certify(proof, *args)
    )
    for _ in range(10):
        sums.add((torch.randn(5, 3, 5, 5).double(),), torch.randint(0, 3, (5,)), sums.layout.zeros())
    assert len(certified) == 4  # in lots 1, 2, 4 and 8


def test_brute_force_writes_out_a_few_examples_at_a_time(monkeypatch):
    monkeypatch.setattr(fallback, "CHUNK", 3 * WIDTH)
    counts = []
    compute = fallback.BruteForce.gradients

    def counted(brute_force, names, inputs, targets):
        counts.append(len(targets))
        return compute(brute_force, names, inputs, targets)

    monkeypatch.setattr(fallback.BruteForce, "gradients", counted)
    parts, use, expected = UNKNOWN["an exponent"]
    model = Model(use, parts).double()
    assert errors(model, sequences, (8, 7, 4)) == (pytest.approx(0, abs=1e-6), expected)
    assert max(counts) == 3
    sums = ClippedSums(model, LOSS, Flat(0.2))
    x, y, out = sequences(8), torch.randint(0, 3, (8,)), sums.layout.zeros() + 1
    x[7] = float("nan")
    with pytest.raises(NotFinite):
        sums.add((x,), y, out)
    assert torch.equal(out, torch.ones_like(out))  # the pieces before the last were not added either


def test_as_many_tokens_as_examples():
    parts, use = SEQUENCE_USES["layer norm"]
    for layout in layouts(use).values():
        assert errors(Model(layout, parts).double(), sequences, (TOKENS,) * 3)[0] < 1e-6


def test_lots_of_one_example():
    parts, use = SEQUENCE_USES["standardised weight"]
    assert errors(Model(use, parts).double(), sequences, (1, 1, 3, 1))[0] < 1e-6


# Mutations: the checks above see each of them.


def is_seen(table, name, draw):
    """Whether sums and norms are wrong, or refused, because the gradients of examples alone differ."""
    parts, use = table[name]
    try:
        return errors(Model(use, parts).double(), draw)[0] > 1e-3
    except CrossExample:
        return True


def test_mutation_a_sign(monkeypatch):
    monkeypatch.setitem(parameter_uses._READERS, "SubBackward0", lambda n, p: BroadcastUse(None))
    assert is_seen(SEQUENCE_USES, "subtracted", sequences)


def test_mutation_a_forgotten_factor(monkeypatch):
    monkeypatch.setitem(parameter_uses._READERS, "MulBackward0", lambda n, p: BroadcastUse(None))
    assert is_seen(SEQUENCE_USES, "scale", sequences)


RELATIVE = {name: (parts, biased_attention(bias)) for name, (parts, bias) in ATTENTIONS.items()}


def test_mutation_an_index_that_overwrites(monkeypatch):
    def put(value, before, rows):
        table = value.new_zeros(value.shape[0], *before)
        return table.index_copy_(1, rows, value.reshape(value.shape[0], len(rows), *before[1:]))

    monkeypatch.setattr(shared_steps, "_add_rows", put)
    assert is_seen(RELATIVE, "table", sequences)


def test_mutation_a_permutation_that_is_not_inverted(monkeypatch):
    read = shared_steps._read_order
    monkeypatch.setattr(
        shared_steps, "_read_order", lambda *a: [read(*a).index(i) for i in range(len(read(*a)))]
    )
    assert is_seen(RELATIVE, "flat table", sequences)


def test_mutation_a_mean_that_is_not_subtracted(monkeypatch):
    read = layer_uses.read_layer_norm

    def shifted(node, position):
        use = read(node, position)
        return layer_uses.LayerNormUse(use.x, 0 * use.mean, use.scale, use.is_weight)

    monkeypatch.setitem(parameter_uses._READERS, "NativeLayerNormBackward0", shifted)
    assert is_seen(SEQUENCE_USES, "layer norm", sequences)


def test_mutation_padding_that_counts(monkeypatch):
    read = parameter_uses._read_embedding
    monkeypatch.setitem(
        parameter_uses._READERS,
        "EmbeddingBackward0",
        lambda n, p: parameter_uses.TableUse(read(n, p).ids, None),
    )
    assert is_seen(EMBEDDINGS, "padding", words)


def test_mutation_a_parameter_that_also_meets_the_examples_directly(monkeypatch):
    monkeypatch.setattr(
        shared_parts.SharedPartForm,
        "to_dense",
        lambda f: f._pull_back([form.to_dense() for form in f._forms], batched=True),
    )
    assert is_seen(SEQUENCE_USES, "matrix as it is and changed", sequences)
