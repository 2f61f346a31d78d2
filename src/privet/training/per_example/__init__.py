"""Clipped sums of per-example gradients, for any module and any loss over examples.

``ClippedSums`` runs the model once forward and once backward. Known layers are tapped (``tape``, ``layers``,
``convolutions``); their per-example norms and clipped sums follow from what went in and the gradient of what
came out (``products``). Which rows may belong to which example is learnt from two small batches (``plans``), and proved on the
lots themselves (``proofs``, over ``graphs`` and ``row_moves``). Whatever no tap covers, and what is not proved, is done by brute
force (``fallback``). Whether examples depend on each other is tried out (``couplings``).
"""

from privet.training.per_example.clipped_sums import ClippedSums, Clipping
from privet.training.per_example.layout import Layout
from privet.training.per_example.losses import per_example_loss
from privet.training.per_example.refusals import CrossExample, NotFinite, RowsMoved

__all__ = ["ClippedSums", "Clipping", "CrossExample", "Layout", "NotFinite", "RowsMoved", "per_example_loss"]
