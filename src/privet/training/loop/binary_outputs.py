"""Models with one output for two classes: from that output to the probabilities of both classes.

A model whose outputs have the shape [examples] or [examples, 1] is binary. Its output is the logit of class
1. If the model ends in a sigmoid, it is the probability of class 1. Labels are 0 and 1.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from privet.training.double_precision import to_float64

__all__ = ["ends_in_sigmoid", "has_one_output", "log_probabilities"]

_LEAST = 2.0**-126  # the smallest normal float32, because a probability of 0 has no logarithm
# Operations after a sigmoid that do not change the meaning of its number.
_RESHAPES = (
    "View",
    "Reshape",
    "UnsafeView",
    "Squeeze",
    "Unsqueeze",
    "Select",
    "Slice",
    "Alias",
    "Clone",
    "ToCopy",
    "Clamp",
)


def has_one_output(outputs: Tensor) -> bool:
    """Whether these are outputs of a binary model: one number for each example.

    ``squeeze()`` without a dimension turns the output of a single example into a scalar.
    """
    return outputs.dim() < 2 or (outputs.dim() == 2 and outputs.shape[1] == 1)


def ends_in_sigmoid(model: nn.Module, inputs: tuple[Tensor, ...]) -> bool:
    """Whether the last operation of the model is a sigmoid, by the graph of one forward pass."""
    with torch.enable_grad():
        outputs = model(*inputs)
    node = outputs.grad_fn if isinstance(outputs, Tensor) else None
    while node is not None and node.name().startswith(_RESHAPES):
        node = node.next_functions[0][0]
    return node is not None and node.name().startswith("SigmoidBackward")


def log_probabilities(outputs: Tensor, *, probabilities: bool) -> Tensor:
    """Log-probabilities of class 0 and class 1, [examples, 2], in float64.

    >>> log_probabilities(torch.tensor([[0.0]]), probabilities=False).exp()
    tensor([[0.5000, 0.5000]], dtype=torch.float64)
    """
    numbers = to_float64(outputs).reshape(-1)
    if probabilities:
        both = torch.stack((1 - numbers, numbers), 1)
        return both.clamp(min=_LEAST).log()
    return torch.stack((F.logsigmoid(-numbers), F.logsigmoid(numbers)), 1)
