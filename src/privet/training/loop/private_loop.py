"""A private run, step by step: for your own training loop, and for ``train``. ``make_private`` makes it.

Each lot is for one step. Skipping a lot would change the sampling, so it is refused. Ending early is allowed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, final

from torch import Tensor, nn
from torch.optim import Optimizer

from privet.arguments import format_value
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.randomness import NoiseSource, SecureNoise
from privet.training.canaries.canary_datasets import CanaryDataset, CanaryResults
from privet.training.clipping import Adaptive, Clip, as_clip
from privet.training.extras.augmentation import Augmentation
from privet.training.extras.averaging import MovingAverage
from privet.training.extras.denoising import Denoising
from privet.training.extras.module_validation import require_training_mode
from privet.training.extras.optimizers import CorrectedAdam
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.distributed import ProcessGroup, SingleProcess
from privet.training.loop.losses import TorchLoss
from privet.training.loop.optimization import require_usable_optimizer
from privet.training.loop.side_effects import SideEffects
from privet.training.loop.step import NoisyGradient
from privet.training.per_example import Explanation
from privet.training.plan import TrainingPlan
from privet.training.sampling.examples import Examples
from privet.training.sampling.schemes import ShuffledSampling

__all__ = ["Lot", "PrivateLoop"]


@final
@dataclass(frozen=True, eq=False)
class Lot:
    """The examples of one step, by their indices. Of several processes, each has its share of them.

    *Leaks*: the indices must stay secret.
    """

    number: int
    indices: Tensor

    def __repr__(self) -> str:
        return f"Lot({self.number})"


@final
class PrivateLoop:
    """One run: its lots, its steps, and what they have spent.

    *Guarantee*: at any moment ``ledger`` covers everything that the model has learnt from the data so far. It
    covers the weights only. Losses, gradients and accuracies on the data itself are not covered, so do not
    publish them.

    ``steps_done`` is the number of steps so far, and ``final_step`` the step after which the run ends, which
    may be before the last step of the plan. ``user_state`` is what ``save`` was given before this run
    resumed. With a checkpoint, use a ``with`` block: at its end the run is saved, unless a step was broken
    off in the middle, and the checkpoint is closed.

    Args:
        model: the model, which is trained in place.
        optimizer: an optimiser of the model's trainable parameters.
        examples: the data.
        plan: lots, steps, noise and clip bound.
        clip: the clipping rule of the plan; a number C means ``Flat(C)``.
        noise: the source of lots and noise.
        augmentation: variants of every example.
        average: a moving average of the weights.
        denoising: a filter of the noisy gradients.
        checkpoint: the open checkpoint of the run.
        process_group: the processes that share the run.
        caveats: the caveats of the noise; None takes those of ``noise``.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        examples: Examples,
        plan: TrainingPlan,
        clip: Clip | float,
        *,
        noise: NoiseSource = SecureNoise(),  # noqa: B008 - frozen
        augmentation: Augmentation | None = None,
        average: MovingAverage | None = None,
        denoising: Denoising | None = None,
        checkpoint: Checkpoint | None = None,
        process_group: ProcessGroup = SingleProcess(),  # noqa: B008 - stateless
        caveats: frozenset[Caveat] | None = None,
    ) -> None:
        rule = as_clip(clip)
        if rule.bound != plan.clip_bound or isinstance(rule, Adaptive) != (plan.adaptive is not None):
            raise InvalidArgument(
                f"'clip' must be the rule of the plan, with the bound {plan.clip_bound:g}, got "
                f"{format_value(clip)}. Make the plan from the same rule."
            )
        plan.require_size(len(examples))
        require_usable_optimizer(model, optimizer, plan, denoising)
        self.model, self.optimizer, self.plan = model, optimizer, plan
        self._examples, self._checkpoint, self._group = examples, checkpoint, process_group
        self._average, self._denoising = average, denoising
        self._caveats = noise.caveats if caveats is None else caveats
        self.final_step = plan.steps if checkpoint is None else checkpoint.final_step
        self._sampler = plan.sampling.make_sampler(len(examples), noise)
        self._gradient = NoisyGradient.from_plan(
            model, rule, plan, noise, augmentation, process_group, examples.input_names
        )
        self._canaries = examples if isinstance(examples, CanaryDataset) else None
        if self._canaries is not None:
            self._canaries.begin(model, plan)
        self._trainable = [p for p in model.parameters() if p.requires_grad]
        self._side_effects = SideEffects(model)
        self._pending: Lot | None = None
        self._between_steps = True  # False while a step is in progress, or after one was broken off
        self.steps_done = 0
        self.user_state: dict[str, Any] = {}
        if average is not None:
            average.begin(model)
        if denoising is not None:
            denoising.begin(model)
        if checkpoint is not None and checkpoint.state is not None:
            self._resume(checkpoint.step, checkpoint.state)

    def __repr__(self) -> str:
        progress = f"step {self.steps_done} of {self.final_step}"
        return f"PrivateLoop({type(self.model).__name__}, {progress}: {self.plan})"

    @property
    def ledger(self) -> Ledger:
        """What is spent so far; with a checkpoint, what its journal covers."""
        if self._checkpoint is not None:
            return self._checkpoint.ledger()
        return self.plan.ledger(self.steps_done, caveats=self._caveats)

    @property
    def clip(self) -> Clip:
        """The clipping rule of the next step."""
        return self._gradient.clip

    @property
    def can_save(self) -> bool:
        """Whether the run can resume from here.

        A new shuffle would use some examples twice, so shuffled runs are saved at the end of an epoch.
        """
        sampling = self.plan.sampling
        within_epoch = isinstance(sampling, ShuffledSampling) and self.steps_done % -(
            -self.plan.population // sampling.size
        )
        return self._checkpoint is not None and self._between_steps and not within_epoch

    def __reduce__(self) -> NoReturn:
        """Refuse to copy. Copies would share a lot, and each would know only its own steps."""
        raise InvalidArgument(
            "A private run must not be copied or pickled, because what a copy spends is not in this run's "
            "ledger. Give make_private a folder to resume from: checkpoint=…"
        )

    def __enter__(self) -> "PrivateLoop":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # A failure in one process of several may be only its own. Then the others would not join the
            # save.
            if self.can_save and (kind is None or isinstance(self._group, SingleProcess)):
                self.save(self.user_state)
        finally:
            self.close()

    def close(self) -> None:
        """Close the checkpoint."""
        if self._checkpoint is not None:
            self._checkpoint.close()

    @property
    def canaries(self) -> CanaryResults | None:
        """The canaries and their scores, for the current model; None if there are no canaries."""
        return None if self._canaries is None else self._canaries.results(self.model, self.plan)

    def lots(self) -> Iterator[Lot]:
        """The lots of the remaining steps. A lot that was not used yet comes first."""
        while self.steps_done < self.final_step:
            if self._pending is None:
                drawn = self._sampler.draw() if self._group.is_leader else None
                self._pending = Lot(self.steps_done + 1, self._group.scatter(drawn))
            lot = self._pending
            yield lot
            if self._pending is lot:
                raise InvalidArgument(
                    f"Lot {lot.number} must be used for a step before the next lot is drawn, because "
                    "skipping lots changes the sampling that is accounted. Call private.step(lot, loss), or "
                    "leave the loop."
                )

    def step(self, lot: Lot, loss: TorchLoss | None = None) -> None:
        """Clip and sum the gradients, record what is spent, add the noise, and step the optimiser.

        ``loss`` may be left out for a model that computes its own loss from ``labels``, as models of Hugging
        Face do.

        If a gradient is not finite, this raises, and nothing is spent. The lot can then be used again. What
        one process refuses, all of them refuse.
        """
        with self._group.all_or_none():
            if lot is not self._pending:
                raise InvalidArgument(
                    f"'lot' must be the last one of lots(), and not used yet, got {format_value(lot)}. "
                    f"Use each lot for one step."
                )
            require_training_mode(self.model)
            self._clear_gradients()
            with self._side_effects.forbid():
                self._gradient.collect(self._examples, lot.indices, loss)
                if lot.number == self.final_step:
                    self._gradient.check_independence(self._examples, lot.indices, loss)
        if self._canaries is not None:
            self._canaries.add_gradients(lot.indices, self._gradient, self._group)
        if self._checkpoint is not None:
            with self._group.all_or_none():
                self._checkpoint.reserve(lot.number)
        self._between_steps = False
        self.steps_done, self._pending = lot.number, None  # from here on the step counts, whatever happens
        if isinstance(self.optimizer, CorrectedAdam):
            self.optimizer.noise_deviation = self._gradient.deviation
        deviation = self._gradient.deviation  # of this step: ``release`` may change the bound
        self._gradient.release()
        if self._canaries is not None:
            self._canaries.observe(self._gradient)
        if self._denoising is not None:
            self._denoising.apply(self._gradient.gradients, deviation)
        self.optimizer.step()
        if self._average is not None:
            self._average.update(self.model)
        self._between_steps = True

    def explain(self) -> Explanation:
        """How the gradients of each parameter are computed, what is written out for each example, what that
        costs, and what would make it faster. Known after the first step; print it.
        """
        return self._gradient.explain()

    def save(self, user_state: dict[str, Any] | None = None) -> None:
        """Save the state of the run in its checkpoint, with whatever else your loop needs to resume.

        ``user_state`` may have numbers, strings, tensors, and lists and dictionaries of them. Of several
        processes, all call this, and the leader's state is saved.
        """
        if self._checkpoint is None:
            raise InvalidArgument(
                "The run must have a checkpoint to be saved, and has none. Give make_private a folder: "
                "checkpoint=…"
            )
        if not self.can_save:
            raise InvalidArgument(
                f"The run cannot resume from step {self.steps_done}, because a shuffled epoch, or the step "
                "itself, has not ended. Save where can_save is true."
            )
        with self._group.all_or_none():
            self._checkpoint.save(self.steps_done, self._state(user_state))
        self.user_state = user_state or {}

    def _clear_gradients(self) -> None:
        """Remove all gradients before the data is read.

        The gradients of the last step share their memory with the sum of this step, which has no noise yet.
        And gradients of frozen parameters, which come from elsewhere, would move them.
        """
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        if not all(parameter.requires_grad for parameter in self._trainable):
            raise InvalidArgument(
                "'model' must train the same parameters in the whole run, and some of them are now frozen. "
                "End this run and make another one; their ledgers add up."
            )

    def _state(self, user_state: dict[str, Any] | None) -> dict[str, Any]:
        """The state in the form of 0.1.0: its keys must not change."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "gradient": self._gradient.state(),
            "turn": self.steps_done,
            "average": None if self._average is None else self._average.state(),
            "denoising": None if self._denoising is None else self._denoising.state(),
            "canaries": None if self._canaries is None else self._canaries.state(),
            "more": user_state or {},
        }

    def _resume(self, step: int, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self._gradient.resume(state["gradient"])
        self._sampler.resume(state["turn"])
        if self._average is not None:
            self._average.resume(state["average"])
        if self._denoising is not None:
            self._denoising.resume(state["denoising"])
        if self._canaries is not None:
            self._canaries.resume(state.get("canaries"))
        self.steps_done, self.user_state = step, state["more"]
