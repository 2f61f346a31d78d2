"""The cumulant K(s) = Σ Tᵢ ln E[exp(s Lᵢ)] of a composition, on the real axis and along a vertical line."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from privet.accounting.families import Atoms, Exponentials, Family, Places, Real, Waves
from privet.accounting.gridded import coarse_nodes
from privet.accounting.mixtures import Mixtures
from privet.accounting.pairs import (
    AtomicPair,
    DiscreteGaussianPair,
    DiscreteLaplacePair,
    GaussianPair,
    LaplacePair,
    Pair,
    Reals,
)
from privet.accounting.sampled import SampledPair
from privet.accounting.tilted import DIGITS, Complexes, log1p, tilt_weights, turned_sums

__all__ = ["Composition", "Derivatives", "Line", "derivatives", "line", "moduli", "round_off"]

_LARGEST_RULE = 1e7  # multiplications that one line may cost
_FEW_STEPS = 3  # between the two ends of a discrete Laplace law, which are summed up
_UNIT = 4 * float(np.finfo(float).eps)  # in which the error of a line is counted
_MANY = 16  # different pairs from which on families answer for them


@final
@dataclass(frozen=True)
class Composition:
    """Pairs with how often each was used; all in one direction. ``parts`` is sorted and has no doubles."""

    parts: tuple[tuple[Pair, int], ...]

    @staticmethod
    def of(counts: Mapping[Pair, int]) -> "Composition":
        """The composition of these pairs; Gaussian pairs are one Gaussian pair together."""
        square = math.fsum(
            count * pair.mu**2 for pair, count in counts.items() if isinstance(pair, GaussianPair)
        )
        others = [(p, count) for p, count in counts.items() if not isinstance(p, GaussianPair)]
        others.sort(key=lambda part: (repr(part[0]), part[1]))
        gaussian = [(GaussianPair(math.sqrt(square)), 1)] if square > 0 else []
        return Composition((*gaussian, *others))

    @property
    def is_many(self) -> bool:
        """Whether there are so many different pairs that what is done for each of them one by one takes
        long.
        """
        return len(self.parts) > _MANY

    def swap(self) -> "Composition":
        """The other order of neighbours."""
        return self._swapped

    @cached_property
    def _swapped(self) -> "Composition":
        parts = tuple((pair.swap(), count) for pair, count in self.parts)
        alike = all(one is other for (one, _), (other, _) in zip(self.parts, parts, strict=True))
        return self if alike else Composition(parts)

    def cap(self, mass: float, edge: float = 0.15) -> "Composition":
        """Without the largest losses: at most ``mass`` of P in all moves to infinity."""
        share = mass / max(1, sum(count for _, count in self.parts))
        parts = tuple((pair.cap(share, edge), count) for pair, count in self.parts)
        alike = all(one is other for (one, _), (other, _) in zip(self.parts, parts, strict=True))
        return self if alike else Composition(parts)

    @cached_property
    def infinity(self) -> float:
        """The probability under P that any of the losses is +∞."""
        kept = sum(count * np.log1p(-pair.infinity) for pair, count in self.parts)
        return float(-np.expm1(kept)) + 0.0  # never −0

    @cached_property
    def sorted_out(self) -> tuple[float, tuple[Family, ...], tuple[tuple[Pair, int], ...]]:
        """Σμ² of the Gaussian pairs, the families of the others, and the pairs that belong to none."""
        square = 0.0
        kinds: dict[tuple[str, int], list[tuple[Pair, int]]] = {}
        single: list[tuple[Pair, int]] = []
        for pair, count in self.parts:
            if isinstance(pair, GaussianPair):
                square += count * pair.mu**2
            elif (kind := _kind(pair)) is not None:
                kinds.setdefault(kind, []).append((pair, count))
            else:
                single.append((pair, count))
        return square, tuple(_MAKERS[kind[0]](parts) for kind, parts in kinds.items()), tuple(single)


def _kind(pair: Pair) -> tuple[str, int] | None:
    """The family of a pair, with its number of losses in powers of two where they are summed up."""
    if isinstance(pair, LaplacePair) or (isinstance(pair, DiscreteLaplacePair) and pair.shift > _FEW_STEPS):
        return "exponentials", int(isinstance(pair, LaplacePair))
    if isinstance(pair, DiscreteGaussianPair) and pair.scale >= Waves.narrowest:
        return "waves", 0
    if isinstance(pair, AtomicPair) and pair.law()[0].size <= Atoms.most:
        return "atoms", pair.law()[0].size.bit_length()
    if Mixtures.is_one(pair):
        return ("mixtures", 0) if isinstance(pair, SampledPair) else ("swapped mixtures", 0)
    return None


_MAKERS: dict[str, Callable[[Sequence[tuple[Pair, int]]], Family]] = {
    "exponentials": Exponentials.of,
    "waves": Waves.of,
    "atoms": Atoms.of,
    "mixtures": lambda parts: Mixtures(parts, swapped=False),
    "swapped mixtures": lambda parts: Mixtures(parts, swapped=True),
}


class Derivatives(NamedTuple):
    """K and its first two derivatives at one real point."""

    value: float
    slope: float
    curvature: float


class Line(NamedTuple):
    """K(c + i k h) for some k, with a bound on its float64 error."""

    values: Complexes
    error: NDArray[np.float64]


def derivatives(composition: Composition, point: float) -> Derivatives | None:
    """K(c), K′(c), K″(c) for c > 0; None when a pair has no rule there."""
    total = np.zeros(3)
    parts = composition.parts
    if composition.is_many:
        square, families, parts = composition.sorted_out
        total += square * np.array([0.5 * point * (point + 1), point + 0.5, 1.0])
        for family in families:
            found = family.real(point)
            if found is None:
                return None
            table = np.stack([np.log1p(found.excess), found.mean, found.variance])
            total += table @ family.counts
    for pair, count in parts:
        if isinstance(pair, GaussianPair):
            square = pair.mu**2
            total += count * np.array([0.5 * square * point * (point + 1), square * (point + 0.5), square])
            continue
        rule = pair.nodes(point, 0.0, DIGITS + np.log(count)) or coarse_nodes(pair)
        weight, excess = tilt_weights(rule, point)
        moment = 1.0 + float(excess)
        if not 0 < moment < 1e300:
            return None
        mean = float(weight @ rule.losses) / moment
        square = float(weight @ (rule.losses - mean) ** 2) / moment
        total += count * np.array([np.log1p(float(excess)), mean, square])
    return Derivatives(*map(float, total)) if np.all(np.isfinite(total)) else None


def round_off(composition: Composition, point: float) -> float:
    """A bound on the float64 error of K(c), for many different pairs."""
    square, families, single = composition.sorted_out
    total = square * point * (point + 1) + sum(count for _, count in single)
    error = 16 * np.finfo(float).eps * total
    for family in families:
        found = family.real(point)
        if found is None:
            return np.inf
        each = found.error / (1 + found.excess) + 4 * np.finfo(float).eps * np.abs(np.log1p(found.excess))
        error += float(family.counts @ each)
    return float(error)


def line(composition: Composition, point: float, step: float, places: Places) -> Line | None:
    """K(c + i k h) for some k, best in a row; None when that would take too long.

    Where a factor is all round-off, its upper bound stands for it, with an error that covers every smaller
    value.
    """
    offsets = step * places
    if composition.is_many:
        found = _of_families(composition, point, step, places)
        if found is None:
            return None
        values, error, ceiling = found
        parts = composition.sorted_out[2]
    else:
        values, error = np.zeros(len(places), dtype=np.complex128), np.zeros(len(places))
        ceiling, parts = np.zeros(len(places)), composition.parts
    for pair, times in parts:
        if isinstance(pair, GaussianPair):
            s = point + 1j * offsets
            part = 0.5 * times * pair.mu**2 * s * (s + 1)
            values, error, ceiling = values + part, error + np.abs(part), ceiling + part.real
            continue
        rule = pair.nodes(point, float(offsets.max()) + step, DIGITS + np.log(times))
        if rule is None or rule.losses.size * len(places) > _LARGEST_RULE:
            return None
        weight, excess = tilt_weights(rule, point)
        moments = excess + turned_sums(weight, rule.losses, step, places)
        values += times * log1p(moments)
        size = np.maximum(np.abs(1.0 + moments), 1e-300)
        drift = float(weight @ np.abs(rule.losses))
        rough = drift * offsets + np.abs(moments) + 400 * abs(excess)
        error += times * rough / size
        ceiling += times * np.log(size + _UNIT * rough)
    lost = ~(error * _UNIT < 0.5)
    values[lost], error[lost] = ceiling[lost], 2 / _UNIT
    return Line(values, _UNIT * (error + 4.0))


def _of_families(
    composition: Composition, point: float, step: float, places: Places
) -> tuple[Complexes, Reals, Reals] | None:
    """K(c + ikh) of the Gaussian pairs and of those that have a family, its error in units of ``_UNIT``, and
    an upper bound of its real part.
    """
    square, families, _ = composition.sorted_out
    s = point + 1j * step * places
    values = 0.5 * square * s * (s + 1)
    error, ceiling = np.abs(values), values.real.copy()
    for family in families:
        for rows in family.rows(len(places)):
            found = family.along(point, step, places, rows)
            if found is None:
                return None
            moments, rough = found
            logs, counts = log1p(moments), family.counts[rows]
            values = values + counts @ logs
            size = np.maximum(np.abs(1.0 + moments), 1e-300)
            error = error + counts @ (rough / size / _UNIT + np.abs(logs))
            ceiling = ceiling + counts @ np.log(size + rough)
    return values, error, ceiling


def moduli(
    composition: Composition,
    point: float,
    step: float,
    places: Places,
    most: int,
    largest: Reals,
    small: float,
) -> Reals | None:
    """``largest`` times a bound on |exp(K(c + ikh) − K(c))|, for some k.

    The bound is that of ``most`` of the pairs at most, because no factor exceeds 1; and of fewer where these
    add up to ``small``. Half of them are those with the widest laws, the others are evenly spread, so that
    not all lie on one lattice.
    """
    square, families, _ = composition.sorted_out
    bound = largest * np.exp(np.maximum(-0.5 * square * (step * places) ** 2, -700.0))
    for family, row, real in _widest(families, point, most):
        if float(bound.sum()) < small:
            break
        found = family.along(point, step, places, slice(row, row + 1))
        if found is None:
            continue
        size = (np.abs(1.0 + found[0]) + found[1])[0] / (1 + real.excess[row] - real.error[row])
        count = float(family.counts[row])
        bound = bound * (np.minimum(size, 1.0) if count == 1 else np.minimum(size, 1.0) ** count)
    return np.asarray(bound)


def _widest(families: tuple[Family, ...], point: float, most: int) -> Iterator[tuple[Family, int, Real]]:
    found = [(family, family.real(point)) for family in families]
    table = [
        (float(spread), family, row, real)
        for family, real in found
        if real is not None
        for row, spread in enumerate(family.counts * real.variance)
    ]
    table.sort(key=lambda entry: -entry[0])
    wide, rest = table[: most // 2], table[most // 2 :]
    spread_out = rest[:: max(1, -(-len(rest) // (most - most // 2)))]
    for wider, other in zip_longest(wide, spread_out):
        for entry in (wider, other):
            if entry is not None:
                yield entry[1], entry[2], entry[3]
