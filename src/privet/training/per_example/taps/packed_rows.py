"""Packed sequences in a recurrent layer: padded, in the order of the examples, and packed again.

A packed sequence holds the rows of all sequences that are still running, time step by time step, from the
longest sequence to the shortest. A tap needs rows that belong to examples, so it pads them, and puts the
sequences back into their order. Behind the end of a sequence the gates are set so that the state stays as it
is. No gradient comes from there.
"""

from typing import final

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

__all__ = ["PackedRows", "find_hold"]

HELD = 60.0
"""A gate with this argument is open to the last bit; with the opposite one it is closed to 1e-26."""


def find_hold(weight: Tensor, bias: Tensor | None = None) -> float:
    """An argument for gates that no state can change by W h + b: states are between −1 and 1."""
    largest = weight.detach().abs().sum(1)
    return HELD + float((largest if bias is None else largest + bias.detach().abs()).amax())


@final
class PackedRows:
    """Where the rows of a packed sequence are among the padded ones."""

    __slots__ = ("_backwards", "_forwards", "_packed", "batch", "ends", "is_padding", "times")

    def __init__(self, packed: PackedSequence) -> None:
        sizes, device = packed.batch_sizes, packed.data.device
        self._packed = packed
        self.times, self.batch = len(sizes), int(sizes[0])
        step = torch.arange(self.times).repeat_interleave(sizes)
        starts = torch.cumsum(sizes, 0) - sizes
        ranks = torch.arange(len(step)) - starts[step]  # among the sequences, from the longest
        lengths = (sizes.unsqueeze(1) > torch.arange(self.batch)).sum(0)
        order = packed.sorted_indices
        example = (torch.arange(self.batch) if order is None else order.cpu())[ranks]
        self._forwards = (example * self.times + step).to(device)
        self._backwards = (example * self.times + lengths[ranks] - 1 - step).to(device)
        by_example = torch.empty_like(lengths)
        by_example[example] = lengths[ranks]
        self.ends = (by_example - 1).to(device)  # the last step of each example
        self.is_padding = (
            torch.arange(self.times, device=device).unsqueeze(1) > self.ends
        )  # [times, examples]

    def unpack(self, rows: Tensor, backwards: bool) -> Tensor:
        """[examples, times, …], from the first step to the last or from the last to the first."""
        places = self._backwards if backwards else self._forwards
        padded = rows.new_zeros(self.batch * self.times, rows.shape[1]).index_copy(0, places, rows)
        return padded.view(self.batch, self.times, -1)

    def pack(self, padded: Tensor, backwards: bool) -> Tensor:
        """The packed rows, from [examples, times, …]."""
        places = self._backwards if backwards else self._forwards
        return padded.flatten(0, 1).index_select(0, places)

    def hold(self, gates: Tensor, held: Tensor) -> Tensor:
        """The gates [examples, times, …] as [times, examples, …], with ``held`` behind the ends."""
        return torch.where(self.is_padding.unsqueeze(2), held, gates.transpose(0, 1)).contiguous()

    def take_last(self, states: Tensor) -> Tensor:
        """The states [times, examples, …] at the last step of each example."""
        return states[self.ends, torch.arange(self.batch, device=states.device)]

    def repack(self, rows: Tensor) -> PackedSequence:
        """A packed sequence like the given one, with other rows."""
        packed = self._packed
        return PackedSequence(rows, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
