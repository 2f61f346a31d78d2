"""``train``: a model and data in; a trained model, and what it cost, out."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, final

from torch import nn

from privet.accounting import account
from privet.adjacency import AddRemove, Adjacency
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.training.canaries.canary_datasets import CanaryResults
from privet.training.canaries.kinds import Canaries
from privet.training.clipping import Automatic, Clip, as_clip
from privet.training.extras.augmentation import Augmentation
from privet.training.extras.averaging import MovingAverage
from privet.training.extras.denoising import Denoising
from privet.training.extras.encoding import Encoding
from privet.training.extras.module_validation import enter_training_mode, validate_model
from privet.training.loop.distributed import ProcessFailed, ProcessGroup, resolve_process_group
from privet.training.loop.inputs import prepare_data
from privet.training.loop.losses import TorchLoss
from privet.training.loop.optimization import OptimizerChoice, ScheduleChoice
from privet.training.loop.options import RunOptions
from privet.training.loop.private_loop import Lot
from privet.training.loop.progress import TrainingProgress, catch_interrupt
from privet.training.loop.setup import PreparedRun, prepare_run
from privet.training.noise.correlated import Correlation, IndependentNoise
from privet.training.noise.distributions import NoiseDistribution, Normal
from privet.training.per_example.refusals import NotFinite
from privet.training.plan import TrainingPlan
from privet.training.sampling.reading import Collate
from privet.training.sampling.schemes import Sampling, ShuffledSampling

__all__ = ["EpochRecord", "Trained", "train"]

_BETWEEN_SAVES = 60.0  # seconds


@final
@dataclass(frozen=True)
class EpochRecord:
    """The state of a run at the end of an epoch.

    The ledger covers the clip bound. ``watched`` is as public as the data that ``watch`` used. *Leaks*: the
    seconds reveal a little about the sizes of the lots.
    """

    step: int
    seconds: float
    clip_bound: float
    watched: float | None = None


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """A model that was trained privately, with everything that is known about it.

    ``model`` is the given model, now in evaluation mode. ``ledger`` covers its weights, and nothing else that
    was computed from the data. ``history`` has one record for each epoch. ``interrupted`` says that somebody
    ended the run early; then the ledger has the steps that were taken. ``canaries`` has the canaries with
    their scores, for an audit of this run. ``steps_cut`` is the number of the plan's steps that were not run,
    because steps that a crash lost had used up their cost.
    """

    model: nn.Module
    ledger: Ledger
    history: tuple[EpochRecord, ...]
    plan: TrainingPlan
    interrupted: bool = False
    canaries: CanaryResults | None = None
    steps_cut: int = 0

    def guarantee(self) -> Guarantee:
        """An upper bound on what the weights leak."""
        return account(self.ledger)

    def epsilon(self, *, delta: float) -> float:
        """ε at this δ."""
        return self.guarantee().epsilon(delta=delta)

    def __repr__(self) -> str:
        ended = ", interrupted" if self.interrupted else ""
        return f"Trained({type(self.model).__name__}{ended}: {self.plan})"

    def _repr_html_(self) -> str:
        """The run, and ε at several δ, for a notebook; escaped, so that nothing in a name becomes markup."""
        rows = {
            "Model": type(self.model).__name__,
            "Plan": str(self.plan),
            "Epochs": f"{len(self.history)}{', interrupted' if self.interrupted else ''}",
            "Steps not run": str(self.steps_cut) if self.steps_cut else "",
            "Canaries": "" if self.canaries is None else str(self.canaries.count),
        }
        cells = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in rows.items()
            if value
        )
        return (
            f"<div><strong>Trained</strong><table><tbody>{cells}</tbody></table>"
            f"{self.guarantee()._repr_html_()}</div>"
        )


def train(
    model: nn.Module,
    data: object,
    *,
    epsilon: float,
    delta: float,
    epochs: float,
    loss: TorchLoss | None = None,
    collate: Collate | None = None,
    classes: Sequence[Any] | None = None,
    lot_size: int | None = None,
    optimizer: OptimizerChoice | None = None,
    schedule: ScheduleChoice | None = None,
    clip: Clip | float | None = None,
    sampling: Sampling | None = None,
    adjacency: Adjacency = AddRemove(),  # noqa: B008 - frozen
    population: int | None = None,
    correlation: Correlation = IndependentNoise(),  # noqa: B008 - frozen
    augmentation: Augmentation | None = None,
    noise_distribution: NoiseDistribution = Normal(),  # noqa: B008 - frozen
    encoding: Encoding | None = None,
    denoising: Denoising | None = None,
    average: MovingAverage | None = None,
    micro_batch: int | None = None,
    watch: Callable[[nn.Module], float] | None = None,
    canaries: int | Canaries | None = None,
    checkpoint: str | Path | None = None,
    process_group: ProcessGroup | None = None,
    noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
) -> Trained:
    """Train a model with differential privacy, with the least noise for (ε, δ).

    *Guarantee*: the weights are (ε, δ)-differentially private under ``adjacency``. Under add-remove adjacency
    this needs ``population``. Without it the number of examples in ``data`` is taken as public, and the
    ledger has the caveat ``SIZE_TAKEN_AS_PUBLIC``.

    *Leaks*: nothing else is covered. The history has no training loss, because it would not be private.

    No default looks at the data. Ctrl-C ends a run after its current step, and returns what was reached.

    Args:
        model: the model, which is trained in place. One in evaluation mode is put into training mode.
        data: (inputs, targets) as arrays, tensors, data frames or lists of sequences; a dictionary of
            columns, which go to the model by keyword; a dataset or a loader of either. The last column is the
            target, or the one with the name ``labels``. See "Your model, your data" in the documentation.
        epsilon: the ε that the whole run must not exceed.
        delta: the δ of ``epsilon``; below 1/(10 n).
        epochs: how often the run uses each example on average.
        loss: a loss module of torch, or a function of (outputs, targets) that returns one number for each
            example, or a mean over examples. The default is the model's own loss if it computes one from
            ``labels``, as models of Hugging Face do, and otherwise cross entropy for integer targets.
        collate: a function that makes a batch of a list of examples, as that of a DataLoader. It is called
            for one example at a time.
        classes: the labels, in the order of the model's outputs, if they are words or do not start from 0.
            They must be public knowledge; they are never read from the data.
        lot_size: the expected number of examples in a step; the default is 16 √n.
        optimizer: an optimiser of torch for the model's parameters, or a class or function that makes one
            from them. The default is SGD with momentum 0.9 and the learning rate of
            ``default_learning_rate``, at most 2.
        schedule: a scheduler of ``torch.optim.lr_scheduler`` for that optimiser, or a class or function that
            makes one from the optimiser. It is stepped after every step, not after every epoch.
        clip: the clipping rule; a number C means ``Flat(C)``. The default is ``Automatic(1.0)``.
        sampling: how lots are drawn; the default is Poisson sampling with ``lot_size``.
        adjacency: which data sets are neighbours; the default is add-remove of one record.
        population: a public number of examples, which need not be the number in ``data``. Rate, divisor,
            steps and noise follow from it (see ``privet.training.plan``).
        correlation: how the noise of different steps is correlated.
        augmentation: variants of every example, whose gradients are averaged before the clip.
        noise_distribution: the distribution of the noise.
        encoding: replaces each clipped gradient by one with few possible values.
        denoising: weights the noisy gradients by their signal-to-noise ratio.
        average: a moving average of the weights, which the model gets at the end.
        micro_batch: how many examples go through the model at once; the default fits them to the caches.
        watch: a function that gets the model once an epoch, in all processes, and returns a number for the
            history. It must use public data only.
        canaries: how many canaries a fair coin adds or leaves out, or which kind of them.
            ``trained.canaries.scores`` is the input of a one-run audit, and ``trained.canaries.cost`` is what
            they cost the model.
        checkpoint: a folder. A run that was ended or killed resumes from there. It ends early if it would
            otherwise exceed ε because of steps that a crash lost.
        process_group: the processes that share the run. By default all processes of ``torch.distributed`` do,
            and all of them call this function (see ``Distributed``).
        noise: the source of lots and noise. ``SeededNoise`` is for tests only.

    >>> import torch
    >>> data = torch.randn(2000, 3), torch.randint(0, 2, (2000,))
    >>> trained = train(nn.Linear(3, 2), data, epsilon=2, delta=1e-6, epochs=1)
    >>> trained.epsilon(delta=1e-6) <= 2
    True
    """
    group = resolve_process_group(process_group)
    with group.all_or_none():
        enter_training_mode(model)
        validate_model(model)
        rule = Automatic(1.0) if clip is None else as_clip(clip)
        examples, chosen_loss = prepare_data(model, data, loss, collate=collate, classes=classes)
    options = RunOptions(
        epsilon=epsilon,
        delta=delta,
        epochs=epochs,
        steps=None,
        lot_size=lot_size,
        sampling=sampling,
        clip=rule,
        optimizer=optimizer,
        schedule=schedule,
        adjacency=adjacency,
        population=population,
        correlation=correlation,
        noise_distribution=noise_distribution,
        augmentation=augmentation,
        encoding=encoding,
        denoising=denoising,
        average=average,
        micro_batch=micro_batch,
        canaries=canaries,
        checkpoint=checkpoint,
        process_group=group,
        noise=noise,
    )
    prepared = prepare_run(model, examples, options)
    loop = prepared.loop
    try:
        with group.all_or_none():
            run = _TrainingRun(prepared, chosen_loss, watch, epochs)
        try:
            interrupted = run.take_steps(delta)
        except ProcessFailed as failure:
            failure.ledger = loop.ledger  # the weights have changed, and only this says what they have cost
            raise
    finally:
        loop.close()
    if average is not None:
        average.load_into(model)
    model.eval()
    return Trained(
        model,
        loop.ledger,
        tuple(run.history),
        loop.plan,
        interrupted,
        loop.canaries,
        loop.plan.steps - loop.final_step,
    )


@final
class _TrainingRun:
    """The private loop with its clock, its progress bar, its scheduler and its checkpoints."""

    def __init__(
        self,
        prepared: PreparedRun,
        loss: TorchLoss | None,
        watch: Callable[[nn.Module], float] | None,
        epochs: float,
    ) -> None:
        self._loop, self._scheduler = prepared.loop, prepared.scheduler
        self._checkpoint, self._group = prepared.checkpoint, prepared.process_group
        self._loss, self._watch = loss, watch
        self._steps_per_epoch = max(1, round(self._loop.plan.steps / epochs))
        self.history: list[EpochRecord] = []
        self._seconds_before = 0.0
        if self._checkpoint is not None and self._checkpoint.state is not None:
            self._resume(self._loop.user_state)
        self._start = self._last_save = time.monotonic()

    def take_steps(self, delta: float) -> bool:
        """Take the remaining steps. Return whether somebody ended them early."""
        loop, interrupted = self._loop, False
        epsilon_after = self._epsilon_after(delta)
        with catch_interrupt() as interruption, TrainingProgress(loop.final_step, epsilon_after) as progress:
            progress.begin(loop.steps_done)
            for lot in loop.lots():
                with self._group.all_or_none():
                    self._step(lot)
                    if self._scheduler is not None:
                        self._scheduler.step()
                    if loop.steps_done % self._steps_per_epoch == 0 or loop.steps_done == loop.final_step:
                        self._record_epoch()
                    if self._group.is_leader:
                        progress.show(loop.steps_done)
                interrupted, save_due = self._group.any(interruption.requested, self._is_save_due())
                if save_due:
                    self._save()
                if interrupted:
                    break
            self._save()
        return interrupted and loop.steps_done < loop.final_step

    def _step(self, lot: Lot) -> None:
        try:
            self._loop.step(lot, self._loss)
        except (NotFinite, InvalidArgument):
            self._save()  # releases the steps that are reserved and will not run
            raise

    def _is_save_due(self) -> bool:
        """Whether it is time to save. A shuffled run is saved whenever it can be, because it rarely can."""
        if not self._group.is_leader or not self._loop.can_save:
            return False
        shuffled = isinstance(self._loop.plan.sampling, ShuffledSampling)
        return shuffled or time.monotonic() - self._last_save > _BETWEEN_SAVES

    def _save(self) -> None:
        """Save the state in the form of 0.1.0: its keys must not change."""
        if not self._loop.can_save:
            return
        scheduler = None if self._scheduler is None else self._scheduler.state_dict()
        history = [(e.step, e.seconds, e.clip_bound, e.watched) for e in self.history]
        self._loop.save({"scheduler": scheduler, "history": history, "seconds": self._seconds()})
        self._last_save = time.monotonic()

    def _resume(self, state: dict[str, Any]) -> None:
        self.history = [EpochRecord(*row) for row in state["history"]]
        self._seconds_before = float(state["seconds"])
        if self._scheduler is not None and state["scheduler"] is not None:
            self._scheduler.load_state_dict(state["scheduler"])

    def _seconds(self) -> float:
        return self._seconds_before + time.monotonic() - self._start

    def _record_epoch(self) -> None:
        watched = None if self._watch is None else _call_watch(self._loop.model, self._watch)
        record = EpochRecord(self._loop.steps_done, self._seconds(), self._loop.clip.bound, watched)
        self.history.append(record)

    def _epsilon_after(self, delta: float) -> Callable[[int], float]:
        def epsilon_after(step: int) -> float:
            checkpoint = self._checkpoint
            ledger = self._loop.plan.ledger(step) if checkpoint is None else checkpoint.ledger(step)
            return account(ledger).epsilon(delta=delta)

        return epsilon_after


def _call_watch(model: nn.Module, watch: Callable[[nn.Module], float]) -> float:
    """Call ``watch`` in evaluation mode. Afterwards each module is back in its own mode."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        return float(watch(model))
    finally:
        for module in training:
            module.training = True
