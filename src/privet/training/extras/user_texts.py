"""The user as the unit of privacy for texts: one example holds all that a user contributes.

``gather_users`` makes one example of each user: at most so many texts of at most so many tokens. The example
depends on the user's own texts and on public numbers alone. ``UserLanguageModel`` gives the logits of all
texts of a user, whose loss is the mean over the user's tokens. So a lot is a lot of users, the clip bounds
what a user adds to a step, and the noise covers a whole user. ``privet.train(UserLanguageModel(model),
gather_users(…).data, adjacency=AddRemove(Unit.USER), …)`` is accounted as any other run, with "user" as its
unit.

*Guarantee*: neighbours differ in all texts of one user. It needs that ``users`` names the right person for
every text; a text of one user that quotes another is covered as a text of the first alone.

*Leaks*: a vocabulary that was learnt from the texts is not covered (see ``privet.attacks.text.encoders``).

*Reference*: McMahan et al. 2018, user-level private language models (whose users take several local steps);
Charles et al. 2024, user-level sampling, where the mean gradient of a user's examples is clipped.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.token_arguments import require_tokens

__all__ = ["UserLanguageModel", "UserTexts", "gather_users"]

_IGNORED = -100  # of torch's cross entropy


@final
@dataclass(frozen=True, eq=False)
class UserTexts:
    """One example for each user: ``inputs`` users × texts × tokens, ``targets`` users × (texts · tokens)."""

    inputs: Tensor
    targets: Tensor

    @property
    def data(self) -> tuple[Tensor, Tensor]:
        """The data for ``privet.train``."""
        return self.inputs, self.targets

    def __len__(self) -> int:
        """How many users there are. *Leaks*: it is as secret as the users are."""
        return len(self.inputs)

    def __repr__(self) -> str:
        return f"UserTexts(at most {self.inputs.shape[1]} texts of {self.inputs.shape[2]} tokens from a user)"


@final
class UserLanguageModel(nn.Module):
    """A causal language model that takes all texts of a user at once.

    Tokens are (users, texts, tokens), and logits (users, texts · tokens, vocabulary). ``model`` is the module
    that is trained, and the one to keep.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        require_tokens(tokens, "users", "texts", "tokens")
        users, texts, length = tokens.shape
        logits: Tensor = self.model(tokens.reshape(users * texts, length))
        return logits.reshape(users, texts * length, logits.shape[-1])


def gather_users(
    sequences: Sequence[NDArray[np.int64]],
    users: Sequence[object],
    *,
    most_texts: int,
    most_tokens: int,
    seed: int = 0,
) -> UserTexts:
    """One example for each user: at most ``most_texts`` texts, each of at most ``most_tokens`` predicted
    tokens.

    A user with more texts contributes a random choice of them. The choice depends on the user's name and the
    ``seed``, and on no other user. Both limits are public; never take them from the data.

    >>> found = gather_users([np.array([9, 1, 2]), np.array([9, 3])], ["a", "a"], most_texts=3, most_tokens=2)
    >>> found.inputs.tolist(), found.targets.tolist()
    ([[[9, 1], [9, 0], [0, 0]]], [[1, 2, 3, -100, -100, -100]])
    """
    whole("most_texts", most_texts)
    whole("most_tokens", most_tokens)
    whole("seed", seed, least=0)
    if not len(sequences) or len(sequences) != len(users):
        raise InvalidArgument(
            "'users' must name the user of every sequence, and there must be at least one, got another "
            "number of names. Give one name for each sequence."
        )
    texts: dict[str, list[NDArray[np.int64]]] = {}
    for sequence, user in zip(sequences, users, strict=True):
        texts.setdefault(str(user), []).append(np.asarray(sequence))
    names = sorted(texts)
    inputs = np.zeros((len(names), most_texts, most_tokens), dtype=np.int64)
    targets = np.full_like(inputs, _IGNORED)
    for row, name in enumerate(names):
        own = sorted(texts[name], key=lambda one: one.tolist())  # the order of the data is no user's own
        chosen = np.sort(_user_generator(name, seed).permutation(len(own))[:most_texts])
        for place, one in enumerate(chosen):
            text = own[one][: most_tokens + 1]
            inputs[row, place, : len(text) - 1] = text[:-1]
            targets[row, place, : len(text) - 1] = text[1:]
    return UserTexts(torch.from_numpy(inputs), torch.from_numpy(targets.reshape(len(names), -1)))


def _user_generator(name: str, seed: int) -> np.random.Generator:
    digest = hashlib.blake2b(name.encode("utf-8", errors="surrogatepass"), digest_size=16).digest()
    return np.random.default_rng([seed, int.from_bytes(digest)])
