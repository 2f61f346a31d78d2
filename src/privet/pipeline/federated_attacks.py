"""Attacks on a live federated run: trained anew for each adversary, watched through an observer of its grid.

One run is watched by a passive server and a passive participant together. An active adversary changes the
run, so each has a run of its own. Every attack ends as ``Recoveries`` with the coin of each target, and is
judged by the one law: success, baseline, and the ceiling of the claim that covers the observer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from torch import nn

from privet.arguments import positive, whole
from privet.attacks.federated import (
    GradientAscent,
    MessageInversion,
    ObservedStep,
    PropertyInference,
    RoundAlignment,
    RoundAttack,
    RoundRecorder,
    guess_higher_half,
    list_steps,
    measure_rounds,
    spread_rounds,
)
from privet.attacks.inversion.gradients import FirstLayer, GradientInversion
from privet.auditing import measure_recoveries
from privet.errors import InvalidArgument
from privet.federated import FedAvg, Federated, federate
from privet.guarantees import Guarantee
from privet.observed_rounds import ObservedRound, Observer, RoundObserver
from privet.pipeline.federated_defences import FederatedDefence, prove_for_record
from privet.pipeline.federated_game import FederatedGame
from privet.public_calls import check_public_calls
from privet.recoveries import Recoveries
from privet.reporting.federated_facts import FederatedAttack
from privet.scores import Records
from privet.shared_gradients import LocalSteps, OneStep, Sharing

__all__ = ["FederatedAttackPlan", "FederatedTrial", "attack_run"]

_PARTICIPANT = 0  # the client of an active participant


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class FederatedAttackPlan:
    """How runs are trained and attacked; all of it is fixed before any run.

    ``make_model`` gives a model with the same weights each time. ``watched`` is how many rounds are measured,
    evenly spread, because each costs a gradient for every target. ``active_from`` is the first round of
    active attacks. ``strength`` is the length of an ascent of the server, ``participant_strength`` that of a
    participant after the average. ``inversion`` is None where the model has no attack on its messages.
    """

    make_model: Callable[[], nn.Module]
    rounds: int
    training: FedAvg
    watched: int = 8
    passive: RoundAttack = field(default_factory=RoundAlignment)
    active: RoundAttack = field(default_factory=RoundAlignment)
    active_from: int = 1
    strength: float = 0.05
    participant_strength: float = 0.01
    simulations: int = 60
    inversion: GradientInversion | None = field(default_factory=FirstLayer)
    tolerance: float = 0.1
    confidence: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, least=2)
        positive("strength", self.strength)
        if not 1 <= self.active_from < self.rounds:
            raise InvalidArgument(
                f"'active_from' must be a round before the last of {self.rounds}, got {self.active_from}. "
                "Begin earlier."
            )

    def describe_sharing(self, examples: int) -> Sharing:
        """How the update of a client with so many records was made, as an adversary knows it."""
        training = self.training
        if training.epochs == 1 and training.batch_size >= examples:
            return OneStep()
        batch = training.batch_size if examples % training.batch_size == 0 else examples
        return LocalSteps(learning_rate=training.learning_rate, batch_size=batch, epochs=training.epochs)


@final
@dataclass(frozen=True, eq=False)
class FederatedTrial:
    """What came of all runs under one defence: the passive run with its result, and the attacks."""

    run: Federated
    recorder: RoundRecorder
    attacks: tuple[FederatedAttack, ...]


def attack_run(
    plan: FederatedAttackPlan,
    game: FederatedGame,
    defence: FederatedDefence,
    *,
    tell: Callable[[str], None] = lambda words: None,
) -> FederatedTrial:
    """Train under this defence with each adversary watching, attack, and judge.

    *Adversary*: the server and a participant; passive, and active in runs of their own. They know the
    defence, the architecture, how clients train, which client a target would be of, and public records.
    """
    server, participant = RoundRecorder(Observer.SERVER), RoundRecorder(Observer.PARTICIPANT)
    tell("training")
    run = _train(plan, game, defence, [server, participant])
    claim = prove_for_record(run) if run.ledger is not None else None
    judge = _CeilingJudge(plan, defence, claim)
    attacks = []
    for recorder in (server, participant):
        tell(f"attacks of a passive {recorder.place}")
        steps = list_steps(recorder.rounds)
        guessed = _guess_membership(plan, game, plan.passive, steps, None)
        attacks.append(judge.weigh("membership", recorder.place, guessed))
    steps = list_steps(server.rounds)
    if game.with_property is not None and game.examples is not None:
        tell("properties of clients")
        attacks.append(judge.weigh("property", Observer.SERVER, _guess_properties(plan, game, steps)))
    if plan.inversion is not None:
        tell("inversion of messages")
        attacks.append(judge.weigh("inversion", Observer.SERVER, _invert(plan, game, steps)))
    for active in _list_active(plan, game):
        tell(f"a run with an active {active.place}")
        _train(plan, game, defence, [active])
        guessed = _guess_membership(plan, game, plan.active, active.list_steps(), active)
        attacks.append(judge.weigh("membership", active.place, guessed, active=True))
    return FederatedTrial(run, server, tuple(attacks))


@final
@dataclass(frozen=True, eq=False)
class _CeilingJudge:
    """Success, baseline and ceiling of attacks under one defence."""

    plan: FederatedAttackPlan
    defence: FederatedDefence
    claim: Guarantee | None

    def weigh(
        self, attack: str, place: Observer, recoveries: Recoveries, *, active: bool = False
    ) -> FederatedAttack:
        measured = measure_recoveries(recoveries, confidence=self.plan.confidence)
        claim = self.claim if self.defence.covers(place) else None
        return FederatedAttack(
            attack=attack,
            observer=str(place),
            active=active,
            method=recoveries.attack,
            wants=recoveries.adversary.wants,
            targets=len(recoveries),
            success=measured.success,
            baseline=measured.baseline,
            leak=measured.leak,
            ceiling=measured.ceiling(claim),
            sure_ceiling=measured.sure_ceiling(claim),
            exceeded=measured.is_above_ceiling(claim),
        )


def _train(
    plan: FederatedAttackPlan,
    game: FederatedGame,
    defence: FederatedDefence,
    observers: Sequence[RoundObserver],
) -> Federated:
    """One run, and the released model shown to its observers at the end."""
    run = federate(
        plan.make_model(),
        [_to_tensors(records) for records in game.clients],
        rounds=plan.rounds,
        epsilon=defence.epsilon,
        delta=defence.delta,
        privacy=defence.privacy,
        training=plan.training,
        sums=None if defence.sums is None else defence.sums(len(game.clients)),
        observers=observers,
        seed=plan.seed,
    )
    released = {name: values.detach().double().cpu().numpy() for name, values in run.model.named_parameters()}
    for observer in observers:
        observer.observe(ObservedRound(number=plan.rounds + 1, weights=released, participants=()))
    return run


def _to_tensors(records: Records) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.as_tensor(np.array(records.inputs)), torch.as_tensor(np.array(records.known_labels))


def _list_active(plan: FederatedAttackPlan, game: FederatedGame) -> list[GradientAscent]:
    module, others = plan.make_model(), game.targets.homes != _PARTICIPANT
    return [
        GradientAscent(module, game.targets, start=plan.active_from, strength=plan.strength),
        GradientAscent(
            module,
            game.targets.take(others),
            client=_PARTICIPANT,
            start=plan.active_from,
            strength=plan.participant_strength,
            boost=float(len(game.clients)),
            spare=game.clients[_PARTICIPANT],
        ),
    ]


def _guess_membership(
    plan: FederatedAttackPlan,
    game: FederatedGame,
    attack: RoundAttack,
    steps: Sequence[ObservedStep],
    active: GradientAscent | None,
) -> Recoveries:
    judged = np.ones(len(game.coins), dtype=np.bool_)
    if active is not None and active.place is Observer.PARTICIPANT:
        judged = game.targets.homes != _PARTICIPANT  # it knows its own records
    signals = measure_rounds(plan.make_model(), spread_rounds(steps, plan.watched), game.targets.take(judged))
    if active is not None:
        signals = signals.restrict(active.mark_raised(signals.rounds))
    scores = attack.run(signals, game.coins[judged])
    return guess_higher_half(scores, attack.adversary, seed=plan.seed)


def _guess_properties(
    plan: FederatedAttackPlan, game: FederatedGame, steps: Sequence[ObservedStep]
) -> Recoveries:
    assert game.examples is not None
    assert game.with_property is not None
    attack = PropertyInference(
        game.examples,
        plan.describe_sharing(game.records_each),
        simulations=plan.simulations,
        rounds=plan.watched,
        seed=plan.seed,
    )
    scores = attack.run(plan.make_model(), steps, np.arange(len(game.clients)), game.with_property)
    return guess_higher_half(scores, attack.adversary, seed=plan.seed)


def _invert(plan: FederatedAttackPlan, game: FederatedGame, steps: Sequence[ObservedStep]) -> Recoveries:
    assert plan.inversion is not None
    attack = MessageInversion(
        inversion=plan.inversion,
        learning_rate=plan.training.learning_rate,
        examples=game.records_each,
        clients=len(game.clients),
        sharing=plan.describe_sharing(game.records_each),
        tolerance=plan.tolerance,
    )
    return attack.run(plan.make_model(), spread_rounds(steps, plan.watched), game.targets, game.coins)


check_public_calls(__name__)
