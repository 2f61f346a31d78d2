"""One forward and one backward pass over a lot, with a proof of which rows belong to which example."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node

from privet.torch_internals import get_output_shape, run_backward
from privet.training.per_example.batch_axis import BatchAxisPlan, GraphParameter, PlanLearner, find_reused
from privet.training.per_example.graph.boundaries import BatchBoundary
from privet.training.per_example.graph.couplings import CouplingTests
from privet.training.per_example.graph.graph_parameters import ConsumerGraph
from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.graph.proofs import NO_CERTIFICATE, CertificateNeed, GradientSite
from privet.training.per_example.graph.row_owners import OwnerSearch
from privet.training.per_example.losses import LossFunction
from privet.training.per_example.mixed_precision import widen
from privet.training.per_example.refusals import require_losses
from privet.training.per_example.taps.tape import BatchAxis, InstalledTaps, LayerCall, RowOwners, Tap, Tape

SiteKey = tuple[int, int]

__all__ = ["NO_CHECKS", "FollowedParameter", "LotChecks", "PassResult", "PassRunner"]


@final
@dataclass(frozen=True, slots=True)
class FollowedParameter:
    """A graph parameter in the graph of one step: its own output there, and its boundaries."""

    parameter: GraphParameter
    root: tuple[Node, int]
    boundaries: list[BatchBoundary]


@final
@dataclass(frozen=True, slots=True)
class LotChecks:
    """The checks of a lot, apart from those that its graph needs.

    ``rows`` are certified in lots 1, 2, 4, 8, …; ``coupling`` is tested in lots 1, 4, 16, … and in larger
    lots.
    """

    rows: bool
    coupling: bool
    first: bool


NO_CHECKS = LotChecks(rows=False, coupling=False, first=False)


@final
@dataclass(frozen=True, slots=True)
class PassResult:
    """The result of a backward pass: gradients at layer calls, then at the boundaries of graph parameters."""

    plan: BatchAxisPlan
    calls: list[LayerCall]
    axes: list[BatchAxis | RowOwners | None]
    followed: list[FollowedParameter]
    gradients: Sequence[Tensor | None]
    used_elsewhere: list[int]  # parameters that were also used in another way
    unproved: set[int]  # parameters whose rows have no proved order

    def widen(self, dtype: torch.dtype) -> "PassResult":
        """The same with gradients and saved inputs as ``dtype``, after a pass under autocast."""
        for call in self.calls:
            call.saved = tuple(widen(t, dtype) for t in call.saved)
        return replace(self, gradients=[None if g is None else widen(g, dtype) for g in self.gradients])


@final
class PassRunner:
    """Runs the passes of one model, with the plans that it has learnt."""

    __slots__ = (
        "_counts",
        "_coupling_tests",
        "_learner",
        "_loss",
        "_model",
        "_names",
        "_parameters",
        "_plans",
        "_tape",
        "_taps",
    )

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        parameters: list[nn.Parameter],
        taps: list[Tap],
        tape: Tape,
        coupling_tests: CouplingTests,
    ) -> None:
        self._model, self._loss, self._parameters = model, loss, parameters
        self._taps, self._tape = taps, tape
        self._coupling_tests = coupling_tests
        self._learner = PlanLearner(model, loss, parameters, taps, tape, coupling_tests)
        self._plans: dict[object, BatchAxisPlan] = {}
        self._counts: dict[object, tuple[int, int]] = {}  # lots so far, and the largest with a coupling test
        names = {id(module): name for name, module in model.named_modules()}
        self._names = [names[id(tap.module)] or type(tap.module).__name__ for tap in taps]

    def choose_checks(self, key: object, batch: int) -> LotChecks:
        """Count the lots of these shapes, and choose the checks of this one.

        A lot of one example needs no proof, because all rows are its own. It does not count.
        """
        if batch < 2:
            return NO_CHECKS
        count, largest = self._counts.get(key, (0, 0))
        count, is_larger = count + 1, batch > 2 * largest
        self._counts[key] = count, batch if is_larger else largest
        is_milestone = not count & (count - 1)
        coupling = is_larger or (is_milestone and count.bit_length() % 2 == 1)
        return LotChecks(rows=is_milestone or coupling, coupling=coupling, first=count == 1)

    def has_checked(self, key: object) -> bool:
        """Whether a lot of these shapes was checked before."""
        return key in self._counts

    def run(
        self,
        key: object,
        inputs: tuple[Tensor, ...],
        targets: Tensor,
        brute_forced: set[int],
        checks: LotChecks,
    ) -> PassResult:
        """The passes over one lot. ``brute_forced`` are the parameters that brute force handles already."""
        batch = targets.shape[0]
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._learner.learn(inputs, targets)
        if checks.coupling:
            self._coupling_tests.require_independent_half(inputs, targets, first=checks.first)
        with InstalledTaps(self._taps):
            losses, calls = self._forward(inputs, targets, batch)
        if not plan.matches(calls, batch):
            plan = self._plans[key] = self._learner.learn(inputs, targets)
            if not plan.matches(calls, batch):
                plan = BatchAxisPlan.unknown(calls)  # the calls depend on values: this lot uses no tap
        walk = GraphWalk(losses)
        followed = self._follow(plan, walk, calls, batch)
        proof = plan.proof
        need = proof.check_graph(walk, batch, checks.rows) if batch > 1 else NO_CERTIFICATE
        ragged = self._find_ragged(plan, walk, calls, followed) if batch > 1 else {}
        del walk  # it would keep the nodes alive after the backward pass
        is_settled = proof.settled is not None and not need.due and not followed
        sites = [] if is_settled else _list_sites(plan, calls, followed)
        keep_graph = (proof.add_sites(sites) or need.due or bool(ragged)) and batch > 1
        keep_shared = any(f.parameter.any_step for f in followed)  # what is before the boundaries
        gradients, used_elsewhere = self._backward(
            losses, calls, followed, brute_forced, keep_graph or keep_shared
        )
        owners: dict[SiteKey, RowOwners] = {}
        if keep_graph:
            searches = {
                key: OwnerSearch(edge, leading, g)
                for key, (position, edge, leading) in ragged.items()
                if (g := gradients[position]) is not None
            }
            owners = self._prove(plan, losses, sites, gradients, need, searches)
        elif batch > 1:
            proof.trust_lot()
        if proof.settled is None:
            axes = [None if a is None else proof.get_order((i, -1)) for i, a in enumerate(plan.axes)]
            if not followed and not any(proof.is_open(s.key) for s in sites):
                proof.settled = axes
        else:
            axes = proof.settled
        row_axes = [owners.get((i, -1), axis) for i, axis in enumerate(axes)]
        unproved: set[int] = set()
        for one in followed:
            parameter = one.parameter
            for number, boundary in enumerate(one.boundaries):
                order = proof.get_order(key := _site_key(parameter, number))
                boundary.owners = owners.get(key)
                if order is not None:
                    boundary.axis = order
                elif boundary.owners is not None:
                    continue
                elif parameter.is_call:
                    unproved.update(calls[parameter.number].tap.indices.values())
                else:
                    unproved.add(parameter.number)
        return PassResult(plan, calls, row_axes, followed, gradients, used_elsewhere, unproved)

    def _prove(
        self,
        plan: BatchAxisPlan,
        losses: Tensor,
        sites: list[GradientSite],
        gradients: Sequence[Tensor | None],
        need: CertificateNeed,
        searches: dict[SiteKey, OwnerSearch],
    ) -> dict[SiteKey, RowOwners]:
        """Certify the lot if that is due, or if a row order is still open and has rows that are not zero.

        Returns the owners of rows that are in no order, by their site.
        """
        proof = plan.proof
        used = [s for s in sites if gradients[s.position] is not None and proof.get_order(s.key) is not None]
        rows = [s.move_batch_first(g) for s in used if (g := gradients[s.position]) is not None]
        if searches or not need.due:
            pairs = zip(used, rows, strict=True)
            if not searches and not any(
                proof.is_open(s.key) and proof.needs_certificate(s, r, len(losses)) for s, r in pairs
            ):
                proof.trust_lot()
                return {}
            need = CertificateNeed(due=True, unique=True, same_graph=need.same_graph)
        if not used and not searches:
            return {}
        with InstalledTaps(self._taps):
            names = [self._name_site(s) for s in used]
            found = proof.certify(losses, used, rows, names, need, list(searches.values()))
        by_site = dict(zip(searches, found, strict=True))
        proof.ownerless.update(key for key, owners in by_site.items() if owners is None)
        return {key: owners for key, owners in by_site.items() if owners is not None}

    def _find_ragged(
        self, plan: BatchAxisPlan, walk: GraphWalk, calls: list[LayerCall], followed: list[FollowedParameter]
    ) -> dict[SiteKey, tuple[int, GradientEdge, tuple[int, ...]]]:
        """The sites whose rows are in no known order: their owners are searched in this lot.

        Each has the position of its gradient, its edge, and the sizes that its rows are counted by.
        """
        shared = {f.parameter.number for f in followed if f.parameter.is_call}
        proof = plan.proof
        ragged = [
            i
            for i, axis in enumerate(plan.axes)
            if (axis is None or proof.is_refuted((i, -1)))
            and i not in shared
            and (i, -1) not in proof.ownerless
        ]
        reused = find_reused(walk, calls, self._parameters) if ragged else set()
        found = {
            (i, -1): (i, calls[i].edge, calls[i].leading)
            for i in ragged
            if not reused.intersection(calls[i].tap.indices.values())
        }
        position = len(calls)
        for one in followed:
            for number, boundary in enumerate(one.boundaries):
                key = _site_key(one.parameter, number)
                if boundary.use.takes_owners and proof.is_refuted(key) and key not in proof.ownerless:
                    rows = get_output_shape(boundary.edge.node, boundary.edge.output_nr)[:1]
                    found[key] = position, boundary.edge, rows
                position += 1
        return found

    def _name_site(self, site: GradientSite) -> str:
        return (
            "a parameter used outside of layers" if site.call is None else self._names[site.call.tap.number]
        )

    def _forward(
        self, inputs: tuple[Tensor, ...], targets: Tensor, batch: int
    ) -> tuple[Tensor, list[LayerCall]]:
        tape = self._tape
        calls: list[LayerCall] = []
        tape.calls = calls
        tape.recording = True
        try:
            losses = require_losses(self._loss(self._model(*inputs), targets), batch)
        finally:
            tape.recording = False
            tape.calls = []
        return losses, calls

    def _follow(
        self, plan: BatchAxisPlan, walk: GraphWalk, calls: list[LayerCall], batch: int
    ) -> list[FollowedParameter]:
        """The graph parameters of this step whose consumers are all as the plan says."""
        if not plan.graph_parameters:
            return []
        graph = ConsumerGraph(walk)
        followed: list[FollowedParameter] = []
        for parameter in plan.graph_parameters:
            root = parameter.find_root(graph, calls, self._parameters)
            boundaries = None if root is None else parameter.find_boundaries(graph, root, batch)
            if root is not None and boundaries is not None:
                followed.append(FollowedParameter(parameter, root, boundaries))
        return followed

    def _backward(
        self,
        losses: Tensor,
        calls: list[LayerCall],
        followed: list[FollowedParameter],
        brute_forced: set[int],
        keep_graph: bool,
    ) -> tuple[Sequence[Tensor | None], list[int]]:
        """One backward pass: gradients at calls and boundaries, and parameters that are used elsewhere."""
        watched = list(range(len(self._parameters)))
        if followed or brute_forced:
            handled = {f.parameter.number for f in followed if not f.parameter.is_call} | brute_forced
            watched = [i for i in watched if i not in handled]
        edges = [*[c.edge for c in calls], *[b.edge for f in followed for b in f.boundaries]]
        wanted: list[Any] = [*edges, *[self._parameters[i] for i in watched]]
        if not wanted:
            return (), []  # brute force handles all parameters
        with InstalledTaps(self._taps):  # checkpointed blocks run their forward again in the backward pass
            # The ones are new each time: where a loss is an output itself, they are its gradient, which is
            # scaled in place.
            gradients = run_backward(losses, torch.ones_like(losses), wanted, keep_graph=keep_graph)
        for call in calls:
            call.require_unchanged_inputs()
        used_elsewhere = [i for i, g in zip(watched, gradients[len(edges) :], strict=True) if g is not None]
        return gradients[: len(edges)], used_elsewhere


def _site_key(parameter: GraphParameter, number: int) -> tuple[int, int]:
    """The key of a boundary's site. Those of calls have −1 in second place."""
    return (-1 - parameter.number if parameter.is_call else parameter.number, number)


def _list_sites(
    plan: BatchAxisPlan, calls: list[LayerCall], followed: list[FollowedParameter]
) -> list[GradientSite]:
    """The edges with rows of examples: calls with a batch axis, and boundaries."""
    sites = [
        GradientSite((i, -1), i, call.edge, axis, call)
        for i, (call, axis) in enumerate(zip(calls, plan.axes, strict=True))
        if axis is not None
    ]
    position = len(calls)
    for one in followed:
        for number, boundary in enumerate(one.boundaries):
            key = _site_key(one.parameter, number)
            has_images = boundary.use.has_images
            sites.append(GradientSite(key, position, boundary.edge, boundary.axis, None, has_images))
            position += 1
    return sites
