"""Taps: layers that record what they saw, so that per-example gradients follow without being written out.

``tape`` installs taps on a model while a lot runs. ``register`` says which tap belongs to which layer.
``layers``, ``convolutions``, ``recurrent`` and ``elman`` hold the taps. A tap turns what it recorded into the
gradient forms of ``forms``.

To add a layer, write a tap in one of these modules and add one line to ``register`` ("To add a layer" in
CONTRIBUTING.md has all steps).
"""
