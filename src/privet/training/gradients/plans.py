"""Which rows of a layer belong to which example: learnt once from two small batches, then relied upon.

A layer sees [examples, …], or [tokens, examples, …], or [examples·tokens, …], or no examples at all (position
numbers, the same for all). Sizes alone do not tell, since there may be as many tokens as examples. So a few
examples go through the model twice, as 2 and as 3: the size that follows is the examples'. Then the
gradient of the first example's loss must be zero in all rows but its own. What does not pass both is not
handled by taps but by brute force, which is right whatever the model does.

The same two passes show whether a loss depends on other examples: the losses of the first 2 must not
change when a third is added.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from privet.training.gradients.refusals import CrossExample, require_losses
from privet.training.gradients.tape import Placement, Tap, Tape, Use, tapped

__all__ = ["Plan", "Prober"]

TOLERANCE = 1e-3
"""How far apart, relatively, two evaluations of the same losses may be; a coupling by a count is far above."""

Loss = Callable[[Tensor, Tensor], Tensor]


@final
@dataclass(frozen=True)
class Plan:
    """The order of the tapped calls of a forward pass, and the place of the examples in each."""

    calls: tuple[tuple[int, int], ...]
    places: tuple[Placement | None, ...]
    certain: bool

    def matches(self, uses: list[Use], batch: int) -> bool:
        """Whether this pass called the same layers in the same order, with the examples where they were."""
        if len(uses) != len(self.calls):
            return False
        for use, call, place in zip(uses, self.calls, self.places, strict=True):
            if (use.tap.number, use.role) != call:
                return False
            if place is not None and use.leading[place.axis] != place.each * batch:
                return False
        return True


@final
class Prober:
    """Learns plans from a few examples; leaves buffers, modes and random state as they were."""

    __slots__ = ("_loss", "_model", "_tape", "_taps", "_verified")

    def __init__(self, model: nn.Module, loss: Loss, taps: list[Tap], tape: Tape) -> None:
        self._model = model
        self._loss = loss
        self._taps = taps
        self._tape = tape
        self._verified = False

    def plan(self, inputs: tuple[Tensor, ...], targets: Tensor) -> Plan:
        """What holds for inputs of these shapes."""
        batch = targets.shape[0]
        few = [self._some(inputs, targets, count) for count in (2, 3)]
        buffers = [(b, b.clone()) for b in self._model.buffers()]
        with torch.random.fork_rng(devices=[]):
            try:
                if not self._verified:
                    self._verify(few)
                    self._verified = batch >= 3  # repeats of one example hide what depends on the others
                _, two = self._record(*few[0])
                losses, three = self._record(*few[1])
                return self._compare(two, three, losses)
            finally:
                self._tape.uses = []
                with torch.no_grad():
                    for buffer, before in buffers:
                        buffer.copy_(before)

    @staticmethod
    def _some(inputs: tuple[Tensor, ...], targets: Tensor, count: int) -> tuple[tuple[Tensor, ...], Tensor]:
        index = torch.arange(count, device=targets.device) % targets.shape[0]
        return tuple(x[index] for x in inputs), targets[index]

    def _record(self, inputs: tuple[Tensor, ...], targets: Tensor) -> tuple[Tensor, list[Use]]:
        uses: list[Use] = []
        self._tape.uses = uses
        with tapped(self._taps):
            self._tape.recording = True
            try:
                losses = self._loss(self._model(*inputs), targets)
            finally:
                self._tape.recording = False
        return require_losses(losses, targets.shape[0]), uses

    def _losses(self, inputs: tuple[Tensor, ...], targets: Tensor) -> Tensor:
        with torch.no_grad():
            losses: Tensor = self._loss(self._model(*inputs), targets)
        if not isinstance(losses, Tensor) or losses.shape != targets.shape[:1]:
            raise_shape(losses, targets.shape[0])
        return losses

    def _verify(self, few: list[tuple[tuple[Tensor, ...], Tensor]]) -> None:
        """Whether the losses of two examples stay as they are when a third comes in.

        Dropout makes losses random; then the comparison is made in evaluation mode.
        """
        modes = [(m, m.training) for m in self._model.modules()]
        try:
            first, again = self._losses(*few[0]), self._losses(*few[0])
            if not torch.equal(first, again):
                self._model.eval()
                first = self._losses(*few[0])
            longer = self._losses(*few[1])[:2]
            scale = torch.maximum(first.abs(), longer.abs())
            if bool(((first - longer).abs() > TOLERANCE * scale + 1e-6).any()):
                raise CrossExample(
                    "'loss' must depend on one example at a time, got losses that change when other examples are "
                    "added to the batch. Divide by counts of the example's own tokens (per_example does), and "
                    "remove layers that mix examples."
                )
        finally:
            for module, mode in modes:
                module.training = mode

    @staticmethod
    def _compare(two: list[Use], three: list[Use], losses: Tensor) -> Plan:
        calls = tuple((u.tap.number, u.role) for u in three)
        if calls != tuple((u.tap.number, u.role) for u in two):
            return Plan(calls, (None,) * len(calls), certain=True)
        places = [_place(a.leading, b.leading) for a, b in zip(two, three, strict=True)]
        edges = [u.edge for u in three]
        certain = True
        if edges:
            found = torch.autograd.grad(losses[0], edges, allow_unused=True)
            for i, (use, place, gradient) in enumerate(zip(three, places, found, strict=True)):
                if place is None or gradient is None:
                    continue
                rows = use.tap.gradient_rows(use, gradient, place, 3)
                if bool(rows[1:].count_nonzero()):
                    places[i] = None
                elif not bool(rows[0].count_nonzero()):
                    certain = False
                    if place.each > 1 or place.axis:
                        places[i] = None
        return Plan(calls, tuple(places), certain)


def raise_shape(losses: object, batch: int) -> None:
    """The refusal of losses that are not one for each example."""
    value = losses if isinstance(losses, Tensor) else torch.zeros(())
    require_losses(value, batch)


def _place(two: tuple[int, ...], three: tuple[int, ...]) -> Placement | None:
    """The one size that follows the number of examples, if there is just one and the rest stay as they are."""
    if len(two) != len(three):
        return None
    moved = [i for i, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if len(moved) != 1 or 3 * two[moved[0]] != 2 * three[moved[0]]:
        return None
    return Placement(moved[0], two[moved[0]] // 2)
