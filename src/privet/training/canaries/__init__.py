"""Canaries: examples that a fair coin adds to the data or leaves out, so that one run can be audited.

``kinds`` says what a canary is. ``canary_datasets`` inserts canaries into the data, flips the coins and
computes the scores.

A new kind of canary is a class in ``kinds``.
"""
