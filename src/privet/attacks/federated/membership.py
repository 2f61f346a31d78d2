"""Membership from several observed rounds: was this record in the data of this client?

An attack gets ``RoundSignals``, never the coin; ``run`` joins the coin to the scores afterwards, as with
every attack. A signal is put on one scale in each round and averaged over the rounds in which the record's
client was in a step.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.attacks.estimators import Classifier, LogisticClassifier
from privet.attacks.federated.signals import RoundSignals
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.scores import Bits, Scores
from privet.views import Adversary, Numbers

__all__ = [
    "LearnedRounds",
    "RoundAlignment",
    "RoundAttack",
    "RoundConfidence",
    "RoundGain",
    "RoundSlope",
    "guess_higher_half",
]

_ADVERSARY = Adversary(
    sees="the model of each round, and the updates or sums that the defence leaves open",
    knows="the record, its label, and which client would hold it",
    wants="whether the client trained on it",
)


class RoundAttack(ABC):
    """One score for each record from what was seen of it in all rounds, higher = more likely held."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What a report calls it."""

    @property
    @abstractmethod
    def adversary(self) -> Adversary:
        """Who attacks: what they see, know and want."""

    @abstractmethod
    def score(self, signals: RoundSignals) -> Numbers:
        """One score for each record. The coin is not among the arguments."""

    @final
    def run(self, signals: RoundSignals, members: Bits) -> Scores:
        """Score every record and join the coin. Records that were never seen get the score 0."""
        coins = np.asarray(members)
        if coins.shape != (len(signals),):
            raise InvalidArgument(
                f"'members' must be one coin for each of {len(signals)} records, got an array of shape "
                f"{coins.shape}. Give the coins of the records that the signals are about."
            )
        return Scores(np.asarray(self.score(signals), dtype=np.float64), coins, self.name)


@final
@dataclass(frozen=True)
class RoundConfidence(RoundAttack):
    """The confidence in the record's label after the step of its client.

    *Adversary*: a server or a participant; sees models and updates as far as the defence leaves them open;
    knows the record and whose it would be; wants to know whether the client trained on it.

    *Reference*: the loss of Nasr, Shokri & Houmansadr 2019, section III, over several rounds. Deviation: φ in
    place of the loss.
    """

    name = "confidence over rounds"
    adversary = _ADVERSARY

    def score(self, signals: RoundSignals) -> Numbers:
        return signals.average(signals.standardise(signals.confidence))


@final
@dataclass(frozen=True)
class RoundGain(RoundAttack):
    """How much the step of its client raised the confidence in the record's label.

    *Adversary*: as in ``RoundConfidence``. After an active attack (``GradientAscent``) this is the score of
    Nasr et al. 2019, section III-C: who brings down a loss that was raised on purpose.
    """

    name = "gain over rounds"
    adversary = _ADVERSARY

    def score(self, signals: RoundSignals) -> Numbers:
        return signals.average(signals.standardise(signals.gain))


@final
@dataclass(frozen=True)
class RoundSlope(RoundAttack):
    """How flat the loss of the record is after the step of its client: −ln of the gradient's norm.

    *Adversary*: as in ``RoundConfidence``.

    *Reference*: the gradient norms of Nasr et al. 2019, section III-A.
    """

    name = "gradient norm over rounds"
    adversary = _ADVERSARY

    def score(self, signals: RoundSignals) -> Numbers:
        return signals.average(signals.standardise(signals.slope))


@final
@dataclass(frozen=True)
class RoundAlignment(RoundAttack):
    """How far the update points along the record's own gradient.

    *Adversary*: as in ``RoundConfidence``.

    The update of a client is a sum of gradients of its records. In many dimensions gradients of different
    records are nearly orthogonal, so the sum has a component along a record's gradient mainly if the record
    is one of them.

    *Reference*: Li, Li & Ribeiro 2023, "Effective passive membership inference attacks in federated learning
    against overparameterized models" (the cosine attack).
    """

    name = "alignment over rounds"
    adversary = _ADVERSARY

    def score(self, signals: RoundSignals) -> Numbers:
        return signals.average(signals.standardise(signals.alignment))


@final
@dataclass(frozen=True, eq=False)
class LearnedRounds(RoundAttack):
    """A classifier over all signals in early and late rounds, taught by records whose membership is known.

    *Adversary*: as in ``RoundConfidence``; knows also of some other records whether clients hold them.

    *Reference*: Nasr et al. 2019, section III-B (the supervised attack, which knows a part of the members).
    Deviations: signals and a logistic regression, where the paper learns convolutions over whole gradients,
    because an audit has hundreds of known records and not tens of thousands.
    """

    known: RoundSignals
    members: Bits
    classifier: Classifier = field(default_factory=LogisticClassifier)

    name = "learned over rounds"
    adversary = Adversary(
        sees=_ADVERSARY.sees,
        knows="the record, its label, which client would hold it, and of other records whether one does",
        wants=_ADVERSARY.wants,
    )

    def __post_init__(self) -> None:
        coins = np.asarray(self.members)
        if coins.shape != (len(self.known),) or coins.all() or not coins.any():
            raise InvalidArgument(
                f"'members' must say of each of {len(self.known)} known records whether a client holds it, "
                f"with some of both, got an array of shape {coins.shape}. Give one coin for each."
            )

    def score(self, signals: RoundSignals) -> Numbers:
        if signals.rounds != self.known.rounds:
            raise InvalidArgument(
                "'known' must be measured on the same rounds as the records that are judged, got other "
                "rounds. Measure both on one list of steps."
            )
        judge = self.classifier.learn(_describe(self.known), self.members)
        return judge(_describe(signals))


def guess_higher_half(scores: Scores, adversary: Adversary, *, seed: int = 0) -> Recoveries:
    """The half of the records with the higher scores is guessed to be held, and judged like any recovery.

    The rule does not see the coin, so success (guessed among those held), baseline (guessed among those left
    out) and ceiling follow the one law. Equal scores are put in a random order by ``seed``: an attack that
    saw nothing guesses at random.
    """
    order = np.lexsort((np.random.default_rng(seed).random(len(scores)), scores.values))
    hits = np.zeros(len(scores), dtype=np.bool_)
    hits[order[len(scores) - len(scores) // 2 :]] = True
    return Recoveries(
        scores.attack,
        adversary,
        "in the half of the records that the attack finds likelier",
        hits,
        scores.members,
        confidence=np.abs(scores.values - np.median(scores.values)),
    )


def _describe(signals: RoundSignals) -> Numbers:
    """Each standardised signal, averaged over the earlier and the later half of the rounds: a row each."""
    middle = len(signals.rounds) // 2
    halves = [slice(0, middle), slice(middle, None)] if middle else [slice(None)]
    columns: list[Numbers] = [
        signals.average(values, part) for values in _list_signals(signals) for part in halves
    ]
    return np.stack(columns, axis=1)


def _list_signals(signals: RoundSignals) -> Sequence[Numbers]:
    plain = [signals.confidence, signals.gain, signals.slope, signals.alignment]
    return [signals.standardise(values) for values in plain]
