"""A shadow study: many models like the target, the members of each, and the signals of each for every record.

Adversary: knows the recipe of the target and has records of the same kind, among which the target's own may
be. The reference models belong to the adversary. Signals and membership bits are stored, models are not.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, final

import numpy as np

from privet.arguments import whole
from privet.attacks.membership.signals import QueryTransform, identity
from privet.attacks.shadows.cache import Cache
from privet.attacks.shadows.choice import EngineChoice, choose
from privet.attacks.shadows.engine import Job, ModelSignals, Sequential, ShadowEngine
from privet.attacks.shadows.processes import WorkerFailed
from privet.attacks.shadows.progress import ShadowProgress
from privet.attacks.shadows.recipe import to_recipe
from privet.attacks.shadows.splits import MOST_MODELS, Halves, Split, model_seed
from privet.errors import InvalidArgument
from privet.scores import Records, References

__all__ = ["Study", "conduct", "study"]


@final
@dataclass(frozen=True, eq=False)
class Study:
    """The references, the engine that trained them, and the time that it took."""

    references: References
    choice: EngineChoice | None  # None where everything was cached
    trained: int
    reused: int
    seconds: float
    seconds_per_model: float = 0.0  # without the choice of an engine; 0 where nothing was trained

    def __str__(self) -> str:
        how = "nothing was trained" if self.choice is None else f"trained by {self.choice}"
        return (
            f"{self.references.models} shadow models, {self.reused} of them from the cache, in "
            f"{self.seconds:.1f} s; {how}"
        )


def study(
    recipe: object,
    records: Records,
    models: int = 16,
    *,
    seed: int,
    split: Split | None = None,
    cache: Path | str | None = None,
    engine: ShadowEngine | None = None,
    queries: Sequence[QueryTransform] = (identity,),
    keep_confidences: bool = False,
    progress: bool = True,
) -> References:
    """Train ``models`` shadow models on parts of the records and ask each about all of them.

    ``recipe`` is a ``Recipe``, a function ``train(inputs, labels, seed)``, or an unfitted scikit-learn
    classifier or regressor.

    ``split`` is ``Halves()`` unless another is given. With a ``cache`` folder a finished model is never
    trained again, neither after a kill nor for a study with more models; a changed recipe or record is
    trained anew. ``engine`` is picked by a short measurement unless one is given; ``conduct`` also says
    which. Ctrl-C ends it; finished models stay in the cache.
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
    recipe: object,
    records: Records,
    models: int = 16,
    *,
    seed: int,
    split: Split | None = None,
    cache: Path | str | None = None,
    engine: ShadowEngine | None = None,
    queries: Sequence[QueryTransform] = (identity,),
    keep_confidences: bool = False,
    progress: bool = True,
    stream: TextIO | None = None,
) -> Study:
    """``study``, and beside the references which engine was picked, why, and how many models came from the
    cache.
    """
    started = time.monotonic()
    job = _prepare_job(recipe, records, models, seed, split or Halves(), tuple(queries), keep_confidences)
    store = None if cache is None else Cache(Path(cache), job)
    signals: dict[int, ModelSignals] = {}
    if store is not None:
        cached = (store.get(model) for model in range(models))
        signals = {answer.model: answer for answer in cached if answer is not None}
    reused = len(signals)
    choice, seconds_per_model = None, 0.0
    if reused < models:
        choice, seconds_per_model = _train(job, store, signals, engine, progress, stream)
    references = _collect_references(job, signals).about(records)
    return Study(references, choice, models - reused, reused, time.monotonic() - started, seconds_per_model)


def _prepare_job(
    recipe: object,
    records: Records,
    models: int,
    seed: int,
    split: Split,
    queries: tuple[QueryTransform, ...],
    keep_confidences: bool,
) -> Job:
    whole("models", models, most=MOST_MODELS)
    whole("seed", seed, least=0)
    if not queries:
        raise InvalidArgument("'queries' must hold at least one query, got none. Give (identity,).")
    labels = records.known_labels
    query_inputs = tuple(np.asarray(query(records.inputs)) for query in queries)
    if any(rows.ndim == 0 or len(rows) != len(records) for rows in query_inputs):
        raise InvalidArgument(
            "'queries' must give one row for each record, got another number. Change the rows, and keep "
            "their number."
        )
    members = split.members(models, len(records), seed)
    if not members.any(axis=1).all():
        raise InvalidArgument(
            "'records' must be enough for every model to have a member, got too few. Give more records."
        )
    return Job(
        recipe=to_recipe(recipe).naming(records.columns),
        inputs=records.inputs,
        labels=labels,
        members=members,
        seeds=tuple(model_seed(seed, model) for model in range(models)),
        query_inputs=query_inputs,
        keep_confidences=keep_confidences,
    )


def _train(
    job: Job,
    store: Cache | None,
    signals: dict[int, ModelSignals],
    engine: ShadowEngine | None,
    progress: bool,
    stream: TextIO | None,
) -> tuple[EngineChoice, float]:
    """Train the models that have no signals yet.

    Gives the engine that was used and the seconds for one model.
    """

    def list_missing() -> list[int]:
        return [model for model in range(len(job.members)) if model not in signals]

    def save(answer: ModelSignals) -> None:
        if store is not None:
            store.put(answer)
        signals[answer.model] = answer

    started = time.monotonic()
    choice = choose(job, list_missing()) if engine is None else _use_engine(engine, job)
    if choice.first is not None:
        save(choice.first)
    if not list_missing():
        return choice, time.monotonic() - started
    started, count = time.monotonic(), len(list_missing())
    with ShadowProgress(len(list_missing()), choice.engine.name, shown=progress, stream=stream) as bar:
        try:
            for answer in choice.engine.run(job, list_missing(), bar.tick):
                save(answer)
            return choice, (time.monotonic() - started) / count
        except WorkerFailed as failed:
            reason = f"{choice.engine.name} failed: {failed}"
    with ShadowProgress(len(list_missing()), Sequential().name, shown=progress, stream=stream) as bar:
        for answer in Sequential().run(job, list_missing(), bar.tick):
            save(answer)
    return EngineChoice(Sequential(), reason, choice.estimates), (time.monotonic() - started) / count


def _use_engine(engine: ShadowEngine, job: Job) -> EngineChoice:
    refusal = engine.refusal(job)
    if refusal is None:
        return EngineChoice(engine, "it was asked for")
    return EngineChoice(Sequential(), f"{engine.name} cannot do it: {refusal}")


def _collect_references(job: Job, signals: dict[int, ModelSignals]) -> References:
    answers = [signals[model] for model in range(len(job.members))]
    confidences = None
    if job.keep_confidences:
        tables = [answer.log_confidences for answer in answers if answer.log_confidences is not None]
        widest = max(table.shape[1] for table in tables)
        confidences = np.full((len(answers), len(job.labels), widest), -np.inf)
        for model, answer in enumerate(answers):
            if answer.log_confidences is not None:
                confidences[model, :, : answer.log_confidences.shape[1]] = answer.log_confidences
    return References(
        np.stack([answer.signals for answer in answers]),
        job.members,
        confidences,
        softened=np.stack([answer.softened for answer in answers], axis=1),
    )
