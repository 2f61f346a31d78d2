"""Extras of private training: options that a run works without.

``adapters`` (LoRA, last layer), ``augmentation``, ``averaging`` of weights, ``encoding`` with ``encoded_sums`` and ``denoising``, ``optimizers`` that
know the noise, ``module_validation``, which finds and replaces layers that mix examples.

A new option that needs no change to the loop is a module here.
"""
