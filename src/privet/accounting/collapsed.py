"""A whole composition as one pair. Theorems about sampling and about disjoint parts need one pair."""

import math
from typing import NamedTuple

import numpy as np

from privet.accounting.cumulant import Composition, derivatives
from privet.accounting.gridded import below, loss_range, polygon
from privet.accounting.lattice import Grid, Part, sum_losses
from privet.accounting.pairs import AtomicPair, DiscreteLaplacePair, FinitePair, Pair, Reals

__all__ = ["LossAtoms", "add_up_losses", "as_pair", "to_atoms"]

_ATOMS = 1 << 13
_FAR = 34.0
_NEGLIGIBLE = 1e-18  # part of a profile that may be beyond the grid
_ROUND_OFF = 1e-15
_FEW = 1 << 16  # sums of two losses that are written out
_SAME = 1e-12  # losses that differ by less, relative to 1 + loss, are one loss


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def as_pair(composition: Composition, *, above: bool) -> Pair:
    """One pair that dominates the composition, or that it dominates.

    If there are few losses, they are added up one by one. Otherwise the distribution of the summed loss is
    computed on a grid, twice: P's masses where the loss is positive, and Q's masses where it is negative,
    because there P's masses times exp(−loss) would be round-off. The grid leaves out at most about 1e-13 of P
    and of Q. This part counts as an infinite loss in either order (above), or becomes one more outcome
    (below), which is post-processing and never raises a loss.
    """
    if not composition.parts:
        return FinitePair((0.0,), (1.0,))
    if len(composition.parts) == 1 and composition.parts[0][1] == 1:
        return composition.parts[0][0]
    return add_up_losses(composition, above=above) or _on_grid(composition, above=above)


def add_up_losses(composition: Composition, *, above: bool) -> FinitePair | None:
    """The distribution of the summed loss, if it has few values; None if it has many."""
    losses, masses = np.zeros(1), np.ones(1)
    for pair, count in composition.parts:
        if not isinstance(pair, FinitePair | DiscreteLaplacePair):
            return None
        left, (power, power_masses) = count, pair.law()
        while left and losses.size * power.size <= _FEW:
            if left % 2:
                losses, masses = _merge_losses(losses, masses, power, power_masses, above=above)
            left //= 2
            if left:
                if power.size**2 > _FEW:
                    return None
                power, power_masses = _merge_losses(power, power_masses, power, power_masses, above=above)
        if left:
            return None
    lost, lost_q = composition.infinity, composition.swap().infinity
    return FinitePair(tuple(losses.tolist()), tuple(masses.tolist()), lost, lost_q)


def _merge_losses(
    first: Reals, first_masses: Reals, second: Reals, second_masses: Reals, *, above: bool
) -> tuple[Reals, Reals]:
    """The distribution of a sum of two losses. Losses that differ only by round-off are merged into the
    larger (above) or the smaller (below).
    """
    losses = np.add.outer(first, second).ravel()
    masses = np.multiply.outer(first_masses, second_masses).ravel()
    order = np.argsort(losses)
    losses, masses = losses[order], masses[order]
    starts = np.flatnonzero(np.diff(losses, prepend=-np.inf) > _SAME * (1 + np.abs(losses)))
    ends = np.append(starts[1:], losses.size) - 1
    return losses[ends if above else starts], np.add.reduceat(masses, starts)


def _on_grid(composition: Composition, *, above: bool) -> FinitePair:
    swapped = composition.swap()
    (end, ahead), (start, behind) = _far(composition), _far(swapped)
    step = _landing(composition, (start + end) / (_ATOMS - 2))
    sides = [(_two_sided(pair, step, above=above), count) for pair, count in composition.parts]
    # Chernoff's bounds at these tilts say how much of P and of Q is outside of the window.
    held_p = sum_losses(
        [Part(side.losses, side.p, side.lost_p, count) for side, count in sides],
        Grid(step, _ATOMS, -start, 0.0, -1 - behind, ahead),
    )
    held_q = sum_losses(
        [Part(side.losses, side.q, side.lost_q, count) for side, count in sides],
        Grid(step, _ATOMS, -start, 0.0, -behind, 1 + ahead),
    )
    seen_p, seen_q = (
        np.maximum(law.weights - law.noise, 0.0) * np.exp(law.level) for law in (held_p, held_q)
    )
    losses = held_p.losses
    p = np.where(losses >= 0, seen_p, seen_q * np.exp(np.minimum(losses, 0.0)))
    q = np.where(losses >= 0, seen_p * np.exp(-np.maximum(losses, 0.0)), seen_q)
    unseen_p, unseen_q = (max(1.0 - math.fsum(law), 0.0) + _ROUND_OFF for law in (p, q))
    kept = (p > 0) & (q > 0)
    losses, p = losses[kept], p[kept]
    if above:
        lost = max(unseen_p, held_p.infinity) + held_p.stray
        lost_q = max(unseen_q, held_q.infinity) + held_q.stray
    else:
        lost, lost_q = held_p.infinity, held_q.infinity
        rest_p, rest_q = max(unseen_p - lost, _ROUND_OFF), max(unseen_q - lost_q, _ROUND_OFF)
        losses, p = np.append(losses, np.log(rest_p / rest_q)), np.append(p, rest_p)
    return FinitePair(tuple(losses.tolist()), tuple(p.tolist()), min(lost, 1.0), min(lost_q, 1.0))


@np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore")
def to_atoms(pair: Pair) -> "LossAtoms":
    """A pair with finitely many losses, in rising order, that this one dominates; itself if it has them."""
    if not isinstance(pair, AtomicPair):
        low, high = loss_range(pair, _NEGLIGIBLE)
        return _two_sided(pair, (high - low) / _ATOMS, above=False)
    losses, masses = pair.law()
    return LossAtoms(losses, masses, masses * np.exp(-losses), pair.infinity, pair.unmet)


class LossAtoms(NamedTuple):
    """One pair's law on a grid through 0: P's and Q's masses, and what is at an infinite loss in either
    order.
    """

    losses: Reals
    p: Reals
    q: Reals
    lost_p: float
    lost_q: float


def _two_sided(pair: Pair, step: float, *, above: bool) -> LossAtoms:
    """The pair's law, from above or from below: P's masses at losses above 0, and Q's below 0, by the swapped
    pair.

    Both profiles of a polygon with a knot at y = 1 are polygons, and each is known without cancellation on
    its own side. The rest of P equals the rest of Q, and stays at the loss 0.
    """
    up, lost_p = _one_side(pair, step, above=above)
    down, lost_q = _one_side(pair.swap(), step, above=above)
    if not above:
        up, down, lost_p, lost_q = _scale_down(up, down, lost_p, lost_q, step)
    losses = step * np.arange(-down.size, up.size + 1)
    fallen = np.exp(-np.abs(losses))
    down = down[::-1]
    p = np.concatenate([down * fallen[: down.size], [0.0], up])
    q = np.concatenate([down, [0.0], up * fallen[down.size + 1 :]])
    left_p, left_q = (max(1.0 - lost - math.fsum(law), 0.0) for lost, law in ((lost_p, p), (lost_q, q)))
    p[down.size] = q[down.size] = same = min(left_p, left_q)
    if above:  # a difference by round-off counts as an infinite loss
        lost_p, lost_q = lost_p + left_p - same, lost_q + left_q - same
    return LossAtoms(losses, p, q, lost_p, lost_q)


def _scale_down(
    up: Reals, down: Reals, lost_p: float, lost_q: float, step: float
) -> tuple[Reals, Reals, float, float]:
    """Both sides from below, scaled so that they form one pair. Smaller masses show less.

    The side with the larger δ(0) is scaled down to the δ(0) of the other one. Losses that were rounded
    towards 0 need more mass for the same δ(0). If the total exceeds 1, everything is scaled down.
    """
    height, other = (float(side @ -np.expm1(-step * np.arange(1, side.size + 1))) for side in (up, down))
    least = min(height + lost_p, other + lost_q)
    up = up * ((least - lost_p) / height) if height > 0 else up
    down = down * ((least - lost_q) / other) if other > 0 else down
    total = math.fsum(up) + math.fsum(down) - (least - lost_q) + lost_p  # P's mass, and Q's
    return (
        (up / total, down / total, lost_p / total, lost_q / total)
        if total > 1
        else (up, down, lost_p, lost_q)
    )


def _one_side(pair: Pair, step: float, *, above: bool) -> tuple[Reals, float]:
    """P's masses at the losses step, 2·step, …, and at an infinite loss."""
    _, high = loss_range(pair, _NEGLIGIBLE)
    losses = step * np.arange(max(int(np.ceil(high / step - 1e-9)), 0) + 2)
    if not above:
        return below(pair, losses)[1:], pair.infinity
    masses, beyond = polygon(pair, losses)
    return np.maximum(masses[1:], 0.0), pair.infinity + beyond


def _landing(composition: Composition, step: float) -> float:
    """The step, or a larger one whose grid contains the smallest of the pairs' largest losses, which rounding
    would change most.
    """
    bounds = [pair.largest_loss for pair, _ in composition.parts]
    least = min((bound for bound in bounds if bound is not None and bound >= step), default=None)
    return step if least is None else float(least / np.floor(least / step))


def _far(composition: Composition) -> tuple[float, float]:
    """A loss that P exceeds with probability at most exp(−34), by moments, and the order of that moment."""
    ahead = [(float(c), derivatives(composition, float(c))) for c in np.geomspace(0.05, 200.0, 24)]
    loss, order = min(((k.value + _FAR) / c, c) for c, k in ahead if k is not None)
    return max(loss, 1e-6), order
