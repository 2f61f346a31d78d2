"""Reference models within a time: as many as were asked for, or as many as fit."""

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import final

from privet.arguments import positive
from privet.attacks.shadows import Recipe, Study, conduct
from privet.scores import Records

__all__ = ["Budget", "references_within"]

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
    records: Records,
    models: int,
    budget: Budget | None,
    *,
    seed: int,
    cache: Path | str | None,
    progress: bool,
) -> Study:
    """A study of ``models`` models, or of fewer where a budget does not allow as many.

    Rounds of twice as many models each, the earlier ones from the cache; the last is cut to what the time left allows. The
    number depends on time alone, never on what the models say.
    """
    if budget is None:
        return conduct(recipe, records, models, seed=seed, cache=cache, progress=progress)
    with TemporaryDirectory(prefix="privet-") as own:
        began, count = time.monotonic(), min(_FEWEST, models)
        while True:
            done = conduct(recipe, records, count, seed=seed, cache=cache or own, progress=progress)
            spent = time.monotonic() - began
            if count >= models:
                return done
            each = done.seconds / max(done.trained, 1) if done.trained else 0.0
            left = _SPARE * budget.seconds - spent
            more = models if each == 0 else count + 2 * int(left / each / 2)
            if more <= count:
                return done
            count = min(models, more, 2 * count if done.trained else models)
