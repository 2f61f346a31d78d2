"""Canaries: examples that a fair coin puts into the training data or leaves out, so that a run can be audited by itself.

``kinds`` says what a canary is made of. ``canary_datasets`` puts canaries among the examples and keeps the coins.

A new kind of canary is a class in ``kinds``.
"""
