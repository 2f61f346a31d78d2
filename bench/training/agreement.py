"""Whether a contestant computes what it should: one step without noise beside a loop over the examples in plain torch."""

import numpy as np
import torch
from catalogue import TASKS
from contestants import CONTESTANTS, Setting
from models import losses

EXAMPLES = 6
SILENT = 1e-9  # a noise multiplier that nobody sees in float32


def looped(name: str, examples: int = EXAMPLES) -> tuple[Setting, dict[str, np.ndarray]]:
    """The lot, a bound that clips half of it, and the clipped mean by one backward pass for each example, in float64."""
    task = TASKS[name]
    inputs, targets = task.data(examples)
    model = task.model().double()
    exact = inputs.double() if inputs.is_floating_point() else inputs
    parameters = dict(model.named_parameters())

    def gradients(place: int) -> tuple[torch.Tensor, ...]:
        one = slice(place, place + 1)
        return torch.autograd.grad(losses(model(exact[one]), targets[one]).sum(), list(parameters.values()))

    norms = [
        float(torch.stack([g.double().square().sum() for g in gradients(i)]).sum().sqrt())
        for i in range(examples)
    ]
    bound = float(np.median(norms))
    totals = [torch.zeros_like(p, dtype=torch.float64) for p in parameters.values()]
    for place, norm in enumerate(norms):  # once more, because many examples' gradients do not fit into memory
        for total, gradient in zip(totals, gradients(place), strict=True):
            total.add_(gradient, alpha=min(1.0, bound / norm) / examples)
    mean = {key: total.numpy() for key, total in zip(parameters, totals, strict=True)}
    return Setting(task, inputs, targets, bound=bound, multiplier=SILENT, rate=1.0), mean


def difference(contestant: str, name: str, examples: int = EXAMPLES) -> float:
    """The largest difference of a weight's change from the loop's, relative to the largest change.

    Of the first step and, where weights can be set back, of the second, which may go another way.
    """
    setting, mean = looped(name, examples)
    made = CONTESTANTS[contestant](setting)
    before = made.weights()
    if set(mean) - set(before):
        raise ValueError(f"other weights: {sorted(set(mean) - set(before))[:3]}")
    largest, found = max(np.abs(value).max() for value in mean.values()), 0.0
    for _ in range(2):
        made.before()
        made.step()
        after = made.weights()
        found = max(found, *(np.abs(before[key] - after[key] - mean[key]).max() for key in mean))
        if not made.set_back():
            break
    return float(found / largest)
