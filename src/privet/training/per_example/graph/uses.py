"""What is asked of an operation that takes a shared tensor and the examples (``parameter_uses`` has all)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from privet.training.per_example.forms.gradient_form import GradientForm
from privet.training.per_example.graph.shared_steps import Shape
from privet.training.per_example.taps.tape import BatchAxis, RowOwners

__all__ = ["ParameterUse"]


@dataclass(frozen=True, slots=True)
class ParameterUse(ABC):
    """One operation that takes a shared tensor and the examples. Its fields are what the operation saved."""

    takes_owners: ClassVar[bool] = False
    """Whether the rule also holds for rows in any order, whose owners are known."""

    has_images: ClassVar[bool] = False
    """Whether the output is [images, channels, …], where a row is a whole image."""

    def widen(self, dtype: torch.dtype) -> Self:
        """The same with saved tensors as ``dtype``, after a pass under autocast."""
        narrow = {
            field.name: value.to(dtype)
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), Tensor)
            and value.is_floating_point()
            and value.dtype is not dtype
        }
        return replace(self, **narrow) if narrow else self

    @abstractmethod
    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        """Whether the rule holds for this batch axis of the output. ``own``: the shared tensor's shape."""

    @abstractmethod
    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        """The gradient of the shared tensor, from the gradient of the output."""

    def build_owned_form(self, gradient: Tensor, owners: RowOwners, batch: int, own: Shape) -> GradientForm:
        """The same for rows in any order. Only a rule that ``takes_owners`` is asked."""
        raise AssertionError(f"{type(self).__name__} has no rule for rows in any order")
