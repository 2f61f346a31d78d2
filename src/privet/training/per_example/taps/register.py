"""Which layer is tapped by what."""

from torch import nn

from privet.training.per_example.taps.convolutions import ConvolutionTap
from privet.training.per_example.taps.layers import (
    BagTap,
    EmbeddingTap,
    GroupNormTap,
    LayerNormTap,
    LinearTap,
    RMSNormTap,
)
from privet.training.per_example.taps.recurrent import GRUTap, LSTMTap
from privet.training.per_example.taps.tape import Tap, Tape

__all__ = ["taps_of"]

# By exact type: a subclass may compute anything, and goes to brute force unless it uses what is here.
_TAPS: dict[type[nn.Module], type[Tap]] = {
    nn.Linear: LinearTap,
    nn.Conv1d: ConvolutionTap,
    nn.Conv2d: ConvolutionTap,
    nn.Conv3d: ConvolutionTap,
    nn.Embedding: EmbeddingTap,
    nn.EmbeddingBag: BagTap,
    nn.LayerNorm: LayerNormTap,
    nn.RMSNorm: RMSNormTap,
    nn.GroupNorm: GroupNormTap,
    nn.InstanceNorm1d: GroupNormTap,
    nn.InstanceNorm2d: GroupNormTap,
    nn.InstanceNorm3d: GroupNormTap,
    nn.LSTM: LSTMTap,
    nn.GRU: GRUTap,
}


def taps_of(model: nn.Module, indices: dict[int, int], tape: Tape) -> list[Tap]:
    """A tap for each known layer that has a trainable parameter; ``indices`` is by identity of the parameter.

    A layer whose forward was replaced, or whose parameters are re-made by a hook or a parametrisation, is
    none that is known.
    """
    taps: list[Tap] = []
    for module in model.modules():
        kind = _TAPS.get(type(module))
        if kind is None or "forward" in module.__dict__ or not kind.fits(module):
            continue
        own = {n: indices[id(p)] for n, p in module._parameters.items() if p is not None and id(p) in indices}
        if own:
            taps.append(kind(module, len(taps), own, tape))
    return taps
