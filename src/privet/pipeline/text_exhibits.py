"""What a report shows of texts: the most exposed ones, passages beside what the model wrote, and secrets."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from privet.attacks.text.exposure import ExposureResults, compute_blind_exposure
from privet.attacks.text.exposure_law import bound_mean_exposure
from privet.attacks.text.generation import Decoding, generate
from privet.attacks.text.token_views import Tokens, TokenView
from privet.auditing import most_at_risk
from privet.errors import PrivetError
from privet.guarantees import Guarantee
from privet.pipeline.text_attacks import Extracted, ScoredAttack
from privet.pipeline.text_game import TextGame
from privet.reporting.text_facts import ExposedUnit, MarkedPassage, Piece, SecretExposure, TextFacts
from privet.scores import Scores

__all__ = ["describe_texts"]

_LISTED, _PASSAGES, _PREVIEW = 10, 6, 300


def describe_texts(
    view: TokenView,
    game: TextGame,
    scored: Sequence[ScoredAttack],
    extracted: Extracted,
    exposure: ExposureResults | None,
    claim: Guarantee | None,
    *,
    detected: bool,
    decode: Callable[[Tokens], str],
) -> TextFacts:
    """The facts on texts; nobody is flagged where membership was not detected.

    ``claim`` is that of a single record or user, for planted secrets.
    """
    said = view.logprobs(game.texts.sequences)
    of_tokens = game.members[said.owners]
    on_texts = [one for one in scored if not one.on_authors][-1].scores
    on_authors = [one.scores for one in scored if one.on_authors]
    names = None if game.authors is None else game.authors.names
    return TextFacts(
        coin_unit=game.coin_unit,
        texts=len(game.texts),
        tokens=int(said.lengths.sum()),
        authors=None if names is None else len(names),
        loss_on_members=-float(said.logprobs[of_tokens].mean()),
        loss_on_others=-float(said.logprobs[~of_tokens].mean()),
        text_attack=on_texts.attack,
        texts_left_out=len(on_texts.of_others),
        exposed_texts=_most_exposed(
            on_texts, game.judged, [game.texts.texts[one] for one in game.judged], detected
        ),
        author_attack=on_authors[-1].attack if on_authors else None,
        authors_left_out=len(on_authors[-1].of_others) if on_authors else 0,
        exposed_authors=()
        if not on_authors or names is None
        else _most_exposed(on_authors[-1], np.arange(len(names)), names.tolist(), detected),
        passages=_mark_passages(view, extracted, decode),
        exposure=() if exposure is None else _secrets(exposure, claim),
        blind_bits=None if exposure is None else compute_blind_exposure(exposure.planted.format.size),
        most_bits=None if exposure is None else exposure.planted.format.bits,
    )


def _most_exposed(
    scores: Scores, numbers: np.ndarray, words: Sequence[str], detected: bool
) -> tuple[ExposedUnit, ...]:
    """Members by their score, the highest first. p-values have ties, which the score breaks."""
    risk = most_at_risk(scores)
    flagged = set(risk.records[: risk.flagged].tolist()) if detected else set()
    others = np.sort(scores.of_others)
    members = np.flatnonzero(scores.members)
    chosen = members[np.argsort(-scores.values[members], kind="stable")][:_LISTED].tolist()
    return tuple(
        ExposedUnit(
            number=int(numbers[place]),
            score=float(scores.values[place]),
            as_high=len(others) - int(np.searchsorted(others, scores.values[place], side="left")),
            flagged=place in flagged,
            words=words[place][:_PREVIEW],
        )
        for place in chosen
    )


def _mark_passages(
    view: TokenView, extracted: Extracted, decode: Callable[[Tokens], str]
) -> tuple[MarkedPassage, ...]:
    """The passages of members that the model repeats most of, beside what it wrote greedily."""
    passages, greedy = extracted.passages, extracted.greedy
    if passages is None or greedy is None or greedy.distances is None:
        return ()
    inside = np.flatnonzero(greedy.inside)
    chosen = inside[np.lexsort((greedy.distances[inside], ~greedy.hits[inside]))][:_PASSAGES].tolist()
    written = generate(
        view,
        [passages.prompts[one] for one in chosen],
        max(len(passages.continuations[one]) for one in chosen),
        decoding=Decoding(temperature=0),
        generator=np.random.default_rng(0),
    )
    marked = []
    for one, answer in zip(chosen, written, strict=True):
        truth = passages.continuations[one]
        text = answer[: len(truth)]
        same = np.zeros(len(truth), dtype=np.bool_)
        same[: len(text)] = truth[: len(text)] == text
        differs = np.flatnonzero(~same)
        marked.append(
            MarkedPassage(
                number=int(passages.source[one]),
                matched=int(differs[0]) if len(differs) else len(truth),
                length=len(truth),
                extracted=bool(greedy.hits[one]),
                agrees=tuple(bool(each) for each in same),
                prompt=decode(passages.prompts[one]),
                source=_pieces(truth, same, decode),
                written=_pieces(text, same[: len(text)], decode),
            )
        )
    return tuple(marked)


def _pieces(tokens: Tokens, same: np.ndarray, decode: Callable[[Tokens], str]) -> tuple[Piece, ...]:
    """Runs of tokens that agree or differ, each as text.

    A tokenizer of words puts spaces between tokens and none at the ends, so runs get one between them.
    """
    if len(tokens) == 0:
        return ()
    cuts = [0, *(np.flatnonzero(np.diff(same.astype(np.int8))) + 1).tolist(), len(tokens)]
    runs = [(decode(tokens[a:b]), bool(same[a])) for a, b in pairwise(cuts)]
    spaced = " ".join(words for words, _ in runs) == decode(tokens) and len(runs) > 1
    last = len(runs) - 1
    return tuple(
        Piece(f"{words} " if spaced and place < last else words, agrees)
        for place, (words, agrees) in enumerate(runs)
    )


def _secrets(results: ExposureResults, claim: Guarantee | None) -> tuple[SecretExposure, ...]:
    size = results.planted.format.size
    return tuple(
        SecretExposure(
            found.copies,
            found.canaries,
            found.mean,
            found.deviation,
            _ceiling(claim, size, found.copies) if found.copies else None,
        )
        for found in results.by_copies
    )


def _ceiling(claim: Guarantee | None, size: int, copies: int) -> float | None:
    if claim is None:
        return None
    try:
        return bound_mean_exposure(claim, size=size, copies=copies, per_bit=2)
    except PrivetError:  # the accountant has no number here
        return None
