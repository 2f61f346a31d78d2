"""Privet: how much does this leak, what is the proof, and what should I do about it?

Names are loaded when they are first used, so that ``import privet`` is quick.

>>> import privet
>>> ledger = privet.Ledger(privet.AddRemove()).spend(
...     "training", privet.dp_sgd(noise_multiplier=1.1, sampling_rate=256 / 60_000, steps=14_062)
... )
>>> claim = privet.account(ledger)
>>> f"{claim.epsilon(delta=1e-5):.5f}"
'2.38160'
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily

__version__ = "0.1.0"

_MODULES = {
    "account": "accounting",
    "calibrate": "accounting",
    "AdvantageTarget": "accounting",
    "EpsilonTarget": "accounting",
    "PosteriorTarget": "accounting",
    "TprTarget": "accounting",
    "AddRemove": "adjacency",
    "ReplaceOne": "adjacency",
    "Unit": "adjacency",
    "ZeroOut": "adjacency",
    "Caveat": "caveats",
    "dp_sgd": "events",
    "Guarantee": "guarantees",
    "Ledger": "ledger",
    "release": "releasing.release",
    "audit": "pipeline",
    "audit_recoveries": "pipeline",
    "audit_release": "pipeline",
    "audit_scores": "pipeline",
    "audit_text": "pipeline.text_audit",
    "compare": "pipeline.defence_comparison",
    "rehearse": "pipeline.rehearsal",
    "federate": "federated",
    "Report": "reporting",
    "train": "training",
    "tune": "training",
    "accounting": "",
    "attacks": "",
    "auditing": "",
    "defending": "",
    "events": "",
    "federated": "",
    "errors": "",
    "learning": "",
    "mechanisms": "",
    "releasing": "",
    "reporting": "",
    "training": "",
}

if TYPE_CHECKING:
    from privet import (
        accounting,
        attacks,
        auditing,
        defending,
        errors,
        events,
        federated,
        mechanisms,
        releasing,
        reporting,
    )
    from privet import learning as learning
    from privet import training as training
    from privet.accounting import (
        AdvantageTarget,
        EpsilonTarget,
        PosteriorTarget,
        TprTarget,
        account,
        calibrate,
    )
    from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut
    from privet.caveats import Caveat
    from privet.events import dp_sgd
    from privet.federated import federate as federate
    from privet.guarantees import Guarantee
    from privet.ledger import Ledger
    from privet.pipeline import audit, audit_recoveries, audit_release, audit_scores
    from privet.pipeline.defence_comparison import compare
    from privet.pipeline.rehearsal import rehearse
    from privet.pipeline.text_audit import audit_text
    from privet.releasing.release import release
    from privet.reporting import Report
    from privet.training import train as train
    from privet.training import tune as tune

# A star-import must not import torch, scikit-learn or Flower, so ``federate``, ``learning``, ``train``,
# ``training`` and ``tune`` are not here.
# ``dir(privet)`` lists them if their package is installed.
__all__ = [
    "AddRemove",
    "AdvantageTarget",
    "Caveat",
    "EpsilonTarget",
    "Guarantee",
    "Ledger",
    "PosteriorTarget",
    "ReplaceOne",
    "Report",
    "TprTarget",
    "Unit",
    "ZeroOut",
    "__version__",
    "account",
    "accounting",
    "attacks",
    "audit",
    "audit_recoveries",
    "audit_release",
    "audit_scores",
    "audit_text",
    "auditing",
    "calibrate",
    "compare",
    "defending",
    "dp_sgd",
    "errors",
    "events",
    "federated",
    "mechanisms",
    "rehearse",
    "release",
    "releasing",
    "reporting",
]


__getattr__, __dir__ = load_lazily(
    __name__,
    _MODULES,
    needs={
        "federate": "flwr",
        "learning": "sklearn",
        "train": "torch",
        "training": "torch",
        "tune": "torch",
    },
)
