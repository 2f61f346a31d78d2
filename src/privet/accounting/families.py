"""Many different pairs at once: their moments as arrays, one family of pairs in each.

A composition of thousands of different events has thousands of different pairs. What is asked of each of them is
M(s) = E_Q Λ^(1+s) at some points s = c + it. A family answers for all of its pairs together:

* ``Exponentials``  Laplace noise, real and discrete, in closed form;
* ``Waves``         discrete Gaussian noise, in closed form;
* ``Atoms``         pairs with few losses, which are summed up;
* ``Mixtures``      Gaussians on a Poisson sample, by quadrature (``mixtures.py``).

``family_of`` says which pair belongs where; the others have their own quadrature rule, one by one.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privet.accounting.pairs import DiscreteGaussianPair, DiscreteLaplacePair, LaplacePair, Nodes, Pair, Reals
from privet.accounting.tilted import Complexes, tilted, turned_sums

__all__ = ["Atoms", "Exponentials", "Family", "Real", "Stacked", "Waves"]

Places: TypeAlias = NDArray[np.int64]  # k of the points c + ikh

EPS = float(np.finfo(float).eps)
_LARGEST_EXPONENT = 690.0
_MOST_NUMBERS = 1 << 20  # that are held at once


class Real(NamedTuple):
    """On the real axis, one number for each pair: M(c) − 1 and its round-off, mean and variance of the tilted loss."""

    excess: Reals
    error: Reals
    mean: Reals
    variance: Reals


class Family(ABC):
    """Pairs of one kind, and how often each of them was used."""

    counts: Reals

    @abstractmethod
    def real(self, point: float) -> Real | None:
        """At s = c > 0; None where a moment is beyond float64."""

    @abstractmethod
    def along(self, point: float, step: float, places: Places, rows: slice) -> tuple[Complexes, Reals] | None:
        """M(c + ikh) − 1, a row for each of some pairs and a column for each k, and a bound of its round-off.

        None where that would take too long.
        """

    def log_fading(self, point: float, frequency: float) -> float:
        """ln of a bound on Π |M(c + it)/M(c)| over all pairs and uses, for every |t| at or above ``frequency``."""
        del point, frequency
        return 0.0

    def rows(self, columns: int) -> list[slice]:
        """The pairs in groups that fit into memory with this many columns."""
        size = max(1, _MOST_NUMBERS // (columns * self.numbers(columns)))
        return [slice(start, start + size) for start in range(0, len(self.counts), size)]

    def numbers(self, columns: int) -> int:
        """How many numbers one pair needs in memory for each column."""
        del columns
        return 2


@final
class Exponentials(Family):
    """Laplace noise: M = A exp(sε) + (1 − A) exp(−(s+1)ε).

    Real noise has A = (s+1)/(2s+1) (Mironov 2017, Proposition 6). Discrete noise of scale b has
    A = (1 − exp(−(2+2s)/b)) / ((1 + exp(−1/b)) (1 − exp(−(1+2s)/b))), because the masses of its inner losses are a geometric
    series; for b → ∞ this is that of real noise. On Re s > 0 neither |A| nor |1 − A| exceeds 1.
    """

    def __init__(self, epsilon: Reals, scale: Reals, counts: Reals) -> None:
        self.epsilon, self.scale, self.counts = epsilon, scale, counts

    @staticmethod
    def of(parts: Sequence[tuple[Pair, int]]) -> "Exponentials":
        """Laplace and discrete Laplace pairs."""
        rows = []
        for pair, count in parts:
            if isinstance(pair, LaplacePair):
                rows.append((pair.epsilon, np.inf, count))
            elif isinstance(pair, DiscreteLaplacePair):
                rows.append((pair.largest_loss, pair.scale, count))
        epsilon, scale, counts = np.array(rows, dtype=float).reshape(-1, 3).T
        return Exponentials(epsilon, scale, counts)

    def _shares(self, s: Complexes | Reals, scale: Reals) -> tuple[Reals, Reals]:
        """A and 1 − A, neither of them by a difference."""
        with np.errstate(divide="ignore", invalid="ignore"):
            below = (1 + np.exp(-1 / scale)) * np.expm1(-(1 + 2 * s) / scale)
            first = np.expm1(-(2 + 2 * s) / scale) / below
            second = np.exp(-1 / scale) * np.expm1(-2 * s / scale) / below
        smooth = (1 + np.abs(s)) / scale < 1e-200
        return np.where(smooth, (s + 1) / (2 * s + 1), first), np.where(smooth, s / (2 * s + 1), second)

    def real(self, point: float) -> Real | None:
        epsilon = self.epsilon
        if point * float(epsilon.max(initial=0.0)) > _LARGEST_EXPONENT:
            return None
        first, second = self._shares(np.asarray(point, dtype=float), self.scale)
        excess = first * np.expm1(point * epsilon) + second * np.expm1(-(point + 1) * epsilon)
        up, down = np.exp(point * epsilon), np.exp(-(point + 1) * epsilon)
        slope, bend = self._bends(point, first)
        moment = 1 + excess
        mean = (slope * (up - down) + epsilon * (first * up - second * down)) / moment
        square = (
            bend * (up - down) + 2 * slope * epsilon * (up + down) + epsilon**2 * (first * up + second * down)
        )
        return Real(excess, self._round_off(point, 0.0, slice(None)), mean, square / moment - mean**2)

    def _bends(self, point: float, share: Reals) -> tuple[Reals, Reals]:
        """The first two derivatives of A, to steer by."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            far, near = (1 / np.expm1((k + 2 * point) / self.scale) for k in (2, 1))
            slope = 2 / self.scale * (far - near)
            bend = slope**2 - (2 / self.scale) ** 2 * (far * (1 + far) - near * (1 + near))
        double = 2 * point + 1
        smooth = (1 + point) / self.scale < 1e-7
        slope = np.where(smooth, -(double**-2.0), share * slope)
        return slope, np.where(smooth, 4 * double**-3.0, share * bend)

    def _round_off(self, point: float, offset: Reals | float, rows: slice) -> Reals:
        """|exp z − 1| ≤ |z| exp(Re z)₊, and each factor is right to a few units in the last place."""
        epsilon = self.epsilon[rows]
        if np.ndim(offset):
            epsilon = epsilon[:, None]
        turns = np.exp(point * epsilon) * np.hypot(point, offset) + np.hypot(point + 1, offset)
        return np.asarray(32 * EPS * epsilon * turns)

    def along(self, point: float, step: float, places: Places, rows: slice) -> tuple[Complexes, Reals]:
        s = point + 1j * step * places
        epsilon, scale = self.epsilon[rows, None], self.scale[rows, None]
        if np.isinf(scale).all():
            first, second = (s + 1) / (2 * s + 1), s / (2 * s + 1)
        else:
            first, second = self._shares(s, scale)
        turned = np.exp(s.imag * epsilon * 1j)
        # exp z − 1 by its real and imaginary parts would need four more functions; the error has room for this.
        up, down = np.exp(point * epsilon) * turned, np.exp(-(point + 1) * epsilon) * turned.conj()
        moments = first * (up - 1) + second * (down - 1)
        return moments, self._round_off(point, s.imag, rows) + 8 * EPS * (2 + np.exp(point * epsilon))


@final
class Waves(Family):
    """Discrete Gaussians N_ℤ(Δ, σ²) against N_ℤ(0, σ²), σ ≥ 1.

    Tilted by c the law is that of exp(−(x − b)²/2σ²), b = (1 + c) Δ, on whole numbers. By Poisson summation, with θ = tΔ/σ²,

        M(c) = exp(c (c+1) μ²/2) D(b)/D(0),    D(b) = Σₖ exp(−2π²σ²k² − 2πikb),
        M(c + it) = M(c) exp(it μ² (c + ½)) Σₖ exp(−2πikb − σ²(θ − 2πk)²/2) / D(b).

    Of each sum the largest term and its two neighbours are taken; the next one is below exp(−8π²σ²) of it.
    """

    narrowest = 1.0

    def __init__(self, scale: Reals, shift: Reals, counts: Reals) -> None:
        self.scale, self.shift, self.counts = scale, shift, counts
        self.square = (shift / scale) ** 2
        self.ripple = np.exp(-2 * np.pi**2 * scale**2)

    @staticmethod
    def of(parts: Sequence[tuple[Pair, int]]) -> "Waves":
        """Discrete Gaussian pairs."""
        rows = [(p.scale, p.shift, count) for p, count in parts if isinstance(p, DiscreteGaussianPair)]
        return Waves(*np.array(rows, dtype=float).reshape(-1, 3).T)

    def _level(self, point: float, rows: slice) -> tuple[Reals, Reals]:
        """ln M(c), and 2 exp(−2π²σ²) cos 2πb."""
        ripple = self.ripple[rows]
        wave = 2 * ripple * np.cos(2 * np.pi * ((1 + point) * self.shift[rows] % 1))
        return 0.5 * point * (point + 1) * self.square[rows] + np.log1p(
            (wave - 2 * ripple) / (1 + 2 * ripple)
        ), wave

    def _unsure(self, point: float) -> Reals:
        """Round-off of b modulo 1, of which the ripple is a multiple."""
        return np.asarray(4 * self.ripple * np.minimum(1.0, 8 * EPS * (1 + point) * self.shift))

    def real(self, point: float) -> Real | None:
        level, _ = self._level(point, slice(None))
        if float(level.max(initial=0.0)) > _LARGEST_EXPONENT:
            return None
        error = np.exp(level) * (8 * EPS * level + self._unsure(point) + 1e-33)
        return Real(np.expm1(level), error, (point + 0.5) * self.square, self.square)

    def along(self, point: float, step: float, places: Places, rows: slice) -> tuple[Complexes, Reals]:
        level, wave = self._level(point, rows)
        square, scale = self.square[rows, None], self.scale[rows, None]
        centre = ((1 + point) * self.shift[rows, None]) % 1
        offset = step * places
        angle = offset * self.shift[rows, None] / scale**2
        turns = np.round(angle / (2 * np.pi))
        left = angle - 2 * np.pi * turns
        phase = offset * square * (point + 0.5) - 2 * np.pi * turns * centre
        main = -0.5 * (scale * left) ** 2 + 1j * phase
        sides = sum(
            np.exp(-(scale**2) * 2 * np.pi * (np.pi - side * left) - 2j * np.pi * side * centre)
            for side in (-1, 1)
        )
        below = 1 + wave[:, None]
        turned = np.expm1(main) * (1 + sides) / below + (sides - wave[:, None]) / below
        moment = np.exp(level)[:, None]
        moments = np.expm1(level)[:, None] * (1 + turned) + turned
        far = EPS * (1 + point) * self.shift[rows, None] * np.abs(turns)  # of 2πkb
        rough = np.abs(main) * (1 + np.abs(np.expm1(main.real))) + np.abs(turned) + level[:, None]
        error = moment * (
            16 * EPS * (rough + 1e-2) + 40 * far * np.exp(main.real) + self._unsure(point)[rows, None]
        )
        return moments, error


class Stacked(Family):
    """Pairs that have quadrature rules of one length, a row for each."""

    def __init__(self, counts: Reals) -> None:
        self.counts = counts

    @abstractmethod
    def rule(self, point: float, frequency: float, rows: slice) -> Nodes | None:
        """A rule for each pair, good for s = c + it with |t| up to ``frequency``; None where that would be too long."""

    def real(self, point: float) -> Real | None:
        found: list[Real] = []
        for rows in self.rows(1):
            rule = self.rule(point, 0.0, rows)
            part = None if rule is None else self._real(rule, point)
            if part is None:
                return None
            found.append(part)
        return Real(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

    def _real(self, rule: Nodes, point: float) -> Real | None:
        weight, excess = tilted(rule, point)
        moment = 1.0 + excess
        if not (np.all(moment > 0) and np.all(moment < 1e300)):
            return None
        mean = (weight * rule.losses).sum(axis=1) / moment
        square = (weight * (rule.losses - mean[:, None]) ** 2).sum(axis=1) / moment
        return Real(excess, 1600 * EPS * np.abs(excess), mean, square)

    def along(self, point: float, step: float, places: Places, rows: slice) -> tuple[Complexes, Reals] | None:
        rule = self.rule(point, step * float(places.max()), rows)
        if rule is None:
            return None
        weight, excess = tilted(rule, point)
        turned = turned_sums(weight, rule.losses, step, places)
        moments = excess[:, None] + turned
        drift = (weight * np.abs(rule.losses)).sum(axis=1)[:, None]
        error = 4 * EPS * (drift * (step * places) + np.abs(moments) + 400 * np.abs(excess)[:, None])
        return moments, error


@final
class Atoms(Stacked):
    """Pairs with few losses, filled up to one length with losses of no mass."""

    most = 96

    def __init__(self, rule: Nodes, counts: Reals) -> None:
        super().__init__(counts)
        self._rule = rule

    @staticmethod
    def of(parts: Sequence[tuple[Pair, int]]) -> "Atoms":
        """Atomic pairs; their rules do not depend on the tilt."""
        rules = [pair.nodes(1.0, 0.0, 46.0) for pair, _ in parts]
        assert all(rule is not None for rule in rules)
        length = max(rule.losses.size for rule in rules if rule is not None)
        log_weights, losses = np.full((len(rules), length), -np.inf), np.zeros((len(rules), length))
        for row, rule in enumerate(rules):
            assert rule is not None
            log_weights[row, : rule.losses.size] = rule.log_weights
            losses[row, : rule.losses.size] = rule.losses
        missing = np.array([(rule.missing_q, rule.missing_p) for rule in rules if rule is not None])
        counts = np.array([count for _, count in parts], dtype=float)
        return Atoms(Nodes(log_weights, losses, missing[:, 0], missing[:, 1]), counts)  # type: ignore[arg-type]

    def numbers(self, columns: int) -> int:
        return 2 + int(self._rule.losses.shape[1])

    def rule(self, point: float, frequency: float, rows: slice) -> Nodes:
        del point, frequency
        return Nodes(*(np.asarray(part)[rows] for part in self._rule))  # type: ignore[arg-type]
