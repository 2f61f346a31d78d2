"""Views: what an adversary sees of a model. An attack reaches the model only through a view.

A wider view can be narrowed, but never widened: ``LabelOnly`` ⊂ ``BlackBox`` ⊂ ``WhiteBox``. An attack says
which view its adversary has, and gets exactly that view.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls

__all__ = [
    "Adversary",
    "BlackBox",
    "LabelOnly",
    "Labels",
    "Numbers",
    "Rows",
    "WhiteBox",
    "confidence_logits",
    "narrow_view",
]

Rows = NDArray[np.generic]  # one record on each row; any type and shape that the model takes
Labels = NDArray[np.int64]
Numbers = NDArray[np.float64]


@final
@dataclass(frozen=True, kw_only=True)
class Adversary:
    """Who attacks: what they see of the target, what they know besides, and what they want to learn."""

    sees: str
    knows: str
    wants: str


class LabelOnly(ABC):
    """The predicted class, and nothing else."""

    @abstractmethod
    def labels(self, inputs: Rows) -> Labels:
        """The predicted class of every row."""


class BlackBox(LabelOnly):
    """The confidence in every class."""

    @abstractmethod
    def log_confidences(self, inputs: Rows) -> Numbers:
        """The natural logarithm of the confidences, rows × classes.

        Logarithms keep the digits of confidences near 1, and of tiny ones.
        """

    def confidences(self, inputs: Rows) -> Numbers:
        """The confidences, rows × classes."""
        return np.exp(self.log_confidences(inputs))

    def labels(self, inputs: Rows) -> Labels:
        answer: Labels = np.argmax(self.log_confidences(inputs), axis=1).astype(np.int64)
        return answer


class WhiteBox(BlackBox):
    """The parameters, with activations and gradients of every layer."""

    @property
    @abstractmethod
    def layers(self) -> tuple[str, ...]:
        """The names of the layers that have parameters, from the input to the output."""

    @abstractmethod
    def gradient_norms(self, inputs: Rows, labels: Labels) -> Numbers:
        """‖∂ loss / ∂ parameters‖₂ of every row and layer, rows × layers."""

    @abstractmethod
    def gradients(self, inputs: Rows, labels: Labels, layer: str) -> Numbers:
        """The gradient of each row's loss with respect to one layer's parameters, rows × parameters."""

    @abstractmethod
    def activations(self, inputs: Rows, layer: str) -> Numbers:
        """The output of one layer for every row, flattened, rows × units."""

    @abstractmethod
    def input_gradients(self, inputs: Rows, labels: Labels) -> tuple[Numbers, Numbers]:
        """ln p of each row's label, and its gradient with respect to the row, of the shape of ``inputs``."""


@final
@dataclass(frozen=True)
class _Labels(LabelOnly):
    """A wider view, narrowed to its labels."""

    _answer: Callable[[Rows], Labels]

    def labels(self, inputs: Rows) -> Labels:
        return self._answer(inputs)


@final
@dataclass(frozen=True)
class _Confidences(BlackBox):
    """A wider view, narrowed to its confidences."""

    _answer: Callable[[Rows], Numbers]

    def log_confidences(self, inputs: Rows) -> Numbers:
        return self._answer(inputs)


def narrow_view(view: LabelOnly, to: type[LabelOnly]) -> LabelOnly:
    """The view narrowed to the type ``to``; a view that is too narrow is refused."""
    if not isinstance(view, to):
        raise InvalidArgument(
            f"'view' must be a {to.__name__}, got a {type(view).__name__}, which shows less than this "
            f"adversary sees. Give a wider view of the target, or take an attack that needs less."
        )
    if isinstance(view, WhiteBox) and to is WhiteBox:
        return view
    if isinstance(view, BlackBox) and to is BlackBox:
        return _Confidences(view.log_confidences)
    return _Labels(view.labels)


def confidence_logits(log_confidences: Numbers, labels: Labels, temperature: float = 1.0) -> Numbers:
    """φ = ln(p/(1−p)) of the confidence p in the given label, computed so that p near 1 keeps its digits.

    At a ``temperature`` T above 1 the confidences are softened first: each becomes p^(1/T), divided by their
    sum, which is the softmax of the logits divided by T.

    Reference: Carlini et al. 2022, section V-A (its stable form). All other signals of this confidence follow
    from φ: p = 1/(1 + e^−φ), and the loss −ln p = ln(1 + e^−φ).

    >>> confidences = np.log(np.array([[0.9, 0.1], [0.5, 0.5]]))
    >>> confidence_logits(confidences, np.array([0, 0])).round(4).tolist()
    [2.1972, 0.0]
    >>> confidence_logits(confidences, np.array([0, 0]), temperature=2.0).round(4).tolist()
    [1.0986, 0.0]
    """
    rows = np.arange(len(labels))
    of_label = log_confidences[rows, labels]
    others = log_confidences / temperature
    others[rows, labels] = -np.inf
    top = others.max(axis=1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        rest = np.log(np.exp(others - top).sum(axis=1)) + top[:, 0]
    # The others add up to 1 at most, and their roots to (classes − 1)^(1 − 1/T) at most, by Hölder.
    most = (1.0 - 1.0 / temperature) * np.log(max(others.shape[1] - 1, 1))
    phi: Numbers = np.clip(of_label, -745.0, 0.0) / temperature - np.clip(rest, -745.0 / temperature, most)
    return phi


check_public_calls(__name__)
