"""Every loss of torch, and losses of one's own: one number for each example, equal to a loop over the examples."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.errors import InvalidArgument
from privet.randomness import SeededNoise
from privet.training import Flat, make_private, per_example_loss
from privet.training.loop.losses import as_per_example_loss
from privet.training.loop.step import NoisyGradient
from privet.training.sampling.reading import as_examples

COUNT, CLASSES = 6, 5


def draw(seed=0):
    return torch.Generator().manual_seed(seed)


def logits(*shape):
    return torch.randn(COUNT, *(shape or (CLASSES,)), generator=draw(), dtype=torch.float64)


def labels(*shape):
    return torch.randint(0, CLASSES, (COUNT, *shape), generator=draw(1))


def share(*shape):
    return torch.rand(COUNT, *(shape or (CLASSES,)), generator=draw(2), dtype=torch.float64)


def signs(*shape):
    return 2.0 * torch.randint(0, 2, (COUNT, *shape), generator=draw(3)) - 1


WEIGHT = torch.tensor([0.5, 1.0, 2.0, 4.0, 3.0], dtype=torch.float64)
several = torch.tensor([[0, 2, -1, 1, 1]] * 3 + [[3, 1, 2, -1, 0]] * 3)

# A loss, outputs and targets. The loss of one example is the module's own for a batch of this example.
ALONE = {
    "mse": (nn.MSELoss(), logits(3), share(3)),
    "l1": (nn.L1Loss(), logits(3), share(3)),
    "huber": (nn.HuberLoss(delta=0.3), logits(3), share(3)),
    "smooth l1": (nn.SmoothL1Loss(beta=0.3), logits(3, 2), share(3, 2)),
    "soft margin": (nn.SoftMarginLoss(), logits(3), signs(3)),
    "hinge embedding": (nn.HingeEmbeddingLoss(0.7), logits(3), signs(3)),
    "poisson": (nn.PoissonNLLLoss(), logits(3), 3 * share(3)),
    "poisson, full": (nn.PoissonNLLLoss(log_input=False, full=True), share(3) + 0.1, 4 * share(3)),
    "kl": (nn.KLDivLoss(), logits().log_softmax(1), share().softmax(1)),
    "kl, batchmean": (nn.KLDivLoss(reduction="batchmean"), logits().log_softmax(1), share().softmax(1)),
    "kl, logs": (
        nn.KLDivLoss(log_target=True, reduction="sum"),
        logits().log_softmax(1),
        share().log_softmax(1),
    ),
    "bce": (nn.BCELoss(), share(3), share(3).round()),
    "bce, weights": (nn.BCELoss(weight=WEIGHT), share(), share().round()),
    "logits": (nn.BCEWithLogitsLoss(), logits(3), share(3).round()),
    "logits, weights": (
        nn.BCEWithLogitsLoss(weight=WEIGHT, pos_weight=2 * WEIGHT),
        logits(),
        share().round(),
    ),
    "logits, one": (nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0)), logits(1), share(1).round()),
    "nll": (nn.NLLLoss(), logits().log_softmax(1), labels()),
    "nll, sum, weights": (nn.NLLLoss(weight=WEIGHT, reduction="sum"), logits().log_softmax(1), labels()),
    "nll, pixels": (nn.NLLLoss(ignore_index=1), logits(CLASSES, 3, 4).log_softmax(1), labels(3, 4)),
    "cross entropy": (nn.CrossEntropyLoss(), logits(), labels()),
    "smoothed": (nn.CrossEntropyLoss(label_smoothing=0.2), logits(), labels()),
    "tokens, weights": (nn.CrossEntropyLoss(weight=WEIGHT, ignore_index=2), logits(CLASSES, 4), labels(4)),
    "tokens, sum": (nn.CrossEntropyLoss(reduction="sum", ignore_index=2), logits(CLASSES, 4), labels(4)),
    "probabilities": (nn.CrossEntropyLoss(weight=WEIGHT), logits(), share().softmax(1)),
    "maps of probabilities": (nn.CrossEntropyLoss(), logits(CLASSES, 3), share(CLASSES, 3).softmax(1)),
    "margin": (nn.MultiMarginLoss(p=2, margin=0.5, weight=WEIGHT), logits(), labels()),
    "margin of labels": (nn.MultiLabelMarginLoss(), logits(), several),
    "soft margin of labels": (nn.MultiLabelSoftMarginLoss(weight=WEIGHT), logits(), share().round()),
    "gaussian": (nn.GaussianNLLLoss(), (logits(3), share(3)), share(3)),
    "gaussian, full": (nn.GaussianNLLLoss(full=True, eps=0.3), (logits(3), share(1)), share(3)),
    "gaussian, sum": (nn.GaussianNLLLoss(reduction="sum"), (logits(3), share(3)), share(3)),
    "cosine": (nn.CosineEmbeddingLoss(0.1), (logits(3), share(3)), signs()),
    "ranking": (nn.MarginRankingLoss(0.1), (logits(1)[:, 0], share(1)[:, 0]), signs()),
    "triplet": (nn.TripletMarginLoss(), (logits(3), share(3), logits(3) + 1), torch.zeros(COUNT)),
}


def one(outputs, i):
    return tuple(x[i : i + 1] for x in outputs) if isinstance(outputs, tuple) else outputs[i : i + 1]


def call(loss, outputs, targets):
    if isinstance(loss, nn.GaussianNLLLoss):
        return loss(outputs[0], targets, outputs[1])
    if isinstance(loss, nn.TripletMarginLoss):
        return loss(*outputs)
    return loss(*outputs, targets) if isinstance(outputs, tuple) else loss(outputs, targets)


@pytest.mark.filterwarnings("ignore:reduction")  # torch warns of the mean of KLDivLoss
@pytest.mark.parametrize("name", ALONE)
def test_the_loss_of_an_example_is_that_of_a_batch_of_one(name):
    loss, outputs, targets = ALONE[name]
    targets = targets if targets.dtype == torch.int64 else targets.double()
    expected = torch.stack([call(loss, one(outputs, i), targets[i : i + 1]) for i in range(COUNT)])
    for make in (per_example_loss, as_per_example_loss):
        assert torch.allclose(make(loss)(outputs, targets), expected, rtol=1e-10, atol=1e-12)


def test_a_class_weight_stays_on_an_example_with_one_label():
    """For a batch of one, torch's mean divides by the weight of this label, so that it has no effect."""
    outputs, targets = logits(), labels()
    for loss in (nn.CrossEntropyLoss(weight=WEIGHT), nn.NLLLoss(weight=WEIGHT)):
        alone = F.nll_loss(
            outputs.log_softmax(1) if isinstance(loss, nn.CrossEntropyLoss) else outputs,
            targets,
            reduction="none",
        )
        assert torch.allclose(per_example_loss(loss)(outputs, targets), WEIGHT[targets] * alone)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("with_lengths", [True, False])
def test_sequences_that_are_aligned(reduction, with_lengths):
    time, loss = 7, nn.CTCLoss(reduction=reduction)
    outputs = torch.randn(time, COUNT, CLASSES, generator=draw(), dtype=torch.float64).log_softmax(2)
    targets, counts = torch.zeros(COUNT, 3, dtype=torch.int64), torch.tensor([1, 2, 3, 3, 2, 1])
    lengths = torch.tensor([7, 6, 7, 5, 4, 7]) if with_lengths else torch.full((COUNT,), time)
    for i, count in enumerate(counts.tolist()):
        targets[i, :count] = torch.arange(1, 1 + count)
        targets[i, count:] = -1 if i % 2 else 0
    rows = per_example_loss(loss)((outputs, lengths) if with_lengths else outputs, targets)
    for i in range(COUNT):
        alone = loss(
            outputs[:, i : i + 1], targets[i : i + 1].clamp(min=0), lengths[i : i + 1], counts[i : i + 1]
        )
        assert float(rows[i]) == pytest.approx(float(alone), rel=1e-9)


@pytest.mark.parametrize(
    ("loss", "outputs", "targets", "words"),
    [
        (
            nn.BCEWithLogitsLoss(weight=torch.ones(COUNT)),
            logits(1)[:, 0],
            share(1)[:, 0],
            "each example of a",
        ),
        (nn.BCELoss(weight=torch.ones(COUNT, 1)), share(3), share(3).round(), "each example of a batch"),
        (nn.GaussianNLLLoss(), (logits(3), -share(3)), share(3), "not negative"),
        (nn.GaussianNLLLoss(), logits(3), share(3), "tuple of 2 tensors"),
        (nn.GaussianNLLLoss(), (logits(3), share(3)), share(2), "shape of the model's means"),
        (nn.TripletMarginLoss(), (logits(3), share(3)), share(3), "tuple of 3 tensors"),
        (nn.CTCLoss(), logits(7), labels(3), "time, examples, classes"),
        (nn.MultiMarginLoss(), logits(3, 2), labels(), "examples, classes"),
    ],
)
def test_what_does_not_fit_is_refused_in_our_words(loss, outputs, targets, words):
    with pytest.raises(InvalidArgument, match=words):
        per_example_loss(loss)(outputs, targets)


# Losses of one's own --------------------------------------------------------------------------------------------------


class Focal(nn.CrossEntropyLoss):
    """A subclass computes something else than its class, so the rule of the class is not its own."""

    def forward(self, outputs, targets):
        entropy = F.cross_entropy(outputs, targets, reduction="none")
        return ((1 - (-entropy).exp()) ** 2 * entropy).mean()


def smoothed_mean(outputs, targets):
    return F.cross_entropy(outputs, targets, label_smoothing=0.1)


def sum_of_squares(outputs, targets):
    return (outputs.sum(1) - targets).square().sum()


def by_values(outputs, targets):
    """Control flow by values, which vmap does not take."""
    if float(outputs[0, 0].detach()) > 0:
        return F.cross_entropy(outputs, targets) * 1.0
    return F.cross_entropy(outputs, targets)


@pytest.mark.parametrize(
    "loss", [Focal(), smoothed_mean, sum_of_squares, by_values], ids=["focal", "mean", "sum", "by values"]
)
def test_a_loss_of_a_batch_is_called_for_every_example_alone(loss):
    outputs, targets = logits(), labels()
    rows = as_per_example_loss(loss)(outputs, targets)
    assert rows.shape == (COUNT,)
    for i in range(COUNT):
        assert float(rows[i]) == pytest.approx(float(loss(outputs[i : i + 1], targets[i : i + 1])), rel=1e-9)


def test_one_number_for_each_example_is_taken_as_it_is():
    loss = nn.CrossEntropyLoss(reduction="none")
    rows = as_per_example_loss(loss.forward)(logits(), labels())
    assert torch.equal(rows, loss(logits(), labels()))


def test_a_mean_that_is_not_over_examples_is_refused():
    def over_tokens(outputs, targets):
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=0)

    outputs, targets = logits(4, CLASSES), labels(4)
    targets[0, :3] = 0
    with pytest.raises(InvalidArgument, match="mean or a sum over examples"):
        as_per_example_loss(over_tokens)(outputs, targets)
    with pytest.raises(InvalidArgument, match="class weights"):
        as_per_example_loss(lambda o, t: F.cross_entropy(o, t, weight=WEIGHT))(logits(), labels())


def test_a_private_step_with_the_mean_of_a_batch_is_that_of_cross_entropy():
    torch.manual_seed(0)
    data = as_examples((torch.randn(20, 3), torch.randint(0, 4, (20,))))
    sums = []
    for loss in (nn.CrossEntropyLoss(), F.cross_entropy, lambda o, t: F.cross_entropy(o, t) * 1):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
        gradient = NoisyGradient(model, Flat(0.5), divisor=1.0, multiplier=0.0, source=SeededNoise(1))
        gradient.collect(data, torch.arange(20), loss)
        sums.append(gradient.buffer.clone())
    assert torch.allclose(sums[0], sums[1], atol=1e-6)
    assert torch.allclose(sums[0], sums[2], atol=1e-6)


# Labels ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        lambda t: t.unsqueeze(1),
        lambda t: t.int(),
        lambda t: t.to(torch.uint8),
        lambda t: t.double(),
        lambda t: t.double().unsqueeze(1),
        lambda t: F.one_hot(t, CLASSES),
        lambda t: F.one_hot(t, CLASSES).bool(),
        lambda t: F.one_hot(t, CLASSES).float(),
    ],
)
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(label_smoothing=0.1)])
def test_forms_of_labels_mean_the_same(form, loss):
    expected = as_per_example_loss(loss)(logits(), labels())
    assert torch.allclose(as_per_example_loss(loss)(logits(), form(labels())), expected)


def test_labels_that_are_quantities_are_refused():
    with pytest.raises(InvalidArgument, match="not whole"):
        as_per_example_loss(nn.CrossEntropyLoss())(logits(), share(1)[:, 0])
    with pytest.raises(InvalidArgument, match="labels from 0 to 4"):
        as_per_example_loss(nn.CrossEntropyLoss())(logits(), labels() + 1)


class Output:
    def __init__(self, logits):
        self.logits = logits


def test_logits_of_an_object_or_a_dictionary():
    for wrap in (Output, lambda x: {"logits": x}, lambda x: {"out": x}):
        for loss in (nn.CrossEntropyLoss(), nn.MultiMarginLoss()):
            rows = as_per_example_loss(loss)(wrap(logits()), labels())
            assert torch.equal(rows, as_per_example_loss(loss)(logits(), labels()))
    square = logits(CLASSES, CLASSES)  # as many tokens as classes: such models have the classes last
    rows = as_per_example_loss(nn.CrossEntropyLoss())(Output(square), labels(CLASSES))
    expected = F.cross_entropy(square.transpose(1, 2), labels(CLASSES), reduction="none").mean(1)
    assert torch.allclose(rows, expected)


def test_make_private_takes_the_mean_of_a_batch():
    model = nn.Linear(3, 2)
    data = torch.randn(100, 3), torch.randint(0, 2, (100,))
    private = make_private(
        model,
        torch.optim.SGD(model.parameters(), 0.1),
        data,
        epsilon=3,
        delta=1e-6,
        steps=2,
        lot_size=20,
        clip=1.0,
    )
    for lot in private.lots():
        private.step(lot, F.cross_entropy)
    assert private.steps_done == 2
