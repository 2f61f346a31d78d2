"""What the engine refuses: each with its reason and its fix, and with nothing added."""

import math

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.errors import InvalidArgument, PrivetError
from privet.training.per_example import ClippedSums, CrossExample, Layout, NotFinite, per_example_loss


class Flat:
    ceiling = 1.0

    def factors(self, squared_norms):
        return (1.0 / squared_norms.sqrt()).clamp(max=1.0)


LOSS = per_example_loss(nn.CrossEntropyLoss())


def add(model, loss=LOSS, inputs=None, targets=None):
    torch.manual_seed(0)
    sums = ClippedSums(model, loss, Flat())
    out = sums.layout.zeros() + 7.0
    inputs = (torch.randn(4, 3),) if inputs is None else inputs
    targets = torch.tensor([0, 1, 1, 0])[: len(inputs[0])] if targets is None else targets
    try:
        return sums.add(inputs, targets, out), out
    except PrivetError:
        assert torch.equal(out, sums.layout.zeros() + 7.0)
        assert all("forward" not in m.__dict__ for m in model.modules())
        raise


@pytest.mark.parametrize(
    ("layer", "fix"),
    [
        (nn.BatchNorm1d(3), "GroupNorm"),
        (nn.SyncBatchNorm(3), "GroupNorm"),
        (nn.BatchNorm1d(3, track_running_stats=False), "GroupNorm"),
        (nn.InstanceNorm1d(3, track_running_stats=True), "track_running_stats=False"),
    ],
    ids=str,
)
def test_layers_that_mix_examples(layer, fix):
    with pytest.raises(CrossExample, match=fix):
        add(nn.Sequential(layer, nn.Linear(3, 2)))


def test_scripted_layers_cannot_be_looked_into():
    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)))
    with pytest.raises(InvalidArgument, match="TorchScript module at '0'"):
        add(nn.Sequential(scripted, nn.Linear(3, 2)))


def test_embeddings_that_divide_by_counts_over_the_batch():
    with pytest.raises(CrossExample, match="scale_grad_by_freq=False"):
        add(nn.Sequential(nn.Embedding(4, 3, scale_grad_by_freq=True), nn.Linear(3, 2)))


def test_frozen_batch_normalisation_is_a_fixed_map_until_it_trains_again():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3).eval().requires_grad_(False), nn.Linear(3, 2))
    sums = ClippedSums(model, LOSS, Flat())
    x, y, out = torch.randn(4, 3), torch.tensor([0, 1, 1, 0]), sums.layout.zeros()
    sums.add((x,), y, out)
    model.train()
    with pytest.raises(CrossExample, match=r"\.eval\(\)"):
        sums.add((x,), y, out)


@pytest.mark.parametrize(
    "loss",
    [
        nn.CrossEntropyLoss(),
        lambda o, t: F.cross_entropy(o, t, reduction="none").unsqueeze(1),
        lambda o, t: F.cross_entropy(o, t, reduction="none")[:-1],
        lambda o, t: 0.5,
    ],
)
def test_losses_that_are_not_one_for_each_example(loss):
    with pytest.raises(InvalidArgument, match='reduction="none"'):
        add(nn.Linear(3, 2), loss)


def test_losses_without_a_gradient():
    with pytest.raises(InvalidArgument, match="detach"):
        add(nn.Linear(3, 2), lambda o, t: F.cross_entropy(o.detach(), t, reduction="none"))


@pytest.mark.parametrize(
    "loss",
    [
        lambda o, t: F.cross_entropy(o, t, reduction="none") / len(t),
        lambda o, t: F.cross_entropy(o - o.mean(0), t, reduction="none"),
        lambda o, t: F.cross_entropy(o, t, reduction="none") * o.sum().exp(),
    ],
    ids=["divided by the batch", "centred", "weighted by a sum"],
)
def test_losses_that_depend_on_other_examples(loss):
    with pytest.raises(CrossExample, match="one example at a time"):
        add(nn.Linear(3, 2), loss)


def test_tokens_averaged_over_the_batch_couple_examples():
    def coupled(outputs, targets):
        losses = F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=0)
        return losses.view(targets.shape).sum(1) / (targets != 0).sum()

    ids = torch.tensor([[1, 2, 0], [3, 1, 2], [2, 2, 2], [1, 0, 0]])
    with pytest.raises(CrossExample, match="per_example_loss does"):
        add(nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 4)), coupled, (ids,), ids)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e30])
def test_gradients_that_are_not_finite(bad):
    x = torch.randn(4, 3)
    x[2, 1] = bad
    with pytest.raises(NotFinite, match="nothing was added"):
        add(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), lambda o, t: (o[:, 0] ** 2) * 1e3, (x,))


def test_numbers_of_rows_that_differ():
    with pytest.raises(InvalidArgument, match="one leading row"):
        add(nn.Linear(3, 2), targets=torch.tensor([0, 1]))


def test_inputs_that_are_no_tuple():
    sums = ClippedSums(nn.Linear(3, 2), LOSS, Flat())
    with pytest.raises(
        InvalidArgument, match="'inputs' must be a tuple of a Tensor, got a value of type Tensor"
    ):
        sums.add(torch.randn(4, 3), torch.tensor([0, 1, 1, 0]), sums.layout.zeros())


def test_models_without_anything_to_train():
    with pytest.raises(InvalidArgument, match="requires_grad_"):
        ClippedSums(nn.Linear(3, 2).requires_grad_(False), LOSS, Flat())


def test_half_precision():
    with pytest.raises(InvalidArgument, match=r"model\.float\(\)"):
        Layout.of(nn.Linear(3, 2).half())


def test_buffers_of_another_size():
    sums = ClippedSums(nn.Linear(3, 2), LOSS, Flat())
    with pytest.raises(InvalidArgument, match=r"layout\.zeros\(\)"):
        sums.add((torch.randn(4, 3),), torch.tensor([0, 1, 1, 0]), torch.zeros(3))


def test_groups_that_miss_a_parameter():
    with pytest.raises(InvalidArgument, match=r"layout\.names"):
        ClippedSums(nn.Linear(3, 2), LOSS, Flat(), groups=[["weight"]])


def test_inputs_overwritten_after_use():
    class Overwrites(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3)

        def forward(self, x):
            y = x * 1.0
            z = self.a(y)
            y.add_(1.0)
            return z

    with pytest.raises(InvalidArgument, match="new tensor"):
        add(Overwrites())


def test_an_empty_lot_adds_nothing():
    norms, out = add(nn.Linear(3, 2), inputs=(torch.randn(0, 3),))
    assert norms.shape == (0,)
    assert torch.equal(out, torch.full((8,), 7.0))


def test_modules_are_themselves_again_after_an_error():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 2)

        def forward(self, x):
            self.a(x)
            raise KeyError("mine")

    model = Fails()
    with pytest.raises(KeyError):
        add(model)
    assert "forward" not in model.a.__dict__


def test_groups_are_clipped_apart():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, y = 5 * torch.randn(6, 3), torch.tensor([0, 1, 1, 0, 1, 0])
    groups = [["0.weight", "2.bias"], ["0.bias"], ["2.weight"]]

    class Apart:
        ceiling = None

        def factors(self, squared_norms):
            assert squared_norms.shape == (6, 3)
            return (torch.tensor([0.1, 0.2, 0.3]) / squared_norms.sqrt()).clamp(max=1.0)

    sums = ClippedSums(model, LOSS, Apart(), groups=groups)
    out = sums.layout.zeros()
    norms = sums.add((x,), y, out)
    truth = [torch.zeros_like(p) for p in model.parameters()]
    names = [n for n, _ in model.named_parameters()]
    for i in range(6):
        found = dict(
            zip(
                names,
                torch.autograd.grad(LOSS(model(x[i : i + 1]), y[i : i + 1]).sum(), model.parameters()),
                strict=True,
            )
        )
        for k, (group, bound) in enumerate(zip(groups, (0.1, 0.2, 0.3), strict=True)):
            norm = math.sqrt(sum(float(found[n].square().sum()) for n in group))
            assert float(norms[i, k]) == pytest.approx(norm**2, rel=1e-5)
            for n in group:
                truth[names.index(n)] += found[n] * min(1.0, bound / norm)
    assert torch.allclose(out, torch.cat([t.flatten() for t in truth]), rtol=1e-4, atol=1e-6)


def test_the_layout_is_the_order_of_the_parameters():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2, bias=False))
    layout = Layout.of(model)
    assert layout.names == ("0.weight", "0.bias", "1.weight")
    assert layout.size == 24
    buffer = torch.arange(24.0)
    assert torch.equal(torch.cat([v.flatten() for v in layout.views(buffer)]), buffer)


def test_the_random_state_and_the_buffers_are_those_of_one_plain_pass():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    sums = ClippedSums(model, LOSS, Flat())
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    torch.manual_seed(5)
    sums.add((x,), y, sums.layout.zeros())
    after = torch.get_rng_state()
    torch.manual_seed(5)
    model(x)
    assert torch.equal(after, torch.get_rng_state())
    assert all(m.training for m in model.modules())


def test_evaluation_mode_with_dropout_is_warned_of_once():
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)).eval()
    sums = ClippedSums(model, LOSS, Flat())
    x, y = torch.randn(4, 3), torch.tensor([0, 1, 1, 0])
    with pytest.warns(UserWarning, match=r"model\.train\(\)"):
        sums.add((x,), y, sums.layout.zeros())
    sums.add((x,), y, sums.layout.zeros())


def test_it_runs_where_gradients_are_switched_off():
    with torch.no_grad():
        norms, _ = add(nn.Linear(3, 2))
    assert bool((norms > 0).all())
