"""Starting a curator: two processes, and one that starts them again.

*How it runs*: ``supervisor`` starts the worker, which has the data and no network, and the gateway, which
has the network and no data (``gateway_process``, ``confined_gateway``). Both read the same file of the
steward (``installation``).
"""
