"""Class prototypes as an audit runs them: by gradients where the view allows it, else by confidences."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privet.attacks.inversion.prototypes.game import PrototypeGame
from privet.attacks.inversion.prototypes.panel import JudgePanel
from privet.attacks.inversion.prototypes.priors import PCAPrior, PixelPrior
from privet.attacks.inversion.prototypes.search import ConfidencePrototype, GradientPrototype, PrototypeAttack
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.scores import Bits, Records
from privet.views import BlackBox, LabelOnly, Labels, Numbers, Rows, WhiteBox

__all__ = ["AuditedPrototypes"]


@final
@dataclass(frozen=True, eq=False)
class AuditedPrototypes:
    """Draws every class of the members, and has a panel judge that learnt from records left out and public
    ones.

    The blind guess of a class is the mean of its public pictures; where the public has none, the mean of all
    of them. ``sample_shape`` is the shape of one picture where the records are flat rows.
    """

    records: Records
    public: Records
    sample_shape: tuple[int, ...] | None = None
    seed: int = 0

    def run(self, view: LabelOnly, members: Bits) -> Recoveries:
        """A picture for every class, judged beside the blind guess. All of these classes were in the data."""
        labels = self.records.known_labels
        if self.public.labels is None:
            raise InvalidArgument(
                "'public' must have labels for class prototypes, got none. Give (inputs, labels) of public "
                "pictures."
            )
        pictures, public = (self._reshape(part.inputs) for part in (self.records, self.public))
        classes = np.unique(labels[members])
        panel = JudgePanel.learn(
            np.concatenate([pictures[~members], public]),
            np.concatenate([labels[~members], self.public.labels]),
        )
        game = PrototypeGame(
            classes,
            panel,
            public,
            np.stack([pictures[members & (labels == number)][0] for number in classes]),
            np.stack([_guess(public, self.public.labels, number) for number in classes]),
        )
        shown = view if self.sample_shape is None else _flatten_inputs(view)
        return game.play(self._attack(shown, public), shown, classes).recoveries

    def _attack(self, view: LabelOnly, public: Numbers) -> PrototypeAttack:
        if isinstance(view, WhiteBox):
            return GradientPrototype(PixelPrior.mean(public))
        return ConfidencePrototype(PCAPrior.learn(public), seed=self.seed)

    def _reshape(self, inputs: Rows) -> Numbers:
        shape = inputs.shape[1:] if self.sample_shape is None else self.sample_shape
        if int(np.prod(shape)) != int(np.prod(inputs.shape[1:])):
            raise InvalidArgument(
                f"'sample_shape' must have as many numbers as a record, {int(np.prod(inputs.shape[1:]))}, "
                f"got {shape}. Give the height and width of one picture."
            )
        pictures: Numbers = np.asarray(inputs.reshape(len(inputs), *shape), dtype=np.float64)
        return pictures


def _guess(public: Numbers, labels: Labels, number: int) -> Numbers:
    same = labels == number
    mean: Numbers = public[same if same.any() else slice(None)].mean(axis=0)
    return mean


def _flatten_inputs(view: LabelOnly) -> LabelOnly:
    if isinstance(view, WhiteBox):
        return _FlatGradients(view)
    if isinstance(view, BlackBox):
        return _FlatConfidences(view)
    return view


@final
@dataclass(frozen=True)
class _FlatConfidences(BlackBox):
    """A view that takes flat rows, given pictures."""

    view: BlackBox

    def log_confidences(self, inputs: Rows) -> Numbers:
        return self.view.log_confidences(inputs.reshape(len(inputs), -1))


@final
@dataclass(frozen=True)
class _FlatGradients(WhiteBox):
    """A white-box view that takes flat rows, given pictures."""

    view: WhiteBox

    @property
    def layers(self) -> tuple[str, ...]:
        return self.view.layers

    def log_confidences(self, inputs: Rows) -> Numbers:
        return self.view.log_confidences(inputs.reshape(len(inputs), -1))

    def gradient_norms(self, inputs: Rows, labels: Labels) -> Numbers:
        return self.view.gradient_norms(inputs.reshape(len(inputs), -1), labels)

    def gradients(self, inputs: Rows, labels: Labels, layer: str) -> Numbers:
        return self.view.gradients(inputs.reshape(len(inputs), -1), labels, layer)

    def activations(self, inputs: Rows, layer: str) -> Numbers:
        return self.view.activations(inputs.reshape(len(inputs), -1), layer)

    def input_gradients(self, inputs: Rows, labels: Labels) -> tuple[Numbers, Numbers]:
        values, gradients = self.view.input_gradients(inputs.reshape(len(inputs), -1), labels)
        return values, gradients.reshape(inputs.shape)
