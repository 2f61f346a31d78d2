"""δ(ε) of one composition at many ε: what is shared between them is computed once.

A ceiling asks for δ at a dozen ε, and a report asks for dozens of ceilings. Two kinds of compositions have a
law that serves many ε:

* *Few losses.* The law of the summed loss is written out, once from above and once from below.
* *Losses on a grid*, where no pair has a density. A law on a grid, tilted for one ε, bounds δ at every other
  ε too (``lattice``), only less tightly far from it. So the axis of ε is cut into cells of two standard
  deviations of the loss. In each cell one law is made, for the left end of the cell. Its profile is a polygon
  in y = exp ε, whose knots are kept.

The cell is chosen by ε alone. So an answer does not depend on which questions were asked before. All other
compositions are asked afresh at every ε.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from privet.accounting.capped import capped_saddle
from privet.accounting.collapsed import add_up_losses
from privet.accounting.composed import delta_bounds, largest_loss
from privet.accounting.contour import Saddle
from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.lattice import Law, exceed_sums
from privet.accounting.pairs import AtomicPair, FinitePair, Reals
from privet.accounting.windows import laws_near
from privet.bounds import Interval, enclosure
from privet.errors import OutOfReach

__all__ = ["TabulatedProfile"]

_QUIET = np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
_EPS = float(np.finfo(float).eps)
_CELL = 2.0  # standard deviations of the loss
_SIZES = (1 << 13, 1 << 17, 1 << 19)
_TIGHT = 5e-7  # the relative gap of ε that is small enough
_UNSURE = 1e-6  # relative; an ε at which the errors of the cell's law are larger gets a law of its own
_MASSES = 1e-11  # relative round-off of a profile in closed form
_SUMS = 1e-14  # round-off of a sum of losses, relative to the largest sum


@final
@dataclass(frozen=True, eq=False)
class TabulatedProfile:
    """The profile of a composition, in one order of neighbours."""

    composition: Composition
    _cells: dict[tuple[int, int], "_EpsilonCell | None"] = field(default_factory=dict)

    def __reduce__(self) -> tuple[type["TabulatedProfile"], tuple[Composition]]:
        """A copy makes its laws again, which are large, where it needs them."""
        return TabulatedProfile, (self.composition,)

    @_QUIET
    def delta(self, epsilon: float) -> Interval:
        """An enclosure of δ(ε), ε ≥ 0."""
        composition = self.composition
        if epsilon >= largest_loss(composition):
            return delta_bounds(composition, epsilon)
        if self._added_up is not None:
            return self._by_sums(*self._added_up, epsilon)
        if self._cell_width is None:
            return delta_bounds(composition, epsilon)
        found, sure = Interval(0.0, 1.0), False
        for size in _SIZES:
            cell = self._cell(int(epsilon / self._cell_width), size)
            if cell is None:
                break
            below, above = cell.below.delta(epsilon), cell.above.delta(epsilon)
            found = enclosure(max(found.lower, below.lower), min(found.upper, above.upper))
            sure = max(below.relative_gap, above.relative_gap) < _UNSURE
            if found.relative_gap < _TIGHT * (1 + cell.saddle.point * epsilon):
                return found
        if sure:
            return found
        own = delta_bounds(composition, epsilon)
        return enclosure(max(found.lower, own.lower), min(found.upper, own.upper))

    @_QUIET
    def lowest_knot(self, fpr: float) -> float | None:
        """The ε ≥ 0 that proves the lowest ceiling, if the losses are few: the profile is a polygon in y =
        exp ε, whose knots are the losses, and so is the ceiling, on both sides of y = 1.
        """
        if self._added_up is None:
            return None
        pair = self._added_up[1]
        losses = np.unique(np.maximum(pair.law()[0], 0.0))
        delta = pair.delta(losses) + pair.infinity
        ahead = delta + np.exp(np.minimum(losses, 700.0)) * fpr
        back = 1 - np.exp(-losses) * (1 - delta - fpr)
        return float(losses[int(np.argmin(np.minimum(ahead, back)))])

    @cached_property
    def _added_up(self) -> tuple[FinitePair, FinitePair] | None:
        """The law of the summed loss from below and from above, if it has few values.

        One look at the data has its profile in closed form already.
        """
        if sum(count for _, count in self.composition.parts) < 2:
            return None
        above = add_up_losses(self.composition, above=True)
        below = add_up_losses(self.composition, above=False)
        return None if above is None or below is None else (below, above)

    def _by_sums(self, below: FinitePair, above: FinitePair, epsilon: float) -> Interval:
        """Each mass is a product of as many masses as there are looks; each loss is such a sum."""
        count = sum(count for _, count in self.composition.parts)
        largest = [
            count * float(np.abs(pair.law()[0]).max(initial=0.0))
            for pair, count in self.composition.parts
            if isinstance(pair, AtomicPair)
        ]
        unsure = _SUMS * sum(largest)
        apart = _MASSES + 64 * _EPS * count
        low = float(below.delta(np.array([epsilon + unsure]))[0]) + below.infinity
        high = float(above.delta(np.array([epsilon - unsure]))[0]) + above.infinity
        return enclosure(low * (1 - apart), min(high * (1 + apart), 1.0))

    @cached_property
    def _cell_width(self) -> float | None:
        """How many ε share one law on a grid; None where a contour or a closed form is better."""
        parts = self.composition.parts
        alone = sum(count for _, count in parts) < 2
        if alone or self.composition.is_many or any(pair.smooth for pair, _ in parts):
            return None
        spread = derivatives(self.composition, 1e-6)
        if spread is None or not 0 < spread.curvature < math.inf:
            return None
        return _CELL * math.sqrt(spread.curvature)

    def _cell(self, place: int, size: int) -> "_EpsilonCell | None":
        if (place, size) not in self._cells:
            self._cells[place, size] = self._make_cell(place, size)
        return self._cells[place, size]

    def _make_cell(self, place: int, size: int) -> "_EpsilonCell | None":
        """None where no law can be made for the left end of the cell."""
        assert self._cell_width is not None
        start, end = place * self._cell_width, (place + 1) * self._cell_width
        try:
            capped, saddle = capped_saddle(self.composition, start, None)
            below, above = laws_near(self.composition, capped, saddle, size)
        except OutOfReach:
            return None
        return _EpsilonCell(saddle, _ProfilePart.of(below, start, end), _ProfilePart.of(above, start, end))


@final
@dataclass(frozen=True, eq=False)
class _ProfilePart:
    """The profile of a law on a grid between two ε: its knots, and how steep it is right before each knot.

    Between two losses δ(ε) = δ(ℓ) + (1 − exp(ε − ℓ)) · S(ℓ), ℓ the next loss above ε and S(ℓ) = Σ_{k: ℓₖ ≥ ℓ}
    mₖ exp(ℓ − ℓₖ). All terms are positive, so nothing cancels.
    """

    start: float
    losses: Reals
    knots: Reals
    steep: Reals
    law: "_LawErrors"

    @staticmethod
    def of(law: Law, start: float, end: float) -> "_ProfilePart":
        """The part of a law's profile between ``start`` and ``end``."""
        ahead = law.losses > start
        losses, step = law.losses[ahead], float(law.losses[1] - law.losses[0])
        steep = exceed_sums(law.weights[ahead] * np.exp(-law.tilt * (losses - start)), step)
        knots = np.append(np.cumsum(steep[:0:-1])[::-1] * -math.expm1(-step), 0.0)
        kept = slice(0, int(np.searchsorted(losses, end, side="right")) + 1)
        # Two running sums over all losses, of at most this relative round-off.
        allowance = law.allowance + 2 * _EPS * losses.size
        errors = _LawErrors(law.tilt, law.level, law.infinity, law.slack, allowance)
        return _ProfilePart(start, losses[kept].copy(), knots[kept].copy(), steep[kept].copy(), errors)

    def delta(self, epsilon: float) -> Interval:
        """Bounds of the law's δ(ε), with round-off and wrap-around, as those of the law itself."""
        place, value, law = int(np.searchsorted(self.losses, epsilon, side="right")), 0.0, self.law
        if place < self.losses.size:
            value = float(self.knots[place])
            value -= math.expm1(epsilon - float(self.losses[place])) * float(self.steep[place])
        scale = math.exp(min(law.level - law.tilt * self.start, 700.0))
        slack = law.slack * math.exp(-law.tilt * (epsilon - self.start)) + law.allowance * abs(value)
        lower = law.infinity + max(scale * (value - slack), 0.0)
        return Interval(lower, min(law.infinity + scale * (value + slack), 1.0))


class _LawErrors(NamedTuple):
    """What a polygon keeps of its law."""

    tilt: float
    level: float
    infinity: float
    slack: float
    allowance: float


class _EpsilonCell(NamedTuple):
    """The ε of one cell: the saddle at its left end, and the profile from below and from above."""

    saddle: Saddle
    below: _ProfilePart
    above: _ProfilePart
