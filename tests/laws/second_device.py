"""A second device for torch, in Python: real tensors of a device that is not the CPU.

Torch lets Python serve the device key that it keeps for others (``PrivateUse1``). The memory of the
device ``second`` is memory of the CPU, but torch does not know that: ``.numpy()`` fails, and an operation
on tensors of two devices fails, as on a graphics card. Every operation runs on CPU tensors over the same
memory. As on MPS, there is no float64: making such a tensor raises ``TypeError``. ``with_float64`` lifts
this.

The device is registered for the whole process and cannot be removed. So this module is imported in a
process of its own (``test_second_device``). Memory is never freed: the models of these tests are small.
"""

from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("second")
torch.__future__.set_swap_module_params_on_conversion(True)  # model.to(DEVICE) keeps tied parameters tied
DEVICE = torch.device("second", 0)
aten = torch.ops.aten
_CPU_KERNEL = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_memory = {}  # address → the bytes on the CPU
_has_float64 = [False]


@contextmanager
def with_float64():
    """The device has float64, as a graphics card has."""
    _has_float64[0] = True
    try:
        yield
    finally:
        _has_float64[0] = False


def _is_here(value):
    return isinstance(value, Tensor) and value.device.type == "second"


def _set_storage(tensor, storage, like):
    aten.set_.source_Storage_storage_offset.redispatch(
        _CPU_KERNEL, tensor, storage, like.storage_offset(), list(like.shape), list(like.stride())
    )
    return tensor


def _to_host(tensor):
    """A CPU tensor over the same memory."""
    if not _is_here(tensor):
        return tensor
    memory = _memory.get(tensor.untyped_storage().data_ptr())
    if memory is None:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)  # it has no numbers
    return memory.view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def _to_device(host, storages):
    """A tensor of this device over the memory of a CPU tensor. Views share the storage of what they view."""
    if host.dtype in (torch.float64, torch.complex128) and not _has_float64[0]:
        raise TypeError("the device 'second' has no float64")
    if host.untyped_storage().data_ptr() not in _memory:
        held = torch.empty(0, dtype=torch.uint8).set_(host.untyped_storage())
        flat = torch.empty((held.numel() + 63) // 8 * 8, dtype=torch.uint8)
        flat[: held.numel()] = held
        _memory[flat.data_ptr()] = flat
        host = flat.view(host.dtype).as_strided(host.shape, host.stride(), host.storage_offset())
    address = host.untyped_storage().data_ptr()
    storage = storages.get(address)
    if storage is None:
        size = _memory[address].numel()
        storage = storages[address] = torch._C._construct_storage_from_data_pointer(address, DEVICE, size)
    return _set_storage(torch._C._acc.create_empty_tensor((0,), host.dtype), storage, host)


def _find_dtype(number, args):
    """The type in which a number does not change the type of the result."""
    kinds = {t.dtype for t in args if isinstance(t, Tensor)}
    return torch.float64 if isinstance(number, float) and torch.float64 in kinds else None


def _run(func, *args, **kwargs):
    if func is aten._copy_from.default:  # the only operation on two devices
        _to_host(args[1]).copy_(_to_host(args[0]))
        return args[1]
    if func is aten.set_.source_Storage_storage_offset:
        return func.redispatch(_CPU_KERNEL, *args)
    args = [  # torch passes a number in the place of a tensor as a number
        torch.tensor(value, dtype=_find_dtype(value, args))
        if isinstance(value, int | float) and "Tensor" in str(declared.type)
        else value
        for value, declared in zip(args, func._schema.arguments, strict=False)
    ]
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    strangers = [t for t in tensors if not _is_here(t) and t.dim() > 0]
    if strangers and func not in _TAKES_INDICES:
        raise RuntimeError(f"{func} got tensors of two devices, second and {strangers[0].device}")
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": torch.device("cpu"), "pin_memory": None}
    by_host, storages = {}, {}
    for tensor in filter(_is_here, tensors):
        storages.setdefault(tensor.untyped_storage().data_ptr(), tensor.untyped_storage())

    def take(value):
        host = _to_host(value)
        if _is_here(value):
            if (
                func is aten.resize_.default or value.numel() == 0
            ):  # it may grow, and must not move the memory
                host = host.clone()
            by_host[id(host)] = host, value
        return host

    host_args, host_kwargs = tree_map(take, args), tree_map(take, kwargs)
    result = _CELLS.get(func, func)(*host_args, **host_kwargs)
    for host, value in by_host.values():  # out= and resize_ may change the shape
        if host.shape != value.shape or host.stride() != value.stride():
            moved = _to_device(host, storages)
            _set_storage(value, moved.untyped_storage(), moved)

    def give(value):
        if not isinstance(value, Tensor):
            return value
        return by_host[id(value)][1] if id(value) in by_host else _to_device(value, storages)

    return tree_map(give, result)


_TAKES_INDICES = (aten.index.Tensor, aten.index.Tensor_out)  # torch takes indices of the CPU on every device


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


def _convolve(*args):
    return _run(aten.convolution.default, *args)


def _convolve_backward(gradient, x, weight, *rest):
    return _run(aten.convolution_backward.default, gradient, x, weight, [gradient.shape[1]], *rest)


_all, _own = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
_all.fallback(_run, "PrivateUse1")
_own.impl("convolution_overrideable", _convolve, "PrivateUse1")
_own.impl("convolution_backward_overrideable", _convolve_backward, "PrivateUse1")
