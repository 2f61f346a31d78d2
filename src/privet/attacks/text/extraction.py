"""Extraction by prompts: is a text completed word for word, and how many tries would it take?

A prompt of the first tokens of a passage is given to the model; the passage is extracted if the model
continues with its next k tokens, all of them. Greedy decoding gives one answer. A model that is sampled gives
another answer each time, and whoever asks n times finds the passage with probability 1 − (1 − p)ⁿ, where p is
the probability of the whole continuation. So p decides, and nothing needs to be sampled: a passage is
*(n, p)-discoverable* if that chance is at least p.

*The control*: passages of texts that were never trained on, chosen by the same rule (``find_passages``). What
a model completes of those is language and not memory. ``Recoveries`` holds both sides, so that success,
baseline, leak, ceiling and the bound on ε are those of every other attack.

*Reference*: Carlini, Ippolito, Jagielski, Lee, Tramèr & Zhang 2023, "Quantifying memorization across neural
language models" (discoverable extraction); Hayes et al. 2025, "Measuring memorization in language models via
probabilistic extraction" ((n, p)-discoverable). Deviations: non-members beside members; passages that are
unique to one person; 1 − (1 − p)ⁿ by logarithms, which keeps p = 10⁻¹⁷ and n = 10¹⁸.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from privet.arguments import open_fraction, whole
from privet.attacks.text.generation import Decoding, generate, score_continuations
from privet.attacks.text.passages import Passages
from privet.attacks.text.token_views import Tokens, TokenView
from privet.errors import InvalidArgument
from privet.exhibits import Exhibit
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Adversary, Numbers

__all__ = ["PromptedExtraction", "compute_extraction_chances", "count_tries"]

_SMALL = -40.0  # below this ln p, 1 − p is 1 in float64, and ln(1 − p) = −p to all digits
_SHOWN = 8


def compute_extraction_chances(log_probabilities: Numbers, tries: float) -> Numbers:
    """1 − (1 − p)ⁿ from ln p, to all digits for every p and n.

    >>> compute_extraction_chances(np.log([1e-17, 0.01, 1.0]), 1e18).tolist()
    [0.9999546000702375, 1.0, 1.0]
    >>> compute_extraction_chances(np.array([-2000.0, math.log(0.01)]), 100).round(4).tolist()
    [0.0, 0.634]
    """
    answer: Numbers = -np.expm1(float(_check_tries(tries)) * -_odds(log_probabilities))
    return answer


def count_tries(log_probabilities: Numbers, chance: float) -> Numbers:
    """The smallest n for which 1 − (1 − p)ⁿ is at least ``chance``; ∞ where p is 0.

    >>> count_tries(np.log([0.5, 0.01]), 0.5).tolist()
    [1.0, 69.0]
    """
    wanted = -math.log1p(-open_fraction("chance", chance))
    with np.errstate(divide="ignore"):
        exact = wanted / _odds(log_probabilities)
    # A whole number that rounding put just above stays what it is.
    answer: Numbers = np.maximum(np.ceil(exact * (1 - 1e-12)), 1.0)
    return answer


def _odds(log_probabilities: Numbers) -> Numbers:
    """−ln(1 − p) from ln p, in [0, ∞]."""
    logs = np.asarray(log_probabilities, dtype=np.float64)
    if np.isnan(logs).any() or (logs > 1e-9).any():
        raise InvalidArgument(
            "'log_probabilities' must be logarithms of probabilities, at most 0, got others. Give ln p."
        )
    logs = np.minimum(logs, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        small = np.exp(logs)
        answer: Numbers = np.where(logs < _SMALL, small, -np.log(-np.expm1(np.maximum(logs, _SMALL))))
    # Near p = ½ and below, log1p keeps more digits than the logarithm of 1 − p.
    middle = (logs >= _SMALL) & (logs < -0.7)
    return np.where(middle, -np.log1p(-np.where(middle, small, 0.0)), answer)


def _check_tries(tries: float) -> float:
    if not (math.isfinite(tries) and tries >= 1):
        raise InvalidArgument(
            f"'tries' must be a number of at least 1, got {tries!r}. Give how often to ask."
        )
    return tries


_ADVERSARY = Adversary(
    sees="what the model continues a prompt with",
    knows="the tokens before the passage",
    wants="the passage, word for word",
)


@final
@dataclass(frozen=True)
class PromptedExtraction:
    """(n, p)-discoverable extraction: asked ``tries`` times, the model gives the passage with probability of
    at least ``chance``.

    ``Decoding(temperature=0)`` with one try is greedy extraction.

    *Adversary*: sees continuations; knows the tokens before a passage; wants the passage word for word.

    *Reference*: Hayes et al. 2025, definition of (n, p)-discoverable extraction; see this module.
    """

    tries: int = 100
    chance: float = 0.5
    decoding: Decoding = field(default_factory=Decoding)

    name = "prompted extraction"
    adversary = _ADVERSARY

    def __post_init__(self) -> None:
        whole("tries", self.tries)
        open_fraction("chance", self.chance)

    def score(self, view: TokenView, passages: Passages) -> Numbers:
        """ln p of every passage given its prompt, under the decoding. No coin is seen."""
        return score_continuations(view, passages.prompts, passages.continuations, decoding=self.decoding)

    def run(
        self,
        view: TokenView,
        passages: Passages,
        members: Bits,
        *,
        decode: Callable[[Tokens], str] | None = None,
        shown: int = _SHOWN,
    ) -> Recoveries:
        """Score every passage, then join the coin: ``members`` says of each passage whether its text was
        trained on.

        With ``decode``, which turns tokens into a line of text, the likeliest passages of members become
        exhibits, each beside what the model wrote greedily.
        """
        members = np.asarray(members, dtype=np.bool_)
        if members.shape != (len(passages),):
            raise InvalidArgument(
                f"'members' must say for each of {len(passages)} passages whether its text was trained on, "
                f"got an array of shape {members.shape}. Take the membership of passages.source."
            )
        logs = self.score(view, passages)
        needed = count_tries(logs, self.chance)
        recoveries = Recoveries(
            self.name,
            self.adversary,
            f"({self.tries:,}, {self.chance:g})-discoverable under {self.decoding.words}",
            needed <= self.tries,
            members,
            distances=needed,
            # Further from the number of tries = surer; what is impossible is surest to be a miss.
            confidence=np.abs(np.minimum(np.log(needed), 1e6) - math.log(self.tries)),
        )
        if decode is None:
            return recoveries
        inside = np.flatnonzero(members)
        best = inside[np.argsort(needed[inside], kind="stable")][: whole("shown", shown, least=0)]
        return replace(recoveries, exhibits=tuple(_show(view, passages, best, recoveries.hits, decode)))


def _show(
    view: TokenView, passages: Passages, which: np.ndarray, hits: Bits, decode: Callable[[Tokens], str]
) -> list[Exhibit]:
    if not len(which):
        return []
    length = max(len(passages.continuations[one]) for one in which)
    written = generate(
        view,
        [passages.prompts[one] for one in which],
        length,
        decoding=Decoding(temperature=0),
        generator=np.random.default_rng(0),
    )
    return [
        Exhibit(
            truth=decode(passages.continuations[one]),
            recovered=decode(text[: len(passages.continuations[one])]),
            caption=f"{'hit' if hits[one] else 'miss'}; after “{decode(passages.prompts[one])}”",
            member=True,
        )
        for one, text in zip(which.tolist(), written, strict=True)
    ]
