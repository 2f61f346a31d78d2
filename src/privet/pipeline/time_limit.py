"""Reference models of the target's size, as many as were asked for or as many as fit within a time."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.arguments import positive
from privet.attacks.membership.white_box import Shadow
from privet.attacks.shadows import HalvesBesideRest, Recipe, Study, conduct
from privet.attacks.shadows.whole_models import train_shadows
from privet.pipeline.records import Asked
from privet.private_folders import private_folder
from privet.views import BlackBox, Labels, Rows

__all__ = ["Budget", "references_within", "shadows_for"]

_FEWEST = 2
_SPARE = 0.8  # of the time that is left: the attacks and bounds take some too


@final
@dataclass(frozen=True)
class Budget:
    """How long reference models may take to train. What is finished when it runs out is used."""

    seconds: float

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)


def references_within(
    recipe: Recipe,
    asked: Asked,
    models: int,
    budget: Budget | None,
    *,
    seed: int,
    cache: Path | str | None,
    keep_confidences: bool = False,
    progress: bool,
) -> Study:
    """A study of ``models`` models, or of fewer where a budget does not allow as many.

    Each model is trained on as many records as the target: on half of the records that are judged, and on all members that are
    not judged. So references are no smaller than the target, whose behaviour depends on its size, and each judged record is in
    half of them. The references tell of all records that were trained on; ``aligned`` takes those that are judged.

    Rounds of twice as many models each, the earlier ones from the cache; the last is cut to what the time left allows. The
    number depends on time alone, never on what the models say.
    """

    if budget is not None and cache is None and recipe.description() is None:
        recipe = _SameRecipe(recipe)

    def study(count: int, folder: Path | str | None) -> Study:
        return conduct(
            recipe,
            asked.pool,
            count,
            seed=seed,
            split=HalvesBesideRest(len(asked.challenge.records)),
            cache=folder,
            keep_confidences=keep_confidences,
            progress=progress,
        )

    if budget is None:
        return study(models, cache)
    with private_folder() as own:
        began, count = time.monotonic(), min(_FEWEST, models)
        while True:
            done = study(count, cache or own)
            spent = time.monotonic() - began
            if count >= models:
                return done
            left = _SPARE * budget.seconds - spent
            more = (
                models
                if done.seconds_per_model == 0
                else count + 2 * int(max(left, 0.0) / done.seconds_per_model / 2)
            )
            if more <= count:
                return done
            count = min(models, more, 2 * count if done.trained else models)


@final
@dataclass(frozen=True, eq=False)
class _SameRecipe(Recipe):
    """A recipe that nobody can describe, within one run: there it is the same, and rounds may use each other's models."""

    recipe: Recipe

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        return self.recipe.fit(inputs, labels, seed)

    def description(self) -> str:
        return "of this run"


def shadows_for(recipe: Recipe, asked: Asked, *, seed: int) -> tuple[Shadow, ...]:
    """Two shadow models of the target's size, kept whole."""
    judged = len(asked.challenge.records)
    return train_shadows(recipe, asked.pool, judged=judged, split=HalvesBesideRest(judged), seed=seed)
