"""The register of taps: which tap belongs to which layer."""

from torch import nn

from privet.torch_internals import get_parameters
from privet.training.per_example.taps.convolutions import ConvolutionTap
from privet.training.per_example.taps.elman import RNNTap
from privet.training.per_example.taps.layers import (
    BilinearTap,
    EmbeddingBagTap,
    EmbeddingTap,
    GroupNormTap,
    LayerNormTap,
    LinearTap,
    RMSNormTap,
)
from privet.training.per_example.taps.recurrent import GRUTap, LSTMTap
from privet.training.per_example.taps.tape import Tap, Tape

__all__ = ["build_taps"]

# By exact type: a subclass may compute anything, so brute force handles it unless it uses a layer of this
# table.
_TAPS: dict[type[nn.Module], type[Tap]] = {
    nn.Linear: LinearTap,
    nn.Bilinear: BilinearTap,
    nn.Conv1d: ConvolutionTap,
    nn.Conv2d: ConvolutionTap,
    nn.Conv3d: ConvolutionTap,
    nn.Embedding: EmbeddingTap,
    nn.EmbeddingBag: EmbeddingBagTap,
    nn.LayerNorm: LayerNormTap,
    nn.RMSNorm: RMSNormTap,
    nn.GroupNorm: GroupNormTap,
    nn.InstanceNorm1d: GroupNormTap,
    nn.InstanceNorm2d: GroupNormTap,
    nn.InstanceNorm3d: GroupNormTap,
    nn.LSTM: LSTMTap,
    nn.GRU: GRUTap,
    nn.RNN: RNNTap,
}


def build_taps(model: nn.Module, indices: dict[int, int], tape: Tape) -> list[Tap]:
    """A tap for each known layer with a trainable parameter. ``indices`` are by the parameter's identity.

    A layer gets no tap if its forward was replaced, or if a hook or a parametrisation replaces its
    parameters.
    """
    taps: list[Tap] = []
    for module in model.modules():
        kind = _TAPS.get(type(module))
        if kind is None or "forward" in module.__dict__ or not kind.supports(module):
            continue
        own = {
            name: indices[id(p)]
            for name, p in get_parameters(module).items()
            if p is not None and id(p) in indices
        }
        if own:
            taps.append(kind(module, len(taps), own, tape))
    return taps
