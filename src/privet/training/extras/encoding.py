"""Gradient encoding: gradients with few possible values.

An encoding replaces each clipped gradient by a vector with few possible values, whose norm is at most the
clip bound. So the sum over examples keeps its sensitivity, and the accounting does not change. An encoding is
not linear, so each gradient must be written out (``encoded_sums``). That costs the time and the memory of
per-example gradients, which training otherwise avoids.

*Deviation*. The code here is {−b, 0, b} on the largest coordinates, which needs no learning and no tuning.
The paper's own code is not reproduced. Its noise is in ``noise/distributions`` and its denoising in
``denoising``. Each can be used without the others.

Reference: Nasr, Shokri & Houmansadr 2020, "Improving Deep Learning with Differential Privacy using Gradient
Encoding and Denoising".
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet.arguments import fraction

__all__ = ["Encoding", "Signs"]

_BELOW = 1 - 2.0**-18  # as for clip factors: the norm in float32 must stay within the bound, not near it


class Encoding(ABC):
    """A map from gradients to vectors with few possible values."""

    @abstractmethod
    def encode(self, rows: Tensor, bound: float) -> Tensor:
        """Encode [examples, numbers], each row by itself, to rows of norm at most ``bound``."""


@final
@dataclass(frozen=True)
class Signs(Encoding):
    """The signs of the k largest coordinates, times C/√k, and zero elsewhere; ``share`` is k/coordinates.

    A zero stays zero. The norm is at most C, whatever the norm of the gradient is.

    >>> Signs(0.5).encode(torch.tensor([[3.0, -0.1, -2.0, 0.5]]), 1.0).sign()
    tensor([[ 1.,  0., -1.,  0.]])
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        fraction("share", self.share)

    def encode(self, rows: Tensor, bound: float) -> Tensor:
        count = max(1, round(self.share * rows.shape[1]))
        largest = rows.abs().topk(count, dim=1, sorted=False).indices
        signs = rows.gather(1, largest).sign_().mul_(bound * _BELOW / math.sqrt(count))
        return torch.zeros_like(rows).scatter_(1, largest, signs)
