"""A full training step of each contestant in torch: forward, backward, clip, noise, SGD update.

Each is made with the same start and the same lot in memory. ``step`` is what is timed. ``weights`` shows what steps did, so
that a step without noise can be held against a loop over examples.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from models import GPT, Task, losses, mean_loss
from torch import Tensor, nn

from privet.randomness import NoiseSource, SecureNoise, SeededNoise
from privet.training import FixedSizeSampling, Flat, PrivateLoop, TrainingPlan
from privet.training.sampling.examples import Examples

FOREVER = 10_000_000  # steps that a plan allows for


@dataclass(frozen=True)
class Setting:
    """What all contestants have in common."""

    task: Task
    inputs: Tensor
    targets: Tensor
    bound: float = 1.0
    multiplier: float = 1.0
    rate: float = 0.01

    @property
    def lot(self) -> int:
        return len(self.inputs)


class Contestant(ABC):
    def before(self) -> None:  # noqa: B027 - most have nothing to do
        """What a step needs and is not timed with it."""

    @abstractmethod
    def step(self) -> None: ...

    def set_back(self) -> bool:
        """Whether the weights are those of the start again."""
        return False

    @abstractmethod
    def weights(self) -> dict[str, np.ndarray]: ...


class InTorch(Contestant):
    def __init__(self, setting: Setting) -> None:
        self.setting, self.model = setting, setting.task.model()
        self.inputs, self.targets = setting.inputs, setting.targets
        self.start = [p.detach().clone() for p in self.model.parameters()]
        self.loss = mean_loss

    def set_back(self) -> bool:
        with torch.no_grad():
            for parameter, value in zip(self.model.parameters(), self.start, strict=True):
                parameter.copy_(value)
        return True

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=self.setting.rate)

    def weights(self) -> dict[str, np.ndarray]:
        return {name: value.numpy().copy() for name, value in self.model.state_dict().items()}


class Plain(InTorch):
    """No privacy, in torch's default layout."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.optimizer = self.sgd()

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss(self.model(self.inputs), self.targets).backward()
        self.optimizer.step()


class PlainChannelsLast(Plain):
    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.model = self.model.to(memory_format=torch.channels_last)
        self.inputs = self.inputs.contiguous(memory_format=torch.channels_last)
        self.optimizer = self.sgd()


class Whole(Examples):
    """A lot that is in memory already, as it is for all others; what it costs to gather one is measured by itself."""

    def __init__(self, setting: Setting) -> None:
        self.columns, self.place = (setting.inputs, setting.targets), 0

    def __len__(self) -> int:
        return len(self.columns[0])

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        """The next ones, whatever their numbers: a lot is all of them."""
        start, stop = self.place, self.place + indices.numel()
        if stop > len(self):
            raise ValueError("a lot must be the whole of it")
        self.place = stop % len(self)
        return tuple(column[start:stop] for column in self.columns)


class Privet(InTorch):
    """The public path, with all defaults."""

    def __init__(self, setting: Setting, noise: NoiseSource) -> None:
        super().__init__(setting)
        plan = TrainingPlan(
            population=setting.lot,
            sampling=FixedSizeSampling(setting.lot),
            steps=FOREVER,
            noise_multiplier=setting.multiplier,
            clip_bound=setting.bound,
        )
        clip = Flat(setting.bound)
        self.private = PrivateLoop(self.model, self.sgd(), Whole(setting), plan, clip, noise=noise)
        self.lots, self.criterion = self.private.lots(), nn.CrossEntropyLoss()

    def before(self) -> None:
        self.drawn = next(self.lots)

    def step(self) -> None:
        self.private.step(self.drawn, self.criterion)


class VmapGrad(InTorch):
    """torch.func by hand: vmap of grad, then norms, factors and sums."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.parameters = {name: p.detach() for name, p in self.model.named_parameters()}

        def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            outputs = torch.func.functional_call(self.model, parameters, (x.unsqueeze(0),))
            return losses(outputs, y.unsqueeze(0))[0]

        self.each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))

    def step(self) -> None:
        found = self.each(self.parameters, self.inputs, self.targets)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in found.values()]).norm(dim=0)
        factors = (self.setting.bound / norms).clamp_(max=1.0)
        deviation = self.setting.multiplier * self.setting.bound
        for name, parameter in self.parameters.items():
            total = torch.einsum("b,b...->...", factors, found[name])
            total += torch.randn_like(total) * deviation
            parameter.add_(total, alpha=-self.setting.rate / self.setting.lot)


class Opacus(InTorch):
    """Through its engine, in one of its modes; its loader is left out, because the lot is in memory."""

    def __init__(self, setting: Setting, mode: str) -> None:
        super().__init__(setting)
        import warnings

        from opacus import PrivacyEngine
        from opacus.validators import ModuleValidator
        from torch.utils.data import DataLoader, TensorDataset

        warnings.simplefilter("ignore")
        if isinstance(self.model, GPT):
            self.model.spread = True
        self.model = ModuleValidator.fix(self.model)  # an LSTM of its own, with the same weights
        loader = DataLoader(TensorDataset(self.inputs, self.targets), batch_size=setting.lot)
        more: dict[str, Any] = {"criterion": nn.CrossEntropyLoss()} if mode == "ghost" else {}
        wrapped, self.optimizer, *rest = PrivacyEngine().make_private(
            module=self.model,
            optimizer=self.sgd(),
            data_loader=loader,
            noise_multiplier=setting.multiplier,
            max_grad_norm=setting.bound,
            poisson_sampling=False,
            grad_sample_mode=mode,
            **more,
        )
        self.wrapped, self.criterion = wrapped, rest[0] if mode == "ghost" else None

    def step(self) -> None:
        self.optimizer.zero_grad()
        outputs = self.wrapped(self.inputs)
        if self.criterion is None:
            loss = self.loss(outputs, self.targets)
        elif outputs.dim() > 2:
            outputs = outputs.movedim(1, -1).flatten(1, 2) if outputs.dim() == 4 else outputs
            loss = self.criterion(outputs.flatten(0, 1), self.targets.flatten(), shape=outputs.shape)
        else:
            loss = self.criterion(outputs, self.targets)
        loss.backward()
        self.optimizer.step()

    def weights(self) -> dict[str, np.ndarray]:
        """By torch's names: its LSTM has ``l0.ih.weight`` for ``weight_ih_l0``, its attention three matrices for one."""
        found = super().weights()
        for name in [name for name in found if ".qlinear." in name]:
            each = [found.pop(name.replace(".qlinear.", f".{letter}linear.")) for letter in "qkv"]
            found[name.replace(".qlinear.", ".in_proj_")] = np.concatenate(each)
        return {
            re.sub(r"(l\d+(?:_reverse)?)\.(ih|hh)\.(\w+)$", r"\3_\2_\1", name): value
            for name, value in found.items()
        }


class BackPACK(InTorch):
    """Ghost clipping on BackPACK: norms in a first backward pass, weighted losses in a second."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        from backpack import backpack, extend
        from backpack.extensions import BatchL2Grad

        self.model = extend(self.model)
        self.norms, self.optimizer = lambda: backpack(BatchL2Grad()), self.sgd()
        self.parameters = list(self.model.parameters())
        if any(isinstance(module, nn.LayerNorm) for module in self.model.modules()):
            raise NotImplementedError("BackPACK has no norms for LayerNorm")

    def step(self) -> None:
        self.optimizer.zero_grad()
        each = losses(self.model(self.inputs), self.targets)
        with self.norms():
            each.sum().backward(retain_graph=True)
        squares = torch.stack([p.batch_l2 for p in self.parameters]).sum(0)
        self.optimizer.zero_grad()
        (each * (self.setting.bound / squares.sqrt()).clamp_(max=1.0)).sum().backward()
        deviation = self.setting.multiplier * self.setting.bound
        for p in self.parameters:
            assert p.grad is not None
            p.grad += torch.randn_like(p) * deviation
            p.grad /= self.setting.lot
        self.optimizer.step()


def _jax(library: bool) -> Callable[[Setting], Contestant]:
    def make(setting: Setting) -> Contestant:
        from in_jax import InJax

        return InJax(setting, library=library)

    return make


def _opacus(mode: str) -> Callable[[Setting], Contestant]:
    return lambda setting: Opacus(setting, mode)


PLAIN, CHANNELS_LAST = "plain torch", "plain, channels last"
SECURE, SEEDED = "Privet", "Privet, seeded"
OWN = (SECURE, SEEDED)
OPACUS = tuple(f"Opacus {mode}" for mode in ("hooks", "functorch", "ew", "ghost"))
CONTESTANTS: Mapping[str, Callable[[Setting], Contestant]] = {
    PLAIN: Plain,
    CHANNELS_LAST: PlainChannelsLast,
    SECURE: lambda setting: Privet(setting, SecureNoise()),
    SEEDED: lambda setting: Privet(setting, SeededNoise(1)),
    **{name: _opacus(name.removeprefix("Opacus ")) for name in OPACUS},
    "BackPACK ghost": BackPACK,
    "torch.func vmap": VmapGrad,
    "JAX jit(vmap)": _jax(library=False),
    "jax-privacy": _jax(library=True),
}
IN_TORCH = (PLAIN, SECURE, *OPACUS, "torch.func vmap")  # on models that others wrote
PEERS = tuple(name for name in CONTESTANTS if name not in (PLAIN, CHANNELS_LAST, *OWN))


def entrants(task: Task) -> list[str]:
    return [name for name in CONTESTANTS if task.images or name != CHANNELS_LAST]
