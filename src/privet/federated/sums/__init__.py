"""Sums of vectors that nobody opens one by one: by masks, shares or encryption; and noise for them."""

from privet.federated.plain_sum import PlainSum
from privet.federated.sums.distributed_gaussian import DistributedGaussian
from privet.federated.sums.encoding import FixedPoint, WordEncoding
from privet.federated.sums.in_process import sum_in_process
from privet.federated.sums.keys import Identities
from privet.federated.sums.secure import SecureSum
from privet.federated.sums.threats import GraphPlan, HonestServer, MaliciousServer, ServerThreat
from privet.federated.sums.word_sums import DistributedSum, WordSum

__all__ = [
    "DistributedGaussian",
    "DistributedSum",
    "FixedPoint",
    "GraphPlan",
    "HonestServer",
    "Identities",
    "MaliciousServer",
    "PlainSum",
    "SecureSum",
    "ServerThreat",
    "WordEncoding",
    "WordSum",
    "sum_in_process",
]
