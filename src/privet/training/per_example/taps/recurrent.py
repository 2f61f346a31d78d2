"""Recurrent layers: one autograd function gives the gradient of the gates at all time steps.

The input's part of the gates is one matrix product outside of the recurrence. The gradient g at its output is
the gradient of the gates. The input weight then has the gradient gᵀx, the state weight gᵀh, and both biases
Σg. In a GRU the state's part of the candidate is multiplied by a gate, so the state's part of the gates has
its own gradient. It is taken at the state bias, which enters the recurrence expanded over time steps and
examples.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.autograd.graph import Node

from privet.torch_internals import get_forward_class, get_weight_names
from privet.training.per_example.forms.gradient_form import GradientForm, OutputGradient, load_kernels
from privet.training.per_example.mixed_precision import full_precision, widen
from privet.training.per_example.taps.layers import build_linear_forms
from privet.training.per_example.taps.tape import LayerCall, Tap, has_plain_parameters
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
    """Whether a node is a recurrence of this module, which keeps the examples apart along the second axis.

    The class decides: a user's own function may have any name.
    """
    return get_forward_class(node) in (_LSTM, _GRU)


class _Recurrent(Tap):
    """What LSTM and GRU share: layers, directions, and the batch axis."""

    __slots__ = ()

    @staticmethod
    def supports(module: nn.Module) -> bool:
        assert isinstance(module, nn.RNNBase)
        return module.proj_size == 0 and has_plain_parameters(module, get_weight_names(module))

    def _run_layers(
        self, x: Tensor, states: tuple[Tensor, ...] | None
    ) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """The outputs [T, B, …] of the last layer, and the last states of each layer and direction."""
        module = self.module
        assert isinstance(module, nn.RNNBase)
        directions = 2 if module.bidirectional else 1
        x = widen(x, dtype := module.weight_ih_l0.dtype)
        states = None if states is None else tuple(widen(s, dtype) for s in states)
        last: list[tuple[Tensor, ...]] = []
        kinds = 2 if isinstance(module, nn.LSTM) else 1
        for layer in range(module.num_layers):
            outputs: list[Tensor] = []
            for direction in range(directions):
                number = layer * directions + direction
                if states is None:
                    start = (x.new_zeros(x.shape[1], module.hidden_size),) * kinds
                else:
                    start = tuple(s[number] for s in states)
                y, end = self._run_direction(x.flip(0) if direction else x, start, number)
                outputs.append(y.flip(0) if direction else y)
                last.append(end)
            x = outputs[0] if directions == 1 else torch.cat(outputs, 2)
            if module.dropout and layer + 1 < module.num_layers:
                x = F.dropout(x, module.dropout, module.training)
        return x, last

    @abstractmethod
    def _run_direction(
        self, x: Tensor, start: tuple[Tensor, ...], number: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run one layer in one direction. Returns its outputs and its last states."""

    def _names(self, number: int) -> tuple[str, str, str, str]:
        module = self.module
        assert isinstance(module, nn.RNNBase)
        layer, is_reverse = divmod(number, 2) if module.bidirectional else (number, 0)
        suffix = f"_l{layer}" + ("_reverse" if is_reverse else "")
        return f"weight_ih{suffix}", f"weight_hh{suffix}", f"bias_ih{suffix}", f"bias_hh{suffix}"

    def _biases(self, number: int) -> tuple[Tensor | None, Tensor | None]:
        assert isinstance(self.module, nn.RNNBase)
        if not self.module.bias:
            return None, None
        _, _, first, second = self._names(number)
        return self.detach_parameter(first), self.detach_parameter(second)

    def _linear_forms(
        self, x: Tensor, gradient: OutputGradient, weight: str, bias: str
    ) -> Iterator[tuple[int, GradientForm]]:
        height, width = gradient.rows.shape[2], x.shape[2]
        shapes = torch.Size((height, width)), torch.Size((height,))
        return build_linear_forms(x, gradient, self.indices.get(weight), self.indices.get(bias), shapes)


def _swap_batch(x: Tensor, batch_first: bool) -> Tensor:
    return x.transpose(0, 1) if batch_first else x


@final
class LSTMTap(_Recurrent):
    """A long short-term memory without projections."""

    __slots__ = ()

    def forward(  # type: ignore[override]
        self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None
    ) -> Any:  # noqa: ANN401 - as torch
        module = self.module
        assert isinstance(module, nn.LSTM)
        if not isinstance(x, Tensor) or x.dim() != 3:
            return nn.LSTM.forward(module, x, hx)
        with full_precision(x.device):
            y, last = self._run_layers(_swap_batch(x, module.batch_first), hx)
        h, c = (torch.stack([end[k] for end in last]) for k in range(2))
        return _swap_batch(y, module.batch_first), (h, c)

    def _run_direction(
        self, x: Tensor, start: tuple[Tensor, ...], number: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        names = self._names(number)
        first, second = self._biases(number)
        weight, state = self.detach_parameter(names[0]), self.detach_parameter(names[1])
        assert weight is not None
        assert state is not None
        bias = None if first is None or second is None else first + second
        input_part = F.linear(x.reshape(-1, x.shape[2]), weight, bias)
        h, c = start
        gates = input_part.view(*x.shape[:2], -1)
        y, end = _LSTM.apply(gates, h, c, state.detach())  # type: ignore[no-untyped-call]
        previous = torch.cat([h.detach().unsqueeze(0), y.detach()[:-1]])
        self.tape.record(self, input_part, tuple(x.shape[:2]), (x, previous), number)
        return y, (y[-1], end)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        names = self._names(call.role)
        yield from self._linear_forms(saved[0], gradient, names[0], names[2])
        yield from self._linear_forms(saved[1], gradient, names[1], names[3])


@final
class GRUTap(_Recurrent):
    """A gated recurrent unit."""

    __slots__ = ()

    def forward(self, x: Tensor, hx: Tensor | None = None) -> Any:  # type: ignore[override]  # noqa: ANN401
        module = self.module
        assert isinstance(module, nn.GRU)
        if not isinstance(x, Tensor) or x.dim() != 3:
            return nn.GRU.forward(module, x, hx)
        with full_precision(x.device):
            y, last = self._run_layers(_swap_batch(x, module.batch_first), None if hx is None else (hx,))
        return _swap_batch(y, module.batch_first), torch.stack([end[0] for end in last])

    def _run_direction(
        self, x: Tensor, start: tuple[Tensor, ...], number: int
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        names = self._names(number)
        first, second = self._biases(number)
        weight, state = self.detach_parameter(names[0]), self.detach_parameter(names[1])
        assert weight is not None
        assert state is not None
        input_part = F.linear(x.reshape(-1, x.shape[2]), weight, first)
        if second is None:
            second = input_part.new_zeros(input_part.shape[1]).requires_grad_()
        bias = second.expand(*x.shape[:2], -1)
        gates = input_part.view(*x.shape[:2], -1)
        y = _GRU.apply(gates, bias, start[0], state.detach())  # type: ignore[no-untyped-call]
        previous = torch.cat([start[0].detach().unsqueeze(0), y.detach()[:-1]])
        self.tape.record(self, input_part, tuple(x.shape[:2]), (x,), 2 * number)
        self.tape.record(self, bias, tuple(x.shape[:2]), (previous,), 2 * number + 1)
        return y, (y[-1],)

    def build_forms(
        self, call: LayerCall, gradient: OutputGradient, saved: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, GradientForm]]:
        number, is_state = divmod(call.role, 2)
        names = self._names(number)
        yield from self._linear_forms(saved[0], gradient, names[is_state], names[2 + is_state])
