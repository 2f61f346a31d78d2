"""What an adversary sees of a causal language model: the probability of every next token.

A sequence is an array of tokens. Its first token is given, and the model predicts every later one from those
before it. Answers about sequences of several lengths are flat arrays with offsets, so that no padding is ever
read by an attack. All signals come from one forward pass.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = [
    "LEAST_LOG_PROBABILITY",
    "TokenLogProbs",
    "TokenView",
    "Tokens",
    "check_sequences",
    "cut_sequences",
    "summarise_distributions",
]

Tokens = NDArray[np.int64]
LEAST_LOG_PROBABILITY = -745.0  # ln of the smallest float64: a token that the model holds for impossible


@final
@dataclass(frozen=True, eq=False)
class TokenLogProbs:
    """What a model says of every predicted token of some sequences.

    ``tokens`` are those from the second of each sequence on. For each there is ``logprobs`` (ln p of the
    token), ``ranks`` (1 = no other token is as likely; ties count against the token), and the mean and
    standard deviation of ln p under the model's own distribution at this place, ``means`` and ``deviations``.
    Sequence i has the places from ``offsets[i]`` to ``offsets[i + 1]``. ``top_tokens`` and ``top_logprobs``
    are places × k where they were asked for.
    """

    tokens: Tokens
    logprobs: Numbers
    ranks: Tokens
    means: Numbers
    deviations: Numbers
    offsets: Tokens
    top_tokens: Tokens | None = None
    top_logprobs: Numbers | None = None

    def __post_init__(self) -> None:
        places = len(self.tokens)
        flat = (self.logprobs, self.ranks, self.means, self.deviations)
        if any(part.shape != (places,) for part in flat) or self.offsets.ndim != 1:
            raise InvalidArgument(
                "'logprobs' must have one value for each token, got arrays of several lengths. Give flat "
                "arrays of one length, and offsets."
            )
        if len(self.offsets) < 1 or self.offsets[0] != 0 or self.offsets[-1] != places:
            raise InvalidArgument(
                f"'offsets' must lead from 0 to {places}, got others. Give the place where each sequence "
                f"begins, and the number of all places as the last."
            )
        if (np.diff(self.offsets) < 0).any():
            raise InvalidArgument("'offsets' must not decrease, got some that do. Sort the sequences.")

    def __len__(self) -> int:
        """How many sequences there are."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"TokenLogProbs({len(self)} sequences, {len(self.tokens)} tokens)"

    @property
    def lengths(self) -> Tokens:
        """How many tokens of each sequence were predicted."""
        return np.diff(self.offsets)

    def of(self, sequence: int) -> "TokenLogProbs":
        """What was said of one sequence."""
        return self.pick([sequence])

    def pick(self, which: Iterable[int]) -> "TokenLogProbs":
        """What was said of some of the sequences, in the order asked for."""
        chosen = [range(len(self))[one] for one in which]
        places = [np.arange(self.offsets[one], self.offsets[one + 1]) for one in chosen]
        at = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
        return TokenLogProbs(
            self.tokens[at],
            self.logprobs[at],
            self.ranks[at],
            self.means[at],
            self.deviations[at],
            np.concatenate([[0], np.cumsum([len(part) for part in places], dtype=np.int64)]).astype(np.int64),
            None if self.top_tokens is None else self.top_tokens[at],
            None if self.top_logprobs is None else self.top_logprobs[at],
        )

    @property
    def owners(self) -> Tokens:
        """The sequence of every place."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def sums(self, values: Numbers) -> Numbers:
        """The sum of one value for each token over every sequence."""
        return np.bincount(self.owners, weights=values, minlength=len(self)).astype(np.float64, copy=False)


class TokenView(ABC):
    """A causal language model, as an adversary sees it who gets the probability of every token.

    ``vocabulary`` is the number of tokens; ``end`` the token that ends a text, where there is one;
    ``context`` the longest sequence that the model takes, where there is a limit.
    """

    @property
    @abstractmethod
    def vocabulary(self) -> int:
        """How many tokens the model knows."""

    @property
    @abstractmethod
    def end(self) -> int | None:
        """The token that ends a text; None where there is none."""

    @property
    @abstractmethod
    def context(self) -> int | None:
        """The number of tokens in the longest sequence that the model takes; None where there is no limit."""

    @abstractmethod
    def logprobs(self, sequences: Sequence[Tokens], *, top: int = 0) -> TokenLogProbs:
        """What the model says of every token after the first, from one forward pass.

        ``top`` asks for that many of the most likely tokens at every place as well.
        """

    @abstractmethod
    def next_logits(self, prefixes: Sequence[Tokens]) -> Numbers:
        """ln p of every token after each prefix, prefixes × vocabulary."""


def check_sequences(sequences: Sequence[Tokens], view: TokenView, *, least: int = 2) -> list[Tokens]:
    """The sequences as arrays of int64; refused where the model cannot read one."""
    if not len(sequences):
        raise InvalidArgument("'sequences' must hold at least one sequence, got none. Give some texts.")
    arrays = [_to_tokens(sequence) for sequence in sequences]
    if min(len(array) for array in arrays) < least:
        raise InvalidArgument(
            f"'sequences' must have at least {least} tokens each, got one that is shorter: the first token "
            f"is given and the later ones are predicted. Leave empty texts out, or put the end token before "
            f"every text (encode_texts does)."
        )
    lowest = min(int(array.min(initial=0)) for array in arrays)
    highest = max(int(array.max(initial=0)) for array in arrays)
    if lowest < 0 or highest >= view.vocabulary:
        raise InvalidArgument(
            f"'sequences' must hold tokens from 0 to {view.vocabulary - 1}, which are those of the model, "
            f"got {lowest if lowest < 0 else highest}. Take the tokenizer that the model was trained with."
        )
    longest = max(len(array) for array in arrays)
    if view.context is not None and longest > view.context:
        raise InvalidArgument(
            f"'sequences' must have at most {view.context} tokens, which is the model's context, got one of "
            f"{longest}. Cut them by cut_sequences(sequences, {view.context})."
        )
    return arrays


def cut_sequences(sequences: Sequence[Tokens], longest: int) -> list[Tokens]:
    """The first ``longest`` tokens of each sequence: what a model of that context is asked about.

    >>> [part.tolist() for part in cut_sequences([np.arange(5), np.arange(2)], 3)]
    [[0, 1, 2], [0, 1]]
    """
    return [np.asarray(sequence)[:longest] for sequence in sequences]


def summarise_distributions(logs: Numbers, tokens: Tokens, offsets: Tokens, *, top: int = 0) -> TokenLogProbs:
    """From ln p of every token at every place (places × vocabulary): for models without torch."""
    places = np.arange(len(tokens))
    logs = np.maximum(logs, LEAST_LOG_PROBABILITY)
    own, probabilities = logs[places, tokens], np.exp(logs)
    means = (probabilities * logs).sum(axis=1)
    deviations = np.sqrt((probabilities * (logs - means[:, None]) ** 2).sum(axis=1))
    order = np.argsort(-logs, axis=1, kind="stable")[:, :top] if top else None
    return TokenLogProbs(
        tokens,
        own,
        (logs >= own[:, None]).sum(axis=1).astype(np.int64),
        means,
        deviations,
        offsets,
        None if order is None else order.astype(np.int64),
        None if order is None else np.take_along_axis(logs, order, axis=1),
    )


def _to_tokens(sequence: object) -> Tokens:
    array = np.asarray(sequence)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidArgument(
            f"'sequences' must be one row of whole numbers for each text, got an array of shape "
            f"{array.shape} and type {array.dtype}. Encode each text by itself, without padding."
        )
    return array.astype(np.int64, copy=False)
