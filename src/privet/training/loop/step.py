"""One private gradient: clipped sums of a lot in one flat buffer, then noise, once, then the divisor.

It has two halves, so that the ledger can be written between them. ``collect`` reads the data, and may refuse.
``release`` adds the noise. After it the gradient may be used for anything, because this is post-processing.
"""

from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor, nn

from privet.arguments import at_least, positive
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource, SecureNoise
from privet.torch_internals import has_gradient_hooks
from privet.training.clipping import Adaptive, Clip
from privet.training.extras.augmentation import Augmentation
from privet.training.extras.encoded_sums import EncodedSums
from privet.training.extras.encoding import Encoding
from privet.training.extras.module_validation import add_fix_hint
from privet.training.loop.distributed import ProcessGroup, SingleProcess
from privet.training.loop.losses import TorchLoss
from privet.training.loop.objectives import Objective
from privet.training.loops import wait_for_loops
from privet.training.noise.correlated import Correlation, IndependentNoise, NoiseStream
from privet.training.noise.distributions import NoiseDistribution, Normal
from privet.training.noise.gradient_noise import add_gaussian_
from privet.training.per_example import ClippedSums, CrossExample, Explanation, Layout
from privet.training.per_example.graph.couplings import CouplingTests, preserve_state
from privet.training.plan import TrainingPlan
from privet.training.sampling.examples import Examples, micro_batch_size

__all__ = ["NoisyGradient", "split_targets"]

_FEWEST = 3  # examples of which a test of independence says something


@final
class NoisyGradient:
    """The noisy gradient of a step, in ``buffer``. The ``grad`` of each parameter is a view of it.

    For a model in float64, gradients are clipped and summed in float64, and the sum is rounded to float32.

    *Guarantee*: one example moves the sum by at most ``clip.bound``. The noise on each number of the sum has
    the standard deviation ``multiplier · clip.bound``. Another ``noise_distribution`` than the normal one
    protects as well. The divisor is the public expected size of a lot.

    A multiplier of 0 adds no noise and gives no privacy. It exists so that tests can compare with plain
    training.
    """

    def __init__(
        self,
        model: nn.Module,
        clip: Clip,
        *,
        divisor: float,
        multiplier: float,
        count_deviation: float = 0.0,
        correlation: Correlation = IndependentNoise(),  # noqa: B008 - frozen
        source: NoiseSource,
        micro_batch: int | None = None,
        augmentation: Augmentation | None = None,
        noise_distribution: NoiseDistribution = Normal(),  # noqa: B008 - frozen
        encoding: Encoding | None = None,
        process_group: ProcessGroup = SingleProcess(),  # noqa: B008 - stateless
        input_names: tuple[str, ...] | None = None,
    ) -> None:
        self.clip = clip
        self._group, self._encoding = process_group, encoding
        self._noise_distribution = noise_distribution
        self._model, self._input_names = model, input_names
        self._augmentation = augmentation
        self._divisor = float(positive("divisor", divisor))
        self._multiplier = float(at_least("multiplier", multiplier, 0))
        self._count_deviation = count_deviation
        self._source, self._micro_batch = source, micro_batch
        if not isinstance(source, SecureNoise):
            wait_for_loops()  # a run with a seed has the same digits every time
        self._named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._parameters = [p for _, p in self._named]
        self._layout = Layout.of(model)
        self._groups = clip.groups(list(self._layout.names))
        if encoding is not None and self._groups is not None:
            raise InvalidArgument(
                f"'clip' must be one bound for a gradient that is encoded, got {type(clip).__name__}. "
                f"Use Flat, Automatic or Adaptive."
            )
        device = self._parameters[0].device
        self._sum = self._layout.zeros(device)
        self._views = self._layout.views(self._sum)
        # The noise is float32. A sum in float64 is rounded before the noise is added: finer digits would have
        # no noise.
        self.buffer = self._sum if self._sum.dtype == torch.float32 else self._sum.float()
        self._count = 0.0
        self._objective: tuple[object, Objective] | None = None
        self._sums: ClippedSums | EncodedSums | None = None
        self._stream: NoiseStream | None = None
        if not isinstance(correlation, IndependentNoise) and self._multiplier and process_group.is_leader:
            self._stream = correlation.stream(self._layout.size, self._multiplier * clip.bound, source)

    @staticmethod
    def from_plan(
        model: nn.Module,
        clip: Clip,
        plan: TrainingPlan,
        source: NoiseSource,
        augmentation: Augmentation | None,
        process_group: ProcessGroup = SingleProcess(),  # noqa: B008 - stateless
        input_names: tuple[str, ...] | None = None,
    ) -> "NoisyGradient":
        """Make the gradient that the plan accounts for."""
        return NoisyGradient(
            model,
            clip,
            divisor=plan.expected_lot,
            multiplier=plan.gradient_multiplier,
            count_deviation=0.0 if plan.adaptive is None else plan.adaptive.count_deviation,
            correlation=plan.correlation,
            source=source,
            micro_batch=plan.micro_batch,
            augmentation=augmentation,
            noise_distribution=plan.noise_distribution,
            encoding=plan.encoding,
            process_group=process_group,
            input_names=input_names,
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on each number of the gradient, at the current clip bound."""
        if not self._multiplier:
            return 0.0
        return (
            self._multiplier * self._noise_distribution.relative_deviation * self.clip.bound / self._divisor
        )

    @property
    def gradients(self) -> list[Tensor]:
        """The released gradient, as one tensor for each trainable parameter."""
        return self._views

    @property
    def divisor(self) -> float:
        """The public expected size of a lot."""
        return self._divisor

    def collect(self, examples: Examples, indices: Tensor, loss: TorchLoss | None) -> None:
        """Compute the clipped sum over these examples. Nothing may use it before ``release``.

        Without a ``loss`` the model computes its own (see ``own_losses``).

        If a gradient is not finite, or the loss is not one number for each example, this raises, and nothing
        is spent.
        """
        self._require_no_hooks()
        self._count = 0.0
        fresh = True
        for part in examples.split(indices):
            rest = part
            while rest.numel():
                size = self._micro_batch or micro_batch_size(rest.numel(), self._numbers_per_example)
                batch, rest = (rest[:size], rest[size:]) if size < rest.numel() else (rest, rest[:0])
                inputs, targets = self._read(examples, batch, loss)
                sums = self._sums_for(loss)
                try:
                    squared_norms = sums.add(inputs, targets, self._sum, overwrite=fresh)
                except CrossExample as refusal:
                    raise add_fix_hint(refusal) from None
                fresh = False
                if isinstance(self.clip, Adaptive):
                    self._count += self.clip.count(squared_norms)
        if fresh:
            self._sum.zero_()
        if self.buffer is not self._sum:
            self.buffer.copy_(self._sum)

    def explain(self) -> Explanation:
        """How each parameter was handled in the last lot."""
        sums = self._sums
        if sums is None:
            raise InvalidArgument(
                "How gradients are computed is known after the first lot, and there was none. Take one step "
                "first."
            )
        if not isinstance(sums, ClippedSums):
            raise InvalidArgument(
                "An encoded gradient is written out for every example, so there is nothing to explain. Leave "
                "out 'encoding' for gradients that are not written out."
            )
        own = dict(zip(sums.layout.names, self._layout.names, strict=True))  # without those of our wrappers
        explanation = sums.explain()
        parameters = tuple(replace(p, name=own[p.name]) for p in explanation.parameters)
        return replace(explanation, parameters=parameters)

    @property
    def _numbers_per_example(self) -> int | None:
        return None if self._sums is None else self._sums.numbers_per_example

    def _read(
        self, examples: Examples, indices: Tensor, loss: TorchLoss | None
    ) -> tuple[tuple[Tensor, ...], Tensor]:
        """The inputs of the engine's model, and the targets, of these examples."""
        columns = examples.take(indices)
        if (device := self.buffer.device).type != "cpu":  # the data follow the model
            columns = tuple(column.to(device) for column in columns)
        inputs, targets = split_targets(columns)
        objective = self._objective_for(loss)
        if objective.check(inputs, targets):
            self._sums = None  # the objective has another model now
        inputs = objective.extend(inputs, targets)
        return (inputs if self._augmentation is None else self._augmentation.variants(inputs)), targets

    def check_independence(self, examples: Examples, indices: Tensor, loss: TorchLoss | None) -> None:
        """Test on some of these examples that no loss or gradient depends on the other examples of a lot.

        ``ClippedSums`` tests this in lots 1, 4, 16, … only. This is for the last lot of a run, so that a
        dependence that appears late in training does not stay unnoticed. ``EncodedSums`` puts each example
        through the model alone.
        """
        sums = self._sums_for(loss)
        if not isinstance(sums, ClippedSums) or indices.numel() < _FEWEST:
            return
        size = self._micro_batch or micro_batch_size(indices.numel(), sums.numbers_per_example)
        part = next((part for part in examples.split(indices) if part.numel() >= _FEWEST), indices[:0])
        inputs, targets = self._read(examples, part[: max(_FEWEST, size)], loss)
        if len(targets) < _FEWEST:
            return  # canaries that are left out, or examples of different shapes
        objective = self._objective_for(loss)
        couplings = CouplingTests(objective.model, objective.loss, self._parameters)
        two, three = ((tuple(x[:n] for x in inputs), targets[:n]) for n in (2, 3))
        try:
            with preserve_state(objective.model):
                couplings.require_independent_pair(two, three)
            couplings.require_independent_half(inputs, targets, first=False)
        except CrossExample as refusal:
            raise add_fix_hint(refusal) from None

    def add_dirac_gradients(self, coordinates: Tensor, height: float) -> None:
        """Add gradients of ``height`` in one coordinate and 0 elsewhere, clipped and counted like others."""
        device = self.buffer.device
        clipped = self.clip_dirac_gradients(coordinates, height).to(device, torch.float32)
        self.buffer.index_add_(0, coordinates.to(device), clipped)
        if isinstance(self.clip, Adaptive):
            self._count += self.clip.count(torch.full(coordinates.shape, height * height))

    def clip_dirac_gradients(self, coordinates: Tensor, height: float) -> Tensor:
        """The lengths of such gradients after clipping, by the current rule."""
        squares = torch.full(coordinates.shape, height * height, dtype=torch.float64)
        if self._groups is None:
            return self.clip.factors(squares) * height
        rows = torch.arange(len(squares))
        groups = self._layout.groups_at(coordinates, self._groups)
        norms = torch.zeros((len(squares), len(self._groups)), dtype=torch.float64)
        norms[rows, groups] = squares
        return self.clip.factors(norms)[rows, groups] * height

    def release(self) -> None:
        """Add the noise, once, divide, and set the ``grad`` of the parameters.

        Of several processes, the leader adds the noise to the sum over all of them, and broadcasts the
        gradient.
        """
        self._group.reduce_(self.buffer)
        if self._group.is_leader:
            self._add_noise()
        self._group.broadcast_(self.buffer)
        if self.buffer is not self._sum:
            self._sum.copy_(self.buffer)
        for parameter, view in zip(self._parameters, self._views, strict=True):
            parameter.grad = view
        if isinstance(self.clip, Adaptive):
            self.clip = self._adapt(self.clip)
            if self._sums is not None:
                self._sums.clipping = self.clip

    def _add_noise(self) -> None:
        """Add the noise, and divide in the same pass where possible."""
        if self._stream is not None:
            self._stream.add_(self.buffer).mul_(1 / self._divisor)
            return
        deviation = self._multiplier * self.clip.bound if self._multiplier else 0.0
        self._noise_distribution.add_(self.buffer, deviation, self._source, self._divisor)

    def _adapt(self, clip: Adaptive) -> Adaptive:
        """The rule of the next step, by a noisy count over all processes."""
        count = torch.tensor([self._count])  # a multiple of ½, which is exact in float32 up to 8 million
        self._count = 0.0
        self._group.reduce_(count)
        if self._group.is_leader:
            add_gaussian_(count, self._count_deviation, self._source)
        self._group.broadcast_(count)
        return clip.adapt(float(count[0]) / self._divisor + 0.5)

    def state(self) -> dict[str, Any]:
        """What a run that resumes needs. It is as secret as the data if the noise is correlated."""
        stream = None if self._stream is None else self._stream.state()
        augmentation = None if self._augmentation is None else self._augmentation.state()
        return {"bound": self.clip.bound, "stream": stream, "augmentation": augmentation}

    def resume(self, state: dict[str, Any]) -> None:
        """Continue from ``state``."""
        if isinstance(self.clip, Adaptive):
            self.clip = self.clip.with_bound(state["bound"])
            self._sums = None
        if self._stream is not None:
            self._stream.resume(state["stream"])
        if self._augmentation is not None:
            self._augmentation.resume(state["augmentation"])

    def _require_no_hooks(self) -> None:
        for name, parameter in self._named:
            if has_gradient_hooks(parameter):
                raise InvalidArgument(
                    f"'model' must have no hooks on its parameters, got one on '{name}', which would never "
                    "run, because a private gradient does not come from the backward pass. Remove the hook, "
                    "and change gradients in the optimiser, where they have their noise."
                )

    def _objective_for(self, loss: TorchLoss | None) -> Objective:
        """The model and the loss as the engine calls them."""
        if self._objective is None or self._objective[0] is not loss:
            self._objective = loss, Objective(self._model, loss, self._input_names, self._augmentation)
            self._sums = None
        return self._objective[1]

    def _sums_for(self, loss: TorchLoss | None) -> ClippedSums | EncodedSums:
        """The engine for this loss. What it has learnt about the model holds for this loss only."""
        objective = self._objective_for(loss)
        if self._sums is None:
            model, per_example = objective.model, objective.loss
            try:
                if self._encoding is None:
                    groups = objective.rename(self._groups, self._layout.names)
                    original = objective.original_loss
                    self._sums = ClippedSums(
                        model, per_example, self.clip, groups=groups, original_loss=original
                    )
                else:
                    self._sums = EncodedSums(model, per_example, self.clip, self._encoding)
            except CrossExample as refusal:
                raise add_fix_hint(refusal) from None
        return self._sums


def split_targets(columns: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Split columns into inputs and targets. The last column is the target; a single column is both."""
    return (columns, columns[0]) if len(columns) == 1 else (columns[:-1], columns[-1])
