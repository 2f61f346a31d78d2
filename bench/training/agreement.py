"""Whether a contestant computes what it should: one step without noise beside a loop over the examples in plain torch."""

import numpy as np
import torch
from contestants import CONTESTANTS, Setting
from models import TASKS, losses

EXAMPLES = 6
TOLERANCE = 2e-3  # of the largest weight change: float32, and orders of addition that differ
SILENT = 1e-9  # a noise multiplier that nobody sees in float32


def looped(name: str) -> tuple[Setting, dict[str, np.ndarray]]:
    """The lot, a bound that clips half of it, and the clipped mean by one backward pass for each example."""
    task = TASKS[name]
    inputs, targets = task.data(EXAMPLES)
    model = task.model()
    parameters = dict(model.named_parameters())
    each, norms = [], []
    for place in range(EXAMPLES):
        one = slice(place, place + 1)
        found = torch.autograd.grad(losses(model(inputs[one]), targets[one]).sum(), list(parameters.values()))
        each.append(found)
        norms.append(float(torch.stack([g.double().square().sum() for g in found]).sum().sqrt()))
    bound = float(np.median(norms))
    factors = [min(1.0, bound / norm) / EXAMPLES for norm in norms]
    mean = {
        key: sum(f * found[place].double() for f, found in zip(factors, each, strict=True)).numpy()  # type: ignore[union-attr]
        for place, key in enumerate(parameters)
    }
    return Setting(task, inputs, targets, bound=bound, multiplier=SILENT, rate=1.0), mean


def difference(contestant: str, name: str) -> float:
    """The largest difference of a weight's change from the loop's, relative to the largest change."""
    setting, mean = looped(name)
    made = CONTESTANTS[contestant](setting)
    before = made.weights()
    made.before()
    made.step()
    after = made.weights()
    if set(before) != set(mean):
        raise ValueError(f"other weights: {sorted(set(before) ^ set(mean))[:3]}")
    largest = max(np.abs(value).max() for value in mean.values())
    return float(max(np.abs(before[key] - after[key] - mean[key]).max() for key in mean) / largest)
