"""Taps: while the engine runs, known layers compute with detached parameters and note what they saw.

The tapped forward of a layer is the layer's own function, with parameters that are cut from the graph. So the
backward pass spends no work on their gradients, and a parameter of the model that gets a gradient all the
same was used in some other way too. That is how the engine knows which parameters it must not handle by
taps alone; the test is made in every step and costs nothing.

The gradient is asked for at the *edge* of the output in the graph, so what the model does to the output
in place afterwards (``nn.ReLU(inplace=True)``) does not matter.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from privet.errors import InvalidArgument
from privet.training.per_example.forms.products import Gradient, Product
from privet.training.per_example.scratch import Scratch

__all__ = ["Placement", "Tap", "Tape", "Use", "tapped"]


@final
@dataclass(frozen=True, slots=True)
class Placement:
    """Where the examples are among the leading sizes of a tapped output: ``each`` rows apiece along ``axis``.

    The rows along the axis are [outer, examples, each/outer]. So with ``outer`` = 1 the rows of an example lie together,
    and with ``outer`` = ``each`` one row of every example comes before the next of any.
    """

    axis: int
    each: int
    outer: int = 1

    def layouts(self) -> tuple["Placement", ...]:
        """Every order of the same number of rows along the same axis."""
        return tuple(Placement(self.axis, self.each, n) for n in range(1, self.each + 1) if not self.each % n)

    def owners(self, batch: int, device: torch.device) -> Tensor:
        """The example of every row along the axis."""
        inner = self.each // self.outer
        return torch.arange(batch, device=device).repeat_interleave(inner).repeat(self.outer)

    def rows(self, tensor: Tensor, leading: int, batch: int) -> Tensor:
        """The tensor as [examples, tokens, …]; ``leading`` sizes come before those of the layer itself."""
        tail = tensor.shape[leading:]
        if not self.axis and self.each == leading == 1:
            return tensor.unsqueeze(1)
        if self.axis:
            tensor = tensor.movedim(self.axis, 0)
        if self.outer > 1:
            inner = self.each // self.outer
            tensor = tensor.reshape(self.outer, batch, inner, *tensor.shape[1:]).transpose(0, 1)
        return tensor.reshape(batch, -1, *tail)


@final
@dataclass(slots=True)
class Use:
    """One call of a tapped layer: what went in, and the edge where the gradient of what came out is."""

    tap: "Tap"
    role: int
    leading: tuple[int, ...]
    saved: tuple[Tensor, ...]
    versions: tuple[int, ...]
    edge: GradientEdge

    def shaped(self, gradient: Tensor) -> Tensor:
        """The output gradient with its leading sizes; some taps have them in one."""
        if gradient.shape[: len(self.leading)] == self.leading:
            return gradient
        return gradient.view(*self.leading, *gradient.shape[1:])

    def check(self) -> None:
        """Refuses saved inputs that were overwritten since, as autograd does."""
        for tensor, version in zip(self.saved, self.versions, strict=True):
            if tensor._version != version:
                raise InvalidArgument(
                    "'model' must not overwrite the input of a layer after the layer has used it, got an in-place "
                    "change. Use the operation that returns a new tensor."
                )


@final
class Tape:
    """The uses of one forward pass, in order, and the memory that all passes share."""

    __slots__ = ("recording", "scratch", "uses")

    def __init__(self) -> None:
        self.scratch = Scratch()
        self.uses: list[Use] = []
        self.recording = False

    def note(
        self, tap: "Tap", output: Tensor, leading: tuple[int, ...], saved: tuple[Tensor, ...], role: int = 0
    ) -> None:
        """Keeps one use; outside of a recorded pass, and under no_grad, nothing is kept."""
        node = output.grad_fn
        if self.recording and node is not None:
            versions = tuple([t._version for t in saved])
            self.uses.append(Use(tap, role, leading, saved, versions, GradientEdge(node, output.output_nr)))


class Tap(ABC):
    """A layer of a known type: its function with detached parameters, and its gradients from what it saw."""

    __slots__ = ("indices", "module", "number", "tape")

    shareable = False
    """Whether the gradients also follow where the same rows went in for all examples."""

    matrix = False
    """Whether the parameters are the weight and the bias of a product with a matrix."""

    def __init__(self, module: nn.Module, number: int, indices: dict[str, int], tape: Tape) -> None:
        self.module = module
        self.number = number
        self.indices = indices  # of the trainable parameters alone, by name within the module
        self.tape = tape

    def relax(self, whole: bool) -> bool:
        """Gives up a layout of memory that the model may not bear; whether there was one to give up.

        Unless ``whole``, only the output goes back to the usual layout.
        """
        return False

    @staticmethod
    @abstractmethod
    def fits(module: nn.Module) -> bool:
        """Whether this module, whose type is known, has no option that the tap does not do."""

    @abstractmethod
    def forward(self, *args: Tensor) -> Tensor:
        """What the module computes, with parameters cut from the graph."""

    @abstractmethod
    def products(
        self, use: Use, gradient: Gradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, Product]]:
        """The gradients of the parameters, from rows [examples, tokens, …] of the output gradient."""

    def gradient_rows(self, use: Use, gradient: Tensor, place: Placement, batch: int) -> Tensor:
        """The output gradient as [examples, tokens, …]."""
        return place.rows(use.shaped(gradient), len(use.leading), batch)

    def saved_rows(self, use: Use, place: Placement, batch: int) -> tuple[Tensor, ...]:
        """The saved inputs as [examples, tokens, …]."""
        return tuple(place.rows(t, len(use.leading), batch) for t in use.saved)

    def cut(self, name: str) -> Tensor | None:
        """A parameter cut from the graph: a leaf of its own on the same memory.

        It asks for a gradient, so that the output is inside of a graph also where the input is not; nothing is
        spent on it, because the backward pass is only asked for the edges.
        """
        parameter = self.module._parameters[name]
        return None if parameter is None else parameter.detach().requires_grad_()


@final
class tapped:  # noqa: N801
    """The taps in place of the layers' own forward; always taken off again."""

    __slots__ = ("_taps",)

    def __init__(self, taps: list[Tap]) -> None:
        self._taps = taps

    def __enter__(self) -> None:
        for tap in self._taps:
            tap.module.__dict__["forward"] = tap.forward

    def __exit__(self, *_: object) -> None:
        for tap in self._taps:
            tap.module.__dict__.pop("forward", None)


def plain_parameters(module: nn.Module, names: tuple[str, ...]) -> bool:
    """Whether the module has these parameters and no others: none re-made by a hook, none parametrised."""
    own = module._parameters
    return set(own) == set(names) and all(p is None or type(p) is nn.Parameter for p in own.values())
