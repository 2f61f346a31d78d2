"""The batch axis of each layer: learnt from two small batches, and proved on the lots themselves.

A layer sees [examples, …], or [tokens, examples, …], or [examples·tokens, …], or no examples at all (position
indices, the same for all). Sizes alone do not show which, because there may be as many tokens as examples. So
a few examples go through the model twice, as a batch of 2 and as a batch of 3: the size that changes is the
batch axis. The order of the rows along that axis, and whether these rows belong to single examples at all, is
left to a proof (``proofs``). Brute force handles what is not proved. It is right whatever the model does.
"""

from collections import Counter
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from privet.torch_internals import get_leaf
from privet.training.per_example.graph.boundaries import BatchBoundary
from privet.training.per_example.graph.couplings import CouplingTests, preserve_state, select_examples
from privet.training.per_example.graph.graph_parameters import (
    Consumer,
    ConsumerGraph,
    find_boundaries,
    learn_consumers,
)
from privet.training.per_example.graph.graphs import GraphTemplate, GraphWalk
from privet.training.per_example.graph.proofs import RowProof
from privet.training.per_example.graph.row_moves import UNPREDICTABLE, RowMoves
from privet.training.per_example.losses import LossFunction
from privet.training.per_example.mixed_precision import is_autocast_on
from privet.training.per_example.refusals import require_losses
from privet.training.per_example.taps.registered import RegisteredTap
from privet.training.per_example.taps.tape import BatchAxis, InstalledTaps, LayerCall, Tap, Tape

__all__ = ["BatchAxisPlan", "GraphParameter", "PlanLearner", "find_reused"]

RecordedPass = tuple[Tensor, list[LayerCall]]
"""The losses of a forward pass, and its layer calls."""


@final
@dataclass(frozen=True)
class GraphParameter:
    """A parameter, or a call's output without a batch axis, that is followed through the graph.

    With ``any_step``, operations of any kind are between the parameter and the examples.
    """

    number: int  # of the parameter in the layout, or of the call in the plan
    is_call: bool
    any_step: bool
    consumers: tuple[Consumer, ...]
    axes: tuple[BatchAxis, ...]

    def find_root(
        self, graph: ConsumerGraph, calls: list[LayerCall], parameters: list[nn.Parameter]
    ) -> tuple[Node, int] | None:
        """The node that stands for it in the graph of this step, and the node's output."""
        if self.is_call:
            edge = calls[self.number].edge
            return edge.node, edge.output_nr
        leaf = graph.leaves.get(id(parameters[self.number]))
        return None if leaf is None else (leaf, 0)

    def find_boundaries(
        self, graph: ConsumerGraph, root: tuple[Node, int], batch: int
    ) -> list[BatchBoundary] | None:
        """Where it meets the examples in this step; None if the graph is not the one that was learnt."""
        node, output = root
        boundaries = find_boundaries(
            graph, node, self.consumers, batch, output, set() if self.any_step else None
        )
        if boundaries is None or len(boundaries) != len(self.axes):
            return None
        for boundary, axis in zip(boundaries, self.axes, strict=True):
            boundary.axis = axis
        return boundaries


@final
@dataclass(frozen=True)
class BatchAxisPlan:
    """The order of the tapped calls of a forward pass, the batch axis of each, and the graph parameters."""

    call_keys: tuple[tuple[int, int], ...]  # tap number and role of each call
    axes: tuple[BatchAxis | None, ...]
    graph_parameters: tuple[GraphParameter, ...]
    is_single_token: tuple[bool, ...]  # linear calls with one row per example that share no parameter
    proof: RowProof
    is_learnt: bool = True

    @classmethod
    def unknown(cls, calls: list[LayerCall]) -> "BatchAxisPlan":
        """A plan that trusts no tap."""
        none = (None,) * len(calls)
        proof = RowProof(None, UNPREDICTABLE)
        return cls(_call_keys(calls), none, (), (False,) * len(calls), proof, is_learnt=False)

    def matches(self, calls: list[LayerCall], batch: int) -> bool:
        """Whether this pass called the same layers in the same order, with the same batch axes."""
        if len(calls) != len(self.call_keys):
            return False
        for call, key, axis in zip(calls, self.call_keys, self.axes, strict=True):
            if (call.tap.number, call.role) != key:
                return False
            if axis is not None and call.leading[axis.dim] != axis.each * batch:
                return False
        return True


@final
class PlanLearner:
    """Learns plans from a few examples. Leaves buffers, modes and random state unchanged."""

    __slots__ = ("_coupling_tests", "_loss", "_model", "_parameters", "_tape", "_taps", "_verified")

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        parameters: list[nn.Parameter],
        taps: list[Tap],
        tape: Tape,
        coupling_tests: CouplingTests,
    ) -> None:
        self._coupling_tests = coupling_tests
        self._model = model
        self._parameters = parameters
        self._loss = loss
        self._taps = taps
        self._tape = tape
        self._verified = False

    def learn(self, inputs: tuple[Tensor, ...], targets: Tensor) -> BatchAxisPlan:
        """The plan for inputs of these shapes."""
        numbers = torch.arange(3, device=targets.device) % targets.shape[0]
        two = select_examples(inputs, targets, numbers[:2])
        three = select_examples(inputs, targets, numbers)
        with preserve_state(self._model):
            try:
                if not self._verified:
                    self._coupling_tests.require_independent_pair(two, three)
                    # copies of one example would hide a dependence on other examples
                    self._verified = targets.shape[0] >= 3
                return self._compare(self._record_first(*two), self._record(*three))
            finally:
                self._tape.calls = []

    def _record_first(self, inputs: tuple[Tensor, ...], targets: Tensor) -> RecordedPass:
        """A recorded pass, in the fastest memory format that the model accepts.

        Convolutions use channels last. A model may ask for a view of their output that only the default
        format allows (``x.view(len(x), -1)``). Then the last convolution before that returns to it and, if
        necessary, all of them.
        """
        try:
            return self._record(inputs, targets)
        except RuntimeError:
            if not any(call.tap.relax_memory_format(whole=False) for call in reversed(self._tape.calls)):
                raise
        try:
            return self._record(inputs, targets)
        except RuntimeError:
            for tap in self._taps:
                tap.relax_memory_format(whole=True)
            return self._record(inputs, targets)

    def _record(self, inputs: tuple[Tensor, ...], targets: Tensor) -> RecordedPass:
        calls: list[LayerCall] = []
        self._tape.calls = calls
        with InstalledTaps(self._taps):
            self._tape.recording = True
            try:
                losses = self._loss(self._model(*inputs), targets)
            finally:
                self._tape.recording = False
        return require_losses(losses, targets.shape[0]), calls

    def _compare(self, two: RecordedPass, three: RecordedPass) -> BatchAxisPlan:
        calls = three[1]
        if _call_keys(calls) != _call_keys(two[1]):
            return BatchAxisPlan.unknown(calls)
        walks = GraphWalk(two[0]), GraphWalk(three[0])
        reused = find_reused(walks[1], calls, self._parameters)
        axes = [
            None if reused.intersection(b.tap.indices.values()) else _find_axis(a.leading, b.leading)
            for a, b in zip(two[1], calls, strict=True)
        ]
        template = GraphTemplate.learn(*walks)
        proof = RowProof(template, UNPREDICTABLE if template is None else RowMoves.learn(*walks))
        graphs = ConsumerGraph(walks[0]), ConsumerGraph(walks[1])
        followed = [
            p
            for p in self._find_graph_parameters(graphs, (two[1], calls), axes)
            if not (p.is_call and reused.intersection(calls[p.number].tap.indices.values()))
        ]
        is_single_token = _find_single_token(calls, axes, followed)
        return BatchAxisPlan(_call_keys(calls), tuple(axes), tuple(followed), is_single_token, proof)

    def _find_graph_parameters(
        self,
        graphs: tuple[ConsumerGraph, ConsumerGraph],
        calls: tuple[list[LayerCall], list[LayerCall]],
        axes: list[BatchAxis | None],
    ) -> list[GraphParameter]:
        """The parameters and calls that can be followed in the graphs of two and of three examples."""
        roots: list[tuple[int, bool, tuple[Node, Node], int]] = []
        for number, parameter in enumerate(self._parameters):
            leaves = [g.leaves[id(parameter)] for g in graphs if id(parameter) in g.leaves]
            if len(leaves) == 2:
                roots.append((number, False, (leaves[0], leaves[1]), 0))
        for number, (a, b, axis) in enumerate(zip(*calls, axes, strict=True)):
            if axis is None and b.tap.takes_shared_rows and a.leading == b.leading:
                roots.append((number, True, (a.edge.node, b.edge.node), b.edge.output_nr))
        followed: list[GraphParameter] = []
        # Under autocast, autograd would round the sum of the examples on the way back, so that way is closed.
        ways = (False,) if is_autocast_on(self._parameters[0].device) else (False, True)
        for number, is_call, nodes, output in roots:
            for any_step in ways:
                consumers = learn_consumers(graphs, nodes, output, _find_axis, set() if any_step else None)
                if consumers is None:
                    continue
                boundaries = find_boundaries(
                    graphs[1], nodes[1], consumers, 3, output, set() if any_step else None
                )
                if boundaries:
                    axes_found = tuple(b.axis for b in boundaries)
                    followed.append(GraphParameter(number, is_call, any_step, consumers, axes_found))
                    break
        return followed


def _call_keys(calls: list[LayerCall]) -> tuple[tuple[int, int], ...]:
    return tuple([(call.tap.number, call.role) for call in calls])


def find_reused(walk: GraphWalk, calls: list[LayerCall], parameters: list[nn.Parameter]) -> set[int]:
    """Parameters of tapped layers that the losses also use in another way than through the layer's output.

    A model that differentiates inside of its forward pass (an energy and its forces, with ``create_graph``)
    uses the weights once more in that derivative. A tap does not see this use. It uses the detached copy, not
    the parameter.
    """
    numbers = {p.data_ptr(): i for i, p in enumerate(parameters)}
    own, outputs = set(map(id, parameters)), {call.edge.node for call in calls}
    consumers: dict[Node, list[tuple[Node, int]]] = {}
    leaves: list[tuple[Node, int]] = []
    for node, sources in zip(walk.nodes, walk.sources, strict=True):
        for child, _ in sources:
            if child is not None:
                consumers.setdefault(child, []).append((node, len(sources)))
        leaf = None if sources else get_leaf(node)
        if leaf is not None and id(leaf) not in own and leaf.data_ptr() in numbers:
            leaves.append((node, numbers[leaf.data_ptr()]))
    reused: set[int] = set()
    for start, number in leaves:
        own_calls = [call for call in calls if number in call.tap.indices.values()]
        if any(isinstance(call.tap, RegisteredTap) for call in own_calls):
            if _reaches_the_losses(start, consumers, {call.edge.node for call in own_calls}):
                reused.add(number)
            continue
        node = start  # follow transpositions and the like, until another tensor comes in
        while len(after := consumers.get(node, [])) == 1 and after[0][1] == 1 and after[0][0] not in outputs:
            node = after[0][0]
        if len(after) > 1:
            reused.add(number)
    return reused


def _reaches_the_losses(
    start: Node, consumers: dict[Node, list[tuple[Node, int]]], outputs: set[Node]
) -> bool:
    """Whether a way leads from a node to the losses that passes none of these outputs.

    A registered layer may use its parameter several times before its output.
    """
    seen, ahead = {start}, [start]
    while ahead:
        after = consumers.get(ahead.pop(), [])
        if not after:
            return True
        for node, _ in after:
            if node not in outputs and node not in seen:
                seen.add(node)
                ahead.append(node)
    return False


def _find_single_token(
    calls: list[LayerCall], axes: list[BatchAxis | None], followed: list[GraphParameter]
) -> tuple[bool, ...]:
    counts = Counter(index for call in calls for index in call.tap.indices.values())
    counts.update(p.number for p in followed if not p.is_call)
    return tuple(
        call.tap.is_linear
        and axis == BatchAxis(0, 1)
        and len(call.leading) == 1
        and all(counts[index] == 1 for index in call.tap.indices.values())
        for call, axis in zip(calls, axes, strict=True)
    )


def _find_axis(two: tuple[int, ...], three: tuple[int, ...]) -> BatchAxis | None:
    """The only size that changes with the number of examples; None if it is not a batch axis."""
    if len(two) != len(three):
        return None
    changed = [i for i, (a, b) in enumerate(zip(two, three, strict=True)) if a != b]
    if len(changed) != 1 or 3 * two[changed[0]] != 2 * three[changed[0]]:
        return None
    return BatchAxis(changed[0], two[changed[0]] // 2)
