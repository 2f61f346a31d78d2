"""How far each example's gradient is scaled down, so that no example moves a sum by more than the bound.

Each is a frozen value that the gradient engine takes. Bounds are public parameters: a bound that was chosen by looking at
the data is not covered by any proof, unless it is ``Adaptive``, which pays for the look.

Factors are lowered by 2⁻¹⁸, because norms are exact to about 10⁻⁶ and the sum must stay within the bound, not near it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor

from privet.arguments import open_fraction, positive, shown
from privet.errors import InvalidArgument
from privet.training.plan import QuantileClip

__all__ = ["Adaptive", "Automatic", "Clip", "Flat", "PerLayer"]

_BELOW = 1 - 2.0**-18
_LEAST, _MOST = 1e-10, 1e10  # where an adaptive bound stays, so that its noise fits into float32


@dataclass(frozen=True)
class Clip(ABC):
    """A rule of clipping; ``bound`` is the largest norm of what one example adds to a sum."""

    bound: float

    def __post_init__(self) -> None:
        positive("bound", self.bound)

    def groups(self, names: Sequence[str]) -> list[list[str]] | None:
        """Parameters that are clipped together, by their names; None clips all of them together."""
        del names
        return None

    @property
    def ceiling(self) -> float | None:
        """C, where the factors are min(1, C/‖g‖), so that an engine may take them in one loop; None for other rules."""
        return None

    @abstractmethod
    def factors(self, squared_norms: Tensor) -> Tensor:
        """By how much each gradient is multiplied: of squared norms [examples], or [examples, groups]."""


@final
@dataclass(frozen=True)
class Flat(Clip):
    """min(1, C/‖g‖): short gradients stay as they are.

    Reference: Abadi et al. 2016, Algorithm 1.

    >>> import torch
    >>> [round(f, 3) for f in Flat(1.0).factors(torch.tensor([0.0, 0.25, 4.0])).tolist()]
    [1.0, 1.0, 0.5]
    """

    @property
    def ceiling(self) -> float:
        return self.bound * _BELOW

    def factors(self, squared_norms: Tensor) -> Tensor:
        return _flat(squared_norms, self.bound)


@final
@dataclass(frozen=True)
class Automatic(Clip):
    """C/(‖g‖ + γ): every gradient is brought to about the same length, so that the bound is no more than a learning rate.

    Reference: Bu, Wang, Zha & Karypis 2023 (AUTO-S), with their γ = 0.01.
    """

    gamma: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("gamma", self.gamma)

    def factors(self, squared_norms: Tensor) -> Tensor:
        return self.bound * _BELOW / (squared_norms.sqrt() + self.gamma)


@final
@dataclass(frozen=True)
class PerLayer(Clip):
    """Each layer is clipped by itself, to a bound C_l with √Σ C_l² = C.

    ``shares`` are pairs of a layer's name and its weight: C_l = C · w_l/‖w‖. Without them every layer gets C/√L. A name
    stands for all parameters that begin with it, and ``PerLayer.of`` takes the bounds themselves.

    Reference: McMahan et al. 2018, Section 2.

    >>> PerLayer.of((("features", 3.0), ("head", 4.0))).bound
    5.0
    """

    shares: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, weight in self.shares:
            positive(f"share of {name}", weight)

    @staticmethod
    def of(bounds: tuple[tuple[str, float], ...]) -> "PerLayer":
        """The rule with these bounds, one for each layer."""
        return PerLayer(math.hypot(*(value for _, value in bounds)), bounds)

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        if not self.shares:
            layers: dict[str, list[str]] = {}
            for name in names:
                layers.setdefault(name.rpartition(".")[0], []).append(name)
            return list(layers.values())
        found = [[name for name in names if _within(name, layer)] for layer, _ in self.shares]
        if sorted(name for group in found for name in group) != sorted(names) or not all(found):
            raise InvalidArgument(
                f"'shares' must name every layer with trainable parameters once, got {shown([n for n, _ in self.shares])}. "
                f"Take the names from model.named_children()."
            )
        return found

    def factors(self, squared_norms: Tensor) -> Tensor:
        count = squared_norms.shape[1]
        weights = [weight for _, weight in self.shares] or [1.0] * count
        scale = self.bound / math.hypot(*weights)
        bounds = squared_norms.new_tensor([weight * scale for weight in weights])
        return _flat(squared_norms, bounds)


@final
@dataclass(frozen=True)
class Adaptive(Clip):
    """Flat, with a bound that follows a quantile of the norms: ``bound`` is where it begins.

    How many norms lie below the bound is counted with noise in every step. The plan pays for the count: gradients and count are
    one Gaussian mechanism (see ``QuantileClip``). If ``count_deviation`` is not given, it is a twentieth of the expected lot as
    in the paper, and at least twice the noise multiplier, so that small lots pay for the count with 3.3 % more noise at most.

    Reference: Andrew, Thakkar, McMahan & Ramaswamy 2021.
    """

    quantile: float = 0.5
    learning_rate: float = 0.2
    count_deviation: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        open_fraction("quantile", self.quantile)
        positive("learning_rate", self.learning_rate)
        if self.count_deviation is not None:
            positive("count_deviation", self.count_deviation)

    @property
    def ceiling(self) -> float:
        return self.bound * _BELOW

    def factors(self, squared_norms: Tensor) -> Tensor:
        return _flat(squared_norms, self.bound)

    def rule(self, expected_lot: float, noise_multiplier: float) -> QuantileClip:
        """What the plan is told."""
        usual = max(expected_lot / 20, 2 * noise_multiplier)
        deviation = usual if self.count_deviation is None else self.count_deviation
        return QuantileClip(self.quantile, deviation, self.learning_rate)

    def count(self, squared_norms: Tensor) -> float:
        """Σ (b − ½), with b = 1 where the norm is at most the bound: one example moves it by ½."""
        below = int((squared_norms <= self.bound**2).sum())
        return below - squared_norms.numel() / 2

    def after(self, noisy_fraction: float) -> "Adaptive":
        """The rule of the next step, from the share of norms below the bound, as it was counted with noise."""
        off = min(max(noisy_fraction, -9.0), 9.0) - self.quantile
        return self.at(self.bound * math.exp(-self.learning_rate * off))

    def at(self, bound: float) -> "Adaptive":
        """The rule with another bound."""
        return replace(self, bound=min(max(bound, _LEAST), _MOST))


def _flat(squared_norms: Tensor, bound: float | Tensor) -> Tensor:
    return (bound * _BELOW / squared_norms.sqrt()).clamp(max=1.0)  # 0 has factor 1, by way of infinity


def _within(name: str, layer: str) -> bool:
    return name == layer or name.startswith(f"{layer}.")
