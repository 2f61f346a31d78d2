"""What is asked of an operation that takes a shared tensor and the examples (``parameter_uses`` has all)."""

from abc import ABC, abstractmethod

from torch import Tensor

from privet.training.per_example.forms.gradient_form import GradientForm
from privet.training.per_example.graph.shared_steps import Shape
from privet.training.per_example.taps.tape import BatchAxis

__all__ = ["ParameterUse"]


class ParameterUse(ABC):
    """One operation that takes a shared tensor and the examples."""

    __slots__ = ()

    @abstractmethod
    def accepts(self, axis: BatchAxis, out: Shape, own: Shape) -> bool:
        """Whether the rule holds for this batch axis of the output. ``own``: the shared tensor's shape."""

    @abstractmethod
    def build_form(self, gradient: Tensor, axis: BatchAxis, batch: int, own: Shape) -> GradientForm:
        """The gradient of the shared tensor, from the gradient of the output."""
