"""Operations that may move rows depending on values: indexing, sorting, sums and products over the examples.

The signature of a graph (``graphs``) does not show what such an operation did in this lot. So an operation is
harmless only if it is known to leave rows where they are, or if it works along axes whose size does not
depend on the number of examples. An index ``x[arange(n), position]`` is harmless too; this is checked in each
lot. All other operations, and all unknown ones (users' own functions included), make the plan of the model
one that is certified in every lot.

Two things follow. *Sizes must keep depending on the batch.* A batch that is padded to a fixed capacity has
axes that hold examples but do not depend on their number. So an operation is not harmless if an input depends
on the batch size and no output does. *Fixed moves are moves.* ``where(swap, h, h.flip(0))`` exchanges
examples by value, although each operation by itself does not. So flips, shifts, slices and concatenations
along the batch axis are not harmless.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.autograd.graph import Node

from privet.torch_internals import count_outputs, get_output_shape, has_saved, read_saved
from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.graph.operations import ELEMENTWISE, INSIDE, SHAPES, node_names
from privet.training.per_example.taps.group_normalization import is_own_normalization
from privet.training.per_example.taps.recurrent import is_own_recurrence

__all__ = ["UNPREDICTABLE", "RowMoves"]


_KEEPS_ROWS = ELEMENTWISE | SHAPES | INSIDE
"""Operations that leave every row where it is, or move it as the integers of the signature say."""


def _axis(dim: int, shape: tuple[int, ...]) -> int:
    return (dim - (1 << 64) if dim >= 1 << 63 else dim) % max(1, len(shape))


def _shape(node: Node) -> tuple[int, ...]:
    """The shape of an operation's input or, if that is not saved, of its output."""
    sizes = read_saved(node, "self_sym_sizes")
    if sizes is None:
        tensor = read_saved(node, "self")
        sizes = tuple(tensor.shape) if isinstance(tensor, Tensor) else get_output_shape(node)
    return tuple(int(n) for n in sizes)


def _named_sizes(node: Node) -> tuple[int, ...]:
    """The sizes of the axes that the operation names."""
    shape = _shape(node)
    name = next((name for name in ("dims", "dimension") if has_saved(node, name)), "dim")
    dim = _require_saved(node, name)
    dims = tuple(range(len(shape))) if dim is None else (dim if isinstance(dim, tuple) else (dim,))
    return tuple(shape[_axis(d, shape)] for d in dims or range(len(shape)))


def _require_saved(node: Node, name: str) -> Any:  # noqa: ANN401 - depends on the operation
    """A saved value that may be None. Raises AttributeError if the node saves none of this name."""
    if not has_saved(node, name):
        raise AttributeError(name)
    return read_saved(node, name)


def _indexed_sizes(node: Node) -> tuple[int, ...]:
    """The sizes of the axes that an index selects along."""
    shape = _shape(node)
    sizes: list[int] = []
    axis = 0
    for index in _require_saved(node, "indices"):
        covered = index.dim() if index is not None and index.dtype in (torch.bool, torch.uint8) else 1
        if index is not None:
            sizes += shape[axis : axis + covered]
        axis += covered
    return tuple(sizes)


def _contracted_size(*factors: tuple[str, int]) -> Callable[[Node], tuple[int, ...]]:
    """The size that a product sums over: the axis of the first factor (name, axis) that the node saves."""

    def sizes(node: Node) -> tuple[int, ...]:
        for name, axis in factors:
            shape = read_saved(node, f"{name}_sym_sizes")
            if shape:
                return (int(shape[axis]),)
            tensor = read_saved(node, name)
            if isinstance(tensor, Tensor):
                return (int(tensor.shape[axis]),)
        raise AttributeError(factors[0][0])

    return sizes


def _bilinear_sizes(node: Node) -> tuple[int, ...]:
    """The two sizes that ``F.bilinear`` sums over. Any other product of three tensors is unknown."""
    axes = tuple(tuple(_require_saved(node, name)) for name in ("expand1", "expand2", "expand3", "sumdim"))
    if axes != ((1, 3), (0,), (1, 2), (2, 3)):
        raise AttributeError("sumdim")
    return _contracted_size(("i1", -1), ("i2", -2))(node) + _contracted_size(("i3", -1), ("i2", -1))(node)


def _image_sizes(node: Node) -> tuple[int, ...]:
    """All sizes but the first of an image operation's inputs and output, and those of its kernel."""
    sizes = [*get_output_shape(node)[1:]]
    for name in ("self", "input", "grid"):
        tensor = read_saved(node, name)
        if isinstance(tensor, Tensor):
            sizes += tensor.shape[1:]
    kernel = read_saved(node, "weight")
    return tuple(int(n) for n in (*sizes, *(kernel.shape if isinstance(kernel, Tensor) else ())))


def _normed_sizes(node: Node) -> tuple[int, ...]:
    """The sizes that ``weight_norm`` takes the norm over: all but one."""
    shape = tuple(_require_saved(node, "v").shape)
    kept = _axis(int(_require_saved(node, "dim")), shape)
    return tuple(n for axis, n in enumerate(shape) if axis != kept)


def _matrix_sizes(node: Node) -> tuple[int, ...]:
    """The last two sizes of an operation on matrices."""
    return get_output_shape(node)[-2:]


def _key_count(node: Node) -> tuple[int, ...]:
    return (int(_require_saved(node, "key").shape[-2]),)


def _table_height(node: Node) -> tuple[int, ...]:
    return (int(_require_saved(node, "weight_sym_argsize_0")),)


_SIZES: dict[str, Callable[[Node], tuple[int, ...]]] = {
    **dict.fromkeys(
        node_names(
            "Amax Amin Aminmax Cummax Cummin Cumprod Cumsum Gather IndexAdd IndexCopy IndexFill IndexSelect "
            "Kthvalue LinalgVectorNorm LogSoftmax Logcumsumexp Logsumexp Max Mean Median Min Mode Nanmedian "
            "Nansum Norm Prod SafeSoftmax Scatter ScatterAdd ScatterReduce Softmax Sort Std StdMean Sum Topk "
            "Var VarMean Cat FftC2C FftC2R FftR2C Flip Roll Select Slice Split SplitWithSizes Unfold "
            "UnsafeSplit",
            *(0, 1, 2),
        ),
        _named_sizes,
    ),
    **dict.fromkeys(
        node_names(
            "AdaptiveAvgPool2D AdaptiveAvgPool3D AdaptiveMaxPool2D AdaptiveMaxPool3D AvgPool2D AvgPool3D "
            "Col2Im Convolution GridSampler2D GridSampler3D Im2Col MaxPool2DWithIndices "
            "MaxPool3DWithIndices MkldnnAdaptiveAvgPool2D",
            0,
        ),
        _image_sizes,
    ),
    **dict.fromkeys(
        ("SumBackward0", "MeanBackward0", "MaxBackward1", "MinBackward1", "AsStridedBackward0"), _shape
    ),
    **{
        f"{name}Backward0": _indexed_sizes for name in ("Index", "IndexPut", "IndexPutImpl", "UnsafeIndexPut")
    },
    "MmBackward0": _contracted_size(("self", 1), ("mat2", 0)),
    "AddmmBackward0": _contracted_size(("mat1", 1), ("mat2", 0)),
    "BmmBackward0": _contracted_size(("self", 2), ("mat2", 1)),
    "BaddbmmBackward0": _contracted_size(("batch1", 2), ("batch2", 1)),
    "MvBackward0": _contracted_size(("self", 1), ("vec", 0)),
    "AddmvBackward0": _contracted_size(("mat", 1), ("vec", 0)),
    "DotBackward0": _contracted_size(("self", 0), ("tensor", 0)),
    "VdotBackward0": _contracted_size(("self", 0), ("other", 0)),
    "WeightNormInterfaceBackward0": _normed_sizes,
    "LinalgHouseholderProductBackward0": _matrix_sizes,
    "LinalgMatrixExpBackward0": _matrix_sizes,
    "LinalgSolveExBackward0": _matrix_sizes,
    "LinearBackward0": _contracted_size(("input", -1), ("weight", -1)),
    "TrilinearBackward0": _bilinear_sizes,
    **{
        f"ScaledDotProduct{name}Backward0": _key_count
        for name in ("FlashAttentionForCpu", "FlashAttention", "EfficientAttention", "CudnnAttention")
    },
    "EmbeddingBackward0": _table_height,
    "EmbeddingBagBackward0": _table_height,
}
"""The sizes along which an operation selects, sorts or sums. Only along a batch axis it mixes examples."""


@final
@dataclass(frozen=True, slots=True)
class RowMoves:
    """What a plan knows about operations that may move rows."""

    unpredictable: bool  # some operation may move rows of examples depending on values
    indexed: tuple[tuple[int, int], ...]  # (node, axis) of each index that must be 0, 1, 2, … along the axis

    @staticmethod
    def learn(two: GraphWalk, three: GraphWalk) -> "RowMoves":
        """From the graphs of two and of three examples, which have the same nodes in the same order."""
        indexed: list[tuple[int, int]] = []
        for number, (small, large) in enumerate(zip(two.nodes, three.nodes, strict=True)):
            name = large.name()
            if _loses_batch_size(small, large, two.sources[number], three.sources[number]):
                return UNPREDICTABLE
            sizes = _SIZES.get(name)
            if sizes is None:
                if name in _KEEPS_ROWS or is_own_recurrence(large) or is_own_normalization(large):
                    continue
                return UNPREDICTABLE
            try:
                is_harmless = sizes(small) == sizes(large)
            except (AttributeError, RuntimeError, IndexError):
                is_harmless = False
            if is_harmless:
                continue
            axis = _find_batch_axis(small, large) if name == "IndexBackward0" else None
            if axis is None or not _is_in_order(small, axis, 2) or not _is_in_order(large, axis, 3):
                return UNPREDICTABLE
            indexed.append((number, axis))
        return RowMoves(unpredictable=False, indexed=tuple(indexed))

    def keep_rows(self, walk: GraphWalk, batch: int) -> bool:
        """Whether no operation of this lot moved a row depending on values."""
        return not self.unpredictable and all(
            _is_in_order(walk.nodes[number], axis, batch) for number, axis in self.indexed
        )


UNPREDICTABLE = RowMoves(unpredictable=True, indexed=())


Sources = tuple[tuple[Node | None, int], ...]


def _loses_batch_size(small: Node, large: Node, small_sources: Sources, large_sources: Sources) -> bool:
    """Whether an input depends on the number of examples and no output does."""
    input_depends = any(
        a is not None and b is not None and get_output_shape(a, i) != get_output_shape(b, j)
        for (a, i), (b, j) in zip(small_sources, large_sources, strict=True)
    )
    return input_depends and all(
        get_output_shape(small, i) == get_output_shape(large, i)
        for i in range(min(count_outputs(small), count_outputs(large)))
    )


def _find_batch_axis(small: Node, large: Node) -> int | None:
    """The only axis of an index's input that changes with the number of examples, one entry for each."""
    shapes = _shape(small), _shape(large)
    changed = [axis for axis, (a, b) in enumerate(zip(*shapes, strict=True)) if a != b]
    return changed[0] if len(changed) == 1 and shapes[1][changed[0]] == 3 else None


def _is_in_order(node: Node, axis: int, batch: int) -> bool:
    """Whether an index takes one entry of each example, in their order: x[arange(n), position]."""
    indices = read_saved(node, "indices")
    for index in indices:
        if index is None or index.dtype is not torch.int64 or index.dim() != 1 or len(index) != batch:
            return False
    return axis < len(indices) and torch.equal(
        indices[axis], torch.arange(batch, device=indices[axis].device)
    )
