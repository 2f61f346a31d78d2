"""A torch model trained by cross-entropy, or by the squared error of a quantity: its recipe, and the plain
training loop that every engine is compared with.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.arguments import positive, whole
from privet.attacks.outputs import Outputs
from privet.attacks.shadows.fingerprints import fingerprint
from privet.attacks.shadows.optimizers import SGD, Optimizer
from privet.attacks.shadows.orders import Order
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.schedules import Constant, Schedule
from privet.attacks.shadows.stopping import EarlyStopping, StoppingRule
from privet.attacks.torch_inputs import ModelInputs, call_module, map_inputs, to_model_inputs
from privet.attacks.torch_outputs import detect_outputs, last_layer_gives, require_two_classes, row_losses
from privet.attacks.torch_views import TorchView
from privet.errors import InvalidArgument
from privet.views import BlackBox, Labels, Numbers, Rows

__all__ = [
    "VIEW_ROWS",
    "AugmentationFunction",
    "InitialModel",
    "TorchRecipe",
    "augmentation_generator",
    "initialize_model",
    "seeded_weights",
    "to_tensor",
    "train_model",
]

# From a batch of inputs (a dictionary of tensors, where the model has several) to the batch to train on.
AugmentationFunction = Callable[[Any, torch.Generator], Any]
VIEW_ROWS = 1024
_AUGMENTATION_STREAM = 3


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TorchRecipe(Recipe):
    """``model()`` makes a module with its initial weights; it is trained by cross-entropy.

    The module gives logits, unless its last layer or ``gives`` says that it gives probabilities, of every
    class or in one output of class 1 alone. A module that gives ``Outputs.QUANTITIES`` is trained by the
    squared error. Weight decay belongs to the optimizer.

    For the order of records and partial batches see ``orders``. All of a model's randomness comes from its
    seed, and global random state is restored. Training runs on the CPU.
    """

    model: Callable[[], nn.Module]
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 0.1
    optimizer: Optimizer = field(default_factory=SGD)
    schedule: Schedule = field(default_factory=Constant)
    augmentation: AugmentationFunction | None = None
    stopping: EarlyStopping | None = None
    gives: Outputs | None = None

    def __post_init__(self) -> None:
        whole("epochs", self.epochs)
        whole("batch_size", self.batch_size)
        positive("learning_rate", self.learning_rate)
        if not callable(self.model) or isinstance(self.model, nn.Module):
            raise InvalidArgument(
                f"'model' must be a function that makes a module, got a {type(self.model).__name__}. "
                f"Give lambda: nn.Sequential(…), so that each model has its own initial weights."
            )

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        made = initialize_model(self, seed)
        train_model(
            self,
            made,
            to_model_inputs(made.module, inputs),
            torch.as_tensor(labels),
            np.arange(len(inputs)),
            seed,
        )
        return self.view(made.module)

    def fit_quantities(self, inputs: Rows, targets: Numbers, seed: int) -> Callable[[Any], object]:
        made = initialize_model(self, seed)
        recipe = replace(self, gives=Outputs.QUANTITIES)
        rows = to_model_inputs(made.module, inputs)
        train_model(recipe, made, rows, torch.as_tensor(targets), np.arange(len(inputs)), seed)
        return TorchView(made.module, batch=VIEW_ROWS).outputs

    def view(self, module: nn.Module) -> TorchView:
        """The view of a trained module that its users would have."""
        return TorchView(module, batch=VIEW_ROWS, gives=self.gives)

    def outputs(self, module: nn.Module, inputs: ModelInputs) -> Outputs:
        """Whether the module gives logits or probabilities."""
        return self.gives or detect_outputs(module, inputs) or Outputs.LOGITS

    def giving(self, outputs: Outputs | None) -> "TorchRecipe":
        return self if outputs is None or self.gives is not None else replace(self, gives=outputs)

    def description(self) -> str | None:
        """A hash of the recipe with the initial weights for one seed, which depend on files and defaults that
        code does not show.
        """
        made = initialize_model(self, 0).module
        state = {name: value.numpy() for name, value in made.state_dict().items()}
        parts = (
            repr(made),
            [type(part) for part in made.modules()],
            state,
            self.model,
            self.epochs,
            self.batch_size,
            self.learning_rate,
            self.optimizer,
            self.schedule,
            self.augmentation,
            self.stopping,
            self.gives or last_layer_gives(made) or Outputs.LOGITS,
        )
        return fingerprint((torch.__version__, parts))

    def rate(self, step: int, steps: int) -> float:
        """The learning rate at a step."""
        return float(self.learning_rate * self.schedule.factor(step, steps))


@final
@dataclass(frozen=True, eq=False)
class InitialModel:
    """A module with its initial weights, and torch's random state after they were drawn."""

    module: nn.Module
    state: Tensor


@contextmanager
def seeded_weights(seed: int) -> Iterator[None]:
    """Modules that are made inside draw their initial weights from this seed.

    Torch modules can draw from its global generator alone. Its state is restored afterwards, and the
    generators of other devices are not touched.
    """
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def initialize_model(recipe: TorchRecipe, seed: int) -> InitialModel:
    """A module before its first step."""
    with seeded_weights(seed):
        module = recipe.model()
        if not isinstance(module, nn.Module):
            raise InvalidArgument(
                f"'model' must make a torch module, got a {type(module).__name__}. Give a function without "
                f"arguments."
            )
        return InitialModel(module.cpu().train(), torch.random.get_rng_state())


def to_tensor(module: nn.Module, inputs: Rows) -> Tensor:
    """The records as the one tensor that engines for stacks need."""
    rows = to_model_inputs(module, inputs)
    assert isinstance(rows, Tensor)  # engines refuse records with several inputs before
    return rows


def augmentation_generator(seed: int) -> torch.Generator:
    """The random generator of one model's augmentation."""
    state = np.random.SeedSequence([seed, _AUGMENTATION_STREAM]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]) >> 1)


def train_model(
    recipe: TorchRecipe,
    made: InitialModel,
    inputs: ModelInputs,
    labels: Tensor,
    members: NDArray[np.intp],
    seed: int,
    *,
    steps: int | None = None,
) -> None:
    """Train one model in place; ``steps`` ends it early, for a measurement."""
    module, generator = made.module, augmentation_generator(seed)
    gives = recipe.outputs(module, inputs)
    require_two_classes(module, inputs, labels)
    stopping = None
    if recipe.stopping is not None:
        members, held_out = recipe.stopping.split(members, seed)
        stopping = StoppingRule(recipe.stopping, inputs, labels, held_out, gives)
    order = Order(members, epochs=recipe.epochs, batch_size=recipe.batch_size, seed=seed)
    optimizer = recipe.optimizer.torch_optimizer(module.parameters(), recipe.learning_rate)
    module.train()
    with torch.random.fork_rng(devices=[]):
        torch.random.set_rng_state(made.state)
        for step in range(order.steps if steps is None else min(steps, order.steps)):
            rows = torch.from_numpy(order.batch(step))
            batch = map_inputs(lambda part, rows=rows: part[rows], inputs)  # type: ignore[misc]
            if recipe.augmentation is not None:
                batch = recipe.augmentation(batch, generator)
            for group in optimizer.param_groups:
                group["lr"] = recipe.rate(step, order.steps)
            optimizer.zero_grad(set_to_none=True)
            with torch.enable_grad():
                loss = row_losses(call_module(module, batch), labels[rows], gives).mean()
                loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            epoch_is_done = (step + 1) % order.batches_per_epoch == 0
            if stopping is not None and epoch_is_done and stopping.ends(module):
                break
    if stopping is not None:
        stopping.finish(module)
