"""Clipping: scale down the gradient of each example, so that no example moves a sum by more than the bound.

Each rule is a frozen value. Bounds are public parameters: no proof covers a bound that was chosen by looking
at the data, except ``Adaptive``, which pays for the look.

Factors are lowered by 2⁻¹⁸. Norms are exact to about 10⁻⁶, and the sum must stay within the bound, not near
it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from torch import Tensor

from privet.arguments import format_value, open_fraction, positive
from privet.errors import InvalidArgument
from privet.training.plan import QuantileClip

__all__ = ["Adaptive", "Automatic", "Clip", "Flat", "PerLayer", "as_clip"]

_BELOW = 1 - 2.0**-18
_LEAST, _MOST = 1e-10, 1e10  # limits of an adaptive bound, so that its noise fits into float32


@dataclass(frozen=True)
class Clip(ABC):
    """A clipping rule. ``bound`` is the largest norm of what one example adds to a sum."""

    bound: float

    def __post_init__(self) -> None:
        positive("bound", self.bound)

    def groups(self, names: Sequence[str]) -> list[list[str]] | None:
        """Names of the parameters that are clipped together, group by group; None means one group."""
        del names
        return None

    @property
    def ceiling(self) -> float | None:
        """C if the factors are min(1, C/‖g‖), which engines compute in one loop; None for other rules."""
        return None

    @abstractmethod
    def factors(self, squared_norms: Tensor) -> Tensor:
        """The factor of each gradient, from squared norms [examples] or [examples, groups]."""


@final
@dataclass(frozen=True)
class Flat(Clip):
    """min(1, C/‖g‖): gradients within the bound stay as they are.

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
    """C/(‖g‖ + γ): all gradients get about the same length, so the bound only acts as a learning rate.

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
    """Each layer is clipped separately, to a bound C_l with √Σ C_l² = C.

    ``shares`` are pairs of a layer's name and its weight, or a dictionary: C_l = C · w_l/‖w‖. Without them
    every layer gets C/√L. A name means all parameters below it. ``PerLayer.of`` takes the bounds C_l
    themselves.

    Reference: McMahan et al. 2018, Section 2.

    >>> PerLayer.of((("features", 3.0), ("head", 4.0))).bound
    5.0
    """

    shares: Sequence[tuple[str, float]] | Mapping[str, float] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shares", _as_pairs("shares", self.shares))
        for name, weight in self._pairs:
            positive(f"share of {name}", weight)

    @property
    def _pairs(self) -> tuple[tuple[str, float], ...]:
        return _as_pairs("shares", self.shares)

    @staticmethod
    def of(bounds: Mapping[str, float] | Iterable[tuple[str, float]]) -> "PerLayer":
        """Make the rule with these bounds, one for each layer."""
        pairs = _as_pairs("bounds", bounds)
        for name, bound in pairs:
            positive(f"bound of {name}", bound)
        return PerLayer(math.hypot(*(value for _, value in pairs)), pairs)

    def groups(self, names: Sequence[str]) -> list[list[str]]:
        if not self.shares:
            layers: dict[str, list[str]] = {}
            for name in names:
                layers.setdefault(name.rpartition(".")[0], []).append(name)
            return list(layers.values())
        groups = [[name for name in names if _is_within(name, layer)] for layer, _ in self._pairs]
        if sorted(name for group in groups for name in group) != sorted(names) or not all(groups):
            raise InvalidArgument(
                f"'shares' must name every layer with trainable parameters once, got "
                f"{format_value([name for name, _ in self._pairs])}. Take the names from "
                "model.named_children()."
            )
        return groups

    def factors(self, squared_norms: Tensor) -> Tensor:
        count = squared_norms.shape[1]
        weights = [weight for _, weight in self._pairs] or [1.0] * count
        scale = self.bound / math.hypot(*weights)
        bounds = squared_norms.new_tensor([weight * scale for weight in weights])
        return _flat(squared_norms, bounds)


@final
@dataclass(frozen=True)
class Adaptive(Clip):
    """Flat clipping with a bound that follows a quantile of the norms. ``bound`` is the first bound.

    Each step counts, with noise, how many norms lie below the bound. The plan pays for the count: gradients
    and count are one Gaussian mechanism (see ``QuantileClip``). The default of ``count_deviation`` is one
    twentieth of the expected lot, as in the paper, and at least twice the noise multiplier. So small lots pay
    at most 3.3 % more noise for the count.

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

    def quantile_clip(self, expected_lot: float, noise_multiplier: float) -> QuantileClip:
        """The rule as the plan accounts it."""
        default = max(expected_lot / 20, 2 * noise_multiplier)
        deviation = default if self.count_deviation is None else self.count_deviation
        return QuantileClip(self.quantile, deviation, self.learning_rate)

    def count(self, squared_norms: Tensor) -> float:
        """Σ (b − ½), with b = 1 if the norm is at most the bound. One example moves the sum by ½."""
        below = int((squared_norms <= self.bound**2).sum())
        return below - squared_norms.numel() / 2

    def adapt(self, noisy_fraction: float) -> "Adaptive":
        """The rule of the next step, from the noisy share of norms below the bound."""
        error = min(max(noisy_fraction, -9.0), 9.0) - self.quantile
        return self.with_bound(self.bound * math.exp(-self.learning_rate * error))

    def with_bound(self, bound: float) -> "Adaptive":
        """The same rule with another bound."""
        return replace(self, bound=min(max(bound, _LEAST), _MOST))


def as_clip(clip: "Clip | float") -> Clip:
    """Read a clipping rule; a number C means ``Flat(C)``.

    >>> as_clip(1.0)
    Flat(bound=1.0)
    """
    if isinstance(clip, Clip):
        return clip
    if isinstance(clip, int | float) and not isinstance(clip, bool):
        return Flat(float(positive("clip", clip)))
    raise InvalidArgument(
        f"'clip' must be a number or a clipping rule, got {format_value(clip)}. "
        f"Give 1.0, which means Flat(1.0), or Automatic(1.0), PerLayer(1.0) or Adaptive(1.0)."
    )


def _as_pairs(
    name: str, pairs: Mapping[str, float] | Iterable[tuple[str, float]]
) -> tuple[tuple[str, float], ...]:
    items = pairs.items() if isinstance(pairs, Mapping) else pairs
    try:
        return tuple((layer, value) for layer, value in items)
    except Exception:  # no pairs, or a container that fails
        raise InvalidArgument(
            f"'{name}' must be pairs of a layer's name and a number, got {format_value(pairs)}. "
            f"Give {{'features': 3.0, 'head': 4.0}}, for example."
        ) from None


def _flat(squared_norms: Tensor, bound: float | Tensor) -> Tensor:
    return (bound * _BELOW / squared_norms.sqrt()).clamp(max=1.0)  # a norm of 0: infinity, clamped to 1


def _is_within(name: str, layer: str) -> bool:
    return name == layer or name.startswith(f"{layer}.")
