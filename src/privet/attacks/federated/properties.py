"""Does the data of a client have a property, such as *someone here has the disease*, which nobody asked the
model about?

The adversary has public records with and without the property. At the weights of a round they train as a
client would, many times, once with and once without, and learn to tell the updates apart. Then they look at
the real update of that round.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
import torch
from torch import nn
from torch.func import vmap

from privet.arguments import open_fraction, whole
from privet.attacks.estimators import Classifier, LogisticClassifier
from privet.attacks.federated.signals import load_weights
from privet.attacks.federated.steps import ObservedStep, spread_rounds
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.scores import Bits, Records, Scores
from privet.shared_gradients import OneStep, Sharing
from privet.views import Adversary, Labels, Numbers

__all__ = ["ClientExamples", "PropertyInference"]

_LEAST = 1e-30
_NUMBERS_AT_ONCE = 2**23


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ClientExamples:
    """Public records from which an adversary makes up clients.

    A client with the property has a ``share`` of its ``examples`` records from ``having`` and the rest from
    ``lacking``; one without has all of them from ``lacking``.
    """

    having: Records
    lacking: Records
    examples: int
    share: float = 0.5

    def __post_init__(self) -> None:
        whole("examples", self.examples)
        if self.share != 1.0:
            open_fraction("share", self.share)

    def draw(self, count: int, generator: np.random.Generator, *, with_property: bool) -> Records:
        """The records of ``count`` clients, one client after the other."""
        some = max(1, round(self.share * self.examples)) if with_property else 0
        parts = []
        for _ in range(count):
            had = generator.choice(len(self.having), some, replace=some > len(self.having))
            rest = self.examples - some
            lacked = generator.choice(len(self.lacking), rest, replace=rest > len(self.lacking))
            mixed = self.lacking.take(lacked) if not some else self.having.take(had)
            if some and rest:
                mixed = mixed.followed_by(self.lacking.take(lacked))
            parts.append(mixed.take(generator.permutation(self.examples)))
        return Records(
            np.concatenate([part.inputs for part in parts]),
            np.concatenate([part.known_labels for part in parts]),
        )


@final
@dataclass(frozen=True, eq=False)
class PropertyInference:
    """Tells updates of clients with a property from those without, taught by updates of made-up clients.

    *Adversary*: a server or a participant; sees the models of several rounds, and updates or sums as far as
    the defence leaves them open; knows public records with and without the property, and how clients train;
    wants to know which clients have the property.

    The score of a client is the mean ln odds over the rounds in which it may have taken part. Under a sum of
    all clients in every round this is the same for all of them.

    *Reference*: Melis, Song, De Cristofaro & Shmatikov 2019, "Exploiting unintended feature leakage in
    collaborative learning", section V (the passive attack). Deviations: a logistic regression on the
    direction of the whole update, where the paper takes random forests and pools large layers; at most
    ``rounds`` rounds are simulated.
    """

    examples: ClientExamples
    sharing: Sharing = OneStep()  # noqa: RUF009 - frozen
    simulations: int = 60
    rounds: int = 6
    classifier: Classifier = field(default_factory=LogisticClassifier)
    seed: int = 0

    name = "property of a client"
    adversary = Adversary(
        sees="the model of each round, and the updates or sums that the defence leaves open",
        knows="public records with and without the property, and how clients train",
        wants="whether a client's data have the property",
    )

    def __post_init__(self) -> None:
        whole("simulations", self.simulations, least=4)
        whole("rounds", self.rounds)

    def score(self, module: nn.Module, steps: Sequence[ObservedStep], clients: Labels) -> Numbers:
        """One score for each client, higher = more likely with the property."""
        chosen = spread_rounds(steps, self.rounds)
        totals, counts = np.zeros(len(clients)), np.zeros(len(clients))
        generator = np.random.default_rng(self.seed)
        judges: dict[int, tuple[PublicModel, object]] = {}
        for step in chosen:
            key = id(step.before)
            if key not in judges:
                model = load_weights(module, step.before, self.examples.lacking.inputs.shape[1:])
                judges[key] = (model, self._learn(model, generator))
            model, judge = judges[key]
            update = np.concatenate([np.ravel(step.update[name]) for name in model.weights])
            odds = float(judge(_to_direction(np.nan_to_num(update)[None]))[0])  # type: ignore[operator]
            holds = np.array([step.may_hold(int(client)) for client in clients])
            totals += np.where(holds, odds, 0.0)
            counts += holds
        answer: Numbers = totals / np.maximum(counts, 1)
        return answer

    def run(self, module: nn.Module, steps: Sequence[ObservedStep], clients: Labels, coins: Bits) -> Scores:
        """Score every client and join the coin, which says whose data have the property."""
        if np.shape(coins) != np.shape(clients) or np.ndim(clients) != 1:
            raise InvalidArgument(
                f"'coins' must be one for each of the clients, got shapes {np.shape(coins)} and "
                f"{np.shape(clients)}. Give one axis each."
            )
        return Scores(self.score(module, steps, clients), coins, self.name)

    def _learn(self, model: PublicModel, generator: np.random.Generator) -> object:
        directions = [
            self._simulate(model, self.examples.draw(self.simulations, generator, with_property=coin))
            for coin in (True, False)
        ]
        return self.classifier.learn(np.concatenate(directions), np.repeat([True, False], self.simulations))

    def _simulate(self, model: PublicModel, records: Records) -> Numbers:
        """The directions of the updates of made-up clients, clients × parameters."""
        rows, labels = model.to_tensors(records.inputs, records.known_labels)
        size = self.examples.examples
        rows = rows.reshape(self.simulations, size, *rows.shape[1:])
        labels = labels.reshape(self.simulations, size)
        replay = vmap(model.replay(self.sharing))
        step = max(1, _NUMBERS_AT_ONCE // max(1, model.size))
        found = []
        for start in range(0, self.simulations, step):
            gradients = replay(rows[start : start + step], labels[start : start + step])
            found.append(torch.cat([value.flatten(1) for value in gradients.values()], dim=1))
        return _to_direction(-torch.cat(found).detach().double().cpu().numpy())


def _to_direction(updates: Numbers) -> Numbers:
    """Each row with norm 1 per coordinate, so that clipping and server steps change nothing."""
    norms = np.linalg.norm(updates, axis=1, keepdims=True)
    answer: Numbers = updates / np.maximum(norms, _LEAST) * np.sqrt(updates.shape[1])
    return answer
