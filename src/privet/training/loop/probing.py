"""Run a model on made-up rows before the first lot, so that what does not fit is refused in our words.

No data are used. Integer inputs are zeros; ones for a model that refuses zeros, as one that takes lengths of
sequences does; or the last token of a text for a model that looks for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.training.double_precision import to_float64
from privet.training.loop.binary_outputs import ends_in_sigmoid
from privet.training.loop.losses import find_logits
from privet.training.loop.own_losses import OwnLoss
from privet.training.loop.step import split_targets

__all__ = ["ROWS", "Probe", "probe_own_loss"]

ROWS = 2
"""Examples that a model is tried on."""

PROBES = 64
"""The number of random rows for a model with one output. The logits of a fresh model leave [0, 1] on some."""

SPREAD = 1e-3
"""Outputs that differ by less are constant, as those of a head that starts at zero, and show nothing."""

_FILLS = (0, 1)
_LOW = (torch.bfloat16, torch.float16)
_FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AssertionError)


@final
class Probe:
    """A model's ``outputs`` for made-up rows, or its logits. The model is called with its inputs in order.

    ``empty`` are the columns of no examples. The model's buffers and torch's random numbers are restored.
    """

    def __init__(self, model: nn.Module, empty: tuple[Tensor, ...]) -> None:
        self._model, self._empty = model, _move_to(model, split_targets(empty)[0])
        raw, self._fill = _run(model, self._empty)
        self.outputs: Any = find_logits(raw)
        if isinstance(self.outputs, Tensor) and not self.outputs.is_floating_point():
            raise InvalidArgument(
                f"'model' must give real numbers, which have gradients, got {self.outputs.dtype}. Give "
                f"logits instead of classes."
            )

    def require_logits(self) -> Tensor:
        """The outputs. They must be one tensor."""
        if not isinstance(self.outputs, Tensor):
            raise InvalidArgument(
                f"'model' must return one tensor, got {type(self.outputs).__name__}. "
                f"Wrap it in a module that returns only its outputs, or give a 'loss' that takes them."
            )
        return self.outputs

    def ends_in_sigmoid(self) -> bool:
        """Whether the last operation of the model is a sigmoid."""
        with _restore_buffers(self._model):
            return ends_in_sigmoid(self._model, _make_rows(self._empty, self._fill))

    def stays_within_unit_interval(self) -> bool:
        """Whether the outputs for wide random inputs differ, and all lie between 0 and 1.

        Integer inputs are all the same here, so they show nothing.
        """
        generator = torch.Generator().manual_seed(0)
        inputs = tuple(
            10 * torch.randn((PROBES, *x.shape[1:]), generator=generator).to(x)
            if x.is_floating_point()
            else x.new_full((PROBES, *x.shape[1:]), self._fill)
            for x in self._empty
        )
        with torch.no_grad(), _restore_buffers(self._model):
            outputs = to_float64(find_logits(self._model(*inputs)))
        low, high = outputs.min(), outputs.max()
        return bool(low >= 0 and high <= 1 and high - low > SPREAD)


def probe_own_loss(model: nn.Module, empty: tuple[Tensor, ...], names: tuple[str, ...] | None) -> None:
    """Run a model that computes its own loss on made-up rows."""
    own = OwnLoss(model, names)
    inputs, targets = split_targets(_move_to(model, empty))
    _run(own.module, own.extend(inputs, targets))


def _move_to(model: nn.Module, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The columns on the device of the model, as the data follow it."""
    parameter = next(model.parameters(), None)
    return columns if parameter is None else tuple(x.to(parameter.device) for x in columns)


def _make_rows(empty: tuple[Tensor, ...], fill: int) -> tuple[Tensor, ...]:
    return tuple(x.new_full((ROWS, *x.shape[1:]), 0 if x.is_floating_point() else fill) for x in empty)


def _run(model: nn.Module, empty: tuple[Tensor, ...]) -> tuple[Any, int]:
    """The outputs, and the integer that the model took."""
    kinds = ", ".join(f"{x.dtype} {list(x.shape[1:])}" for x in empty)
    failures: list[Exception] = []
    _require_precision(model)
    for fill in _list_fills(model):
        try:
            with torch.no_grad(), _restore_buffers(model):
                return model(*_make_rows(empty, fill)), fill
        except InvalidArgument:
            raise
        except _FAILURES as failure:
            failures.append(failure)
    first = failures[0]
    raise InvalidArgument(
        f"'model' must take the columns of 'data', which are {kinds} for each example, and raises "
        f"{type(first).__name__}: {str(first).splitlines()[0] if str(first) else ''!s}. Convert "
        "one of them."
    ) from first


def _list_fills(model: nn.Module) -> tuple[int, ...]:
    """The integers to try: those of every model, and the end of a text if the model has a name for it."""
    configs = (getattr(module, "config", None) for module in model.modules())
    ends = {getattr(config, "eos_token_id", None) for config in configs if config is not None}
    return (*_FILLS, *sorted(end for end in ends if isinstance(end, int) and end not in _FILLS))


def _require_precision(model: nn.Module) -> None:
    """Refuse a model in lower precision before it is called with float32."""
    low = next((p.dtype for p in model.parameters() if p.requires_grad and p.dtype in _LOW), None)
    if low is not None:
        raise InvalidArgument(
            f"'model' must have trainable parameters in float32 or float64, got {low}, which has too few "
            "digits for the noise. Call model.float(), and train under torch.autocast for the speed of lower "
            "precision."
        )


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
