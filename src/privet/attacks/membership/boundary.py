"""The distance to the decision boundary from labels alone: HopSkipJump, for all records at once.

A known record is the first point on the other side of the boundary; bisection finds the boundary on the way
to it. Then, in each round: random probes around the boundary point estimate the normal of the boundary, a
step is taken along it, and bisection leads back to the boundary, nearer to the record.
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

_STARTS = 2000  # records among which a point on the other side is searched for
_AT_ONCE = 2**22  # numbers in the probes of one query


@final
@dataclass(frozen=True)
class BoundaryDistance(Attack[LabelOnly]):
    """The ℓ₂ distance to the nearest point found with another prediction.

    Members are further from the boundary.

    *Adversary*: sees the predicted class; knows the record and its label; wants its membership. It takes
    about 15 + rounds × (probes + 20) queries for each record, and a few more for records with many numbers.

    A wrongly predicted record has minus its distance to a right prediction, so that scores are continuous on
    both sides. Where no point on the other side is known (a model with one answer for all), the distance is
    twice the largest distance.

    *Reference*: Choquette-Choo et al. 2021 (decision boundary distance), with HopSkipJump (Chen et al. 2020,
    algorithm 2). Deviations: the start is the nearest known record on the other side, not a random image; all
    records have the same probe directions; wrong predictions have a negative distance, which the paper sets
    to 0. ``bounds`` are the limits of a record's numbers.
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
                f"'bounds' must be a lower and a higher number, got {self.bounds!r}. Give (0.0, 1.0), or "
                f"None."
            )

    def score(self, view: LabelOnly, records: Records) -> Numbers:
        generator = experiment(self.seed)
        search = _BoundarySearch(view, records.inputs.shape[1:], records.known_labels, self.bounds)
        origin = np.asarray(records.inputs, dtype=np.float64).reshape(len(records), -1)
        answers = view.labels(records.inputs)
        right = answers == records.known_labels
        edge, known = _find_starts(origin, answers, records.known_labels, _start_candidates(records))
        search = search.among(known)
        origin_, right_ = origin[known], right[known]
        edge = search.bisect(origin_, edge[known], right_)
        for step in range(1, self.rounds + 1):
            if not known.any():
                break
            edge = search.hop(origin_, edge, right_, step, self.probes, generator)
        distance = np.full(len(records), np.nan)
        distance[known] = np.sqrt(((edge - origin_) ** 2).sum(axis=1))
        furthest = float(np.max(distance, where=known, initial=0.0))
        distance[~known] = 2 * furthest if furthest > 0 else 1.0
        answer: Numbers = np.where(right, distance, -distance)
        return answer


@final
@dataclass(frozen=True, eq=False)
class _BoundarySearch:
    """Queries on which side of its boundary each point is, for many records at once; points are flat rows."""

    view: LabelOnly
    shape: tuple[int, ...]
    labels: Labels
    bounds: Sequence[float] | None

    def among(self, which: Bits) -> "_BoundarySearch":
        return _BoundarySearch(self.view, self.shape, self.labels[which], self.bounds)

    def right(self, points: Numbers, labels: Labels) -> Bits:
        """Whether each point is predicted as its record's true label."""
        step = max(1, _AT_ONCE // max(1, points.shape[1]))
        answers = [
            self.view.labels(points[start : start + step].reshape(-1, *self.shape))
            for start in range(0, len(points), step)
        ]
        return np.asarray(np.concatenate(answers) == labels) if answers else np.zeros(0, dtype=np.bool_)

    def bisect(self, near: Numbers, far: Numbers, side: Bits) -> Numbers:
        """The nearest point found on the line from ``near`` to ``far`` that is not on ``side``."""
        low, high = np.zeros(len(near)), np.ones(len(near))
        # Nearer to the boundary than the radius of the probes (Chen et al. 2020: d^−3/2 of the way), else all
        # probes agree.
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
        """One round: estimate the normal of the boundary at ``edge``, step along it, and go back to the
        boundary.
        """
        dimension = origin.shape[1]
        distance = np.sqrt(((edge - origin) ** 2).sum(axis=1))
        # Chen et al. 2020: the probes' radius δ = distance/√d · (about) 1/√d; the first step is as far as
        # distance/√step.
        radius = np.maximum(distance / dimension, 1e-12)
        directions = generator.normal(size=(probes, dimension))
        directions /= np.sqrt((directions**2).sum(axis=1, keepdims=True))
        total, votes = np.zeros_like(origin), np.zeros(len(origin))
        for direction in directions:
            moved = self._inside(edge + radius[:, None] * direction)
            vote = np.where(self.right(moved, self.labels) != side, 1.0, -1.0)
            total += vote[:, None] * direction
            votes += vote
        # Subtracting the mean vote reduces the variance (Chen et al. 2020); probes that all agree say nothing
        # about the direction.
        normal = total - (votes / probes)[:, None] * directions.sum(axis=0)
        normal = np.where(np.abs(votes)[:, None] == probes, total, normal)
        length = np.sqrt((normal**2).sum(axis=1, keepdims=True))
        normal = normal / np.where(length > 0, length, 1.0)
        step_size = distance / np.sqrt(step)
        beyond, settled = edge.copy(), np.zeros(len(origin), dtype=np.bool_)
        for _ in range(6):  # a step that leaves the other side is halved
            moved = self._inside(edge + step_size[:, None] * normal)
            good = (self.right(moved, self.labels) != side) & ~settled
            beyond[good], settled = moved[good], settled | good
            step_size = np.where(settled, step_size, step_size / 2)
        back = self.bisect(origin, beyond, side)
        nearer = ((back - origin) ** 2).sum(axis=1) < distance**2
        return np.where(nearer[:, None], back, edge)

    def _inside(self, points: Numbers) -> Numbers:
        return points if self.bounds is None else np.clip(points, self.bounds[0], self.bounds[1])


def _start_candidates(records: Records) -> NDArray[np.intp]:
    """Records that serve as starts: all, or those with the smallest hashes, which do not depend on the order
    of records.
    """
    if len(records) <= _STARTS:
        return np.arange(len(records))
    return np.argsort(records.hashes, kind="stable")[:_STARTS]


def _find_starts(
    origin: Numbers, answers: Labels, labels: Labels, pool: NDArray[np.intp]
) -> tuple[Numbers, Bits]:
    """For each record the nearest candidate on the other side of its boundary, and whether there is one."""
    squares = (origin[pool] ** 2).sum(axis=1)
    starts, exists = origin.copy(), np.zeros(len(origin), dtype=np.bool_)
    for first in range(0, len(origin), 512):
        rows = slice(first, first + 512)
        apart = squares - 2 * origin[rows] @ origin[pool].T
        other = (answers[pool][None, :] == labels[rows, None]) != (answers[rows] == labels[rows])[:, None]
        apart = np.where(other, apart, np.inf)
        best = apart.argmin(axis=1)
        exists[rows] = other.any(axis=1)
        starts[rows] = origin[pool[best]]
    return starts, exists
