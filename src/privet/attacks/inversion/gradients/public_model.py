"""The public side of gradient inversion: the model that every participant got, and gradients replayed on it.

An inversion asks: which inputs would have given this gradient? So the gradient of a guess is computed as the
participant computed theirs, in a form that can be differentiated by the guess. Many guesses are replayed at
once (``torch.func.vmap``): those of all targets and restarts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import cast, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from privet.arguments import whole
from privet.attacks.outputs import Outputs
from privet.attacks.torch_outputs import bare_outputs, last_layer_gives, row_losses
from privet.errors import InvalidArgument
from privet.shared_gradients import LocalSteps, NoisyStep, OneStep, SharedGradient, Sharing
from privet.torch_internals import DropoutBase
from privet.views import Labels, Numbers, Rows

__all__ = ["Gradients", "PublicModel", "Replay"]

Gradients = dict[str, Tensor]  # by the parameter's name
Replay = Callable[[Tensor, Tensor], Gradients]  # from inputs and labels of one batch

_ONE_STEP = OneStep()
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
_NUMBERS_AT_ONCE = 2**24  # of gradients that are written out at the same time


@final
class PublicModel:
    """A classifier whose weights everybody knows, and the shape of one of its inputs.

    It is used in the mode that it is in, and nothing of it is changed. Only parameters that require gradients
    are shared. A model whose answers are random, or depend on the other examples of the batch, is refused.
    """

    def __init__(self, module: nn.Module, *, shape: Sequence[int], gives: Outputs | None = None) -> None:
        self.module = module
        self.shape = tuple(whole("shape", int(size)) for size in shape)
        self.gives = gives or last_layer_gives(module) or Outputs.LOGITS
        _refuse_random_layers(module)
        self.weights: Gradients = {
            name: value.detach()
            for name, value in module.named_parameters()
            if value.requires_grad and value.is_floating_point()
        }
        if not self.weights:
            raise InvalidArgument(
                "'module' must have parameters that require gradients, got none. Give the model as it is "
                "trained; requires_grad_(True) unfreezes it."
            )
        self._rest = {
            name: value.detach()
            for name, value in [*module.named_parameters(), *module.named_buffers()]
            if name not in self.weights
        }
        self.dtype = next(iter(self.weights.values())).dtype
        self.device = next(iter(self.weights.values())).device
        # Tokens are whole numbers; all other inputs have the type of the weights.
        self.takes_tokens = any(isinstance(part, nn.Embedding) for part in module.modules())
        self.classes = self._count_classes()

    @property
    def size(self) -> int:
        """The number of shared parameters."""
        return sum(value.numel() for value in self.weights.values())

    @property
    def input_type(self) -> torch.dtype:
        """The type of inputs: whole numbers for tokens, that of the weights otherwise."""
        return torch.int64 if self.takes_tokens else self.dtype

    def predict(self, inputs: Tensor) -> Tensor:
        """The outputs for a batch of inputs, rows × classes."""
        return self._outputs(self.weights, inputs)

    def replay(self, sharing: Sharing, dtype: torch.dtype | None = None) -> Replay:
        """From the inputs and labels of one batch to the gradient that would have been shared, without
        noise."""
        kind = dtype or self.dtype
        weights = {name: value.to(kind) for name, value in self.weights.items()}
        match sharing:
            case OneStep():
                return lambda inputs, labels: grad(self._mean_loss)(weights, inputs, labels)
            case LocalSteps():
                return lambda inputs, labels: self._walk(sharing, weights, inputs, labels)
            case NoisyStep():
                return lambda inputs, labels: self._clip(sharing.clip, weights, inputs, labels)
            case _:
                raise InvalidArgument(
                    f"'sharing' must be OneStep, LocalSteps or NoisyStep, got {type(sharing).__name__}. "
                    f"Take one of them."
                )

    def replay_part(self, names: Sequence[str]) -> Replay:
        """As ``replay`` of one step, for some of the parameters only."""
        chosen = {name: self.weights[name] for name in names}
        others = {name: value for name, value in self.weights.items() if name not in chosen}

        def loss(part: Gradients, inputs: Tensor, labels: Tensor) -> Tensor:
            return self._mean_loss({**others, **part}, inputs, labels)

        return lambda inputs, labels: grad(loss)(chosen, inputs, labels)

    def share(
        self,
        inputs: Rows,
        labels: Labels,
        sharing: Sharing = _ONE_STEP,
        *,
        randomness: np.random.Generator | None = None,
    ) -> SharedGradient:
        """What a participant with these examples would send: a victim for experiments, not a release.

        The noise of a ``NoisyStep`` comes from ``randomness``, which is reproducible and protects nobody.
        """
        rows, classes = self.to_tensors(inputs, labels)
        exact = self.replay(sharing)(rows, classes)
        arrays = {name: _numbers(value) for name, value in exact.items()}
        if isinstance(sharing, NoisyStep) and sharing.noise_multiplier > 0:
            if randomness is None:
                raise InvalidArgument(
                    "'randomness' must be given for a noisy step, got None. Give "
                    "privet.randomness.experiment(seed)."
                )
            deviation = sharing.clip * sharing.noise_multiplier / len(rows)
            arrays = {
                name: values + deviation * randomness.standard_normal(values.shape)
                for name, values in arrays.items()
            }
        return SharedGradient(arrays, len(rows), sharing)

    def read(self, shared: Sequence[SharedGradient], dtype: torch.dtype | None = None) -> Gradients:
        """Messages as stacked tensors, messages × shape for each parameter; those of another model are
        refused."""
        for message in shared:
            if message.gradients.keys() != self.weights.keys():
                odd = sorted(message.gradients.keys() ^ self.weights.keys())[0]
                raise InvalidArgument(
                    f"'shared' must hold a gradient for each parameter of the public model, got a mismatch "
                    f"at {odd!r}. Give the model that these gradients were computed on."
                )
            for name, values in message.gradients.items():
                if values.shape != tuple(self.weights[name].shape):
                    raise InvalidArgument(
                        f"'shared' must have shape {tuple(self.weights[name].shape)} for {name!r}, got "
                        f"{values.shape}. Give the model that these gradients were computed on."
                    )
        kind = dtype or self.dtype
        return {
            name: torch.as_tensor(
                np.stack([message.gradients[name] for message in shared]), dtype=kind, device=self.device
            )
            for name in self.weights
        }

    def per_example(self, inputs: Rows, labels: Labels) -> Iterable[Gradients]:
        """The gradient of each example by itself, a few examples at a time."""
        rows, classes = self.to_tensors(inputs, labels)
        single = vmap(grad(self._mean_loss), in_dims=(None, 0, 0))
        step = max(1, _NUMBERS_AT_ONCE // self.size)
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            yield cast(Gradients, single(self.weights, rows[part].unsqueeze(1), classes[part].unsqueeze(1)))

    def to_tensors(self, inputs: Rows, labels: Labels) -> tuple[Tensor, Tensor]:
        """Examples as tensors of the model's type; labels that are no class are refused."""
        if inputs.shape[1:] != self.shape or len(inputs) != len(labels) or not len(inputs):
            raise InvalidArgument(
                f"'inputs' must be rows of shape {self.shape} with one label each, got an array of shape "
                f"{inputs.shape} and {len(labels)} labels. Reshape them as the model takes them."
            )
        if labels.min() < 0 or labels.max() >= max(2, self.classes):
            raise InvalidArgument(
                f"'labels' must be classes from 0 to {max(2, self.classes) - 1}, got others. Number the "
                f"classes as the model does."
            )
        if not np.isfinite(np.asarray(inputs, dtype=np.float64)).all():
            raise InvalidArgument("'inputs' must be finite, got NaN or infinity. Leave such rows out.")
        rows = torch.tensor(np.asarray(inputs), dtype=self.input_type, device=self.device)
        return rows, torch.tensor(np.asarray(labels), dtype=torch.int64, device=self.device)

    def _outputs(self, weights: Gradients, inputs: Tensor) -> Tensor:
        kind = next(iter(weights.values())).dtype
        rest = {
            name: value.to(kind) if value.is_floating_point() else value for name, value in self._rest.items()
        }
        output = bare_outputs(functional_call(self.module, {**rest, **weights}, (inputs,)))
        if not isinstance(output, Tensor) or len(output) != len(inputs):
            raise InvalidArgument(
                f"'module' must give rows × classes, got {type(output).__name__}. Wrap it in a module that "
                f"gives the logits of each example."
            )
        return output.reshape(len(inputs), -1)

    def _mean_loss(self, weights: Gradients, inputs: Tensor, labels: Tensor) -> Tensor:
        return row_losses(self._outputs(weights, inputs), labels, self.gives).mean()

    def _walk(self, sharing: LocalSteps, weights: Gradients, inputs: Tensor, labels: Tensor) -> Gradients:
        now = weights
        for _ in range(sharing.epochs):
            for start in range(0, len(inputs), sharing.batch_size):
                part = slice(start, start + sharing.batch_size)
                slope = grad(self._mean_loss)(now, inputs[part], labels[part])
                now = {name: now[name] - sharing.learning_rate * slope[name] for name in now}
        return {name: (weights[name] - now[name]) / sharing.learning_rate for name in weights}

    def _clip(self, clip: float, weights: Gradients, inputs: Tensor, labels: Tensor) -> Gradients:
        single = vmap(grad(self._mean_loss), in_dims=(None, 0, 0))
        each = cast(Gradients, single(weights, inputs.unsqueeze(1), labels.unsqueeze(1)))
        norms = torch.stack([value.flatten(1).square().sum(1) for value in each.values()]).sum(0).sqrt()
        scales = (clip / norms.clamp_min(1e-30)).clamp_max(1.0)
        return {name: torch.tensordot(scales, value, dims=1) / len(inputs) for name, value in each.items()}

    def _count_classes(self) -> int:
        with torch.no_grad():
            try:
                output = self._outputs(
                    self.weights, torch.zeros((2, *self.shape), dtype=self.input_type, device=self.device)
                )
            except (RuntimeError, ValueError, IndexError, TypeError) as failure:
                if isinstance(failure, InvalidArgument):
                    raise
                raise InvalidArgument(
                    f"'module' must take inputs of shape {self.shape}, and failed on a batch of two. Give "
                    f"the shape of one input, without the batch."
                ) from failure
        return int(output.shape[1])


def _refuse_random_layers(module: nn.Module) -> None:
    for name, part in module.named_modules():
        if not part.training:
            continue
        if isinstance(part, _BATCH_NORMS):
            raise InvalidArgument(
                f"'module' must give the same gradient each time it is asked, got batch normalisation in "
                f"training mode ({name!r}), whose replays differ with the other examples. Call eval() on "
                f"it, or use GroupNorm."
            )
        if isinstance(part, DropoutBase) and part.p > 0:
            raise InvalidArgument(
                f"'module' must give the same gradient each time it is asked, got dropout in training mode "
                f"({name!r}). Call eval() on it."
            )


def _numbers(tensor: Tensor) -> Numbers:
    answer: Numbers = tensor.detach().cpu().double().numpy()
    return answer
