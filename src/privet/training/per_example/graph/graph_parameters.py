"""Parameters that are used outside of a tapped layer, followed through the graph of the forward pass.

A bare ``nn.Parameter`` (a scale, a class token, a matrix of ``F.linear`` or of attention) meets the examples
at some node of the graph: a sum, a product, an expansion, a matrix product. So does a layer's output without
a batch axis (position embeddings, the same for all examples). At that node's output the gradient still has
the examples apart, so the per-example gradient follows from it. Every consumer of the parameter is examined.
If one of them is of an unknown kind, brute force handles the parameter.

The tree of consumers is learnt with the plan (``batch_axis``), from the graphs of two and of three examples.
It is compared node by node in every step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from privet.torch_internals import get_leaf, get_output_shape, read_saved
from privet.training.per_example.forms.gradient_form import DenseForm, GradientForm, OutputGradient
from privet.training.per_example.forms.linear_form import LinearForm
from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.taps.tape import BatchAxis

__all__ = ["BatchBoundary", "Consumer", "ConsumerGraph", "find_boundaries", "learn_consumers"]

_SAME_NUMBERS = frozenset(
    {
        "ViewBackward0",
        "UnsafeViewBackward0",
        "ReshapeAliasBackward0",
        "UnsqueezeBackward0",
        "SqueezeBackward0",
    }
    | {"SqueezeBackward1", "SqueezeBackward2", "AliasBackward0", "CloneBackward0"}
)
_BROADCAST = frozenset({"AddBackward0", "SubBackward0", "MulBackward0", "ExpandBackward0"})
_SPLITS = frozenset({"SplitBackward0", "SplitWithSizesBackward0"})
_PARTS = _SPLITS | {"SliceBackward0"}
_MATRIX = {"AddmmBackward0": 2, "MmBackward0": 1}

Shape = tuple[int, ...]
BackwardStep = tuple[str, Node, Shape, int]
"""An operation between parameter and boundary: its name, its node, the shape of its input, its output."""


@final
@dataclass(frozen=True, slots=True)
class Consumer:
    """An operation on the parameter: where it meets the examples, or the consumers of its output."""

    name: str
    position: int
    output: int
    axis: BatchAxis | None
    consumers: tuple["Consumer", ...]


@final
class ConsumerGraph:
    """The consumers of every node between the losses and the parameters."""

    __slots__ = ("_consumers", "leaves")

    def __init__(self, walk: GraphWalk) -> None:
        self._consumers: dict[Node, list[tuple[Node, int, int]]] = {}
        self.leaves: dict[int, Node] = {}
        for node, sources in zip(walk.nodes, walk.sources, strict=True):
            for position, (child, output) in enumerate(sources):
                if child is not None:
                    self._consumers.setdefault(child, []).append((node, position, output))
            if not sources and (leaf := get_leaf(node)) is not None:
                self.leaves[id(leaf)] = node

    def consumers(self, node: Node, output: int) -> list[tuple[Node, int]]:
        """The nodes that take this output of the node, each with the position among its inputs."""
        return [(n, p) for n, p, o in self._consumers.get(node, []) if o == output]

    def outputs(self, node: Node) -> range:
        """The outputs of a node that are consumed at all."""
        return range(1 + max((o for _, _, o in self._consumers.get(node, [])), default=-1))


def learn_consumers(
    graphs: tuple[ConsumerGraph, ConsumerGraph],
    nodes: tuple[Node, Node],
    output: int,
    find_axis: Callable[[Shape, Shape], BatchAxis | None],
) -> tuple[Consumer, ...] | None:
    """The tree of consumers, from the graphs of two and of three examples; None if a kind is unknown."""
    two, three = (g.consumers(n, output) for g, n in zip(graphs, nodes, strict=True))
    if len(two) != len(three):
        return None
    consumers: list[Consumer] = []
    for (a, position), (b, other) in zip(two, three, strict=True):
        name = a.name()
        if name != b.name() or position != other or not _is_known(a, name, position):
            return None
        parts = graphs[1].outputs(b) if name in _SPLITS else range(1)
        for part in parts:
            small, large = get_output_shape(a, part), get_output_shape(b, part)
            if small != large:
                axis = find_axis(small, large)
                if axis is None or name in _SAME_NUMBERS or name in _PARTS or name == "TBackward0":
                    return None
                consumers.append(Consumer(name, position, part, axis, ()))
                continue
            if name in _MATRIX:
                return None
            deeper = learn_consumers(graphs, (a, b), part, find_axis)
            if deeper is None:
                return None
            consumers.append(Consumer(name, position, part, None, deeper))
    return tuple(consumers)


def _is_known(node: Node, name: str, position: int) -> bool:
    if name in _SAME_NUMBERS or name in _PARTS or name == "TBackward0":
        return True
    if name in ("AddBackward0", "SubBackward0"):
        return bool(read_saved(node, "alpha") == 1)
    if name == "AddmmBackward0":
        return bool(read_saved(node, "alpha") == 1 and read_saved(node, "beta") == 1) and position != 1
    return name in _BROADCAST or _MATRIX.get(name) == position


@final
@dataclass(slots=True)
class BatchBoundary:
    """An edge where the gradient of a parameter has the examples apart, and the way back from there."""

    edge: GradientEdge
    axis: BatchAxis
    leading: Shape
    shape: Shape  # of the input that comes from the parameter
    factor: Tensor | None  # the other factor of a product, or the rows that a matrix multiplies
    is_matrix: bool
    is_negative: bool
    steps: tuple[BackwardStep, ...]  # from the parameter to the boundary

    def build_form(self, gradient: Tensor, batch: int, shape: torch.Size) -> GradientForm:
        """The gradient of the parameter, from the gradient at this boundary."""
        if not self.is_matrix:
            return DenseForm(self.rows(gradient, batch).reshape(batch, *shape))
        assert self.factor is not None
        left = self.axis.split_rows(self.factor, 1, batch)
        right = self.axis.split_rows(gradient, 1, batch)
        return _build_matrix_form(left, right, self.steps, shape)

    def rows(self, gradient: Tensor, batch: int) -> Tensor:
        """The written-out gradient, [examples, *shape of the parameter]."""
        own = self.shape
        if self.factor is not None:
            gradient = gradient * self.factor
        each, dim = self.axis.each, self.axis.dim
        # The parameter is aligned with the last sizes. It is broadcast along the batch axis.
        broadcast = [1] * (len(self.leading) - len(own)) + list(own)
        del broadcast[dim]
        if each == 1:
            moved = gradient.movedim(dim, 0)
        else:
            first = BatchAxis(0, each, self.axis.outer)
            moved = first.split_rows(gradient.movedim(dim, 0), 1, batch).sum(1)
        value = moved.sum_to_size(batch, *broadcast).reshape(batch, *own)
        if self.is_negative:
            value = value.neg()
        for name, node, before, part in reversed(self.steps):
            value = _step_back(name, node, before, part, value)
        return value


def find_boundaries(
    graph: ConsumerGraph,
    node: Node,
    shape: Shape,
    consumers: tuple[Consumer, ...],
    batch: int,
    output: int = 0,
) -> list[BatchBoundary] | None:
    """The boundaries that the consumers name, in the graph of this step; None if the graph differs."""
    boundaries: list[BatchBoundary] = []
    number = 0
    for taker, position in graph.consumers(node, output):
        name = taker.name()
        parts = graph.outputs(taker) if name in _SPLITS else range(1)
        for part in parts:
            if number >= len(consumers):
                return None
            consumer = consumers[number]
            number += 1
            if (consumer.name, consumer.position, consumer.output) != (name, position, part):
                return None
            if not _is_known(taker, name, position):
                return None
            deeper = _follow_consumer(graph, taker, consumer, shape, batch)
            if deeper is None:
                return None
            boundaries += deeper
    return boundaries if number == len(consumers) else None


def _follow_consumer(
    graph: ConsumerGraph, node: Node, consumer: Consumer, shape: Shape, batch: int
) -> list[BatchBoundary] | None:
    name, axis = consumer.name, consumer.axis
    out = get_output_shape(node, consumer.output)
    factor = _find_factor(node, name, consumer.position)
    is_negative = name == "SubBackward0" and consumer.position == 1
    if axis is not None:
        if len(out) <= axis.dim or out[axis.dim] != axis.each * batch:
            return None
        aligned = axis.dim - (len(out) - len(shape))
        is_matrix = _MATRIX.get(name) == consumer.position
        if not is_matrix and aligned >= 0 and shape[aligned] != 1:
            return None
        edge = GradientEdge(node, consumer.output)
        return [BatchBoundary(edge, axis, out, shape, factor, is_matrix, is_negative, ())]
    boundaries = find_boundaries(graph, node, out, consumer.consumers, batch, consumer.output)
    if boundaries is None:
        return None
    if factor is not None or is_negative:
        return None  # a product of parameters before it meets an example: rare, so left to brute force
    step = (name, node, shape, consumer.output)
    for boundary in boundaries:
        boundary.steps = (step, *boundary.steps)
    return boundaries


def _find_factor(node: Node, name: str, position: int) -> Tensor | None:
    """The tensor that multiplies the parameter in this node."""
    factor: Tensor | None = None
    if name == "MulBackward0":
        factor = read_saved(node, "self" if position == 1 else "other")
    elif name == "AddmmBackward0" and position == 2:
        factor = read_saved(node, "mat1")
    elif name == "MmBackward0":
        factor = read_saved(node, "self")
    return None if factor is None else factor.detach()


def _step_back(name: str, node: Node, before: Shape, part: int, value: Tensor) -> Tensor:
    """One step back towards the parameter: from [examples, *after] to [examples, *before]."""
    batch = value.shape[0]
    if name == "TBackward0":
        return value.transpose(1, -1)
    if name in _PARTS:
        dim, start, stop, step = _find_extent(name, node, before, part)
        whole = value.new_zeros(batch, *before)
        index = [slice(None)] * (1 + dim) + [slice(start, stop, step)]
        whole[tuple(index)] = value
        return whole
    if name in _BROADCAST:
        padded = [1] * (value.dim() - 1 - len(before)) + list(before)
        return value.sum_to_size(batch, *padded).reshape(batch, *before)
    return value.reshape(batch, *before)


def _find_extent(name: str, node: Node, before: Shape, part: int) -> tuple[int, int, int, int]:
    """The part of a tensor that a slice or a split takes: dimension, start, stop, step."""
    dim = int(read_saved(node, "dim"))
    dim = dim - (1 << 64) if dim >= 1 << 63 else dim
    dim %= len(before)
    if name == "SplitBackward0":
        width = int(read_saved(node, "split_size"))
        return dim, part * width, min((part + 1) * width, before[dim]), 1
    if name == "SplitWithSizesBackward0":
        widths = [int(n) for n in read_saved(node, "split_sizes")]
        return dim, sum(widths[:part]), sum(widths[: part + 1]), 1
    extent = slice(read_saved(node, "start"), read_saved(node, "end"), read_saved(node, "step"))
    start, stop, step = extent.indices(before[dim])
    return dim, start, stop, step


def _build_matrix_form(
    left: Tensor, right: Tensor, steps: tuple[BackwardStep, ...], shape: torch.Size
) -> GradientForm:
    """The gradient leftᵀ·right of a matrix, taken back through transpositions and slices."""
    for number in range(len(steps) - 1, -1, -1):
        name, node, before, part = steps[number]
        if name == "TBackward0":
            left, right = right, left
        elif name in _PARTS and len(before) == 2:
            dim, start, stop, step = _find_extent(name, node, before, part)
            chosen = (left, right)[dim]
            whole = chosen.new_zeros(*chosen.shape[:2], before[dim])
            whole[:, :, start:stop:step] = chosen
            left, right = (whole, right) if dim == 0 else (left, whole)
        else:  # the other steps need the written-out gradient
            dense = torch.bmm(left.transpose(1, 2), right)
            for name, node, before, part in reversed(steps[: number + 1]):
                dense = _step_back(name, node, before, part, dense)
            return DenseForm(dense.reshape(dense.shape[0], *shape))
    return LinearForm(right, OutputGradient(left, own=False), shape)
