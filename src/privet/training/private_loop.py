"""A private run, step by step: for loops that people write themselves, and for ``train``.

::

    private = make_private(model, optimizer, data, epsilon=3, delta=1e-5, epochs=20, clip=Flat(1.0), lot_size=1024)
    for lot in private.lots():
        private.step(lot, loss)

Each lot is for one step. Leaving out lots would change what is sampled, so it is refused; ending early is free.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, final

from torch import Tensor, nn
from torch.optim import Optimizer

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import shown, whole
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.training.augmentation import Augmentation
from privet.training.averaging import MovingAverage
from privet.training.checkpoint import Checkpoint
from privet.training.clipping import Adaptive, Clip
from privet.training.correlated import Correlation, Independent
from privet.training.losses import Loss
from privet.training.optimizers import CorrectedAdam
from privet.training.plan import Plan
from privet.training.rows import Rows, rows_of
from privet.training.sampling_schemes import PoissonSampling, Sampling
from privet.training.step import NoisyGradient

__all__ = ["Lot", "PrivateLoop", "make_private", "plan_for"]


@final
@dataclass(frozen=True, eq=False)
class Lot:
    """The examples of one step, by their numbers. *Leaks*: which they are must stay secret."""

    number: int
    indices: Tensor

    def __repr__(self) -> str:
        return f"Lot({self.number})"


@final
class PrivateLoop:
    """One run: its lots, its steps, and what they have spent.

    *Guarantee*: what ``ledger`` says at any moment covers all that the model has learnt from the data so far. Only the
    weights are covered: losses, gradients and accuracies on the data itself are not, so do not publish them.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        rows: Rows,
        plan: Plan,
        clip: Clip,
        *,
        noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
        augmentation: Augmentation | None = None,
        average: MovingAverage | None = None,
        kept: Checkpoint | None = None,
    ) -> None:
        if clip.bound != plan.clip_bound or isinstance(clip, Adaptive) != (plan.adaptive is not None):
            raise InvalidArgument(
                f"'clip' must be the rule that the plan has, with the bound {plan.clip_bound:g}, got {shown(clip)}. "
                f"Make the plan from the same rule."
            )
        if len(rows) != plan.population:
            raise InvalidArgument(
                f"'data' must have the plan's {plan.population} examples, and does not. Plan for this data."
            )
        _require_same_parameters(model, optimizer)
        if isinstance(optimizer, CorrectedAdam) and not isinstance(plan.correlation, Independent):
            raise InvalidArgument(
                "CorrectedAdam must have independent noise, whose variance it takes off, got correlated noise. "
                "Use SGD, for which correlated noise is made."
            )
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self._rows, self._noise, self._average, self._kept = rows, noise, average, kept
        self._lots = plan.sampling.lots(plan.population, noise)
        self._gradient = NoisyGradient.of(model, clip, plan, noise, augmentation)
        self._pending: Lot | None = None
        self.taken = 0
        if average is not None:
            average.begin(model)
        if kept is not None and kept.state is not None:
            self._resume(kept.step, kept.state)

    @property
    def ledger(self) -> Ledger:
        """What is spent so far; with a checkpoint, what its journal covers."""
        if self._kept is not None:
            return self._kept.ledger()
        return self.plan.ledger(self.taken, caveats=self._noise.caveats)

    @property
    def clip(self) -> Clip:
        """The rule of clipping that the next step has."""
        return self._gradient.clip

    def lots(self) -> Iterator[Lot]:
        """The lots of the steps that are left. A lot that was not used yet comes first."""
        while self.taken < self.plan.steps:
            if self._pending is None:
                self._pending = Lot(self.taken + 1, self._lots.draw())
            lot = self._pending
            yield lot
            if self._pending is lot:
                raise InvalidArgument(
                    f"Lot {lot.number} must be given to step before the next is drawn, because leaving out lots changes "
                    f"the sampling that is accounted. Call private.step(lot, loss), or leave the loop."
                )

    def step(self, lot: Lot, loss: Loss | nn.Module) -> None:
        """Clip, sum, write down what is spent, add noise, and let the optimiser go on.

        Refused, with nothing spent, if a gradient is not finite; the lot then waits for another try.
        """
        if lot is not self._pending:
            raise InvalidArgument(
                f"'lot' must be the last one of lots(), and not yet used, got {shown(lot)}. Use each lot for one step."
            )
        if not self.model.training:
            raise InvalidArgument(
                "'model' must be in training mode, got a model in evaluation mode. "
                "Call model.train(), and then .eval() on the parts that are frozen."
            )
        self._gradient.collect(self._rows, lot.indices, loss)
        if self._kept is not None:
            self._kept.before(lot.number)
        self.taken, self._pending = lot.number, None  # from here on the step counts, whatever happens
        if isinstance(self.optimizer, CorrectedAdam):
            self.optimizer.noise_deviation = self._gradient.deviation
        self._gradient.release()
        self.optimizer.step()
        if self._average is not None:
            self._average.follow(self.model)

    def save(self, more: dict[str, Any] | None = None) -> None:
        """Keep where the run stands, in its checkpoint."""
        if self._kept is None:
            raise InvalidArgument("The run must have a checkpoint to be saved, and has none. Give one.")
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "gradient": self._gradient.state(),
            "turn": self.taken,
            "average": None if self._average is None else self._average.state(),
            "more": more or {},
        }
        self._kept.save(self.taken, state)

    def _resume(self, step: int, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._gradient.resume(state["gradient"])
        self._lots.resume(state["turn"])
        if self._average is not None:
            self._average.resume(state["average"])
        self.taken = step


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
) -> Plan:
    """The plan with the least noise for these wishes; Poisson lots of ``lot_size`` unless a sampling is given."""
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
        population=population,
        sampling=sampling,
        clip_bound=clip.bound,
        epochs=epochs,
        steps=steps,
        adjacency=adjacency,
        correlation=correlation,
        micro_batch=micro_batch,
        augmentations=1 if augmentation is None else augmentation.copies,
    )
    if not isinstance(clip, Adaptive):
        return plan
    return replace(plan, adaptive=clip.rule(plan.expected_lot, plan.noise_multiplier))


def make_private(
    model: nn.Module,
    optimizer: Optimizer,
    data: object,
    *,
    epsilon: float,
    delta: float,
    clip: Clip,
    lot_size: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    sampling: Sampling | None = None,
    adjacency: Adjacency = AddRemove(),  # noqa: B008 - frozen
    correlation: Correlation = Independent(),  # noqa: B008 - frozen
    micro_batch: int | None = 512,
    augmentation: Augmentation | None = None,
    average: MovingAverage | None = None,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
) -> PrivateLoop:
    """A private run around a model, its optimiser and its data, with the least noise for (ε, δ).

    ``data`` is (inputs, targets) as arrays or tensors, a TensorDataset, or any dataset with a length; the last column is the
    target. Its number of examples is taken as public.

    >>> import torch
    >>> from privet.training.clipping import Flat
    >>> loss, model = nn.CrossEntropyLoss(), nn.Linear(3, 2)
    >>> data = (torch.randn(500, 3), torch.randint(0, 2, (500,)))
    >>> private = make_private(
    ...     model, torch.optim.SGD(model.parameters(), 0.1), data, epsilon=2, delta=1e-6, epochs=1, lot_size=100, clip=Flat(1.0)
    ... )
    >>> for lot in private.lots():
    ...     private.step(lot, loss)
    >>> private.taken
    5
    """
    rows = rows_of(data)
    plan = plan_for(
        len(rows),
        epsilon=epsilon,
        delta=delta,
        epochs=epochs,
        steps=steps,
        lot_size=lot_size,
        sampling=sampling,
        clip=clip,
        adjacency=adjacency,
        correlation=correlation,
        micro_batch=micro_batch,
        augmentation=augmentation,
    )
    return PrivateLoop(
        model, optimizer, rows, plan, clip, noise=noise, augmentation=augmentation, average=average
    )


def _lot(lot_size: int | None, population: int) -> int:
    size = whole("lot_size", 0 if lot_size is None else lot_size)
    if size > population:
        raise InvalidArgument(
            f"'lot_size' must not exceed the number of examples {population}, got {size}. Choose a smaller lot."
        )
    return size


def _require_same_parameters(model: nn.Module, optimizer: Optimizer) -> None:
    mine = {id(p) for p in model.parameters() if p.requires_grad}
    theirs = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not mine <= theirs:
        raise InvalidArgument(
            "'optimizer' must have every trainable parameter of the model, and lacks some, which would take a part of the "
            "clip bound for nothing. Freeze them with requires_grad_(False), or give them to the optimiser."
        )
    if not theirs <= {id(p) for p in model.parameters()}:
        raise InvalidArgument(
            "'optimizer' must have parameters of the model alone, and has others, whose gradients would not be private. "
            "Make it from model.parameters()."
        )
