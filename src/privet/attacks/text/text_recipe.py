"""How a language model is trained on sequences: the target's recipe, and that of its reference models."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from privet.arguments import positive, whole
from privet.attacks.shadows.fingerprints import fingerprint
from privet.attacks.shadows.optimizers import Adam, Optimizer
from privet.attacks.shadows.orders import Order
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.schedules import Constant, Schedule
from privet.attacks.shadows.torch_recipe import seeded_weights
from privet.attacks.text.sequence_views import SequenceView, sequences_of
from privet.attacks.text.token_views import Tokens
from privet.attacks.text.torch_tokens import TorchTokenView
from privet.attacks.torch_outputs import bare_outputs
from privet.errors import InvalidArgument, ProgramFailed
from privet.views import BlackBox, Labels, Rows

__all__ = ["TextRecipe"]

_FILL = -1


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TextRecipe(Recipe):
    """``model()`` makes a causal language model; it learns to predict every next token of its sequences.

    The loss of a batch is the mean over its tokens; padding has none. Each epoch is a new order of the
    sequences. ``largest_gradient`` bounds the norm of a step's gradient, None for no bound. ``end`` and
    ``context`` are those of the view of a trained model. As a ``Recipe`` it serves the shadow engine:
    ``study(TextRecipe(…), sequence_records(sequences), …)`` gives references for LiRA over sequences.

    All of a model's randomness comes from its seed, and global random state is restored.
    """

    model: Callable[[], nn.Module]
    epochs: int = 10
    batch_size: int = 16
    learning_rate: float = 2e-3
    optimizer: Optimizer = field(default_factory=Adam)
    schedule: Schedule = field(default_factory=Constant)
    largest_gradient: float | None = 1.0
    end: int | None = None
    context: int | None = None

    def __post_init__(self) -> None:
        whole("epochs", self.epochs)
        whole("batch_size", self.batch_size)
        positive("learning_rate", self.learning_rate)
        if self.largest_gradient is not None:
            positive("largest_gradient", self.largest_gradient)
        if not callable(self.model) or isinstance(self.model, nn.Module):
            raise InvalidArgument(
                f"'model' must be a function that makes a module, got a {type(self.model).__name__}. "
                f"Give lambda: LSTMLanguageModel(…), so that each model has its own initial weights."
            )

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        del labels  # all are 1
        return SequenceView(self._last(sequences_of(inputs), seed))

    def train(self, sequences: Sequence[Tokens], *, seed: int) -> TorchTokenView:
        """A model trained on these sequences, seen by its token probabilities."""
        return self._last(sequences, whole("seed", seed, least=0))

    def train_by_epoch(self, sequences: Sequence[Tokens], *, seed: int) -> Iterator[TorchTokenView]:
        """The same model after each epoch: the curve along which models are compared.

        All views show one module, which goes on training: ask before the next epoch.
        """
        yield from self._epochs(sequences, whole("seed", seed, least=0))

    def description(self) -> str | None:
        """A hash of the recipe with the initial weights for one seed."""
        with seeded_weights(0):
            made = self._make()
        state = {name: value.numpy() for name, value in made.state_dict().items()}
        rest = [self.epochs, self.batch_size, self.learning_rate, self.optimizer, self.schedule]
        parts = (repr(made), state, self.model, rest, self.largest_gradient)
        return fingerprint((torch.__version__, parts))

    def after(self, epochs: int) -> "TextRecipe":
        """The same recipe with another number of epochs."""
        return replace(self, epochs=epochs)

    def _make(self) -> nn.Module:
        module = self.model()
        if not isinstance(module, nn.Module):
            raise InvalidArgument(
                f"'model' must make a torch module, got a {type(module).__name__}. Give a function without "
                f"arguments."
            )
        return module

    def _last(self, sequences: Sequence[Tokens], seed: int) -> TorchTokenView:
        *_, view = self._epochs(sequences, seed)
        return view

    def _epochs(self, sequences: Sequence[Tokens], seed: int) -> Iterator[TorchTokenView]:
        with seeded_weights(seed):
            module = self._make()
            state = torch.random.get_rng_state()
        tokens = _pad(sequences)
        order = Order(np.arange(len(tokens)), epochs=self.epochs, batch_size=self.batch_size, seed=seed)
        optimizer = self.optimizer.torch_optimizer(module.parameters(), self.learning_rate)
        for epoch in range(self.epochs):
            module.train()
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                torch.random.set_rng_state(state)  # dropout goes on where the last epoch ended
                for step in range(epoch * order.batches_per_epoch, (epoch + 1) * order.batches_per_epoch):
                    for group in optimizer.param_groups:
                        group["lr"] = self.learning_rate * self.schedule.factor(step, order.steps)
                    optimizer.zero_grad(set_to_none=True)
                    loss = _token_loss(module, tokens[torch.from_numpy(order.batch(step))])
                    loss.backward()  # type: ignore[no-untyped-call]
                    if self.largest_gradient is not None:
                        nn.utils.clip_grad_norm_(module.parameters(), self.largest_gradient)
                    optimizer.step()
                state = torch.random.get_rng_state()
            yield TorchTokenView(module, end=self.end, context=self.context)


def _pad(sequences: Sequence[Tokens]) -> Tensor:
    """One row for each sequence, filled up with a number that is no token."""
    if not len(sequences) or min(len(one) for one in sequences) < 2:
        raise InvalidArgument(
            "'sequences' must have at least 2 tokens each and be at least one, got fewer. Leave empty texts "
            "out."
        )
    return nn.utils.rnn.pad_sequence(
        [torch.from_numpy(np.asarray(one, dtype=np.int64)) for one in sequences], True, _FILL
    )


def _token_loss(module: nn.Module, rows: Tensor) -> Tensor:
    """The mean of −ln p over the tokens of a batch, cut to its longest sequence."""
    rows = rows[:, : int((rows != _FILL).sum(dim=1).max())]
    try:
        logits = bare_outputs(module(rows[:, :-1].clamp_min(0)))
    except IndexError as failure:  # of an embedding: its message may show tokens
        raise ProgramFailed(
            f"The model must take {rows.shape[1] - 1} tokens of this vocabulary in a row, and an index of it "
            f"was out of range. Give the model the encoder's vocabulary, and cut the sequences to its "
            f"context by cut_sequences."
        ) from failure
    if not isinstance(logits, Tensor) or logits.ndim != 3:
        raise InvalidArgument(
            "'model' must make a module that gives logits (n, t, vocabulary), got another output. Give one "
            "such as LSTMLanguageModel."
        )
    if int(rows.max()) >= logits.shape[2]:
        raise InvalidArgument(
            f"'sequences' must hold tokens from 0 to {logits.shape[2] - 1}, which are those of the model, "
            f"got {int(rows.max())}. Give the model the encoder's vocabulary."
        )
    return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), ignore_index=_FILL)
