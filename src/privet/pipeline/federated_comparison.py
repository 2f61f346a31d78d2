"""``compare_federated``: the same clients under several defences, each attacked on live runs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import final

import numpy as np
import torch
from torch import nn

from privet import __version__
from privet.auditing.proportions import rate
from privet.errors import InvalidArgument
from privet.exhibits import Picture
from privet.pipeline.federated_attacks import FederatedAttackPlan, FederatedTrial, attack_run
from privet.pipeline.federated_defences import FederatedDefence
from privet.pipeline.federated_game import FederatedGame
from privet.public_calls import check_public_calls
from privet.reporting.facts import Origin
from privet.reporting.federated_facts import AttackedDefence, ServerSight
from privet.reporting.federated_report import FederatedComparison
from privet.scores import Records
from privet.views import Numbers

__all__ = ["MessageSight", "attack_defence", "compare_federated", "join_defences"]

_SHOWN = 6  # pictures of one message
_CLIENT = 1  # whose message is shown
_ALIKE = 0.2  # of the range of inputs: rows that differ less everywhere are one picture


@final
class MessageSight:
    """Draws the first layer of a message as pictures: what the server reads of one client.

    ``layer`` is the name of a linear layer that takes the whole input and has a bias, ``shape`` that of one
    picture.
    """

    def __init__(self, layer: str, shape: tuple[int, int]) -> None:
        self._layer, self._shape = layer, shape

    def draw_rows(self, weight: Numbers, bias: Numbers) -> tuple[Picture, ...]:
        """Rows of the first layer divided by their bias: those that are most like inputs, and no two alike.

        For one example the ratio of both gradients is the example. Inputs lie between 0 and 1, so a ratio far
        outside of that is a mixture.
        """
        large = np.abs(bias) > 1e-6 * float(np.abs(bias).max(initial=0.0))
        ratios = weight[large] / bias[large, None]
        outside = np.abs(ratios - np.clip(ratios, 0.0, 1.0)).max(axis=1, initial=0.0)
        chosen: list[Numbers] = []
        for row in ratios[np.argsort(outside, kind="stable")]:
            if all(np.abs(row - other).max() > _ALIKE for other in chosen):
                chosen.append(row)
        return tuple(Picture(_to_grey(row).reshape(self._shape)) for row in chosen[:_SHOWN])

    def draw_records(self, records: Records) -> tuple[Picture, ...]:
        """Some of a client's own records."""
        inputs = np.asarray(records.inputs, dtype=np.float64)[:_SHOWN]
        return tuple(Picture(_to_grey(row).reshape(self._shape)) for row in inputs)

    def look(self, trial: FederatedTrial) -> ServerSight | None:
        """What the server read of one client in the last round that it saw; None if there was none."""
        seen = [
            message
            for each in trial.recorder.rounds
            for message in each.messages
            if message.client == _CLIENT
        ]
        if not seen:
            return None
        message, size = seen[-1], int(np.prod(self._shape))
        if message.update is not None:
            pictures = self.draw_rows(
                np.asarray(message.update[f"{self._layer}.weight"], dtype=np.float64),
                np.asarray(message.update[f"{self._layer}.bias"], dtype=np.float64),
            )
            return ServerSight(words="Read from the open update.", pictures=pictures)
        content = np.frombuffer(message.payload[-_SHOWN * size :], dtype=np.uint8)
        if len(content) < size:
            return None
        rows = content[: len(content) // size * size].reshape(-1, size)
        pictures = tuple(Picture(row.reshape(self._shape)) for row in rows[:_SHOWN])
        return ServerSight(words="All that can be read: the bytes of the message.", pictures=pictures)


def compare_federated(
    plan: FederatedAttackPlan,
    game: FederatedGame,
    defences: Sequence[FederatedDefence],
    *,
    sight: MessageSight | None = None,
    tell: Callable[[str], None] = lambda words: None,
    command: str | None = None,
) -> FederatedComparison:
    """Attack the same clients under every defence, and put the results in one table.

    *Adversary*: the server and a participant, passive and active, who know each defence and how clients
    train.

    *Leaks*: with ``sight`` the report shows records of a client and what a server reads of them. Leave it out
    for data that are not public.

    Args:
        plan: how runs are trained and attacked.
        game: who holds what, and the coins.
        defences: the defences, such as those of ``list_federated_defences``.
        sight: how one message is drawn; None draws nothing.
        tell: called with what happens next.
        command: the command or call that gives the same figures.
    """
    if not defences:
        raise InvalidArgument("'defences' must hold at least one, got none. Give list_federated_defences(…).")
    attacked = []
    for number, defence in enumerate(defences, start=1):
        tell_here = partial(_tell_place, tell, f"[{number}/{len(defences)}] {defence.name}")
        attacked.append(attack_defence(plan, game, defence, sight=sight, tell=tell_here))
    return join_defences(plan, game, attacked, sight=sight, command=command)


def attack_defence(
    plan: FederatedAttackPlan,
    game: FederatedGame,
    defence: FederatedDefence,
    *,
    sight: MessageSight | None = None,
    tell: Callable[[str], None] = lambda words: None,
) -> AttackedDefence:
    """One defence: its price, its proof, and every attack."""
    trial = attack_run(plan, game, defence, tell=tell)
    correct = _count_correct(trial.run.model, game.test)
    return AttackedDefence(
        name=defence.name,
        words=defence.words,
        test_accuracy=rate(correct, len(game.test), plan.confidence),
        attacks=trial.attacks,
        epsilon_proved=None if trial.run.ledger is None else trial.run.epsilon(delta=defence.delta or 0.0),
        delta=defence.delta,
        adjacency="" if trial.run.ledger is None else str(trial.run.ledger.adjacency),
        covers=defence.covered,
        seconds=sum(record.seconds for record in trial.run.history),
        sight=None if sight is None else sight.look(trial),
    )


def join_defences(
    plan: FederatedAttackPlan,
    game: FederatedGame,
    attacked: Sequence[AttackedDefence],
    *,
    sight: MessageSight | None = None,
    command: str | None = None,
) -> FederatedComparison:
    """The comparison of defences that were attacked one by one, such as in several processes."""
    return FederatedComparison(
        defences=attacked,
        clients=len(game.clients),
        rounds=plan.rounds,
        records=game.records_each,
        confidence=plan.confidence,
        truths=() if sight is None else sight.draw_records(game.clients[_CLIENT]),
        origin=Origin(
            command=command or "privet.pipeline.compare_federated(…)", version=__version__, seed=plan.seed
        ),
    )


def _tell_place(tell: Callable[[str], None], place: str, words: str) -> None:
    tell(f"{place}: {words}")


def _count_correct(model: nn.Module, test: Records) -> int:
    with torch.no_grad():
        outputs = model(torch.as_tensor(np.array(test.inputs)))
    answers = outputs.reshape(len(test), -1)
    guessed = answers.argmax(dim=1) if answers.shape[1] > 1 else (answers[:, 0] > 0).long()
    return int((guessed.cpu().numpy() == test.known_labels).sum())


def _to_grey(row: Numbers) -> Numbers:
    low, high = float(row.min()), float(row.max())
    return (row - low) / max(high - low, 1e-30)


check_public_calls(__name__)
