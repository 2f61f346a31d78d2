"""Autocast: passes in bfloat16 or float16, norms and sums in the precision of the parameters.

*Why the clip bound holds.* Let x and g be the saved inputs and the output gradients that the passes made, in
whatever precision. A form computes, for each example b, the norm ‖v_b‖ and the share c_b·v_b of the sum of
one vector v_b = f(x_b, g_b). Both are functions of the same rounded x_b and g_b, widened without loss, and
are computed in float32 with float64 accumulators, as without autocast. So ‖c_b v_b‖ ≤ C holds with the same
margin as without autocast (about 1e-6 relative): the rounding to bfloat16 moves the vector that is clipped,
never the bound on it. v_b differs from the exact gradient by the rounding of the passes, as in plain training
under autocast. What is needed of the passes is that x_b and g_b depend on example b alone, which ``graph``
proves on the lots. Powers of two are exact in bfloat16, so these proofs lose nothing.

The cache of autocast keeps casts of parameters until the outermost ``autocast`` ends. It is cleared in every
lot, so that ``autocast`` may enclose several steps.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

__all__ = ["autocast_dtype", "full_precision", "widen"]


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The precision of autocast on this device; None without autocast."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """A context without autocast."""
    if not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)  # takes as long as the arithmetic of a small layer


def widen(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor as ``dtype``, unless it has indices or flags."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
