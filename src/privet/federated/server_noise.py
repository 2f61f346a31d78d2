"""The noise that the server adds to a sum: that of the plan, once, from ``privet.training``'s generator."""

from typing import final

import torch
from torch import Tensor

from privet.federated.terms import CentralTerms, Terms
from privet.randomness import NoiseSource
from privet.training.clipping import Adaptive
from privet.training.noise.correlated import IndependentNoise, NoiseStream
from privet.training.noise.gradient_noise import add_gaussian_
from privet.views import Numbers

__all__ = ["ServerNoise"]


@final
class ServerNoise:
    """Turns sums into noisy means, and follows the clip bound. Under terms without central noise it adds
    none.

    ``bound`` is the clip bound of the next round, None for none. ``extra_numbers`` is how many numbers a
    vector has after the update.
    """

    def __init__(self, terms: Terms, size: int, source: NoiseSource) -> None:
        self._size, self._source = size, source
        self._clip = terms.clip
        self._plan = terms.plan if isinstance(terms, CentralTerms) else None
        self.stream: NoiseStream | None = None
        if self._plan is not None and not isinstance(self._plan.correlation, IndependentNoise):
            self.stream = self._plan.correlation.stream(size, self._plan.standard_deviation, source)

    @property
    def is_central(self) -> bool:
        """Whether the server adds noise."""
        return self._plan is not None

    @property
    def bound(self) -> float | None:
        """The clip bound of the next round."""
        return None if self._clip is None else self._clip.bound

    @property
    def extra_numbers(self) -> int:
        """The length of a vector beyond the update: one number for the adaptive clip."""
        return int(isinstance(self._clip, Adaptive))

    def resume(self, bound: float | None) -> None:
        """Continue with this clip bound."""
        if isinstance(self._clip, Adaptive) and bound is not None:
            self._clip = self._clip.with_bound(bound)

    def release(self, total: Numbers, divisor: float) -> Tensor:
        """The noisy mean update of a round."""
        update = torch.from_numpy(total[: self._size].copy()).float()
        if self._plan is not None:
            if self.stream is not None:
                self.stream.add_(update)
            else:
                deviation = self._plan.gradient_multiplier * (self.bound or 0.0)
                add_gaussian_(update, deviation, self._source)
            if isinstance(self._clip, Adaptive):
                self._adapt(self._clip, float(total[self._size]))
        return update.div_(divisor)

    def _adapt(self, clip: Adaptive, count: float) -> None:
        """The rule of the next round, from the noisy count of updates within the bound."""
        assert self._plan is not None
        assert self._plan.adaptive is not None
        noisy = torch.tensor([count])  # a multiple of ½, exact in float32
        add_gaussian_(noisy, self._plan.adaptive.count_deviation, self._source)
        self._clip = clip.adapt(float(noisy[0]) / self._plan.expected_lot + 0.5)
