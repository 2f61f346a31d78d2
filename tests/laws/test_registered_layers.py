"""Layers that users register: exact against the loop over examples, or refused."""

import pytest
import torch
from torch import nn

from privet.errors import InvalidArgument
from privet.testing import LawBroken, check_layer
from privet.training import ClippedSums, LayerRule, register_layer
from privet.training.per_example.taps import registered


class Flat:
    ceiling = None

    def __init__(self, bound=0.5):
        self.bound = bound

    def factors(self, squared_norms):
        return (self.bound / squared_norms.sqrt().clamp(min=1e-30)).clamp(max=1.0)


@pytest.fixture(autouse=True)
def own_register(monkeypatch):
    monkeypatch.setattr(registered, "_RULES", {})


class Scale(nn.Module):
    """The parameter is used twice: exp(w)·x + w."""

    def __init__(self, width=3):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.arange(1.0, width + 1))

    def forward(self, x):
        return x * self.weight.exp() + self.weight


def scale_gradients(layer, inputs, gradient):
    return {"weight": (gradient * (inputs[0] * layer.weight.exp() + 1)).flatten(1, -2).sum(1)}


class Mix(nn.Module):
    """y = (x₁ W) ∘ x₂ + b, with two inputs."""

    def __init__(self, width=3):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, first, second):
        return first @ self.weight * second + self.bias


class MixRule(LayerRule):
    def squared_norms(self, layer, inputs, gradient):
        first, inner = inputs[0].flatten(1, -2), (gradient * inputs[1]).flatten(1, -2)
        products = (first @ first.transpose(1, 2)) * (inner @ inner.transpose(1, 2))
        bias = gradient.flatten(1, -2).sum(1)
        return {"weight": products.double().sum((1, 2)), "bias": bias.double().square().sum(1)}

    def weighted_sums(self, layer, inputs, gradient, factors):
        scaled = gradient * factors.view(-1, *[1] * (gradient.dim() - 1))
        first, inner = inputs[0].flatten(0, -2), (scaled * inputs[1]).flatten(0, -2)
        return {"weight": first.t() @ inner, "bias": scaled.flatten(0, -2).sum(0)}


class Model(nn.Module):
    def __init__(self, layer, call):
        super().__init__()
        self.first, self.layer, self.last, self.call = nn.Linear(4, 3), layer, nn.Linear(3, 2), call

    def forward(self, x):
        h = torch.tanh(self.first(x))
        y = self.call(self.layer, h)
        return self.last(y.mean(1) if y.dim() == 3 else y)


CALLS = {
    "once": (Scale, scale_gradients, lambda layer, h: layer(h), (4,)),
    "twice": (Scale, scale_gradients, lambda layer, h: layer(layer(h)), (4,)),
    "residual": (Scale, scale_gradients, lambda layer, h: h + layer(h), (4,)),
    "in place": (Scale, scale_gradients, lambda layer, h: layer(h).mul_(2), (4,)),
    "keyword": (Scale, scale_gradients, lambda layer, h: layer(x=h), (4,)),
    "tokens": (Scale, scale_gradients, lambda layer, h: layer(h), (5, 4)),
    "flat": (Scale, scale_gradients, lambda layer, h: layer(h.flatten(0, 1)).view_as(h), (5, 4)),
    "time-major": (Scale, scale_gradients, lambda layer, h: layer(h.transpose(0, 1)).transpose(0, 1), (5, 4)),
    "two inputs": (Mix, MixRule, lambda layer, h: layer(h, h.flip(-1)), (4,)),
    "norms of tokens": (Mix, MixRule, lambda layer, h: layer(h, second=h.sin()), (5, 4)),
    "norms twice": (Mix, MixRule, lambda layer, h: layer(layer(h, h), h), (4,)),
    "used elsewhere": (Scale, scale_gradients, lambda layer, h: layer(h) * layer.weight.sum(), (4,)),
}


def clipped_and_truth(model, x, y):
    loss = nn.CrossEntropyLoss(reduction="none")
    sums = ClippedSums(model, loss, Flat())
    total = sums.layout.zeros()
    norms = sums.add((x,), y, total)
    truth, squares = torch.zeros_like(total), []
    for i in range(len(x)):
        gradients = torch.autograd.grad(
            loss(model(x[i : i + 1]), y[i : i + 1]).sum(), list(model.parameters())
        )
        flat = torch.cat([g.flatten() for g in gradients])
        squares.append(flat.square().sum())
        truth += flat * min(1.0, 0.5 / float(flat.norm()))
    return sums, norms, total, torch.stack(squares), truth


@pytest.mark.parametrize("name", CALLS)
def test_sums_are_those_of_the_loop_over_examples(name):
    kind, rule, call, shape = CALLS[name]
    register_layer(kind)(rule)
    torch.manual_seed(0)
    model = Model(kind(), call).double()
    sums, norms, total, squares, truth = clipped_and_truth(
        model, torch.randn(6, *shape, dtype=torch.float64), torch.arange(6) % 2
    )
    torch.testing.assert_close(norms, squares, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(total, truth, rtol=1e-9, atol=1e-12)
    written = {sums.layout.names[i] for i in sums.brute_forced}
    assert written == ({"layer.weight"} if name == "time-major" else set())


def wrong(layer, inputs, gradient):
    return {"weight": 0.99 * scale_gradients(layer, inputs, gradient)["weight"]}


def incomplete(layer, inputs, gradient):
    return {}


class LowNorms(MixRule):
    def squared_norms(self, layer, inputs, gradient):
        return {name: 0.9 * norm for name, norm in super().squared_norms(layer, inputs, gradient).items()}


class WrongSums(MixRule):
    def weighted_sums(self, layer, inputs, gradient, factors):
        return super().weighted_sums(layer, inputs, gradient, torch.ones_like(factors))


@pytest.mark.parametrize(
    ("kind", "rule", "inputs"),
    [(Scale, wrong, 1), (Scale, incomplete, 1), (Mix, LowNorms, 2), (Mix, WrongSums, 2)],
)
def test_a_wrong_rule_is_refused_in_the_first_lot_and_by_the_check(kind, rule, inputs):
    register_layer(kind)(rule)
    model = Model(kind(), lambda layer, h: layer(*[h] * inputs))
    with pytest.raises(InvalidArgument, match="rule of (Scale|Mix) must give"):
        clipped_and_truth(model, torch.randn(6, 4), torch.arange(6) % 2)
    with pytest.raises(LawBroken):
        check_layer(kind(), *[torch.randn(6, 3)] * inputs)


class Centred(Scale):
    """Mixes the rows of its input."""

    def forward(self, x):
        return super().forward(x - x.mean(0, keepdim=True))


class Noisy(Scale):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x))


class Overwriting(MixRule):
    def squared_norms(self, layer, inputs, gradient):
        norms = super().squared_norms(layer, inputs, gradient)
        gradient.zero_()
        return norms


def test_the_check_passes_right_rules_and_finds_what_no_rule_can_mend():
    register_layer(Scale)(scale_gradients)
    register_layer(Mix)(MixRule())
    check_layer(Scale(), torch.randn(6, 3))
    check_layer(Scale(), torch.randn(6, 5, 3))
    check_layer(Mix(), torch.randn(4, 3), torch.randn(4, 3))
    for kind in (Centred, Noisy):
        register_layer(kind)(scale_gradients)
        with pytest.raises(LawBroken):
            check_layer(kind(), torch.randn(6, 3))
    register_layer(Mix)(Overwriting)
    with pytest.raises(LawBroken, match="rule"):
        check_layer(Mix(), torch.randn(4, 3), torch.randn(4, 3))
    with pytest.raises(InvalidArgument, match="register_layer"):
        check_layer(nn.PReLU(), torch.randn(4, 3))


def test_only_classes_of_ones_own_are_registered():
    with pytest.raises(InvalidArgument, match="class"):
        register_layer(Scale())
    with pytest.raises(InvalidArgument, match="torch's Linear"):
        register_layer(nn.Linear)
    with pytest.raises(InvalidArgument, match="'rule'"):
        register_layer(Scale)(3)
