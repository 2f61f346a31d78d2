"""Check data and model before anything is spent: types, shapes, labels. Also the default sizes of a run."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.training.loop.binary_outputs import ends_in_sigmoid, has_one_output
from privet.training.loop.losses import TorchLoss, as_labels, find_logits, require_binary, require_labels
from privet.training.loop.model_calls import make_rule, prepare_call
from privet.training.loop.own_losses import OwnLoss, has_own_loss
from privet.training.loop.step import split_targets
from privet.training.plan import TrainingPlan
from privet.training.sampling.examples import Examples, TensorExamples
from privet.training.sampling.labels import as_classes
from privet.training.sampling.reading import Collate, as_examples

__all__ = ["default_learning_rate", "default_lot_size", "prepare_data", "probe_model", "read_data"]

PROBES = 64
"""The number of random rows for a model with one output. The logits of a fresh model leave [0, 1] on some."""

SPREAD = 1e-3
"""Outputs that differ by less are constant, as those of a head that starts at zero, and show nothing."""

_LEARNING_RATE = 2.0  # the best of a few on MNIST and Adult
_ACCUMULATED_NOISE = 0.3  # in a weight, at the end of the run
_LARGEST_LOT = 8192
_TRIED = 2  # examples that a model is tried on


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
    if loss is None and has_own_loss(model):
        probe_own_loss(model, empty, names)
        return examples, None
    called = prepare_call(model, names)
    outputs = probe_model(called, empty, any_output=loss is not None)
    if not isinstance(outputs, Tensor):
        assert loss is not None
        return examples, loss
    binary, probabilities = has_one_output(outputs), False
    if binary or isinstance(loss, nn.BCEWithLogitsLoss):
        with _restore_buffers(model):
            probabilities = ends_in_sigmoid(called, _zeros(empty))
    if loss is None:
        if outputs.ndim == 0 or len(outputs) != _TRIED or outputs.numel() == 0:
            raise InvalidArgument(
                f"'model' must give a row for each example, got {list(outputs.shape)} for {_TRIED} of them. "
                f"Give rows × classes, or give a 'loss' that takes what it gives."
            )
        if binary and not probabilities and _stays_within_unit_interval(called, empty):
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


def probe_own_loss(model: nn.Module, empty: tuple[Tensor, ...], names: tuple[str, ...] | None) -> None:
    """Run a model that computes its own loss on zeros."""
    own = OwnLoss(model, names)
    targets = empty[-1].new_zeros((_TRIED, *empty[-1].shape[1:]))
    _run(own.module, own.extend(_zeros(empty), targets), model)


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


def _zeros(empty: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.new_zeros((_TRIED, *x.shape[1:])) for x in split_targets(empty)[0])


def _stays_within_unit_interval(model: nn.Module, empty: tuple[Tensor, ...]) -> bool:
    """Whether the outputs for wide random inputs differ, and all lie between 0 and 1.

    This sees no data. Integer inputs are zeros here, so they show nothing.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(
        10 * torch.randn((PROBES, *x.shape[1:]), generator=generator).to(x)
        if x.is_floating_point()
        else x.new_zeros((PROBES, *x.shape[1:]))
        for x in split_targets(empty)[0]
    )
    with torch.no_grad(), _restore_buffers(model):
        outputs = find_logits(model(*inputs)).double()
    low, high = outputs.min(), outputs.max()
    return bool(low >= 0 and high <= 1 and high - low > SPREAD)


def probe_model(model: nn.Module, empty: tuple[Tensor, ...], *, any_output: bool = False) -> Any:  # noqa: ANN401
    """The model's outputs for zeros, or its logits. Its buffers and torch's random numbers are restored."""
    outputs = find_logits(_run(model, _zeros(empty), model))
    if isinstance(outputs, Tensor) and not outputs.is_floating_point():
        raise InvalidArgument(
            f"'model' must give real numbers, which have gradients, got {outputs.dtype}. Give logits instead "
            f"of classes."
        )
    if not isinstance(outputs, Tensor) and not any_output:
        raise InvalidArgument(
            f"'model' must return one tensor, got {type(outputs).__name__}. "
            f"Wrap it in a module that returns only its outputs, or give a 'loss' that takes them."
        )
    return outputs


def _run(called: nn.Module, inputs: tuple[Tensor, ...], model: nn.Module) -> Any:  # noqa: ANN401 - any output
    kinds = ", ".join(f"{x.dtype} {list(x.shape[1:])}" for x in inputs)
    try:
        with torch.no_grad(), _restore_buffers(model):
            return called(*inputs)
    except (RuntimeError, TypeError, ValueError, IndexError) as failure:
        raise InvalidArgument(
            f"'model' must take the columns of 'data', which are {kinds} for each example, and raises "
            f"{type(failure).__name__}: {str(failure).splitlines()[0] if str(failure) else ''!s}. Convert "
            "one of them."
        ) from failure


@contextmanager
def _restore_buffers(model: nn.Module) -> Iterator[None]:
    """Restore the model's buffers and the random numbers of torch after the block."""
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        with torch.no_grad():
            for name, value in model.named_buffers():
                if name in buffers:
                    value.copy_(buffers[name])
