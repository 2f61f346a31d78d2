"""Fine-tuning of a part: what trains, what stays, and that gradients are exact."""

import functools

import pytest
import torch
from torch import nn

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import (
    ClippedSums,
    Flat,
    LoRA,
    TrainingPlan,
    last_layer,
    merge_adapters,
    per_example_loss,
    train,
)
from privet.training.extras.adapters import LoRALinear

_calibrated = functools.cache(TrainingPlan.calibrated)


@pytest.fixture(autouse=True)
def calibrated_once(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "calibrated", staticmethod(_calibrated))
    torch.manual_seed(0)


def network():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))


def data(count=1500, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 6, generator=generator)
    return inputs, (inputs[:, 0] - inputs[:, 1] > 0).long()


def trainable(model):
    return [name for name, p in model.named_parameters() if p.requires_grad]


def quick(model):
    settings = {"epsilon": 3.0, "delta": 1e-6, "epochs": 6.0, "lot_size": 300, "noise": SeededNoise(1)}
    return train(model, data(), **settings)


def accuracy(model):
    inputs, targets = data(1000, seed=1)
    with torch.no_grad():
        return float((model(inputs).argmax(1) == targets).float().mean())


def disturb(model):
    """Adapters begin at zero; here is one that does something."""
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, LoRALinear):
                module.up.weight.normal_()
    return model


@pytest.mark.parametrize("begun", [False, True])
def test_clipped_sums_equal_a_loop(begun):
    model = LoRA(rank=2, scale=0.7, also=("4",)).apply_to(network())
    if begun:
        disturb(model)
    loss, (inputs, targets) = per_example_loss(nn.CrossEntropyLoss()), data(7)
    sums = ClippedSums(model, loss, Flat(0.3))
    for _ in range(2):
        out = sums.layout.zeros()
        sums.add((inputs,), targets, out)
        assert not sums.brute_forced
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = torch.zeros_like(out)
    for x, y in zip(inputs, targets, strict=True):
        found = torch.autograd.grad(loss(model(x[None]), y[None]).sum(), parameters)
        row = torch.cat([g.flatten() for g in found])
        total += row * min(1.0, 0.3 / float(row.norm()))
    assert torch.allclose(out, total, atol=2e-5)


def test_only_the_changes_train():
    model = network()
    tuned = LoRA(rank=2).apply_to(model)
    assert trainable(model) == [name for name, _ in model.named_parameters()]  # the model itself stays
    assert trainable(tuned) == [f"{i}.{part}.weight" for i in (0, 2, 4) for part in ("down", "up")]
    inputs = data(5)[0]
    assert torch.equal(tuned(inputs), model(inputs))  # they begin at zero
    trained = quick(tuned)
    assert torch.equal(trained.model[2].layer.weight, model[2].weight)
    assert torch.equal(trained.model[2].layer.bias, model[2].bias)
    assert not torch.equal(trained.model[2].up.weight, torch.zeros(8, 2))
    assert accuracy(trained.model) > 0.8 > accuracy(model) + 0.2


def test_chosen_layers():
    tuned = LoRA(rank=1, layers=("2",), also=("4",)).apply_to(network())
    assert trainable(tuned) == ["2.down.weight", "2.up.weight", "4.weight", "4.bias"]
    nested = nn.Sequential(network(), nn.Linear(2, 2))
    assert trainable(LoRA(layers=("0",)).apply_to(nested))[0] == "0.0.down.weight"
    assert all(name.startswith("0.") for name in trainable(LoRA(layers=("0",)).apply_to(nested)))
    assert isinstance(LoRA().apply_to(nn.Linear(3, 2)), LoRALinear)


def test_one_layer_in_two_places_has_one_change():
    layer = nn.Linear(6, 6)
    tuned = LoRA(rank=2).apply_to(nn.Sequential(layer, nn.Tanh(), layer))
    assert tuned[0] is tuned[2]
    whole = merge_adapters(disturb(tuned))
    assert whole[0] is whole[2]


def test_merging_changes_nothing_that_is_computed():
    tuned = disturb(LoRA(rank=3, scale=0.5).apply_to(network()))
    inputs = data(9)[0]
    whole = merge_adapters(tuned)
    assert not any(isinstance(m, LoRALinear) for m in whole.modules())
    assert torch.allclose(whole(inputs), tuned(inputs), atol=1e-5)
    assert not torch.allclose(whole(inputs), network()(inputs), atol=1e-2)
    assert trainable(whole) == [name for name, _ in network().named_parameters()]
    alone = disturb(LoRA().apply_to(nn.Linear(3, 2)))
    assert type(merge_adapters(alone)) is nn.Linear


def test_layers_with_a_weight_of_their_own_use_are_left_alone():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    tuned = LoRA(rank=2).apply_to(model)
    assert not any("self_attn" in name for name in trainable(tuned))
    assert tuned(torch.randn(2, 3, 8)).shape == (2, 3, 8)


def test_the_last_layer():
    model = network()
    tuned = last_layer(model)
    assert trainable(tuned) == ["4.weight", "4.bias"]
    trained = quick(tuned)
    assert torch.equal(trained.model[0].weight, model[0].weight)
    assert accuracy(trained.model) > 0.8


def test_frozen_batch_normalisation_is_a_fixed_map():
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
    model(data()[0])  # running statistics of its own
    tuned = last_layer(model)
    assert not tuned[1].training
    before = tuned[1].running_mean.clone()
    assert torch.equal(quick(tuned).model[1].running_mean, before)
    assert trainable(LoRA(also=("1",), layers=("0",)).apply_to(model))[2:] == ["1.weight", "1.bias"]


def test_refusals():
    with pytest.raises(InvalidArgument, match="named_modules"):
        LoRA(layers=("head",)).apply_to(network())
    with pytest.raises(InvalidArgument, match="Name an nn.Linear"):
        LoRA(layers=("1",)).apply_to(network())
    with pytest.raises(InvalidArgument, match="'rank'"):
        LoRA(rank=0)
    with pytest.raises(InvalidArgument, match="got none"):
        last_layer(nn.ReLU())


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
def test_changes_to_a_layer_in_lower_precision_are_float32(low):
    """Noise and small updates would be lost in 8 bits. Frozen weights stay as they are."""
    model = LoRA(rank=2).apply_to(network().to(low))
    assert {p.dtype for p in model.parameters() if p.requires_grad} == {torch.float32}
    assert {p.dtype for p in model.parameters() if not p.requires_grad} == {low}
    inputs = torch.randn(5, 6).to(low)
    assert model(inputs).dtype == low
    start = [p.detach().clone() for p in model.parameters()]
    private = quick(nn.Sequential(_Rounded(low), model)).model
    assert all(bool(p.isfinite().all()) for p in private.parameters())
    moved = [not torch.equal(a, b) for a, b in zip(start, private.parameters(), strict=True)]
    assert moved == [p.requires_grad for p in private.parameters()]
    merged = merge_adapters(private)
    assert {p.dtype for p in merged.parameters()} == {low}
    assert torch.allclose(merged(inputs.float()).float(), private(inputs.float()).float(), rtol=0.05)
    precise = LoRA(rank=2).apply_to(network().double())
    assert {p.dtype for p in precise.parameters()} == {torch.float64}


class _Rounded(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        return x.to(self.kind)
