"""Taps: layers that record what they saw, so that per-example gradients follow without being written out.

``tape`` puts taps on a model while a pass runs. ``register`` says which tap belongs to which layer. ``layers``, ``convolutions`` and
``recurrent`` hold the taps.

A new layer is a tap in one of these modules and one line in ``register``.
"""
