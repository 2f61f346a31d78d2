"""Which sentences leak: membership attacks on single texts, all from one forward pass of the target.

An attack reads what the model said of every token (``judge``), never the coin. ``run`` asks the model and
joins the coin; ``run_together`` asks it once for several attacks.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np

from privet.arguments import fraction, whole
from privet.attacks.membership.reference_attack import ReferenceAttack
from privet.attacks.text.sequence_views import log_confidences_of_tokens, sequence_records
from privet.attacks.text.signals import (
    mean_log_probability,
    min_k,
    min_k_plus_plus,
    reference_log_ratio,
    zlib_log_ratio,
)
from privet.attacks.text.texts import Texts
from privet.attacks.text.token_views import TokenLogProbs, Tokens, TokenView
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Adversary, BlackBox, Numbers, Rows

__all__ = [
    "MinK",
    "MinKPlusPlus",
    "Neighbourhood",
    "ReferenceRatio",
    "ReferencedSequences",
    "SequenceAttack",
    "SequenceLoss",
    "ZlibRatio",
    "run_together",
]

_WANTS = "whether a text was trained on"
_ALONE = Adversary(sees="the probability of every token", knows="the text", wants=_WANTS)
_WITH_REFERENCE = Adversary(
    sees="the probability of every token",
    knows="the text, and a reference model that was not trained on it",
    wants=_WANTS,
)


class SequenceAttack(ABC):
    """One adversary of a language model, and their score of a text, higher = more likely a member."""

    is_calibrated: ClassVar[bool] = False
    adversary: ClassVar[Adversary] = _ALONE
    name: ClassVar[str]

    @abstractmethod
    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        """One score for each text from what the target said of it; ``view`` is there for further questions.

        The coin is not among the arguments.
        """

    @final
    def run(self, view: TokenView, texts: Texts, members: Bits) -> Scores:
        """Ask the model about every text, score each, and join the coin."""
        (scores,) = run_together([self], view, texts, members)
        return scores


def run_together(
    attacks: Sequence[SequenceAttack], view: TokenView, texts: Texts, members: Bits
) -> tuple[Scores, ...]:
    """The scores of several attacks from one forward pass."""
    found = view.logprobs(texts.sequences)
    return tuple(Scores(attack.judge(found, texts, view), members, attack.name) for attack in attacks)


@final
@dataclass(frozen=True)
class SequenceLoss(SequenceAttack):
    """The mean of ln p over the tokens.

    *Reference*: Yeom et al. 2018.
    """

    name = "sequence loss"

    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        return mean_log_probability(found)


@final
@dataclass(frozen=True)
class ZlibRatio(SequenceAttack):
    """ln p for each byte of the compressed text; see ``signals.zlib_log_ratio``."""

    name = "zlib ratio"

    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        return zlib_log_ratio(found, texts.texts)


@final
@dataclass(frozen=True)
class MinK(SequenceAttack):
    """The least likely tokens alone: a member has few surprises; see ``signals.min_k``."""

    share: float = 0.2

    name = "Min-K %"

    def __post_init__(self) -> None:
        fraction("share", self.share)

    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        return min_k(found, self.share)


@final
@dataclass(frozen=True)
class MinKPlusPlus(SequenceAttack):
    """Min-K % in units of the model's own spread; see ``signals.min_k_plus_plus``."""

    share: float = 0.2

    name = "Min-K % ++"

    def __post_init__(self) -> None:
        fraction("share", self.share)

    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        return min_k_plus_plus(found, self.share)


@final
@dataclass(frozen=True, eq=False)
class ReferenceRatio(SequenceAttack):
    """ln p of the target minus ln p of a reference model on the same tokens; several are averaged.

    A reference must not have seen the texts: a model of public text, such as an ``NGramModel``, or models
    that were trained on other people's text.
    """

    references: Sequence[TokenView]

    name = "reference ratio"
    is_calibrated = True
    adversary = _WITH_REFERENCE

    def __post_init__(self) -> None:
        if not self.references:
            raise InvalidArgument("'references' must hold at least one model, got none. Give a public model.")

    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        ratios = [reference_log_ratio(found, one.logprobs(texts.sequences)) for one in self.references]
        answer: Numbers = np.mean(ratios, axis=0)
        return answer


@final
@dataclass(frozen=True, eq=False)
class Neighbourhood(SequenceAttack):
    """How much more likely a text is than texts like it, with some tokens exchanged.

    ``proposals`` is a public model; at each of ``swaps`` places it draws another token after the true ones
    before it. ``neighbours`` such texts are made of each text; the target is asked about all of them.

    *Reference*: Mattern et al. 2023. Deviation: proposals of a left-to-right model, which a torch-free
    ``NGramModel`` can be, where the paper takes a masked model.
    """

    proposals: TokenView
    neighbours: int = 8
    swaps: float = 0.1
    seed: int = 0

    name = "neighbourhood"
    is_calibrated = True
    adversary = Adversary(
        sees="the probability of every token",
        knows="the text, and a public model that proposes other words",
        wants=_WANTS,
    )

    def __post_init__(self) -> None:
        whole("neighbours", self.neighbours)
        fraction("swaps", self.swaps)
        whole("seed", self.seed, least=0)

    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        # A text's neighbours depend on the text alone, so that the order of texts does not matter.
        changed = [
            other for sequence in texts.sequences for other in self._neighbours(np.asarray(sequence), view)
        ]
        of_others = mean_log_probability(view.logprobs(changed)).reshape(len(texts), self.neighbours)
        answer: Numbers = mean_log_probability(found) - of_others.mean(axis=1)
        return answer

    def _neighbours(self, sequence: Tokens, view: TokenView) -> list[Tokens]:
        random = np.random.default_rng([self.seed, len(sequence), *sequence.tolist()])
        inner = len(sequence) - 1 - int(view.end is not None and sequence[-1] == view.end)
        swaps = max(1, min(inner, round(self.swaps * inner)))
        if inner < 1:
            return [sequence] * self.neighbours
        changed = np.repeat(sequence[None], self.neighbours, axis=0)
        places = np.stack([1 + random.permutation(inner)[:swaps] for _ in range(self.neighbours)])
        distinct, which = np.unique(places, return_inverse=True)
        logs = self.proposals.next_logits([sequence[:place] for place in distinct])
        logs[np.arange(len(distinct)), sequence[distinct]] = -np.inf  # another token
        drawn = np.argmax(logs[which.reshape(-1)] + random.gumbel(size=(which.size, logs.shape[1])), axis=1)
        np.put_along_axis(changed, places, drawn.reshape(places.shape), axis=1)
        return list(changed)


@final
@dataclass(frozen=True, eq=False)
class ReferencedSequences(SequenceAttack):
    """LiRA, RMIA or another attack with reference models, over sequences (``sequence_views``).

    ``references`` of the attack come from ``study(TextRecipe(…), sequence_records(sequences), …)``.
    """

    attack: ReferenceAttack

    is_calibrated = True
    adversary = Adversary(
        sees="the probability of every token",
        knows="the text, and reference models trained the same way, with it or without it",
        wants=_WANTS,
    )

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.attack.name} over sequences"

    def judge(self, found: TokenLogProbs, texts: Texts, view: TokenView) -> Numbers:
        said = _Said(log_confidences_of_tokens(found))
        return self.attack.score(said, sequence_records(texts.sequences))


@final
@dataclass(frozen=True, eq=False)
class _Said(BlackBox):
    """What the target has said already; the records are in the same order."""

    answers: Numbers = field(repr=False)

    def log_confidences(self, inputs: Rows) -> Numbers:
        return self.answers
