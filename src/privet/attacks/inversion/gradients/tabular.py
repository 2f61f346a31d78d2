"""Rows of a table from a gradient: numbers and categories together.

A category enters the model as a block of zeros with a single one. While the guess is improved, each block is
the softmax of free numbers, so that it can be differentiated and never leaves what a category can be. One run
finds most columns right, each run others; so several runs are pooled: their rows are matched, numbers get the
median and categories the largest mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from privet.arguments import fraction, positive, whole
from privet.attacks.inversion.gradients.attack import GradientInversion, Reconstructions, check_messages
from privet.attacks.inversion.gradients.matching_attacks import choose_labels
from privet.attacks.inversion.gradients.objectives import CosineDistance, Matching
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.recoveries import Criterion
from privet.shared_gradients import SharedGradient
from privet.views import Adversary, Labels, Numbers, Rows

__all__ = ["MixedColumns", "TabularInversion"]

_NUMBERS_AT_ONCE = 2**24


@final
@dataclass(frozen=True)
class MixedColumns:
    """How the columns of a table lie in the model's input, one after the other.

    A width of 1 is a number, in units of its standard deviation; a larger one is a category as a block of
    zeros and a one.

    >>> columns = MixedColumns((1, 3))
    >>> columns.share_right(np.array([[0.2, 0.1, 0.7, 0.2]]), np.array([[0.0, 0.0, 1.0, 0.0]])).tolist()
    [1.0]
    """

    widths: tuple[int, ...]
    tolerance: float = 0.319  # of a number, in standard deviations, as in TabLeak

    def __post_init__(self) -> None:
        if not self.widths:
            raise InvalidArgument(
                "'widths' must name at least one column, got none. Give the width of each column."
            )
        for width in self.widths:
            whole("widths", width)
        positive("tolerance", self.tolerance)

    @property
    def size(self) -> int:
        """The number of inputs of the model."""
        return sum(self.widths)

    @property
    def slices(self) -> list[slice]:
        """Where each column lies."""
        ends = np.cumsum(self.widths)
        return [slice(int(end - width), int(end)) for end, width in zip(ends, self.widths, strict=True)]

    def share_right(self, recovered: Rows, truths: Rows) -> Numbers:
        """The share of columns that are right, for each row: equal categories, numbers within the
        tolerance."""
        return self.right(recovered, truths).mean(axis=1)

    def right(self, recovered: Rows, truths: Rows) -> np.ndarray:
        """Which columns are right: rows × columns. What is NaN is wrong."""
        found, true = np.asarray(recovered, dtype=np.float64), np.asarray(truths, dtype=np.float64)
        if found.shape != true.shape or true.ndim != 2 or true.shape[1] != self.size:
            raise InvalidArgument(
                f"'recovered' and 'truths' must be rows of {self.size} numbers, got {found.shape} and "
                f"{true.shape}. Encode them as the model takes them."
            )
        columns = []
        for part, width in zip(self.slices, self.widths, strict=True):
            if width == 1:
                gap = np.abs(found[:, part.start] - true[:, part.start])
                columns.append(gap <= self.tolerance)
            else:
                known = np.isfinite(found[:, part]).all(axis=1)
                same = np.nan_to_num(found[:, part]).argmax(axis=1) == true[:, part].argmax(axis=1)
                columns.append(known & same)
        return np.stack(columns, axis=1)

    def most_frequent(self, public: Rows) -> Numbers:
        """The blind guess: the median of each number and the most frequent category, over public rows."""
        rows = np.asarray(public, dtype=np.float64)
        guess = np.zeros(self.size)
        for part, width in zip(self.slices, self.widths, strict=True):
            if width == 1:
                guess[part] = np.median(rows[:, part])
            else:
                guess[part.start + int(rows[:, part].sum(axis=0).argmax())] = 1.0
        return guess

    def criterion(self, share: float) -> Criterion:
        """A hit has at least this share of its columns right."""
        fraction("share", share)
        return Criterion(
            f"at least {share:.0%} of the columns are right",
            lambda recovered, truths: 1.0 - self.share_right(recovered, truths),
            1.0 - share + 1e-12,
        )


@final
@dataclass(frozen=True, eq=False)
class TabularInversion(GradientInversion):
    """Relaxed categories, the cosine of gradients, and a pool of restarts.

    *Adversary*: sees one shared gradient; knows the model, the encoding of the columns and the number of
    rows; wants the rows.

    The better half of the restarts is pooled. The confidence of a row is the share of its columns on which
    the pool agrees, on average.

    *Reference*: Vero, Balunović, Dimitrov & Vechev 2023 (TabLeak), sections 4.1 and 4.2. Deviations: only the
    better half of the restarts is pooled; no loss on numbers outside of their range.
    """

    columns: MixedColumns
    restarts: int = 30
    iterations: int = 1000
    step: float = 0.06
    labels: Labels | None = None
    seed: int = 0

    name = "tabular inversion"
    adversary = Adversary(
        sees="the gradient that a participant shared",
        knows="the model, the encoding of the columns, and the number of rows",
        wants="the rows behind the gradient",
    )

    def __post_init__(self) -> None:
        whole("restarts", self.restarts)
        whole("iterations", self.iterations)
        positive("step", self.step)

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        check_messages(shared)
        if model.shape != (self.columns.size,):
            raise InvalidArgument(
                f"'columns' must describe the {model.shape} inputs of the model, got {self.columns.size}. "
                f"Give the width of each column, in the order of the inputs."
            )
        labels = choose_labels(model, shared, self.labels, None)
        generator = torch.Generator().manual_seed(self.seed)
        at_once = max(1, _NUMBERS_AT_ONCE // (model.size * self.restarts))
        rows, sure = [], []
        for first in range(0, len(shared), at_once):
            part = shared[first : first + at_once]
            known = torch.as_tensor(labels[first : first + at_once], device=model.device)
            matching = Matching(model, part, known, CosineDistance(), restarts=self.restarts)
            guesses, distances = self._improve(matching, model, shared[0].examples, generator)
            for place in range(len(part)):
                own = slice(place * self.restarts, (place + 1) * self.restarts)
                pooled, agreement = self._pool(guesses[own], distances[own])
                rows.append(pooled)
                sure.append(agreement)
        return Reconstructions(np.stack(rows), labels, np.stack(sure))

    def _improve(
        self, matching: Matching, model: PublicModel, examples: int, generator: torch.Generator
    ) -> tuple[Numbers, Numbers]:
        free = torch.randn((matching.guesses, examples, *model.shape), generator=generator, dtype=model.dtype)
        free = free.to(model.device).requires_grad_()
        matching.check_slope(self._relax(free.detach()))
        optimizer = torch.optim.Adam([free], lr=self.step)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.iterations)
        for _ in range(self.iterations):
            (free.grad,) = torch.autograd.grad(matching(self._relax(free)).sum(), free)
            optimizer.step()
            schedule.step()
        with torch.no_grad():
            rows = self._relax(free)
            distances = matching(rows)
        return rows.double().cpu().numpy(), distances.double().cpu().numpy()

    def _relax(self, free: Tensor) -> Tensor:
        parts = [
            free[..., part] if width == 1 else free[..., part].softmax(dim=-1)
            for part, width in zip(self.columns.slices, self.columns.widths, strict=True)
        ]
        return torch.cat(parts, dim=-1)

    def _pool(self, guesses: Numbers, distances: Numbers) -> tuple[Numbers, Numbers]:
        """One batch out of several: restarts × rows × inputs → rows × inputs, and how far the restarts
        agree."""
        order = np.argsort(np.nan_to_num(distances, nan=np.inf), kind="stable")
        chosen = guesses[order[: max(1, (len(order) + 1) // 2)]]
        matched = [chosen[0]]
        for batch in chosen[1:]:
            costs = np.abs(chosen[0][:, None] - batch[None]).sum(axis=2)
            matched.append(batch[linear_sum_assignment(costs)[1]])
        stack = np.stack(matched)
        pooled, agreements = np.zeros(stack.shape[1:]), []
        for part, width in zip(self.columns.slices, self.columns.widths, strict=True):
            if width == 1:
                middle = np.median(stack[:, :, part], axis=0)
                pooled[:, part] = middle
                near = np.abs(stack[:, :, part] - middle) <= self.columns.tolerance
                agreements.append(near[:, :, 0].mean(axis=0))
            else:
                best = stack[:, :, part].mean(axis=0).argmax(axis=1)
                pooled[np.arange(len(best)), part.start + best] = 1.0
                agreements.append((stack[:, :, part].argmax(axis=2) == best).mean(axis=0))
        return pooled, np.stack(agreements).mean(axis=0)
