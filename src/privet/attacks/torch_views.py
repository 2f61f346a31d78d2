"""The white-box view of a torch module: confidences, activations, and the gradient of each record's loss in
every layer.

The module runs in evaluation mode, because dropout and batch statistics would add noise that is no property
of a record. The mode of each of its parts is restored afterwards. Gradients are functional: no ``.grad`` and
no parameter is changed.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from privet.arguments import whole
from privet.attacks.outputs import (
    Outputs,
    batches,
    log_confidences_of_logits,
    log_confidences_of_probabilities,
)
from privet.attacks.torch_inputs import ModelInputs, map_inputs, query_module, to_model_inputs
from privet.attacks.torch_outputs import (
    bare_outputs,
    last_layer_gives,
    last_operation_gives,
    may_be_probabilities,
    row_losses,
)
from privet.errors import InvalidArgument
from privet.record_inputs import are_positional, gather_inputs
from privet.views import Labels, Numbers, Rows, WhiteBox

__all__ = ["TorchView", "evaluating"]

_GRADIENT_NUMBERS = 2**24  # of per-example gradients at a time
_ROOT = "."  # the name of the module itself, where it has parameters of its own


@final
class TorchView(WhiteBox):
    """A classifier as a torch module: rows in, rows × classes out (or one column, that of class 1).

    The output may be an object that holds them as ``logits``, as with language models.

    Inputs are converted to the module's type. Whole numbers are indices where the module has an embedding,
    and numbers elsewhere. Several inputs reach the module by keyword or in their order (``torch_inputs``).
    """

    def __init__(self, module: nn.Module, *, batch: int = 256, gives: Outputs | None = None) -> None:
        if any(nn.parameter.is_lazy(p) or p.is_meta for p in module.parameters()):
            raise InvalidArgument(
                "'model' must have weights, got layers that are lazy or on 'meta'. Load them first."
            )
        self.module, self.batch = module, whole("batch", batch)
        self._given, self._detected = gives, last_layer_gives(module)
        self.gives = gives or self._detected or Outputs.LOGITS
        self._examined = False
        self._certain = False  # true once it was given or detected, or an output was no probability
        first = next(iter(module.parameters()), next(iter(module.buffers()), torch.zeros(())))
        self._device = first.device
        self._groups = _groups(module)

    @property
    def layers(self) -> tuple[str, ...]:
        return tuple(self._groups)

    def log_confidences(self, inputs: Rows) -> Numbers:
        table = self.outputs(inputs)
        self._examine(inputs)
        self._certain |= bool(np.isnan(table).any() or table.min() < 0.0 or table.max() > 1.0)
        if not self._certain and may_be_probabilities(table):
            raise InvalidArgument(
                f"'gives' must be given for this model: its one output is between 0 and 1 for all "
                f"{len(table)} records, and may be the probability of class 1 or its logit. Give "
                f"gives=Outputs.PROBABILITIES where it ends in a sigmoid, and gives=Outputs.LOGITS where it "
                f"does not."
            )
        if self._given is Outputs.LOGITS and self._detected is Outputs.PROBABILITIES and table.shape[1] == 1:
            raise InvalidArgument(
                "'gives' must be what the model gives, got LOGITS for one output that is a probability: its "
                "last operation is a sigmoid or a softmax. Give gives=Outputs.PROBABILITIES, or better, "
                "leave it off the module."
            )
        if self.gives is Outputs.PROBABILITIES:
            return log_confidences_of_probabilities(table, "Give gives=Outputs.LOGITS if these are logits.")
        return log_confidences_of_logits(
            table, "Give gives=Outputs.PROBABILITIES, or better, leave the last softmax off the module."
        )

    def outputs(self, inputs: Any) -> Numbers:  # noqa: ANN401 - rows, or several inputs
        """What the module gives, rows × outputs, as it is."""
        rows = inputs if isinstance(inputs, np.ndarray) else gather_inputs(inputs)
        with evaluating(self.module), torch.no_grad():
            return np.concatenate([self._query(part) for part in batches(rows, self.batch)])

    def gradient_norms(self, inputs: Rows, labels: Labels) -> Numbers:
        names = [name for group in self._groups.values() for name in group]
        norms = [
            torch.stack([_norm([g[name] for name in group]) for group in self._groups.values()], dim=1)
            for g in self._per_example(inputs, labels, names)
        ]
        return _numbers(torch.cat(norms))

    def gradients(self, inputs: Rows, labels: Labels, layer: str) -> Numbers:
        group = self._groups[self._check_layer(layer)]
        gradients = [
            torch.cat([g[name].flatten(1) for name in group], dim=1)
            for g in self._per_example(inputs, labels, group)
        ]
        return _numbers(torch.cat(gradients))

    def activations(self, inputs: Rows, layer: str) -> Numbers:
        name = self._check_layer(layer)
        part = self.module if name == _ROOT else self.module.get_submodule(name)
        outputs: list[Tensor] = []

        def save(_part: nn.Module, _inputs: object, output: object) -> None:
            first = output[0] if isinstance(output, tuple) else output
            if isinstance(first, Tensor):
                outputs.append(first.detach())

        activations = []
        hook = part.register_forward_hook(save)
        try:
            with evaluating(self.module), torch.no_grad():
                for rows in batches(inputs, self.batch):
                    outputs.clear()
                    query_module(self.module, self._rows(rows))
                    activations.append(self._one_row_each(outputs, len(rows), layer))
        finally:
            hook.remove()
        return _numbers(torch.cat(activations))

    def input_gradients(self, inputs: Rows, labels: Labels) -> tuple[Numbers, Numbers]:
        self._examine(inputs)
        values, gradients = [], []
        with evaluating(self.module), torch.enable_grad():
            for start in range(0, len(inputs), self.batch):
                rows = self._rows(inputs[start : start + self.batch])
                if not isinstance(rows, Tensor) or not rows.is_floating_point():
                    raise InvalidArgument(
                        "'model' must take numbers that can be changed a little, got one that takes indices "
                        "or several inputs. Attack the embedding of the input instead."
                    )
                rows = rows.detach().requires_grad_()
                targets = torch.as_tensor(labels[start : start + self.batch], device=self._device)
                output = _two_axes(query_module(self.module, rows), len(rows))
                losses = row_losses(output, targets, self.gives)
                gradient = None
                if losses.requires_grad:
                    (gradient,) = torch.autograd.grad(losses.sum(), rows, allow_unused=True)
                if gradient is None:
                    raise InvalidArgument(
                        "'model' must be differentiable in its input, got an output without a gradient. "
                        "Leave out rounding, argmax, detach and other steps that have none, or take an "
                        "attack that sees confidences alone."
                    )
                values.append(-losses)
                gradients.append(-gradient)
        return _numbers(torch.cat(values)), _numbers(torch.cat(gradients))

    def _examine(self, inputs: Rows) -> None:
        """Find out once what the module gives, where its layers do not show it."""
        if self._examined:
            return
        self._detected = self._detected or last_operation_gives(self.module, self._rows(inputs[:2]))
        self.gives = self._given or self._detected or Outputs.LOGITS
        self._certain |= self._given is not None or self._detected is not None
        self._examined = True

    def _check_layer(self, layer: str) -> str:
        if layer not in self._groups:
            raise InvalidArgument(
                f"'layer' must be one of the module's layers, got {layer!r}. Take one of "
                f"{', '.join(self.layers)}."
            )
        return layer

    def _rows(self, rows: Rows) -> ModelInputs:
        return to_model_inputs(self.module, rows, self._device)

    def _query(self, rows: Rows) -> Numbers:
        return _numbers(_two_axes(query_module(self.module, self._rows(rows)), len(rows)))

    @staticmethod
    def _one_row_each(outputs: list[Tensor], rows: int, layer: str) -> Tensor:
        if not outputs or any(len(part) != rows for part in outputs):
            raise InvalidArgument(
                f"'layer' must give one row for each record, and {layer!r} does not. Take another layer."
            )
        return torch.cat([part.reshape(rows, -1) for part in outputs], dim=1)

    def _loss(self, output: object, label: Tensor) -> Tensor:
        """The cross-entropy of one record."""
        return row_losses(_two_axes(output, 1), label.reshape(1), self.gives).squeeze(0)

    def _per_example(self, inputs: Rows, labels: Labels, names: list[str]) -> Iterator[dict[str, Tensor]]:
        """Per-example gradients of some parameters, one batch of records at a time."""
        self._examine(inputs)
        everything = {
            name: value.detach()
            for name, value in [*self.module.named_parameters(), *self.module.named_buffers()]
        }
        chosen = {name: everything[name] for name in names}
        fixed = {name: value for name, value in everything.items() if name not in chosen}
        size = sum(value.numel() for value in chosen.values())
        step = max(1, min(self.batch, _GRADIENT_NUMBERS // max(1, size)))

        def loss(weights: dict[str, Tensor], row: ModelInputs, label: Tensor) -> Tensor:
            one = map_inputs(lambda part: part.unsqueeze(0), row)
            output = _call_with(self.module, {**fixed, **weights}, one)
            return self._loss(output, label)

        single = grad(loss)
        vectorised: Callable[..., dict[str, Tensor]] = vmap(single, in_dims=(None, 0, 0))
        with evaluating(self.module):
            for start in range(0, len(inputs), step):
                rows = self._rows(inputs[start : start + step])
                targets = torch.as_tensor(labels[start : start + step], device=self._device)
                if vectorised is not single:
                    try:
                        with warnings.catch_warnings():  # about layers that are slower, not wrong
                            warnings.filterwarnings("ignore", message="There is a performance drop")
                            gradients = vectorised(chosen, rows, targets)
                        yield gradients
                        continue
                    except (RuntimeError, NotImplementedError):
                        vectorised = (
                            single  # a layer that cannot be vectorised: one record at a time from here on
                        )
                per_record = [
                    single(chosen, map_inputs(lambda part, at=at: part[at], rows), target)  # type: ignore[misc]
                    for at, target in enumerate(targets)
                ]
                yield {name: torch.stack([g[name] for g in per_record]) for name in names}


def _call_with(module: nn.Module, weights: dict[str, Tensor], inputs: ModelInputs) -> object:
    """The module with other weights."""
    if isinstance(inputs, Tensor):
        return functional_call(module, weights, (inputs,))
    if are_positional(tuple(inputs)):
        return functional_call(module, weights, tuple(inputs.values()))
    return functional_call(module, weights, (), inputs)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards each part has its own mode again."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode


def _groups(module: nn.Module) -> dict[str, list[str]]:
    """The parameters of each layer that has some.

    A shared parameter belongs to the first layer that has it.
    """
    groups: dict[str, list[str]] = {}
    for name, parameter in module.named_parameters():
        if parameter.is_floating_point():
            owner, _, _ = name.rpartition(".")
            groups.setdefault(owner or _ROOT, []).append(name)
    return groups


def _two_axes(output: object, rows: int) -> Tensor:
    output = bare_outputs(output)
    if isinstance(output, Tensor) and output.ndim < 2 and output.numel() == rows:
        return output.reshape(rows, 1)  # also one row whose axes were squeezed away
    if not isinstance(output, Tensor) or output.ndim != 2 or len(output) != rows or output.shape[1] == 0:
        got = (
            f"a tensor of shape {tuple(output.shape)}"
            if isinstance(output, Tensor)
            else type(output).__name__
        )
        raise InvalidArgument(
            f"'model' must give rows × classes for {rows} rows, got {got}. "
            f"Wrap it in a module that gives the logits of each record."
        )
    return output


def _norm(parts: list[Tensor]) -> Tensor:
    return (
        torch.stack([part.flatten(1).cpu().double().square().sum(dim=1) for part in parts]).sum(dim=0).sqrt()
    )


def _numbers(tensor: Tensor) -> Numbers:
    answer: Numbers = tensor.detach().cpu().double().numpy()
    return answer
