"""Tests whether an example's loss or gradient depends on other examples. They run on the lots themselves.

A clip bounds what one example adds. It bounds what the example's absence changes only if no other example's
gradient changes with it. ``proofs`` sees a dependence through the graph. It does not see one through values
that are detached from the graph (a batch mean behind ``detach``). So examples are put into other batches:

- the first 2 examples of a lot, and the first 3: the losses of the 2 must not change;
- the lot, and a random half of it in random order: the losses of the half must not change;
- a few examples alone: their gradients must have the norms that they had in the lot.

The first test runs for every plan. The others run in lots 1, 4, 16, … of the same shapes, and in the first
lot that is more than twice as large as those tested. A batch that is never drawn is never tested: this is a
test, not a proof.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.torch_internals import DropoutBase
from privet.training.double_precision import to_float64
from privet.training.per_example.graph.constant_draws import ConstantDraws
from privet.training.per_example.losses import LossFunction
from privet.training.per_example.mixed_precision import is_autocast_on
from privet.training.per_example.refusals import CrossExample, require_losses

__all__ = ["CouplingTests", "preserve_state", "select_examples"]

LOSS_TOLERANCE = 1e-3
"""The largest relative difference of two evaluations of a loss. A coupling by a count is far above it."""

NORM_TOLERANCE = 1e-2
"""The largest relative difference of two norms of the same gradient."""

AUTOCAST_FACTOR = 30.0
"""Both tolerances are this much larger where autocast rounds to half precision."""

TESTED_ALONE = 4
"""The number of examples that are put through the model alone."""

Lot = tuple[tuple[Tensor, ...], Tensor]


@contextmanager
def preserve_state(model: nn.Module) -> Iterator[None]:
    """A context that leaves the model's buffers, its modes and torch's random state unchanged."""
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


def select_examples(inputs: tuple[Tensor, ...], targets: Tensor, indices: Tensor) -> Lot:
    """The inputs and targets of these examples."""
    return tuple(x[indices] for x in inputs), targets[indices]


@final
class CouplingTests:
    """The tests of one model and its loss."""

    __slots__ = ("_draws_constants", "_generator", "_loss", "_model", "_parameters", "_silenced")

    def __init__(self, model: nn.Module, loss: LossFunction, parameters: list[nn.Parameter]) -> None:
        self._model, self._loss, self._parameters = model, loss, parameters
        self._generator = np.random.default_rng()  # chooses batches; protects nobody
        self._silenced: list[nn.Module] | None = None  # set to evaluation mode, so that losses are not random
        self._draws_constants = False  # whether losses repeat in training mode only with constant draws

    def require_independent_pair(self, two: Lot, three: Lot) -> None:
        """Refuse losses of two examples that change when a third is added."""
        self._silenced = self._find_random_modules(two)
        with self._silence():
            self._compare(self._losses(*two), self._losses(*three)[:2], allowed=0)

    def require_independent_half(self, inputs: tuple[Tensor, ...], targets: Tensor, *, first: bool) -> None:
        """Refuse losses that change in a random half of the lot.

        After the ``first`` time one loss may change, because rounding can flip a decision of the model.
        """
        batch = targets.shape[0]
        order = torch.from_numpy(self._generator.permutation(batch)[: max(2, -(-batch // 2))])
        order = order.to(targets.device)
        with preserve_state(self._model), self._silence():
            whole = self._losses(inputs, targets)
            self._compare(
                whole[order],
                self._losses(*select_examples(inputs, targets, order)),
                allowed=0 if first else 1,
                typical=float(whole.abs().mean()),
            )

    def require_same_alone(self, inputs: tuple[Tensor, ...], targets: Tensor, squared_norms: Tensor) -> None:
        """Refuse gradients of a lot if the same examples alone have gradients with other norms."""
        if self._silenced or self._draws_constants:
            self._require_same_alone_silenced(inputs, targets)  # other dropout masks give other gradients
            return
        norms = (squared_norms if squared_norms.dim() == 1 else squared_norms.sum(1)).sqrt()
        chosen = self._generator.permutation(len(targets))[:TESTED_ALONE]
        slack = NORM_TOLERANCE * (AUTOCAST_FACTOR if _uses_autocast(targets) else 1.0)
        least, failures = 1e-2 * slack * float(norms.max()), 0
        with preserve_state(self._model), torch.enable_grad():
            for i in map(int, chosen):
                try:
                    losses = self._loss(self._model(*[x[i : i + 1] for x in inputs]), targets[i : i + 1])
                except (RuntimeError, IndexError, ValueError):
                    return  # the model does not accept a single example
                gradients = torch.autograd.grad(losses.sum(), self._parameters, allow_unused=True)
                alone = sum(float(to_float64(g).square().sum()) for g in gradients if g is not None) ** 0.5
                failures += abs(float(norms[i]) - alone) > slack * max(alone, float(norms[i])) + least
        _require_few(failures, len(chosen))

    def _require_same_alone_silenced(self, inputs: tuple[Tensor, ...], targets: Tensor) -> None:
        """The same for a random model: without its randomness, a few examples together against each alone."""
        chosen = torch.from_numpy(self._generator.permutation(len(targets))[:TESTED_ALONE]).to(targets.device)
        lot = select_examples(inputs, targets, chosen)
        slack = NORM_TOLERANCE * (AUTOCAST_FACTOR if _uses_autocast(targets) else 1.0)
        pairs: list[tuple[Tensor, Tensor]] = []
        with preserve_state(self._model), self._silence(), torch.enable_grad():
            together = self._loss(self._model(*lot[0]), lot[1])
            for i in range(len(chosen)):
                try:
                    losses = self._loss(self._model(*[x[i : i + 1] for x in lot[0]]), lot[1][i : i + 1])
                except (RuntimeError, IndexError, ValueError):
                    return  # the model does not accept a single example
                pairs.append((self._flat_gradient(together[i]), self._flat_gradient(losses.sum())))
        largest = max(float(alone.norm()) for _, alone in pairs)
        failures = sum(
            float((first - alone).norm()) > slack * (float(alone.norm()) + 1e-2 * largest)
            for first, alone in pairs
        )
        _require_few(failures, len(pairs))

    def _flat_gradient(self, loss: Tensor) -> Tensor:
        gradients = torch.autograd.grad(loss, self._parameters, allow_unused=True, retain_graph=True)
        return to_float64(
            torch.cat(
                [
                    torch.zeros_like(p).flatten() if g is None else g.flatten()
                    for p, g in zip(self._parameters, gradients, strict=True)
                ]
            )
        )

    def _compare(self, first: Tensor, second: Tensor, *, allowed: int, typical: float = 0.0) -> None:
        slack = LOSS_TOLERANCE * (AUTOCAST_FACTOR if _uses_autocast(first) else 1.0)
        scale = torch.maximum(first.abs(), second.abs())
        differs = (first - second).abs() > slack * (scale + 0.3 * typical) + 1e-6
        if int(differs.sum()) > allowed:
            raise CrossExample(
                "'loss' must depend on one example at a time, got losses that change when other examples are "
                "added to the batch. Divide by counts of the example's own tokens (per_example_loss does), "
                "and remove layers that mix examples."
            )

    def _losses(self, inputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
        try:
            with torch.no_grad():
                losses: Tensor = self._loss(self._model(*inputs), targets)
        except RuntimeError:  # the model differentiates inside of its forward pass
            with torch.enable_grad():
                losses = self._loss(self._model(*inputs), targets).detach()
        if not isinstance(losses, Tensor) or losses.shape != targets.shape[:1]:
            require_losses(losses if isinstance(losses, Tensor) else torch.zeros(()), targets.shape[0])
        return losses

    def _find_random_modules(self, lot: Lot) -> list[nn.Module]:
        """The modules that need evaluation mode to make losses repeat: none, those with dropout, or all.

        All are the last resort: evaluation mode hides what a model does in training only. Before that,
        random draws are replaced by constants. Two losses may be the same by chance, as those of a model that
        rarely drops a path. So the pass must draw no random numbers either.
        """
        modules = list(self._model.modules())
        with_dropout: list[nn.Module] = [m for m in modules if isinstance(m, _WITH_DROPOUT)]
        for silenced, constants in (
            ([], False),
            (with_dropout, False),
            (with_dropout, True),
            (modules, False),
        ):
            self._silenced, self._draws_constants = silenced, constants
            try:
                with self._silence():
                    state = torch.get_rng_state()
                    first = self._losses(*lot)
                    if torch.equal(state, torch.get_rng_state()) and torch.equal(first, self._losses(*lot)):
                        return silenced
            except Exception:
                if not constants:
                    raise  # a model that runs without constant draws may fail with them
        return modules

    @contextmanager
    def _silence(self) -> Iterator[None]:
        modes = [(m, m.training) for m in self._silenced or []]
        try:
            for module, _ in modes:
                module.training = False
            with ConstantDraws() if self._draws_constants else nullcontext():  # type: ignore[no-untyped-call]
                yield
        finally:
            for module, mode in modes:
                module.training = mode


def _require_few(failures: int, tested: int) -> None:
    """Refuse if more than half of the tested examples have another gradient alone."""
    if 2 * failures > tested:
        raise CrossExample(
            "'model' must give an example the same gradient alone and inside of a lot, got different "
            "gradients. Remove what is computed over the examples of a batch, also behind detach()."
        )


_WITH_DROPOUT = (DropoutBase, nn.RNNBase, nn.MultiheadAttention)


def _uses_autocast(tensor: Tensor) -> bool:
    return is_autocast_on(tensor.device)
