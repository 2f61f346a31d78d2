"""Early stopping: a part of a model's own records is held out, and training ends when their loss stops
falling.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.arguments import at_least, open_fraction, whole
from privet.attacks.outputs import Outputs
from privet.attacks.torch_inputs import ModelInputs, call_module, map_inputs
from privet.attacks.torch_outputs import row_losses

__all__ = ["EarlyStopping", "StoppingRule"]

_STREAM = 4  # other random choices of a model have other numbers
_ROWS = 1024


@final
@dataclass(frozen=True, kw_only=True)
class EarlyStopping:
    """End the training when the loss on held-out records has not fallen for ``patience`` epochs.

    ``share`` of the model's own records are held out, drawn by its seed. They are members all the same: they
    were given to the training, and decide when it ends. With ``restore`` the model gets back the weights of
    its best epoch. A loss counts as lower where it is lower by more than ``least``.
    """

    patience: int = 5
    share: float = 0.1
    least: float = 0.0
    restore: bool = True

    def __post_init__(self) -> None:
        whole("patience", self.patience)
        open_fraction("share", self.share)
        at_least("least", self.least, 0)

    def split(self, members: NDArray[np.intp], seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The records to train on, and those to hold out; nothing is held out of a single record."""
        count = min(len(members) - 1, max(1, round(self.share * len(members))))
        order = np.random.default_rng([seed, _STREAM]).permutation(len(members))
        return np.sort(members[order[count:]]), np.sort(members[order[:count]])


@final
class StoppingRule:
    """The early stopping of one model during its training."""

    def __init__(
        self,
        rule: EarlyStopping,
        inputs: ModelInputs,
        labels: Tensor,
        held_out: NDArray[np.intp],
        gives: Outputs,
    ) -> None:
        self._rule, self._inputs, self._labels, self._gives = rule, inputs, labels, gives
        self._held_out = torch.from_numpy(held_out)
        self._best, self._waited = float("inf"), 0
        self._weights: dict[str, Tensor] = {}

    def ends(self, module: nn.Module) -> bool:
        """Whether the training ends after this epoch."""
        if not len(self._held_out):
            return False
        loss = self._loss(module)
        if loss < self._best - self._rule.least:
            self._best, self._waited = loss, 0
            if self._rule.restore:
                self._weights = {name: value.clone() for name, value in module.state_dict().items()}
            return False
        self._waited += 1
        return self._waited >= self._rule.patience

    def finish(self, module: nn.Module) -> None:
        """Give the model the weights of its best epoch, where that was asked for."""
        if self._weights:
            module.load_state_dict(self._weights)

    def _loss(self, module: nn.Module) -> float:
        module.eval()
        total = 0.0
        with torch.no_grad():
            for rows in torch.split(self._held_out, _ROWS):
                batch = map_inputs(lambda part, rows=rows: part[rows], self._inputs)  # type: ignore[misc]
                output = call_module(module, batch)
                total += float(row_losses(output, self._labels[rows], self._gives).sum())
        module.train()
        return total / len(self._held_out)
