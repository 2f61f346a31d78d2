"""Float64 on the device that has it, and on the processor for a device that has none, such as MPS.

What needs float64 is small: a squared norm for each example, sums of blocks, evidence about canaries. So
these numbers go to the processor, and everything large stays on the device. ``per_example.rounding``
bounds what is added up in float32 before. This is the only place that decides it.
"""

from functools import cache

import torch
from torch import Tensor

__all__ = ["float64_device", "has_float64", "to_float64", "zeros_float64"]

_HOST = torch.device("cpu")


def has_float64(device: torch.device) -> bool:
    """Whether the device has float64.

    >>> has_float64(torch.device("cpu"))
    True
    """
    return device.type == "cpu" or _try_float64(device.type)


def float64_device(device: torch.device) -> torch.device:
    """The device itself, or the processor if the device has no float64."""
    return device if has_float64(device) else _HOST


def to_float64(tensor: Tensor) -> Tensor:
    """The tensor as float64; on the processor if its device has no float64."""
    return tensor.double() if tensor.is_cpu else tensor.to(float64_device(tensor.device)).double()


def zeros_float64(shape: int | tuple[int, ...], device: torch.device) -> Tensor:
    """Zeros in float64 for numbers of this device."""
    return torch.zeros(shape, dtype=torch.float64, device=float64_device(device))


@cache
def _try_float64(kind: str) -> bool:
    try:
        torch.empty(1, dtype=torch.float64, device=kind)
    except (TypeError, RuntimeError):
        return False
    return True
