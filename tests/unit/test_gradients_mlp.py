"""MLPs bypass autograd: only where the result is the same, and never with facts about another model."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import parametrizations

from privet.errors import InvalidArgument
from privet.training.per_example import ClippedSums, NotFinite, per_example_loss
from privet.training.per_example.forms import mlp as mlp_form

pytestmark = pytest.mark.skipif(mlp_form.load_kernels() is None, reason="numba is not installed")

BATCH = 6


class Flat:
    ceiling = 0.3

    def factors(self, squared_norms):
        return (0.3 / squared_norms.sqrt()).clamp(max=1.0)


def looped(model, loss, x, y):
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = torch.zeros(sum(p.numel() for p in parameters), dtype=torch.float64)
    for i in range(len(y)):
        found = torch.autograd.grad(loss(model(x[i : i + 1]), y[i : i + 1]).sum(), parameters)
        row = torch.cat([g.flatten() for g in found]).double()
        total += row * min(1.0, 0.3 / max(float(row.norm()), 1e-30))
    return total


def mlp(activation=nn.ReLU):
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(5, 7), activation(), nn.Sequential(nn.Linear(7, 6, bias=False), nn.Tanh()), nn.Linear(6, 3)
    )


def data():
    return torch.randn(BATCH, 5), torch.randint(0, 3, (BATCH,))


def check(sums, model, loss, x, y):
    """Twice: the first pass learns, the second may be a chain's."""
    total = looped(model, loss, x, y)
    for overwrite in (True, False, True):
        out = torch.full((sums.layout.size,), math.nan) if overwrite else sums.layout.zeros()
        sums.add((x,), y, out, overwrite=overwrite)
        assert torch.allclose(out.double(), total, rtol=1e-4, atol=1e-6)


@pytest.fixture
def passes(monkeypatch):
    """One entry for each lot that was computed as an MLP."""
    seen = []
    usual = mlp_form.MLP.write_sums

    def counted(self, *args):
        seen.append(1)
        usual(self, *args)

    monkeypatch.setattr(mlp_form.MLP, "write_sums", counted)
    return seen


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.Sigmoid])
@pytest.mark.parametrize("frozen", ["none", "0.weight", "3.bias", "2.0.weight", "all of 0"])
def test_mlps_are_as_exact_as_loops(activation, frozen, passes):
    model = mlp(activation)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name != frozen and not (frozen == "all of 0" and name.startswith("0")))
    loss = per_example_loss(nn.CrossEntropyLoss())
    check(ClippedSums(model, loss, Flat()), model, loss, *data())
    assert passes


LOSSES = {
    "entropy": (per_example_loss(nn.CrossEntropyLoss()), True),
    "smoothed": (per_example_loss(nn.CrossEntropyLoss(label_smoothing=0.2)), True),
    "weighted": (per_example_loss(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0]))), True),
    "sum": (per_example_loss(nn.CrossEntropyLoss(reduction="sum")), True),
    "a function": (lambda o, y: o.square().sum(1) * (1 + y), True),
    "a column": (lambda o, y: o[:, 0], True),
    "written to": (lambda o, y: F.cross_entropy(o.mul_(2.0), y, reduction="none"), False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_any_loss(name, passes):
    loss, chained = LOSSES[name]
    model = mlp()
    check(ClippedSums(model, loss, Flat()), model, loss, *data())
    assert bool(passes) == chained


def test_ignored_labels_have_no_gradient(passes):
    loss = per_example_loss(nn.CrossEntropyLoss(ignore_index=1))
    model, (x, _) = nn.Linear(5, 3), data()
    sums = ClippedSums(model, loss, Flat())
    y = torch.tensor([0, 1, 2, 1, 1, 0])
    for _ in range(3):
        norms = sums.add((x,), y, sums.layout.zeros())
        assert norms[y == 1].eq(0).all()
        assert norms[y != 1].gt(0).all()
    assert passes


def test_a_loss_that_looks_at_a_parameter(passes):
    model, (x, y) = mlp(), data()

    def loss(outputs, targets):
        return F.cross_entropy(outputs, targets, reduction="none") + model[0].weight.square().sum()

    check(ClippedSums(model, loss, Flat()), model, loss, x, y)
    assert not passes


def test_hooks_are_called(passes):
    model, (x, y) = mlp(), data()
    loss = per_example_loss(nn.CrossEntropyLoss())
    sums = ClippedSums(model, loss, Flat())
    check(sums, model, loss, x, y)
    before = len(passes)
    assert before
    handle = model[2][0].register_forward_hook(lambda module, args, out: 2 * out)
    check(sums, model, loss, x, y)
    assert len(passes) == before
    handle.remove()
    check(sums, model, loss, x, y)
    assert len(passes) > before


def test_lots_of_other_sizes_and_layouts():
    model, loss = mlp(), per_example_loss(nn.CrossEntropyLoss())
    sums = ClippedSums(model, loss, Flat())
    for size in (6, 9, 1, 4):
        x, y = torch.randn(size, 10), torch.randint(0, 3, (size,))
        check(sums, model, loss, x[:, :5].contiguous(), y)
        check(sums, model, loss, x[:, ::2], y)


def test_outputs_that_a_loss_keeps_stay_as_they_are():
    kept = []

    def loss(outputs, targets):
        kept.append(outputs)
        return F.cross_entropy(outputs, targets, reduction="none")

    model, (x, y) = mlp(), data()
    sums = ClippedSums(model, loss, Flat())
    for number in range(7):  # more is computed in lots 1, 2 and 4
        sums.add((x + number,), y, sums.layout.zeros())
    assert torch.allclose(kept[-1].detach(), model(x + 6), atol=1e-6)
    assert torch.allclose(kept[-2].detach(), model(x + 5), atol=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_that_are_not_finite_add_nothing(bad, passes):
    model, (x, y) = mlp(), data()
    loss = per_example_loss(nn.CrossEntropyLoss())
    sums = ClippedSums(model, loss, Flat())
    check(sums, model, loss, x, y)
    before, out = len(passes), sums.layout.zeros()
    x[2, 1] = bad
    with pytest.raises(NotFinite):
        sums.add((x,), y, out)
    assert not out.any()
    assert len(passes) == before


def test_the_ones_that_backward_starts_from_are_fresh(passes):
    """Where a loss is an output itself, they are its gradient, and are scaled in place by factors below 1."""
    model, (x, y) = nn.Linear(5, 1), data()

    def loss(outputs, targets):
        return outputs.view(-1)

    sums = ClippedSums(model, loss, Flat())
    total = looped(model, loss, x, y)
    for _ in range(4):
        out = sums.layout.zeros()
        norms = sums.add((x,), y, out)
        assert norms.gt(0.1).all()  # so that every factor is below 1, and a second scaling would show
        assert torch.allclose(out.double(), total, rtol=1e-4, atol=1e-6)
    assert passes


# What is learnt of a model does not outlive a change of it.


def kinds():
    """A chain, and a model that is none."""
    return [mlp(), nn.Sequential(*mlp(), nn.LayerNorm(3))]


def learnt(model):
    loss, (x, y) = per_example_loss(nn.CrossEntropyLoss()), data()
    sums = ClippedSums(model, loss, Flat())
    check(sums, model, loss, x, y)
    return sums, loss, x, y


def replaced(model):
    model[0].weight = nn.Parameter(torch.randn(7, 5))


def frozen(model):
    model[0].weight.requires_grad_(False)


def swap(model):
    model[0] = nn.Linear(5, 7)


def deeper(model):
    model[2][0] = nn.Linear(7, 6, bias=False)


def parametrised(model):
    model[0] = parametrizations.weight_norm(nn.Linear(5, 7))


def normed(model):
    parametrizations.weight_norm(model[0])


def longer(model):
    model.append(nn.Linear(3, 3))


def removed(model):
    model[0].register_parameter("bias", None)


CHANGES = [replaced, frozen, swap, deeper, parametrised, normed, longer, removed]


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("change", CHANGES)
def test_other_parameters_are_refused(change, which):
    model = kinds()[which]
    sums, _, x, y = learnt(model)
    change(model)
    out = sums.layout.zeros()
    with pytest.raises(InvalidArgument, match="must keep the trainable parameters"):
        sums.add((x,), y, out)
    assert not out.any()


@pytest.mark.parametrize("which", [0, 1])
def test_a_thawed_parameter_is_refused(which):
    model = kinds()[which]
    model[0].bias.requires_grad_(False)
    sums, _, x, y = learnt(model)
    model[0].bias.requires_grad_(True)
    with pytest.raises(InvalidArgument, match="must keep the trainable parameters"):
        sums.add((x,), y, sums.layout.zeros())


@pytest.mark.parametrize("which", [0, 1])
def test_other_functions_of_the_same_parameters_are_followed(which, passes):
    model = kinds()[which]
    sums, loss, x, y = learnt(model)
    model[1] = nn.Sigmoid()
    check(sums, model, loss, x, y)
    model[1] = nn.Softplus()
    check(sums, model, loss, x, y)
    model[1] = nn.Sequential(nn.ReLU(), nn.Tanh())
    check(sums, model, loss, x, y)
    model[0].forward = lambda x: F.linear(2 * x, model[0].weight, model[0].bias)
    check(sums, model, loss, x, y)
    assert "forward" in model[0].__dict__
    del model[0].forward
    check(sums, model, loss, x, y)
    model[0].weight.data = torch.randn(5, 7).t()  # other strides
    check(sums, model, loss, x, y)
    with torch.no_grad():
        model[3].weight.mul_(2.0)
    check(sums, model, loss, x, y)
    assert bool(passes) == (which == 0)


def test_a_frozen_parameter_that_is_replaced_is_followed(passes):
    model = mlp()
    model[2][0].weight.requires_grad_(False)
    sums, loss, x, y = learnt(model)
    model[2][0].weight = nn.Parameter(torch.randn(6, 7), requires_grad=False)
    check(sums, model, loss, x, y)
    assert passes


def test_batch_normalisation_that_is_put_in_is_refused():
    model = nn.Sequential(nn.Linear(5, 3), nn.Identity())
    sums, _, x, y = learnt(model)
    model[1] = nn.BatchNorm1d(3, affine=False)
    with pytest.raises(InvalidArgument, match="mixes the examples"):
        sums.add((x,), y, sums.layout.zeros())
