"""Losses of one number for each example."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from privet.errors import InvalidArgument
from privet.training.per_example import per_example_loss


@pytest.mark.parametrize(
    "loss",
    [nn.MSELoss(), nn.L1Loss(), nn.HuberLoss(), nn.SmoothL1Loss(), nn.BCEWithLogitsLoss(), nn.BCELoss()],
    ids=str,
)
@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 2, 3)])
def test_elementwise_losses_are_means_of_each_row(loss, shape):
    outputs, targets = torch.rand(shape), torch.rand(shape)
    rows = per_example_loss(loss)(outputs, targets)
    assert rows.shape == (4,)
    for i in range(4):
        assert float(rows[i]) == pytest.approx(float(loss(outputs[i], targets[i])), rel=1e-5)


def test_the_given_module_is_left_as_it_is():
    loss = nn.MSELoss()
    per_example_loss(loss)
    assert loss.reduction == "mean"


def test_sums_are_sums_of_each_row():
    outputs, targets = torch.rand(4, 3), torch.rand(4, 3)
    rows = per_example_loss(nn.MSELoss(reduction="sum"))(outputs, targets)
    assert torch.allclose(rows, (outputs - targets).square().sum(1))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("last", [True, False])
def test_sequences_are_means_over_their_own_tokens(smoothing, last):
    module = nn.CrossEntropyLoss(ignore_index=2, label_smoothing=smoothing)
    outputs = torch.randn(4, 5, 7) if last else torch.randn(4, 7, 5)
    targets = torch.randint(0, 7, (4, 5))
    targets[1, :4], targets[:, 4] = 2, 1
    rows = per_example_loss(module)(outputs, targets)
    for i in range(4):
        flat = outputs[i] if last else outputs[i].t()
        assert float(rows[i]) == pytest.approx(float(module(flat, targets[i])), rel=1e-5)


def test_a_sequence_of_ignored_tokens_has_the_loss_zero():
    rows = per_example_loss(nn.CrossEntropyLoss(ignore_index=0))(
        torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.long)
    )
    assert torch.equal(rows, torch.zeros(2))


def test_class_weights_stay_with_the_example():
    weight = torch.tensor([1.0, 4.0])
    outputs, targets = torch.randn(3, 2), torch.tensor([0, 1, 1])
    rows = per_example_loss(nn.CrossEntropyLoss(weight=weight))(outputs, targets)
    assert torch.allclose(rows, F.cross_entropy(outputs, targets, weight=weight, reduction="none"))


def test_probabilities_as_targets():
    outputs, targets = torch.randn(3, 4), torch.rand(3, 4).softmax(1)
    rows = per_example_loss(nn.CrossEntropyLoss())(outputs, targets)
    assert torch.allclose(rows, F.cross_entropy(outputs, targets, reduction="none"))


@pytest.mark.parametrize("targets", [torch.zeros(4, 2), torch.zeros(1), torch.zeros(1, 4)])
def test_shapes_that_broadcast_are_refused(targets):
    with pytest.raises(InvalidArgument, match="mix examples"):
        per_example_loss(nn.MSELoss())(torch.zeros(4), targets)


def test_a_column_of_numbers_is_one_number_for_each_example():
    outputs, targets = torch.rand(4, 1), torch.rand(4)
    rows = per_example_loss(nn.MSELoss())(outputs, targets)
    assert torch.allclose(rows, (outputs[:, 0] - targets).square())
    assert torch.equal(rows, per_example_loss(nn.MSELoss())(outputs[:, 0], targets.unsqueeze(1)))


def test_targets_that_do_not_fit_are_refused():
    with pytest.raises(InvalidArgument, match="second or the last"):
        per_example_loss(nn.CrossEntropyLoss())(torch.zeros(4, 5, 7), torch.zeros(4, 6, dtype=torch.long))


def test_as_many_tokens_as_classes_are_refused():
    with pytest.raises(InvalidArgument, match="flattens the tokens"):
        per_example_loss(nn.CrossEntropyLoss())(torch.zeros(4, 5, 5), torch.zeros(4, 5, dtype=torch.long))
