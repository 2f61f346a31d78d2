"""The training loop: from a model and data to a model and a ledger.

``inputs`` checks data and model, ``setup`` makes the plan and opens the checkpoint, ``private_loop`` takes one step at a time
(``step``: clipped sums, noise, divisor), and ``run`` is ``train``, which drives the loop to its end. ``distributed`` lets several
processes share a run, ``checkpoint`` keeps a run on disk (``plan_documents``, ``executions``), ``side_effects`` refuses models that
write private data into buffers, and ``progress`` shows how far a run is.

A new option of a run goes into ``setup``; a new thing that happens in each step goes into ``step``.
"""
