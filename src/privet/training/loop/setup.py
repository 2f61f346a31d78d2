"""Prepare a run: the plan, which all processes share, the optimiser, the checkpoint and the private loop.

``train`` and ``make_private`` check model and data, and then call ``prepare_run``.
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from privet.arguments import format_value, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.guarantees import delta_warning
from privet.randomness import NoiseSource, SeededNoise
from privet.training.canaries.kinds import resolve_canaries
from privet.training.clipping import Adaptive
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.distributed import ProcessGroup
from privet.training.loop.inputs import default_lot_size
from privet.training.loop.optimization import make_optimizer, make_scheduler
from privet.training.loop.options import RunOptions
from privet.training.loop.private_loop import PrivateLoop
from privet.training.plan import TrainingPlan, steps_for
from privet.training.sampling.examples import Examples
from privet.training.sampling.schemes import PoissonSampling

__all__ = ["PreparedRun", "make_plan", "prepare_run", "renew_seed"]

# The limit for a run that is given in epochs: 8 passes over 300 million examples in lots of 256.
_MOST_STEPS = 10**7


@final
@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A run that is ready for its first step."""

    loop: PrivateLoop
    scheduler: LRScheduler | None
    checkpoint: Checkpoint | None
    process_group: ProcessGroup


def prepare_run(model: nn.Module, examples: Examples, options: RunOptions) -> PreparedRun:
    """Prepare a run of this model on these examples. The caller must close the loop.

    What one process refuses, all of them refuse, before a checkpoint is opened.
    """
    group = options.process_group
    canaries = resolve_canaries(options.canaries, group)
    with group.all_or_none():
        _require_weights(model)
        size, before = _public_size(options.population, examples), len(examples)
        if canaries is not None:
            examples = canaries.insert_into(examples, model)
        plan = make_plan(size, options, added=len(examples) - before)
        optimizer = make_optimizer(model, options.optimizer, plan)
        scheduler = make_scheduler(options.schedule, optimizer)
    plan, caveats = _broadcast_plan(plan, len(examples), model, options)
    checkpoint = _open_checkpoint(plan, caveats, options)
    try:
        with group.all_or_none():
            loop = PrivateLoop(
                model,
                optimizer,
                examples,
                plan,
                options.clip,
                noise=renew_seed(options.noise, checkpoint),
                augmentation=options.augmentation,
                average=options.average,
                denoising=options.denoising,
                checkpoint=checkpoint,
                process_group=group,
                caveats=caveats,
            )
    except BaseException:
        if checkpoint is not None:
            checkpoint.close()
        raise
    return PreparedRun(loop, scheduler, checkpoint, group)


def _require_weights(model: nn.Module) -> None:
    """A model on "meta" has shapes and no numbers."""
    if any(parameter.is_meta for parameter in model.parameters()):
        raise InvalidArgument(
            "'model' must have weights, got parameters on 'meta'. Load them first, or build it on its device."
        )


def make_plan(population: int, options: RunOptions, *, added: int = 0) -> TrainingPlan:
    """Make the plan with the least noise for these options; Poisson lots unless a sampling scheme is given.

    ``added`` is the number of slots in addition to the population. The lot size does not count them: they do
    not change the sampling rate.
    """
    if options.sampling is not None and options.lot_size is not None:
        raise InvalidArgument(
            f"Only one of 'lot_size' and 'sampling' must be given, got {format_value(options.lot_size)} and "
            f"{format_value(options.sampling)}. Leave out 'lot_size'; the sampling scheme has it."
        )
    sampling, clip = options.sampling, options.clip
    if sampling is None:
        lot_size = default_lot_size(population) if options.lot_size is None else options.lot_size
        sampling = PoissonSampling(_require_lot_size(lot_size, population) / population)
    if options.steps is None and options.epochs is not None:
        _require_an_end(steps_for(options.epochs, population + added, sampling))
    plan = TrainingPlan.calibrated(
        epsilon=options.epsilon,
        delta=options.delta,
        population=population + added,
        sampling=sampling,
        clip_bound=clip.bound,
        epochs=options.epochs,
        steps=options.steps,
        adjacency=options.adjacency,
        correlation=options.correlation,
        micro_batch=options.micro_batch,
        augmentations=1 if options.augmentation is None else options.augmentation.copies,
        noise_distribution=options.noise_distribution,
        encoding=options.encoding,
        size_is_public=options.population is not None,
    )
    if not isinstance(clip, Adaptive):
        return plan
    return replace(plan, adaptive=clip.quantile_clip(plan.expected_lot, plan.noise_multiplier))


def _require_an_end(steps: int) -> None:
    """Refuse more steps than a run can take, before the noise for them is sought, which takes seconds."""
    if steps > _MOST_STEPS:
        raise InvalidArgument(
            f"'epochs' and 'population' must make at most {_MOST_STEPS:,} steps, and make {steps:,}, "
            f"which no run ends. Check both, or give a larger 'lot_size'."
        )


def _public_size(population: int | None, examples: Examples) -> int:
    """The number of examples that the plan uses: the declared number, or that of the data."""
    return len(examples) if population is None else whole("population", population)


def _broadcast_plan(
    plan: TrainingPlan, examples: int, model: nn.Module, options: RunOptions
) -> tuple[TrainingPlan, frozenset[Caveat]]:
    """Give all processes the leader's plan, caveats and weights.

    The options must be the same in all processes. The calibrated noise may differ in a last digit between
    machines.
    """
    group = options.process_group
    caveats = options.noise.caveats | delta_warning(options.delta, plan.population)
    shapes = [(name, tuple(value.shape)) for name, value in model.state_dict().items()]
    extras = options.checkpoint is None, options.average is None, options.denoising is None
    description = shapes, examples, options.clip, extras
    leader_plan, leader_caveats, leader_description = group.broadcast_object((plan, caveats, description))
    with group.all_or_none():
        same_noise = replace(
            plan, noise_multiplier=leader_plan.noise_multiplier, adaptive=leader_plan.adaptive
        )
        if same_noise != leader_plan or description != leader_description:
            raise InvalidArgument(
                "All processes must have the same model, the same number of examples and the same options, "
                "and this process differs from the first one. Run the same program in each."
            )
    group.broadcast_model(model)
    return leader_plan, leader_caveats


def _open_checkpoint(
    plan: TrainingPlan, caveats: frozenset[Caveat], options: RunOptions
) -> Checkpoint | None:
    """Open the checkpoint of a run. The leader reads it, and all processes get its progress."""
    if options.checkpoint is None:
        return None
    group = options.process_group
    checkpoint = Checkpoint(
        options.checkpoint,
        plan,
        epsilon=options.epsilon,
        delta=options.delta,
        caveats=caveats,
        writes=group.is_leader,
    )
    with group.all_or_none():
        checkpoint.__enter__()
    progress = group.broadcast_object(checkpoint.progress())
    if not group.is_leader:
        checkpoint.follow(progress)
    return checkpoint


def renew_seed(noise: NoiseSource, checkpoint: Checkpoint | None) -> NoiseSource:
    """The noise of a run that resumes: a seed is replaced by a new one.

    The same seed would repeat the noise of the first steps. If two steps have the same noise, their
    difference has none, even for somebody who does not know the seed. The new seed is a function of the old
    one and of the progress of the run.
    """
    if checkpoint is None or not isinstance(noise, SeededNoise):
        return noise
    step, _, journal, _, _ = checkpoint.progress()
    if not step and not journal.abandoned:
        return noise
    root = np.random.SeedSequence((noise.seed, step, len(journal.abandoned)))
    return SeededNoise(int(root.generate_state(1, np.uint64)[0]))


def _require_lot_size(lot_size: int, population: int) -> int:
    if whole("lot_size", lot_size) > population:
        raise InvalidArgument(
            f"'lot_size' must not exceed the number of examples {population}, got {lot_size}. "
            f"Choose a smaller lot."
        )
    return lot_size
