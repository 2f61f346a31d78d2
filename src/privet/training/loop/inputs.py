"""Check data and model before anything is spent: types, shapes, labels. Also the default sizes of a run."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.training.loop.binary_outputs import has_one_output
from privet.training.loop.losses import TorchLoss, as_labels, require_binary, require_labels
from privet.training.loop.model_calls import make_rule, prepare_call
from privet.training.loop.own_losses import has_own_loss
from privet.training.loop.probing import ROWS, Probe, probe_own_loss
from privet.training.plan import TrainingPlan
from privet.training.sampling.examples import Examples, TensorExamples
from privet.training.sampling.labels import as_classes
from privet.training.sampling.reading import Collate, as_examples

__all__ = ["default_learning_rate", "default_lot_size", "prepare_data", "read_data"]

_LEARNING_RATE = 2.0  # the best of a few on MNIST and Adult
_ACCUMULATED_NOISE = 0.3  # in a weight, at the end of the run
_LARGEST_LOT = 8192


def default_lot_size(population: int) -> int:
    """About 16 √n examples, at most a quarter of them, and at most 8192.

    The noise does not grow with the lot, so a large lot has less noise per example. With 16 √n the sampling
    rate still falls as n grows.

    >>> [default_lot_size(n) for n in (200, 30_000, 60_000, 10**7)]
    [50, 2771, 3919, 8192]
    """
    return max(1, min(round(16 * math.sqrt(population)), population // 4, _LARGEST_LOT))


def default_learning_rate(plan: TrainingPlan, momentum: float) -> float:
    """The default learning rate: 2 for gradients that are clipped at 1, or less if the noise is large.

    Noise of standard deviation z/L per step adds up to about η z √T / (L (1 − μ)) in each weight after T
    steps. This is kept at 0.3 or below, about the size of a weight. The rate follows from the plan only. For
    another clip bound it is divided by the bound.

    >>> from privet.training.sampling.schemes import PoissonSampling
    >>> noisy = TrainingPlan(
    ...     population=3000, sampling=PoissonSampling(0.3), steps=80, noise_multiplier=8.5, clip_bound=1.0
    ... )
    >>> round(default_learning_rate(noisy, 0.9), 3)
    0.355
    """
    noise = plan.gradient_multiplier * math.sqrt(plan.steps) / (plan.expected_lot * (1 - momentum))
    return min(_LEARNING_RATE, _ACCUMULATED_NOISE / noise) / plan.clip_bound


def read_data(
    model: nn.Module,
    data: object,
    *,
    collate: Collate | None = None,
    classes: Sequence[Any] | None = None,
) -> Examples:
    """Read the data, in the columns and the types that the model takes."""
    examples = as_examples(data, collate, make_rule(model, as_classes(classes)))
    if len(examples) == 0:
        raise InvalidArgument("'data' must have examples, got none. Give at least one lot.")
    return examples


def prepare_data(
    model: nn.Module,
    data: object,
    loss: TorchLoss | None,
    *,
    collate: Collate | None = None,
    classes: Sequence[Any] | None = None,
) -> tuple[Examples, TorchLoss | None]:
    """Read the data, and choose the loss: cross entropy if the targets are labels and no loss is given.

    A model that computes its own loss from ``labels`` keeps it: then the chosen loss is None. A model with
    one output for each example is binary. Its cross entropy is that of a logit, or of a probability if the
    model ends in a sigmoid. Its labels are 0 and 1.

    Floating-point numbers get the type of the model, and labels become int64. The model runs on two rows of
    zeros, so that inputs which it cannot take are refused now. *Leaks*: a label that is out of range is
    reported, without its value.
    """
    examples = read_data(model, data, collate=collate, classes=classes)
    empty = examples.take(torch.zeros(0, dtype=torch.int64))
    names = examples.input_names
    if loss is None and has_own_loss(model, len(empty) - 1 if names is None else 0):
        probe_own_loss(model, empty, names)
        return examples, None
    called = prepare_call(model, names)
    probe = Probe(called, empty)
    outputs = probe.require_logits() if loss is None else probe.outputs
    if not isinstance(outputs, Tensor):
        assert loss is not None
        return examples, loss
    binary, probabilities = has_one_output(outputs), False
    if binary or isinstance(loss, nn.BCEWithLogitsLoss):
        probabilities = probe.ends_in_sigmoid()
    if loss is None:
        if outputs.ndim == 0 or len(outputs) != ROWS or outputs.numel() == 0:
            raise InvalidArgument(
                f"'model' must give a row for each example, got {list(outputs.shape)} for {ROWS} of them. "
                f"Give rows × classes, or give a 'loss' that takes what it gives."
            )
        if binary and not probabilities and probe.stays_within_unit_interval():
            raise InvalidArgument(
                "'loss' must be given for a model whose one output stays between 0 and 1 but does not end "
                "in a sigmoid, got None: the output may be a probability or a logit. Give nn.BCELoss() for "
                "a probability, or nn.BCEWithLogitsLoss() for a logit."
            )
        loss = _default_loss(empty, outputs, binary=binary, probabilities=probabilities)
    if probabilities and isinstance(loss, nn.BCEWithLogitsLoss):
        raise InvalidArgument(
            "'loss' must be nn.BCELoss() for a model that ends in a sigmoid, got nn.BCEWithLogitsLoss(), "
            "which would apply a second sigmoid. Leave 'loss' out, or remove the sigmoid from the model."
        )
    if isinstance(examples, TensorExamples) and len(examples.columns) > 1:
        *inputs, targets = examples.columns
        if isinstance(loss, nn.CrossEntropyLoss):
            targets = as_labels(targets, outputs)
            require_labels(
                targets, outputs.unsqueeze(1) if outputs.dim() == 1 else outputs, loss.ignore_index
            )
            examples = TensorExamples((*inputs, targets), names)
        elif binary and isinstance(loss, nn.BCELoss | nn.BCEWithLogitsLoss):
            require_binary(targets)
    return examples, loss


def _default_loss(
    columns: tuple[Tensor, ...], outputs: Tensor, *, binary: bool, probabilities: bool
) -> nn.Module:
    if len(columns) < 2 or columns[-1].is_floating_point():
        raise InvalidArgument(
            "'loss' must be given if the targets are not integer labels, got None. Give nn.MSELoss(), "
            "nn.BCEWithLogitsLoss(), or a function that returns one number for each example."
        )
    if binary:
        return nn.BCELoss() if probabilities else nn.BCEWithLogitsLoss()
    if outputs.dim() == 2 and columns[-1].shape[1:] == outputs.shape[1:]:
        raise InvalidArgument(
            "'loss' must be given if there is a target for each class, got None: one class may be right, or "
            "several. Give nn.CrossEntropyLoss() for one-hot rows, or nn.BCEWithLogitsLoss() for several "
            "labels."
        )
    return nn.CrossEntropyLoss()
