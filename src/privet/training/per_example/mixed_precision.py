"""Autocast: passes in bfloat16 or float16, norms and sums in the precision of the parameters.

*Why the clip bound holds.* Let x and g be the saved inputs and the output gradients that the passes made, in
whatever precision. A form computes, for each example b, the norm ‖v_b‖ and the share c_b·v_b of the sum of
one vector v_b = f(x_b, g_b). Both are functions of the same rounded x_b and g_b, widened without loss, and
are computed in float32 with float64 accumulators, as without autocast. So ‖c_b v_b‖ ≤ C holds with the same
margin as without autocast (about 1e-6 relative): the rounding to bfloat16 moves the vector that is clipped,
never the bound on it. v_b differs from the exact gradient by the rounding of the passes, as in plain training
under autocast. What is needed of the passes is that x_b and g_b depend on example b alone, which ``graph``
proves on the lots. Powers of two are exact in bfloat16, so these proofs lose nothing.

*Products in lower precision.* ``torch.set_float32_matmul_precision`` lets a device multiply float32 matrices
in TF32 or bfloat16, and CUDA does so for convolutions by default. The passes may. Norms and sums may not:
their products would be off by 10⁻³, and so would the bound. ``full_precision`` switches it off for them.

The cache of autocast keeps casts of parameters until the outermost ``autocast`` ends. It is cleared in every
lot, so that ``autocast`` may enclose several steps.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from torch import Tensor

__all__ = ["autocast_dtype", "full_precision", "is_autocast_on", "multiplies_in_full", "widen"]


def autocast_dtype(device: torch.device) -> torch.dtype | None:
    """The precision of autocast on this device; None without autocast."""
    return torch.get_autocast_dtype(device.type) if is_autocast_on(device) else None


def is_autocast_on(device: torch.device) -> bool:
    """Whether this device is under autocast; a device that torch cannot cast on ("meta") is not."""
    try:
        return torch.is_autocast_enabled(device.type)
    except RuntimeError:
        return False


def full_precision(device: torch.device) -> AbstractContextManager[None]:
    """A context without autocast and with products in full precision. It may be entered several times."""
    settings = [] if multiplies_in_full(device) else _find_reduced(device)
    if settings or is_autocast_on(device):
        return _FullPrecision(device, settings)
    return nullcontext()


def multiplies_in_full(device: torch.device) -> bool:
    """Whether float32 matrices are known to be multiplied in float32. This takes a tenth of a microsecond."""
    try:
        return device.type == "cpu" and torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:  # somebody set it for one kind of device
        return False


def _find_reduced(device: torch.device) -> list[Any]:
    """The settings of torch by which this device multiplies in lower precision."""
    backends: Any = torch.backends  # these settings have no types
    by_device: dict[str, list[Any]] = {
        "cpu": [backends.mkldnn.matmul, backends.mkldnn.conv],
        "cuda": [backends.cuda.matmul, backends.cudnn.conv],
    }
    return [s for s in by_device.get(device.type, []) if s.fp32_precision not in ("ieee", "none")]


@final
class _FullPrecision(AbstractContextManager[None]):
    """Autocast off, and the settings at full precision."""

    def __init__(self, device: torch.device, settings: list[Any]) -> None:
        self._settings = settings
        self._before = [s.fp32_precision for s in settings]
        is_autocast = is_autocast_on(device)
        self._autocast = torch.autocast(device.type, enabled=False) if is_autocast else nullcontext()

    def __enter__(self) -> None:
        for setting in self._settings:
            setting.fp32_precision = "ieee"
        self._autocast.__enter__()

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - as Python calls it
        self._autocast.__exit__(*error)
        for setting, before in zip(self._settings, self._before, strict=True):
            setting.fp32_precision = before


def widen(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor as ``dtype``, unless it has indices or flags."""
    return tensor.to(dtype) if tensor.is_floating_point() else tensor
