"""Many Gaussians on Poisson samples at once: the rules of ``sampled.py`` for all of them, a row for each."""

from collections.abc import Sequence
from itertools import product
from typing import final

import numpy as np
from scipy.special import expit, log_ndtr

from privet.accounting.fading import CLEAR, LEVELS, RISES, ROUND_OFF
from privet.accounting.families import Stacked
from privet.accounting.pairs import GaussianPair, Nodes, Pair, Reals
from privet.accounting.sampled import SampledPair, SampledSwapped
from privet.accounting.tilted import DIGITS, Complexes, log1p

__all__ = ["Mixtures"]

_MOST_NODES = 1 << 14  # of one rule
_ON_PATH = (200, 4000)  # points


@final
class Mixtures(Stacked):
    """(1 − q) N(0, 1) + q N(μ, 1) against N(0, 1), or the other way round where ``swapped``.

    Rows are sorted by μ, so that rules that are held together have similar lengths. What a rule has too much
    reaches further out, where the weights are negligible.
    """

    def __init__(self, parts: Sequence[tuple[Pair, int]], *, swapped: bool) -> None:
        rows = []
        for pair, count in parts:
            assert isinstance(pair, SampledPair | SampledSwapped)
            assert isinstance(pair.base, GaussianPair)
            cut = pair.cut if isinstance(pair, SampledPair) else None
            missing_p, missing_q = pair.infinity, 0.0 if cut is None else cut.beyond()
            place, edge = (np.inf, 1.0) if cut is None else cut
            rows.append((pair.base.mu, pair.rate, place, edge, missing_q, missing_p, count))
        table = np.array(sorted(rows)).T
        self._mu, self._rate, self._place, self._edge, self._missing_q, self._missing_p, counts = table
        self._swapped = swapped
        self._digits = DIGITS + float(np.log(counts.max()))
        super().__init__(counts)

    @staticmethod
    def is_one(pair: Pair) -> bool:
        """Whether the pair belongs here."""
        return (
            isinstance(pair, SampledPair | SampledSwapped)
            and isinstance(pair.base, GaussianPair)
            and pair.rate < 1
        )

    def numbers(self, columns: int) -> int:
        return 2 + 400 // columns + 2 * 400 // max(int(columns**0.5), 1)

    def rule(self, point: float, frequency: float, rows: slice) -> Nodes | None:
        power = -point if self._swapped else point + 1
        low, high = self._support(power, rows)
        step = self._step(power, frequency, high, rows)
        count = float(np.ceil(((high - low) / step).max())) + 1
        if not count <= _MOST_NODES:
            return None
        z = low[:, None] + step[:, None] * np.arange(count)
        mu = self._mu[rows, None]
        log_weights = -0.5 * z * z + np.log(step / np.sqrt(2 * np.pi))[:, None] + self._kept(z, rows)
        losses = _mixed(mu * (z - 0.5 * mu), self._rate[rows, None])
        missing_q, missing_p = self._missing_q[rows], self._missing_p[rows]
        if self._swapped:
            return Nodes(log_weights + losses, -losses, missing_p, missing_q)
        return Nodes(log_weights, losses, missing_q, missing_p)

    @np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
    def log_fading(self, point: float, frequency: float) -> float:
        """By the shifted path of ``fading.py``: that of a group is the best one of a pair in its middle."""
        power, total = -point if self._swapped else point + 1, 0.0
        for rows in self.rows(1):
            low, high = self._support(power, rows)
            points = ((high - low) * (8 + 4 * self._mu[rows])).max()  # a share changes over a length of 1/μ
            x = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, int(np.clip(points, *_ON_PATH)))
            middle = len(x) // 2
            share = expit(self._mu[rows, None] * (x - 0.5 * self._mu[rows, None]) + self._odds(rows))
            found = [
                (self._faded(x, share, power, frequency, path, rows, slice(middle, middle + 1))[0], path)
                for path in product(RISES, LEVELS)
            ]
            best = min(found)[1]
            faded = self._faded(x, share, power, frequency, best, rows, slice(None))
            total += float(self.counts[rows] @ faded)
        return total

    def _odds(self, rows: slice) -> Reals:
        rate = self._rate[rows, None]
        return np.asarray(np.log(rate) - np.log1p(-rate))

    def _faded(
        self,
        x: Reals,
        share: Reals,
        power: float,
        frequency: float,
        path: tuple[float, float],
        rows: slice,
        some: slice,
    ) -> Reals:
        """ln of the bound of some pairs, by the path a = b share/(share + λ)."""
        x, share = x[some], share[some]
        mu, rate = self._mu[rows][some, None], self._rate[rows][some, None]
        rise, level = np.minimum(path[0], CLEAR * np.pi / mu), path[1]
        height = rise * share / (share + level)
        slope = rise * level * mu * share * (1 - share) / (share + level) ** 2
        z = x + 1j * height
        loss = _analytic_loss(mu * (z - 0.5 * mu), rate)
        place, edge = self._place[rows][some, None], self._edge[rows][some, None]
        cut = np.where(np.isinf(place), 0.0, log_ndtr((place - x) / edge))
        flat = -0.5 * x * x + power * _mixed(mu * (x - 0.5 * mu), rate) + cut
        moved = (
            (-0.5 * z * z + power * loss).real
            + cut
            + np.where(np.isinf(place), 0.0, 0.5 * (height / edge) ** 2)
        )
        top = flat.max(axis=1, keepdims=True)
        held = (np.exp(moved - top - frequency * loss.imag) * np.hypot(1.0, slope)).sum(axis=1)
        bound = np.log(held / np.exp(flat - top).sum(axis=1)) + ROUND_OFF
        valid = np.all(loss.imag >= 0, axis=1) & np.isfinite(bound)
        return np.where(valid, np.minimum(bound, 0.0), 0.0)

    def _kept(self, z: Reals, rows: slice) -> Reals:
        place = self._place[rows, None]
        return np.where(np.isinf(place), 0.0, log_ndtr((place - z) / self._edge[rows, None]))

    def _step(self, power: float, frequency: float, high: Reals, rows: slice) -> Reals:
        """As ``sampled._step``, with the slope of the loss at the far end."""
        mu, rate = self._mu[rows], self._rate[rows]
        loss = mu * (high - 0.5 * mu)
        share = np.exp(np.log(rate) + loss - _mixed(loss, rate))
        slope = np.minimum(mu, 2 * mu * share)
        strip = (0.9 if power >= 0 else 0.5) * np.pi / mu
        spread = np.ones_like(mu) if power >= 0 else 1 - 0.3 * power * mu**2
        spread = spread + np.where(
            np.isinf(self._place[rows]), 0.0, np.maximum(self._edge[rows], 0.03) ** -2.0
        )
        free = np.sqrt(2 * self._digits / spread)
        room = np.where(free <= strip, free * spread, self._digits / strip + 0.5 * spread * strip)
        return np.asarray(2 * np.pi / (slope * frequency + room))

    def _support(self, power: float, rows: slice) -> tuple[Reals, Reals]:
        """As ``sampled._support``: where φ(z) Λ(z)^power matters, and all of P and Q."""
        mu, rate = self._mu[rows, None], self._rate[rows, None]
        reach, far = np.sqrt(2 * self._digits), abs(power) * mu
        spread = np.sinh(np.linspace(0.0, 1.0, 64) * np.arcsinh(far + reach))
        near = np.linspace(-2 * reach, 2 * reach, 33) + np.zeros_like(mu)
        z = np.sort(np.concatenate([near, np.copysign(spread, power), power * mu + near], axis=1), axis=1)
        height = -0.5 * z * z + power * _mixed(mu * (z - 0.5 * mu), rate) + self._kept(z, rows)
        height = np.nan_to_num(height, nan=-np.inf)
        kept = height >= height.max(axis=1, keepdims=True) - self._digits
        first = np.maximum(kept.argmax(axis=1) - 1, 0)
        last = np.minimum(z.shape[1] - kept[:, ::-1].argmax(axis=1), z.shape[1] - 1)
        index = np.arange(len(z))
        return np.minimum(z[index, first], -reach), np.maximum(z[index, last], mu[:, 0] + reach)


def _analytic_loss(inner: Complexes, rate: Reals) -> Complexes:
    """ln(1 − q + q exp u) for complex u."""
    large = inner.real > 0
    small = log1p(rate * np.expm1(np.where(large, 0.0, inner)))
    far = inner + np.log(rate + (1 - rate) * np.exp(-np.where(large, inner, 0.0)))
    return np.where(large, far, small)


def _mixed(loss: Reals, rate: Reals) -> Reals:
    """ln(1 − q + q exp ℓ) without loss of digits at either end."""
    even = -np.log(rate)  # where q exp ℓ = 1
    small = np.log1p(rate * np.expm1(np.minimum(loss, even)))
    large = loss - even + np.log1p((1 - rate) * np.exp(even - np.maximum(loss, even)))
    return np.asarray(np.where(loss > even, large, small))
