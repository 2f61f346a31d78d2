"""Exact inversion through a first linear layer with a bias.

For z = W x + b and one example, ∂L/∂W = δ xᵀ and ∂L/∂b = δ, so each row of the first divided by the same
entry of the second *is* x (Phong et al. 2018, section 3). In a batch, a neuron that only one example
activates still shows that example by itself; a neuron that several activate shows a mixture. Nobody tells the
adversary which is which, and nobody has to:

- a row that two neurons show is hardly a mixture, because mixtures have weights of their own in every neuron;
- the model is public, so the adversary computes which δ the row would have with each label. For a mixture it
  does not fit.

A row that passes has its label too, so its whole gradient is known. It is subtracted, which leaves the
gradient of a smaller batch: neurons that showed a mixture of two now show the other one. This is repeated
until nothing more is found.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import vmap

from privet.arguments import positive
from privet.attacks.inversion.gradients.attack import GradientInversion, Reconstructions, check_messages
from privet.attacks.inversion.gradients.labels import recover_labels
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.shared_gradients import OneStep, SharedGradient
from privet.views import Adversary, Labels, Numbers

__all__ = ["FirstLayer", "bias_gradients", "find_first_layer"]

_AGREEMENT = 3e-5  # relative distance of rows that two neurons show; float32 gives about 1e-6


@final
@dataclass(frozen=True, eq=False)
class FirstLayer(GradientInversion):
    """Divides the rows of the first layer's gradient by its bias gradient, keeps what is verified, subtracts,
    repeats.

    *Adversary*: sees one shared gradient; knows the model; wants the examples.

    A row is verified if its replayed bias gradient agrees with the shared one within ``tolerance``, and
    another neuron shows the same row. Rows that were not found are NaN: the attack does not guess. The
    confidence is the number of neurons that showed the row. After several local steps only agreement counts,
    and nothing is subtracted, because the weights on the way are not known; what one example alone does to a
    neuron is still a multiple of its row.

    *Reference*: Phong, Aono, Hayashi, Wang & Moriai 2018; batches as in Boenisch et al. 2023, section 4,
    which takes the sparsity of ReLU for granted. Deviations: no oracle says which rows are pure; verified
    rows are subtracted.
    """

    tolerance: float = 1e-3

    name = "first layer"
    adversary = Adversary(
        sees="the gradient that a participant shared",
        knows="the model, whose first layer is linear with a bias, and the number of examples",
        wants="the examples behind the gradient",
    )

    def __post_init__(self) -> None:
        positive("tolerance", self.tolerance)

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        check_messages(shared)
        layer = find_first_layer(model)
        model.read(shared)
        examples = shared[0].examples
        inputs = np.full((len(shared), examples, int(np.prod(model.shape))), np.nan)
        confidence = np.zeros((len(shared), examples))
        labels = np.zeros((len(shared), examples), dtype=np.int64)
        for place, message in enumerate(shared):
            weight, bias = message.gradients[f"{layer}.weight"], message.gradients[f"{layer}.bias"]
            if isinstance(message.sharing, OneStep):
                rows, counts, found = self._peel(model, layer, weight, bias, examples)
            else:
                rows, counts = _agreed_rows(weight, bias, 1 if examples == 1 else 2)
                found = np.full(len(rows), -1, dtype=np.int64)
            rows, counts, found = rows[:examples], counts[:examples], found[:examples]
            inputs[place, : len(rows)], confidence[place, : len(rows)] = rows, counts
            labels[place] = _complete_labels(recover_labels(model, [message])[0], found, examples)
        return Reconstructions(inputs.reshape(len(shared), examples, *model.shape), labels, confidence)

    def _peel(
        self, model: PublicModel, layer: str, weight: Numbers, bias: Numbers, examples: int
    ) -> tuple[Numbers, Numbers, Labels]:
        """Verified rows, their witnesses and labels; each is subtracted before the next round."""
        weight, bias = weight * examples, bias * examples  # sums over the batch
        rows, counts = np.zeros((0, weight.shape[1])), np.zeros(0)
        labels = np.zeros(0, dtype=np.int64)
        floor = 1e-6 * float(np.abs(bias).max())  # what float32 leaves of a bias gradient that was subtracted
        while len(rows) < examples:
            needed = 1 if examples - len(rows) == 1 else 2
            fresh, votes = _agreed_rows(weight, bias, needed, floor)
            if not len(fresh):
                break
            replayed = bias_gradients(model, layer, fresh)  # rows × classes × neurons
            shown = _shows(weight, bias, fresh, floor)  # rows × neurons
            gaps = np.abs(replayed - bias) / np.maximum(np.abs(bias), floor)
            fits = np.where(shown[:, None], gaps, 0.0).max(axis=2)
            best, chosen = fits.min(axis=1), fits.argmin(axis=1)
            good = np.flatnonzero(best <= self.tolerance)[: examples - len(rows)]
            if not len(good):
                break
            slopes = replayed[good, chosen[good]]
            weight, bias = weight - slopes.T @ fresh[good], bias - slopes.sum(axis=0)
            rows, counts = np.concatenate([rows, fresh[good]]), np.concatenate([counts, votes[good]])
            labels = np.concatenate([labels, chosen[good]])
        return rows, counts, labels


def find_first_layer(model: PublicModel) -> str:
    """The name of the linear layer that takes the whole input; a model without one is refused."""
    width = int(np.prod(model.shape))
    for name, part in model.module.named_modules():
        if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Embedding):
            break
        if isinstance(part, nn.Linear):
            if part.in_features == width and part.bias is not None:
                return name
            break
    raise InvalidArgument(
        f"'model' must start with a linear layer that takes all {width} inputs and has a bias, got another "
        f"start. Take DeepLeakage or InvertingGradients instead."
    )


def _complete_labels(counted: Labels, found: Labels, examples: int) -> Labels:
    """The labels of the rows that were found; the others get what the last layer's counts leave."""
    left = list(counted)
    for label in found:
        if label in left:
            left.remove(label)
    rest = iter(left)
    known = [int(label) if label >= 0 else int(next(rest)) for label in found]
    known += [int(next(rest, 0)) for _ in range(examples - len(known))]
    return np.array(known, dtype=np.int64)


def _agreed_rows(weight: Numbers, bias: Numbers, needed: int, floor: float = 0.0) -> tuple[Numbers, Numbers]:
    """Rows that at least ``needed`` neurons show, those with most witnesses first; and how many showed
    each."""
    active = np.abs(bias) > max(30.0 * floor, 1e-9 * float(np.abs(bias).max()), 1e-300)
    ratios, size = weight[active] / bias[active, None], np.abs(bias[active])
    if not len(ratios):
        return ratios, np.zeros(0)
    squares = np.square(ratios).sum(axis=1)
    gaps = np.maximum(squares[:, None] + squares[None, :] - 2.0 * ratios @ ratios.T, 0.0)
    round_off = _AGREEMENT + 10.0 * floor / size
    slack = np.square(np.maximum(round_off[:, None], round_off[None, :]))
    alike = gaps <= slack * np.maximum(np.minimum(squares[:, None], squares[None, :]), 1e-30)
    rows, counts = [], []
    free = np.ones(len(ratios), dtype=np.bool_)
    while free.any():
        votes = np.where(free, (alike & free).sum(axis=1), 0)
        first = int(votes.argmax())
        group = alike[first] & free
        if group.sum() < needed:
            break
        rows.append(ratios[group][size[group].argmax()])  # the largest bias gradient has the fewest errors
        counts.append(float(group.sum()))
        free &= ~group
    return np.array(rows).reshape(-1, ratios.shape[1]), np.array(counts)


def _shows(weight: Numbers, bias: Numbers, rows: Numbers, floor: float) -> NDArray[np.bool_]:
    """Which neurons show which row: rows × neurons."""
    size = np.maximum(np.abs(bias), 1e-300)
    ratios = weight / np.where(np.abs(bias) > 0, bias, 1.0)[:, None]
    gaps = np.linalg.norm(ratios[None] - rows[:, None], axis=2) / np.linalg.norm(rows, axis=1)[:, None]
    answer: NDArray[np.bool_] = (gaps <= _AGREEMENT + 10.0 * floor / size) & (np.abs(bias) > 30.0 * floor)
    return answer


def bias_gradients(model: PublicModel, layer: str, rows: Numbers) -> Numbers:
    """The first layer's bias gradient of each row with each label: rows × classes × neurons."""
    name, classes = f"{layer}.bias", max(2, model.classes)
    inputs = torch.tensor(rows, dtype=model.dtype, device=model.device).reshape(-1, *model.shape)
    labels = torch.arange(classes, device=model.device)
    single = model.replay_part([name])
    over_labels = vmap(
        lambda row, label: single(row.unsqueeze(0), label.unsqueeze(0))[name], in_dims=(None, 0)
    )
    answer: Numbers = vmap(over_labels, in_dims=(0, None))(inputs, labels).double().cpu().numpy()
    return answer
