"""An engine for a Ray cluster that is already running. Privet starts none, and does not depend on Ray."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from privet.attacks.shadows.engine import Job, ModelSignals, Sequential, ShadowEngine, Tick
from privet.errors import InvalidArgument

__all__ = ["Ray", "cluster_size"]


def cluster_size() -> int:
    """The cores of the cluster that this program is connected to; 0 without a cluster."""
    ray = sys.modules.get("ray")  # a program that never imported it is not connected
    if ray is None or not ray.is_initialized():
        return 0
    return int(ray.cluster_resources().get("CPU", 0))


@final
@dataclass(frozen=True)
class Ray(ShadowEngine):
    """Each model is one task of the cluster; the records are sent once."""

    @property
    def name(self) -> str:
        return f"Ray, {cluster_size()} cores"

    def refusal(self, job: Job) -> str | None:
        return None if cluster_size() else "no Ray cluster is initialised"

    def run(self, job: Job, models: Sequence[int], tick: Tick) -> Iterator[ModelSignals]:
        if (reason := self.refusal(job)) is not None:
            raise InvalidArgument(
                f"'engine' must be able to do the job, and Ray is not: {reason}. Call ray.init() first."
            )
        ray: Any = sys.modules["ray"]
        task = ray.remote(_train_one)
        stored_job = ray.put(job)
        running = [task.remote(stored_job, model) for model in models]
        try:
            while running:
                done, running = ray.wait(running, num_returns=1)
                for answer in ray.get(done):
                    yield answer
                    tick(1.0)
        finally:
            for unfinished in running:
                ray.cancel(unfinished)


def _train_one(job: Job, model: int) -> ModelSignals:
    (answer,) = Sequential().run(job, [model], lambda _done: None)
    return answer
