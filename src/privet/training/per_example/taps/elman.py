"""The plain recurrent layer ``nn.RNN``: h' = tanh(x W + b + h V + c), or with relu."""

from collections.abc import Iterator
from typing import Any, final

import torch
from torch import Tensor, nn

from privet.training.per_example.forms.gradient_form import GradientForm, OutputGradient
from privet.training.per_example.taps.packed_rows import PackedRows
from privet.training.per_example.taps.recurrent_tap import RecurrentTap
from privet.training.per_example.taps.tape import LayerCall

__all__ = ["Elman", "RNNTap"]


class Elman(torch.autograd.Function):
    """(input's part [T, B, H], h, W, whether relu) → states. The states overwrite the input's part."""

    @staticmethod
    def forward(ctx: Any, input_part: Tensor, h: Tensor, weight: Tensor, relu: bool) -> Tensor:  # noqa: ANN401
        states, transposed = torch.empty_like(input_part), weight.t()
        for now, after in zip(input_part.unbind(), states.unbind(), strict=True):
            torch.addmm(now, h, transposed, out=after)
            h = after.relu_() if relu else after.tanh_()
        ctx.save_for_backward(states, weight)
        ctx.relu = relu
        return states.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        states, weight = ctx.saved_tensors
        slopes = (states > 0).to(states.dtype) if ctx.relu else 1 - states.square()
        given = gradients[0].unbind()
        dh = given[-1]
        for t in range(len(given) - 1, -1, -1):
            now = slopes[t].mul_(dh)
            dh = torch.addmm(given[t - 1], now, weight) if t else now @ weight
        return slopes, dh, None, None


@final
class RNNTap(RecurrentTap):
    """A recurrent layer without gates."""

    __slots__ = ()

    def forward(self, x: Any, hx: Tensor | None = None) -> Any:  # type: ignore[override]  # noqa: ANN401
        module = self.module
        assert isinstance(module, nn.RNN)
        if not self.accepts(x):
            return nn.RNN.forward(module, x, hx)
        y, last = self.run(x, None if hx is None else (hx,))
        return y, torch.stack([end[0] for end in last])

    def run_direction(
        self, x: Tensor, start: tuple[Tensor, ...], number: int, rows: PackedRows | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        module = self.module
        assert isinstance(module, nn.RNN)
        first, second = self.biases(number)
        weight, state = self.matrices(number)
        bias = None if first is None or second is None else first + second
        input_part, leading = self.record_linear(x, weight, bias, rows)
        if rows is None:
            given = input_part.view(*x.shape[:2], -1)
        else:
            given = rows.hold(input_part, torch.zeros_like(state[:, 0]))
        relu = module.nonlinearity == "relu"
        y = Elman.apply(given, start[0], state.detach(), relu)  # type: ignore[no-untyped-call]
        previous = torch.cat([start[0].detach().unsqueeze(0), y.detach()[:-1]])
        if rows is not None:  # behind the ends states may grow, and no gradient comes from there
            previous = previous.masked_fill(rows.is_padding.unsqueeze(2), 0.0).transpose(0, 1)
        self.tape.record(self, input_part, leading, (x, previous), number)
        return y, (y[-1] if rows is None else rows.take_last(y),)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        names = self.names(call.role)
        yield from self.linear_forms(saved[0], gradient, names[0], names[2])
        yield from self.linear_forms(saved[1], gradient, names[1], names[3])
