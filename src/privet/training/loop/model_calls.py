"""How the columns of a lot get into a model: in order, or by keyword. And what the model's arguments are."""

import inspect
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from privet.training.sampling.records import ColumnRule

__all__ = ["KeywordCall", "call_model", "get_base_model", "get_parameters", "make_rule", "prepare_call"]


@final
class KeywordCall(nn.Module):
    """A model that gets its inputs by keyword."""

    def __init__(self, model: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self._names = model, names
        self.training = model.training

    def forward(self, *inputs: Tensor) -> Any:  # noqa: ANN401 - whatever the model returns
        """Call the model."""
        return self.model(**dict(zip(self._names, inputs, strict=True)))


def prepare_call(model: nn.Module, names: tuple[str, ...] | None) -> nn.Module:
    """The model, so that it can be called with its inputs in order."""
    return model if names is None else KeywordCall(model, names)


def call_model(model: nn.Module, inputs: tuple[Tensor, ...], names: tuple[str, ...] | None) -> Any:  # noqa: ANN401
    """Call the model with these inputs."""
    return model(*inputs) if names is None else model(**dict(zip(names, inputs, strict=True)))


def get_base_model(model: nn.Module) -> nn.Module:
    """The model inside of a wrapper of PEFT, or the model itself."""
    unwrap = getattr(model, "get_base_model", None)
    base = unwrap() if callable(unwrap) else model
    return base if isinstance(base, nn.Module) else model


def get_parameters(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    """The arguments of the model's ``forward``."""
    return inspect.signature(get_base_model(model).forward).parameters


def make_rule(model: nn.Module, classes: tuple[Any, ...] | None) -> ColumnRule:
    """Which columns the model takes, and in which types.

    Models of transformers take any keyword and ignore what they do not know, so for models with a ``config``
    only the named arguments count.
    """
    parameters = get_parameters(model)
    base = get_base_model(model)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values()) and not hasattr(base, "config")
    names = tuple(
        name for name, p in parameters.items() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    )
    types = {p.dtype for p in model.parameters() if p.is_floating_point()}
    float_type = types.pop() if len(types) == 1 else torch.float32
    padding = getattr(getattr(base, "config", None), "pad_token_id", None)
    return ColumnRule(
        parameters=names,
        takes_any=takes_any,
        float_type=float_type,
        classes=classes,
        padding=padding if isinstance(padding, int) else 0,
    )
