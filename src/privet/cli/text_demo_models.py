"""The language models of ``privet text demo``: one of public letters, and two that go on from it with private
ones, plainly and with a proof.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import final

import numpy as np
import torch

from privet.adjacency import AddRemove, Unit
from privet.attacks.text.encoders import WordEncoder, encode_texts
from privet.attacks.text.small_models import LSTMLanguageModel
from privet.attacks.text.text_recipe import TextRecipe
from privet.attacks.text.torch_tokens import TorchTokenView
from privet.canary_formats import CanaryFormat, PlantedCanaries, plant_canaries
from privet.datasets.letters import Letters, letter_words, write_letters
from privet.scores import Bits
from privet.training import Trained, UserLanguageModel, gather_users, train

__all__ = [
    "LetterGame",
    "draw_letter_game",
    "measure_loss",
    "train_on_public",
    "train_plainly",
    "train_privately",
]

_PREFIX = "the secret number of my safe is"
_LETTERS, _TOKENS = 3, 48  # of one writer, and of one letter; public
_PRIVATE_RATE = 1e-3  # a step of noise must not undo what the public letters taught


@final
@dataclass(frozen=True, eq=False)
class LetterGame:
    """Letters with a coin for each writer, public letters, and planted secrets."""

    encoder: WordEncoder
    letters: Letters
    members: Bits
    public: Letters
    secrets: PlantedCanaries

    @property
    def training_set(self) -> tuple[list[np.ndarray], list[str]]:
        """What is trained on: letters and secrets as tokens, and whose they are. Each copy of a secret has a
        writer of its own.
        """
        inside = np.flatnonzero(self.members).tolist()
        texts = [self.letters.texts[one] for one in inside]
        planted = self.secrets.sequences
        names = [self.letters.authors[one] for one in inside]
        names += [f"secret {number}" for number in range(len(planted))]
        return [*encode_texts(self.encoder, texts, end=self.encoder.end), *planted], names


def draw_letter_game(writers: int, *, seed: int) -> LetterGame:
    """Letters of so many writers, half of them left out by fair coins."""
    encoder = WordEncoder(letter_words())
    random = np.random.default_rng(seed)
    coins = random.integers(0, 2, writers).astype(np.bool_)
    format = CanaryFormat.of_text(encoder, _PREFIX, end=encoder.end, places=4)
    return LetterGame(
        encoder,
        write_letters(writers, _LETTERS, seed=seed),
        np.repeat(coins, _LETTERS),
        write_letters(writers // 5, _LETTERS, seed=seed + 1, prefix="public writer"),
        plant_canaries(format, count=80, copies=(1, 4), generator=random),
    )


def train_on_public(game: LetterGame, *, seed: int) -> TorchTokenView:
    """A model of public letters, from which the others go on."""
    end = game.encoder.end
    recipe = TextRecipe(
        model=lambda: LSTMLanguageModel(game.encoder.vocabulary, embedding=48, width=128),
        epochs=6,
        learning_rate=5e-3,
        end=end,
    )
    return recipe.train(encode_texts(game.encoder, game.public.texts, end=end), seed=seed)


def measure_loss(game: LetterGame, model: TorchTokenView) -> float:
    """The mean of −ln p over the words of letters that were left out, in nats."""
    texts = [text for text, inside in zip(game.letters.texts, game.members, strict=True) if not inside]
    return -float(model.logprobs(encode_texts(game.encoder, texts, end=game.encoder.end)).logprobs.mean())


def train_plainly(game: LetterGame, base: TorchTokenView, *, epochs: int, seed: int) -> TorchTokenView:
    """The public model, trained further on private letters."""
    recipe = TextRecipe(
        model=lambda: deepcopy(base.model), epochs=epochs, learning_rate=4e-3, end=game.encoder.end
    )
    return recipe.train(game.training_set[0], seed=seed)


def train_privately(game: LetterGame, base: TorchTokenView, *, epsilon: float, epochs: int) -> Trained:
    """The same with a proof: ε holds for all letters of a writer together. The noise has no seed."""
    sequences, names = game.training_set
    users = gather_users(sequences, names, most_texts=_LETTERS, most_tokens=_TOKENS)
    trained = train(
        UserLanguageModel(deepcopy(base.model)),
        users.data,
        epsilon=epsilon,
        delta=1e-5,
        epochs=epochs,
        adjacency=AddRemove(Unit.USER),
        optimizer=lambda parameters: torch.optim.Adam(parameters, lr=_PRIVATE_RATE),
    )
    if trained.interrupted:  # ``train`` returns normally after Ctrl-C; the demo stops
        raise KeyboardInterrupt
    return trained
