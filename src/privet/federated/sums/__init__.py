"""Sums of vectors that nobody opens one by one: by masks, shares or encryption; and noise for them.

``SecureSum`` hides vectors behind masks that cancel, ``SharedSum`` splits them between aggregators, and
``EncryptedSum`` adds them under encryption. ``DistributedSum`` adds noise by the clients to the first two.
``PrivateArithmetic`` shows on three parties what computing on shares is.

Names are loaded when they are first used: most need the package cryptography, the encrypted ones need
tenseal.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.federated.sums.aggregators import Aggregator, LocalAggregator
    from privet.federated.sums.distributed_gaussian import DistributedGaussian
    from privet.federated.sums.encrypted import EncryptedSum, KeyHolder, LocalKeyHolder
    from privet.federated.sums.encrypted_scoring import EncryptedScorer, ReadScore, RowOwner
    from privet.federated.sums.identities import Identities
    from privet.federated.sums.in_process import sum_in_process
    from privet.federated.sums.private_arithmetic import PrivateArithmetic, simulate_view
    from privet.federated.sums.secure import SecureSum
    from privet.federated.sums.shared import SharedSum
    from privet.federated.sums.threats import GraphPlan, HonestServer, MaliciousServer, ServerThreat
    from privet.federated.sums.word_encoding import FixedPoint, WordEncoding
    from privet.federated.sums.word_sums import DistributedSum, WordSum

_MODULES = {
    "Aggregator": "aggregators",
    "DistributedGaussian": "distributed_gaussian",
    "DistributedSum": "word_sums",
    "EncryptedScorer": "encrypted_scoring",
    "EncryptedSum": "encrypted",
    "FixedPoint": "word_encoding",
    "GraphPlan": "threats",
    "HonestServer": "threats",
    "Identities": "identities",
    "KeyHolder": "encrypted",
    "LocalAggregator": "aggregators",
    "LocalKeyHolder": "encrypted",
    "MaliciousServer": "threats",
    "PrivateArithmetic": "private_arithmetic",
    "ReadScore": "encrypted_scoring",
    "RowOwner": "encrypted_scoring",
    "SecureSum": "secure",
    "ServerThreat": "threats",
    "SharedSum": "shared",
    "WordEncoding": "word_encoding",
    "WordSum": "word_sums",
    "simulate_view": "private_arithmetic",
    "sum_in_process": "in_process",
}
_NEEDS = {name: "tenseal" for name, module in _MODULES.items() if module.startswith("encrypted")}

__all__ = [
    "Aggregator",
    "DistributedGaussian",
    "DistributedSum",
    "EncryptedScorer",
    "EncryptedSum",
    "FixedPoint",
    "GraphPlan",
    "HonestServer",
    "Identities",
    "KeyHolder",
    "LocalAggregator",
    "LocalKeyHolder",
    "MaliciousServer",
    "PrivateArithmetic",
    "ReadScore",
    "RowOwner",
    "SecureSum",
    "ServerThreat",
    "SharedSum",
    "WordEncoding",
    "WordSum",
    "simulate_view",
    "sum_in_process",
]

__getattr__, __dir__ = load_lazily(__name__, _MODULES, needs=_NEEDS)


check_public_calls(__name__)
