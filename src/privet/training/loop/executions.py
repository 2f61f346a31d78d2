"""How often each step of a run was executed: once, or again after a crash that lost it.

A run that is killed at step R, and resumes from its state of step S, has executed the steps S + 1 to R once.
It executes them again, with fresh lots and fresh noise. Every execution counts, because somebody may have
looked at the weights. The executions form a tree: the present run is a path from step 0, and each lost range
(S, R] is a branch that starts where the run resumed.

The proof depends on the tree only. A kill turns a part of the present path into a branch, and does not change
the tree. So a kill by itself costs nothing; only steps that run again do. Hence a run that never reserves
more than it can afford can be killed at any time, any number of times, and never ends above its ε.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from privet.arguments import whole
from privet.errors import InvalidArgument

__all__ = ["Executions"]

_UP = 1 + 2.0**-30  # far above the rounding of the sums below, and too small to show in an ε


@final
@dataclass(frozen=True)
class Executions:
    """The steps 1 to ``steps``, and the ranges (from, to] that ran before and were lost.

    ``lost`` is in the order in which the ranges were lost.

    >>> Executions(10, ((4, 9), (6, 8))).layers
    ((0, 10), (4, 9), (6, 8))
    >>> Executions(4, ((4, 9),)).layers
    ((0, 9),)
    """

    steps: int
    lost: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        whole("steps", self.steps, least=0)
        for start, stop in self.lost:
            whole("to", stop, least=whole("from", start, least=0))
        object.__setattr__(self, "lost", tuple((a, b) for a, b in self.lost if b > a))
        reached = max((self.steps, *(stop for _, stop in self.lost)))
        covered = 0
        for start, stop in sorted(((0, self.steps), *self.lost)):
            covered = max(covered, stop) if start <= covered else covered
        if covered != reached:
            raise InvalidArgument(
                f"'lost' must be ranges that start at steps which ran, got {self.lost!r} with {self.steps} "
                "steps. Give every range that was lost."
            )

    @property
    def again(self) -> int:
        """The number of executions that were lost."""
        return sum(stop - start for start, stop in self.lost)

    @cached_property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """The executions as ranges: the first from 0 to the furthest step, the others on top of it.

        They say how often each step was executed, and nothing else. So they are the same before and after a
        kill.
        """
        changes: Counter[int] = Counter()
        for start, stop in ((0, self.steps), *self.lost):
            changes[start] += 1
            changes[stop] -= 1
        layers: list[tuple[int, int]] = []
        open_starts: list[int] = []
        for step in sorted(changes):
            while changes[step] > 0:
                open_starts.append(step)
                changes[step] -= 1
            while changes[step] < 0:
                start = open_starts.pop()
                changes[step] += 1
                if step > start:
                    layers.append((start, step))
        return tuple(sorted(layers, key=lambda layer: (layer[0], -layer[1])))

    @property
    def is_path(self) -> bool:
        """Whether no step was executed twice."""
        return len(self.layers) <= 1

    def most_turns(self, parts: int) -> int:
        """The largest number of executions of the steps r, r + parts, r + 2 parts, …, over all r."""
        return int(self._turns(parts).max())

    def squared_reach(self, coefficients: tuple[float, ...], parts: int) -> float:
        """The largest squared distance that one unit moves C·G, over all executed rows.

        Each unit takes part every ``parts`` steps. A unit whose first step is r moves row u by at most w(u −
        r), with w(d) = c_d + w(d − parts), because C has no negative entries. Rows that were executed again
        have their own noise and count again. The sum over the rows of a range is a difference of cumulative
        sums of w², and r ranges over the first ``parts`` steps.
        """
        furthest = self.layers[0][1]
        moved = np.zeros(-(-furthest // parts) * parts)
        moved[: min(furthest, len(coefficients))] = coefficients[:furthest]
        moved = np.cumsum(moved.reshape(-1, parts), axis=0).ravel()[:furthest]
        sums = np.concatenate(([0.0], np.cumsum(moved * moved)))  # sums[k]: over the rows r, …, r + k − 1
        first = np.arange(1, min(parts, furthest) + 1)
        total = np.zeros(first.size)
        for start, stop in self.layers:
            total += sums[np.maximum(stop - first + 1, 0)] - sums[np.maximum(start - first + 1, 0)]
        return float(total.max()) * _UP

    def squared_tree_extra(self, separation: int) -> float:
        """A bound on the squared distance that one unit moves the tree nodes that were completed again.

        At level l a block has 2ˡ steps, and a range completes n blocks. A unit takes part at most ⌈2ˡ/b⌉
        times in each block, and at most ⌈n 2ˡ/b⌉ times in all of them, because they are adjacent. Their noise
        was drawn again.
        """
        total = 0
        for start, stop in self.layers[1:]:
            for level in range(stop.bit_length()):
                size = 2**level
                blocks = stop // size - start // size
                total += -(-blocks * size // separation) * -(-size // separation)
        return float(total)

    def draws(self, coefficients: tuple[float, ...], parts: int) -> tuple[tuple[float, ...], int]:
        """Squared lengths of the noise coefficients of each draw of a unit, under cyclic Poisson sampling.

        Step t draws from part t mod ``parts`` only. A draw in step t moves the rows t, …, t + b − 1 of its
        own path, and those rows of each branch that leaves the path in between, whose noise is fresh. So its
        squared length is Σ c_k² · (how often row t + k was executed after this draw), and at least ‖c‖². The
        bands end before the next turn of the part, so the draws of a unit have independent noise.

        The result has the squared lengths above ‖c‖², in falling order, and the number of all other draws, of
        length ‖c‖. It is the worst over all parts, length by length: the i-th longest draw of any unit is at
        most the i-th one here.
        """
        squares = [value * value for value in coefficients]
        repeats: defaultdict[tuple[int, int], list[int]] = defaultdict(lambda: [0] * len(squares))
        for number, (start, stop) in enumerate(self.lost):
            for step in range(max(1, start - len(squares) + 2), start + 1):
                counts = repeats[self._owner(step, number), step]
                for band in range(start - step + 1, min(len(squares), stop - step + 1)):
                    counts[band] += 1
        longer: defaultdict[int, list[float]] = defaultdict(list)
        for (owner, step), counts in repeats.items():
            end = self.steps if owner < 0 else self.lost[owner][1]
            times = (max(1, count + (step + band <= end)) for band, count in enumerate(counts))
            length = math.fsum(square * time for square, time in zip(squares, times, strict=True))
            if length > math.fsum(squares):
                longer[step % parts].append(length)
        ranked = [sorted(lengths, reverse=True) for lengths in longer.values()]
        worst = [
            max(lengths[rank] for lengths in ranked if rank < len(lengths))
            for rank in range(max(map(len, ranked), default=0))
        ]
        return tuple(worst), self.most_turns(parts) - len(worst)

    def _owner(self, step: int, branch: int) -> int:
        """The range, lost later, whose execution of ``step`` this branch follows; −1 for the present path."""
        for later in range(branch + 1, len(self.lost)):
            if self.lost[later][0] < step:
                return later
        return -1

    def _turns(self, parts: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        """For each part, how many of its steps were executed."""
        first = np.arange(1, parts + 1)
        total = np.zeros(parts, dtype=np.int64)
        for start, stop in self.layers:
            total += np.maximum((stop - first) // parts + 1, 0) - np.maximum((start - first) // parts + 1, 0)
        return total
