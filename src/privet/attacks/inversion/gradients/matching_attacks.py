"""Inversion by optimisation: guess the examples, and improve the guess until its gradient is the shared one.

``DeepLeakage`` minimises the squared distance with L-BFGS (DLG), ``InvertingGradients`` the cosine distance
plus the total variation of the pictures with Adam on signs (Geiping). Both run all messages and restarts
together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from privet.arguments import at_least, positive, whole
from privet.attacks.inversion.gradients.attack import GradientInversion, Reconstructions, check_messages
from privet.attacks.inversion.gradients.labels import recover_labels
from privet.attacks.inversion.gradients.lbfgs import minimize_rows
from privet.attacks.inversion.gradients.objectives import (
    CosineDistance,
    GradientDistance,
    Matching,
    SquaredDistance,
    total_variation,
)
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.shared_gradients import SharedGradient
from privet.views import Adversary, Labels, Rows

__all__ = ["DeepLeakage", "InvertingGradients"]

_FADING = 0.25  # of the smoothness, whenever the step falls
_NUMBERS_AT_ONCE = 2**24  # of gradients, over all guesses that run together
_ADVERSARY = Adversary(
    sees="the gradient that a participant shared",
    knows="the model, the number of examples, and public inputs like the secret ones",
    wants="the examples behind the gradient",
)


@final
@dataclass(frozen=True, eq=False)
class DeepLeakage(GradientInversion):
    """DLG: the squared distance of gradients, minimised by L-BFGS in float64.

    *Adversary*: sees one shared gradient; knows the model and the number of examples; wants the examples.

    Labels come from the last layer (``recover_labels``) unless they are given. Of several restarts the one
    with the smallest distance is kept, which the adversary can see.

    *Reference*: Zhu, Liu & Han 2019, algorithm 1; the labels as in iDLG (Zhao, Mopuri & Bilen 2020).
    Deviations: the distance is relative; the guess is kept within ``bounds`` at the end, not on the way;
    L-BFGS searches a line.
    """

    iterations: int = 500
    restarts: int = 1
    bounds: tuple[float, float] = (0.0, 1.0)
    labels: Labels | None = None
    public: Rows | None = None
    seed: int = 0

    name = "deep leakage"
    adversary = _ADVERSARY

    def __post_init__(self) -> None:
        _check_options(self.iterations, self.restarts, self.bounds)

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        labels = choose_labels(model, shared, self.labels, self.public)
        low, high = self.bounds

        def improve(matching: Matching, start: Tensor) -> tuple[Tensor, Tensor]:
            def evaluate(points: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
                guess = points.reshape(-1, *start.shape[1:]).requires_grad_()
                values = matching(guess, chosen)
                (slope,) = torch.autograd.grad(values.sum(), guess)
                return values.detach(), slope.flatten(1)

            points, values = minimize_rows(
                evaluate, start.flatten(1), iterations=self.iterations, enough=1e-18
            )
            return points.reshape(start.shape).clamp(low, high), values

        return run_restarts(
            model,
            shared,
            labels,
            SquaredDistance(),
            improve,
            self.restarts,
            self.bounds,
            self.seed,
            torch.float64,
        )


@final
@dataclass(frozen=True, eq=False)
class InvertingGradients(GradientInversion):
    """The cosine of gradients plus total variation, minimised by Adam on the signs of the slope.

    *Adversary*: sees one shared gradient; knows the model and the number of examples; wants the pictures.

    The step falls to a tenth after 3/8, 5/8 and 7/8 of the iterations. The guess stays within ``bounds``. Of
    several restarts the one with the smallest cosine distance is kept.

    *Reference*: Geiping, Bauermeister, Dröge & Moeller 2020, section 4 and appendix A. Deviations: 1,200
    iterations where the paper takes 24,000 (of its 4,800 by default); the best guess is kept, not the last;
    pictures of one channel or several.
    """

    iterations: int = 1200
    restarts: int = 1
    step: float = 0.1
    smoothness: float = 0.01
    bounds: tuple[float, float] = (0.0, 1.0)
    labels: Labels | None = None
    public: Rows | None = None
    seed: int = 0

    name = "inverting gradients"
    adversary = _ADVERSARY

    def __post_init__(self) -> None:
        _check_options(self.iterations, self.restarts, self.bounds)
        positive("step", self.step)
        at_least("smoothness", self.smoothness, 0.0)

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        if len(model.shape) != 3:
            raise InvalidArgument(
                f"'model' must take pictures, channels × height × width, got inputs of shape {model.shape}. "
                f"Take DeepLeakage for other inputs, or TabularInversion for rows of a table."
            )
        labels = choose_labels(model, shared, self.labels, self.public)
        return run_restarts(
            model,
            shared,
            labels,
            CosineDistance(),
            self._improve,
            self.restarts,
            self.bounds,
            self.seed,
            model.dtype,
        )

    def _improve(self, matching: Matching, start: Tensor) -> tuple[Tensor, Tensor]:
        guess = start.clone().requires_grad_()
        best, best_values = start.clone(), torch.full((len(start),), torch.inf, dtype=start.dtype)
        optimizer = torch.optim.Adam([guess], lr=self.step)
        falls = [int(self.iterations * part / 8) for part in (3, 5, 7)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=falls, gamma=0.1)
        smoothness = self.smoothness
        for turn in range(self.iterations):
            if turn in falls:
                smoothness *= _FADING
                best_values[:] = torch.inf  # the loss is another one from here on
            distances = matching(guess)
            loss = distances + smoothness * total_variation(guess)
            (slope,) = torch.autograd.grad(loss.sum(), guess)
            with torch.no_grad():
                better = loss < best_values
                best[better], best_values[better] = guess[better], loss[better]
                guess.grad = slope.sign()
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                guess.clamp_(*self.bounds)
        with torch.no_grad():
            return best, matching(best)


def choose_labels(
    model: PublicModel, shared: Sequence[SharedGradient], given: Labels | None, public: Rows | None
) -> Labels:
    """The labels that were given, or those that the last layer tells: messages × examples."""
    check_messages(shared)
    shape = (len(shared), shared[0].examples)
    if given is None:
        return recover_labels(model, shared, public=public)
    labels = np.asarray(given, dtype=np.int64)
    if labels.shape != shape or labels.min() < 0 or labels.max() >= max(2, model.classes):
        raise InvalidArgument(
            f"'labels' must be {shape[0]} × {shape[1]} classes from 0 to {max(2, model.classes) - 1}, got "
            f"other shapes or classes. Give one label for each example of each message, or None."
        )
    return labels


def run_restarts(
    model: PublicModel,
    shared: Sequence[SharedGradient],
    labels: Labels,
    distance: GradientDistance,
    improve: Callable[[Matching, Tensor], tuple[Tensor, Tensor]],
    restarts: int,
    bounds: tuple[float, float],
    seed: int,
    dtype: torch.dtype,
) -> Reconstructions:
    """Improve all guesses of as many messages as fit into memory, and keep the best restart of each
    message."""
    generator = torch.Generator().manual_seed(seed)
    low, high = bounds
    examples = shared[0].examples
    at_once = max(1, _NUMBERS_AT_ONCE // (model.size * restarts))
    pictures, values = [], []
    for first in range(0, len(shared), at_once):
        part = shared[first : first + at_once]
        start = torch.rand((len(part) * restarts, examples, *model.shape), generator=generator, dtype=dtype)
        start = (low + (high - low) * start).to(model.device)
        known = torch.as_tensor(labels[first : first + at_once], device=model.device)
        matching = Matching(model, part, known, distance, restarts=restarts, dtype=dtype)
        matching.check_slope(start)
        guesses, distances = improve(matching, start)
        grouped = distances.reshape(len(part), restarts).nan_to_num(nan=torch.inf)
        best = grouped.argmin(dim=1)
        rows = torch.arange(len(part))
        pictures.append(guesses.reshape(len(part), restarts, examples, *model.shape)[rows, best])
        values.append(grouped[rows, best])
    sure = -torch.cat(values).double().clamp(1e-300, 1e300).log()
    return Reconstructions(
        torch.cat(pictures).detach().double().cpu().numpy(),
        labels,
        np.repeat(sure.cpu().numpy()[:, None], examples, axis=1),
    )


def _check_options(iterations: int, restarts: int, bounds: tuple[float, float]) -> None:
    whole("iterations", iterations)
    whole("restarts", restarts)
    if not bounds[0] < bounds[1]:
        raise InvalidArgument(
            f"'bounds' must be a smaller and a larger number, got {bounds}. Give the range of the inputs, "
            f"such as (0, 1)."
        )
