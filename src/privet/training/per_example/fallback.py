"""Per-example gradients of a few parameters of any model, by brute force.

For what no tap knows: parameters that are used outside of a known layer, or in one whose rows are not those
of the examples. Each example is put through the model alone, so the gradient is that of its own loss,
whatever the model does with a batch. ``torch.func`` does all examples at once; where it cannot, one after another.

Dropout is drawn anew here, so the masks differ from those of the taps. The vector that is clipped is the
vector that is added all the same, so the bound holds; its two parts are gradients of the same example under two
draws of the mask.
"""

import warnings
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

__all__ = ["BruteForce"]

CHUNK = 1 << 25
"""How many numbers of written-out gradients are made at a time."""


class _Whole(nn.Module):
    """The model with its loss, which may look at a parameter of the model itself."""

    def __init__(self, model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._loss = (loss,)  # not a part of this module, if it is one itself

    def forward(self, target: Tensor, *inputs: Tensor) -> Tensor:
        return self._loss[0](self.model(*inputs), target).sum()


@final
class BruteForce:
    """Written-out gradients of the named parameters."""

    __slots__ = ("_loops", "_loss", "_model")

    def __init__(self, model: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        self._model = model
        self._loss = loss
        self._loops = False

    def gradients(self, names: list[str], inputs: tuple[Tensor, ...], targets: Tensor) -> list[Tensor]:
        """[examples, *shape] for each name."""
        if not self._loops:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of operations that are mapped slowly
                    return self._mapped(names, inputs, targets)
            except Exception:
                # Whatever stops the mapped form (control flow by values, operations without a rule, side
                # effects) stops it for every lot; if the model itself is at fault, the loop raises that again.
                self._loops = True
        return self._looped(names, inputs, targets)

    def _mapped(self, names: list[str], inputs: tuple[Tensor, ...], targets: Tensor) -> list[Tensor]:
        whole = _Whole(self._model, self._loss)
        parameters = dict(self._model.named_parameters())
        chosen = {name: parameters[name].detach() for name in names}

        def one(values: dict[str, Tensor], target: Tensor, *example: Tensor) -> Tensor:
            inside = {f"model.{name}": value for name, value in values.items()}
            found = functional_call(whole, inside, (target.unsqueeze(0), *[x.unsqueeze(0) for x in example]))
            return found  # type: ignore[no-any-return]

        size = sum(p.numel() for p in chosen.values())
        chunk = max(1, CHUNK // max(1, size))
        dims = (None, 0, *[0] * len(inputs))
        found = vmap(grad(one), in_dims=dims, randomness="different", chunk_size=chunk)(
            chosen, targets, *inputs
        )
        return [found[name].detach() for name in names]

    def _looped(self, names: list[str], inputs: tuple[Tensor, ...], targets: Tensor) -> list[Tensor]:
        parameters = dict(self._model.named_parameters())
        chosen = [parameters[name] for name in names]
        rows = [torch.zeros(targets.shape[0], *p.shape, dtype=p.dtype, device=p.device) for p in chosen]
        for i in range(targets.shape[0]):
            losses = self._loss(self._model(*[x[i : i + 1] for x in inputs]), targets[i : i + 1])
            found = torch.autograd.grad(losses.sum(), chosen, allow_unused=True)
            for row, value in zip(rows, found, strict=True):
                if value is not None:
                    row[i] = value
        return rows
