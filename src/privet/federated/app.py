"""A federated run as a pair of Flower apps, which runs in one process, on Ray, and over TLS.

``FederatedApp`` has everything that both sides must agree on. ``server_app`` and ``client_app`` are what
Flower looks for; ``run`` runs both in this process. The same file serves all three.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import final

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from torch import nn

from privet.arguments import format_value, positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.federated.client_work import ClientData, ClientWork
from privet.federated.collecting import Collector
from privet.federated.federated_plan import FederatedPlan
from privet.federated.in_process_grid import InProcessGrid
from privet.federated.local_training import FedAvg, LocalTraining
from privet.federated.model_layout import ModelLayout
from privet.federated.nodes import connect_clients
from privet.federated.outcome import Federated
from privet.federated.plain_sum import PlainSum
from privet.federated.privacy import CentralNoise, FederatedPrivacy, RunSize
from privet.federated.rounds import take_rounds
from privet.federated.server_optimizers import ServerOptimizer, ServerSGD
from privet.federated.server_run import ServerRun
from privet.federated.sum_protocols import SumProtocol
from privet.federated.terms import Terms
from privet.guarantees import delta_warning
from privet.observed_rounds import Observer, RoundObserver
from privet.randomness import NoiseSource, SecureNoise
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.losses import TorchLoss
from privet.training.loop.setup import renew_seed

__all__ = ["FederatedApp"]


@final
class FederatedApp:
    """A federated run: what server and clients agree on. The arguments are those of ``federate``, and:

    Args:
        wait: how many seconds the server waits until all clients are connected. Then it begins with those
            that are; the others count as dropped.
        deliver: a function that gets the result at the server, for runs that Flower starts.
    """

    def __init__(
        self,
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
        wait: float = 300.0,
        deliver: Callable[[Federated], None] | None = None,
    ) -> None:
        self._model = model
        self._layout = ModelLayout(model)
        self._data, self.population = _read_clients(clients, population)
        self._is_listed = isinstance(clients, Sequence)
        self._rounds = whole("rounds", rounds)
        self._epsilon, self._delta = epsilon, delta
        self._privacy, self._training, self._optimizer = privacy, training, optimizer
        for name, value, kind in (
            ("privacy", privacy, FederatedPrivacy),
            ("training", training, LocalTraining),
            ("optimizer", optimizer, ServerOptimizer),
            ("noise", noise, NoiseSource),
        ):
            if not isinstance(value, kind):
                raise InvalidArgument(
                    f"'{name}' must be a {kind.__name__}, got {format_value(value)}. See privet.federated."
                )
        if sums is not None and not isinstance(sums, SumProtocol):
            raise InvalidArgument(
                f"'sums' must be a SumProtocol, got {format_value(sums)}. Leave it out for a plain sum."
            )
        self._sums = PlainSum() if sums is None else sums
        self._loss = loss
        self._weights = None if weights is None else _scale_weights(weights, self.population)
        self._observers, self._watch = tuple(observers), watch
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._timeout = None if timeout is None else positive("timeout", timeout)
        self._seed, self._noise = whole("seed", seed, least=0), noise
        self._wait, self._deliver = positive("wait", wait), deliver
        if self._weights is not None and self.terms.least_contributors:
            raise InvalidArgument(
                "'weights' must be left out with DistributedNoise, got some. Weigh all clients alike."
            )

    @cached_property
    def terms(self) -> Terms:
        """The terms of the run, which both sides compute."""
        size = RunSize(
            population=self.population,
            rounds=self._rounds,
            length=self._layout.size,
            epsilon=self._epsilon,
            delta=self._delta,
        )
        return self._privacy.settle(size, self._sums)

    @cached_property
    def client_app(self) -> ClientApp:
        """The app of the clients. A node's ``partition-id`` is the number of its client."""
        app = ClientApp()

        @app.train()
        def train(message: Message, context: Context) -> Message:
            return self._work.answer(message, context)

        @app.query()
        def query(message: Message, context: Context) -> Message:
            return self._work.tell_number(message, context)

        return app

    @cached_property
    def server_app(self) -> ServerApp:
        """The app of the server."""
        app = ServerApp()

        @app.main()
        def main(grid: Grid, context: Context) -> None:
            del context
            result = self.run(grid)
            if self._deliver is not None:
                self._deliver(result)

        return app

    def run(self, grid: Grid | None = None) -> Federated:
        """Run the server on a grid of Flower; without one, server and clients run in this process."""
        terms, caveats = self.terms, self._caveats()
        if self._checkpoint is None:
            return self._run(grid, terms, None, caveats)
        checkpoint = Checkpoint(
            self._checkpoint,
            self._plan,
            ahead=1,
            epsilon=self._epsilon,
            delta=self._delta,
            caveats=caveats,
        )
        with checkpoint:
            return self._run(grid, terms, checkpoint, caveats)

    def _run(
        self, grid: Grid | None, terms: Terms, checkpoint: Checkpoint | None, caveats: frozenset[Caveat]
    ) -> Federated:
        noise = renew_seed(self._noise, checkpoint)
        server = ServerRun(
            self._model,
            terms,
            self.population,
            self._optimizer,
            self._weights,
            noise,
            self._observers,
            self._watch,
        )
        if checkpoint is not None and checkpoint.state is not None:
            server.resume(checkpoint.state)
        if grid is None:
            grid = self._open_grid()
        nodes = connect_clients(grid, self.population, self._wait)
        protocol = terms.protocol(self._sums)
        collector = Collector(grid, nodes, protocol, secrets.token_hex(16), self._timeout)
        interrupted = take_rounds(server, collector, terms, checkpoint, self._delta)
        model = server.load()
        model.eval()
        caveats |= server.caveats
        lost = () if checkpoint is None else checkpoint.progress()[2].abandoned
        again = sum(stop - start for start, stop in lost)
        return Federated(
            model,
            terms.final_ledger(server.rounds_done, server.times_asked, lost, caveats),
            tuple(server.history),
            terms,
            interrupted,
            terms.client_ledgers(server.times_asked, again, caveats),
            0 if interrupted else terms.rounds - server.rounds_done,
        )

    def _open_grid(self) -> InProcessGrid:
        """The grid of this process. Data that the model cannot take are refused before anything is spent.

        Data that are read by a function may be many, so only those of the first client are tried.
        """
        for client in range(self.population if self._is_listed else 1):
            self._work.open(client)
        return InProcessGrid(self.client_app, self.population)

    @cached_property
    def _plan(self) -> FederatedPlan:
        parts = {
            "training": self._training,
            "optimizer": self._optimizer,
            "sums": type(self._sums).__name__,
            "weights": self._weights,
            "seed": self._seed,
        }
        return FederatedPlan(self.terms, self.population, self._layout.size, parts)

    @cached_property
    def _work(self) -> ClientWork:
        return ClientWork(
            self._model,
            self._data,
            training=self._training,
            loss=self._loss,
            terms=self.terms,
            protocol=self.terms.protocol(self._sums),
            weights=self._weights,
            seed=self._seed,
            noise=self._noise,
            observers=[o for o in self._observers if o.place is Observer.PARTICIPANT],
        )

    def _caveats(self) -> frozenset[Caveat]:
        """The caveats of the noise, and of a large δ, of which ``settle`` has warned."""
        small = frozenset() if self._delta is None else delta_warning(self._delta, self.population)
        return self._noise.caveats | small


def _read_clients(clients: Sequence[object] | ClientData, population: int | None) -> tuple[ClientData, int]:
    """The data of a client by its number, and how many clients there are."""
    if isinstance(clients, Mapping | str) or not (callable(clients) or isinstance(clients, Sequence)):
        raise InvalidArgument(
            f"'clients' must be a list with the data of each client, or a function of a client's number, got "
            f"{type(clients).__name__}. privet.federated.partition makes the list from one data set."
        )
    if isinstance(clients, Sequence):
        if not clients or population not in (None, len(clients)):
            raise InvalidArgument(
                f"'clients' must have the data of {'at least one' if not clients else population} clients, "
                f"got {len(clients)}. Leave out 'population' for a list."
            )
        listed = clients
        return (lambda number: listed[number]), len(listed)
    if population is None:
        raise InvalidArgument(
            "'population' must be given if 'clients' is a function, got None. Give the number of clients."
        )
    return clients, whole("population", population)


def _scale_weights(weights: Sequence[float], population: int) -> list[float]:
    """The weights over their largest: then a clipped update times its weight keeps the clip bound."""
    if len(weights) != population:
        raise InvalidArgument(
            f"'weights' must have a number for each of the {population} clients, got {len(weights)}. Give "
            "public numbers."
        )
    largest = max(float(positive("weights", weight)) for weight in weights)
    return [float(weight) / largest for weight in weights]
