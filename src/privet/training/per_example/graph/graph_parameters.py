"""Parameters that are used outside of a tapped layer, followed through the graph of the forward pass.

A bare ``nn.Parameter`` (a scale, a class token, a matrix of ``F.linear`` or of attention) meets the examples
at some node of the graph: a sum, a product, an expansion, a matrix product, a normalisation. So does the
output of a layer without a batch axis (position embeddings, the same for all examples). At that node's output
the gradient still has the examples apart, so the per-example gradient follows from it (``parameter_uses``),
and then goes back through what was done to the parameter before (``shared_steps``, ``shared_parts``).

This is exact whatever the operations in between are, under two conditions. Every path from the parameter to a
loss goes through one of these nodes: all consumers are examined, and if one of them is of an unknown kind,
brute force handles the parameter. And the rows of the gradient at these nodes belong to single examples: this
is proved (``proofs``).

The tree of consumers is learnt with the plan (``batch_axis``), from the graphs of two and of three examples.
It is compared node by node in every step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from torch.autograd.graph import Node

from privet.torch_internals import get_leaf, get_output_shape
from privet.training.per_example.graph.boundaries import BatchBoundary, StepBack
from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.graph.parameter_uses import read_use
from privet.training.per_example.graph.shared_steps import Shape, is_known_step, is_split
from privet.training.per_example.taps.tape import BatchAxis

__all__ = ["Consumer", "ConsumerGraph", "find_boundaries", "learn_consumers"]


@final
@dataclass(frozen=True, slots=True)
class Consumer:
    """An operation on the parameter: where it meets the examples, or the consumers of its output."""

    name: str
    position: int
    output: int
    axis: BatchAxis | None
    consumers: tuple["Consumer", ...]


Seen = set[tuple[Node, int]]
"""Outputs that were reached before, where paths need not be told apart."""


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

    def parts(self, node: Node, name: str, any_step: bool) -> range:
        """The outputs to follow. Only splits have several, unless any operation may be on the way."""
        return self.outputs(node) if any_step or is_split(name) else range(1)


def learn_consumers(
    graphs: tuple[ConsumerGraph, ConsumerGraph],
    nodes: tuple[Node, Node],
    output: int,
    find_axis: Callable[[Shape, Shape], BatchAxis | None],
    seen: Seen | None = None,
) -> tuple[Consumer, ...] | None:
    """The tree of consumers, from the graphs of two and of three examples; None if a kind is unknown.

    With ``seen``, operations of any kind may be on the way to the examples, and each is followed once.
    """
    two, three = (g.consumers(n, output) for g, n in zip(graphs, nodes, strict=True))
    if len(two) != len(three):
        return None
    consumers: list[Consumer] = []
    before = get_output_shape(nodes[1], output)
    for (a, position), (b, other) in zip(two, three, strict=True):
        name = a.name()
        if name != b.name() or position != other:
            return None
        for part in graphs[1].parts(b, name, seen is not None):
            small, large = get_output_shape(a, part), get_output_shape(b, part)
            if small != large:
                axis = find_axis(small, large)
                use = read_use(b, name, position)
                if axis is None or use is None or len(graphs[1].outputs(b)) > 1:
                    return None
                consumers.append(Consumer(name, position, part, axis, ()))
                continue
            if seen is None and not is_known_step(b, name, position, before):
                return None
            deeper: tuple[Consumer, ...] | None = ()
            if seen is None or (b, part) not in seen:
                if seen is not None:
                    seen.add((b, part))
                deeper = learn_consumers(graphs, (a, b), part, find_axis, seen)
            if deeper is None:
                return None
            consumers.append(Consumer(name, position, part, None, deeper))
    return tuple(consumers)


def find_boundaries(
    graph: ConsumerGraph,
    node: Node,
    consumers: tuple[Consumer, ...],
    batch: int,
    output: int = 0,
    seen: Seen | None = None,
) -> list[BatchBoundary] | None:
    """The boundaries that the consumers name, in the graph of this step; None if the graph differs."""
    boundaries: list[BatchBoundary] = []
    number, shape = 0, get_output_shape(node, output)
    for taker, position in graph.consumers(node, output):
        name = taker.name()
        for part in graph.parts(taker, name, seen is not None):
            if number >= len(consumers):
                return None
            consumer = consumers[number]
            number += 1
            if (consumer.name, consumer.position, consumer.output) != (name, position, part):
                return None
            if consumer.axis is not None:
                use, out = read_use(taker, name, position), get_output_shape(taker, part)
                boundary = BatchBoundary.find(use, consumer.axis, (node, output), (taker, part), batch)
                if boundary is None or len(graph.outputs(taker)) > 1 or out[boundary.axis.dim] < 1:
                    return None
                boundaries.append(boundary)
                continue
            if seen is not None and (taker, part) in seen:
                continue
            if seen is not None:
                seen.add((taker, part))
            elif not is_known_step(taker, name, position, shape):
                return None
            deeper = find_boundaries(graph, taker, consumer.consumers, batch, part, seen)
            if deeper is None:
                return None
            if seen is None:
                for boundary in deeper:
                    boundary.steps = (StepBack(name, taker, position, shape, part), *boundary.steps)
            boundaries += deeper
    return boundaries if number == len(consumers) else None
