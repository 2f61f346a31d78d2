"""Models with one output for two classes: trained and told by canaries as models with two outputs are."""

import functools

import numpy as np
import pytest
import torch
from torch import nn

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import Canaries, Flat, Mislabelled, OutOfDistribution, make_private, train, with_canaries
from privet.training.loop.binary_outputs import ends_in_sigmoid, has_one_output, log_probabilities
from privet.training.loop.inputs import prepare_data
from privet.training.loop.losses import as_per_example_loss
from privet.training.loop.step import NoisyGradient
from privet.training.sampling.reading import as_examples


class Flattened(nn.Module):
    """The same model with outputs of shape [examples]."""

    def __init__(self, model, *, sigmoid=False):
        super().__init__()
        self.model, self.sigmoid = model, sigmoid

    def forward(self, x):
        found = self.model(x)
        return (torch.sigmoid(found) if self.sigmoid else found).squeeze(1)


def logits():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


MODELS = {
    "logits [n, 1]": logits,
    "logits [n]": lambda: Flattened(logits()),
    "probabilities [n, 1]": lambda: nn.Sequential(*logits(), nn.Sigmoid()),
    "probabilities [n]": lambda: Flattened(logits(), sigmoid=True),
}
LABELS = {
    "int": lambda y: y.long(),
    "bool": lambda y: y.bool(),
    "uint8": lambda y: y.to(torch.uint8),
    "numpy": lambda y: y.numpy().astype(np.int32),
    "column": lambda y: y.long().unsqueeze(1),
}


def data(count=2000, *, seed=0):
    inputs = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return inputs, (inputs @ torch.tensor([1.0, -1.0, 0.5, 0.0]) > 0).float()


def trained(model, targets, **more):
    settings = {"epsilon": 8.0, "delta": 1e-6, "epochs": 4, "lot_size": 200, "noise": SeededNoise(1)} | more
    return train(model, (data()[0], targets), **settings)


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


@functools.cache
def plain():
    return trained(logits(), data()[1].unsqueeze(1), loss=nn.BCEWithLogitsLoss())


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        *((kind, "int") for kind in MODELS),
        *(("probabilities [n]", labels) for labels in LABELS if labels != "int"),
    ],
)
def test_no_loss_need_be_given(kind, labels):
    """All shapes, all labels, with and without a sigmoid: the same model comes out, and it has learnt."""
    targets = data()[1]
    found = trained(MODELS[kind](), LABELS[labels](targets))
    assert torch.allclose(weights(found.model), weights(plain().model), atol=2e-3)
    fresh, truth = data(1000, seed=1)
    with torch.no_grad():
        outputs = found.model(fresh).flatten()
    level = 0.5 if kind.startswith("probabilities") else 0.0
    assert float(((outputs > level) == truth.bool()).float().mean()) > 0.85


@pytest.mark.parametrize("loss", [nn.BCEWithLogitsLoss, nn.BCELoss])
@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_each_example_is_clipped_by_itself(loss, shape):
    """The clipped sum is that of gradients which autograd takes one by one."""
    model = MODELS["probabilities [n]" if loss is nn.BCELoss else "logits [n, 1]"]()
    inputs, targets = (column[:12] for column in data())
    gradient = NoisyGradient(
        model, Flat(0.3), divisor=1.0, multiplier=0.0, source=SeededNoise(1)
    )  # no noise: the sum itself
    gradient.collect(as_examples((inputs, targets.long().reshape(shape))), torch.arange(12), loss())
    total = torch.zeros_like(gradient.buffer)
    for x, y in zip(inputs, targets, strict=True):
        outputs = model(x.unsqueeze(0)).flatten()
        single = torch.autograd.grad(loss()(outputs, y.reshape(1)), list(model.parameters()))
        flat = torch.cat([part.flatten() for part in single])
        total += flat * min(1.0, 0.3 / float(flat.norm()))
    assert torch.allclose(gradient.buffer, total, atol=1e-5)


class Squeezed(nn.Module):
    """As many people write it: without a size, so that one example alone gives a number without any."""

    def __init__(self):
        super().__init__()
        self.model = logits()

    def forward(self, x):
        return self.model(x).squeeze()


@pytest.mark.parametrize("count", [1, 2, 5])
def test_lots_of_one_example_are_lots(count):
    inputs, targets = data(count)
    sums = []
    for model in (Squeezed(), logits()):
        gradient = NoisyGradient(model, Flat(0.3), divisor=1.0, multiplier=0.0, source=SeededNoise(1))
        gradient.collect(as_examples((inputs, targets.long())), torch.arange(count), nn.BCEWithLogitsLoss())
        sums.append(gradient.buffer.clone())
    assert torch.allclose(*sums, atol=1e-6)


def test_a_loop_of_ones_own_takes_whole_numbers_too():
    inputs, targets = data(200)
    model = logits()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    run = make_private(
        model,
        optimizer,
        (inputs, targets.long()),
        epsilon=5,
        delta=1e-5,
        steps=3,
        lot_size=50,
        clip=Flat(1.0),
    )
    for lot in run.lots():
        run.step(lot, nn.BCEWithLogitsLoss())
    assert run.steps_done == 3


def test_weights_of_the_loss_are_kept():
    outputs, targets = torch.tensor([[0.3], [-1.0]]), torch.tensor([1, 0])
    each = as_per_example_loss(nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0])))(outputs, targets)
    plain = as_per_example_loss(nn.BCEWithLogitsLoss())(outputs, targets)
    assert each.shape == (2,)
    assert torch.allclose(each, plain * torch.tensor([3.0, 1.0]))


def test_several_labels_an_example_are_as_they_were():
    each = as_per_example_loss(nn.BCEWithLogitsLoss())(torch.zeros(5, 3), torch.ones(5, 3))
    assert torch.allclose(each, torch.full((5,), 0.6931), atol=1e-3)
    with pytest.raises(InvalidArgument, match="shape of the outputs"):
        as_per_example_loss(nn.BCEWithLogitsLoss())(torch.zeros(5, 3), torch.ones(5))
    with pytest.raises(InvalidArgument, match="shape of the outputs"):
        as_per_example_loss(nn.BCEWithLogitsLoss())(torch.zeros(5, 1), torch.ones(4))


def test_what_does_not_fit_is_refused_with_the_fix():
    inputs, targets = data(40)
    with pytest.raises(InvalidArgument, match="Number the two classes 0 and 1"):
        prepare_data(logits(), (inputs, 2 * targets.long() - 1), None)
    with pytest.raises(InvalidArgument, match="must be 0 or 1"):
        as_per_example_loss(nn.BCELoss())(torch.full((40, 1), 0.5), 2 * targets.long())
    for kind in ("logits [n, 1]", "logits [n]"):
        with pytest.raises(InvalidArgument, match="cross entropy, which is 0 for a single class"):
            prepare_data(MODELS[kind](), (inputs, torch.zeros(40, dtype=torch.int64)), nn.CrossEntropyLoss())
    for kind in ("probabilities [n, 1]", "probabilities [n]"):
        with pytest.raises(InvalidArgument, match=r"nn.BCELoss\(\) for a model that ends in a sigmoid"):
            prepare_data(MODELS[kind](), (inputs, targets), nn.BCEWithLogitsLoss())
    with pytest.raises(InvalidArgument, match="'loss' must be given"):
        prepare_data(logits(), (inputs, targets), None)  # numbers may be a regression


def test_looking_at_the_model_leaves_it_as_it_was():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1), nn.Sigmoid())
    model.register_buffer("seen", torch.zeros(1))
    model.register_forward_hook(lambda module, _inputs, _outputs: module.seen.add_(1) and None)
    state = torch.get_rng_state()
    inputs, targets = data(40)
    prepare_data(model, (inputs, targets.long()), None)
    assert torch.equal(state, torch.get_rng_state())
    assert float(model.seen) == 0
    assert all(p.grad is None for p in model.parameters())


def test_a_sigmoid_is_found_where_it_is_the_last_thing_and_nowhere_else():
    inputs = (torch.zeros(2, 4),)
    for kind, make in MODELS.items():
        assert ends_in_sigmoid(make(), inputs) == kind.startswith("probabilities")
    assert not ends_in_sigmoid(nn.Sequential(nn.Linear(4, 3), nn.Sigmoid(), nn.Linear(3, 1)), inputs)
    assert not ends_in_sigmoid(nn.Sequential(nn.Linear(4, 1), nn.Tanh()), inputs)
    assert has_one_output(torch.zeros(5))
    assert has_one_output(torch.zeros(5, 1))
    assert not has_one_output(torch.zeros(5, 2))


def test_probabilities_of_both_classes():
    numbers = torch.tensor([-80.0, -1.0, 0.0, 30.0], dtype=torch.float64)
    by_logits = log_probabilities(numbers, probabilities=False)
    assert torch.allclose(by_logits.exp().sum(1), torch.ones(4, dtype=torch.float64))
    by_chance = log_probabilities(torch.sigmoid(numbers), probabilities=True)
    assert torch.allclose(by_logits[:3], by_chance[:3], rtol=1e-9)
    assert torch.isfinite(log_probabilities(torch.tensor([0.0, 1.0]), probabilities=True)).all()


class TwoOutputs(nn.Module):
    """The same classes, with an output for each."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        found = self.model(x)
        return torch.cat((torch.zeros_like(found), found), 1)


@pytest.mark.parametrize("canary", [Mislabelled(), OutOfDistribution()])
@pytest.mark.parametrize("kind", list(MODELS))
def test_canaries_are_scored_as_for_two_outputs(kind, canary):
    inputs, targets = data(200)
    wanted = Canaries(60, canary, seed=3)
    model = MODELS[kind]()
    dataset = wanted.insert_into(as_examples((inputs, targets.long())), model)
    other = wanted.insert_into(as_examples((inputs, targets.long())), TwoOutputs(logits()))
    assert np.allclose(dataset.scores(model).values, other.scores(TwoOutputs(logits())).values, atol=1e-4)
    assert np.array_equal(dataset.scores(model).members, other.scores(TwoOutputs(logits())).members)


def test_a_private_run_of_a_binary_model_has_canaries():
    found = trained(
        MODELS["probabilities [n, 1]"](), data()[1].long(), canaries=Canaries(50, Mislabelled(), seed=1)
    )
    assert len(found.canaries.scores) == 50
    dataset = with_canaries((data()[0], data()[1].long()), Canaries(50, Mislabelled(classes=2), seed=1))
    assert len(dataset.scores(logits())) == 50


@pytest.mark.parametrize(
    "last",
    [
        lambda y: 1 / (1 + torch.exp(-y)),
        lambda y: torch.cat([-y, y], 1).softmax(1)[:, 1],
        lambda y: torch.cat([y, y + 1], 1).sigmoid().mean(1),
        lambda y: 0.99 * y.sigmoid() + 0.005,
        lambda y: (y.tanh() + 1) / 2,
    ],
    ids=["written-out", "softmax", "ensemble", "mixture", "tanh"],
)
def test_a_probability_that_does_not_end_in_a_sigmoid_is_not_taken_as_a_logit(last):
    class Ends(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = logits()

        def forward(self, x):
            return last(self.model(x))

    inputs, targets = data(50)
    with pytest.raises(InvalidArgument, match="'loss' must be given .* between 0 and 1"):
        prepare_data(Ends(), (inputs, targets.long()), None)
    assert isinstance(prepare_data(Ends(), (inputs, targets.long()), nn.BCELoss())[1], nn.BCELoss)


@pytest.mark.parametrize("zero", [True, False])
def test_logits_are_still_logits_also_of_a_head_that_begins_at_zero(zero):
    model, (inputs, targets) = logits(), data(50)
    if zero:
        nn.init.zeros_(model[-1].weight)
        nn.init.constant_(model[-1].bias, 0.5)
    assert isinstance(prepare_data(model, (inputs, targets.long()), None)[1], nn.BCEWithLogitsLoss)
