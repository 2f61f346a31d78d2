"""Parameters that are used outside of a tapped layer, followed through the graph of the forward pass.

A bare ``nn.Parameter`` (a scale, a class token, a matrix of ``F.linear`` or of attention) and an output that has
no examples (position numbers, the same for all) meet the examples at some node of the graph: a sum, a product, an
expansion, a matrix product. At that node's output the gradient still has the examples apart, so the
per-example gradient follows from it. Every consumer of the parameter is looked at; if one of them is of
a kind that is not known here, the parameter goes to brute force.

The tree of consumers is learnt with the plan (``plans``), where sizes and a gradient show the place of the
examples, and is compared node by node in every step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from privet.training.per_example.forms.linear_form import Outer
from privet.training.per_example.forms.products import Direct, Gradient, Product
from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.taps.tape import Placement

__all__ = ["Branch", "Graph", "Reach", "follow", "learn"]

Back = Callable[[Tensor], Tensor]

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


@final
@dataclass(frozen=True, slots=True)
class Branch:
    """One consumer: where it meets the examples, or what consumes its own output."""

    name: str
    position: int
    output: int
    place: Placement | None
    then: tuple["Branch", ...]


@final
class Graph:
    """The consumers of every node between the losses and the parameters."""

    __slots__ = ("_consumers", "leaves")

    def __init__(self, seen: GraphWalk) -> None:
        self._consumers: dict[Node, list[tuple[Node, int, int]]] = {}
        self.leaves: dict[int, Node] = {}
        for node, sources in zip(seen.nodes, seen.sources, strict=True):
            for position, (child, output) in enumerate(sources):
                if child is not None:
                    self._consumers.setdefault(child, []).append((node, position, output))
            if not sources and node.name() == "torch::autograd::AccumulateGrad":
                self.leaves[id(node.variable)] = node  # type: ignore[attr-defined]

    def consumers(self, node: Node, output: int) -> list[tuple[Node, int]]:
        """Who takes this output of the node, and at which of its own inputs."""
        return [(n, p) for n, p, o in self._consumers.get(node, []) if o == output]

    def outputs(self, node: Node) -> range:
        """The outputs of a node that are consumed at all."""
        return range(1 + max((o for _, _, o in self._consumers.get(node, [])), default=-1))


def sizes(node: Node, output: int = 0) -> tuple[int, ...]:
    """The shape of a node's output."""
    known: Any = node
    return tuple(int(n) for n in known._input_metadata[output].shape)


def learn(
    graphs: tuple[Graph, Graph],
    nodes: tuple[Node, Node],
    output: int,
    place: Callable[[tuple[int, ...], tuple[int, ...]], Placement | None],
) -> tuple[Branch, ...] | None:
    """The tree of consumers, from the graphs of two and of three examples; None where one is unknown."""
    two, three = (g.consumers(n, output) for g, n in zip(graphs, nodes, strict=True))
    if len(two) != len(three):
        return None
    branches: list[Branch] = []
    for (a, position), (b, other) in zip(two, three, strict=True):
        name = a.name()
        if name != b.name() or position != other or not _known(a, name, position):
            return None
        parts = graphs[1].outputs(b) if name in _SPLITS else range(1)
        for part in parts:
            small, large = sizes(a, part), sizes(b, part)
            if small != large:
                found = place(small, large)
                if found is None or name in _SAME_NUMBERS or name in _PARTS or name == "TBackward0":
                    return None
                branches.append(Branch(name, position, part, found, ()))
                continue
            if name in _MATRIX:
                return None
            then = learn(graphs, (a, b), part, place)
            if then is None:
                return None
            branches.append(Branch(name, position, part, None, then))
    return tuple(branches)


def _known(node: Node, name: str, position: int) -> bool:
    saved: Any = node
    if name in _SAME_NUMBERS or name in _PARTS or name == "TBackward0":
        return True
    if name in ("AddBackward0", "SubBackward0"):
        return bool(saved._saved_alpha == 1)
    if name == "AddmmBackward0":
        return bool(saved._saved_alpha == 1 and saved._saved_beta == 1) and position != 1
    return name in _BROADCAST or _MATRIX.get(name) == position


@final
@dataclass(slots=True)
class Reach:
    """A place in the graph where the gradient of a stray has the examples apart, and the way back from there."""

    edge: GradientEdge
    place: Placement
    leading: tuple[int, ...]
    shape: tuple[int, ...]  # of what enters there
    factor: Tensor | None  # the other factor of a product, or the rows that a matrix multiplies
    matrix: bool
    negative: bool
    backs: tuple[tuple[str, Any, tuple[int, ...], int], ...]  # from the parameter outwards

    def product(self, gradient: Tensor, batch: int, shape: torch.Size) -> Product:
        """The gradient of the parameter, from the gradient at this place."""
        if not self.matrix:
            return Direct(self.rows(gradient, batch).reshape(batch, *shape))
        assert self.factor is not None
        left = self.place.rows(self.factor, 1, batch)
        right = self.place.rows(gradient, 1, batch)
        return _matrix_product(left, right, self.backs, shape)

    def rows(self, gradient: Tensor, batch: int) -> Tensor:
        """[examples, *shape of the stray], written out."""
        own = self.shape
        if self.factor is not None:
            gradient = gradient * self.factor
        each, axis = self.place.each, self.place.axis
        # The stray lines up with the last sizes; along the examples' size it is repeated.
        wide = [1] * (len(self.leading) - len(own)) + list(own)
        del wide[axis]
        if each == 1:
            moved = gradient.movedim(axis, 0)
        else:
            moved = Placement(0, each, self.place.outer).rows(gradient.movedim(axis, 0), 1, batch).sum(1)
        value = moved.sum_to_size(batch, *wide).reshape(batch, *own)
        if self.negative:
            value = value.neg()
        for name, node, before, part in reversed(self.backs):
            value = _back(name, node, before, part, value)
        return value


def follow(
    graph: Graph, node: Node, shape: tuple[int, ...], tree: tuple[Branch, ...], batch: int, output: int = 0
) -> list[Reach] | None:
    """The places that the tree names, in the graph of this step; None where the graph is another."""
    found = graph.consumers(node, output)
    reaches: list[Reach] = []
    at = 0
    for consumer, position in found:
        name = consumer.name()
        parts = graph.outputs(consumer) if name in _SPLITS else range(1)
        for part in parts:
            if at >= len(tree):
                return None
            branch = tree[at]
            at += 1
            if (branch.name, branch.position, branch.output) != (name, position, part):
                return None
            if not _known(consumer, name, position):
                return None
            deeper = _deeper(graph, consumer, branch, shape, batch)
            if deeper is None:
                return None
            reaches += deeper
    return reaches if at == len(tree) else None


def _deeper(
    graph: Graph, consumer: Node, branch: Branch, shape: tuple[int, ...], batch: int
) -> list[Reach] | None:
    name, known = branch.name, consumer
    out = sizes(consumer, branch.output)
    factor = _factor(consumer, name, branch.position)
    negative = name == "SubBackward0" and branch.position == 1
    if branch.place is not None:
        if len(out) <= branch.place.axis or out[branch.place.axis] != branch.place.each * batch:
            return None
        aligned = branch.place.axis - (len(out) - len(shape))
        matrix = _MATRIX.get(name) == branch.position
        if not matrix and aligned >= 0 and shape[aligned] != 1:
            return None
        edge = GradientEdge(consumer, branch.output)
        return [Reach(edge, branch.place, out, shape, factor, matrix, negative, ())]
    then = follow(graph, known, out, branch.then, batch, branch.output)
    if then is None:
        return None
    if factor is not None or negative:
        return None  # a product of parameters before it meets an example: rare, and left to brute force
    step = (name, consumer, shape, branch.output)
    for reach in then:
        reach.backs = (step, *reach.backs)
    return then


def _factor(node: Node, name: str, position: int) -> Tensor | None:
    """The tensor that multiplies the stray in this node."""
    saved: Any = node
    found: Tensor | None = None
    if name == "MulBackward0":
        found = saved._saved_self if position == 1 else saved._saved_other
    elif name == "AddmmBackward0" and position == 2:
        found = saved._saved_mat1
    elif name == "MmBackward0":
        found = saved._saved_self
    return None if found is None else found.detach()


def _back(name: str, node: Node, before: tuple[int, ...], part: int, value: Tensor) -> Tensor:
    """One step back towards the parameter: [examples, *after] to [examples, *before]."""
    batch = value.shape[0]
    if name == "TBackward0":
        return value.transpose(1, -1)
    if name in _PARTS:
        dim, start, stop, step = _extent(name, node, before, part)
        wide = value.new_zeros(batch, *before)
        index = [slice(None)] * (1 + dim) + [slice(start, stop, step)]
        wide[tuple(index)] = value
        return wide
    if name in _BROADCAST:
        padded = [1] * (value.dim() - 1 - len(before)) + list(before)
        return value.sum_to_size(batch, *padded).reshape(batch, *before)
    return value.reshape(batch, *before)


def _extent(name: str, node: Node, before: tuple[int, ...], part: int) -> tuple[int, int, int, int]:
    """Which part of the larger tensor a slice or a split takes: size, start, stop, step."""
    saved: Any = node
    dim = int(saved._saved_dim)
    dim = dim - (1 << 64) if dim >= 1 << 63 else dim
    dim %= len(before)
    if name == "SplitBackward0":
        width = int(saved._saved_split_size)
        return dim, part * width, min((part + 1) * width, before[dim]), 1
    if name == "SplitWithSizesBackward0":
        widths = [int(n) for n in saved._saved_split_sizes]
        return dim, sum(widths[:part]), sum(widths[: part + 1]), 1
    start, stop, step = slice(saved._saved_start, saved._saved_end, saved._saved_step).indices(before[dim])
    return dim, start, stop, step


def _matrix_product(left: Tensor, right: Tensor, backs: tuple[Any, ...], shape: torch.Size) -> Product:
    """The gradient leftᵀ·right of a matrix, taken back through transpositions and parts of larger matrices."""
    own = False
    for name, node, before, part in reversed(backs):
        if name == "TBackward0":
            left, right = right, left
        elif name in _PARTS and len(before) == 2:
            dim, start, stop, step = _extent(name, node, before, part)
            chosen = (left, right)[dim]
            wide = chosen.new_zeros(*chosen.shape[:2], before[dim])
            wide[:, :, start:stop:step] = chosen
            left, right = (wide, right) if dim == 0 else (left, wide)
        else:
            dense = torch.bmm(left.transpose(1, 2), right)
            return Direct(_rest(dense, backs, name, node).reshape(dense.shape[0], *shape))
    return Outer(right, Gradient(left, own), shape)


def _rest(dense: Tensor, backs: tuple[Any, ...], name: str, node: Node) -> Tensor:
    """What is left of the way back, with the gradient written out."""
    passed = next(i for i, b in enumerate(backs) if b[0] == name and b[1] is node)
    for step, at, before, part in reversed(backs[: passed + 1]):
        dense = _back(step, at, before, part, dense)
    return dense
