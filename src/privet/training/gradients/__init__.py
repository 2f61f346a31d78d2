"""Clipped sums of per-example gradients, for any module and any loss over examples.

``ClippedSums`` runs the model once forward and once backward. Known layers are tapped (``tape``, ``layers``,
``convolutions``); their per-example norms and clipped sums follow from what went in and the gradient of what
came out (``products``). Which rows belong to which example is learnt from two small batches (``plans``). Whatever no
tap covers is done by brute force (``fallback``), found out in every step, at no cost.
"""

from privet.training.gradients.clipped import ClippedSums, Clipping
from privet.training.gradients.layout import Layout
from privet.training.gradients.losses import per_example
from privet.training.gradients.refusals import CrossExample, NotFinite

__all__ = ["ClippedSums", "Clipping", "CrossExample", "Layout", "NotFinite", "per_example"]
