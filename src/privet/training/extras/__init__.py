"""Extras of private training: options that a run works without.

``adapters`` has LoRA and training of the last layer. ``augmentation``, ``averaging`` of weights, ``encoding``
with ``encoded_sums``, and ``denoising`` each are one option. ``optimizers`` has optimisers that know the
noise. ``module_validation`` finds and replaces layers that mix examples.

A new option that needs no change to the loop is a module here.
"""
