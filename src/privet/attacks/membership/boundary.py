"""The distance to the decision boundary, by labels alone: HopSkipJump, for all records at once.

A point on the other side of the boundary is found among known records, and the boundary on the way there by bisection.
Then, again and again: random probes about the point on the boundary tell which way the boundary faces; a step is taken
along it; bisection leads back to the boundary, nearer to the record.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.label_only import LABELS
from privet.errors import InvalidArgument
from privet.randomness import experiment
from privet.scores import Bits, Records
from privet.views import LabelOnly, Labels, Numbers

__all__ = ["BoundaryDistance"]

_STARTS = 2000  # records among which a point on the other side is looked for
_AT_ONCE = 2**22  # numbers of probes asked at a time


@final
@dataclass(frozen=True)
class BoundaryDistance(Attack[LabelOnly]):
    """The ℓ₂ distance to the nearest point found that is predicted otherwise; members are further inside.

    *Adversary*: sees the predicted class; knows the record and its label; wants its membership. Asks about
    15 + rounds × (probes + 20) times for each record, and a little more where it has many numbers.

    A record that is predicted wrong has minus its distance to where it would be right, so that scores are continuous on both
    sides. Where no point on the other side is known (a model with one answer for all), the distance is twice the largest
    that was found.

    *Reference*: Choquette-Choo et al. 2021 (decision boundary distance), with HopSkipJump (Chen et al. 2020, algorithm 2). Deviations:
    the start is the nearest known record on the other side, not a random image; probes are the same directions for all records;
    wrong predictions have a negative distance, which the paper sets to 0. ``bounds`` are what a number of the record can be.
    """

    rounds: int = 5
    probes: int = 100
    bounds: Sequence[float] | None = None
    seed: int = 0

    name = "label-only, boundary"
    sees = LabelOnly
    adversary = LABELS

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, least=0)
        whole("probes", self.probes)
        whole("seed", self.seed, least=0)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", tuple(self.bounds))
        if self.bounds is not None and (len(self.bounds) != 2 or not self.bounds[0] < self.bounds[1]):
            raise InvalidArgument(
                f"'bounds' must be a lower and a higher number, got {self.bounds!r}. Give (0.0, 1.0), or None."
            )

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        generator = experiment(self.seed)
        search = _BoundarySearch(view, records.inputs.shape[1:], records.known_labels, self.bounds)
        origin = np.asarray(records.inputs, dtype=np.float64).reshape(len(records), -1)
        answers = view.labels(records.inputs)
        right = answers == records.known_labels
        edge, found = _starts(origin, answers, records.known_labels, _known(records))
        search = search.among(found)
        origin_, right_ = origin[found], right[found]
        edge = search.bisect(origin_, edge[found], right_)
        for step in range(1, self.rounds + 1):
            if not found.any():
                break
            edge = search.hop(origin_, edge, right_, step, self.probes, generator)
        distance = np.full(len(records), np.nan)
        distance[found] = np.sqrt(((edge - origin_) ** 2).sum(axis=1))
        furthest = float(np.max(distance, where=found, initial=0.0))
        distance[~found] = 2 * furthest if furthest > 0 else 1.0
        answer: Numbers = np.where(right, distance, -distance)
        return answer


@final
@dataclass(frozen=True, eq=False)
class _BoundarySearch:
    """Which side of its own boundary a point is on, for many records at once; points are rows of flat numbers."""

    view: LabelOnly
    shape: tuple[int, ...]
    labels: Labels
    bounds: Sequence[float] | None

    def among(self, which: Bits) -> "_BoundarySearch":
        return _BoundarySearch(self.view, self.shape, self.labels[which], self.bounds)

    def right(self, points: Numbers, labels: Labels) -> Bits:
        """Whether each point is predicted as its record's true label."""
        step = max(1, _AT_ONCE // max(1, points.shape[1]))
        found = [
            self.view.labels(points[start : start + step].reshape(-1, *self.shape))
            for start in range(0, len(points), step)
        ]
        return np.asarray(np.concatenate(found) == labels) if found else np.zeros(0, dtype=np.bool_)

    def bisect(self, near: Numbers, far: Numbers, side: Bits) -> Numbers:
        """The nearest point found on the way from ``near`` to ``far`` that is on the other side of ``side``."""
        low, high = np.zeros(len(near)), np.ones(len(near))
        # Nearer to the boundary than the probes reach (Chen et al. 2020: d^−3/2 of the way), else all of them agree.
        for _ in range(max(12, math.ceil(1.5 * math.log2(near.shape[1])) + 1)):
            middle = (low + high) / 2
            crossed = self.right(near + middle[:, None] * (far - near), self.labels) != side
            low, high = np.where(crossed, low, middle), np.where(crossed, middle, high)
        return near + high[:, None] * (far - near)

    def hop(
        self,
        origin: Numbers,
        edge: Numbers,
        side: Bits,
        step: int,
        probes: int,
        generator: np.random.Generator,
    ) -> Numbers:
        """One round: which way the boundary faces at ``edge``, a step along it, and back to the boundary."""
        dimension = origin.shape[1]
        distance = np.sqrt(((edge - origin) ** 2).sum(axis=1))
        # Chen et al. 2020: the probes' radius δ = distance/√d · (about) 1/√d; the first step is as far as distance/√step.
        radius = np.maximum(distance / dimension, 1e-12)
        directions = generator.normal(size=(probes, dimension))
        directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
        total, votes = np.zeros_like(origin), np.zeros(len(origin))
        for direction in directions:
            moved = self._inside(edge + radius[:, None] * direction)
            vote = np.where(self.right(moved, self.labels) != side, 1.0, -1.0)
            total += vote[:, None] * direction
            votes += vote
        # The mean vote is taken off, which reduces the variance (Chen et al. 2020): probes that all agree tell nothing of the direction.
        facing = total - (votes / probes)[:, None] * directions.sum(axis=0)
        facing = np.where(np.abs(votes)[:, None] == probes, total, facing)
        length = np.sqrt((facing**2).sum(axis=1, keepdims=True))
        facing = facing / np.where(length > 0, length, 1.0)
        stride = distance / np.sqrt(step)
        beyond, settled = edge.copy(), np.zeros(len(origin), dtype=np.bool_)
        for _ in range(6):  # a stride that leaves the other side is halved
            moved = self._inside(edge + stride[:, None] * facing)
            good = (self.right(moved, self.labels) != side) & ~settled
            beyond[good], settled = moved[good], settled | good
            stride = np.where(settled, stride, stride / 2)
        back = self.bisect(origin, beyond, side)
        nearer = ((back - origin) ** 2).sum(axis=1) < distance**2
        return np.where(nearer[:, None], back, edge)

    def _inside(self, points: Numbers) -> Numbers:
        return points if self.bounds is None else np.clip(points, self.bounds[0], self.bounds[1])


def _known(records: Records) -> NDArray[np.intp]:
    """Records that serve as starts: all, or those of the least hashes, whatever the order of records is."""
    if len(records) <= _STARTS:
        return np.arange(len(records))
    return np.argsort(records.hashes, kind="stable")[:_STARTS]


def _starts(origin: Numbers, answers: Labels, labels: Labels, pool: NDArray[np.intp]) -> tuple[Numbers, Bits]:
    """For each record the nearest known one on the other side of its boundary, and whether there is one."""
    squares = (origin[pool] ** 2).sum(axis=1)
    starts, found = origin.copy(), np.zeros(len(origin), dtype=np.bool_)
    for first in range(0, len(origin), 512):
        rows = slice(first, first + 512)
        apart = squares - 2 * origin[rows] @ origin[pool].T
        other = (answers[pool][None, :] == labels[rows, None]) != (answers[rows] == labels[rows])[:, None]
        apart = np.where(other, apart, np.inf)
        best = apart.argmin(axis=1)
        found[rows] = other.any(axis=1)
        starts[rows] = origin[pool[best]]
    return starts, found
