"""The graph of a forward pass: its nodes in a fixed order, and a signature that tells one graph from another.

Two lots have the same signature if their graphs have the same operations in the same order, with the same
saved integers (sizes, axes, positions). Then their rows belong to the examples in the same way, unless an
operation moves rows by their values (``row_moves``). Sizes depend on the number n of examples, so integers
are compared with a·n + b, which is learnt from the graphs of two and of three examples.

The signature is taken in every lot, so only integers that can move a row are read.
"""

from typing import final

from torch import Tensor
from torch.autograd.graph import Node

from privet.torch_internals import read_integers, saved_integer_names
from privet.training.per_example.graph.operations import ELEMENTWISE, INSIDE, node_names

__all__ = ["GraphTemplate", "GraphWalk"]

_CACHED_SIZES = 64
"""Lot sizes for which the expected integers are cached."""

_WITHOUT_INTEGERS = (
    ELEMENTWISE
    | INSIDE
    | frozenset(node_names("Addbmm Addmm Addmv Baddbmm Bmm Dot Linear Mm Mv Embedding EmbeddingBag", 0))
)
"""Operations whose saved integers move no row."""


@final
class GraphWalk:
    """Every node between the losses and the parameters, with its source nodes, in a fixed order."""

    __slots__ = ("nodes", "sources")

    def __init__(self, losses: Tensor) -> None:
        start = losses.grad_fn
        assert start is not None
        self.nodes: list[Node] = []
        self.sources: list[tuple[tuple[Node | None, int], ...]] = []
        stack: list[Node] = [start]
        seen: set[Node | None] = {None, start}  # None is never pushed
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
        """The type of each node."""
        return list(map(type, self.nodes))

    def outputs(self) -> list[int]:
        """For all inputs of all nodes, which output of its source the input is."""
        return [output for sources in self.sources for _, output in sources]


_FIELDS: dict[type, tuple[str, ...]] = {}


def _integer_fields(node: Node) -> tuple[str, ...]:
    """The names of the saved integers of a kind of node. Cached, because reading a saved tensor is slow."""
    cached = _FIELDS.get(type(node))
    if cached is None:
        names = () if node.name() in _WITHOUT_INTEGERS else saved_integer_names(node)
        cached = _FIELDS[type(node)] = names
    return cached


@final
class GraphTemplate:
    """The expected graph of a lot of n examples, for any n."""

    __slots__ = ("_base", "_expected", "_fields", "_kinds", "_outputs", "_slopes")

    def __init__(
        self, walk: GraphWalk, fields: list[tuple[int, tuple[str, ...]]], base: list[int], slopes: list[int]
    ) -> None:
        self._kinds, self._outputs = walk.kinds(), walk.outputs()
        self._fields, self._base, self._slopes = fields, base, slopes
        self._expected: dict[int, list[int]] = {}

    @staticmethod
    def learn(two: GraphWalk, three: GraphWalk) -> "GraphTemplate | None":
        """The template of the graphs of two and of three examples; None if these are different graphs."""
        if two.kinds() != three.kinds() or two.outputs() != three.outputs():
            return None
        fields = [(index, names) for index, node in enumerate(two.nodes) if (names := _integer_fields(node))]
        low, high = read_integers(two.nodes, fields), read_integers(three.nodes, fields)
        if len(low) != len(high) or any(type(v) not in (int, bool) for v in (*low, *high)):
            return None
        return GraphTemplate(two, fields, low, [b - a for a, b in zip(low, high, strict=True)])

    def matches(self, walk: GraphWalk, batch: int) -> bool:
        """Whether this is the expected graph of a lot of ``batch`` examples."""
        if walk.kinds() != self._kinds or walk.outputs() != self._outputs:
            return False
        expected = self._expected.get(batch)
        if expected is None:
            if len(self._expected) >= _CACHED_SIZES:
                self._expected.clear()
            expected = [b + (batch - 2) * s for b, s in zip(self._base, self._slopes, strict=True)]
            self._expected[batch] = expected
        return read_integers(walk.nodes, self._fields) == expected
