"""Text from a language model: the next token drawn by temperature, top-k and top-p, or the likeliest one.

The order is that of common libraries: first the temperature, then the ``top_k`` likeliest tokens, then the
fewest of these whose probabilities sum to at least ``top_p``; what is left is renormalised. All of it happens
in logarithms, so that a continuation of a thousand tokens still has a probability.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import at_least, format_value, whole
from privet.attacks.text.token_views import TokenLogProbs, Tokens, TokenView, check_sequences
from privet.errors import InvalidArgument
from privet.views import Numbers

__all__ = ["Decoding", "generate", "score_continuations"]

_BLOCK = 2**22  # log-probabilities that are held at a time


@final
@dataclass(frozen=True)
class Decoding:
    """How the next token is chosen. ``temperature=0`` is greedy: always the likeliest token.

    >>> Decoding(top_k=2).adjust(np.log([[0.6, 0.2, 0.15, 0.05]])).round(3).tolist()
    [[-0.288, -1.386, -inf, -inf]]
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        at_least("temperature", self.temperature, 0)
        if self.top_k is not None:
            whole("top_k", self.top_k)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise InvalidArgument(
                f"'top_p' must lie in (0, 1], got {format_value(self.top_p)}. Use temperature=0 for the "
                f"likeliest token."
            )

    @property
    def is_plain(self) -> bool:
        """Whether the model's own probabilities are used as they are."""
        return self.temperature == 1 and self.top_k is None and self.top_p in (None, 1.0)

    @property
    def words(self) -> str:
        """The decoding in a report."""
        if self.temperature == 0:
            return "greedy"
        parts = [] if self.temperature == 1 else [f"temperature {self.temperature:g}"]
        parts += [] if self.top_k is None else [f"top-{self.top_k}"]
        parts += [] if self.top_p is None else [f"top-p {self.top_p:g}"]
        return ", ".join(parts) or "plain sampling"

    def adjust(self, logs: Numbers) -> Numbers:
        """ln p of every token as it is drawn, rows × vocabulary; −∞ for tokens that are never drawn.

        Of equally likely tokens at an edge the one with the lower number is kept.
        """
        order = np.argsort(-logs, axis=1, kind="stable")
        kept = self._adjust_sorted(np.take_along_axis(logs, order, axis=1))
        answer: Numbers = np.full(logs.shape, -np.inf)
        np.put_along_axis(answer, order, kept, axis=1)
        return answer

    def count_needed(self, vocabulary: int) -> int:
        """How many of the likeliest tokens decide what is drawn."""
        if self.is_plain:
            return 0
        if self.temperature == 0:
            return 1
        return vocabulary if self.top_k is None else min(self.top_k, vocabulary)

    def score_tokens(self, found: TokenLogProbs) -> Numbers:
        """ln p of every token as it would be drawn, from one forward pass that asked for those that it needs.

        A token that ties with others at an edge counts as cut off.
        """
        if self.is_plain or found.top_logprobs is None:
            return found.logprobs
        kept = self._adjust_sorted(found.top_logprobs)
        allowed = np.isfinite(kept).sum(axis=1)
        # The first token is always kept; its change is that of all: ln p' = (ln p)/T − shift.
        if self.temperature == 0:
            return np.where(found.ranks == 1, 0.0, -np.inf)
        shift = found.top_logprobs[:, 0] / self.temperature - kept[:, 0]
        answer: Numbers = np.where(
            found.ranks <= allowed, np.minimum(found.logprobs / self.temperature - shift, 0.0), -np.inf
        )
        return answer

    def _adjust_sorted(self, logs: Numbers) -> Numbers:
        """The same for rows in falling order, which may end before the vocabulary does."""
        if self.temperature == 0:
            answer: Numbers = np.full(logs.shape, -np.inf)
            answer[:, 0] = 0.0
            return answer
        scaled = logs if self.temperature == 1 else logs / self.temperature
        if self.top_k is not None:
            scaled = np.where(np.arange(logs.shape[1]) < self.top_k, scaled, -np.inf)
        scaled = _normalise(scaled)
        if self.top_p is not None and self.top_p < 1:
            chances = np.exp(scaled)
            before = np.cumsum(chances, axis=1) - chances
            keep = before < self.top_p
            keep[:, 0] = True
            scaled = _normalise(np.where(keep, scaled, -np.inf))
        return scaled


def generate(
    view: TokenView,
    prompts: Sequence[Tokens],
    length: int,
    *,
    decoding: Decoding,
    generator: np.random.Generator,
) -> list[Tokens]:
    """At most ``length`` new tokens after each prompt; a text that ends has its end token last.

    A model with a limited context sees the last tokens that fit.
    """
    texts = check_sequences(prompts, view, least=1)
    starts = [len(text) for text in texts]
    open_texts = list(range(len(texts)))
    for _ in range(whole("length", length)):
        if not open_texts:
            break
        seen = [texts[one] if view.context is None else texts[one][-view.context :] for one in open_texts]
        logs = decoding.adjust(view.next_logits(seen))
        # The largest of ln p + Gumbel noise is a draw from p; −∞ never wins.
        chosen = np.argmax(logs + generator.gumbel(size=logs.shape), axis=1)
        for one, token in zip(open_texts, chosen.tolist(), strict=True):
            texts[one] = np.append(texts[one], token)
        open_texts = [
            one for one, token in zip(open_texts, chosen.tolist(), strict=True) if token != view.end
        ]
    return [text[start:] for text, start in zip(texts, starts, strict=True)]


def score_continuations(
    view: TokenView, prompts: Sequence[Tokens], continuations: Sequence[Tokens], *, decoding: Decoding
) -> Numbers:
    """ln of the probability that each prompt is continued by exactly these tokens; −∞ if it never is.

    One forward pass serves all places of a text.
    """
    if len(prompts) != len(continuations) or not len(prompts) or not all(map(len, continuations)):
        raise InvalidArgument(
            f"'continuations' must hold at least one token for each of {len(prompts)} prompts, got "
            f"{len(continuations)}. Give one text for each prompt."
        )
    if not all(map(len, prompts)):
        raise InvalidArgument(
            "'prompts' must hold at least one token each, got an empty one. Start with the end token."
        )
    answer: Numbers = np.empty(len(prompts))
    needed = decoding.count_needed(view.vocabulary)
    for part in _split(prompts, continuations, needed):
        texts = [np.concatenate([prompts[one], continuations[one]]) for one in part]
        found = view.logprobs(texts, top=needed)
        scores = decoding.score_tokens(found)
        for place, one in enumerate(part):
            end = int(found.offsets[place + 1])
            answer[one] = math.fsum(scores[end - len(continuations[one]) : end])
    return answer


def _split(prompts: Sequence[Tokens], continuations: Sequence[Tokens], needed: int) -> Iterator[list[int]]:
    """Texts in parts whose log-probabilities fit into memory."""
    part: list[int] = []
    held = 0
    for one, (prompt, continuation) in enumerate(zip(prompts, continuations, strict=True)):
        size = (len(prompt) + len(continuation)) * max(needed, 1)
        if part and held + size > _BLOCK:
            yield part
            part, held = [], 0
        part, held = [*part, one], held + size
    yield part


def _normalise(logs: Numbers) -> Numbers:
    answer: Numbers = logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)
    return answer
