"""The position of each trainable parameter in one flat buffer."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import final

import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument

__all__ = ["Layout", "number_groups"]


@final
@dataclass(frozen=True)
class Layout:
    """The trainable parameters of a model, one after another in a flat buffer, in the model's own order.

    A parameter that several modules share appears once, under its first name. Frozen parameters
    (``requires_grad=False``) do not appear.

    >>> Layout.of(nn.Linear(3, 2)).size
    8
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, model: nn.Module) -> "Layout":
        """The layout of the parameters that are trainable now."""
        named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
        if not named:
            raise InvalidArgument(
                "'model' must have a trainable parameter, got none with requires_grad=True. "
                "Call requires_grad_() on what is to be trained."
            )
        dtypes = {p.dtype for _, p in named}
        if len(dtypes) > 1 or not dtypes <= {torch.float32, torch.float64}:
            raise InvalidArgument(
                f"'model' must have trainable parameters of one type, float32 or float64, got "
                f"{', '.join(sorted(map(str, dtypes)))}. Call model.float()."
            )
        return cls(tuple(n for n, _ in named), tuple(p.shape for _, p in named), dtypes.pop())

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of elements of each parameter."""
        return tuple(shape.numel() for shape in self.shapes)

    @property
    def size(self) -> int:
        """The number of elements of the buffer."""
        return sum(self.sizes)

    def groups_at(self, coordinates: Tensor, groups: Sequence[Sequence[str]]) -> Tensor:
        """The group of the parameter at each of these positions of the buffer."""
        number = {name: group for group, names in enumerate(groups) for name in names}
        ends = torch.tensor(list(accumulate(self.sizes)))
        owners = torch.searchsorted(ends, coordinates, right=True)
        return torch.tensor([number[name] for name in self.names])[owners]

    def zeros(self, device: torch.device | None = None) -> Tensor:
        """A new buffer of zeros."""
        return torch.zeros(self.size, dtype=self.dtype, device=device)

    def views(self, buffer: Tensor) -> list[Tensor]:
        """Views of the buffer in the shapes of the parameters, in order."""
        if buffer.shape != (self.size,) or buffer.dtype != self.dtype or not buffer.is_contiguous():
            raise InvalidArgument(
                f"'out' must be a contiguous flat buffer of {self.size} numbers of type {self.dtype}, got "
                f"shape {tuple(buffer.shape)} of type {buffer.dtype}. Make it with layout.zeros()."
            )
        ends = accumulate(self.sizes)
        return [buffer[end - s.numel() : end].view(s) for end, s in zip(ends, self.shapes, strict=True)]


def number_groups(names: tuple[str, ...], groups: Sequence[Sequence[str]] | None) -> list[int]:
    """The group of each parameter."""
    if groups is None:
        return [0] * len(names)
    by_name = {name: number for number, group in enumerate(groups) for name in group}
    if set(by_name) != set(names) or sum(map(len, groups)) != len(names):
        raise InvalidArgument(
            "'groups' must name each trainable parameter once, got other names, repeated or missing ones. "
            "Take the names from layout.names."
        )
    return [by_name[name] for name in names]
