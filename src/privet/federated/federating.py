"""``federate``: a model and clients in; a trained model, and what it cost, out."""

from collections.abc import Callable, Sequence
from pathlib import Path

from flwr.serverapp import Grid
from torch import nn

from privet.federated.app import FederatedApp
from privet.federated.client_work import ClientData
from privet.federated.local_training import FedAvg, LocalTraining
from privet.federated.outcome import Federated
from privet.federated.privacy import CentralNoise, FederatedPrivacy
from privet.federated.server_optimizers import ServerOptimizer, ServerSGD
from privet.federated.sum_protocols import SumProtocol
from privet.observed_rounds import RoundObserver
from privet.randomness import NoiseSource, SecureNoise
from privet.training.loop.losses import TorchLoss

__all__ = ["federate"]


def federate(
    model: nn.Module,
    clients: Sequence[object] | ClientData,
    *,
    rounds: int,
    epsilon: float | None = None,
    delta: float | None = None,
    population: int | None = None,
    privacy: FederatedPrivacy = CentralNoise(),  # noqa: B008 - frozen
    training: LocalTraining = FedAvg(),  # noqa: B008 - frozen
    optimizer: ServerOptimizer = ServerSGD(),  # noqa: B008 - frozen
    sums: SumProtocol | None = None,
    loss: TorchLoss | None = None,
    weights: Sequence[float] | None = None,
    observers: Sequence[RoundObserver] = (),
    watch: Callable[[nn.Module], float] | None = None,
    checkpoint: str | Path | None = None,
    timeout: float | None = None,
    seed: int = 0,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
    grid: Grid | None = None,
) -> Federated:
    """Train a model over clients that keep their data, with the least noise for (ε, δ).

    *Guarantee*: with ``CentralNoise``, the default, the models of all rounds are (ε, δ)-differentially
    private for a client with all of its data. With ``LocalNoise`` and ``DistributedNoise`` this holds against
    the server too. ``NoNoise`` proves nothing.

    *Leaks*: the history, and with ``CentralNoise`` what the sum protocol shows the server. An update is not
    private by itself: without noise, and without a protocol that hides it, the server reads it.

    No default looks at the data. Ctrl-C ends a run after its current round, and returns what was reached.

    Args:
        model: the model, which is trained in place.
        clients: the data of each client, as for ``privet.train``; or a function of a client's number, which
            is called where the client runs.
        rounds: the number of rounds.
        epsilon: the ε that the whole run must not exceed; left out with ``NoNoise``.
        delta: the δ of ``epsilon``; below 1/(10 · number of clients).
        population: the number of clients, if ``clients`` is a function.
        privacy: who adds noise, the clip, and which clients take part: ``CentralNoise``, ``LocalNoise``,
            ``DistributedNoise`` or ``NoNoise``.
        training: what a client does in a round: ``FedAvg``, also with a proximal term, or ``FedSGD``.
        optimizer: what the server does with the mean update: ``ServerSGD``, also with momentum, or
            ``ServerAdam``.
        sums: how the server learns the sum; the default is ``PlainSum``.
        loss: the loss, as for ``privet.train``; it is a mean over the examples of a batch.
        weights: public weights of the clients, such as the size of their regions. They must not come from the
            data. The default weighs all alike.
        observers: adversaries who see the rounds.
        watch: a function that gets the model after each round and returns a number for the history. It must
            use public data only.
        checkpoint: a folder. A run that was ended or killed resumes from there.
        timeout: how many seconds to wait for the answers of clients; None waits for all.
        seed: the public seed of the order of examples. The same seed gives the same weights wherever the run
            is, apart from noise and cohorts.
        noise: the source of cohorts and noise. ``SeededNoise`` is for tests only.
        grid: a grid of Flower; the default runs all clients in this process.

    >>> import torch
    >>> clients = [(torch.randn(20, 3), torch.randint(0, 2, (20,))) for _ in range(30)]
    >>> federated = federate(nn.Linear(3, 2), clients, rounds=2, epsilon=4, delta=1e-3)
    >>> federated.epsilon(delta=1e-3) <= 4, len(federated.ledger)
    (True, 2)
    """
    app = FederatedApp(
        model,
        clients,
        rounds=rounds,
        epsilon=epsilon,
        delta=delta,
        population=population,
        privacy=privacy,
        training=training,
        optimizer=optimizer,
        sums=sums,
        loss=loss,
        weights=weights,
        observers=observers,
        watch=watch,
        checkpoint=checkpoint,
        timeout=timeout,
        seed=seed,
        noise=noise,
    )
    return app.run(grid)
