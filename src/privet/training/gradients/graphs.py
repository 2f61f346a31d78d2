"""The graph of a forward pass: its nodes in a fixed order, and a signature that tells one graph from another.

Two lots whose graphs have the same operations, wired the same way, with the same saved integers (sizes, axes, positions) divide their rows among
the examples in the same way, unless an operation moves rows by their values (``row_moves``). Sizes follow the number of
examples, so integers are compared with a law a·n + b, which is learnt from the graphs of two and of three examples.
"""

from typing import Any, final

from torch import Tensor
from torch.autograd.graph import Node

__all__ = ["GraphLaw", "Walk", "walk"]

Walk = list[tuple[Node, tuple[tuple[Node | None, int], ...]]]

_KEPT = 64
"""For how many sizes of a lot the expected integers are kept."""

_NUMBERS = (int, bool)


def walk(losses: Tensor) -> Walk:
    """Every node between the losses and the parameters, each with what it was computed from."""
    start = losses.grad_fn
    assert start is not None
    found: Walk = []
    stack, seen = [start], {start}
    while stack:
        node = stack.pop()
        sources = node.next_functions
        found.append((node, sources))
        for child, _ in sources:
            if child is not None and child not in seen:
                seen.add(child)
                stack.append(child)
    return found


def _integers(nodes: Walk) -> tuple[list[Any], list[int]]:
    """The kinds of the nodes, and all of their integers: how they are wired, and what each has saved."""
    kinds: list[Any] = []
    found: list[int] = []
    numbers = {node: i for i, (node, _) in enumerate(nodes)}
    numbers[None] = -1  # type: ignore[index]
    for node, sources in nodes:
        kind = type(node)
        names = _FIELDS.get(kind)
        if names is None:
            names = _fields(node)
        kinds.append(kind)
        for child, output in sources:
            found.append(numbers[child])  # type: ignore[index]
            found.append(output)
        for name in names:
            value = getattr(node, name)
            if type(value) is tuple:
                found.append(len(value))
                found += value
            elif type(value) in _NUMBERS:
                found.append(value)
    return kinds, found


_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(node: Node) -> tuple[str, ...]:
    """The saved integers of a kind of node, by name; tensors are not asked for again, because that takes long."""
    found: list[str] = []
    for name in dir(type(node)):
        if not name.startswith("_saved_") or name.endswith("_strides"):
            continue
        try:
            value = getattr(node, name)
        except RuntimeError:
            continue  # a tensor that was freed, or may not be looked at
        whole = value if isinstance(value, tuple) else (value,)
        if all(type(v) in _NUMBERS for v in whole):
            found.append(name)
    if all(value is not None for value in (getattr(node, n, None) for n in found)):
        _FIELDS[type(node)] = tuple(found)
    return tuple(found)


@final
class GraphLaw:
    """What the graph of a lot of n examples looks like, for any n."""

    __slots__ = ("_base", "_expected", "_kinds", "_slopes")

    def __init__(self, kinds: list[Any], base: list[int], slopes: list[int]) -> None:
        self._kinds = kinds
        self._base = base
        self._slopes = slopes
        self._expected: dict[int, list[int]] = {}

    @staticmethod
    def of(two: Walk, three: Walk) -> "GraphLaw | None":
        """The law through the graphs of two and of three examples; None if these are different graphs."""
        kinds, low = _integers(two)
        others, high = _integers(three)
        if kinds != others or len(low) != len(high):
            return None
        return GraphLaw(kinds, low, [b - a for a, b in zip(low, high, strict=True)])

    def holds(self, nodes: Walk, batch: int) -> bool:
        """Whether the graph of a lot of so many examples is the one that was learnt."""
        kinds, found = _integers(nodes)
        if kinds != self._kinds:
            return False
        expected = self._expected.get(batch)
        if expected is None:
            if len(self._expected) >= _KEPT:
                self._expected.clear()
            expected = [b + (batch - 2) * s for b, s in zip(self._base, self._slopes, strict=True)]
            self._expected[batch] = expected
        return found == expected
