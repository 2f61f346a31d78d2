"""A gradient of known form whose numbers stand elsewhere in the parameter: transposed, reshaped, cut out."""

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from privet.training.per_example.forms.gradient_form import GradientForm

__all__ = ["RearrangedForm"]


@final
class RearrangedForm(GradientForm):
    """The form of a tensor that is a rearranged parameter, or a part of one.

    ``back`` takes gradients [examples, *shape of the tensor] to [examples, *shape of the parameter]. It moves
    numbers and adds zeros, so the norms stay.
    """

    __slots__ = ("_back", "_inner", "_shape")

    def __init__(self, inner: GradientForm, shape: tuple[int, ...], back: Callable[[Tensor], Tensor]) -> None:
        self._inner, self._shape, self._back = inner, shape, back

    @property
    def description(self) -> str:  # type: ignore[override]
        """How the tensor itself is handled."""
        return self._inner.description

    def squared_norms(self) -> Tensor:
        return self._inner.squared_norms()

    def add_sum(self, factors: Tensor, out: Tensor) -> None:
        total = torch.zeros(self._shape, dtype=out.dtype, device=out.device)
        self._inner.add_sum(factors, total)
        out += self._back(total.unsqueeze(0))[0]

    def narrow(self, examples: slice) -> "RearrangedForm":
        return RearrangedForm(self._inner.narrow(examples), self._shape, self._back)

    def to_dense(self) -> Tensor:
        return self._back(self._inner.to_dense())
