"""The worker: the only part of a curator that sees rows. It has no network, and no account, ledger or page.

*How data flow*: the gateway sends a planned question over a local socket (``frames``, ``process_client``);
the worker's process (``process``, ``confinement``) reads it with its own copy of the metadata, runs the plan
(``answering``) on the table (``data_sources``) and sends back noisy numbers, or one constant word for every
failure.
"""
