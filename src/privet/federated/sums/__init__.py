"""Sums of vectors that nobody opens one by one: by masks, shares or encryption; and noise for them."""

from privet.federated.plain_sum import PlainSum
from privet.federated.sums.aggregators import Aggregator, LocalAggregator
from privet.federated.sums.distributed_gaussian import DistributedGaussian
from privet.federated.sums.encoding import FixedPoint, WordEncoding
from privet.federated.sums.in_process import sum_in_process
from privet.federated.sums.keys import Identities
from privet.federated.sums.private_arithmetic import PrivateArithmetic, simulate_view
from privet.federated.sums.secure import SecureSum
from privet.federated.sums.shared import SharedSum
from privet.federated.sums.threats import GraphPlan, HonestServer, MaliciousServer, ServerThreat
from privet.federated.sums.word_sums import DistributedSum, WordSum

__all__ = [
    "Aggregator",
    "DistributedGaussian",
    "DistributedSum",
    "FixedPoint",
    "GraphPlan",
    "HonestServer",
    "Identities",
    "LocalAggregator",
    "MaliciousServer",
    "PlainSum",
    "PrivateArithmetic",
    "SecureSum",
    "ServerThreat",
    "SharedSum",
    "WordEncoding",
    "WordSum",
    "simulate_view",
    "sum_in_process",
]
