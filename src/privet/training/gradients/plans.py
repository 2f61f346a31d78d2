"""Which rows of a layer belong to which example: learnt once from two small batches, then relied upon.

A layer sees [examples, …], or [tokens, examples, …], or [examples·tokens, …], or no examples at all (position
numbers, the same for all). Sizes alone do not tell, since there may be as many tokens as examples. So a few
examples go through the model twice, as 2 and as 3: the size that follows is the examples'. Then the
gradient of the first example's loss must be zero in all rows but its own. What does not pass both is not
handled by taps but by brute force, which is right whatever the model does.

The same two passes show whether a loss depends on other examples: the losses of the first 2 must not
change when a third is added.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from privet.training.gradients.refusals import CrossExample, require_losses
from privet.training.gradients.strays import Branch, Graph, Reach, follow, learn, sizes
from privet.training.gradients.tape import Placement, Tap, Tape, Use, tapped

__all__ = ["Plan", "Prober", "Stray"]

TOLERANCE = 1e-3
"""How far apart, relatively, two evaluations of the same losses may be; a coupling by a count is far above."""

Loss = Callable[[Tensor, Tensor], Tensor]


@final
@dataclass(frozen=True)
class Stray:
    """A parameter, or the output of a call without examples, that is followed through the graph."""

    number: int  # of the parameter in the layout, or of the call in the plan
    call: bool
    tree: tuple[Branch, ...]
    places: tuple[Placement, ...]

    def reaches(
        self, graph: Graph, uses: list[Use], parameters: list[nn.Parameter], batch: int
    ) -> list[Reach] | None:
        """Where it meets the examples in this step; None if the graph is not the one that was learnt."""
        if self.call:
            edge = uses[self.number].edge
            node, output = edge.node, edge.output_nr
        else:
            leaf = graph.leaves.get(id(parameters[self.number]))
            if leaf is None:
                return None
            node, output = leaf, 0
        found = follow(graph, node, sizes(node, output), self.tree, batch, output)
        if found is None or len(found) != len(self.places):
            return None
        for reach, place in zip(found, self.places, strict=True):
            reach.place = place
        return found


@final
@dataclass(frozen=True)
class Plan:
    """The order of the tapped calls of a forward pass, the place of the examples in each, and the strays."""

    calls: tuple[tuple[int, int], ...]
    places: tuple[Placement | None, ...]
    strays: tuple[Stray, ...]
    straight: tuple[
        bool, ...
    ]  # calls of matrix products with one row of each example, that share no parameter
    certain: bool

    @classmethod
    def unknown(cls, uses: list[Use]) -> "Plan":
        """A plan that trusts no tap."""
        calls = tuple((u.tap.number, u.role) for u in uses)
        return cls(calls, (None,) * len(uses), (), (False,) * len(uses), certain=False)

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

    __slots__ = ("_loss", "_model", "_parameters", "_tape", "_taps", "_verified")

    def __init__(
        self, model: nn.Module, loss: Loss, parameters: list[nn.Parameter], taps: list[Tap], tape: Tape
    ) -> None:
        self._model = model
        self._parameters = parameters
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
                return self._compare(self._settled(*few[0]), self._record(*few[1]))
            finally:
                self._tape.uses = []
                with torch.no_grad():
                    for buffer, before in buffers:
                        buffer.copy_(before)

    @staticmethod
    def _some(inputs: tuple[Tensor, ...], targets: Tensor, count: int) -> tuple[tuple[Tensor, ...], Tensor]:
        index = torch.arange(count, device=targets.device) % targets.shape[0]
        return tuple(x[index] for x in inputs), targets[index]

    def _settled(self, inputs: tuple[Tensor, ...], targets: Tensor) -> tuple[Tensor, list[Use]]:
        """A recorded pass, in the fastest layout of memory that the model bears.

        Convolutions put the channels last. A model may ask for a view of their output that only the usual layout
        has (``x.view(len(x), -1)``): then the last convolution before that goes back to it, and in the end all.
        """
        try:
            return self._record(inputs, targets)
        except RuntimeError:
            if not any(u.tap.relax(whole=False) for u in reversed(self._tape.uses)):
                raise
        try:
            return self._record(inputs, targets)
        except RuntimeError:
            for tap in self._taps:
                tap.relax(whole=True)
            return self._record(inputs, targets)

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

    def _compare(self, two: tuple[Tensor, list[Use]], three: tuple[Tensor, list[Use]]) -> Plan:
        losses, uses = three
        if [(u.tap.number, u.role) for u in uses] != [(u.tap.number, u.role) for u in two[1]]:
            return Plan.unknown(uses)
        places = [_place(a.leading, b.leading) for a, b in zip(two[1], uses, strict=True)]
        strays = self._strays((two[0], losses), (two[1], uses), places)
        reached = [(stray, reach) for stray, found in strays for reach in found]
        edges = [*[u.edge for u in uses], *[r.edge for _, r in reached]]
        found = torch.autograd.grad(losses[0], edges, allow_unused=True) if edges else ()
        certain = True
        for i, (use, gradient) in enumerate(zip(uses, found, strict=False)):
            place = places[i]
            if place is not None and gradient is not None:
                places[i], sure = _owned(use.shaped(gradient), len(use.leading), place)
                certain &= sure
        kept: dict[tuple[bool, int], list[Placement | None]] = {(s.call, s.number): [] for s, _ in strays}
        for (stray, reach), gradient in zip(reached, found[len(uses) :], strict=True):
            owned: Placement | None = reach.place
            if gradient is not None:
                leading = 1 if reach.matrix else len(reach.leading)
                owned, sure = _owned(gradient, leading, reach.place)
                certain &= sure
            kept[stray.call, stray.number].append(owned)
        final = [
            Stray(s.number, s.call, s.tree, tuple(p for p in kept[s.call, s.number] if p is not None))
            for s, _ in strays
            if None not in kept[s.call, s.number]
        ]
        calls = tuple((u.tap.number, u.role) for u in uses)
        return Plan(calls, tuple(places), tuple(final), _straight(uses, places, final), certain)

    def _strays(
        self,
        losses: tuple[Tensor, Tensor],
        uses: tuple[list[Use], list[Use]],
        places: list[Placement | None],
    ) -> list[tuple[Stray, list[Reach]]]:
        """What can be followed, with where it leads in the graph of three examples."""
        graphs = (Graph(losses[0]), Graph(losses[1]))
        roots: list[tuple[int, bool, tuple[Node, Node], int]] = []
        for number, parameter in enumerate(self._parameters):
            leaves = [g.leaves[id(parameter)] for g in graphs if id(parameter) in g.leaves]
            if len(leaves) == 2:
                roots.append((number, False, (leaves[0], leaves[1]), 0))
        for number, (a, b, place) in enumerate(zip(*uses, places, strict=True)):
            if place is None and b.tap.shareable and a.leading == b.leading:
                roots.append((number, True, (a.edge.node, b.edge.node), b.edge.output_nr))
        strays: list[tuple[Stray, list[Reach]]] = []
        for number, call, nodes, output in roots:
            tree = learn(graphs, nodes, output, _place)
            found = (
                None
                if tree is None
                else follow(graphs[1], nodes[1], sizes(nodes[1], output), tree, 3, output)
            )
            if tree is not None and found is not None and not (call and any(r.matrix for r in found)):
                strays.append((Stray(number, call, tree, tuple(r.place for r in found)), found))
        return strays


def _straight(uses: list[Use], places: list[Placement | None], strays: list[Stray]) -> tuple[bool, ...]:
    counts = Counter(index for use in uses for index in use.tap.indices.values())
    counts.update(s.number for s in strays if not s.call)
    return tuple(
        use.tap.matrix
        and place == Placement(0, 1)
        and len(use.leading) == 1
        and all(counts[index] == 1 for index in use.tap.indices.values())
        for use, place in zip(uses, places, strict=True)
    )


def _owned(gradient: Tensor, leading: int, place: Placement) -> tuple[Placement | None, bool]:
    """The place, if the gradient of the first of three losses is zero in the rows of the others; and if it is sure.

    A gradient that is zero altogether (as behind a layer that starts at zero) says nothing: then only a size
    of the examples alone is believed, and the plan is made again in the next step.
    """
    for candidate in (place, Placement(place.axis, place.each, mixed=True)):
        rows = candidate.rows(gradient, leading, 3)
        if not bool(rows[1:].count_nonzero()):
            if bool(rows[0].count_nonzero()):
                return candidate, True
            return (place if place.each == 1 else None), False
        if place.each == 1:
            break
    return None, True


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
