"""Labels from the gradient of the last layer: how often each class is in the batch.

For cross-entropy the gradient of the last bias is g_c = mean_b (p_bc − y_bc), where p are the model's
confidences and y the labels. A batch of one has exactly one negative entry: the label (iDLG, Zhao et al.
2020, section 3). For a batch of B the counts are n_c = B (p̄_c − g_c), where p̄ is the mean confidence over
the batch. It is not known; its estimate is the mean confidence over public inputs (Geng et al. 2021; Ma et
al. 2023, "instance-wise batch label restoration"). Where the last layer has no bias, the sums over its rows
take the place of g (LLG, Wainakh et al. 2022): for features h ≥ 0 the row sum is mean_b (p_bc − y_bc) Σh_b,
so g is found up to the mean of Σh. Under noise both are used: the rows are projected on the mean feature
vector of public inputs, which collects the signal of the whole layer.
"""

from collections.abc import Sequence

import numpy as np
import torch

from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.attacks.outputs import Outputs
from privet.errors import InvalidArgument
from privet.shared_gradients import LocalSteps, NoisyStep, SharedGradient
from privet.views import Labels, Numbers, Rows

__all__ = ["count_labels", "recover_labels"]

_GUESSES = 64  # random inputs, where there are no public ones


def recover_labels(
    model: PublicModel, shared: Sequence[SharedGradient], *, public: Rows | None = None, seed: int = 0
) -> Labels:
    """The labels of each message in ascending order, messages × examples.

    ``public`` are inputs like the secret ones; without them the mean confidence comes from random inputs.
    """
    model.read(shared)
    weight, bias = _find_last_layer(model)
    mean, features = _mean_confidence(model, weight, public, seed)
    answer = []
    for message in shared:
        slope = _read_slope(message, weight, bias, features)
        answer.append(count_labels(slope / _steps(message), mean, message.examples))
    return np.stack(answer)


def _read_slope(message: SharedGradient, weight: str, bias: str | None, features: Numbers) -> Numbers:
    """mean_b (p_bc − y_bc) of each class c, by the part of the last layer that tells it best."""
    if isinstance(message.sharing, NoisyStep) and message.sharing.noise_multiplier > 0:
        total = message.gradients[weight] @ features
        total = total if bias is None else total + message.gradients[bias]
        noisy: Numbers = total / (float(features @ features) + (bias is not None))
        return noisy
    if bias is not None:
        return message.gradients[bias]
    exact: Numbers = message.gradients[weight].sum(axis=1) / max(float(features.sum()), 1e-30)
    return exact


def count_labels(slope: Numbers, mean_confidence: Numbers, examples: int) -> Labels:
    """Labels by largest remainder: each goes to the class whose estimated count is least used up.

    >>> count_labels(np.array([0.1, -0.4, 0.3]), np.array([0.35, 0.35, 0.3]), 4).tolist()
    [0, 1, 1, 1]
    """
    left = examples * (mean_confidence - slope)
    if examples == 1:
        return np.array([int(np.argmin(slope))], dtype=np.int64)
    labels = []
    for _ in range(examples):
        chosen = int(np.argmax(left))
        left[chosen] -= 1.0
        labels.append(chosen)
    return np.array(sorted(labels), dtype=np.int64)


def _steps(message: SharedGradient) -> float:
    sharing = message.sharing
    if isinstance(sharing, LocalSteps):
        return sharing.epochs * message.examples / sharing.batch_size
    return 1.0


def _find_last_layer(model: PublicModel) -> tuple[str, str | None]:
    """The names of the last matrix with one row for each class, and of its bias."""
    shapes = {name: tuple(value.shape) for name, value in model.weights.items()}
    matrices = [name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == model.classes]
    if not matrices or model.classes < 2 or model.gives is not Outputs.LOGITS:
        raise InvalidArgument(
            "'model' must end in a linear layer with one logit for each of two classes or more, got another "
            "end. Give the labels to the attack instead."
        )
    weight = matrices[-1]
    bias = f"{weight.removesuffix('weight')}bias"
    return weight, bias if shapes.get(bias) == (model.classes,) else None


def _mean_confidence(
    model: PublicModel, weight: str, public: Rows | None, seed: int
) -> tuple[Numbers, Numbers]:
    """The mean confidence over public inputs, and the mean of the last layer's inputs."""
    if public is None:
        rows = torch.rand(
            (_GUESSES, *model.shape), generator=torch.Generator().manual_seed(seed)
        )  # tokens: all 0
    else:
        rows = torch.tensor(np.asarray(public))
    seen: list[torch.Tensor] = []
    layer = model.module.get_submodule(weight.rpartition(".")[0])
    hook = layer.register_forward_pre_hook(lambda _layer, inputs: seen.append(inputs[0].detach()))
    try:
        with torch.no_grad():
            confidences = model.predict(rows.to(model.device, model.input_type)).softmax(dim=1).mean(dim=0)
    finally:
        hook.remove()
    features: Numbers = torch.cat([part.flatten(1) for part in seen]).mean(dim=0).double().cpu().numpy()
    numbers: Numbers = confidences.double().cpu().numpy()
    return numbers, features
