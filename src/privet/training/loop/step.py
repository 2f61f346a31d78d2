"""One private gradient: clipped sums of a lot, piece by piece, into one flat buffer; then noise, once; then the divisor.

It comes in two halves, so that what is spent can be written down between them. ``collect`` looks at the data, and may refuse.
``release`` adds the noise; after it the gradient may be used for anything, because all that follows is post-processing.
"""

from typing import Any, final

import torch
from torch import Tensor, nn

from privet.arguments import at_least, positive
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.torch_internals import has_gradient_hooks
from privet.training.clipping import Adaptive, Clip
from privet.training.extras.augmentation import Augmentation, Variants, averaged
from privet.training.extras.encoded_sums import EncodedSums
from privet.training.extras.encoding import Encoding
from privet.training.extras.module_validation import fixable
from privet.training.loop.distributed import Alone, Workers
from privet.training.loop.losses import Loss, loss_of
from privet.training.noise.correlated import Correlation, IndependentNoise, NoiseStream
from privet.training.noise.distributions import NoiseDistribution, Normal
from privet.training.noise.gradient_noise import add_gaussian_
from privet.training.per_example import ClippedSums, CrossExample, Layout
from privet.training.plan import Plan
from privet.training.sampling.rows import Rows, piece

__all__ = ["NoisyGradient"]


@final
class NoisyGradient:
    """The gradient that a step may see, kept in ``buffer`` and seen by the parameters as their ``grad``.

    *Guarantee*: one example moves the sum by at most ``clip.bound``, and the noise on every number of it has the standard
    deviation ``multiplier · clip.bound``, or protects as well if its ``noise_distribution`` is another. The divisor is the public expected size of a lot.

    A multiplier of 0 adds no noise, and gives no privacy; it is there so that tests can compare with plain training.
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
        workers: Workers = Alone(),  # noqa: B008 - without a state
    ) -> None:
        self.clip = clip
        self._workers, self._noise_distribution, self._encoding = workers, noise_distribution, encoding
        self._model = model if augmentation is None else Variants(model)
        self._augmentation = augmentation
        self._divisor = float(positive("divisor", divisor))
        self._multiplier = float(at_least("multiplier", multiplier, 0))
        self._count_deviation = count_deviation
        self._source, self._micro_batch = source, micro_batch
        self._named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        self._parameters = [p for _, p in self._named]
        self._layout = Layout.of(self._model)
        if self._layout.dtype != torch.float32:
            raise InvalidArgument(
                f"'model' must have parameters of type torch.float32, got {self._layout.dtype}, for which there is no noise. "
                f"Call model.float()."
            )
        self._groups = clip.groups(_own_names(self._layout, wrapped=augmentation is not None))
        if augmentation is not None and self._groups is not None:
            self._groups = [[f"model.{name}" for name in group] for group in self._groups]
        if encoding is not None and self._groups is not None:
            raise InvalidArgument(
                f"'clip' must be one bound for the whole of a gradient that is encoded, got {type(clip).__name__}. "
                f"Use Flat, Automatic or Adaptive."
            )
        self.buffer = self._layout.zeros(self._parameters[0].device)
        self._views = self._layout.views(self.buffer)
        self._count = 0.0
        self._sums: tuple[object, ClippedSums | EncodedSums] | None = None
        self._stream: NoiseStream | None = None
        if not isinstance(correlation, IndependentNoise) and self._multiplier and workers.leads:
            self._stream = correlation.stream(self._layout.size, self._multiplier * clip.bound, source)

    @staticmethod
    def of(
        model: nn.Module,
        clip: Clip,
        plan: Plan,
        source: NoiseSource,
        augmentation: Augmentation | None,
        workers: Workers = Alone(),  # noqa: B008 - without a state
    ) -> "NoisyGradient":
        """The gradient that the plan accounts for."""
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
            workers=workers,
        )

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on every number of the gradient, at the clip bound of now."""
        return (
            self._multiplier * self._noise_distribution.relative_deviation * self.clip.bound / self._divisor
            if self._multiplier
            else 0.0
        )

    @property
    def gradients(self) -> list[Tensor]:
        """The released gradient, as one tensor for each trainable parameter."""
        return self._views

    @property
    def divisor(self) -> float:
        """The public expected size of a lot."""
        return self._divisor

    def collect(self, rows: Rows, indices: Tensor, loss: Loss | nn.Module) -> None:
        """The clipped sum over these examples. Nothing of it may be used before ``release``.

        Refused, with nothing spent, if a gradient is not finite or the loss is not one for each example.
        """
        self._require_no_hooks()
        sums = self._sums_for(loss)
        self._count = 0.0
        if not indices.numel():
            self.buffer.zero_()
        fresh, left = True, indices
        while left.numel():
            size = self._micro_batch or piece(left.numel(), sums.numbers_per_example)
            some, left = (left[:size], left[size:]) if size < left.numel() else (left, left[:0])
            inputs, targets = split(rows.take(some))
            if self._augmentation is not None:
                inputs = self._augmentation.variants(inputs)
            try:
                squared_norms = sums.add(inputs, targets, self.buffer, overwrite=fresh)
            except CrossExample as refused:
                raise fixable(refused) from None
            fresh = False
            if isinstance(self.clip, Adaptive):
                self._count += self.clip.count(squared_norms)

    def add_spikes(self, coordinates: Tensor, height: float) -> None:
        """Examples whose gradient is ``height`` in one coordinate and 0 elsewhere, clipped and counted as all others are."""
        device = self.buffer.device
        clipped = self.clipped_spikes(coordinates, height).to(device, torch.float32)
        self.buffer.index_add_(0, coordinates.to(device), clipped)
        if isinstance(self.clip, Adaptive):
            self._count += self.clip.count(torch.full(coordinates.shape, height * height))

    def clipped_spikes(self, coordinates: Tensor, height: float) -> Tensor:
        """What clipping leaves of such gradients, by the rule of now."""
        squares = torch.full(coordinates.shape, height * height, dtype=torch.float64)
        if self._groups is None:
            return self.clip.factors(squares) * height
        each = torch.arange(len(squares))
        groups = self._layout.groups_at(coordinates, self._groups)
        norms = torch.zeros((len(squares), len(self._groups)), dtype=torch.float64)
        norms[each, groups] = squares
        return self.clip.factors(norms)[each, groups] * height

    def release(self) -> None:
        """Noise, once; the divisor; and the parameters' ``grad``.

        Of several processes the leader adds the noise, to the sum over all of them; they all get its gradient.
        """
        self._workers.total_(self.buffer)
        if self._workers.leads:
            self._add_noise()
        self._workers.spread_(self.buffer)
        for parameter, view in zip(self._parameters, self._views, strict=True):
            parameter.grad = view
        if isinstance(self.clip, Adaptive):
            self.clip = self._adapted(self.clip)
            if self._sums is not None:
                self._sums[1].clipping = self.clip

    def _add_noise(self) -> None:
        """The noise, and the divisor in the same pass where that is to be had."""
        if self._stream is not None:
            self._stream.add_(self.buffer).mul_(1 / self._divisor)
            return
        deviation = self._multiplier * self.clip.bound if self._multiplier else 0.0
        self._noise_distribution.add_(self.buffer, deviation, self._source, self._divisor)

    def _adapted(self, clip: Adaptive) -> Adaptive:
        """The rule of the next step, by a noisy count over all processes."""
        found = torch.tensor([self._count])  # a multiple of ½, which float32 holds up to 8 million
        self._count = 0.0
        self._workers.total_(found)
        if self._workers.leads:
            add_gaussian_(found, self._count_deviation, self._source)
        self._workers.spread_(found)
        return clip.after(float(found[0]) / self._divisor + 0.5)

    def state(self) -> dict[str, Any]:
        """What a run that resumes needs; as secret as the data where noise is correlated."""
        stream = None if self._stream is None else self._stream.state()
        drawn = None if self._augmentation is None else self._augmentation.state()
        return {"bound": self.clip.bound, "stream": stream, "augmentation": drawn}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken."""
        if isinstance(self.clip, Adaptive):
            self.clip = self.clip.at(state["bound"])
            self._sums = None
        if self._stream is not None:
            self._stream.resume(state["stream"])
        if self._augmentation is not None:
            self._augmentation.resume(state["augmentation"])

    def _require_no_hooks(self) -> None:
        for name, parameter in self._named:
            if has_gradient_hooks(parameter):
                raise InvalidArgument(
                    f"'model' must have no hooks on its parameters, got one on '{name}', which would never run, because a "
                    f"private gradient does not come from the backward pass. Remove the hook, and change gradients in "
                    f"the optimiser, where they have their noise."
                )

    def _sums_for(self, loss: Loss | nn.Module) -> ClippedSums | EncodedSums:
        """The engine for this loss; what it has learnt of the model holds for this loss only."""
        if self._sums is None or self._sums[0] is not loss:
            each, same = loss_of(loss), loss
            if self._augmentation is not None:
                each = same = averaged(each, self._augmentation.copies)
            try:
                found = (
                    ClippedSums(self._model, each, self.clip, groups=self._groups, original_loss=same)
                    if self._encoding is None
                    else EncodedSums(self._model, each, self.clip, self._encoding)
                )
            except CrossExample as refused:
                raise fixable(refused) from None
            self._sums = (loss, found)
        return self._sums[1]


def split(columns: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor]:
    """Inputs and targets: the last column is the target; a single one is both."""
    return (columns, columns[0]) if len(columns) == 1 else (columns[:-1], columns[-1])


def _own_names(layout: Layout, *, wrapped: bool) -> list[str]:
    return [name.removeprefix("model.") if wrapped else name for name in layout.names]
