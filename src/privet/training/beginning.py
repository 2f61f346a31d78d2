"""How a run begins: the plan for what was asked, the same one in all processes, and the checkpoint that it goes on from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from torch import nn

from privet.adjacency import Adjacency
from privet.arguments import shown, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource, SeededNoise
from privet.training.augmentation import Augmentation
from privet.training.checkpoint import Checkpoint
from privet.training.clipping import Adaptive, Clip
from privet.training.correlated import Correlation
from privet.training.encoding import Encoding
from privet.training.noise_laws import NoiseLaw
from privet.training.plan import Plan
from privet.training.rows import Rows
from privet.training.sampling_schemes import PoissonSampling, Sampling
from privet.training.workers import Workers

__all__ = ["agreed_plan", "noise_after", "opened", "plan_for", "public_size"]

_MOST_STEPS = 10**7  # of a run that is given in epochs: 8 passes over 300 million examples in lots of 256


def plan_for(
    population: int,
    *,
    epsilon: float,
    delta: float,
    epochs: float | None,
    steps: int | None,
    lot_size: int | None,
    sampling: Sampling | None,
    clip: Clip,
    adjacency: Adjacency,
    correlation: Correlation,
    micro_batch: int | None,
    augmentation: Augmentation | None,
    law: NoiseLaw,
    encoding: Encoding | None,
    size_is_public: bool,
    added: int = 0,
) -> Plan:
    """The plan with the least noise for these wishes; Poisson lots of ``lot_size`` unless a sampling is given.

    ``added`` are places beside the population's own. A lot's size is meant without them: they leave the rate as it is.
    """
    if (sampling is None) == (lot_size is None):
        raise InvalidArgument(
            f"Exactly one of 'lot_size' and 'sampling' must be given, got {shown(lot_size)} and {shown(sampling)}. "
            f"Give the expected number of examples in a step."
        )
    if sampling is None:
        sampling = PoissonSampling(_lot(lot_size, population) / population)
    plan = Plan.calibrated(
        epsilon=epsilon,
        delta=delta,
        population=population + added,
        sampling=sampling,
        clip_bound=clip.bound,
        epochs=epochs,
        steps=steps,
        adjacency=adjacency,
        correlation=correlation,
        micro_batch=micro_batch,
        augmentations=1 if augmentation is None else augmentation.copies,
        law=law,
        encoding=encoding,
        size_is_public=size_is_public,
    )
    if steps is None and plan.steps > _MOST_STEPS:
        raise InvalidArgument(
            f"'epochs' and 'population' must make at most {_MOST_STEPS:,} steps, and make {plan.steps:,}, which no run ends. "
            f"Check both, or give a larger 'lot_size'."
        )
    if not isinstance(clip, Adaptive):
        return plan
    return replace(plan, adaptive=clip.rule(plan.expected_lot, plan.noise_multiplier))


def public_size(population: int | None, rows: Rows) -> int:
    """The number of examples that the plan is made for: the one that was declared, or that of the data."""
    return len(rows) if population is None else whole("population", population)


def agreed_plan(
    mine: Plan, caveats: frozenset[Caveat], model: nn.Module, workers: Workers, *rest: object
) -> tuple[Plan, frozenset[Caveat]]:
    """The leader's plan, the caveats of its noise, and its weights, in all processes.

    What was asked for must be the same everywhere, and so must ``rest``, which the plan does not say. The calibrated noise may
    differ in a last digit between machines.
    """
    shapes = [(name, tuple(value.shape)) for name, value in model.state_dict().items()], rest
    plan, noted, expected = workers.leaders((mine, caveats, shapes))
    with workers.agreed():
        if (
            replace(mine, noise_multiplier=plan.noise_multiplier, adaptive=plan.adaptive) != plan
            or shapes != expected
        ):
            raise InvalidArgument(
                "All processes must be given the same model, the same number of examples and the same settings, and this "
                "one has others than the first. Run the same program in each."
            )
    workers.align(model)
    return plan, noted


def opened(
    folder: str | Path | None,
    plan: Plan,
    caveats: frozenset[Caveat],
    workers: Workers,
    *,
    epsilon: float,
    delta: float,
) -> Checkpoint | None:
    """The checkpoint of a run, read by the leader and known to all."""
    if folder is None:
        return None
    kept = Checkpoint(folder, plan, epsilon=epsilon, delta=delta, caveats=caveats, writes=workers.leads)
    with workers.agreed():
        kept.__enter__()
    progress = workers.leaders(kept.progress())
    if not workers.leads:
        kept.follow(progress)
    return kept


def noise_after(noise: NoiseSource, kept: Checkpoint | None) -> NoiseSource:
    """The noise of a run that goes on: a seed would give that of its first steps again, so it is followed by another.

    The same noise on two steps is none on their difference, even to who does not know the seed. The new seed is a
    function of the old one and of where the run stands.
    """
    if kept is None or not isinstance(noise, SeededNoise):
        return noise
    step, _, journal, _, _ = kept.progress()
    if not step and not journal.abandoned:
        return noise
    root = np.random.SeedSequence((noise.seed, step, len(journal.abandoned)))
    return SeededNoise(int(root.generate_state(1, np.uint64)[0]))


def _lot(lot_size: int | None, population: int) -> int:
    size = whole("lot_size", 0 if lot_size is None else lot_size)
    if size > population:
        raise InvalidArgument(
            f"'lot_size' must not exceed the number of examples {population}, got {size}. Choose a smaller lot."
        )
    return size
