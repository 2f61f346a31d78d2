"""Sampling: which examples are in the lot of a step.

``schemes`` holds the public parameters of each sampling scheme and the event that the scheme is accounted as.
``batch_sampler`` draws the lots from privacy randomness, with the exact counts and subsets of ``subsets``.
``examples`` gathers the examples of a lot into tensors.

A new sampling scheme is a class in ``schemes``, with its sampler in ``batch_sampler`` and its name for
documents in ``loop/plan_documents``.
"""
