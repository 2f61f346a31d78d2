"""``explain``: how each parameter is handled, and why."""

import warnings

import pytest
import torch
from torch import nn

from privet.errors import InvalidArgument
from privet.training import Flat, make_private
from privet.training.per_example import ClippedSums, per_example_loss
from privet.training.per_example.taps import registered


class Doubled(nn.LayerNorm):
    def forward(self, x):
        return (1 + x.abs()) ** self.weight + torch.ones_like(x) ** self.bias


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm, self.out = nn.Embedding(50, 8), Doubled(8), nn.Linear(8, 3)
        self.odd = nn.Parameter(0.01 * torch.ones(8))

    def forward(self, ids):
        h = self.norm(self.table(ids)).mean(1)
        return self.out(((1 + h.abs()).unsqueeze(2) ** self.odd).mean(1))


def private_run():
    model = Model()
    data = torch.randint(0, 50, (40, 6)), torch.arange(40) % 3
    return make_private(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        data,
        epsilon=3.0,
        delta=1e-3,
        lot_size=10,
        steps=3,
        clip=Flat(1.0),
    )


def test_explain_names_what_is_written_out_and_why():
    private = private_run()
    with pytest.raises(InvalidArgument, match="Take one step"):
        private.explain()
    loss = nn.CrossEntropyLoss()
    for lot in private.lots():
        private.step(lot, loss)
    explanation = private.explain()
    by_name = {p.name: p for p in explanation}
    assert [name for name, p in by_name.items() if p.is_brute_force] == ["odd", "norm.weight", "norm.bias"]
    assert by_name["odd"].written_out == 4 * 8
    assert by_name["table.weight"].written_out == by_name["out.weight"].written_out == 0
    assert "subclass of nn.LayerNorm" in by_name["norm.weight"].reason
    assert "register_layer(Doubled)" in by_name["norm.weight"].advice
    assert "layer of its own" in by_name["odd"].advice
    text = str(explanation)
    assert "3 of 6 parameters" in text
    assert "table: rows by index" in text
    assert all(len(line) < 160 for line in text.splitlines())


def test_a_registered_rule_shows(monkeypatch):
    def rule(layer, inputs, gradient):
        x = inputs[0].abs()
        weight = (gradient * (1 + x) ** layer.weight * x.log1p()).flatten(1, -2).sum(1)
        return {"weight": weight, "bias": torch.zeros(len(gradient), 8)}

    monkeypatch.setattr(registered, "_RULES", {Doubled: rule})
    private = private_run()
    private.step(next(private.lots()), nn.CrossEntropyLoss())
    explanation = private.explain()
    assert [p.name for p in explanation if p.is_brute_force] == ["odd"]
    assert explanation.written_out == 4 * (8 + 8 + 8)


class Codes(nn.Module):
    """Distances to a codebook of 1 MB, in a way that no rule knows."""

    def __init__(self, width):
        super().__init__()
        self.book, self.out = nn.Parameter(torch.randn(4096, width)), nn.Linear(4096, 2)

    def forward(self, x):
        return self.out(torch.cdist(x, self.book))


@pytest.mark.parametrize(("width", "warned"), [(64, True), (32, False)])
def test_a_large_parameter_is_never_written_out_silently(width, warned):
    sums = ClippedSums(Codes(width), per_example_loss(nn.CrossEntropyLoss()), Flat(1.0))
    x, y = torch.randn(3, width), torch.tensor([0, 1, 0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):  # once, and not in every lot
            sums.add((x,), y, sums.layout.zeros())
    said = [str(w.message) for w in caught]
    assert sums.brute_forced
    assert len(said) == int(warned)
    assert all("gradient of book is written out for every example, 1 MB" in words for words in said)
