"""Random draws that are the same for every example, so that a model in training mode repeats its losses.

A test of whether examples depend on each other needs losses that repeat. Evaluation mode gives them, but it
also switches off what a model does in training only, such as mixing the examples of a batch. So draws are
replaced by constants: nothing is dropped, uniform numbers are 1/2, normal ones 0, and permutations reverse.
Other draws (exponential ones, for example) stay random, and the caller sees that.
"""

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from privet.torch_internals import TorchDispatchMode

__all__ = ["ConstantDraws"]

_aten = torch.ops.aten


def _drop_nothing(x: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
    return x.clone(), torch.ones_like(x, dtype=torch.bool)


def _fill(value: float) -> Callable[..., Tensor]:
    return lambda x, *_, **__: x.fill_(value)


def _make(value: float) -> Callable[..., Tensor]:
    return lambda size, *_, **options: torch.full(size, value, **_keep_options(options))


def _make_like(value: float) -> Callable[..., Tensor]:
    return lambda x, *_, **options: torch.full_like(x, value, **_keep_options(options))


def _reverse(count: int, **options: Any) -> Tensor:  # noqa: ANN401 - as torch
    return torch.arange(count - 1, -1, -1, **_keep_options(options))


def _keep_options(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name in ("dtype", "device", "layout")}


_CONSTANTS: dict[Any, Callable[..., Any]] = {
    _aten.native_dropout: _drop_nothing,
    _aten.bernoulli_: _fill(1.0),
    _aten.bernoulli: lambda x, *_, **__: torch.ones_like(x),
    _aten.uniform_: lambda x, low=0.0, high=1.0, **_: x.fill_((low + high) / 2),
    _aten.normal_: lambda x, mean=0.0, *_, **__: x.fill_(mean),
    _aten.rand: _make(0.5),
    _aten.randn: _make(0.0),
    _aten.rand_like: _make_like(0.5),
    _aten.randn_like: _make_like(0.0),
    _aten.randperm: _reverse,
}


@final
class ConstantDraws(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A context in which the common draws of torch give constants."""

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401
        types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        constant = _CONSTANTS.get(func.overloadpacket, func)
        return constant(*args, **(kwargs or {}))
