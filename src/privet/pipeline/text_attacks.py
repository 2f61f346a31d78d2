"""Which attacks a language model gets: on texts, on authors, on passages, and on planted secrets.

They are chosen by what the adversary has, before any score is seen, from weak to strong; the last one on
texts and the last one on authors give the lists of who is most exposed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np

from privet.attacks import LiRA
from privet.attacks.shadows import Sequential, study
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.text.author_references import AuthorSplit, ReferencedAuthors, group_by_author
from privet.attacks.text.authors import AuthorAttack, AuthorLoss, AuthorRatio, run_authors
from privet.attacks.text.extraction import PromptedExtraction
from privet.attacks.text.generation import Decoding
from privet.attacks.text.membership import (
    MinK,
    MinKPlusPlus,
    ReferencedSequences,
    ReferenceRatio,
    SequenceAttack,
    SequenceLoss,
    ZlibRatio,
    run_together,
)
from privet.attacks.text.passages import Passages, find_passages
from privet.attacks.text.sampled_extraction import SampledExtraction
from privet.attacks.text.sequence_views import sequence_records
from privet.attacks.text.token_views import Tokens, TokenView
from privet.checks import Check, Outcome
from privet.pipeline.text_game import TextGame
from privet.recoveries import Recoveries
from privet.reporting.facts import ReferenceModels
from privet.scores import Scores
from privet.views import Adversary

__all__ = ["Extracted", "ScoredAttack", "TextKnowledge", "extract", "score_authors", "score_texts"]

_TRIES = 100
_SHORTEST_SAMPLE = 64


@final
@dataclass(frozen=True, eq=False)
class ScoredAttack:
    """An attack on membership: its scores, who attacked, and whether it compares with other models."""

    scores: Scores
    adversary: Adversary
    is_calibrated: bool
    on_authors: bool = False


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class TextKnowledge:
    """What the adversary has besides the target: models of other texts, texts of other people, and a recipe
    with reference models of it.
    """

    references: Sequence[TokenView] = ()
    elsewhere: Sequence[Tokens] = ()
    recipe: Recipe | None = None
    models: int = 8
    seed: int = 0
    excluded: tuple[int, ...] = ()
    progress: bool = False
    _studies: dict[str, LiRA] = field(default_factory=dict)

    def describe(self) -> ReferenceModels | None:
        """The trained reference models, for a report."""
        if "texts" not in self._studies:
            return None
        found = self._studies["texts"].references
        return ReferenceModels(
            asked=self.models, used=found.models, records=round(float(found.members.sum(axis=1).mean()))
        )

    def lira(self, game: TextGame) -> LiRA | None:
        """LiRA over texts, with reference models that were trained once."""
        if self.recipe is None:
            return None
        if "texts" not in self._studies:
            split = None if game.authors is None else AuthorSplit(game.authors.owners)
            self._studies["texts"] = LiRA(
                study(
                    self.recipe,
                    sequence_records(game.texts.sequences),
                    self.models,
                    seed=self.seed,
                    split=split,
                    engine=Sequential(),
                    progress=self.progress,
                )
            )
        return self._studies["texts"]


def score_texts(view: TokenView, game: TextGame, known: TextKnowledge) -> list[ScoredAttack]:
    """The scores of every judged text, from weak attacks to strong ones."""
    attacks: list[SequenceAttack] = [SequenceLoss(), ZlibRatio(), MinK(), MinKPlusPlus()]
    if known.references:
        attacks.append(ReferenceRatio(known.references))
    lira = known.lira(game)
    if lira is not None:
        attacks.append(ReferencedSequences(lira))
    judged = game.texts.take(game.judged)
    found = run_together(attacks, view, judged, game.members[game.judged])
    return [
        ScoredAttack(scores, attack.adversary, attack.is_calibrated)
        for attack, scores in zip(attacks, found, strict=True)
    ]


def score_authors(view: TokenView, game: TextGame, known: TextKnowledge) -> list[ScoredAttack]:
    """The scores of every author; none where coins are on texts."""
    if game.authors is None:
        return []
    attacks: list[AuthorAttack] = [AuthorLoss()]
    if known.references:
        attacks.append(AuthorRatio(known.references))
    lira = known.lira(game)
    if lira is not None:
        grouped = group_by_author(lira.references, game.authors, game.authors)
        attacks.append(ReferencedAuthors(LiRA(grouped)))
    found = run_authors(attacks, view, game.authors, game.coins_of_authors)
    return [
        ScoredAttack(scores, attack.adversary, attack.is_calibrated, on_authors=True)
        for attack, scores in zip(attacks, found, strict=True)
    ]


@final
@dataclass(frozen=True, eq=False)
class Extracted:
    """Recoveries of passages, the passages of greedy extraction, and why an attack was left out."""

    recoveries: list[Recoveries]
    passages: Passages | None
    greedy: Recoveries | None
    skipped: list[Check]


def extract(
    view: TokenView,
    game: TextGame,
    known: TextKnowledge,
    *,
    prompt: int,
    length: int,
    passages: Passages | None,
    samples: int,
) -> Extracted:
    """Passages by greedy decoding, in a hundred tries, and in what the model writes by itself.

    Each coin counts once: with coins on authors, one passage of each author is a target.
    """
    owners = None if game.authors is None else game.authors.places.astype(np.int64)
    found = passages
    if found is None:
        found = find_passages(
            game.texts.sequences,
            prompt=prompt,
            length=length,
            owners=owners,
            elsewhere=known.elsewhere,
            excluded=known.excluded,
        )
    found = _one_for_each_coin(found, game)
    coins = game.members[found.source]
    if len(found) == 0 or coins.all() or not coins.any():
        reason = f"Too few texts have a passage of {prompt} and {length} tokens that is their owner's alone."
        advice = "Give longer texts, or smaller prompt_tokens and passage_tokens."
        return Extracted([], None, None, [_skip("extraction", reason, advice)])
    once, often = (
        PromptedExtraction(1, 0.5, Decoding(temperature=0)),
        PromptedExtraction(_TRIES, 0.5, Decoding(top_k=min(40, view.vocabulary))),
    )
    greedy = replace(once.run(view, found, coins), attack="greedy extraction")
    recoveries = [
        greedy,
        replace(often.run(view, found, coins), attack=f"extraction in {_TRIES} tries"),
    ]
    if samples and view.end is None:
        reason = "The model has no end token, so nothing says how a text begins."
        advice = "Give end=…, the token that ends a text."
        return Extracted(recoveries, found, greedy, [_skip("sampled extraction", reason, advice)])
    if samples:
        longest = max(_SHORTEST_SAMPLE, 2 * length)
        attack = SampledExtraction(
            samples=samples,
            length=longest if view.context is None else max(min(longest, view.context - 1), length),
            match=length,
            decoding=Decoding(top_k=min(40, view.vocabulary)),
            seed=known.seed,
        )
        written = attack.run(
            view,
            game.texts.sequences,
            game.members,
            owners=owners,
            elsewhere=known.elsewhere,
            excluded=known.excluded,
        )
        recoveries.append(_by_coin(written.recoveries, game))
    return Extracted(recoveries, found, greedy, [])


def _skip(name: str, reason: str, advice: str) -> Check:
    return Check(name=name, outcome=Outcome.SKIPPED, finding=reason, advice=advice)


def _one_for_each_coin(passages: Passages, game: TextGame) -> Passages:
    """The first passage of each text, or of each author."""
    source = np.asarray(passages.source)
    coin = source if game.authors is None else game.authors.places[source]
    _, kept = np.unique(coin, return_index=True)
    return Passages(
        [passages.prompts[one] for one in kept],
        [passages.continuations[one] for one in kept],
        source[kept].astype(np.int64),
    )


def _by_coin(recoveries: Recoveries, game: TextGame) -> Recoveries:
    """One target for each author: hit if a text of theirs is."""
    if game.authors is None:
        return recoveries
    places, count = game.authors.places, len(game.authors.names)
    hits = np.bincount(places, weights=recoveries.hits, minlength=count)
    sure = np.zeros(count)
    if recoveries.confidence is not None:
        np.add.at(sure, places, recoveries.confidence)
    return Recoveries(
        recoveries.attack,
        recoveries.adversary,
        recoveries.criterion,
        hits > 0,
        game.coins_of_authors,
        confidence=None if recoveries.confidence is None else sure,
    )
