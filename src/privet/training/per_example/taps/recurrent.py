"""Recurrent layers: one autograd function gives the gradient of the gates at all time steps.

The input's part of the gates is one matrix product outside of the recurrence. The gradient g at its output is
the gradient of the gates. The input weight then has the gradient gᵀx, the state weight gᵀh, and both biases
Σg. In a GRU the state's part of the candidate is multiplied by a gate, so the state's part of the gates has
its own gradient. It is taken at the state bias, which enters the recurrence expanded over time steps and
examples.
"""

from collections.abc import Iterator
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node

from privet.torch_internals import get_forward_class
from privet.training.per_example.forms.gradient_form import GradientForm, OutputGradient, load_kernels
from privet.training.per_example.taps.elman import Elman
from privet.training.per_example.taps.packed_rows import PackedRows, find_hold
from privet.training.per_example.taps.recurrent_tap import RecurrentTap
from privet.training.per_example.taps.tape import LayerCall
from privet.training.threads import choose_threads

__all__ = ["GRUTap", "LSTMTap", "is_own_recurrence"]


WORTH_SHARING = 1 << 12
"""Gates of one time step that are worth another thread."""


def _choose_kernels(gates: Tensor, other: Tensor) -> Any:  # noqa: ANN401 - a module, or None
    """The compiled loops, if they work on these tensors."""
    is_supported = all(t.dtype is torch.float32 and t.is_cpu and t.is_contiguous() for t in (gates, other))
    return load_kernels() if is_supported else None


class _LSTM(torch.autograd.Function):
    """(input's part of the gates [T, B, 4H], h, c, W) → (states [T, B, H], last c).

    The gates are in torch's order i, f, g, o. They overwrite the input's part.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        input_part: Tensor,
        h: Tensor,
        c: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, Tensor]:
        times, batch, width = input_part.shape
        hidden = width // 4
        gates = input_part  # nothing else reads these numbers
        states = input_part.new_empty(times, batch, hidden)
        cells = input_part.new_empty(times + 1, batch, hidden)
        squashed = torch.empty_like(states)
        cells[0] = c
        transposed = weight.t().contiguous()
        kernels = _choose_kernels(input_part, h)
        if kernels is not None:
            arrays = (
                gates.view(times, batch, 4, hidden).numpy(),
                cells.numpy(),
                squashed.numpy(),
                states.numpy(),
            )
            threads = choose_threads(input_part[0].numel(), WORTH_SHARING)
            for t, (now, after) in enumerate(zip(gates.unbind(), states.unbind(), strict=True)):
                now.addmm_(h, transposed)
                kernels.lstm_forward(threads, *arrays, t)
                h = after
            ctx.save_for_backward(gates, cells, squashed, weight)
            return states, cells[times].clone()
        # All views are made at once: one at a time they take as long as the arithmetic of a small layer.
        i, f, g, o = (part.unbind() for part in gates.view(times, batch, 4, hidden).unbind(2))
        both = gates[:, :, : 2 * hidden].unbind()
        present, following, ends = (t.unbind() for t in (gates, states, squashed))
        cell = cells.unbind()
        for t in range(times):
            present[t].addmm_(h, transposed)
            both[t].sigmoid_()
            g[t].tanh_()
            o[t].sigmoid_()
            torch.mul(f[t], cell[t], out=cell[t + 1]).addcmul_(i[t], g[t])
            torch.tanh(cell[t + 1], out=ends[t])
            h = torch.mul(o[t], ends[t], out=following[t])
        ctx.save_for_backward(gates, cells, squashed, weight)
        return states, cells[times].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        gates, cells, squashed, weight = ctx.saved_tensors
        times, batch, width = gates.shape
        hidden = width // 4
        kernels = _choose_kernels(gates, weight)
        if kernels is not None:
            result = torch.empty_like(gates)
            state_gradients = gradients[0].unbind()
            dh, dc = (
                torch.empty_like(cells[0]).copy_(state_gradients[-1]),
                torch.empty_like(cells[0]).copy_(gradients[1]),
            )
            saved = gates.view(times, batch, 4, hidden).numpy(), cells.numpy(), squashed.numpy()
            written = result.view(times, batch, 4, hidden).numpy(), dh.numpy(), dc.numpy()
            flat, threads = result.unbind(), choose_threads(gates[0].numel(), WORTH_SHARING)
            for t in range(times - 1, -1, -1):
                kernels.lstm_backward(threads, *saved, *written, t)
                torch.addmm(state_gradients[t - 1], flat[t], weight, out=dh) if t else torch.mm(
                    flat[t], weight, out=dh
                )
            return result, dh, dc, None
        i, f, g, o = gates.view(times, batch, 4, hidden).unbind(2)
        # Everything that does not depend on the recurrence, for all time steps at once.
        slopes = gates.new_empty(times, batch, 4, hidden)
        torch.addcmul(i, i, i, value=-1, out=slopes[:, :, 0]).mul_(g)
        torch.addcmul(f, f, f, value=-1, out=slopes[:, :, 1]).mul_(cells[:-1])
        torch.mul(i, g, out=slopes[:, :, 2])
        torch.addcmul(i, slopes[:, :, 2], g, value=-1, out=slopes[:, :, 2])
        torch.addcmul(o, o, o, value=-1, out=slopes[:, :, 3]).mul_(squashed)
        through = o * squashed
        torch.addcmul(o, through, squashed, value=-1, out=through)
        result = slopes.view(times, batch, width)  # each slope is used once, so the gradient overwrites it
        three, last, flat = slopes[:, :, :3].unbind(), slopes[:, :, 3].unbind(), result.unbind()
        ends, forget, state_gradients = through.unbind(), f.unbind(), gradients[0].unbind()
        dh, dc = state_gradients[times - 1], gradients[1]
        for t in range(times - 1, -1, -1):
            dc = torch.addcmul(dc, dh, ends[t])
            three[t].mul_(dc.unsqueeze(1))
            last[t].mul_(dh)
            dc.mul_(forget[t])
            dh = torch.addmm(state_gradients[t - 1], flat[t], weight) if t else flat[t] @ weight
        return result, dh, dc, None


class _GRU(torch.autograd.Function):
    """(input's part of the gates [T, B, 3H], state bias [T, B, 3H], h, W) → states. The gates are r, z, n."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        input_part: Tensor,
        bias: Tensor,
        h: Tensor,
        weight: Tensor,
    ) -> Tensor:
        times, batch, width = input_part.shape
        hidden = width // 3
        gates, shares = torch.empty_like(input_part), input_part.new_empty(times, batch, hidden)
        states = input_part.new_empty(times + 1, batch, hidden)
        states[0] = h
        transposed = weight.t()
        both = 2 * hidden
        for t in range(times):
            share = torch.addmm(bias[t], states[t], transposed)
            now = gates[t]
            torch.add(input_part[t, :, :both], share[:, :both], out=now[:, :both]).sigmoid_()
            shares[t] = share[:, both:]
            torch.addcmul(input_part[t, :, both:], now[:, :hidden], shares[t], out=now[:, both:]).tanh_()
            z, n = now[:, hidden:both], now[:, both:]
            torch.lerp(n, states[t], z, out=states[t + 1])
        ctx.save_for_backward(gates, shares, states, weight)
        return states[1:].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        gates, shares, states, weight = ctx.saved_tensors
        times, batch, width = gates.shape
        hidden = width // 3
        r, z, n = gates.view(times, batch, 3, hidden).unbind(2)
        # h' = n + z(h − n): the slopes of n, of z, and of r through n.
        inner = gates.new_empty(times, batch, 3, hidden)
        torch.mul(1 - z, 1 - n * n, out=inner[:, :, 2])
        torch.mul((states[:-1] - n) * z, 1 - z, out=inner[:, :, 1])
        torch.mul(inner[:, :, 2] * shares, r * (1 - r), out=inner[:, :, 0])
        outer = inner.clone()
        outer[:, :, 2] *= r
        dh = gradients[0][times - 1]
        for t in range(times - 1, -1, -1):
            inner[t] *= dh.unsqueeze(1)
            outer[t] *= dh.unsqueeze(1)
            dh = torch.addmm(dh * z[t], outer[t].view(batch, width), weight)
            if t:
                dh += gradients[0][t - 1]
        return inner.view_as(gates), outer.view_as(gates), dh, None


def is_own_recurrence(node: Node) -> bool:
    """Whether a node is a recurrence of these taps, which keeps the examples apart along the second axis.

    The class decides: a user's own function may have any name.
    """
    return get_forward_class(node) in (_LSTM, _GRU, Elman)


@final
class LSTMTap(RecurrentTap):
    """A long short-term memory without projections."""

    __slots__ = ()

    def forward(  # type: ignore[override]
        self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> Any:  # noqa: ANN401 - as torch
        module = self.module
        assert isinstance(module, nn.LSTM)
        if not self.accepts(x):
            return nn.LSTM.forward(module, x, hx)
        y, last = self.run(x, hx)
        h, c = (torch.stack([end[k] for end in last]) for k in range(2))
        return y, (h, c)

    def run_direction(
        self, x: Tensor, start: tuple[Tensor, ...], number: int, rows: PackedRows | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        first, second = self.biases(number)
        weight, state = self.matrices(number)
        bias = None if first is None or second is None else first + second
        input_part, leading = self.record_linear(x, weight, bias, rows)
        h, c = start
        if rows is None:
            gates = input_part.view(*x.shape[:2], -1)
        else:  # the input gate is closed, and the forget gate open
            ones = torch.ones_like(state[: len(state) // 4, 0])
            gates = rows.hold(input_part, torch.cat([-ones, ones, 0 * ones, 0 * ones]) * find_hold(state))
        y, end = _LSTM.apply(gates, h, c, state.detach())  # type: ignore[no-untyped-call]
        previous = torch.cat([h.detach().unsqueeze(0), y.detach()[:-1]])
        if rows is not None:
            previous = previous.transpose(0, 1)
        self.tape.record(self, input_part, leading, (x, previous), number)
        return y, (y[-1] if rows is None else rows.take_last(y), end)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        names = self.names(call.role)
        yield from self.linear_forms(saved[0], gradient, names[0], names[2])
        yield from self.linear_forms(saved[1], gradient, names[1], names[3])


@final
class GRUTap(RecurrentTap):
    """A gated recurrent unit."""

    __slots__ = ()

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Any:  # type: ignore[override]  # noqa: ANN401
        module = self.module
        assert isinstance(module, nn.GRU)
        if not self.accepts(x):
            return nn.GRU.forward(module, x, hx)
        y, last = self.run(x, None if hx is None else (hx,))
        return y, torch.stack([end[0] for end in last])

    def run_direction(
        self, x: Tensor, start: tuple[Tensor, ...], number: int, rows: PackedRows | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        first, second = self.biases(number)
        weight, state = self.matrices(number)
        input_part, leading = self.record_linear(x, weight, first, rows)
        if second is None:
            second = input_part.new_zeros(input_part.shape[-1]).requires_grad_()
        bias = expanded = second.expand(*x.shape[:2], -1)
        if rows is None:
            gates = input_part.view(*x.shape[:2], -1)
        else:  # the update gate keeps the state, which then is the last one
            ones = torch.ones_like(state[: len(state) // 3, 0])
            gates = rows.hold(input_part, torch.cat([0 * ones, ones, 0 * ones]) * find_hold(state, second))
            expanded = bias.transpose(0, 1)
        y = _GRU.apply(gates, expanded, start[0], state.detach())  # type: ignore[no-untyped-call]
        previous = torch.cat([start[0].detach().unsqueeze(0), y.detach()[:-1]])
        if rows is not None:
            previous = previous.transpose(0, 1)
        self.tape.record(self, input_part, leading, (x,), 2 * number)
        self.tape.record(self, bias, leading, (previous,), 2 * number + 1)
        return y, (y[-1],)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        number, is_state = divmod(call.role, 2)
        names = self.names(number)
        yield from self.linear_forms(saved[0], gradient, names[is_state], names[2 + is_state])
