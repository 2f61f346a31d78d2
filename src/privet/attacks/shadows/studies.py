"""A shadow study: many models like the target, who was a member of which, and what each says of every record.

Adversary: knows the recipe of the target and has records of the same kind, some of them the target's own or not; the
reference models are theirs. Signals and membership bits are kept, models are not.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, final

import numpy as np

from privet.arguments import whole
from privet.attacks.shadows.cache import Cache
from privet.attacks.shadows.choice import Choice, choose
from privet.attacks.shadows.engine import Engine, Job, Sequential, Told
from privet.attacks.shadows.processes import WorkerFailed
from privet.attacks.shadows.progress import Bar
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.splits import MOST_MODELS, Halves, Split, model_seed
from privet.attacks.signals import Query, identity
from privet.errors import InvalidArgument
from privet.scores import Records, References

__all__ = ["Study", "conduct", "study"]


@final
@dataclass(frozen=True, eq=False)
class Study:
    """The references, and how they came about."""

    references: References
    choice: Choice | None  # None where everything was cached
    trained: int
    reused: int
    seconds: float
    each: float = 0.0  # seconds for one model, without the choice of an engine; 0 where nothing was trained

    def __str__(self) -> str:
        how = "nothing was trained" if self.choice is None else f"trained by {self.choice}"
        return f"{self.references.models} shadow models, {self.reused} of them from the cache, in {self.seconds:.1f} s; {how}"


def study(
    recipe: Recipe,
    records: Records,
    models: int = 16,
    *,
    seed: int,
    split: Split | None = None,
    cache: Path | str | None = None,
    engine: Engine | None = None,
    queries: Sequence[Query] = (identity,),
    keep_confidences: bool = False,
    progress: bool = True,
) -> References:
    """Train ``models`` shadow models on parts of the records and ask each about all of them.

    ``split`` is ``Halves()`` unless another is given. With a ``cache`` folder, what was finished is never trained again: not
    after a kill, nor for a study with more models; and anything that changes is. ``engine`` is picked by a short
    measurement unless one is given; ``conduct`` also says which. Ctrl-C ends it; finished models stay in the cache.
    """
    return conduct(
        recipe,
        records,
        models,
        seed=seed,
        split=split,
        cache=cache,
        engine=engine,
        queries=queries,
        keep_confidences=keep_confidences,
        progress=progress,
    ).references


def conduct(
    recipe: Recipe,
    records: Records,
    models: int = 16,
    *,
    seed: int,
    split: Split | None = None,
    cache: Path | str | None = None,
    engine: Engine | None = None,
    queries: Sequence[Query] = (identity,),
    keep_confidences: bool = False,
    progress: bool = True,
    stream: TextIO | None = None,
) -> Study:
    """As ``study``, and says which engine was picked and why, and how many models came from the cache."""
    began = time.monotonic()
    job = _job(recipe, records, models, seed, split or Halves(), tuple(queries), keep_confidences)
    kept = None if cache is None else Cache(Path(cache), job)
    found: dict[int, Told] = {}
    if kept is not None:
        old = (kept.get(model) for model in range(models))
        found = {told.model: told for told in old if told is not None}
    reused = len(found)
    choice, each = None, 0.0
    if reused < models:
        choice, each = _train(job, kept, found, engine, progress, stream)
    told = _references(job, found).about(records)
    return Study(told, choice, models - reused, reused, time.monotonic() - began, each)


def _job(
    recipe: Recipe,
    records: Records,
    models: int,
    seed: int,
    split: Split,
    queries: tuple[Query, ...],
    keep_confidences: bool,
) -> Job:
    whole("models", models, most=MOST_MODELS)
    whole("seed", seed, least=0)
    if not queries:
        raise InvalidArgument("'queries' must hold at least one query, got none. Give (identity,).")
    labels = records.known_labels
    shown = tuple(np.asarray(query(records.inputs)) for query in queries)
    if any(rows.ndim == 0 or len(rows) != len(records) for rows in shown):
        raise InvalidArgument(
            "'queries' must give one row for each record, got another number. Change the rows, and keep their number."
        )
    members = split.members(models, len(records), seed)
    if not members.any(axis=1).all():
        raise InvalidArgument(
            "'records' must be enough for every model to have a member, got too few. Give more records."
        )
    return Job(
        recipe=recipe,
        inputs=records.inputs,
        labels=labels,
        members=members,
        seeds=tuple(model_seed(seed, model) for model in range(models)),
        shown=shown,
        keep_confidences=keep_confidences,
    )


def _train(
    job: Job,
    kept: Cache | None,
    found: dict[int, Told],
    engine: Engine | None,
    progress: bool,
    stream: TextIO | None,
) -> tuple[Choice, float]:
    """Train what is not found; the engine that was taken, and the seconds that one model took."""

    def left() -> list[int]:
        return [model for model in range(len(job.members)) if model not in found]

    def keep(told: Told) -> None:
        if kept is not None:
            kept.put(told)
        found[told.model] = told

    began = time.monotonic()
    choice = choose(job, left()) if engine is None else _asked_for(engine, job)
    if choice.first is not None:
        keep(choice.first)
    if not left():
        return choice, time.monotonic() - began
    began, count = time.monotonic(), len(left())
    with Bar(len(left()), choice.engine.name, shown=progress, stream=stream) as bar:
        try:
            for told in choice.engine.run(job, left(), bar.tick):
                keep(told)
            return choice, (time.monotonic() - began) / count
        except WorkerFailed as failed:
            reason = f"{choice.engine.name} failed: {failed}"
    with Bar(len(left()), Sequential().name, shown=progress, stream=stream) as bar:
        for told in Sequential().run(job, left(), bar.tick):
            keep(told)
    return Choice(Sequential(), reason, choice.estimates), (time.monotonic() - began) / count


def _asked_for(engine: Engine, job: Job) -> Choice:
    refusal = engine.refusal(job)
    if refusal is None:
        return Choice(engine, "it was asked for")
    return Choice(Sequential(), f"{engine.name} cannot do it: {refusal}")


def _references(job: Job, found: dict[int, Told]) -> References:
    told = [found[model] for model in range(len(job.members))]
    confidences = None
    if job.keep_confidences:
        widest = max(one.log_confidences.shape[1] for one in told if one.log_confidences is not None)
        confidences = np.full((len(told), len(job.labels), widest), -np.inf)
        for place, one in enumerate(told):
            if one.log_confidences is not None:
                confidences[place, :, : one.log_confidences.shape[1]] = one.log_confidences
    return References(np.stack([one.signals for one in told]), job.members, confidences)
