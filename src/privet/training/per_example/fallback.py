"""Per-example gradients of a few parameters of any model, by brute force.

This is for parameters that no tap covers: they are used outside of a known layer, or in one whose rows are
not those of the examples. Each example goes through the model alone, so the gradient is that of its own loss,
whatever the model does with a batch. ``torch.func`` does all examples at once. Where it cannot, they run one
after another.

Dropout is drawn again here, so the masks differ from those of the taps. The bound still holds, because the
vector that is clipped is the vector that is added. Its two parts are gradients of the same example under two
draws of the mask.
"""

import warnings
from typing import final

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from privet.callers import level_of_caller
from privet.torch_internals import get_parameters
from privet.training.per_example.losses import LossFunction

__all__ = ["BruteForce", "count_at_once"]

CHUNK = 1 << 25
"""Numbers of written-out gradients that are made at a time."""
LARGE = 1 << 20
"""Bytes of a parameter that is never written out without a warning."""


def count_at_once(numbers: int) -> int:
    """How many examples may have this many numbers of gradients written out at the same time.

    At least two: a single example shows nothing of how a model treats a batch.
    """
    return max(2, CHUNK // max(1, numbers))


class _ModelWithLoss(nn.Module):
    """The model with its loss, which may read a parameter of the model itself."""

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        super().__init__()
        self.model = model
        self._loss = (loss,)  # in a tuple, so that it is not a submodule

    def forward(self, target: Tensor, *inputs: Tensor) -> Tensor:
        return self._loss[0](self.model(*inputs), target).sum()


@final
class BruteForce:
    """Written-out gradients of the named parameters."""

    __slots__ = ("_loss", "_model", "_needs_loop", "_warned")

    def __init__(self, model: nn.Module, loss: LossFunction) -> None:
        self._model = model
        self._loss = loss
        self._needs_loop = self._warned = False

    @property
    def needs_loop(self) -> bool:
        """Whether the examples run one after another, because ``torch.func`` cannot map the model."""
        return self._needs_loop

    def gradients(self, names: list[str], inputs: tuple[Tensor, ...], targets: Tensor) -> list[Tensor]:
        """[examples, *shape] for each name."""
        if not self._warned:
            self._warn_of_memory(names)
        if not self._needs_loop:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of operations that vmap runs slowly
                    return self._map_examples(names, inputs, targets)
            except Exception:
                # What stops vmap (control flow by values, operations without a rule, side effects) stops it
                # for every lot. If the model itself is at fault, the loop raises the error again.
                self._needs_loop = True
        return self._loop_over_examples(names, inputs, targets)

    def _warn_of_memory(self, names: list[str]) -> None:
        """Say once which parameters are large."""
        parameters = dict(self._model.named_parameters())
        large = [n for n in names if parameters[n].numel() * parameters[n].element_size() >= LARGE]
        if not large:
            return
        self._warned = True
        more = f" and {len(large) - 3} more" if len(large) > 3 else ""
        warnings.warn(
            f"The gradient of {', '.join(large[:3])}{more} is written out for every example, 1 MB or more "
            "each, because it is not known how the model uses the parameter. That costs memory and time. "
            "explain() of the private loop says why, and what would make it faster.",
            stacklevel=level_of_caller(),
        )

    def _map_examples(self, names: list[str], inputs: tuple[Tensor, ...], targets: Tensor) -> list[Tensor]:
        whole = _ModelWithLoss(self._model, self._loss)
        parameters = dict(self._model.named_parameters())
        chosen = {name: parameters[name].detach() for name in names}
        places = self._find_places({id(parameters[name]): name for name in names})

        def compute_loss(values: dict[str, Tensor], target: Tensor, *example: Tensor) -> Tensor:
            inside = {f"model.{place}": values[name] for place, name in places.items()}
            batch = (target.unsqueeze(0), *[x.unsqueeze(0) for x in example])
            return functional_call(whole, inside, batch, tie_weights=False)  # type: ignore[no-any-return]

        size = sum(p.numel() for p in chosen.values())
        chunk = max(1, CHUNK // max(1, size))
        dims = (None, 0, *[0] * len(inputs))
        mapped = vmap(grad(compute_loss), in_dims=dims, randomness="different", chunk_size=chunk)
        gradients = mapped(chosen, targets, *inputs)
        return [gradients[name].detach() for name in names]

    def _find_places(self, names: dict[int, str]) -> dict[str, str]:
        """Where the model keeps the parameters with these names by identity: a path, once for each place.

        A module that stands under several paths is one place. With ``tie_weights``, ``functional_call``
        replaces its parameters once for each path, and then restores the replacement.
        """
        return {
            f"{path}.{own}" if path else own: names[id(parameter)]
            for path, module in self._model.named_modules()
            for own, parameter in get_parameters(module).items()
            if id(parameter) in names
        }

    def _loop_over_examples(
        self, names: list[str], inputs: tuple[Tensor, ...], targets: Tensor
    ) -> list[Tensor]:
        parameters = dict(self._model.named_parameters())
        chosen = [parameters[name] for name in names]
        rows = [torch.zeros(targets.shape[0], *p.shape, dtype=p.dtype, device=p.device) for p in chosen]
        for i in range(targets.shape[0]):
            losses = self._loss(self._model(*[x[i : i + 1] for x in inputs]), targets[i : i + 1])
            gradients = torch.autograd.grad(losses.sum(), chosen, allow_unused=True)
            for row, gradient in zip(rows, gradients, strict=True):
                if gradient is not None:
                    row[i] = gradient
        return rows
