"""Sums of vectors that nobody opens one by one: masks, shares between aggregators, encryption, and their noise."""

from privet.federated.sums.distributed_gaussian import DistributedGaussian
from privet.federated.sums.encoding import Encoding, FixedPoint
from privet.federated.sums.in_process import sum_in_process
from privet.federated.sums.keys import Identities
from privet.federated.plain_sum import PlainSum
from privet.federated.sums.secure import SecureSum
from privet.federated.sums.threats import GraphPlan, HonestServer, MaliciousServer, ServerThreat

__all__ = [
    "DistributedGaussian",
    "Encoding",
    "FixedPoint",
    "GraphPlan",
    "HonestServer",
    "Identities",
    "MaliciousServer",
    "PlainSum",
    "SecureSum",
    "ServerThreat",
    "sum_in_process",
]
