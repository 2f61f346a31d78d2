"""Which rows belong to which example: proved by a weighted backward pass on the graph of the lot itself.

Let G(r) be the gradient of Σ_b r_b ℓ_b at a tapped output. A row that only the loss of example b depends on
has G(r) = r_b·G(1). With weights r_b that are powers of two the scaling is exact in floating point. So a row
is compared with the example that a row order gives it to, to the last bit. A row that several examples share
fits none of them. A row that is zero fits all of them: it adds nothing to any gradient, and it shows nothing.

*Codes.* Exponents from −16 to 16 are the digits of the example's number in base 33, one digit in each pass.
So one pass tells 33 examples apart, and two passes 1,089. Where a row order was proved before, one pass with
shuffled exponents is enough: it misses rows that are exchanged between two examples with a probability of at
most 1/33.

*What is proved.* In a certified lot the rows belong to the examples as assumed, whatever the model is: rows
that are not zero have their owner, and the others count for nothing. Between two certificates a row order is
used only under three conditions. All other orders were refuted. The graph is the same (``graphs``) and moves
no rows by value (``row_moves``). And each position (token) of an example that is not zero now was not zero in
certified lots before, in at least two rows: a position that was always zero (tokens that a class token hides,
a gate that opens for few examples) has shown nothing. A dependence through values that are detached from the
graph is not visible here: ``couplings`` tests for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from privet.torch_internals import run_backward
from privet.training.per_example.graph.graphs import GraphTemplate, GraphWalk
from privet.training.per_example.graph.row_moves import RowMoves
from privet.training.per_example.graph.row_owners import OwnerSearch
from privet.training.per_example.refusals import RowsMoved
from privet.training.per_example.taps.tape import BatchAxis, LayerCall, RowOwners

__all__ = ["NO_CERTIFICATE", "CertificateNeed", "GradientSite", "RowProof", "rows_are_separate"]

BASE = 33
"""The number of powers of two that are used as weights."""

TOLERANCE = 1e-4
"""The largest relative difference of a row from weight times plain row. Only the order of sums causes any."""

TINY = 1e-30
"""Smaller rows count as zero: what they add to a gradient is negligible for any clip bound."""

ENOUGH_ROWS = 2
"""A position needs this many nonzero rows in certified lots before it is trusted without a certificate."""

CERTIFICATE_RATE = 1 / 48
"""The share of lots that are certified at random once a plan has been used for long."""

SiteKey = tuple[int, int]


def make_unique_codes(losses: Tensor, numbers: Tensor | None = None) -> list[Tensor]:
    """Weights for as many passes as are needed to tell all examples apart, by their ``numbers``."""
    numbers = torch.arange(losses.shape[0], device=losses.device) if numbers is None else numbers
    codes = [_make_powers(numbers % BASE, losses)]
    while bool((numbers := numbers.div(BASE, rounding_mode="floor")).any()):
        codes.append(_make_powers(numbers % BASE, losses))
    return codes


def make_random_codes(losses: Tensor, generator: np.random.Generator) -> list[Tensor]:
    """Weights for one pass: every exponent equally often, in random order."""
    digits = torch.from_numpy(generator.permutation(losses.shape[0]) % BASE)
    return [_make_powers(digits.to(losses.device), losses)]


def _make_powers(digits: Tensor, losses: Tensor) -> Tensor:
    return torch.ldexp(torch.ones_like(losses), digits - BASE // 2).to(losses.dtype)


@final
@dataclass(frozen=True, slots=True)
class GradientSite:
    """An edge of the graph whose gradient has rows that belong to examples."""

    key: SiteKey
    position: int  # of its gradient among those of the pass
    edge: GradientEdge
    axis: BatchAxis
    call: LayerCall | None  # None where a parameter is used outside of layers
    has_images: bool = False  # whether a row is a whole image, as it is for layers of images

    def move_batch_first(self, gradient: Tensor) -> Tensor:
        """The gradient with its batch axis in front."""
        shaped = gradient if self.call is None else self.call.restore_leading(gradient)
        return shaped.movedim(self.axis.dim, 0) if self.axis.dim else shaped

    def split_positions(self, rows: Tensor, order: BatchAxis, batch: int) -> Tensor:
        """[examples, positions, …], from rows with the batch axis in front."""
        leading = 1 if self.has_images else max(1, rows.dim() - 1)
        if self.call is not None:
            leading = len(self.call.leading)
        return BatchAxis(0, order.each, order.outer).split_rows(rows, leading, batch)

    def find_nonzero(self, rows: Tensor, order: BatchAxis, batch: int) -> Tensor:
        """[examples, positions]: which rows are not zero. ``rows`` has the batch axis in front."""
        split = self.split_positions(rows, order, batch)
        return (split.flatten(2).abs().amax(2) if split.dim() > 2 else split.abs()) > TINY


def rows_match(plain: Tensor, weighted: Tensor, factors: Tensor) -> bool:
    """Whether weighted = factors·plain, row by row along the first axis. Rows that are zero in both match.

    Rows that are not finite match too; they are refused later. A row that is zero in the plain pass only does
    not match: in it, the gradients of several examples cancel.
    """
    scale = factors.view(-1, *[1] * (plain.dim() - 1))
    expected = plain * scale
    if torch.equal(weighted, expected):
        return True
    difference, size = (weighted - expected).abs_(), expected.abs_()
    if plain.dim() > 1:
        difference, size = difference.amax(-1, keepdim=True), size.amax(-1, keepdim=True)
    slack = TOLERANCE * plain.abs().amax() * scale + TINY * scale
    is_zero = (size <= TINY * scale) & (difference <= slack)
    return bool(((difference <= TOLERANCE * size) | is_zero | ~size.isfinite()).all())


def rows_are_separate(losses: Tensor, outputs: Tensor, plain: Tensor) -> bool:
    """Whether row i of the outputs affects only the loss of example i."""
    codes = make_unique_codes(losses)
    for number, weights in enumerate(codes):
        gradient = run_backward(losses, weights, [outputs], keep_graph=number + 1 < len(codes))[0]
        if gradient is None or not rows_match(plain, gradient, weights.to(plain.dtype)):
            return False
    return True


@final
@dataclass(frozen=True, slots=True)
class CertificateNeed:
    """Whether a lot needs a certificate, whether with unique codes, and whether its graph is known."""

    due: bool
    unique: bool
    same_graph: bool


NO_CERTIFICATE = CertificateNeed(due=False, unique=False, same_graph=True)
_DUE = CertificateNeed(due=True, unique=False, same_graph=True)


@final
class RowProof:
    """What the lots so far have proved for one plan: the row orders that are left at each site."""

    __slots__ = (
        "_certified",
        "_complete",
        "_generator",
        "_lots_left",
        "_moves",
        "_nonzero_counts",
        "_orders",
        "_template",
        "_trusted",
        "ownerless",
        "settled",
    )

    def __init__(self, template: GraphTemplate | None, moves: RowMoves) -> None:
        self._template = template
        self._moves = moves
        self._orders: dict[SiteKey, tuple[BatchAxis, ...]] = {}
        self._nonzero_counts: dict[SiteKey, Tensor] = {}  # rows of each position, in certified lots
        self._complete: set[SiteKey] = set()  # sites with enough nonzero rows at every position
        self._certified = False  # whether a lot was certified
        self._trusted = False  # whether a lot had no certificate
        self._generator = np.random.default_rng()  # chooses lots and weights; protects nobody
        self._lots_left = self._draw_wait()
        self.ownerless: set[SiteKey] = set()
        """Sites with rows that several examples share."""
        self.settled: list[BatchAxis | None] | None = None
        """The row orders of all calls, once each call has one or none; None again after a certificate."""

    def get_order(self, key: SiteKey) -> BatchAxis | None:
        """The row order of a site, or None if all were refuted."""
        orders = self._orders[key]
        return orders[0] if orders else None

    def is_open(self, key: SiteKey) -> bool:
        """Whether several row orders are left, or one that was not shown at every position of an example."""
        return len(self._orders[key]) > 1 or (key not in self._complete and bool(self._orders[key]))

    def needs_certificate(self, site: GradientSite, rows: Tensor, batch: int) -> bool:
        """Whether rows of an open site are not zero at a position that was not shown yet."""
        orders = self._orders[site.key]
        counts = self._nonzero_counts.get(site.key)
        if len(orders) > 1 or counts is None:
            return bool(rows.count_nonzero())
        nonzero = site.find_nonzero(rows, orders[0], batch)
        return len(counts) != nonzero.shape[1] or bool(nonzero[:, counts < ENOUGH_ROWS].any())

    def add_sites(self, sites: list[GradientSite]) -> bool:
        """Add sites that are new. Returns whether one is open."""
        for site in sites:
            if site.key not in self._orders:
                self._orders[site.key] = site.axis.row_orders()
        return any(self.is_open(s.key) for s in sites)

    def check_graph(self, walk: GraphWalk, batch: int, milestone: bool) -> CertificateNeed:
        """Whether the graph of this lot needs a certificate."""
        same_graph = self._template is not None and self._template.matches(walk, batch)
        if not same_graph or not self._moves.keep_rows(walk, batch):
            return CertificateNeed(due=True, unique=True, same_graph=same_graph)
        if not self._certified:
            return CertificateNeed(due=True, unique=True, same_graph=True)
        self._lots_left -= 1
        if self._lots_left < 1:
            self._lots_left = self._draw_wait()
            return _DUE
        return _DUE if milestone else NO_CERTIFICATE

    def _draw_wait(self) -> int:
        """The number of lots until the next random certificate. Each lot is equally likely."""
        return int(self._generator.geometric(CERTIFICATE_RATE)) if CERTIFICATE_RATE else 1 << 62

    def certify(
        self,
        losses: Tensor,
        sites: list[GradientSite],
        plain: list[Tensor],
        names: list[str],
        need: CertificateNeed,
        searches: Sequence[OwnerSearch] = (),
    ) -> list[RowOwners | None]:
        """Certify the lot: drop row orders that do not match. Refused if earlier lots trusted one of them.

        ``plain`` has the gradients of the plain pass, with the batch axis in front. Returns the owners that
        the searches found.
        """
        orders = [self._orders[site.key] for site in sites]
        moved: list[int] = []
        examples = torch.from_numpy(self._generator.permutation(losses.shape[0])).to(losses.device)
        codes = (
            make_unique_codes(losses, examples.argsort())
            if need.unique
            else make_random_codes(losses, self._generator)
        )
        edges = [*[s.edge for s in sites], *[s.edge for s in searches]]
        for number, weights in enumerate(codes):
            keep_graph = number + 1 < len(codes)
            gradients = run_backward(losses, weights, edges, keep_graph=keep_graph)
            for search, gradient in zip(searches, gradients[len(sites) :], strict=True):
                search.add_pass(gradient, BASE)
            for i, (site, gradient) in enumerate(zip(sites, gradients[: len(sites)], strict=True)):
                assert gradient is not None
                rows = site.move_batch_first(gradient)
                matching = tuple(_matching_orders(orders[i], plain[i], rows, weights))
                is_refuted = bool(orders[i]) and not matching
                if is_refuted and self._moved_trusted_rows(site, plain[i], rows, weights):
                    moved.append(i)
                orders[i] = matching
        for site, matching, rows in zip(sites, orders, plain, strict=True):
            self._orders[site.key] = matching
            if len(matching) == 1 and need.unique and site.key not in self._complete:
                self._add_counts(site, site.find_nonzero(rows, matching[0], losses.shape[0]).sum(0))
        self._certified, self.settled = True, None
        if moved and need.same_graph:
            raise RowsMoved(
                f"'model' must keep the rows of an example where they were in earlier lots, got others at "
                f"'{names[moved[0]]}'. Nothing of this step was added, but earlier steps of this run may "
                f"have clipped wrong rows: do not use its guarantee. Do not keep the order of rows in the "
                f"model's own state, or sort and select with torch.gather or x[index], which are checked; "
                f"then train again."
            )
        return [search.find_owners(examples) for search in searches]

    def is_refuted(self, key: SiteKey) -> bool:
        """Whether no row order is left."""
        return self._orders.get(key) == ()

    def _moved_trusted_rows(
        self, site: GradientSite, plain: Tensor, weighted: Tensor, weights: Tensor
    ) -> bool:
        """Whether rows do not match at positions that earlier lots trusted."""
        orders, counts = self._orders[site.key], self._nonzero_counts.get(site.key)
        if not self._trusted or len(orders) != 1 or counts is None:
            return False
        trusted = counts >= ENOUGH_ROWS
        rows = [site.split_positions(t, orders[0], len(weights)) for t in (plain, weighted)]
        if rows[0].shape[1] != len(trusted):
            return True
        return not rows_match(rows[0][:, trusted], rows[1][:, trusted], weights.to(plain.dtype))

    def _add_counts(self, site: GradientSite, counts: Tensor) -> None:
        """Add the numbers of nonzero rows of each position."""
        before = self._nonzero_counts.get(site.key)
        if before is not None and len(before) == len(counts):
            counts = counts + before
        self._nonzero_counts[site.key] = counts
        if bool((counts >= ENOUGH_ROWS).all()):
            self._complete.add(site.key)

    def trust_lot(self) -> None:
        """Record that a lot had no certificate."""
        self._trusted = True


def _matching_orders(
    orders: tuple[BatchAxis, ...], plain: Tensor, weighted: Tensor, weights: Tensor
) -> Iterator[BatchAxis]:
    for order in orders:
        factors = weights.to(plain.dtype)[order.row_owners(weights.shape[0], weights.device)]
        if rows_match(plain, weighted, factors):
            yield order
