"""A model's weights as one vector, in the order of their names: what travels between server and clients.

The vector has every trainable parameter and every buffer of floating-point numbers, such as the running means
of a batch normalisation. Integer buffers, such as its counter of batches, stay where they are: a counter
inside of the vector would be the largest number in it, and a clip would leave nothing of the rest. Frozen
parameters stay where they are too, so server and clients must start from the same ones.
"""

import weakref
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.observed_rounds import Weights
from privet.torch_internals import BatchNormBase
from privet.views import Numbers

__all__ = ["ModelLayout"]


@final
class ModelLayout:
    """Where each weight of a model is in its vector.

    >>> layout = ModelLayout(nn.Linear(3, 2))
    >>> layout.size, layout.names
    (8, ('bias', 'weight'))
    """

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise InvalidArgument(
                f"'model' must be a torch module, got {format_value(model)}. Give an nn.Module."
            )
        trainable = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
        if not trainable:
            raise InvalidArgument(
                "'model' must have trainable parameters, got none. Set requires_grad of the layers to train."
            )
        if any(parameter.is_meta for parameter in model.parameters()):
            raise InvalidArgument(
                "'model' must have weights, got parameters on 'meta'. Load them first, or build it on its "
                "device."
            )
        buffers = {name for name, buffer in model.named_buffers() if buffer.is_floating_point()}
        self.names = tuple(sorted(trainable | buffers))
        self._model: weakref.ref[nn.Module] | None = None
        self._owners: list[tuple[nn.Module, str]] = []
        tensors = self._find_tensors(model)
        self.shapes = tuple(tuple(tensor.shape) for tensor in tensors)
        self._counts = [tensor.numel() for tensor in tensors]
        self.size = sum(self._counts)

    def __getstate__(self) -> dict[str, object]:
        """For Ray, which copies the app into other processes: all but the last model."""
        return self.__dict__ | {"_model": None, "_owners": []}

    def read(self, model: nn.Module) -> Tensor:
        """The weights of a model, as float32 on the processor."""
        with torch.no_grad():
            return torch.cat(
                [tensor.reshape(-1).to("cpu", torch.float32) for tensor in self._find_tensors(model)]
            )

    def write(self, vector: Tensor, model: nn.Module) -> None:
        """Give these weights to a model. A variance that noise made negative becomes 0."""
        with torch.no_grad():
            tensors = self._find_tensors(model)
            for target, part in zip(tensors, torch.split(vector, self._counts), strict=True):
                target.copy_(part.view(target.shape))
            for module in model.modules():
                if isinstance(module, BatchNormBase) and module.running_var is not None:
                    module.running_var.clamp_(min=0.0)

    def name_weights(self, vector: Tensor | Numbers) -> Weights:
        """The vector as arrays of float64 by name."""
        flat = np.asarray(vector, dtype=np.float64)
        parts = np.split(flat, np.cumsum(self._counts)[:-1])
        return {
            name: part.reshape(shape)
            for name, shape, part in zip(self.names, self.shapes, parts, strict=True)
        }

    def join_weights(self, weights: Weights) -> Numbers:
        """The vector of arrays by name."""
        if set(weights) != set(self.names) or any(
            np.shape(weights[name]) != shape for name, shape in zip(self.names, self.shapes, strict=True)
        ):
            raise InvalidArgument(
                f"'weights' must have the names and shapes of the model, got "
                f"{format_value(sorted(weights))}. Give an array for each name that was shown."
            )
        return np.concatenate([np.asarray(weights[name], dtype=np.float64).ravel() for name in self.names])

    def _find_tensors(self, model: nn.Module) -> list[Tensor]:
        """The tensors of a model in the order of the vector. The owners of the last model are kept."""
        if self._model is None or self._model() is not model:
            self._owners = [_find_owner(model, name) for name in self.names]
            self._model = weakref.ref(model)
        return [getattr(owner, leaf).detach() for owner, leaf in self._owners]


def _find_owner(model: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The part of a model that has this weight, and its name there."""
    path, _, leaf = name.rpartition(".")
    try:
        owner = model.get_submodule(path)
        if isinstance(getattr(owner, leaf), Tensor):
            return owner, leaf
    except AttributeError:
        pass
    raise InvalidArgument(
        f"'model' must have the weights of the first model, and has no {name!r}. Build the same model "
        "everywhere."
    )
