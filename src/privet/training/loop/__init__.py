"""The training loop: from a model and data to a trained model and a ledger.

``run`` has ``train``, and ``make_private`` has the door for your own loop. Both check their arguments
(``inputs``, ``optimization``), put them into one ``options`` object, and call ``setup``, which makes the
plan, opens the checkpoint and makes the ``private_loop``. That takes one step at a time (``step``: clipped
sums, noise, divisor). ``run`` takes all of them. ``distributed`` lets several processes share a run,
``checkpoint`` stores a run on disk (``plan_documents``, ``executions``), ``side_effects`` refuses models that
write private data into buffers, and ``progress`` shows the progress of a run.

A new option of a run is a field in ``options`` and an argument of ``train`` and ``make_private``. Something
new in each step goes into ``step``.
"""
