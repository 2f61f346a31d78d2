"""Whether one example's loss, or its gradient, depends on other examples: tried out on the lots themselves.

A clip bounds what one example adds, and so what its absence changes, only if no other example's gradient changes with it. A dependence through the graph is seen
by ``proofs``; one through values that are cut from the graph (a mean of the batch behind ``detach``) is not. So examples are put into other company:

- the first 2 of a lot, and the first 3: the losses of the 2 must stay as they are;
- the lot, and a random half of it in random order: the losses of the half must stay as they are;
- a few examples alone: their gradients must have the norms that they had in the lot.

The first is done for every plan, the others in lots 1, 4, 16, … of its shapes, and in the first that is more than twice as large. Company that is never drawn is never tried: this is a test, not a proof.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.training.per_example.refusals import CrossExample, require_losses

__all__ = ["Couplings", "undisturbed"]

TOLERANCE = 1e-3
"""How far apart, relatively, two evaluations of the same losses may be; a coupling by a count is far above."""

ROUGHLY = 1e-2
"""How far apart, relatively, two norms of the same gradient may be."""

COARSE = 30.0
"""By how much both are larger where autocast rounds to half precision."""

ALONE = 4
"""How many examples are put through the model alone."""

Loss = Callable[[Tensor, Tensor], Tensor]
Lot = tuple[tuple[Tensor, ...], Tensor]


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Passes through the model that leave its buffers, its modes and torch's random state as they were."""
    modes = [(m, m.training) for m in model.modules()]
    buffers = [(b, b.clone()) for b in model.buffers()]
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            with torch.no_grad():
                for buffer, before in buffers:
                    if not torch.equal(buffer, before):
                        buffer.copy_(before)


def some(inputs: tuple[Tensor, ...], targets: Tensor, index: Tensor) -> Lot:
    """The examples of these numbers."""
    return tuple(x[index] for x in inputs), targets[index]


@final
class Couplings:
    """Tests of one model and its loss."""

    __slots__ = ("_generator", "_loss", "_model", "_parameters", "_silenced")

    def __init__(self, model: nn.Module, loss: Loss, parameters: list[nn.Parameter]) -> None:
        self._model, self._loss, self._parameters = model, loss, parameters
        self._generator = np.random.default_rng()  # chooses the company; protects nobody
        self._silenced: list[nn.Module] | None = (
            None  # what is put in evaluation mode, so that losses are not random
        )

    def require_few_apart(self, two: Lot, three: Lot) -> None:
        """Refuses losses of two examples that change when a third comes in."""
        self._silenced = self._random_modules(two)
        with self._quiet():
            self._compare(self._losses(*two), self._losses(*three)[:2], allowed=0)

    def require_apart(self, inputs: tuple[Tensor, ...], targets: Tensor, *, first: bool) -> None:
        """Refuses losses that are others in a random half of the lot. Later than the ``first`` time one may be: rounding can tip a choice."""
        batch = targets.shape[0]
        order = torch.from_numpy(self._generator.permutation(batch)[: max(2, -(-batch // 2))])
        order = order.to(targets.device)
        with undisturbed(self._model), self._quiet():
            whole = self._losses(inputs, targets)
            self._compare(
                whole[order],
                self._losses(*some(inputs, targets, order)),
                allowed=0 if first else 1,
                usual=float(whole.abs().mean()),
            )

    def require_same_alone(self, inputs: tuple[Tensor, ...], targets: Tensor, squared_norms: Tensor) -> None:
        """Refuses gradients of a lot that have other norms than those of the same examples alone."""
        if self._silenced:
            return  # with other masks the gradients are others
        norms = (squared_norms if squared_norms.dim() == 1 else squared_norms.sum(1)).sqrt()
        chosen = self._generator.permutation(len(targets))[:ALONE]
        slack = ROUGHLY * (COARSE if _is_rounded(targets) else 1.0)
        least, strange = 1e-2 * slack * float(norms.max()), 0
        with undisturbed(self._model), torch.enable_grad():
            for i in map(int, chosen):
                try:
                    losses = self._loss(self._model(*[x[i : i + 1] for x in inputs]), targets[i : i + 1])
                except (RuntimeError, IndexError, ValueError):
                    return  # a model that does not take one example
                found = torch.autograd.grad(losses.sum(), self._parameters, allow_unused=True)
                alone = sum(float(g.double().square().sum()) for g in found if g is not None) ** 0.5
                strange += abs(float(norms[i]) - alone) > slack * max(alone, float(norms[i])) + least
        if 2 * strange > len(chosen):
            raise CrossExample(
                "'model' must give an example the gradient that it has alone, got other gradients inside of a lot. "
                "Remove what is computed over the examples of a batch, also behind detach()."
            )

    def _compare(self, first: Tensor, second: Tensor, *, allowed: int, usual: float = 0.0) -> None:
        slack = TOLERANCE * (COARSE if _is_rounded(first) else 1.0)
        scale = torch.maximum(first.abs(), second.abs())
        apart = (first - second).abs() > slack * (scale + 0.3 * usual) + 1e-6
        if int(apart.sum()) > allowed:
            raise CrossExample(
                "'loss' must depend on one example at a time, got losses that change when other examples are "
                "added to the batch. Divide by counts of the example's own tokens (per_example_loss does), and "
                "remove layers that mix examples."
            )

    def _losses(self, inputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
        try:
            with torch.no_grad():
                losses: Tensor = self._loss(self._model(*inputs), targets)
        except RuntimeError:  # a model that differentiates inside of its forward pass
            with torch.enable_grad():
                losses = self._loss(self._model(*inputs), targets).detach()
        if not isinstance(losses, Tensor) or losses.shape != targets.shape[:1]:
            require_losses(losses if isinstance(losses, Tensor) else torch.zeros(()), targets.shape[0])
        return losses

    def _random_modules(self, lot: Lot) -> list[nn.Module]:
        """What has to be in evaluation mode for losses that are the same twice: nothing, what drops, or all."""
        modules = list(self._model.modules())
        dropping: list[nn.Module] = [m for m in modules if isinstance(m, _DROPPING)]
        for silenced in ([], dropping, modules):
            self._silenced = silenced
            with self._quiet():
                if torch.equal(self._losses(*lot), self._losses(*lot)):
                    return silenced
        return modules

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        modes = [(m, m.training) for m in self._silenced or []]
        try:
            for module, _ in modes:
                module.training = False
            yield
        finally:
            for module, mode in modes:
                module.training = mode


_DROPPING = (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)


def _is_rounded(tensor: Tensor) -> bool:
    return torch.is_autocast_enabled(tensor.device.type)
