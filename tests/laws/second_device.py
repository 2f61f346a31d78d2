"""A second device for torch, in Python: its tensors hold their numbers in a tensor of the CPU that nothing else reaches.

Torch lets Python serve the device key that it keeps for others (``PrivateUse1``). A tensor of the device
``second`` is no CPU tensor: ``.numpy()`` fails, and an operation with a tensor of the CPU fails, as on a
graphics card. As on MPS, there is no float64: making such a tensor raises ``TypeError``. ``with_float64``
lifts this.

The device is registered for the whole process and cannot be removed. So this module is imported in a
process of its own (``test_second_device``).
"""

from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("second")
torch.__future__.set_swap_module_params_on_conversion(True)  # model.to(DEVICE) with tensors of a subclass
DEVICE = torch.device("second", 0)
aten = torch.ops.aten
_allowed = {"float64": False}


class SecondTensor(Tensor):
    """A tensor of the device ``second``."""

    @staticmethod
    def __new__(cls, held):
        if held.dtype in (torch.float64, torch.complex128) and not _allowed["float64"]:
            raise TypeError("the device 'second' has no float64")
        return Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )

    def __init__(self, held):
        self._held = held

    def untyped_storage(self):
        return self._held.untyped_storage()

    def __repr__(self, *, tensor_contents=None):
        return f"second({self._held!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class SecondDevice(TorchDispatchMode):
    """A context in which ``device="second"`` makes tensors of this device."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        return _run(func, args, kwargs) if _is_here(kwargs.get("device")) else func(*args, **kwargs)


@contextmanager
def with_float64():
    """The device has float64, as a graphics card has."""
    _allowed["float64"] = True
    try:
        yield
    finally:
        _allowed["float64"] = False


def _is_here(device):
    return device is not None and torch.device(device).type == "second"


def _hold(value):
    return value._held if isinstance(value, SecondTensor) else value


def _wrap(value):
    return SecondTensor(value) if isinstance(value, Tensor) and not isinstance(value, SecondTensor) else value


def _run(func, args, kwargs):
    if func is aten._to_copy.default:
        target = kwargs.get("device")
        stays = args[0].device.type == "second" if target is None else _is_here(target)
        rest = {name: value for name, value in kwargs.items() if name != "device"}
        if stays and (rest.get("dtype") or args[0].dtype) is torch.float64:
            rest["dtype"] = torch.float64  # the wrapper refuses it
        copied = aten._to_copy.default(_hold(args[0]), **rest)
        return _wrap(copied) if stays else copied
    if func is aten.copy_.default:
        _hold(args[0]).copy_(_hold(args[1]))
        return args[0]
    if func is aten._local_scalar_dense.default:
        return func(_hold(args[0]))
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    strangers = [t for t in tensors if not isinstance(t, SecondTensor) and t.dim() > 0]
    if strangers and func not in _TAKES_INDICES:
        raise RuntimeError(f"{func} got tensors of two devices, second and {strangers[0].device}")
    inner = {**kwargs, "device": torch.device("cpu")} if _is_here(kwargs.get("device")) else kwargs
    result = _CELLS.get(func, func)(*tree_map(_hold, args), **tree_map(_hold, inner))
    return return_and_correct_aliasing(func, args, kwargs, tree_map(_wrap, result))


_TAKES_INDICES = (aten.index.Tensor,)  # torch takes indices of the CPU on every device


# Torch has the cells of recurrent layers as one operation on every device but the CPU.
def _lstm_cell(inputs, states, before, bias=None, other_bias=None):
    total = inputs + states if bias is None else inputs + states + bias + other_bias
    i, f, g, o = total.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * before + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], 1)


def _lstm_cell_backward(grad_state, grad_cell, before, after, gates, has_bias):
    i, f, g, o = gates.chunk(4, 1)
    squashed = after.tanh()
    state = torch.zeros_like(after) if grad_state is None else grad_state
    cell = state * o * (1 - squashed**2) + (0 if grad_cell is None else grad_cell)
    parts = (
        cell * g * i * (1 - i),
        cell * before * f * (1 - f),
        cell * i * (1 - g**2),
        state * squashed * o * (1 - o),
    )
    total = torch.cat(parts, 1)
    return total, cell * f, total.sum(0) if has_bias else torch.empty(0)


def _gru_cell(inputs, states, before, bias=None, other_bias=None):
    r, z, n = (inputs if bias is None else inputs + bias).chunk(3, 1)
    own_r, own_z, own_n = (states if bias is None else states + other_bias).chunk(3, 1)
    r, z = (r + own_r).sigmoid(), (z + own_z).sigmoid()
    n = (n + r * own_n).tanh()
    return n + z * (before - n), torch.cat([r, z, n, before, own_n], 1)


def _gru_cell_backward(grad, workspace, has_bias):
    r, z, n, before, own_n = workspace.chunk(5, 1)
    grad_z, grad_n = grad * (before - n) * z * (1 - z), grad * (1 - z) * (1 - n**2)
    grad_r = grad_n * own_n * r * (1 - r)
    first, second = torch.cat([grad_r, grad_z, grad_n], 1), torch.cat([grad_r, grad_z, grad_n * r], 1)
    empty = torch.empty(0)
    return first, second, grad * z, first.sum(0) if has_bias else empty, second.sum(0) if has_bias else empty


_CELLS = {
    aten._thnn_fused_lstm_cell.default: _lstm_cell,
    aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
}
