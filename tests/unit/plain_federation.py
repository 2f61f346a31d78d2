"""A federated run without an engine, so that attacks on rounds are tested by themselves: clients take full-batch steps,
the server averages, and observers see what the defence leaves open."""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from privet.attacks.federated import ClientRecords
from privet.observed_rounds import ObservedMessage, ObservedRound, Observer
from privet.randomness import experiment
from privet.scores import Records


@dataclass(frozen=True, eq=False)
class Population:
    """Records of clients: the part that is trained on by every client, and targets that a coin gives to their home."""

    targets: ClientRecords
    coins: np.ndarray
    clients: list

    @property
    def number(self):
        return len(self.clients)


def perceptron(width, hidden, classes, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def draw_population(clients=5, each=24, targets=16, width=30, classes=5, seed=0, noise=1.0):
    """Clusters that overlap, so that a model has to memorise; half of each client's targets are held, by fair coins."""
    draws = experiment(seed)
    centres = draws.standard_normal((classes, width)) * 0.5

    def draw(count):
        labels = draws.integers(0, classes, count)
        return (centres[labels] + noise * draws.standard_normal((count, width))).astype(np.float32), labels

    homes = np.repeat(np.arange(clients), targets)
    inputs, labels = draw(len(homes))
    coins = draws.random(len(homes)) < 0.5
    held = []
    for client in range(clients):
        own_inputs, own_labels = draw(each)
        mine = coins & (homes == client)
        held.append((np.concatenate([own_inputs, inputs[mine]]), np.concatenate([own_labels, labels[mine]])))
    return Population(ClientRecords(Records(inputs, labels), homes), coins, held)


def run_rounds(
    module,
    population,
    observers,
    *,
    rounds=8,
    steps=5,
    rate=0.2,
    opened=True,
    summed=True,
    clip=None,
    noise=0.0,
    local_noise=0.0,
    seed=0,
):
    """Federated averaging; ``noise`` is the server's on the mean, relative to the clip, ``local_noise`` each client's."""
    draws = experiment(seed)
    module = copy.deepcopy(module)
    weights = {name: value.detach().double().numpy().copy() for name, value in module.named_parameters()}
    for number in range(rounds):
        updates = {}
        for client in range(population.number):
            sent = weights
            for observer in observers:
                if observer.place is Observer.SERVER:
                    sent = observer.alter(number, client, sent)
            update = _train(module, sent, *population.clients[client], steps, rate)
            for observer in observers:
                if client in observer.controls:
                    update = observer.replace_update(number, client, sent, update)
            updates[client] = _privatise(update, clip, local_noise, draws)
        total = {name: sum(update[name] for update in updates.values()) for name in weights}
        everybody = tuple(updates)
        for observer in observers:
            if observer.place is Observer.SERVER:
                messages = tuple(
                    ObservedMessage(client=client, update=update if opened else None)
                    for client, update in updates.items()
                )
                observer.observe(
                    ObservedRound(
                        number=number,
                        weights=weights,
                        participants=everybody,
                        messages=messages,
                        total=total if summed else None,
                    )
                )
            else:
                observer.observe(ObservedRound(number=number, weights=weights, participants=()))
        size = (clip or 0.0) * noise / population.number
        weights = {
            name: weights[name]
            + total[name] / population.number
            + size * draws.standard_normal(weights[name].shape)
            for name in weights
        }
    for observer in observers:
        observer.observe(ObservedRound(number=rounds, weights=weights, participants=()))
    return weights


def _train(module, weights, inputs, labels, steps, rate):
    with torch.no_grad():
        for name, value in module.named_parameters():
            value.copy_(torch.as_tensor(np.array(weights[name])))
    rows, classes = torch.as_tensor(inputs), torch.as_tensor(labels)
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(rows), classes).backward()
        optimizer.step()
    return {
        name: value.detach().double().numpy() - weights[name] for name, value in module.named_parameters()
    }


def _privatise(update, clip, local_noise, draws):
    if clip is None:
        return update
    norm = np.sqrt(sum(float(np.square(value).sum()) for value in update.values()))
    scale = min(1.0, clip / norm)
    return {
        name: scale * value + clip * local_noise * draws.standard_normal(value.shape)
        for name, value in update.items()
    }
