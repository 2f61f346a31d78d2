"""Data and model, looked at before anything is spent: types, shapes, labels; and sizes that are left to Privet."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from privet.errors import InvalidArgument
from privet.training.binary import ends_in_sigmoid, has_one_output
from privet.training.losses import Loss, require_binary, require_labels
from privet.training.plan import Plan
from privet.training.rows import Rows, rows_of
from privet.training.step import split

__all__ = ["default_lot", "default_rate", "prepared", "tried"]

TRIES = 64
"""How many random rows a model with one output is tried on; the logits of a fresh model leave [0, 1] on some of them."""

SPREAD = 1e-3
"""Outputs closer together are constant, as those of a head that begins at zero, and tell nothing."""

_RATE = 2.0  # found on MNIST and Adult, where others did worse
_GATHERED = 0.3
_LARGEST_LOT = 8192
_TRIED = 2  # examples that a model is tried on


def default_lot(population: int) -> int:
    """About 16 √n examples, at most a quarter of them, and at most 8192.

    Large lots drown the noise, whose size does not grow with them, and a number that grows as √n keeps the rate falling.

    >>> [default_lot(n) for n in (200, 30_000, 60_000, 10**7)]
    [50, 2771, 3919, 8192]
    """
    return max(1, min(round(16 * math.sqrt(population)), population // 4, _LARGEST_LOT))


def default_rate(plan: Plan, momentum: float) -> float:
    """A learning rate for gradients that are clipped at 1: 2, or less where the noise would drown the weights.

    Noise of deviation z/L a step gathers to about η z √T / (L (1 − μ)) in each weight after T steps; that is held at 0.3,
    which is about the size of a weight. It follows from the plan alone. With another clip bound the rate is divided by it.

    >>> from privet.training.sampling_schemes import PoissonSampling
    >>> noisy = Plan(population=3000, sampling=PoissonSampling(0.3), steps=80, noise_multiplier=8.5, clip_bound=1.0)
    >>> round(default_rate(noisy, 0.9), 3)
    0.355
    """
    gathered = plan.gradient_multiplier * math.sqrt(plan.steps) / (plan.expected_lot * (1 - momentum))
    return min(_RATE, _GATHERED / gathered) / plan.clip_bound


def prepared(model: nn.Module, data: object, loss: Loss | nn.Module | None) -> tuple[Rows, Loss | nn.Module]:
    """Rows of the data, and the loss; cross entropy where the targets are labels and no loss is given.

    A model with one output for each example is binary: its cross entropy is that of a logit, or of a probability where the
    model ends in a sigmoid, and labels are 0 and 1.

    Numbers of float64 become the model's float32, and labels int64. The model is tried on two rows of zeros, so what it
    does not take is said now. *Leaks*: a label that is out of range is reported as such, without its value.
    """
    if isinstance(data, TensorDataset):
        data = data.tensors
    if isinstance(data, tuple):
        data = tuple(x if isinstance(x, Tensor) else np.asarray(x) for x in data)  # data frames, lists
    columns: tuple[Tensor, ...] | None = None
    if isinstance(data, tuple | list) and data and all(isinstance(x, Tensor | np.ndarray) for x in data):
        columns = tuple(_column(x) for x in data)
        if len(columns) > 1 and not columns[-1].is_floating_point() and _classes(loss):
            columns = (*columns[:-1], columns[-1].long())
    rows = rows_of(data if columns is None else columns)
    if len(rows) == 0:
        raise InvalidArgument("'data' must have examples, got none. Give at least one lot of them.")
    empty = rows.take(torch.zeros(0, dtype=torch.int64))
    outputs = tried(model, empty)
    binary, probabilities = has_one_output(outputs), False
    if binary or isinstance(loss, nn.BCEWithLogitsLoss):
        with _put_back(model):
            probabilities = ends_in_sigmoid(model, _zeros(empty))
    if loss is None:
        if outputs.ndim == 0 or len(outputs) != _TRIED or outputs.numel() == 0:
            raise InvalidArgument(
                f"'model' must give a row for each example, got {list(outputs.shape)} for {_TRIED} of them. "
                f"Give rows × classes, or give a 'loss' that takes what it gives."
            )
        if binary and not probabilities and _stays_within_a_unit(model, empty):
            raise InvalidArgument(
                "'loss' must be given for a model whose one output stays between 0 and 1 but does not end in a sigmoid, got None: it may be a "
                "probability or a logit. Give nn.BCELoss() for a probability, or nn.BCEWithLogitsLoss() for a logit."
            )
        loss = _default_loss(empty, binary=binary, probabilities=probabilities)
    if probabilities and isinstance(loss, nn.BCEWithLogitsLoss):
        raise InvalidArgument(
            "'loss' must be nn.BCELoss() for a model that ends in a sigmoid, got nn.BCEWithLogitsLoss(), which would take a second one. "
            "Leave 'loss' out, or take the sigmoid off the model."
        )
    if columns is not None and len(columns) > 1:
        if isinstance(loss, nn.CrossEntropyLoss):
            require_labels(
                columns[-1], outputs.unsqueeze(1) if outputs.dim() == 1 else outputs, loss.ignore_index
            )
        elif binary and isinstance(loss, nn.BCELoss | nn.BCEWithLogitsLoss):
            require_binary(columns[-1])
    return rows, loss


def _column(values: Tensor | np.ndarray) -> Tensor:
    if isinstance(values, np.ndarray) and values.dtype.kind not in "biuf":
        raise InvalidArgument(
            f"'data' must be arrays of numbers, got one of type {values.dtype}. Encode words and categories as numbers."
        )
    if isinstance(values, np.ndarray) and not (values.flags.writeable and values.flags.c_contiguous):
        values = values.copy()  # torch takes neither read-only memory nor negative strides
    found = torch.as_tensor(values)
    return found.float() if found.dtype == torch.float64 else found


def _classes(loss: Loss | nn.Module | None) -> bool:
    return loss is None or isinstance(loss, nn.CrossEntropyLoss)


def _default_loss(columns: tuple[Tensor, ...], *, binary: bool, probabilities: bool) -> nn.Module:
    if len(columns) < 2 or columns[-1].is_floating_point():
        raise InvalidArgument(
            "'loss' must be given where the targets are not whole-number labels, got None. "
            "Give nn.MSELoss(), nn.BCEWithLogitsLoss(), or a function with one number for each example."
        )
    if binary:
        return nn.BCELoss() if probabilities else nn.BCEWithLogitsLoss()
    return nn.CrossEntropyLoss()


def _zeros(empty: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(x.new_zeros((_TRIED, *x.shape[1:])) for x in split(empty)[0])


def _stays_within_a_unit(model: nn.Module, empty: tuple[Tensor, ...]) -> bool:
    """Whether outputs for wide random inputs differ, and all lie between 0 and 1. Sees no data; tells nothing of inputs that are whole numbers."""
    generator = torch.Generator().manual_seed(0)
    inputs = tuple(
        10 * torch.randn((TRIES, *x.shape[1:]), generator=generator).to(x)
        if x.is_floating_point()
        else x.new_zeros((TRIES, *x.shape[1:]))
        for x in split(empty)[0]
    )
    with torch.no_grad(), _put_back(model):
        found = model(*inputs).double()
    return bool(found.min() >= 0 and found.max() <= 1 and found.max() - found.min() > SPREAD)


def tried(model: nn.Module, empty: tuple[Tensor, ...]) -> Tensor:
    """What the model gives for zeros. Its buffers and its random numbers are put back."""
    inputs = _zeros(empty)
    kinds = ", ".join(f"{x.dtype} {list(x.shape[1:])}" for x in inputs)
    try:
        with torch.no_grad(), _put_back(model):
            found = model(*inputs)
    except (RuntimeError, TypeError, ValueError, IndexError) as refused:
        raise InvalidArgument(
            f"'model' must take the columns of 'data', which are {kinds} for each example, and raises "
            f"{type(refused).__name__}: {str(refused).splitlines()[0] if str(refused) else ''!s}. Convert one of them."
        ) from refused
    if isinstance(found, Tensor) and not found.is_floating_point():
        raise InvalidArgument(
            f"'model' must give real numbers, which have gradients, got {found.dtype}. Give logits, and not classes."
        )
    if not isinstance(found, Tensor):
        raise InvalidArgument(
            f"'model' must give one tensor, got {type(found).__name__}. Wrap it in a module that gives its outputs alone."
        )
    return found


@contextmanager
def _put_back(model: nn.Module) -> Iterator[None]:
    """A block after which the model's buffers and the random numbers are as they were."""
    buffers = {name: value.clone() for name, value in model.named_buffers()}
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        with torch.no_grad():
            for name, value in model.named_buffers():
                if name in buffers:
                    value.copy_(buffers[name])
