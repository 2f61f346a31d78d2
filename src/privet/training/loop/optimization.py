"""Optimisers and learning-rate schedulers of a run: read the arguments, and refuse what does not work."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.training.extras.denoising import Denoising
from privet.training.extras.optimizers import CorrectedAdam
from privet.training.loop.inputs import default_learning_rate
from privet.training.noise.correlated import IndependentNoise
from privet.training.plan import TrainingPlan

__all__ = [
    "OptimizerChoice",
    "ScheduleChoice",
    "make_optimizer",
    "make_scheduler",
    "require_usable_optimizer",
]

OptimizerChoice = Optimizer | type[Optimizer] | Callable[[Iterable[Tensor]], Optimizer]
ScheduleChoice = LRScheduler | type[LRScheduler] | Callable[[Optimizer], LRScheduler]

_MOMENTUM = 0.9


def make_optimizer(model: nn.Module, choice: OptimizerChoice | None, plan: TrainingPlan) -> Optimizer:
    """Make the optimiser: an optimiser of torch as it is, or a class or function of the trainable parameters.

    None means SGD with momentum 0.9 and the default learning rate.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise InvalidArgument(
            "'model' must have something to train, got no parameter that requires a gradient. Call "
            "requires_grad_() on one."
        )
    if choice is None:
        learning_rate = default_learning_rate(plan, _MOMENTUM)
        return torch.optim.SGD(parameters, lr=learning_rate, momentum=_MOMENTUM)
    optimizer = choice if isinstance(choice, Optimizer) else _call("optimizer", choice, parameters)
    if not isinstance(optimizer, Optimizer):
        raise InvalidArgument(
            "'optimizer' must be an optimiser of torch, or a class or function that makes one from "
            f"parameters, got {format_value(choice)}. Give torch.optim.SGD(model.parameters(), lr=0.1), "
            "for example."
        )
    return optimizer


def make_scheduler(choice: ScheduleChoice | None, optimizer: Optimizer) -> LRScheduler | None:
    """Make the scheduler: a scheduler of torch, or a class or function of the optimiser."""
    if choice is None:
        return None
    scheduler = choice if isinstance(choice, LRScheduler) else _call("schedule", choice, optimizer)
    if not isinstance(scheduler, LRScheduler):
        raise InvalidArgument(
            "'schedule' must be a scheduler of torch.optim.lr_scheduler, or a class or function that makes "
            f"one from the optimiser, got {format_value(choice)}. Give lambda optimizer: "
            "CosineAnnealingLR(optimizer, T_max=100), for example."
        )
    if isinstance(scheduler, ReduceLROnPlateau):
        raise InvalidArgument(
            "'schedule' must not depend on a loss, which would not be private, got ReduceLROnPlateau. "
            "Use a schedule of the step number, such as CosineAnnealingLR."
        )
    if scheduler.optimizer is not optimizer:
        raise InvalidArgument(
            "'schedule' must schedule the optimiser of this run, and schedules another one. "
            "Give the same optimiser as 'optimizer', or a function that makes the scheduler."
        )
    return scheduler


def require_usable_optimizer(
    model: nn.Module, optimizer: Optimizer, plan: TrainingPlan, denoising: Denoising | None
) -> None:
    """Refuse an optimiser with other parameters than the model's, or one that the noise does not suit."""
    trainable = {id(p) for p in model.parameters() if p.requires_grad}
    optimized = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not trainable <= optimized:
        raise InvalidArgument(
            "'optimizer' must have every trainable parameter of the model, and lacks some, which would use "
            "up a part of the clip bound for nothing. Freeze them with requires_grad_(False), or give them "
            "to the optimiser."
        )
    if not optimized <= {id(p) for p in model.parameters()}:
        raise InvalidArgument(
            "'optimizer' must have parameters of the model only, and has others, whose gradients would not "
            "be private. Make it from model.parameters()."
        )
    if isinstance(optimizer, LBFGS):
        raise InvalidArgument(
            "'optimizer' must use one noisy gradient per step, got LBFGS, which needs several of one lot. "
            "Use SGD or Adam."
        )
    if isinstance(optimizer, CorrectedAdam) and not isinstance(plan.correlation, IndependentNoise):
        raise InvalidArgument(
            "CorrectedAdam needs independent noise, whose variance it subtracts, got correlated noise. "
            "Use SGD, for which correlated noise is made."
        )
    if isinstance(optimizer, CorrectedAdam) and denoising is not None:
        raise InvalidArgument(
            "CorrectedAdam needs gradients with all of their noise, which it subtracts itself, got "
            "'denoising' too. Leave out one of them."
        )


def _call(argument: str, make: object, subject: object) -> object:
    """Call a class or a function that the user gave."""
    if not callable(make):
        return None
    try:
        return make(subject)
    except TypeError as failure:
        raise InvalidArgument(
            f"'{argument}' must be callable with one argument, and {format_value(make)} raises TypeError: "
            f"{failure}. Set its other arguments with functools.partial, or give a lambda."
        ) from failure
