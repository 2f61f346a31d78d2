"""The server's rounds: draw a cohort, collect a sum, write down what it costs, add noise, and step.

The order within a round is the proof that nothing is under-reported. The journal is on disk before the noise
is drawn. The new weights are on disk before they leave: to observers, to ``watch``, or to the clients of the
next round.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from privet.caveats import Caveat
from privet.errors import NotProved
from privet.federated.collecting import Collected, Collector, VectorLimits
from privet.federated.history import RoundRecord
from privet.federated.messages import WeightsRecord
from privet.federated.model_layout import ModelLayout
from privet.federated.server_noise import ServerNoise
from privet.federated.server_optimizers import ServerOptimizer
from privet.federated.terms import Terms
from privet.observed_rounds import ObservedMessage, ObservedRound, Observer, RoundObserver, Weights
from privet.randomness import NoiseSource
from privet.training.sampling.batch_sampler import BatchSampler, ShuffledBatchSampler

__all__ = ["ServerRun"]


@final
class ServerRun:
    """The state of the server: weights, optimiser, noise, and how many rounds were done.

    Args:
        model: the model whose weights are the first ones. It is changed only when ``watch`` is called, and at
            the end.
        terms: what was settled for the run.
        population: the number of clients.
        optimizer: what is done with the mean update.
        weights: public weights of the clients, the largest being 1; None for all alike.
        noise: the source of cohorts and noise.
        observers: adversaries who watch.
        watch: a function of the model that uses public data only.
    """

    def __init__(
        self,
        model: nn.Module,
        terms: Terms,
        population: int,
        optimizer: ServerOptimizer,
        weights: Sequence[float] | None,
        noise: NoiseSource,
        observers: Sequence[RoundObserver],
        watch: Callable[[nn.Module], float] | None,
    ) -> None:
        self._model, self.layout = model, ModelLayout(model)
        self._terms, self._population, self._optimizer = terms, population, optimizer
        self._client_weights, self._observers, self._watch = weights, observers, watch
        self._altering = [
            observer
            for observer in observers
            if observer.place is Observer.SERVER and type(observer).alter is not RoundObserver.alter
        ]
        self.vector = self.layout.read(model)
        self.optimizer_state = optimizer.make_state(self.layout.size)
        self.noise = ServerNoise(terms, self.layout.size, noise)
        self.sampler: BatchSampler = terms.sampling.make_sampler(population, noise)
        self.times_asked = torch.zeros(population, dtype=torch.int64)
        self.rounds_done = 0
        self.history: list[RoundRecord] = []
        self.caveats: frozenset[Caveat] = frozenset()  # of the sum protocol

    def draw_cohort(self) -> list[int]:
        """The clients of the next round. *Leaks*: they must stay secret if the sampling amplifies."""
        drawn = self.sampler.draw()
        self.times_asked[drawn] += 1
        cohort: list[int] = drawn.tolist()
        return cohort

    def collect(self, collector: Collector, cohort: Sequence[int]) -> Collected:
        """The sum of the next round."""
        number, bound = self.rounds_done + 1, self.noise.bound
        limits = VectorLimits(
            size=self.layout.size,
            norm=math.inf if self._terms.local_deviation else bound,
            weights=self._client_weights,
        )
        return collector.collect(
            number,
            cohort,
            self.layout.size + self.noise.extra_numbers,
            0.0 if bound is None else bound,
            self._prepare_weights(number, cohort),
            limits,
        )

    def step(self, collected: Collected, seconds: float, asked: int) -> None:
        """Add the noise, and change the weights. What this costs must have been written down before."""
        number, result = self.rounds_done + 1, collected.result
        bound = self.noise.bound
        contributors = () if result is None else result.contributors
        if result is not None and len(contributors) < self._terms.least_contributors:
            raise NotProved(
                f"The protocol opened the sum of round {number} with {len(contributors)} contributors, and "
                f"its noise needs {self._terms.least_contributors}. The ledger does not cover this round. "
                "Use a protocol that opens no such sum."
            )
        self.rounds_done = number
        if result is not None:
            self.caveats |= result.caveats
        if result is not None and (contributors or self.noise.is_central):
            update = self.noise.release(result.total, self._divide_by(contributors))
            self._optimizer.apply(self.vector, update, self.optimizer_state, number)
        self.history.append(
            RoundRecord(
                number=number,
                asked=asked,
                contributors=len(contributors),
                dropped=() if result is None else tuple(sorted(result.dropped)),
                refused=collected.refused,
                failure=collected.failure,
                clip_bound=bound,
                seconds=seconds,
            )
        )

    @property
    def can_save(self) -> bool:
        """Whether a run can resume from here: shuffled cohorts only where a new shuffle begins."""
        sampler = self.sampler
        return not isinstance(sampler, ShuffledBatchSampler) or self.rounds_done % sampler.lots_per_epoch == 0

    def state(self) -> dict[str, Any]:
        """Everything that ``resume`` needs. Keep it as secret as what a server knows."""
        stream = self.noise.stream
        return {
            "weights": self.vector,
            "optimizer": self.optimizer_state,
            "bound": self.noise.bound,
            "noise": None if stream is None else stream.state(),
            "rounds": self.rounds_done,
            "sampler": self.sampler.state(),
            "times_asked": self.times_asked,
            "caveats": sorted(caveat.code for caveat in self.caveats),
            "history": [asdict(record) for record in self.history],
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``."""
        self.vector = state["weights"]
        self.optimizer_state = state["optimizer"]
        self.noise.resume(state["bound"])
        if self.noise.stream is not None:
            self.noise.stream.resume(state["noise"])
        self.rounds_done = state["rounds"]
        self.sampler.resume(self.rounds_done)
        self.sampler.restore(state["sampler"])
        self.times_asked = state["times_asked"]
        self.caveats = frozenset(Caveat[code] for code in state["caveats"])
        self.history = [RoundRecord(**row) for row in state["history"]]

    def load(self) -> nn.Module:
        """The model with the present weights."""
        self.layout.write(self.vector, self._model)
        return self._model

    def show(self, before: Tensor, collected: Collected, cohort: Sequence[int]) -> None:
        """Show the last round to each observer, as far as its place sees it."""
        if not self._observers:
            return
        number, result = self.rounds_done, collected.result
        weights = self.layout.name_weights(before)
        opened = {} if result is None or result.opened is None else result.opened
        for observer in self._observers:
            if observer.place is Observer.PARTICIPANT:
                if not observer.controls or observer.controls & set(cohort):
                    observer.observe(ObservedRound(number=number, weights=weights, participants=()))
                continue
            messages = tuple(
                ObservedMessage(
                    client=client,
                    update=self._name(opened[client]) if client in opened else None,
                    payload=payload,
                )
                for client, payload in sorted(collected.payloads.items())
            )
            observer.observe(
                ObservedRound(
                    number=number,
                    weights=weights,
                    participants=() if result is None else tuple(sorted(result.contributors)),
                    messages=messages,
                    total=None if result is None else self._name(result.total),
                )
            )

    def watch(self) -> None:
        """Put what ``watch`` returns into the record of the last round."""
        if self._watch is None:
            return
        model = self.load()
        training = model.training
        model.eval()
        try:
            watched = float(self._watch(model))
        finally:
            model.train(training)
        self.history[-1] = replace(self.history[-1], watched=watched)

    def _name(self, vector: np.ndarray) -> Weights:
        return self.layout.name_weights(vector[: self.layout.size])

    def _prepare_weights(self, number: int, cohort: Sequence[int]) -> Mapping[int, WeightsRecord]:
        same = WeightsRecord(self.vector)
        if not self._altering:
            return dict.fromkeys(cohort, same)
        sent: dict[int, WeightsRecord] = {}
        named = self.layout.name_weights(self.vector)
        for client in cohort:
            altered = named
            for observer in self._altering:
                altered = observer.alter(number, client, altered)
            if altered is named:
                sent[client] = same
            else:
                sent[client] = WeightsRecord(torch.from_numpy(self.layout.join_weights(altered)).float())
        return sent

    def _divide_by(self, contributors: Sequence[int]) -> float:
        weights = self._client_weights
        mean_weight = 1.0 if weights is None else sum(weights) / self._population
        contributed = (
            len(contributors) if weights is None else sum(weights[client] for client in contributors)
        )
        return self._terms.divisor(self._population, mean_weight, float(contributed))
