"""Inversion: what a model, or a gradient, gives away of the people behind it.

``gradients`` recovers examples from shared gradients. ``picture_quality`` and ``identification`` say how near
a recovered picture is to the truth.
"""
