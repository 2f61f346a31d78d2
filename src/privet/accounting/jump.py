"""One far jump: δ(ε) where a single rare, large loss decides and no exponential tilt works.

If a unit is sampled rarely, the loss of a step has a tail that is heavier than exponential. δ is then about
the probability that one step out of T has a loss near ε while all others stay near 0. In the tilted transform
losses that are far larger and far rarer dominate, and round-off hides the result. So split a step's law on
the grid at some loss a into *near* N and *far* F. Then, exactly,

    δ(ε) = δ_{N^T}(ε) + T Σ_{ℓ ∈ F} F[ℓ] δ_{N^{T−1}}(ε − ℓ) + (two far jumps or more: at most (T F)²/2),

where a is chosen so that two far jumps are negligible. N has small losses only, so a strong tilt works.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.optimize import brentq

from privet.accounting.gridded import below, find_anchor, loss_range, polygon
from privet.accounting.lattice import Grid, Part, Table, sum_losses
from privet.accounting.pairs import Pair, Reals
from privet.bounds import Interval
from privet.errors import OutOfReach

__all__ = ["OneJump", "split_loss"]

_TWICE = 1e-7  # the largest share of δ for two far jumps
_FAR_KNOTS = 1 << 16


def split_loss(pair: Pair, count: int, delta: float) -> tuple[float, float, float]:
    """The loss a beyond which two jumps are negligible, the one beyond which one is, and P[L > a]."""
    mass = float(np.sqrt(2 * _TWICE * delta)) / count
    return _quantile(pair, mass), _quantile(pair, 1e-10 * delta / count), mass


def _quantile(pair: Pair, mass: float) -> float:
    """Where P[L > ℓ] = δ(ℓ) + exp(ℓ) Q[L > ℓ] falls to ``mass``."""

    def excess(loss: float) -> float:
        at = np.array([loss])
        value = pair.delta(at) + np.exp(loss) * pair.tail(at)
        return float(np.log(max(float(value[0]), 1e-300)) - np.log(mass))

    high = 1e-9
    while excess(high) > 0 and high < 600:
        high *= 2
    low = 0.0
    try:
        return float(brentq(excess, low, high, rtol=1e-6)) if excess(low) > 0 else 1e-9
    except ValueError:  # the quantile lies where exp(loss) overflows
        raise OutOfReach(
            "The loss of one step must stay within float64 at this δ, and does not. Ask at a larger δ, or "
            "at a larger rate."
        ) from None


@final
@dataclass(frozen=True, eq=False)
class OneJump:
    """The three parts of δ(ε) for ``count`` steps of one pair, all from above or all from below."""

    near: Table  # N^T, tilted
    rest: Table  # N^(T−1), tilted: for ε − ℓ ≥ 0
    bulk: Table  # N^(T−1), hardly tilted: for ε − ℓ < 0
    far_losses: Reals
    far_masses: Reals
    count: int
    more: float  # an upper bound on what two far jumps, or one beyond the grid, add

    @staticmethod
    def of(pair: Pair, count: int, grid: Grid, split: float, most: float, *, above: bool) -> "OneJump":
        """Make a grid that is fine up to the split and coarse beyond it."""
        anchor = find_anchor(pair, grid.step)
        low = np.floor((loss_range(pair, 1e-18)[0] - anchor) / grid.step) - 1
        fine = anchor + grid.step * np.arange(int(low), int(np.ceil((split - anchor) / grid.step)) + 2)
        stride = grid.step * max(1.0, np.ceil((most - fine[-1]) / grid.step / _FAR_KNOTS))
        coarse = fine[-1] + stride * np.arange(1, max(int(np.ceil((most - fine[-1]) / stride)), 1) + 2)
        losses = np.concatenate([fine, coarse])
        masses, beyond = polygon(pair, losses) if above else (below(pair, losses), 0.0)
        near, far = masses[: fine.size], masses[fine.size :]
        lost = float(far.sum()) + beyond
        part = Part(fine, near, 0.0, count)
        others = [part._replace(times=count - 1)]
        start = max(grid.start, (count - 1) * float(fine[0]))
        flat = Grid(grid.step, grid.size, start, min(1e-3, grid.tilt), -grid.tilt, grid.tilt)
        more = 0.5 * (count * lost) ** 2 + count * beyond if above else 0.0
        tables = (sum_losses([part], grid), sum_losses(others, grid), sum_losses(others, flat))
        near_table, rest, bulk = (law.table() for law in tables)
        return OneJump(near_table, rest, bulk, coarse, far, count, more)

    def delta(self, epsilon: float) -> Interval:
        """The three parts together; each end has its own slack."""
        left = epsilon - self.far_losses
        lower, upper = np.zeros_like(left), np.ones_like(left)
        lower[left < 0], upper[left < 0] = self.bulk.delta(left[left < 0])
        lower[left >= 0], upper[left >= 0] = self.rest.delta(left[left >= 0])
        near_lower, near_upper = self.near.delta(np.array([epsilon]))
        return Interval(
            float(near_lower[0]) + self.count * float(self.far_masses @ lower),
            float(near_upper[0]) + self.count * float(self.far_masses @ upper) + self.more,
        )

    def epsilon(self, delta: float, known: Interval, *, above: bool) -> float:
        """Where the upper (or lower) end crosses δ; ε is known to be in ``known``."""

        def excess(epsilon: float) -> float:
            bound = self.delta(epsilon)
            value = bound.upper if above else bound.lower
            return float(np.log(max(value, 1e-320)) - np.log(delta))

        low, high = max(known.lower, 1e-300), known.upper
        if not np.isfinite(high):
            high = max(low, 1e-12)
            while excess(high) > 0 and high < 1e12:
                high *= 4
        if excess(high) > 0:
            return float(known.upper if above else high)
        if excess(low) <= 0:
            return low if above and low > 1e-300 else (0.0 if not above else low)
        low, high = np.log(low), np.log(high)
        root = float(np.exp(brentq(lambda place: excess(np.exp(place)), low, high, xtol=1e-10, rtol=1e-10)))
        step = 4e-10 * root
        while (excess(root) > 0) == above:
            root += step if above else -step
            step *= 2
        return root
