"""A private run, step by step: for loops that people write themselves, and for ``train``.

::

    private = make_private(model, optimizer, data, epsilon=3, delta=1e-5, epochs=20, clip=Flat(1.0), lot_size=1024)
    for lot in private.lots():
        private.step(lot, loss)

Each lot is for one step. Leaving out lots would change what is sampled, so it is refused; ending early is free.

With ``checkpoint="folder"`` the run can be ended and taken up again::

    with make_private(…, checkpoint="folder") as private:
        for lot in private.lots():
            private.step(lot, loss)
            if private.taken % 100 == 0:
                private.save({"epoch": epoch})  # and whatever else of your own; private.more has it afterwards
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, final

from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import shown
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.guarantees import delta_warning
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.training.canaries.canary_datasets import Flock, Planted
from privet.training.canaries.kinds import Canaries, canaries_of
from privet.training.clipping import Adaptive, Clip
from privet.training.extras.augmentation import Augmentation
from privet.training.extras.averaging import MovingAverage
from privet.training.extras.denoising import Denoising
from privet.training.extras.encoding import Encoding
from privet.training.extras.module_validation import require_separate
from privet.training.extras.optimizers import CorrectedAdam
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.distributed import Alone, Workers, workers_of
from privet.training.loop.losses import Loss
from privet.training.loop.setup import agreed_plan, noise_after, opened, plan_for, public_size
from privet.training.loop.side_effects import SideEffects
from privet.training.loop.step import NoisyGradient
from privet.training.noise.correlated import Correlation, IndependentNoise
from privet.training.noise.distributions import NoiseDistribution, Normal
from privet.training.plan import Plan
from privet.training.sampling.rows import Rows, rows_of
from privet.training.sampling.schemes import Sampling, ShuffledSampling

__all__ = ["Lot", "PrivateLoop", "make_private"]


@final
@dataclass(frozen=True, eq=False)
class Lot:
    """The examples of one step, by their numbers; of several processes, each has its part of them.

    *Leaks*: which they are must stay secret.
    """

    number: int
    indices: Tensor

    def __repr__(self) -> str:
        return f"Lot({self.number})"


@final
class PrivateLoop:
    """One run: its lots, its steps, and what they have spent.

    *Guarantee*: what ``ledger`` says at any moment covers all that the model has learnt from the data so far. Only the
    weights are covered: losses, gradients and accuracies on the data itself are not, so do not publish them.

    ``last`` is the step that the run ends after, if that is sooner than the plan says. ``more`` is what ``save`` was given
    when the run that goes on here was saved. With a checkpoint, a ``with`` block saves where it ends, unless a step was broken off
    in the middle, and then closes the checkpoint.
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
        denoising: Denoising | None = None,
        kept: Checkpoint | None = None,
        workers: Workers = Alone(),  # noqa: B008 - without a state
        caveats: frozenset[Caveat] | None = None,
    ) -> None:
        if clip.bound != plan.clip_bound or isinstance(clip, Adaptive) != (plan.adaptive is not None):
            raise InvalidArgument(
                f"'clip' must be the rule that the plan has, with the bound {plan.clip_bound:g}, got {shown(clip)}. "
                f"Make the plan from the same rule."
            )
        plan.require_size(len(rows))
        _require_same_parameters(model, optimizer)
        if isinstance(optimizer, CorrectedAdam) and not isinstance(plan.correlation, IndependentNoise):
            raise InvalidArgument(
                "CorrectedAdam must have independent noise, whose variance it takes off, got correlated noise. "
                "Use SGD, for which correlated noise is made."
            )
        if isinstance(optimizer, CorrectedAdam) and denoising is not None:
            raise InvalidArgument(
                "CorrectedAdam must see gradients with all of their noise, which it takes off itself, got 'denoising' too. "
                "Leave out one of them."
            )
        if isinstance(optimizer, LBFGS):
            raise InvalidArgument(
                "'optimizer' must take one noisy gradient at a time, got LBFGS, which asks for several of one lot. "
                "Use SGD or Adam."
            )
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self._rows, self._average, self._denoising, self._kept = rows, average, denoising, kept
        self._caveats = noise.caveats if caveats is None else caveats
        self._workers, self.last = workers, plan.steps if kept is None else kept.last
        self._lots = plan.sampling.lots(len(rows), noise)
        self._gradient = NoisyGradient.of(model, clip, plan, noise, augmentation, workers)
        self._flock = rows if isinstance(rows, Flock) else None
        if self._flock is not None:
            self._flock.begin(model, plan)
        self._trainable = [p for p in model.parameters() if p.requires_grad]
        self._effects = SideEffects(model)
        self._pending: Lot | None = None
        self._whole = True  # no step is broken off in the middle
        self.taken = 0
        self.more: dict[str, Any] = {}
        if average is not None:
            average.begin(model)
        if denoising is not None:
            denoising.begin(model)
        if kept is not None and kept.state is not None:
            self._resume(kept.step, kept.state)

    @property
    def ledger(self) -> Ledger:
        """What is spent so far; with a checkpoint, what its journal covers."""
        if self._kept is not None:
            return self._kept.ledger()
        return self.plan.ledger(self.taken, caveats=self._caveats)

    @property
    def clip(self) -> Clip:
        """The rule of clipping that the next step has."""
        return self._gradient.clip

    @property
    def can_save(self) -> bool:
        """Whether the run can go on from here.

        A new shuffle would show some examples twice, so shuffled runs are kept where an epoch ends.
        """
        sampling = self.plan.sampling
        between = isinstance(sampling, ShuffledSampling) and self.taken % -(
            -self.plan.population // sampling.size
        )
        return self._kept is not None and self._whole and not between

    def __reduce__(self) -> NoReturn:
        """Copies would share a lot, and each of them would know of its own steps only."""
        raise InvalidArgument(
            "A private run must not be copied or pickled, because what a copy spends is not in this run's ledger. "
            "Give make_private a folder to go on from: checkpoint=…"
        )

    def __enter__(self) -> "PrivateLoop":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # What brings down one process of several may be its own affair, and the others would not be there to agree.
            if self.can_save and (kind is None or isinstance(self._workers, Alone)):
                self.save(self.more)
        finally:
            self.close()

    def close(self) -> None:
        """Let others have the checkpoint."""
        if self._kept is not None:
            self._kept.close()

    @property
    def canaries(self) -> Planted | None:
        """The canaries and their scores, at the model of now; None if there are none."""
        return None if self._flock is None else self._flock.planted(self.model, self.plan)

    def lots(self) -> Iterator[Lot]:
        """The lots of the steps that are left. A lot that was not used yet comes first."""
        while self.taken < self.last:
            if self._pending is None:
                drawn = self._lots.draw() if self._workers.leads else None
                self._pending = Lot(self.taken + 1, self._workers.part(drawn))
            lot = self._pending
            yield lot
            if self._pending is lot:
                raise InvalidArgument(
                    f"Lot {lot.number} must be given to step before the next is drawn, because leaving out lots changes "
                    f"the sampling that is accounted. Call private.step(lot, loss), or leave the loop."
                )

    def step(self, lot: Lot, loss: Loss | nn.Module) -> None:
        """Clip, sum, write down what is spent, add noise, and let the optimiser go on.

        Refused, with nothing spent, if a gradient is not finite; the lot then waits for another try. What one process
        refuses, all of them do.
        """
        with self._workers.agreed():
            if lot is not self._pending:
                raise InvalidArgument(
                    f"'lot' must be the last one of lots(), and not yet used, got {shown(lot)}. "
                    f"Use each lot for one step."
                )
            if not self.model.training:
                raise InvalidArgument(
                    "'model' must be in training mode, got a model in evaluation mode. "
                    "Call model.train(), and then .eval() on the parts that are frozen."
                )
            self._clear()
            with self._effects.refused():
                self._gradient.collect(self._rows, lot.indices, loss)
        if self._flock is not None:
            self._flock.join(lot.indices, self._gradient, self._workers)
        if self._kept is not None:
            with self._workers.agreed():
                self._kept.before(lot.number)
        self._whole = False
        self.taken, self._pending = lot.number, None  # from here on the step counts, whatever happens
        if isinstance(self.optimizer, CorrectedAdam):
            self.optimizer.noise_deviation = self._gradient.deviation
        deviation = self._gradient.deviation  # of this step; the bound may change in it
        self._gradient.release()
        if self._flock is not None:
            self._flock.observe(self._gradient)
        if self._denoising is not None:
            self._denoising.apply(self._gradient.gradients, deviation)
        self.optimizer.step()
        if self._average is not None:
            self._average.follow(self.model)
        self._whole = True

    def save(self, more: dict[str, Any] | None = None) -> None:
        """Keep where the run stands, in its checkpoint, with whatever else the loop needs to go on.

        ``more`` may hold numbers, texts, tensors, and lists and dictionaries of them. Of several processes, all call this; the
        leader's is kept.
        """
        if self._kept is None:
            raise InvalidArgument(
                "The run must have a checkpoint to be saved, and has none. Give make_private a folder: checkpoint=…"
            )
        if not self.can_save:
            raise InvalidArgument(
                f"The run cannot go on from step {self.taken}, because a shuffled epoch, or the step itself, is not at its "
                f"end. Save where can_save is true."
            )
        with self._workers.agreed():
            self._kept.save(self.taken, self._state(more))
        self.more = more or {}

    def _clear(self) -> None:
        """Take all gradients away before the data is looked at.

        Those of the last step share their memory with the sum of this one, which has no noise yet; and those that frozen
        parameters have from elsewhere would move them.
        """
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        if not all(parameter.requires_grad for parameter in self._trainable):
            raise InvalidArgument(
                "'model' must train the parameters that the run began with, and some of them are now frozen. "
                "End this run and make another one; their ledgers add up."
            )

    def _state(self, more: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "gradient": self._gradient.state(),
            "turn": self.taken,
            "average": None if self._average is None else self._average.state(),
            "denoising": None if self._denoising is None else self._denoising.state(),
            "canaries": None if self._flock is None else self._flock.state(),
            "more": more or {},
        }

    def _resume(self, step: int, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._gradient.resume(state["gradient"])
        self._lots.resume(state["turn"])
        if self._average is not None:
            self._average.resume(state["average"])
        if self._denoising is not None:
            self._denoising.resume(state["denoising"])
        if self._flock is not None:
            self._flock.resume(state.get("canaries"))
        self.taken, self.more = step, state["more"]


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
    population: int | None = None,
    correlation: Correlation = IndependentNoise(),  # noqa: B008 - frozen
    micro_batch: int | None = None,
    augmentation: Augmentation | None = None,
    noise_distribution: NoiseDistribution = Normal(),  # noqa: B008 - frozen
    encoding: Encoding | None = None,
    denoising: Denoising | None = None,
    average: MovingAverage | None = None,
    canaries: int | Canaries | None = None,
    checkpoint: str | Path | None = None,
    workers: Workers | None = None,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
) -> PrivateLoop:
    """A private run around a model, its optimiser and its data, with the least noise for (ε, δ).

    ``data`` is (inputs, targets) as arrays or tensors, a TensorDataset, or any dataset with a length; the last column is the
    target. ``population`` is a public number of examples, from which rate, divisor, steps and noise follow; left out, it is the number of
    examples in ``data``, which is then taken as public (see ``privet.training.plan``). ``canaries`` are put among them by fair coins, for an audit of the run (see
    ``privet.training.canaries.kinds``); ``private.canaries`` has their scores.

    ``checkpoint`` is a folder: call ``save`` now and then, and use the run in a ``with`` block. Made again with the same
    arguments, the run goes on from there, and ends early if what a crash lost would otherwise bring it above ε. Where
    ``torch.distributed`` has several processes, all of them work on one run (see ``Together``), and all call this.

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
    team = workers_of(workers)
    wanted = canaries_of(canaries, team)
    with team.agreed():
        require_separate(model)
        rows = rows_of(data)
        size, before = public_size(population, rows), len(rows)
        if wanted is not None:
            rows = wanted.among(rows, model)
        plan = plan_for(
            size,
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
            noise_distribution=noise_distribution,
            encoding=encoding,
            size_is_public=population is not None,
            added=len(rows) - before,
        )
    others = len(rows), clip, checkpoint is None, average is None, denoising is None
    plan, caveats = agreed_plan(
        plan, noise.caveats | delta_warning(delta, plan.population), model, team, *others
    )
    kept = opened(checkpoint, plan, caveats, team, epsilon=epsilon, delta=delta)
    try:
        with team.agreed():
            return PrivateLoop(
                model,
                optimizer,
                rows,
                plan,
                clip,
                noise=noise_after(noise, kept),
                augmentation=augmentation,
                average=average,
                denoising=denoising,
                kept=kept,
                workers=team,
                caveats=caveats,
            )
    except BaseException:
        if kept is not None:
            kept.close()
        raise


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
