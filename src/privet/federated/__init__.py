"""Federated training: rounds over clients, on an existing engine, with every round in a ledger.

``federate`` does it all in one process. ``FederatedApp`` is the same run as a pair of Flower apps, for a
simulation on Ray and for servers and clients over TLS. ``privacy`` says who adds noise, ``sum_protocols`` how
the server learns a sum, and ``observed_rounds`` what an adversary sees.

Names are loaded when they are first used, so that the import loads neither torch nor Flower.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.federated.app import FederatedApp
    from privet.federated.federating import federate
    from privet.federated.history import RoundRecord
    from privet.federated.in_process_grid import InProcessGrid
    from privet.federated.local_training import FedAvg, FedSGD
    from privet.federated.outcome import Federated
    from privet.federated.partitions import partition, partition_by_label
    from privet.federated.plain_sum import PlainSum
    from privet.federated.privacy import CentralNoise, DistributedNoise, LocalNoise, NoNoise
    from privet.federated.server_optimizers import ServerAdam, ServerSGD
    from privet.federated.sum_protocols import NoisySumProtocol, SumProtocol, SumResult

_MODULES = {
    "CentralNoise": "privacy",
    "DistributedNoise": "privacy",
    "FedAvg": "local_training",
    "FedSGD": "local_training",
    "Federated": "outcome",
    "FederatedApp": "app",
    "InProcessGrid": "in_process_grid",
    "LocalNoise": "privacy",
    "NoNoise": "privacy",
    "NoisySumProtocol": "sum_protocols",
    "PlainSum": "plain_sum",
    "RoundRecord": "history",
    "ServerAdam": "server_optimizers",
    "ServerSGD": "server_optimizers",
    "SumProtocol": "sum_protocols",
    "SumResult": "sum_protocols",
    "federate": "federating",
    "partition": "partitions",
    "partition_by_label": "partitions",
}

__all__ = [
    "CentralNoise",
    "DistributedNoise",
    "FedAvg",
    "FedSGD",
    "Federated",
    "FederatedApp",
    "InProcessGrid",
    "LocalNoise",
    "NoNoise",
    "NoisySumProtocol",
    "PlainSum",
    "RoundRecord",
    "ServerAdam",
    "ServerSGD",
    "SumProtocol",
    "SumResult",
    "federate",
    "partition",
    "partition_by_label",
]


__getattr__, __dir__ = load_lazily(__name__, _MODULES)


check_public_calls(__name__)
