"""Gradients in a small alphabet.

An encoding replaces each example's clipped gradient by a vector of few possible values whose norm is at most the clip bound.
The sum over examples then has the sensitivity that it had, and the plan's accounting is unchanged. An encoding is
not linear, so each gradient must be written out (``encoded_sums``): it costs the time and the memory of per-example gradients,
which training otherwise avoids.

*Deviation*. The code here is {−b, 0, b} on the largest coordinates, which needs nothing to be learnt or tuned; the paper's own code
is not reproduced. Its noise is in ``noise.distributions`` and its denoising in ``denoising``; each can be used without the others.

Reference: Nasr, Shokri & Houmansadr 2020, "Improving Deep Learning with Differential Privacy using Gradient Encoding and
Denoising".
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet.arguments import fraction

__all__ = ["Encoding", "Signs"]

_BELOW = 1 - 2.0**-18  # as clip factors are: the norm in float32 must stay within the bound, not near it


class Encoding(ABC):
    """A map of gradients into a bounded alphabet."""

    @abstractmethod
    def encoded(self, rows: Tensor, bound: float) -> Tensor:
        """The codes of [examples, numbers], each of norm at most ``bound``; each row by itself."""


@final
@dataclass(frozen=True)
class Signs(Encoding):
    """The signs of the largest coordinates, times C/√k; zero elsewhere. ``share`` is how many of all coordinates are kept.

    A zero stays zero. The norm is C, or less, whatever the gradient's was.

    >>> Signs(0.5).encoded(torch.tensor([[3.0, -0.1, -2.0, 0.5]]), 1.0).sign()
    tensor([[ 1.,  0., -1.,  0.]])
    """

    share: float = 0.1

    def __post_init__(self) -> None:
        fraction("share", self.share)

    def encoded(self, rows: Tensor, bound: float) -> Tensor:
        kept = max(1, round(self.share * rows.shape[1]))
        places = rows.abs().topk(kept, dim=1, sorted=False).indices
        signs = rows.gather(1, places).sign_().mul_(bound * _BELOW / math.sqrt(kept))
        return torch.zeros_like(rows).scatter_(1, places, signs)
