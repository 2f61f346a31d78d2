"""nn.Bilinear: exact against a loop over the examples, by its tap, and certified as rarely as others."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.training.per_example import ClippedSums, per_example_loss
from privet.training.per_example.forms import bilinear_form
from privet.training.per_example.graph import couplings, proofs
from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.graph.row_moves import RowMoves

BATCH = 6
LOSS = per_example_loss(nn.CrossEntropyLoss())


class Flat:
    def __init__(self, bound):
        self.bound = self.ceiling = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt()).clamp(max=1.0)


class Pairs(nn.Module):
    """Two linear layers, and a bilinear one on their outputs: [examples, …, width]."""

    def __init__(self, bias=True, calls=1, frozen=(), in_place=True):
        super().__init__()
        self.left, self.right = nn.Linear(4, 5), nn.Linear(4, 3)
        self.both = nn.Bilinear(5, 3, 7, bias=bias)
        self.head = nn.Linear(7, 3)
        self.calls, self.activation = calls, nn.ReLU(inplace=in_place)
        for name in frozen:
            self.get_parameter(name).requires_grad_(False)

    def forward(self, x):
        left, right = self.left(x).tanh(), self.right(x).tanh()
        y = sum(self.activation(self.both(left.roll(n, -1), right)) for n in range(self.calls))
        y = self.head(y)
        return y.flatten(1, -2).mean(1) if y.dim() > 2 else y


class TokensFirst(nn.Module):
    """[examples, tokens, width] goes in as [tokens, examples, width], flattened."""

    def __init__(self):
        super().__init__()
        self.both, self.head = nn.Bilinear(4, 4, 5), nn.Linear(5, 3)

    def forward(self, x):
        rows = x.transpose(0, 1).flatten(0, 1)
        y = self.both(rows, rows.tanh()).view(x.shape[1], x.shape[0], -1)
        return self.head(y.mean(0))


CASES = {
    "one token": (Pairs, {}, (BATCH, 4)),
    "tokens": (Pairs, {}, (BATCH, 9, 4)),
    "two leading sizes": (Pairs, {}, (BATCH, 2, 3, 4)),
    "no bias": (Pairs, {"bias": False}, (BATCH, 9, 4)),
    "called twice": (Pairs, {"calls": 2}, (BATCH, 4)),
    "called twice on tokens": (Pairs, {"calls": 2}, (BATCH, 9, 4)),
    "frozen weight": (Pairs, {"frozen": ("both.weight",)}, (BATCH, 9, 4)),
    "frozen bias": (Pairs, {"frozen": ("both.bias",)}, (BATCH, 4)),
    "tokens first": (TokensFirst, {}, (BATCH, 9, 4)),
}


def looped(model, x, y, bound):
    """The clipped sum and the squared norms, one example at a time."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    total, norms = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64), []
    for i in range(len(y)):
        gradients = torch.autograd.grad(LOSS(model(x[i : i + 1]), y[i : i + 1]).sum(), parameters)
        row = torch.cat([g.flatten() for g in gradients]).double()
        norms.append(row.square().sum())
        total += row * min(1.0, bound / float(norms[-1]) ** 0.5)
    return total, torch.stack(norms)


@pytest.fixture(autouse=True)
def _same_weights():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        yield


def worst_error(name, chunk=None, monkeypatch=None, dtype=torch.float32, groups=False):
    kind, options, shape = CASES[name]
    if chunk is not None:
        monkeypatch.setattr(bilinear_form, "CHUNK", chunk)
    model, x, y = kind(**options).to(dtype), torch.randn(shape, dtype=dtype), torch.randint(0, 3, (BATCH,))
    total, truth = looped(model, x, y, 0.2)
    assert int((truth.sqrt() > 0.2).sum()) > 0  # the clip binds
    names = [n for n, p in model.named_parameters() if p.requires_grad]
    sums = ClippedSums(model, LOSS, Flat(0.2), groups=[names] if groups else None)
    worst = 0.0
    for overwrite in (False, True):
        out = sums.layout.zeros()
        norms = sums.add((x,), y, out, overwrite=overwrite).view(BATCH)
        assert not sums.brute_forced
        worst = max(worst, float((out - total).norm() / total.norm()))
        worst = max(worst, float(((norms - truth).abs() / truth).max()))
    return worst


@pytest.mark.parametrize("name", CASES)
def test_as_a_loop_over_examples(name):
    assert worst_error(name) < 1e-5


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("chunk", [1, 100])
def test_in_chunks(name, chunk, monkeypatch):
    assert worst_error(name, chunk, monkeypatch) < 1e-5


@pytest.mark.parametrize("name", CASES)
def test_in_double_precision_and_with_groups(name):
    assert worst_error(name, dtype=torch.float64) < 1e-6  # the guard against rounding adds up to 5e-7
    assert worst_error(name, groups=True) < 1e-5


def test_inputs_of_one_tensor_may_be_views_of_it():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.both = nn.Bilinear(2, 2, 3)

        def forward(self, x):
            return self.both(x[:, :2], x[:, 2:])

    model, x, y = Gate(), torch.randn(BATCH, 4), torch.randint(0, 3, (BATCH,))
    total, truth = looped(model, x, y, 0.2)
    sums = ClippedSums(model, LOSS, Flat(0.2))
    out = sums.layout.zeros()
    assert torch.allclose(sums.add((x,), y, out), truth, rtol=1e-5)
    assert torch.allclose(out.double(), total, rtol=1e-4, atol=1e-6)
    assert not sums.brute_forced


def test_its_operation_is_known_to_keep_rows(monkeypatch):
    """After the first lots a model with a bilinear layer needs one backward pass per lot."""
    monkeypatch.setattr(proofs, "CERTIFICATE_RATE", 0.0)
    passes = []
    inner = proofs.run_backward
    monkeypatch.setattr(
        proofs, "run_backward", lambda *args, **named: passes.append(1) or inner(*args, **named)
    )
    model = Pairs(in_place=False)
    sums = ClippedSums(model, LOSS, Flat(0.2))
    counts = []
    for _ in range(7):
        before = len(passes)
        sums.add((torch.randn(BATCH, 9, 4),), torch.randint(0, 3, (BATCH,)), sums.layout.zeros())
        counts.append(len(passes) - before)
    assert counts[2] == counts[4] == counts[5] == counts[6] == 0
    assert counts[0] > 0


def moves(function):
    """What is known of the graph of a function of a batch."""
    walks = [GraphWalk(function(torch.randn(n, 4, requires_grad=True)).flatten(1).sum(1)) for n in (2, 3)]
    return RowMoves.learn(*walks)


def test_a_product_over_the_examples_is_not_harmless():
    weight = torch.randn(3, 4, 4)
    assert not moves(lambda x: F.bilinear(x, x, weight)).unpredictable
    # the batch axis is the one that is summed over
    mixed = {2: torch.randn(2, 2, 4), 3: torch.randn(3, 3, 4)}
    assert moves(
        lambda x: F.bilinear(x.t().contiguous(), torch.ones(4, 4), mixed[len(x)]).t().contiguous()
    ).unpredictable


def test_mutation_a_factor_is_dropped(monkeypatch):
    """The tests of coupling see it too, because an example alone is differentiated by autograd."""
    monkeypatch.setattr(couplings.CouplingTests, "require_same_alone", lambda *args: None)
    monkeypatch.setattr(
        bilinear_form.BilinearForm,
        "squared_norms",
        lambda s: bilinear_form.squared_row_norms(s.x1).mul_(s.gradient.squared_norms()),
    )
    assert worst_error("one token") > 1e-3
