"""What the taps of recurrent layers share. The recurrences themselves are in ``recurrent`` and ``elman``."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from privet.torch_internals import get_weight_names
from privet.training.per_example.forms.gradient_form import GradientForm, OutputGradient
from privet.training.per_example.mixed_precision import full_precision, widen
from privet.training.per_example.taps.layers import build_linear_forms
from privet.training.per_example.taps.packed_rows import PackedRows
from privet.training.per_example.taps.tape import Tap, has_plain_parameters

__all__ = ["RecurrentTap"]


class RecurrentTap(Tap):
    """What all recurrent layers share: layers, directions, the batch axis, and packed sequences."""

    __slots__ = ()

    @staticmethod
    def supports(module: nn.Module) -> bool:
        assert isinstance(module, nn.RNNBase)
        return module.proj_size == 0 and has_plain_parameters(module, get_weight_names(module))

    @staticmethod
    def accepts(x: Any) -> bool:  # noqa: ANN401 - as torch
        """Whether the input has a batch axis."""
        return isinstance(x, PackedSequence) or (isinstance(x, Tensor) and x.dim() == 3)

    def run(self, x: Any, states: tuple[Tensor, ...] | None) -> tuple[Any, list[tuple[Tensor, ...]]]:  # noqa: ANN401
        """The outputs as the layer gives them, and the last states of each layer and direction."""
        module = self.module
        assert isinstance(module, nn.RNNBase)
        if isinstance(x, PackedSequence):
            rows = PackedRows(x)
            with full_precision(x.data.device):
                y, last = self._run_layers(x.data, states, rows)
            return rows.repack(y), last
        with full_precision(x.device):
            y, last = self._run_layers(_swap_batch(x, module.batch_first), states, None)
        return _swap_batch(y, module.batch_first), last

    def _run_layers(
        self, x: Tensor, states: tuple[Tensor, ...] | None, rows: PackedRows | None
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """The outputs [T, B, …] of the last layer, and the last states of each layer and direction.

        With ``rows``, inputs and outputs are packed.
        """
        module = self.module
        assert isinstance(module, nn.RNNBase)
        directions = 2 if module.bidirectional else 1
        dtype = next(iter(module.parameters())).dtype
        x = widen(x, dtype)
        states = None if states is None else tuple(widen(s, dtype) for s in states)
        last: list[tuple[Tensor, ...]] = []
        kinds = 2 if isinstance(module, nn.LSTM) else 1
        for layer in range(module.num_layers):
            outputs: list[Tensor] = []
            for direction in range(directions):
                number = layer * directions + direction
                if states is None:
                    batch = x.shape[1] if rows is None else rows.batch
                    start = (x.new_zeros(batch, module.hidden_size),) * kinds
                else:
                    start = tuple(s[number] for s in states)
                if rows is None:
                    y, end = self.run_direction(x.flip(0) if direction else x, start, number, None)
                    outputs.append(y.flip(0) if direction else y)
                else:
                    padded = rows.unpack(x, bool(direction))
                    y, end = self.run_direction(padded, start, number, rows)
                    outputs.append(rows.pack(y.transpose(0, 1), bool(direction)))
                last.append(end)
            x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
            if module.dropout and layer + 1 < module.num_layers:
                x = F.dropout(x, module.dropout, module.training)
        return x, last

    @abstractmethod
    def run_direction(
        self, x: Tensor, start: tuple[Tensor, ...], number: int, rows: PackedRows | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run one layer in one direction. Returns its outputs [T, B, …] and its last states.

        The input is [T, B, …] or, with ``rows``, [B, T, …] with padding.
        """

    def record_linear(
        self, x: Tensor, weight: Tensor, bias: Tensor | None, rows: PackedRows | None
    ) -> tuple[Tensor, tuple[int, ...]]:
        """x Wᵀ + b, which the tape can record, and its leading sizes.

        Lots of packed sequences differ in length. So all time steps of an example are one row.
        """
        if rows is not None:
            return F.linear(x, weight, bias), (x.shape[0],)
        return F.linear(x.reshape(-1, x.shape[2]), weight, bias), tuple(x.shape[:2])

    def names(self, number: int) -> tuple[str, str, str, str]:
        """The parameters of one layer and direction: two weights, then two biases."""
        module = self.module
        assert isinstance(module, nn.RNNBase)
        layer, is_reverse = divmod(number, 2) if module.bidirectional else (number, 0)
        suffix = f"_l{layer}" + ("_reverse" if is_reverse else "")
        return f"weight_ih{suffix}", f"weight_hh{suffix}", f"bias_ih{suffix}", f"bias_hh{suffix}"

    def matrices(self, number: int) -> tuple[Tensor, Tensor]:
        """The weights of the input and of the state of one layer and direction, detached."""
        first, second, _, _ = self.names(number)
        weight, state = self.detach_parameter(first), self.detach_parameter(second)
        assert weight is not None
        assert state is not None
        return weight, state

    def biases(self, number: int) -> tuple[Tensor | None, Tensor | None]:
        """The biases of one layer and direction, detached; None if it has none."""
        assert isinstance(self.module, nn.RNNBase)
        if not self.module.bias:
            return None, None
        _, _, first, second = self.names(number)
        return self.detach_parameter(first), self.detach_parameter(second)

    def linear_forms(
        self, x: Tensor, gradient: OutputGradient, weight: str, bias: str
    ) -> Iterator[tuple[int, GradientForm]]:
        """The forms of a weight and a bias, by their names."""
        if x.dim() == 4:  # [examples, sequences, times, …]
            x, gradient = x.flatten(1, 2), OutputGradient(gradient.rows.flatten(1, 2), own=False)
        height, width = gradient.rows.shape[2], x.shape[2]
        shapes = torch.Size((height, width)), torch.Size((height,))
        return build_linear_forms(x, gradient, self.indices.get(weight), self.indices.get(bias), shapes)


def _swap_batch(x: Tensor, batch_first: bool) -> Tensor:
    return x.transpose(0, 1) if batch_first else x
