"""In which order a model sees its members: one definition for every engine.

Each epoch is a new permutation of the members, cut into batches; the last batch of an epoch is smaller where
the numbers do not divide. A last batch of a single record is left out of that epoch, because batch statistics
need two records. A model with fewer members has fewer steps and is done earlier: no record is repeated to
fill up a batch.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument

__all__ = ["Order"]

_STREAM = 2  # the streams of the initial weights and of the split have other numbers


@final
class Order:
    """The batches of one model, step by step.

    An epoch is drawn when it is first asked for, and only forwards.
    """

    def __init__(self, members: NDArray[np.intp], *, epochs: int, batch_size: int, seed: int) -> None:
        if len(members) == 0:
            raise InvalidArgument(
                "'members' must hold at least one record for each model, got none. Give more records."
            )
        self._rows, self._size = members, batch_size
        self._random = np.random.default_rng([seed, _STREAM])
        full, rest = divmod(len(members), batch_size)
        alone = rest == 1 and full > 0 and batch_size > 1
        self.members = len(members)
        self.batches_per_epoch = full + (rest > 0 and not alone)
        self.steps = epochs * self.batches_per_epoch
        self._sorted, self._epoch = members, -1

    def epoch(self, number: int) -> NDArray[np.intp]:
        """The members in the order of one epoch."""
        while self._epoch < number:
            self._rows = self._sorted[self._random.permutation(self.members)]
            self._epoch += 1
        return self._rows

    def batch(self, step: int) -> NDArray[np.intp]:
        """The records of one step."""
        epoch, batch = divmod(step, self.batches_per_epoch)
        return self.epoch(epoch)[batch * self._size : (batch + 1) * self._size]

    def size(self, step: int) -> int:
        """The size of the batch of one step; 0 when all steps are done."""
        if step >= self.steps:
            return 0
        return min(self._size, self.members - step % self.batches_per_epoch * self._size)
