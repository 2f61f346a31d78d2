"""One forward and one backward pass over a lot, with the rows of every layer divided among the examples, and proved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from privet.training.per_example.batch_axis import Plan, Prober, Stray
from privet.training.per_example.graph.couplings import Couplings
from privet.training.per_example.graph.graph_parameters import Graph, Reach
from privet.training.per_example.graph.graphs import GraphWalk
from privet.training.per_example.graph.proofs import NO_LOOK, CertificateNeed, Site, gradients_of
from privet.training.per_example.refusals import require_losses
from privet.training.per_example.taps.tape import Placement, Tap, Tape, Use, tapped

__all__ = ["NO_CHECKS", "Checks", "Pass", "Passes"]

Loss = Callable[[Tensor, Tensor], Tensor]


@final
@dataclass(frozen=True, slots=True)
class Checks:
    """What is looked at in a lot, beside what its graph asks for: rows in lots 1, 2, 4, 8, …, company in 1, 4, 16, … and in larger lots."""

    rows: bool
    company: bool
    first: bool


NO_CHECKS = Checks(rows=False, company=False, first=False)


@final
@dataclass(frozen=True, slots=True)
class Pass:
    """What a backward pass found: gradients at the calls of layers, then at the reaches of what is used outside of them."""

    plan: Plan
    uses: list[Use]
    places: list[Placement | None]
    followed: list[tuple[Stray, list[Reach]]]
    gradients: Sequence[Tensor | None]
    outside: list[int]  # parameters that were used in some other way too
    unproved: set[int]  # parameters whose rows have no layout


@final
class Passes:
    """The passes of one model, with what was learnt of it."""

    __slots__ = (
        "_counts",
        "_couplings",
        "_loss",
        "_model",
        "_names",
        "_parameters",
        "_plans",
        "_prober",
        "_tape",
        "_taps",
    )

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        parameters: list[nn.Parameter],
        taps: list[Tap],
        tape: Tape,
        couplings: Couplings,
    ) -> None:
        self._model, self._loss, self._parameters = model, loss, parameters
        self._taps, self._tape = taps, tape
        self._couplings = couplings
        self._prober = Prober(model, loss, parameters, taps, tape, couplings)
        self._plans: dict[object, Plan] = {}
        self._counts: dict[object, tuple[int, int]] = {}  # of lots, with the largest whose company was tried
        names = {id(module): name for name, module in model.named_modules()}
        self._names = [names[id(tap.module)] or type(tap.module).__name__ for tap in taps]

    def begin(self, key: object, batch: int) -> Checks:
        """Counts the lots of such shapes, and says what is to be looked at in this one.

        A lot of one example needs no proof, since all rows are its own, and does not count.
        """
        if batch < 2:
            return NO_CHECKS
        count, largest = self._counts.get(key, (0, 0))
        count, larger = count + 1, batch > 2 * largest
        self._counts[key] = count, batch if larger else largest
        milestone = not count & (count - 1)
        company = larger or (milestone and count.bit_length() % 2 == 1)
        return Checks(rows=milestone or company, company=company, first=count == 1)

    def has_begun(self, key: object) -> bool:
        """Whether such a lot was looked at before."""
        return key in self._counts

    def run(
        self,
        key: object,
        inputs: tuple[Tensor, ...],
        targets: Tensor,
        known: set[int],
        checks: Checks,
    ) -> Pass:
        """The passes over one lot; ``known`` are the parameters that are left to brute force already."""
        batch = targets.shape[0]
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._prober.plan(inputs, targets)
        if checks.company:
            self._couplings.require_apart(inputs, targets, first=checks.first)
        with tapped(self._taps):
            losses, uses = self._forward(inputs, targets, batch)
        if not plan.matches(uses, batch):
            plan = self._plans[key] = self._prober.plan(inputs, targets)
            if not plan.matches(uses, batch):
                plan = Plan.unknown(uses)  # the calls depend on the values: no tap is used for this lot
        seen = GraphWalk(losses)
        followed = self._follow(plan, seen, uses, batch)
        proof = plan.proof
        look = proof.look(seen, batch, checks.rows) if batch > 1 else NO_LOOK
        del seen  # nodes that are held would outlive the backward pass
        is_quick = proof.settled is not None and not look.due and not followed
        sites = [] if is_quick else _sites(plan, uses, followed)
        keep = (proof.watch(sites) or look.due) and batch > 1
        found, outside = self._backward(losses, uses, followed, known, keep)
        if keep:
            self._prove(plan, losses, sites, found, look)
        elif batch > 1:
            proof.rely()
        if proof.settled is None:
            places = [None if p is None else proof.place((i, -1)) for i, p in enumerate(plan.places)]
            if not followed and not any(proof.is_open(s.key) for s in sites):
                proof.settled = places
        else:
            places = proof.settled
        unproved: set[int] = set()
        for stray, reaches in followed:
            for number, reach in enumerate(reaches):
                place = proof.place(_key(stray, number))
                if place is None:
                    unproved.update(uses[stray.number].tap.indices.values() if stray.call else [stray.number])
                else:
                    reach.place = place
        return Pass(plan, uses, places, followed, found, outside, unproved)

    def _prove(
        self,
        plan: Plan,
        losses: Tensor,
        sites: list[Site],
        found: Sequence[Tensor | None],
        look: CertificateNeed,
    ) -> None:
        """Certifies the lot where that is due, or where a layout is still open and has rows that are not zero."""
        alive = [s for s in sites if found[s.position] is not None and plan.proof.place(s.key) is not None]
        rows = [s.along(g) for s in alive if (g := found[s.position]) is not None]
        if not look.due:
            pairs = zip(alive, rows, strict=True)
            if not any(plan.proof.is_open(s.key) and plan.proof.asks(s, r, len(losses)) for s, r in pairs):
                plan.proof.rely()
                return
            look = CertificateNeed(due=True, unique=True, same=look.same)
        if alive:
            with tapped(self._taps):
                plan.proof.check(losses, alive, rows, [self._name(s) for s in alive], look)

    def _name(self, site: Site) -> str:
        return "a parameter used outside of layers" if site.use is None else self._names[site.use.tap.number]

    def _forward(self, inputs: tuple[Tensor, ...], targets: Tensor, batch: int) -> tuple[Tensor, list[Use]]:
        tape = self._tape
        uses: list[Use] = []
        tape.uses = uses
        tape.recording = True
        try:
            losses = require_losses(self._loss(self._model(*inputs), targets), batch)
        finally:
            tape.recording = False
            tape.uses = []
        return losses, uses

    def _follow(
        self, plan: Plan, seen: GraphWalk, uses: list[Use], batch: int
    ) -> list[tuple[Stray, list[Reach]]]:
        """The strays of this step whose every consumer is where the plan says."""
        if not plan.strays:
            return []
        graph = Graph(seen)
        found = [(stray, stray.reaches(graph, uses, self._parameters, batch)) for stray in plan.strays]
        return [(stray, reaches) for stray, reaches in found if reaches is not None]

    def _backward(
        self,
        losses: Tensor,
        uses: list[Use],
        followed: list[tuple[Stray, list[Reach]]],
        known: set[int],
        keep: bool,
    ) -> tuple[Sequence[Tensor | None], list[int]]:
        """One backward pass: the gradients at the edges of uses and reaches, and what was used elsewhere."""
        watched = list(range(len(self._parameters)))
        if followed or known:
            handled = {stray.number for stray, _ in followed if not stray.call} | known
            watched = [i for i in watched if i not in handled]
        edges = [*[u.edge for u in uses], *[r.edge for _, reaches in followed for r in reaches]]
        wanted: list[Any] = [*edges, *[self._parameters[i] for i in watched]]
        if not wanted:
            return (), []  # all of it is left to brute force
        with tapped(self._taps):  # also for blocks that are computed again in the backward pass
            # The ones are fresh each time: where a loss is an output itself, its gradient is them, and is scaled in place.
            found = gradients_of(losses, torch.ones_like(losses), wanted, keep=keep)
        for use in uses:
            use.check()
        outside = [i for i, g in zip(watched, found[len(edges) :], strict=True) if g is not None]
        return found[: len(edges)], outside


def _key(stray: Stray, number: int) -> tuple[int, int]:
    """The site of a reach: apart from those of calls, which have −1 in second place."""
    return (-1 - stray.number if stray.call else stray.number, number)


def _sites(plan: Plan, uses: list[Use], followed: list[tuple[Stray, list[Reach]]]) -> list[Site]:
    """Where rows are divided among the examples: calls with a place, and reaches."""
    sites = [
        Site((i, -1), i, use.edge, place, use)
        for i, (use, place) in enumerate(zip(uses, plan.places, strict=True))
        if place is not None
    ]
    position = len(uses)
    for stray, reaches in followed:
        for number, reach in enumerate(reaches):
            sites.append(Site(_key(stray, number), position, reach.edge, reach.place, None))
            position += 1
    return sites
