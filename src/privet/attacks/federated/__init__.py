"""Attacks on federated runs: what a server or a participant learns from observed rounds.

``RoundRecorder`` keeps what a passive adversary sees, ``GradientAscent`` is an active one. ``list_steps``
reads off the finest steps that the defence leaves open, and ``measure_rounds`` what each of them says of each
record. Membership attacks (``RoundConfidence``, ``RoundAlignment``, …) turn that into scores,
``PropertyInference`` guesses a property of a client's data, and ``MessageInversion`` recovers records from
messages. The coins and the truth are joined afterwards, as with every attack.

Names are loaded when they are first used, because most of them need torch.
"""

from typing import TYPE_CHECKING

from privet.lazy_loading import load_lazily
from privet.public_calls import check_public_calls

if TYPE_CHECKING:
    from privet.attacks.federated.ascent import GradientAscent
    from privet.attacks.federated.membership import (
        LearnedRounds,
        RoundAlignment,
        RoundAttack,
        RoundConfidence,
        RoundGain,
        RoundSlope,
        guess_higher_half,
    )
    from privet.attacks.federated.messages import MessageInversion
    from privet.attacks.federated.properties import ClientExamples, PropertyInference
    from privet.attacks.federated.signals import RoundSignals, measure_rounds
    from privet.attacks.federated.steps import (
        ClientRecords,
        ObservedStep,
        RoundRecorder,
        list_steps,
        spread_rounds,
    )

_MODULES = {
    "ClientExamples": "properties",
    "ClientRecords": "steps",
    "GradientAscent": "ascent",
    "LearnedRounds": "membership",
    "MessageInversion": "messages",
    "ObservedStep": "steps",
    "PropertyInference": "properties",
    "RoundAlignment": "membership",
    "RoundAttack": "membership",
    "RoundConfidence": "membership",
    "RoundGain": "membership",
    "RoundRecorder": "steps",
    "RoundSignals": "signals",
    "RoundSlope": "membership",
    "guess_higher_half": "membership",
    "list_steps": "steps",
    "measure_rounds": "signals",
    "spread_rounds": "steps",
}

__all__ = [
    "ClientExamples",
    "ClientRecords",
    "GradientAscent",
    "LearnedRounds",
    "MessageInversion",
    "ObservedStep",
    "PropertyInference",
    "RoundAlignment",
    "RoundAttack",
    "RoundConfidence",
    "RoundGain",
    "RoundRecorder",
    "RoundSignals",
    "RoundSlope",
    "guess_higher_half",
    "list_steps",
    "measure_rounds",
    "spread_rounds",
]

_FREE_OF_TORCH = {"ClientRecords", "ObservedStep", "RoundRecorder", "list_steps", "spread_rounds"}

__getattr__, __dir__ = load_lazily(
    __name__, _MODULES, needs={name: "torch" for name in _MODULES if name not in _FREE_OF_TORCH}
)


check_public_calls(__name__)
