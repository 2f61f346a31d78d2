"""Reference models of the target's size: as many as were asked for, or as many as a time limit allows."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.arguments import format_value, positive
from privet.attacks.membership.white_box import Shadow
from privet.attacks.shadows import HalvesBesideRest, Recipe, Study, conduct
from privet.attacks.shadows.whole_models import train_shadows
from privet.errors import InvalidArgument
from privet.frame_columns import FrameColumns
from privet.pipeline.records import ShuffledChallenge
from privet.private_folders import private_folder
from privet.views import BlackBox, Labels, Rows

__all__ = ["TimeLimit", "train_references", "train_white_box_shadows"]

_FEWEST = 2
_SPARE = 0.8  # of the time that is left: the attacks and bounds take some time too
_UNITS = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}


@final
@dataclass(frozen=True)
class TimeLimit:
    """How long the training of reference models may take. Models that are finished by then are used."""

    seconds: float

    def __post_init__(self) -> None:
        positive("seconds", self.seconds)

    @classmethod
    def of(cls, value: "TimeLimit | float | str", name: str = "time_limit") -> "TimeLimit":
        """From a number of seconds, or from text with a unit.

        >>> TimeLimit.of("10min"), TimeLimit.of("1.5 h"), TimeLimit.of(90)
        (TimeLimit(seconds=600.0), TimeLimit(seconds=5400.0), TimeLimit(seconds=90.0))
        """
        if isinstance(value, TimeLimit):
            return value
        seconds = math.nan
        if isinstance(value, str):
            number = value.rstrip("abcdefghijklmnopqrstuvwxyz ")
            try:
                seconds = float(number) * _UNITS[value[len(number) :].strip() or "s"]
            except (ValueError, KeyError):
                seconds = math.nan
        elif isinstance(value, int | float) and not isinstance(value, bool):
            seconds = float(value)
        if not 0 < seconds < math.inf:
            raise InvalidArgument(
                f"'{name}' must be a time above 0 such as 90, '90s', '10min' or '2h', got "
                f"{format_value(value)}. Give seconds, or a number and a unit."
            )
        return cls(seconds)


def train_references(
    recipe: Recipe,
    challenge: ShuffledChallenge,
    models: int,
    time_limit: TimeLimit | None,
    *,
    seed: int,
    cache: Path | str | None,
    keep_confidences: bool = False,
    progress: bool,
) -> Study:
    """A study of ``models`` models, or of fewer where the time limit does not allow as many.

    Each model is trained on as many records as the target: on half of the judged records, and on all members
    that are not judged. So references are as large as the target, whose behaviour depends on its size, and
    each judged record is in half of them. The references cover all records that were trained on;
    ``References.align`` picks those that are judged.

    The study runs in rounds, each with twice as many models, the earlier ones from the cache. The last round
    is cut to the time that is left. The number of models depends on time alone, never on the signals of the
    models.
    """
    if time_limit is not None and cache is None and recipe.description() is None:
        recipe = _SameRecipe(recipe)

    def run_study(count: int, folder: Path | str | None) -> Study:
        return conduct(
            recipe,
            challenge.pool,
            count,
            seed=seed,
            split=HalvesBesideRest(len(challenge.challenge.records)),
            cache=folder,
            keep_confidences=keep_confidences,
            progress=progress,
        )

    if time_limit is None:
        return run_study(models, cache)
    with private_folder() as own_folder:
        started, count = time.monotonic(), min(_FEWEST, models)
        while True:
            study = run_study(count, cache or own_folder)
            elapsed = time.monotonic() - started
            if count >= models:
                return study
            left, each = _SPARE * time_limit.seconds - elapsed, study.seconds_per_model
            affordable = models if each == 0 else count + 2 * int(max(left, 0.0) / each / 2)
            if affordable <= count:
                return study
            count = min(models, affordable, 2 * count if study.trained else models)


@final
@dataclass(frozen=True, eq=False)
class _SameRecipe(Recipe):
    """A recipe without a description does not change within one run, so rounds may share models."""

    recipe: Recipe

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        return self.recipe.fit(inputs, labels, seed)

    def naming(self, columns: FrameColumns | None) -> "_SameRecipe":
        return _SameRecipe(self.recipe.naming(columns))

    def description(self) -> str:
        return "of this run"


def train_white_box_shadows(recipe: Recipe, challenge: ShuffledChallenge, *, seed: int) -> tuple[Shadow, ...]:
    """Two shadow models of the target's size, with their parameters."""
    judged = len(challenge.challenge.records)
    return train_shadows(recipe, challenge.pool, judged=judged, split=HalvesBesideRest(judged), seed=seed)
