"""In which order a model sees its members: one definition for every engine.

Each epoch is a new permutation of the members, cut into batches; the last batch of an epoch is smaller where the numbers
do not divide. A last batch of a single record is left out of that epoch, because batch statistics need two. A model with
fewer members has fewer steps, and is done earlier: nothing is wrapped, repeated or padded in what it learns from.
"""

from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument

__all__ = ["Order"]

_STREAM = 2  # beside the stream of the first weights and that of the split


@final
class Order:
    """The batches of one model, step by step. Epochs are drawn when they are reached, forwards only."""

    def __init__(self, members: NDArray[np.intp], *, epochs: int, batch_size: int, seed: int) -> None:
        if len(members) == 0:
            raise InvalidArgument(
                "'members' must hold at least one record for each model, got none. Give more records."
            )
        self._rows, self._size = members, batch_size
        self._random = np.random.default_rng([seed, _STREAM])
        whole, rest = divmod(len(members), batch_size)
        alone = rest == 1 and whole > 0 and batch_size > 1
        self.members = len(members)
        self.each = whole + (rest > 0 and not alone)
        self.steps = epochs * self.each
        self._sorted, self._epoch = members, -1

    def epoch(self, number: int) -> NDArray[np.intp]:
        """The members in the order of one epoch."""
        while self._epoch < number:
            self._rows = self._sorted[self._random.permutation(self.members)]
            self._epoch += 1
        return self._rows

    def batch(self, step: int) -> NDArray[np.intp]:
        """The records of one step."""
        epoch, place = divmod(step, self.each)
        return self.epoch(epoch)[place * self._size : (place + 1) * self._size]

    def size(self, step: int) -> int:
        """How many records that batch has; 0 when all steps are done."""
        if step >= self.steps:
            return 0
        return min(self._size, self.members - step % self.each * self._size)
