"""Inversion of what DP-SGD publishes: a clipped gradient with noise on it.

The first linear layer's gradient is M = δ (x, 1)ᵀ plus noise of standard deviation s in each of its m × n
entries. Three adversaries differ in what they know of δ:

- ``RankOne`` knows nothing: the leading right singular vector of M is the best guess of (x, 1) (Eckart &
  Young 1936). It emerges from the noise while ‖δ‖‖(x, 1)‖ > s (mn)^¼ (Baik, Ben Arous & Péché 2005). The
  noise of all entries is in its way.
- ``ExpectedSignal`` takes the mean δ̄ over public inputs with the label that the last layer tells, and
  answers δ̄ᵀM. The noise of one row is in its way: it lasts several times longer.
- ``CandidateTest`` also has a list of candidates. It computes the gradient that each would have given and
  takes the most likely one, so the noise of one direction is in its way. This is the adversary whom the
  ceiling of the proof is about (Balle, Cherubin & Hayes 2022, definition 2; Hayes, Mahloujifar & Balle 2023,
  section 4).

"The attack fails at this noise" is said of the attack that was tried: the third succeeds at ten times the
noise that stops the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, final

import numpy as np

from privet.attacks.inversion.gradients.attack import GradientInversion, Reconstructions, check_messages
from privet.attacks.inversion.gradients.labels import recover_labels
from privet.attacks.inversion.gradients.linear_layer import bias_gradients, find_first_layer
from privet.attacks.inversion.gradients.public_model import PublicModel
from privet.errors import InvalidArgument
from privet.shared_gradients import NoisyStep, SharedGradient
from privet.views import Adversary, Labels, Numbers, Rows

__all__ = ["CandidateTest", "ExpectedSignal", "RankOne"]


@final
@dataclass(frozen=True, eq=False)
class RankOne(GradientInversion):
    """The leading singular vector of the first linear layer's gradient, for messages of one example.

    *Adversary*: sees one noisy gradient; knows the model and public inputs; wants the input.

    The sign and, where the bias is lost in the noise, the size come from the mean of ``public``.

    *Reference*: the rank-one form of Phong et al. 2018 with Eckart & Young's best approximation.
    """

    public: Rows

    name = "rank one"
    adversary = Adversary(
        sees="the noisy gradient of one example",
        knows="the model, whose first layer is linear with a bias, and public inputs",
        wants="the input behind the gradient",
    )

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        _require_single(check_messages(shared))
        layer = find_first_layer(model)
        model.read(shared)
        mean = _read_public(self.public, model).mean(axis=0).ravel()
        inputs, confidence = [], []
        for message in shared:
            weight, bias = message.gradients[f"{layer}.weight"], message.gradients[f"{layer}.bias"]
            row, sure = _leading_row(np.concatenate([weight, bias[:, None]], axis=1), mean)
            inputs.append(row)
            confidence.append(sure)
        rows = np.array(inputs).reshape(len(shared), 1, *model.shape)
        labels = recover_labels(model, shared, public=self.public)
        return Reconstructions(rows, labels, np.array(confidence)[:, None])


@final
@dataclass(frozen=True, eq=False)
class ExpectedSignal(GradientInversion):
    """δ̄ᵀM: the first linear layer's gradient, read along the signal that public inputs of the same label
    would send.

    *Adversary*: sees one noisy gradient; knows the model and public inputs; wants the input.

    The label is the one that the last layer tells. The size of the answer is that of the mean public input,
    because the noise hides the bias; identification does not depend on it. The confidence is the answer's
    length in units of the noise.

    *Reference*: a matched filter on the rank-one form of Phong et al. 2018. We know of no earlier
    description.
    """

    public: Rows

    name = "expected signal"
    adversary = RankOne.adversary

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        _require_single(check_messages(shared))
        layer = find_first_layer(model)
        model.read(shared)
        public = _read_public(self.public, model)
        labels = recover_labels(model, shared, public=self.public)
        signals = bias_gradients(model, layer, public.reshape(len(public), -1)).mean(
            axis=0
        )  # classes × neurons
        length = float(np.linalg.norm(public.mean(axis=0)))
        inputs, confidence = [], []
        for message, label in zip(shared, labels[:, 0], strict=True):
            signal = signals[label] / max(float(np.linalg.norm(signals[label])), 1e-300)
            row = signal @ message.gradients[f"{layer}.weight"]
            size = float(np.linalg.norm(row))
            inputs.append(row * length / max(size, 1e-300))
            confidence.append(size / _deviation(message))
        rows = np.array(inputs).reshape(len(shared), 1, *model.shape)
        return Reconstructions(rows, labels, np.array(confidence)[:, None])


@final
@dataclass(frozen=True, eq=False)
class CandidateTest(GradientInversion):
    """The candidate whose gradient makes the shared one most likely, for messages of one example.

    *Adversary*: sees one noisy gradient; knows the model and a list of candidates with their labels, one of
    which is the truth; wants to know which.

    For Gaussian noise the likelihood is largest where ⟨g̃, g⟩ − ‖g‖²/2 is, with g the candidate's clipped
    gradient. With a uniform prior over the list, no test names the truth more often (the Bayes rule). The
    confidence is the lead over the next.

    Where the batch has other examples that the adversary knows, subtract their clipped gradients first.

    *Reference*: Hayes, Mahloujifar & Balle 2023, section 4.2 (prior-aware attack), on one step.
    """

    candidates: Rows
    labels: Labels

    name = "candidate test"
    adversary = Adversary(
        sees="the noisy gradient of one example",
        knows="the model, and candidates with their labels, one of which is the truth",
        wants="which candidate is behind the gradient",
    )

    def __post_init__(self) -> None:
        if len(self.candidates) < 2 or len(self.candidates) != len(self.labels):
            raise InvalidArgument(
                f"'candidates' must be at least two inputs with one label each, got {len(self.candidates)} "
                f"and {len(self.labels)} labels. Give the list that the truth is on."
            )

    def recover(self, model: PublicModel, shared: Sequence[SharedGradient]) -> Reconstructions:
        _require_single(check_messages(shared))
        messages = {name: value.flatten(1) for name, value in model.read(shared).items()}
        sharing = shared[0].sharing
        clip = sharing.clip if isinstance(sharing, NoisyStep) else np.inf
        products, sizes = [], []
        for part in model.per_example(self.candidates, self.labels):
            flat = {name: value.flatten(1) for name, value in part.items()}
            norms = sum(value.square().sum(dim=1).double() for value in flat.values())
            length = cast(Numbers, np.sqrt(np.asarray(norms)))
            scale = np.minimum(1.0, clip / np.maximum(length, 1e-300))
            inner = sum((messages[name] @ flat[name].T).double() for name in flat)
            products.append(np.asarray(inner) * scale)
            sizes.append(np.square(length * scale))
        scores = np.concatenate(products, axis=1) - 0.5 * np.concatenate(sizes)
        best = scores.argmax(axis=1)
        top = np.sort(scores, axis=1)
        rows = np.asarray(self.candidates, dtype=np.float64)[best]
        return Reconstructions(
            rows[:, None], np.asarray(self.labels)[best][:, None], (top[:, -1] - top[:, -2])[:, None]
        )


def _leading_row(table: Numbers, mean: Numbers) -> tuple[Numbers, float]:
    """The input behind the leading singular vector of neurons × (inputs + 1), and how far it stands out."""
    gram = table.T @ table if len(table) >= table.shape[1] else table @ table.T
    values, vectors = np.linalg.eigh(gram)
    vector = vectors[:, -1] if len(table) >= table.shape[1] else table.T @ vectors[:, -1]
    vector = vector / max(float(np.linalg.norm(vector)), 1e-300)
    row, last = vector[:-1], float(vector[-1])
    if row @ mean < 0:
        row, last = -row, -last
    expected = 1.0 / np.sqrt(1.0 + float(mean @ mean))  # the last entry of a typical input
    scale = last if 0.5 * expected < last < 2.0 * expected else expected
    return row / scale, float(np.sqrt(max(values[-1], 0.0) / max(values[-2], 1e-300)))


def _deviation(message: SharedGradient) -> float:
    sharing = message.sharing
    noise = sharing.clip * sharing.noise_multiplier if isinstance(sharing, NoisyStep) else 0.0
    return max(noise, 1e-12)


def _read_public(public: Rows, model: PublicModel) -> Numbers:
    rows = np.asarray(public, dtype=np.float64)
    if rows.shape[1:] != model.shape or not len(rows):
        raise InvalidArgument(
            f"'public' must be inputs of shape {model.shape}, got an array of shape {rows.shape}. Give "
            f"inputs of other people."
        )
    return rows


def _require_single(shared: Sequence[SharedGradient]) -> None:
    if shared[0].examples != 1:
        raise InvalidArgument(
            f"'shared' must be messages of one example, got {shared[0].examples}. Subtract the gradients of "
            f"the examples that the adversary knows, or take InvertingGradients."
        )
