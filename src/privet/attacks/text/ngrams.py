"""A language model that counts: the public reference that costs nothing, and a target for tests.

The probability of a token after a context h is interpolated from long contexts to short ones, with the
weights of Witten & Bell 1991: p(w | h) = (c(hw) + T(h) p(w | h')) / (c(h) + T(h)), where c counts, T(h) is
the number of different tokens seen after h, and h' is h without its oldest token. The shortest context is
uniform.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import final

import numpy as np

from privet.arguments import whole
from privet.attacks.text.token_views import (
    TokenLogProbs,
    Tokens,
    TokenView,
    check_sequences,
    summarise_distributions,
)
from privet.views import Numbers

__all__ = ["NGramModel"]

_PLACES = 4096  # distributions that are held at a time


@final
class NGramModel(TokenView):
    """Counts of up to ``order`` tokens in some sequences.

    >>> model = NGramModel([np.array([2, 0, 1, 2])], vocabulary=3, order=2)
    >>> np.exp(model.next_logits([np.array([2])])).round(3).tolist()
    [[0.667, 0.167, 0.167]]
    """

    def __init__(
        self, sequences: Sequence[Tokens], *, vocabulary: int, order: int = 3, end: int | None = None
    ) -> None:
        self._vocabulary, self._order = whole("vocabulary", vocabulary), whole("order", order)
        self._end = end
        counts: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for sequence in check_sequences(sequences, self):
            tokens = sequence.tolist()
            for place in range(1, len(tokens)):
                for length in range(min(self._order, place + 1)):
                    counts[tuple(tokens[place - length : place])][tokens[place]] += 1
        self._counts = {
            context: (np.fromiter(found.keys(), np.int64), np.fromiter(found.values(), np.float64))
            for context, found in counts.items()
        }

    @property
    def vocabulary(self) -> int:
        return self._vocabulary

    @property
    def end(self) -> int | None:
        return self._end

    @property
    def context(self) -> int | None:
        return None

    def logprobs(self, sequences: Sequence[Tokens], *, top: int = 0) -> TokenLogProbs:
        arrays = check_sequences(sequences, self)
        offsets = np.concatenate([[0], np.cumsum([len(array) - 1 for array in arrays])]).astype(np.int64)
        parts, places = [], [(array, place) for array in arrays for place in range(1, len(array))]
        for start in range(0, len(places), _PLACES):
            some = places[start : start + _PLACES]
            logs = np.stack([self._distribution(array[:place]) for array, place in some])
            targets = np.array([array[place] for array, place in some])
            parts.append(summarise_distributions(np.log(logs), targets, np.array([0, len(some)]), top=top))
        return TokenLogProbs(
            np.concatenate([part.tokens for part in parts]),
            np.concatenate([part.logprobs for part in parts]),
            np.concatenate([part.ranks for part in parts]),
            np.concatenate([part.means for part in parts]),
            np.concatenate([part.deviations for part in parts]),
            offsets,
            np.concatenate([part.top_tokens for part in parts if part.top_tokens is not None])
            if top
            else None,
            np.concatenate([part.top_logprobs for part in parts if part.top_logprobs is not None])
            if top
            else None,
        )

    def next_logits(self, prefixes: Sequence[Tokens]) -> Numbers:
        arrays = check_sequences(prefixes, self, least=1)
        return np.log(np.stack([self._distribution(array) for array in arrays]))

    def _distribution(self, prefix: Tokens) -> Numbers:
        """p of every token after a prefix."""
        p = np.full(self._vocabulary, 1.0 / self._vocabulary)
        recent = tuple(prefix[max(0, len(prefix) - self._order + 1) :].tolist())
        for length in range(len(recent) + 1):
            found = self._counts.get(recent[len(recent) - length :])
            if found is None:  # then no longer context was seen either
                break
            tokens, counts = found
            p *= len(tokens) / (counts.sum() + len(tokens))
            p[tokens] += counts / (counts.sum() + len(tokens))
        return p
