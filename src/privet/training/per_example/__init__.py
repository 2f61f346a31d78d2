"""Clipped sums of per-example gradients, for any module and any loss with one number per example.

``clipped_sums`` runs the model once forward and once backward (``passes``). Known layers are tapped
(``taps``). Their per-example norms and clipped sums follow from their inputs and output gradients (``forms``,
over ``kernels``). The batch axis of each layer is learnt from two small batches (``batch_axis``), and proved
on the lots themselves (``graph``). Brute force handles parameters that no tap covers, and rows that are not
proved (``fallback``). ``graph.couplings`` tests whether examples depend on each other.

To add a layer, write a tap (``taps``). To add a loss of torch, see ``losses``.
"""

from privet.training.per_example.clipped_sums import ClippedSums, Clipping
from privet.training.per_example.explanation import Explanation
from privet.training.per_example.layout import Layout
from privet.training.per_example.losses import per_example_loss
from privet.training.per_example.refusals import CrossExample, NotFinite, RowsMoved

__all__ = [
    "ClippedSums",
    "Clipping",
    "CrossExample",
    "Explanation",
    "Layout",
    "NotFinite",
    "RowsMoved",
    "per_example_loss",
]
