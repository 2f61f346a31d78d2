"""``train``: a model and data in; a model, and what it cost, out."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from privet.adjacency import AddRemove, Adjacency
from privet.arguments import shown
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee, delta_warning
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.training.augmentation import Augmentation
from privet.training.averaging import MovingAverage
from privet.training.beginning import agreed_plan, noise_after, opened, plan_for, public_size
from privet.training.canaries import Canaries, canaries_of
from privet.training.checkpoint import Checkpoint
from privet.training.clipping import Automatic, Clip
from privet.training.correlated import Correlation, Independent
from privet.training.denoising import Denoising
from privet.training.encoding import Encoding
from privet.training.fixing import require_separate
from privet.training.flocks import Planted
from privet.training.gradients.refusals import NotFinite
from privet.training.losses import Loss
from privet.training.noise_laws import NoiseLaw, Normal
from privet.training.plan import Plan
from privet.training.preparing import default_lot, default_rate, prepared
from privet.training.private_loop import Lot, PrivateLoop
from privet.training.progress import Bar, interruptible
from privet.training.sampling_schemes import Sampling, ShuffledSampling
from privet.training.workers import ProcessFailed, Workers, workers_of

__all__ = ["Moment", "Trained", "train"]

_CLIP = Automatic(1.0)
_MOMENTUM = 0.9
_BETWEEN_SAVES = 60.0  # seconds


@final
@dataclass(frozen=True)
class Moment:
    """Where a run stood at the end of an epoch.

    The bound is covered by the ledger, and ``watched`` is as public as what it looked at. *Leaks*: the seconds tell a little
    about how large the lots were.
    """

    step: int
    seconds: float
    clip_bound: float
    watched: float | None = None


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """A model that was trained privately, with all that is known about it.

    ``model`` is the one that was given, now in evaluation mode. ``ledger`` covers its weights, and nothing else that was
    computed from the data. ``interrupted`` says that someone ended the run early; the ledger then has the steps that were taken.
    ``canaries`` are those that were asked for, with their scores: what an audit of this very run takes. ``steps_cut`` is how many of the
    plan's steps were not run, because steps that a crash lost had used up what they would have cost.
    """

    model: nn.Module
    ledger: Ledger
    history: tuple[Moment, ...]
    plan: Plan
    interrupted: bool = False
    canaries: Planted | None = None
    steps_cut: int = 0

    def guarantee(self) -> Guarantee:
        """What the weights leak at most."""
        from privet.accounting import account  # late: it loads scipy

        return account(self.ledger)

    def epsilon(self, *, delta: float) -> float:
        """ε at this δ."""
        return self.guarantee().epsilon(delta=delta)


def train(
    model: nn.Module,
    data: object,
    *,
    epsilon: float,
    delta: float,
    epochs: float,
    loss: Loss | nn.Module | None = None,
    lot_size: int | None = None,
    optimizer: Optimizer | Callable[[Iterable[Tensor]], Optimizer] | None = None,
    schedule: Callable[[Optimizer], LRScheduler] | None = None,
    clip: Clip | None = None,
    sampling: Sampling | None = None,
    adjacency: Adjacency = AddRemove(),  # noqa: B008 - frozen
    population: int | None = None,
    correlation: Correlation = Independent(),  # noqa: B008 - frozen
    augmentation: Augmentation | None = None,
    law: NoiseLaw = Normal(),  # noqa: B008 - frozen
    encoding: Encoding | None = None,
    denoising: Denoising | None = None,
    average: MovingAverage | None = None,
    micro_batch: int | None = None,
    watch: Callable[[nn.Module], float] | None = None,
    canaries: int | Canaries | None = None,
    checkpoint: str | Path | None = None,
    workers: Workers | None = None,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
) -> Trained:
    """Train a model with differential privacy, with the least noise for (ε, δ).

    *Guarantee*: the weights are (ε, δ)-differentially private under ``adjacency``. Under add-remove that rests on ``population``, a public
    number of examples, which need not be the one that ``data`` has: rate, divisor, steps and noise follow from it. Left out, the
    number of examples in ``data`` is taken as public, and the ledger carries the caveat ``SIZE_TAKEN_AS_PUBLIC``.

    *Leaks*: nothing else is covered. There is no training loss in the history, because it would not be private. ``watch`` is
    called with the model once an epoch; let it look at public data.

    What is left out is chosen by rules that do not look at the data: cross entropy for whole-number targets; Poisson lots of
    16 √n; automatic clipping at 1; SGD with momentum 0.9 and the rate of ``default_rate``, at most 2. ``optimizer`` is one of torch, or a function that makes one from
    parameters; ``schedule`` makes a scheduler of it, which is stepped after every step.

    ``canaries`` is how many canaries a fair coin puts in or leaves out, or which kind of them; ``trained.canaries.scores`` is then a
    one-run audit's input. The cost of it is in ``trained.canaries.cost``; see ``privet.training.canaries``.

    ``checkpoint`` is a folder. A run that was ended or killed goes on from there, and stops early if what the crash lost would
    otherwise bring it above ε. Ctrl-C ends a run after its current step, and what was reached is returned.

    Where ``torch.distributed`` has several processes, all of them call this, and work on one run; ``workers`` says otherwise (see
    ``Together``). ``watch`` is called in all of them.

    >>> data = torch.randn(2000, 3), torch.randint(0, 2, (2000,))
    >>> trained = train(nn.Linear(3, 2), data, epsilon=2, delta=1e-6, epochs=1)
    >>> trained.epsilon(delta=1e-6) <= 2
    True
    """
    team = workers_of(workers)
    wanted = canaries_of(canaries, team)
    rule = _CLIP if clip is None else clip
    with team.agreed():
        _require_trainable(model)
        rows, chosen = prepared(model, data, loss)
        size, before = public_size(population, rows), len(rows)
        if wanted is not None:
            rows = wanted.among(rows, model)
        plan = plan_for(
            size,
            epsilon=epsilon,
            delta=delta,
            epochs=epochs,
            steps=None,
            lot_size=default_lot(size) if lot_size is None and sampling is None else lot_size,
            sampling=sampling,
            clip=rule,
            adjacency=adjacency,
            correlation=correlation,
            micro_batch=micro_batch,
            augmentation=augmentation,
            law=law,
            encoding=encoding,
            size_is_public=population is not None,
            added=len(rows) - before,
        )
        made = _optimizer(model, optimizer, plan)
        scheduler = None if schedule is None else schedule(made)
    others = len(rows), rule, checkpoint is None, average is None, denoising is None
    plan, caveats = agreed_plan(
        plan, noise.caveats | delta_warning(delta, plan.population), model, team, *others
    )
    kept = opened(checkpoint, plan, caveats, team, epsilon=epsilon, delta=delta)
    try:
        with team.agreed():
            loop = PrivateLoop(
                model,
                made,
                rows,
                plan,
                rule,
                noise=noise_after(noise, kept),
                augmentation=augmentation,
                average=average,
                denoising=denoising,
                kept=kept,
                workers=team,
                caveats=caveats,
            )
            run = _Run(loop, chosen, scheduler, watch, kept, epochs, team)
        try:
            interrupted = run.go(delta)
        except ProcessFailed as failure:
            failure.ledger = loop.ledger  # the weights are changed, and nothing else says what they have cost
            raise
    finally:
        if kept is not None:
            kept.close()
    if average is not None:
        average.load_into(model)
    model.eval()
    cut = plan.steps - loop.last
    return Trained(model, loop.ledger, tuple(run.history), plan, interrupted, loop.canaries, cut)


@final
class _Run:
    """The loop with its clock, its bar, its schedule and its checkpoints."""

    def __init__(
        self,
        loop: PrivateLoop,
        loss: Loss | nn.Module,
        scheduler: LRScheduler | None,
        watch: Callable[[nn.Module], float] | None,
        kept: Checkpoint | None,
        epochs: float,
        workers: Workers,
    ) -> None:
        self._loop, self._loss, self._scheduler, self._watch = loop, loss, scheduler, watch
        self._workers, self._kept = workers, kept
        self._epoch = max(1, round(loop.plan.steps / epochs))
        self.history: list[Moment] = []
        self._before = 0.0
        if kept is not None and kept.state is not None:
            self._resume(loop.more)
        self._began = self._saved = time.monotonic()

    def go(self, delta: float) -> bool:
        """The steps that are left; whether someone ended them early."""
        loop, asked = self._loop, False
        with interruptible() as interruption, Bar(loop.last, self._spent(delta)) as bar:
            bar.begin(loop.taken)
            for lot in loop.lots():
                with self._workers.agreed():
                    self._step(lot)
                    if self._scheduler is not None:
                        self._scheduler.step()
                    if loop.taken % self._epoch == 0 or loop.taken == loop.last:
                        self._note()
                    if self._workers.leads:
                        bar.show(loop.taken)
                asked, due = self._workers.any(interruption.asked, self._is_due())
                if due:
                    self._save()
                if asked:
                    break
            self._save()
        return asked and loop.taken < loop.last

    def _step(self, lot: Lot) -> None:
        try:
            self._loop.step(lot, self._loss)
        except (NotFinite, InvalidArgument):
            self._save()  # so that steps which are reserved, and now never run, are given back
            raise

    def _is_due(self) -> bool:
        """Whether it is time to save. Shuffled runs have few places for it, and use them all."""
        if not self._workers.leads or not self._loop.can_save:
            return False
        shuffled = isinstance(self._loop.plan.sampling, ShuffledSampling)
        return shuffled or time.monotonic() - self._saved > _BETWEEN_SAVES

    def _save(self) -> None:
        if not self._loop.can_save:
            return
        scheduler = None if self._scheduler is None else self._scheduler.state_dict()
        moments = [(m.step, m.seconds, m.clip_bound, m.watched) for m in self.history]
        self._loop.save({"scheduler": scheduler, "history": moments, "seconds": self._seconds()})
        self._saved = time.monotonic()

    def _resume(self, more: dict[str, Any]) -> None:
        self.history = [Moment(*row) for row in more["history"]]
        self._before = float(more["seconds"])
        if self._scheduler is not None and more["scheduler"] is not None:
            self._scheduler.load_state_dict(more["scheduler"])

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._began

    def _note(self) -> None:
        seen = None if self._watch is None else _watched(self._loop.model, self._watch)
        self.history.append(Moment(self._loop.taken, self._seconds(), self._loop.clip.bound, seen))

    def _spent(self, delta: float) -> Callable[[int], float]:
        def epsilon(step: int) -> float:
            from privet.accounting import account

            spent = self._loop.plan.ledger(step) if self._kept is None else self._kept.ledger(step)
            return account(spent).epsilon(delta=delta)

        return epsilon


def _watched(model: nn.Module, watch: Callable[[nn.Module], float]) -> float:
    """What ``watch`` sees, in evaluation mode; every module's own mode is put back."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        return float(watch(model))
    finally:
        for module in training:
            module.training = True


def _optimizer(
    model: nn.Module, wanted: Optimizer | Callable[[Iterable[Tensor]], Optimizer] | None, plan: Plan
) -> Optimizer:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise InvalidArgument(
            "'model' must have something to train, got no parameter that requires a gradient. Call requires_grad_() on one."
        )
    if wanted is None:
        return torch.optim.SGD(parameters, lr=default_rate(plan, _MOMENTUM), momentum=_MOMENTUM)
    found = wanted if isinstance(wanted, Optimizer) else wanted(parameters)
    if not isinstance(found, Optimizer):
        raise InvalidArgument(
            f"'optimizer' must be one of torch, or make one from parameters, got {shown(wanted)}. "
            f"Give torch.optim.SGD(model.parameters(), lr=0.1), for instance."
        )
    return found


def _require_trainable(model: nn.Module) -> None:
    require_separate(model)
    if not model.training:
        raise InvalidArgument(
            "'model' must be in training mode, got a model in evaluation mode. "
            "Call model.train(), and then .eval() on the parts that are frozen."
        )
