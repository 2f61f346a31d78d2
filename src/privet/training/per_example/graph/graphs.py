"""The graph of a forward pass: its nodes in a fixed order, and a signature that tells one graph from another.

Two lots whose graphs have the same operations in the same order, with the same saved integers (sizes, axes, positions), divide their rows among
the examples in the same way, unless an operation moves rows by their values (``row_moves``). Sizes follow the number of
examples, so integers are compared with a law a·n + b, which is learnt from the graphs of two and of three examples.

The signature is taken in every lot, so only integers that can move a row are asked for.
"""

from typing import Any, final

from torch import Tensor
from torch.autograd.graph import Node

from privet.training.per_example.graph.operations import ELEMENTWISE, INSIDE, nodes_of

__all__ = ["GraphLaw", "GraphWalk"]

_KEPT = 64
"""For how many sizes of a lot the expected integers are kept."""

_SILENT = (
    ELEMENTWISE
    | INSIDE
    | frozenset(nodes_of("Addbmm Addmm Addmv Baddbmm Bmm Dot Linear Mm Mv Embedding EmbeddingBag", 0))
)
"""Operations whose integers move no row."""

_NUMBERS = (int, bool)


@final
class GraphWalk:
    """Every node between the losses and the parameters, with what it was computed from, in a fixed order."""

    __slots__ = ("nodes", "sources")

    def __init__(self, losses: Tensor) -> None:
        start = losses.grad_fn
        assert start is not None
        self.nodes: list[Node] = []
        self.sources: list[tuple[tuple[Node | None, int], ...]] = []
        stack: list[Node] = [start]
        seen: set[Node | None] = {None, start}  # so that None is never put on the stack
        while stack:
            node = stack.pop()
            sources = node.next_functions
            self.nodes.append(node)
            self.sources.append(sources)
            for child, _ in sources:
                if child not in seen:
                    seen.add(child)
                    stack.append(child)  # type: ignore[arg-type]

    def kinds(self) -> list[type[Node]]:
        """What each node is."""
        return list(map(type, self.nodes))

    def outputs(self) -> list[int]:
        """Which output of its source each node takes, for all of its inputs."""
        return [output for sources in self.sources for _, output in sources]


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(node: Node) -> tuple[str, ...]:
    """The saved integers of a kind of node, by name; a tensor is asked for once only, because that takes long."""
    known = _FIELDS.get(type(node))
    if known is not None:
        return known
    found: list[str] = []
    if node.name() not in _SILENT:
        for name in dir(type(node)):
            if not name.startswith("_saved_") or name.endswith(("_strides", "_keepdim", "_numel")):
                continue
            try:
                value = getattr(node, name)
            except RuntimeError:
                continue  # a tensor that may not be looked at
            whole = value if isinstance(value, tuple) else (value,)
            if all(type(v) in _NUMBERS for v in whole):
                found.append(name)
    _FIELDS[type(node)] = tuple(found)
    return tuple(found)


def _integers(nodes: list[Node], asked: list[tuple[int, tuple[str, ...]]]) -> list[int]:
    found: list[int] = []
    for place, names in asked:
        node = nodes[place]
        for name in names:
            value: Any = getattr(node, name)
            if type(value) is tuple:
                found.append(len(value))
                found += value
            else:
                found.append(value)
    return found


@final
class GraphLaw:
    """What the graph of a lot of n examples looks like, for any n."""

    __slots__ = ("_asked", "_base", "_expected", "_kinds", "_outputs", "_slopes")

    def __init__(
        self, seen: GraphWalk, asked: list[tuple[int, tuple[str, ...]]], base: list[int], slopes: list[int]
    ) -> None:
        self._kinds, self._outputs = seen.kinds(), seen.outputs()
        self._asked, self._base, self._slopes = asked, base, slopes
        self._expected: dict[int, list[int]] = {}

    @staticmethod
    def of(two: GraphWalk, three: GraphWalk) -> "GraphLaw | None":
        """The law through the graphs of two and of three examples; None if these are different graphs."""
        if two.kinds() != three.kinds() or two.outputs() != three.outputs():
            return None
        asked = [(place, names) for place, node in enumerate(two.nodes) if (names := _fields(node))]
        low, high = _integers(two.nodes, asked), _integers(three.nodes, asked)
        if len(low) != len(high) or any(type(v) not in _NUMBERS for v in (*low, *high)):
            return None
        return GraphLaw(two, asked, low, [b - a for a, b in zip(low, high, strict=True)])

    def holds(self, seen: GraphWalk, batch: int) -> bool:
        """Whether the graph of a lot of so many examples is the one that was learnt."""
        if seen.kinds() != self._kinds or seen.outputs() != self._outputs:
            return False
        expected = self._expected.get(batch)
        if expected is None:
            if len(self._expected) >= _KEPT:
                self._expected.clear()
            expected = [b + (batch - 2) * s for b, s in zip(self._base, self._slopes, strict=True)]
            self._expected[batch] = expected
        return _integers(seen.nodes, self._asked) == expected
