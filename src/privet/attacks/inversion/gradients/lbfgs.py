"""L-BFGS for many small problems at once: each row of a matrix is a problem with steps of its own.

One evaluation serves all problems, so a hundred cost little more than one where the overhead of a call is the
price. The line search halves the step until the Armijo condition holds; pairs without positive curvature are
left out.

Reference: Nocedal & Wright 2006, algorithms 7.4 and 7.5, with backtracking (algorithm 3.1) in place of the
strong Wolfe conditions.
"""

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["minimize_rows"]

_ARMIJO = 1e-4
_HALVINGS = 12

Evaluate = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # points and their rows → values, slopes


def minimize_rows(
    evaluate: Evaluate, start: Tensor, *, iterations: int, history: int = 60, enough: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The best point of each row and its value. A row stops at ``enough``, or where no step helps any
    more."""
    points = start.clone()
    everyone = torch.arange(len(points))
    values, slopes = evaluate(points, everyone)
    moves = points.new_zeros((0, *points.shape))
    turns, curvatures = moves.clone(), points.new_zeros((0, len(points)))
    running = everyone
    for _ in range(iterations):
        running = running[values[running] > enough]
        if not len(running):
            break
        slope = slopes[running]
        direction = -_apply_inverse(slope, moves[:, running], turns[:, running], curvatures[:, running])
        descent = (direction * slope).sum(dim=1)
        bad = ~(descent < 0)
        direction[bad], descent[bad] = -slope[bad], -slope[bad].square().sum(dim=1)
        if not len(moves):
            first = 1.0 / slope.abs().sum(dim=1).clamp_min(1e-30)
            direction, descent = direction * first[:, None].clamp_max(1.0), descent * first.clamp_max(1.0)
        moved, points_new, values_new, slopes_new = _search_line(
            evaluate, points[running], values[running], direction, descent, running
        )
        if not bool(moved.any()):
            if not len(moves):
                break
            moves, turns, curvatures = moves[:0], turns[:0], curvatures[:0]  # once more by steepest descent
            continue
        running = running[moved]
        move, turn = torch.zeros_like(points), torch.zeros_like(points)
        move[running] = points_new[moved] - points[running]
        turn[running] = slopes_new[moved] - slopes[running]
        products = (move * turn).sum(dim=1)
        sound = products > 1e-10 * turn.square().sum(dim=1)
        inverse = torch.where(sound, 1.0 / products.where(sound, torch.ones_like(products)), 0.0)
        moves = torch.cat([moves[-history + 1 :], move[None]])
        turns = torch.cat([turns[-history + 1 :], turn[None]])
        curvatures = torch.cat([curvatures[-history + 1 :], inverse[None]])
        points[running], values[running], slopes[running] = (
            points_new[moved],
            values_new[moved],
            slopes_new[moved],
        )
    return points, values


def _apply_inverse(slope: Tensor, moves: Tensor, turns: Tensor, curvatures: Tensor) -> Tensor:
    """The two-loop recursion: the inverse Hessian's estimate times the slope, for each row."""
    direction, weights = slope.clone(), []
    for move, turn, inverse in zip(moves.flip(0), turns.flip(0), curvatures.flip(0), strict=True):
        weight = inverse * (move * direction).sum(dim=1)
        direction -= weight[:, None] * turn
        weights.append(weight)
    if len(moves):
        scale = torch.ones_like(curvatures[0])
        for turn, inverse in zip(turns, curvatures, strict=True):  # the last sound pair of each row
            length = turn.square().sum(dim=1)
            scale = torch.where(inverse > 0, 1.0 / (inverse * length).clamp_min(1e-300), scale)
        direction *= scale[:, None]
    for move, turn, inverse, weight in zip(moves, turns, curvatures, reversed(weights), strict=True):
        direction += (weight - inverse * (turn * direction).sum(dim=1))[:, None] * move
    return direction


def _search_line(
    evaluate: Evaluate, points: Tensor, values: Tensor, direction: Tensor, descent: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Halve the step of each row until it goes down enough; only rows that still search are evaluated."""
    found = torch.zeros(len(points), dtype=torch.bool)
    best, best_values, best_slopes = points.clone(), values.clone(), torch.zeros_like(points)
    step, left = 1.0, torch.arange(len(points))
    for _ in range(_HALVINGS):
        tried = points[left] + step * direction[left]
        new_values, new_slopes = evaluate(tried, rows[left])
        good = new_values <= values[left] + _ARMIJO * step * descent[left]
        good &= torch.isfinite(new_values)
        best[left[good]], best_values[left[good]] = tried[good], new_values[good]
        best_slopes[left[good]] = new_slopes[good]
        found[left[good]] = True
        left = left[~good]
        if not len(left):
            break
        step *= 0.5
    return found, best, best_values, best_slopes
