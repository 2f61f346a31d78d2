"""Operations that may take rows from one place to another by their values: indexing, sorting, products over the examples.

A signature of the graph (``graphs``) does not see what such an operation did in this lot. So an operation is harmless only if
it is known to leave rows where they are, or if it works along axes whose size does not follow the number of examples. An
index ``x[arange(n), position]`` is harmless too, which is looked at in each lot. All others, and all that are not known here (functions
of users among them), make the plan of the model one that is certified in every lot.

Two things follow from that. *Sizes must go on following.* A batch that is padded to a fixed capacity has axes that hold examples and do not follow
them. So an operation that was given a size that follows, and gives none, is not harmless. *Fixed moves are moves.* ``where(swap, h, h.flip(0))``
exchanges examples by value with operations that do not, so flips, shifts, parts and joins along the axis of the examples are not harmless.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd.graph import Node

from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.graph.operations import ELEMENTWISE, INSIDE, SHAPES, nodes_of
from privet.training.per_example.taps.recurrent import is_own_recurrence

__all__ = ["RowMoves"]


_STAYS = ELEMENTWISE | SHAPES | INSIDE
"""What leaves every row where it is, or takes it where the integers of the signature say."""


def _axis(dim: int, shape: tuple[int, ...]) -> int:
    return (dim - (1 << 64) if dim >= 1 << 63 else dim) % max(1, len(shape))


def _shape(node: Any) -> tuple[int, ...]:  # noqa: ANN401 - its fields depend on its kind
    """The shape of what an operation was given, or, where that is not kept, of what came out of it."""
    sizes = getattr(node, "_saved_self_sym_sizes", None)
    if sizes is None:
        given = getattr(node, "_saved_self", None)
        sizes = tuple(given.shape) if isinstance(given, Tensor) else node._input_metadata[0].shape
    return tuple(int(n) for n in sizes)


def _along(node: Any) -> tuple[int, ...]:  # noqa: ANN401
    """The sizes of the axes that the operation names."""
    shape = _shape(node)
    dim = node._saved_dims if hasattr(node, "_saved_dims") else node._saved_dim
    dims = tuple(range(len(shape))) if dim is None else (dim if isinstance(dim, tuple) else (dim,))
    return tuple(shape[_axis(d, shape)] for d in dims or range(len(shape)))


def _picked(node: Any) -> tuple[int, ...]:  # noqa: ANN401
    """The sizes of the axes that an index goes along."""
    shape = _shape(node)
    sizes: list[int] = []
    at = 0
    for index in node._saved_indices:
        covered = index.dim() if index is not None and index.dtype in (torch.bool, torch.uint8) else 1
        if index is not None:
            sizes += shape[at : at + covered]
        at += covered
    return tuple(sizes)


def _contracted(first: str, second: str, axes: tuple[int, int]) -> Callable[[Any], tuple[int, ...]]:
    """The size that a product adds up over; one of the factors may not have been kept."""

    def sizes(node: Any) -> tuple[int, ...]:  # noqa: ANN401
        for name, axis in ((first, axes[0]), (second, axes[1])):
            kept = getattr(node, f"_saved_{name}_sym_sizes", None)
            if kept:
                return (int(kept[axis]),)
            tensor = getattr(node, f"_saved_{name}", None)
            if isinstance(tensor, Tensor):
                return (int(tensor.shape[axis]),)
        raise AttributeError(first)

    return sizes


def _behind_the_first(node: Any) -> tuple[int, ...]:  # noqa: ANN401
    """All sizes but the first, of what an operation over images was given and of what it gave, with those of its kernel."""
    sizes = [*node._input_metadata[0].shape[1:]]
    for name in ("self", "input", "grid"):
        given = getattr(node, f"_saved_{name}", None)
        if isinstance(given, Tensor):
            sizes += given.shape[1:]
    kernel = getattr(node, "_saved_weight", None)
    return tuple(int(n) for n in (*sizes, *(kernel.shape if isinstance(kernel, Tensor) else ())))


def _keys(node: Any) -> tuple[int, ...]:  # noqa: ANN401
    return (int(node._saved_key.shape[-2]),)


_ALONG: dict[str, Callable[[Any], tuple[int, ...]]] = {
    **dict.fromkeys(
        nodes_of(
            "Amax Amin Aminmax Cummax Cummin Cumprod Cumsum Gather IndexAdd IndexCopy IndexFill IndexSelect Kthvalue LinalgVectorNorm "
            "LogSoftmax Logcumsumexp Logsumexp Max Mean Median Min Mode Nanmedian Nansum Norm Prod SafeSoftmax Scatter ScatterAdd "
            "ScatterReduce Softmax Sort Std StdMean Sum Topk Var VarMean "
            "Cat FftC2C FftC2R FftR2C Flip Roll Select Slice Split SplitWithSizes Unfold UnsafeSplit",
            *(0, 1, 2),
        ),
        _along,
    ),
    **dict.fromkeys(
        nodes_of(
            "AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool2D AdaptiveMaxPool3D AvgPool2D AvgPool3D Col2Im Convolution GridSampler2D "
            "GridSampler3D Im2Col MaxPool2DWithIndices MaxPool3DWithIndices MkldnnAdaptiveAvgPool2D",
            0,
        ),
        _behind_the_first,
    ),
    **dict.fromkeys(
        ("SumBackward0", "MeanBackward0", "MaxBackward1", "MinBackward1", "AsStridedBackward0"), _shape
    ),
    **{f"{name}Backward0": _picked for name in ("Index", "IndexPut", "IndexPutImpl", "UnsafeIndexPut")},
    "MmBackward0": _contracted("self", "mat2", (1, 0)),
    "AddmmBackward0": _contracted("mat1", "mat2", (1, 0)),
    "BmmBackward0": _contracted("self", "mat2", (2, 1)),
    "BaddbmmBackward0": _contracted("batch1", "batch2", (2, 1)),
    "MvBackward0": _contracted("self", "vec", (1, 0)),
    "AddmvBackward0": _contracted("mat", "vec", (1, 0)),
    "DotBackward0": _contracted("self", "tensor", (0, 0)),
    "LinearBackward0": _contracted("input", "weight", (-1, -1)),
    **{
        f"ScaledDotProduct{name}Backward0": _keys
        for name in ("FlashAttentionForCpu", "FlashAttention", "EfficientAttention", "CudnnAttention")
    },
    "EmbeddingBackward0": lambda node: (int(node._saved_weight_sym_argsize_0),),
    "EmbeddingBagBackward0": lambda node: (int(node._saved_weight_sym_argsize_0),),
}
"""Along which sizes an operation picks, sorts or adds up; rows of several examples are only met along sizes that follow them."""


@final
@dataclass(frozen=True, slots=True)
class RowMoves:
    """What a plan knows of operations that may move rows."""

    free: bool  # some operation may move rows of examples by their values
    indexed: tuple[
        tuple[int, int], ...
    ]  # places in the walk of indices, with the axis along which they must be 0, 1, 2, …

    @staticmethod
    def of(two: GraphWalk, three: GraphWalk) -> "RowMoves":
        """From the graphs of two and of three examples, which have the same nodes in the same order."""
        indexed: list[tuple[int, int]] = []
        for place, (small, large) in enumerate(zip(two.nodes, three.nodes, strict=True)):
            name = large.name()
            if _ends_following(small, large, two.sources[place], three.sources[place]):
                return RowMoves(free=True, indexed=())
            sizes = _ALONG.get(name)
            if sizes is None:
                if name in _STAYS or is_own_recurrence(large):
                    continue
                return RowMoves(free=True, indexed=())
            try:
                harmless = sizes(small) == sizes(large)
            except (AttributeError, RuntimeError, IndexError):
                harmless = False
            if harmless:
                continue
            axis = _followed_axis(small, large) if name == "IndexBackward0" else None
            if axis is None or not _in_order(small, axis, 2) or not _in_order(large, axis, 3):
                return RowMoves(free=True, indexed=())
            indexed.append((place, axis))
        return RowMoves(free=False, indexed=tuple(indexed))

    def stay(self, seen: GraphWalk, batch: int) -> bool:
        """Whether no row of this lot was moved by its values."""
        return not self.free and all(
            _in_order(seen.nodes[place], axis, batch) for place, axis in self.indexed
        )


Sources = tuple[tuple[Node | None, int], ...]


def _ends_following(small: Any, large: Any, few: Sources, more: Sources) -> bool:  # noqa: ANN401
    """Whether something that was given follows the number of examples, and nothing that came out does."""
    given = any(
        a is not None and b is not None and _size(a, i) != _size(b, j)
        for (a, i), (b, j) in zip(few, more, strict=True)
    )
    return given and all(
        _size(small, i) == _size(large, i)
        for i in range(min(len(small._input_metadata), len(large._input_metadata)))
    )


def _size(node: Any, output: int) -> tuple[int, ...]:  # noqa: ANN401
    return tuple(node._input_metadata[output].shape)


def _followed_axis(small: Node, large: Node) -> int | None:
    """The one axis of what an index was given that follows the number of examples."""
    shapes = _shape(small), _shape(large)
    moved = [axis for axis, (a, b) in enumerate(zip(*shapes, strict=True)) if a != b]
    return moved[0] if len(moved) == 1 and shapes[1][moved[0]] == 3 else None


def _in_order(node: Any, axis: int, batch: int) -> bool:  # noqa: ANN401
    """Whether an index takes one entry of each example, in their order: x[arange(n), position]."""
    indices = node._saved_indices
    for index in indices:
        if index is None or index.dtype is not torch.int64 or index.dim() != 1 or len(index) != batch:
            return False
    return axis < len(indices) and torch.equal(
        indices[axis], torch.arange(batch, device=indices[axis].device)
    )
