"""Which rows belong to which example: proved by a weighted backward pass on the graph of the lot itself.

Let G(r) be the gradient of Σ_b r_b ℓ_b at a tapped output. A row that only the loss of example b depends on has G(r) = r_b·G(1). With
weights r_b that are powers of two the scaling is exact in floating point, so a row is held against the example that a
layout gives it to, to the last bit. A row that several examples share fits none of them, and a row that is zero
fits all of them: it adds nothing to any gradient, and shows nothing.

*Codes.* Exponents from −8 to 8 are the digits of the example's number in base 17, one digit in each pass. So two passes tell
apart 289 examples, and three 4,913. Where a layout was proved before, one pass with shuffled exponents serves: rows that
are exchanged between two examples escape it with a probability of at most 1/17.

*What is proved.* On a lot that was certified, the division of the rows is right, whatever the model is: rows that are not
zero have their owner, and the others count for nothing. Between two certificates a layout is used only if all others were
refuted, if the graph is the same (``graphs``) and moves no rows by value (``row_moves``), and if each position (token) of an example
that is not zero now was not zero in certified lots before, in two rows at least: a position that has been zero so far (tokens that a
class token hides, a gate that opens for few examples) has shown nothing. What this cannot see is a dependence through values that are cut from the graph: ``couplings`` looks for that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Variable
from torch.autograd.graph import GradientEdge

from privet.training.per_example.graph.graphs import GraphLaw, GraphWalk
from privet.training.per_example.graph.row_moves import RowMoves
from privet.training.per_example.refusals import RowsMoved
from privet.training.per_example.taps.tape import Placement, Use

__all__ = ["NO_LOOK", "CertificateNeed", "Proof", "Site", "gradients_of", "rows_apart"]

BASE = 17
"""How many powers of two are used as weights."""

TOLERANCE = 1e-4
"""How far a row may be, relatively, from its weight times the plain row; only sums in another order make it more than 0."""

TINY = 1e-30
"""Rows below are zero: what they add to a gradient is nothing beside any clip bound."""

ENOUGH = 2
"""How many rows of a position must not have been zero in certified lots before the position goes without."""

RATE = 1 / 48
"""The share of lots that are certified once a plan has been for long in use."""

Key = tuple[int, int]


def gradients_of(
    losses: Tensor, weights: Tensor, wanted: Sequence[Any], *, keep: bool = False
) -> tuple[Tensor | None, ...]:
    """The gradients of the weighted sum of losses, or None where there is none; ``torch.autograd.grad`` without its checks."""
    found: tuple[Tensor | None, ...] = Variable._execution_engine.run_backward(
        (losses,), (weights,), keep, False, tuple(wanted), True, accumulate_grad=False
    )
    return found


def unique_codes(losses: Tensor) -> list[Tensor]:
    """Weights for as many passes as it takes to tell all examples apart."""
    numbers = torch.arange(losses.shape[0], device=losses.device)
    found = [_powers(numbers % BASE, losses)]
    while bool((numbers := numbers.div(BASE, rounding_mode="floor")).any()):
        found.append(_powers(numbers % BASE, losses))
    return found


def random_codes(losses: Tensor, generator: np.random.Generator) -> list[Tensor]:
    """Weights for one pass: every exponent as often as any other, in an order that nobody knows."""
    digits = torch.from_numpy(generator.permutation(losses.shape[0]) % BASE)
    return [_powers(digits.to(losses.device), losses)]


def _powers(digits: Tensor, losses: Tensor) -> Tensor:
    return torch.ldexp(torch.ones_like(losses), digits - BASE // 2).to(losses.dtype)


@final
@dataclass(frozen=True, slots=True)
class Site:
    """A place in the graph whose rows a plan divides among the examples."""

    key: Key
    position: int  # of its gradient among those of the pass
    edge: GradientEdge
    place: Placement
    use: Use | None  # the call of a layer, or None where a parameter is used outside of layers

    def along(self, gradient: Tensor) -> Tensor:
        """The gradient with the axis of the examples in front."""
        shaped = gradient if self.use is None else self.use.shaped(gradient)
        return shaped.movedim(self.place.axis, 0) if self.place.axis else shaped

    def apart(self, rows: Tensor, layout: Placement, batch: int) -> Tensor:
        """[examples, positions, …], from rows with the axis of the examples in front."""
        leading = max(1, rows.dim() - 1) if self.use is None else len(self.use.leading)
        return Placement(0, layout.each, layout.outer).rows(rows, leading, batch)

    def alive(self, rows: Tensor, layout: Placement, batch: int) -> Tensor:
        """[examples, positions]: which rows are not zero; ``rows`` has the axis of the examples in front."""
        apart = self.apart(rows, layout, batch)
        return (apart.flatten(2).abs().amax(2) if apart.dim() > 2 else apart.abs()) > TINY


def same_rows(plain: Tensor, weighted: Tensor, factors: Tensor) -> bool:
    """Whether weighted = factors·plain, row by row along the first axis; rows that are zero in both fit, and so do those not finite.

    A row that is zero in the plain pass alone is one in which the gradients of several examples cancel.
    """
    scale = factors.view(-1, *[1] * (plain.dim() - 1))
    expected = plain * scale
    if torch.equal(weighted, expected):
        return True
    apart, size = (weighted - expected).abs_(), expected.abs_()
    if plain.dim() > 1:
        apart, size = apart.amax(-1, keepdim=True), size.amax(-1, keepdim=True)
    is_zero = (size <= TINY * scale) & (apart <= TOLERANCE * plain.abs().amax() * scale + TINY * scale)
    return bool(((apart <= TOLERANCE * size) | is_zero | ~size.isfinite()).all())


def rows_apart(losses: Tensor, outputs: Tensor, plain: Tensor) -> bool:
    """Whether each row of the outputs is the example's of the same number, by codes that tell all of them apart."""
    codes = unique_codes(losses)
    for number, weights in enumerate(codes):
        found = gradients_of(losses, weights, [outputs], keep=number + 1 < len(codes))[0]
        if found is None or not same_rows(plain, found, weights.to(plain.dtype)):
            return False
    return True


@final
@dataclass(frozen=True, slots=True)
class CertificateNeed:
    """Whether a lot needs a certificate, whether one that tells all examples apart, and whether its graph is the known one."""

    due: bool
    unique: bool
    same: bool


NO_LOOK = CertificateNeed(due=False, unique=False, same=True)
_DUE = CertificateNeed(due=True, unique=False, same=True)


@final
class Proof:
    """What the lots so far have shown of one plan: the layouts that are left at each site, and when to look again."""

    __slots__ = (
        "_checked",
        "_generator",
        "_law",
        "_left",
        "_moves",
        "_relied",
        "_shown",
        "_wait",
        "_whole",
        "settled",
    )

    def __init__(self, law: GraphLaw | None, moves: RowMoves) -> None:
        self._law = law
        self._moves = moves
        self._left: dict[Key, tuple[Placement, ...]] = {}
        self._shown: dict[Key, Tensor] = {}  # how many rows of each position were not zero in certified lots
        self._whole: set[Key] = set()  # sites of which every position was shown
        self._checked = False
        self._relied = False  # whether a lot went without a certificate
        self._generator = np.random.default_rng()  # chooses lots and weights; protects nobody
        self._wait = self._drawn()
        self.settled: list[Placement | None] | None = None
        """The layouts of all calls, once each of them has one or none; until a lot is certified again."""

    def place(self, key: Key) -> Placement | None:
        """The layout of a site, or None if none is left."""
        left = self._left[key]
        return left[0] if left else None

    def is_open(self, key: Key) -> bool:
        """Whether several layouts are left, or one that has not been shown at every position of an example."""
        return len(self._left[key]) > 1 or (key not in self._whole and bool(self._left[key]))

    def asks(self, site: Site, rows: Tensor, batch: int) -> bool:
        """Whether rows of an open site are not zero where nothing was shown yet."""
        left = self._left[site.key]
        shown = self._shown.get(site.key)
        if len(left) > 1 or shown is None:
            return bool(rows.count_nonzero())
        alive = site.alive(rows, left[0], batch)
        return len(shown) != alive.shape[1] or bool(alive[:, shown < ENOUGH].any())

    def watch(self, sites: list[Site]) -> bool:
        """Takes up sites that are new; whether one is open."""
        for site in sites:
            if site.key not in self._left:
                self._left[site.key] = site.place.layouts()
        return any(self.is_open(s.key) for s in sites)

    def look(self, seen: GraphWalk, batch: int, milestone: bool) -> CertificateNeed:
        """What the graph of the lot asks for."""
        same = self._law is not None and self._law.holds(seen, batch)
        if not same or not self._moves.stay(seen, batch):
            return CertificateNeed(due=True, unique=True, same=same)
        if not self._checked:
            return CertificateNeed(due=True, unique=True, same=True)
        self._wait -= 1
        if self._wait < 1:
            self._wait = self._drawn()
            return _DUE
        return _DUE if milestone else NO_LOOK

    def _drawn(self) -> int:
        """In how many lots the next certificate is due: each lot is as likely as any other, whatever came before."""
        return int(self._generator.geometric(RATE)) if RATE else 1 << 62

    def check(
        self,
        losses: Tensor,
        sites: list[Site],
        plain: list[Tensor],
        names: list[str],
        look: CertificateNeed,
    ) -> None:
        """Certifies the lot: what does not fit is no longer a layout. Refused if lots of this graph went without a look before.

        ``plain`` has the gradients of the plain pass, with the axis of the examples in front.
        """
        left = [self._left[site.key] for site in sites]
        moved: list[int] = []
        codes = unique_codes(losses) if look.unique else random_codes(losses, self._generator)
        for number, weights in enumerate(codes):
            found = gradients_of(losses, weights, [s.edge for s in sites], keep=number + 1 < len(codes))
            for i, (site, gradient) in enumerate(zip(sites, found, strict=True)):
                assert gradient is not None
                rows = site.along(gradient)
                fitting = tuple(_fitting(left[i], plain[i], rows, weights))
                if left[i] and not fitting and self._relied and self._moved(site, plain[i], rows, weights):
                    moved.append(i)
                left[i] = fitting
        for site, fitting, rows in zip(sites, left, plain, strict=True):
            self._left[site.key] = fitting
            if len(fitting) == 1 and look.unique and site.key not in self._whole:
                self._show(site, site.alive(rows, fitting[0], losses.shape[0]).sum(0))
        self._checked, self.settled = True, None
        if moved and look.same:
            raise RowsMoved(
                f"'model' must keep the rows of an example where they were in earlier lots, got others at '{names[moved[0]]}'. "
                f"Nothing of this step was added, but earlier steps of this run may have been clipped by wrong rows: do not use "
                f"its guarantee. Take the order of rows out of the model's own state, or sort and select with torch.gather or "
                f"x[index], which are seen; then train anew."
            )

    def _moved(self, site: Site, plain: Tensor, weighted: Tensor, weights: Tensor) -> bool:
        """Whether rows do not fit at positions that went without a certificate; at others, earlier lots were not wrong."""
        left, shown = self._left[site.key], self._shown.get(site.key)
        if len(left) != 1 or shown is None:
            return False
        known = shown >= ENOUGH
        rows = [site.apart(t, left[0], len(weights)) for t in (plain, weighted)]
        if rows[0].shape[1] != len(known):
            return True
        return not same_rows(rows[0][:, known], rows[1][:, known], weights.to(plain.dtype))

    def _show(self, site: Site, counts: Tensor) -> None:
        """Adds up how many rows of each position were not zero."""
        before = self._shown.get(site.key)
        if before is not None and len(before) == len(counts):
            counts = counts + before
        self._shown[site.key] = counts
        if bool((counts >= ENOUGH).all()):
            self._whole.add(site.key)

    def rely(self) -> None:
        """Notes that a lot went without a certificate."""
        self._relied = True


def _fitting(
    layouts: tuple[Placement, ...], plain: Tensor, weighted: Tensor, weights: Tensor
) -> Iterator[Placement]:
    for layout in layouts:
        factors = weights.to(plain.dtype)[layout.owners(weights.shape[0], weights.device)]
        if same_rows(plain, weighted, factors):
            yield layout
