"""Taps: while a lot runs, known layers compute with detached parameters and record what they saw.

The tapped forward of a layer is the layer's own function with parameters that are detached from the graph. So
the backward pass spends no work on their gradients. If a parameter of the model gets a gradient all the same,
it was used outside of a tapped layer too. In this way every step finds the parameters that taps alone must
not handle, at no cost.

The gradient is taken at the *edge* of the output in the graph. So it does not matter whether the model
changes the output in place afterwards (``nn.ReLU(inplace=True)``).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from privet.errors import InvalidArgument
from privet.torch_internals import get_parameters, get_version
from privet.training.per_example.forms.gradient_form import GradientForm, OutputGradient
from privet.training.per_example.scratch import Scratch

__all__ = ["BatchAxis", "InstalledTaps", "LayerCall", "RowOwners", "Tap", "Tape", "has_plain_parameters"]


@final
@dataclass(frozen=True, slots=True)
class BatchAxis:
    """Where the examples are among the leading sizes of an output: ``each`` rows per example along ``dim``.

    The rows along ``dim`` are [outer, examples, each/outer]. With ``outer`` = 1 the rows of an example are
    adjacent. With ``outer`` = ``each`` the first row of every example comes before the second row of any.
    """

    dim: int
    each: int
    outer: int = 1

    def row_orders(self) -> tuple["BatchAxis", ...]:
        """Every order of the same number of rows along the same dimension."""
        return tuple(BatchAxis(self.dim, self.each, n) for n in range(1, self.each + 1) if not self.each % n)

    def row_owners(self, batch: int, device: torch.device) -> Tensor:
        """The example of each row along the dimension."""
        inner = self.each // self.outer
        return torch.arange(batch, device=device).repeat_interleave(inner).repeat(self.outer)

    def split_rows(self, tensor: Tensor, leading: int, batch: int) -> Tensor:
        """The tensor as [examples, tokens, …]. ``leading`` sizes come before those of the layer."""
        tail = tensor.shape[leading:]
        if not self.dim and self.each == leading == 1:
            return tensor.unsqueeze(1)
        if self.dim:
            tensor = tensor.movedim(self.dim, 0)
        if self.outer > 1:
            inner = self.each // self.outer
            tensor = tensor.reshape(self.outer, batch, inner, *tensor.shape[1:]).transpose(0, 1)
        return tensor.reshape(batch, -1, *tail)


@final
@dataclass(frozen=True, slots=True)
class RowOwners:
    """Rows in any order, with the example of each. As ``BatchAxis`` it splits rows by examples.

    Examples have different numbers of rows. So rows of zeros are added.
    """

    chosen: Tensor  # rows that belong to an example
    places: Tensor  # where they go among those of all examples
    most: int  # rows of an example
    outer: int = 0  # the rows of an example are not adjacent

    @classmethod
    def of(cls, owners: Tensor, batch: int) -> "RowOwners":
        """From the example of each row; −1 for rows that belong to nobody."""
        chosen = (owners >= 0).nonzero().squeeze(1)
        owners = owners[chosen]
        order = owners.argsort(stable=True)
        counts = torch.bincount(owners, minlength=batch)
        starts = counts.cumsum(0) - counts
        rank = torch.empty_like(owners)
        rank[order] = torch.arange(len(owners), device=owners.device) - starts[owners[order]]
        most = max(1, int(counts.max()))
        return cls(chosen, owners * most + rank, most)

    def split_rows(self, tensor: Tensor, leading: int, batch: int) -> Tensor:
        """The tensor as [examples, rows, …]. ``leading`` sizes come before those of the layer."""
        rows = tensor.reshape(-1, *tensor.shape[leading:])
        split = rows.new_zeros(batch * self.most, *rows.shape[1:])
        split[self.places] = rows[self.chosen]
        return split.view(batch, self.most, *rows.shape[1:])


@final
@dataclass(slots=True)
class LayerCall:
    """One call of a tapped layer: its inputs, and the graph edge that gives the gradient of its output.

    ``role`` tells the recorded outputs of one layer apart, if it has several. ``leading`` are the sizes of
    the output before those of the layer itself.
    """

    tap: "Tap"
    role: int
    leading: tuple[int, ...]
    saved: tuple[Tensor, ...]
    versions: tuple[int, ...]
    edge: GradientEdge

    def restore_leading(self, gradient: Tensor) -> Tensor:
        """The output gradient with all leading sizes. Some taps flatten these into one."""
        if gradient.shape[: len(self.leading)] == self.leading:
            return gradient
        return gradient.view(*self.leading, *gradient.shape[1:])

    def require_unchanged_inputs(self) -> None:
        """Refuse saved inputs that were overwritten in the meantime, as autograd does."""
        for tensor, version in zip(self.saved, self.versions, strict=True):
            if get_version(tensor) != version:
                raise InvalidArgument(
                    "'model' must not overwrite the input of a layer after the layer has used it, got an "
                    "in-place change. Use the operation that returns a new tensor."
                )


@final
class Tape:
    """The layer calls of one forward pass, in order, and the memory that all passes share."""

    __slots__ = ("calls", "recording", "scratch")

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.calls: list[LayerCall] = []
        self.recording = False

    def record(
        self, tap: "Tap", output: Tensor, leading: tuple[int, ...], saved: tuple[Tensor, ...], role: int = 0
    ) -> None:
        """Store one call. Outside of a recorded pass, and under no_grad, nothing is stored."""
        node = output.grad_fn
        if self.recording and node is not None:
            versions = tuple([get_version(t) for t in saved])
            edge = GradientEdge(node, output.output_nr)
            self.calls.append(LayerCall(tap, role, leading, saved, versions, edge))


class Tap(ABC):
    """A layer of a known type: its function with detached parameters, and its gradient forms."""

    __slots__ = ("indices", "module", "number", "tape")

    takes_shared_rows = False
    """Whether the gradients can also be computed where all examples share the same input rows."""

    is_linear = False
    """Whether the parameters are the weight and the bias of one matrix product."""

    def __init__(self, module: nn.Module, number: int, indices: dict[str, int], tape: Tape) -> None:
        self.module = module
        self.number = number
        self.indices = indices  # of the trainable parameters only, by their name in the module
        self.tape = tape

    def relax_memory_format(self, whole: bool) -> bool:
        """Give up a memory format that the model may not accept. Returns whether there was one.

        Unless ``whole``, only the output returns to the default format.
        """
        return False

    @staticmethod
    @abstractmethod
    def supports(module: nn.Module) -> bool:
        """Whether the tap covers all options of this module, whose type is known."""

    @abstractmethod
    def forward(self, *args: Tensor) -> Tensor:
        """Compute what the module computes, with detached parameters, and record the call on the tape."""

    @abstractmethod
    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        """The gradient form of each trainable parameter, by its index.

        ``gradient`` and ``saved`` have the shape [examples, tokens, …].
        """

    def gradient_rows(
        self, call: LayerCall, gradient: Tensor, axis: BatchAxis | RowOwners, batch: int
    ) -> Tensor:
        """The output gradient as [examples, tokens, …]."""
        return axis.split_rows(call.restore_leading(gradient), len(call.leading), batch)

    def saved_rows(self, call: LayerCall, axis: BatchAxis | RowOwners, batch: int) -> tuple[Tensor, ...]:
        """The saved inputs as [examples, tokens, …]."""
        return tuple(axis.split_rows(t, len(call.leading), batch) for t in call.saved)

    def detach_parameter(self, name: str) -> Tensor | None:
        """A parameter that is detached from the graph: a new leaf on the same memory.

        It requires a gradient, so that the output is part of a graph even if the input is not. This costs
        nothing, because the backward pass is only asked for the edges.
        """
        parameter = get_parameters(self.module)[name]
        return None if parameter is None else parameter.detach().requires_grad_()


@final
class InstalledTaps:
    """A context in which the taps replace the forward functions of their layers."""

    __slots__ = ("_taps",)

    def __init__(self, taps: list[Tap]) -> None:
        self._taps = taps

    def __enter__(self) -> None:
        for tap in self._taps:
            tap.module.__dict__["forward"] = tap.forward

    def __exit__(self, *_: object) -> None:
        for tap in self._taps:
            tap.module.__dict__.pop("forward", None)


def has_plain_parameters(module: nn.Module, names: tuple[str, ...]) -> bool:
    """Whether the module has exactly these parameters, and none is replaced by a hook or parametrisation."""
    own = get_parameters(module)
    return set(own) == set(names) and all(p is None or type(p) is nn.Parameter for p in own.values())
