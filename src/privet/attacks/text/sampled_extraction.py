"""Extraction by sampling: let the model write, rank what it wrote by membership, and look it up.

An adversary without any prompt generates many texts, and keeps those that a membership signal ranks highest.
Whether a text was memorised is then *verified*: it holds a run of ``match`` tokens that is in the training
data. Two counts need care:

- *near-copies*: a model that writes one passage a hundred times has leaked one passage. A sample with half of
  the trigrams of a better-ranked one is not counted again (``without_copies``);
- *templates*: a run that people write who were never trained on is language. Only runs that one person alone
  has count as theirs (``personal``).

Each text is a target of the recovery game: it is hit if the model wrote a run of tokens that is its owner's
alone. Texts that were never trained on are the control.

*Reference*: Carlini, Tramèr, Wallace, Jagielski, Herbert-Voss, Lee, Roberts, Brown, Song, Erlingsson, Oprea &
Raffel 2021, "Extracting training data from large language models", sections 4 and 5. Deviations: matches are
looked up in the data and not on the web; personal runs; non-members as a control.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.text.generation import Decoding, generate
from privet.attacks.text.passages import NgramIndex, drop_near_copies
from privet.attacks.text.signals import mean_log_probability
from privet.attacks.text.token_views import TokenLogProbs, Tokens, TokenView
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Adversary, Numbers

__all__ = ["SampledExtraction", "SampledTexts"]

_ADVERSARY = Adversary(
    sees="what the model writes, and the probability of every token of it",
    knows="nothing of the data",
    wants="passages of the data, word for word",
)


@final
@dataclass(frozen=True, eq=False)
class SampledTexts:
    """What a model wrote. ``scores`` ranks it (higher = more likely memorised). ``verified`` says whether a
    sample holds a run of the training data, ``personal`` whether one of a single person, and
    ``without_copies`` whether no better-ranked sample is nearly the same.

    *Leaks*: samples may hold private passages. Keep them as confidential as the data.
    """

    samples: list[Tokens] = field(repr=False)
    scores: Numbers = field(repr=False)
    verified: Bits = field(repr=False)
    personal: Bits = field(repr=False)
    without_copies: Bits = field(repr=False)
    recoveries: Recoveries

    def precision(self, count: int, *, personal: bool = False, copies: bool = True) -> float:
        """The share of verified samples among the ``count`` best ranked ones.

        ``personal=True`` counts runs of a single person only; ``copies=False`` leaves near-copies out.
        """
        right = self.personal if personal else self.verified
        order = np.argsort(-self.scores, kind="stable")
        chosen = (order if copies else order[self.without_copies[order]])[: whole("count", count)]
        return float(right[chosen].mean())


@final
@dataclass(frozen=True)
class SampledExtraction:
    """Samples ``samples`` texts of at most ``length`` tokens, and looks for runs of ``match`` tokens.

    ``rank_by`` is a membership signal: one number for each text, higher = more likely memorised. A target is
    hit if the ``kept`` best-ranked samples hold a run of its own; by default all of them.

    *Adversary*: sees texts and their probabilities; knows nothing; wants passages of the data.

    *Reference*: Carlini et al. 2021; see this module.
    """

    samples: int = 200
    length: int = 64
    match: int = 12
    decoding: Decoding = field(default_factory=lambda: Decoding(top_k=40))
    rank_by: Callable[[TokenLogProbs], Numbers] = mean_log_probability
    kept: int | None = None
    seed: int = 0

    name = "sampled extraction"
    adversary = _ADVERSARY

    def __post_init__(self) -> None:
        whole("samples", self.samples), whole("match", self.match), whole("seed", self.seed, least=0)
        whole("length", self.length, least=self.match)
        if self.kept is not None:
            whole("kept", self.kept)

    def sample(
        self, view: TokenView, prompts: Sequence[Tokens] | None = None
    ) -> tuple[list[Tokens], Numbers]:
        """Samples and their scores. Prompts are used in turn; without them each text starts afresh.

        What is ranked is a sample with its prompt; what is looked up is the sample alone.
        """
        if prompts is None and view.end is None:
            raise InvalidArgument(
                "'prompts' must be given for a model without an end token, got None: nothing says how a text "
                "begins. Give some tokens to start with."
            )
        starts = [np.array([view.end], dtype=np.int64)] if prompts is None else list(prompts)
        if not starts:
            raise InvalidArgument("'prompts' must hold at least one prompt, got none. Give some tokens.")
        chosen = [starts[one % len(starts)] for one in range(self.samples)]
        samples = generate(
            view, chosen, self.length, decoding=self.decoding, generator=np.random.default_rng(self.seed)
        )
        texts = [np.concatenate(parts) for parts in zip(chosen, samples, strict=True)]
        if view.context is not None:
            texts = [text[: view.context] for text in texts]
        return samples, self.rank_by(view.logprobs(texts))

    def run(
        self,
        view: TokenView,
        sequences: Sequence[Tokens],
        members: Bits,
        *,
        prompts: Sequence[Tokens] | None = None,
        owners: NDArray[np.int64] | None = None,
        elsewhere: Sequence[Tokens] = (),
        excluded: Sequence[int] = (),
    ) -> SampledTexts:
        """Sample and rank; then look up, with the coin: ``members`` says which texts were trained on.

        ``elsewhere`` are texts that were never trained on and are no targets: what they hold is a template.
        Runs with an ``excluded`` token, such as that of unknown words, are copies of nothing.
        """
        members = np.asarray(members, dtype=np.bool_)
        if members.shape != (len(sequences),):
            raise InvalidArgument(
                f"'members' must say for each of {len(sequences)} texts whether it was trained on, got an "
                f"array of shape {members.shape}. Give one coin for each text."
            )
        samples, scores = self.sample(view, prompts)
        order = np.argsort(-scores, kind="stable")
        index = NgramIndex(sequences, length=self.match, owners=owners, excluded=excluded)
        templates = {run for text in elsewhere for run in index.keys(text)}
        written = [index.keys(sample) for sample in samples]
        trained = {
            run for text, inside in zip(sequences, members, strict=True) if inside for run in index.keys(text)
        }
        own = [
            {
                run
                for run, owner in zip(index.runs(text), index.find_owners(text), strict=True)
                if run is not None and owner is not None and owner >= 0 and run not in templates
            }
            for text in sequences
        ]
        own_of_members = set().union(*(runs for runs, inside in zip(own, members, strict=True) if inside))
        looked_at = order if self.kept is None else order[: self.kept]
        leaked = set().union(*(written[one] for one in looked_at))
        recoveries = Recoveries(
            self.name,
            self.adversary,
            f"a run of {self.match} tokens that is the owner's alone, in {len(looked_at):,} samples",
            np.array([not runs.isdisjoint(leaked) for runs in own]),
            members,
            confidence=np.array([float(len(runs & leaked)) for runs in own]),
        )
        return SampledTexts(
            samples,
            scores,
            np.array([not runs.isdisjoint(trained) for runs in written]),
            np.array([not runs.isdisjoint(own_of_members) for runs in written]),
            drop_near_copies(samples, order.tolist()),
            recoveries,
        )
