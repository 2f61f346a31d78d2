"""Where the examples may be in the rows of a layer: learnt from two small batches, and proved on the lots themselves.

A layer sees [examples, …], or [tokens, examples, …], or [examples·tokens, …], or no examples at all (position
numbers, the same for all). Sizes alone do not tell, since there may be as many tokens as examples. So a few
examples go through the model twice, as 2 and as 3: the size that follows is the examples'. In which order their rows lie along
that size, and whether these rows are theirs at all, is left to a proof (``proofs``). What is not proved is not
handled by taps but by brute force, which is right whatever the model does.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from privet.training.per_example.graph.couplings import Couplings, some, undisturbed
from privet.training.per_example.graph.graph_parameters import Branch, Graph, Reach, follow, learn, sizes
from privet.training.per_example.graph.graphs import GraphLaw, GraphWalk
from privet.training.per_example.graph.proofs import Proof
from privet.training.per_example.graph.row_moves import RowMoves
from privet.training.per_example.refusals import require_losses
from privet.training.per_example.taps.tape import Placement, Tap, Tape, Use, tapped

__all__ = ["Plan", "Prober", "Stray"]

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
    proof: Proof

    @classmethod
    def unknown(cls, uses: list[Use]) -> "Plan":
        """A plan that trusts no tap."""
        calls = tuple((u.tap.number, u.role) for u in uses)
        proof = Proof(None, RowMoves(free=True, indexed=()))
        return cls(calls, (None,) * len(uses), (), (False,) * len(uses), proof)

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

    __slots__ = ("_couplings", "_loss", "_model", "_parameters", "_tape", "_taps", "_verified")

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        parameters: list[nn.Parameter],
        taps: list[Tap],
        tape: Tape,
        couplings: Couplings,
    ) -> None:
        self._couplings = couplings
        self._model = model
        self._parameters = parameters
        self._loss = loss
        self._taps = taps
        self._tape = tape
        self._verified = False

    def plan(self, inputs: tuple[Tensor, ...], targets: Tensor) -> Plan:
        """What holds for inputs of these shapes."""
        numbers = torch.arange(3, device=targets.device) % targets.shape[0]
        two, three = some(inputs, targets, numbers[:2]), some(inputs, targets, numbers)
        with undisturbed(self._model):
            try:
                if not self._verified:
                    self._couplings.require_few_apart(two, three)
                    # repeats of one example hide what depends on the others
                    self._verified = targets.shape[0] >= 3
                return self._compare(self._settled(*two), self._record(*three))
            finally:
                self._tape.uses = []

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

    def _compare(self, two: tuple[Tensor, list[Use]], three: tuple[Tensor, list[Use]]) -> Plan:
        uses = three[1]
        if [(u.tap.number, u.role) for u in uses] != [(u.tap.number, u.role) for u in two[1]]:
            return Plan.unknown(uses)
        walks = GraphWalk(two[0]), GraphWalk(three[0])
        again = _used_again(walks[1], uses, self._parameters)
        places = [
            None if again.intersection(b.tap.indices.values()) else _place(a.leading, b.leading)
            for a, b in zip(two[1], uses, strict=True)
        ]
        law = GraphLaw.of(*walks)
        proof = Proof(law, RowMoves(free=True, indexed=()) if law is None else RowMoves.of(*walks))
        strays = self._strays((Graph(walks[0]), Graph(walks[1])), (two[1], uses), places)
        strays = [
            s for s in strays if not (s.call and again.intersection(uses[s.number].tap.indices.values()))
        ]
        calls = tuple((u.tap.number, u.role) for u in uses)
        return Plan(calls, tuple(places), tuple(strays), _straight(uses, places, strays), proof)

    def _strays(
        self,
        graphs: tuple[Graph, Graph],
        uses: tuple[list[Use], list[Use]],
        places: list[Placement | None],
    ) -> list[Stray]:
        """What can be followed in the graphs of two and of three examples."""
        roots: list[tuple[int, bool, tuple[Node, Node], int]] = []
        for number, parameter in enumerate(self._parameters):
            leaves = [g.leaves[id(parameter)] for g in graphs if id(parameter) in g.leaves]
            if len(leaves) == 2:
                roots.append((number, False, (leaves[0], leaves[1]), 0))
        for number, (a, b, place) in enumerate(zip(*uses, places, strict=True)):
            if place is None and b.tap.shareable and a.leading == b.leading:
                roots.append((number, True, (a.edge.node, b.edge.node), b.edge.output_nr))
        strays: list[Stray] = []
        for number, call, nodes, output in roots:
            tree = learn(graphs, nodes, output, _place)
            found = (
                None
                if tree is None
                else follow(graphs[1], nodes[1], sizes(nodes[1], output), tree, 3, output)
            )
            if tree is not None and found is not None and not (call and any(r.matrix for r in found)):
                strays.append(Stray(number, call, tree, tuple(r.place for r in found)))
        return strays


def _used_again(seen: GraphWalk, uses: list[Use], parameters: list[nn.Parameter]) -> set[int]:
    """Parameters of tapped layers that the losses depend on in another way than through the output of the layer.

    A model that differentiates inside of its forward pass (an energy and its forces, with ``create_graph``) uses the weights once more in that
    derivative. A tap does not see this use, and the parameter itself has no part in it: it is the copy that is cut from the graph.
    """
    numbers = {p.data_ptr(): i for i, p in enumerate(parameters)}
    own, outputs = set(map(id, parameters)), {use.edge.node for use in uses}
    consumers: dict[Node, list[tuple[Node, int]]] = {}
    leaves: list[tuple[Node, int]] = []
    for node, sources in zip(seen.nodes, seen.sources, strict=True):
        for child, _ in sources:
            if child is not None:
                consumers.setdefault(child, []).append((node, len(sources)))
        if not sources and node.name() == "torch::autograd::AccumulateGrad":
            variable: Tensor = node.variable  # type: ignore[attr-defined]
            if id(variable) not in own and variable.data_ptr() in numbers:
                leaves.append((node, numbers[variable.data_ptr()]))
    found: set[int] = set()
    for leaf, number in leaves:
        node = leaf  # through transpositions and the like, to where it meets something else
        while len(after := consumers.get(node, [])) == 1 and after[0][1] == 1 and after[0][0] not in outputs:
            node = after[0][0]
        if len(after) > 1:
            found.add(number)
    return found


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


def _place(two: tuple[int, ...], three: tuple[int, ...]) -> Placement | None:
    """The one size that follows the number of examples, if there is just one and the rest stay as they are."""
    if len(two) != len(three):
        return None
    moved = [i for i, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if len(moved) != 1 or 3 * two[moved[0]] != 2 * three[moved[0]]:
        return None
    return Placement(moved[0], two[moved[0]] // 2)
