"""The objective of a step: the model and the loss in the form that the engine calls.

The engine calls ``loss(model(*inputs), targets)`` with tensors. Here keywords, variants of an example, and
models that compute their own loss are brought into that form.
"""

from typing import final

from torch import Tensor, nn

from privet.training.extras.augmentation import Augmentation, FlattenVariants, average_over_variants
from privet.training.loop.losses import PerExampleLoss, TorchLoss, as_per_example_loss
from privet.training.loop.model_calls import prepare_call
from privet.training.loop.own_losses import OwnLoss

__all__ = ["Objective"]


@final
class Objective:
    """A model and its loss. Without a loss the model computes its own."""

    def __init__(
        self,
        model: nn.Module,
        loss: TorchLoss | None,
        input_names: tuple[str, ...] | None,
        augmentation: Augmentation | None,
    ) -> None:
        self._own = OwnLoss(model, input_names) if loss is None else None
        self._called = prepare_call(model, input_names)
        self._given, self._augmentation = loss, augmentation
        self._per_example = None if loss is None else as_per_example_loss(loss)
        self._build()

    def _build(self) -> None:
        self.model = self._called if self._own is None else self._own.module
        self.loss: PerExampleLoss = self._own.loss if self._own is not None else self._get_per_example()
        self.original_loss: object = self._given if self._own is None else self.loss
        if self._augmentation is not None:
            self.model = FlattenVariants(self.model)
            self.loss = average_over_variants(self.loss, self._augmentation.copies)
            self.original_loss = self.loss

    def _get_per_example(self) -> PerExampleLoss:
        assert self._per_example is not None
        return self._per_example

    def check(self, inputs: tuple[Tensor, ...], targets: Tensor) -> bool:
        """Check the model's own loss on the first examples. Return whether the engine must start again."""
        if self._own is None or self._own.is_checked or not len(targets):
            return False
        module = self._own.module
        self._own.check(inputs, targets)
        if self._own.module is module:
            return False
        self._build()
        return True

    def extend(self, inputs: tuple[Tensor, ...], targets: Tensor) -> tuple[Tensor, ...]:
        """The inputs of the engine's model."""
        return inputs if self._own is None else self._own.extend(inputs, targets)

    def rename(self, groups: list[list[str]] | None, names: tuple[str, ...]) -> list[list[str]] | None:
        """Groups of the user's parameter names, by the names of the engine's model."""
        if groups is None:
            return None
        inner = [name for name, p in self.model.named_parameters() if p.requires_grad]
        by_name = dict(zip(names, inner, strict=True))
        return [[by_name[name] for name in group] for group in groups]
