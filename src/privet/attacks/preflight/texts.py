"""Whether texts of members and of others differ even without a model: by their words, style or time.

Published benchmarks of membership inference on language models took members from before a date and others
from after it; a classifier that never asked the model told them apart with AUC 0.99 on some (Das, Zhang &
Tramèr 2024). An attack on such texts measures the date.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from privet.arguments import whole
from privet.attacks.estimators import learn_texts
from privet.attacks.preflight.false_alarms import LEVEL
from privet.attacks.preflight.shift import mann_whitney
from privet.attacks.text.encoders import ByteEncoder, TextEncoder
from privet.attacks.text.token_views import Tokens, TokenView
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument, MissingPackage
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["blind_scores", "text_shift", "tokens_fit", "vocabulary_is_public"]

_NAME = "texts of members and non-members are alike"
_DEVIATIONS = -float(ndtri(LEVEL))  # one-sided
_FOLDS, _FEWEST, _MOST = 2, 40, 4000  # texts of a side
_ASKED, _SLACK = 200, 0.1  # texts; nats by which a model that was never trained is worse than uniform


def text_shift(texts: Sequence[str], members: Bits, *, seed: int = 0) -> Check:
    """No classifier that reads the texts may tell members from others without the model.

    The classifier reads words, pairs of words, parts of words and the style of a text (length, capitals,
    digits). Each fold is scored by one that has not seen it, and the mean AUC is tested as in
    ``membership_without_a_model``: the deviation is that of a single fold, so that dependent folds do not
    matter. For authors, give all texts of an author as one text.
    """
    coin = _check_coins(texts, members)
    if min(int(coin.sum()), int((~coin).sum())) < _FEWEST:
        return Check(
            name=_NAME,
            outcome=Outcome.SKIPPED,
            finding=f"There are fewer than {_FEWEST} texts of a side, too few to learn from.",
        )
    try:
        scores, fold, chosen = _cross_fit(texts, coin, seed)
    except MissingPackage:
        return Check(
            name=_NAME,
            outcome=Outcome.SKIPPED,
            finding="It needs the package 'scikit-learn', which is not installed.",
            advice="Run pip install 'privet[learn]'.",
        )
    folds = [mann_whitney(scores[fold == one], coin[chosen][fold == one]) for one in range(_FOLDS)]
    auc = float(np.mean([area for area, _ in folds]))
    deviation = math.sqrt(max(variance for _, variance in folds))
    finding = (
        f"Without the model, a classifier of the texts tells them apart with AUC {auc:.3f} (95 % interval "
        f"{auc - 1.96 * deviation:.3f} to {auc + 1.96 * deviation:.3f}); ½ is chance."
    )
    if auc - 0.5 > _DEVIATIONS * deviation:
        return Check(name=_NAME, outcome=Outcome.WARNED, finding=finding, advice=_ADVICE)
    return Check(name=_NAME, outcome=Outcome.PASSED, finding=finding)


_ADVICE = (
    "Draw both sides from the same time and source by a fair coin. The measured leakage may be this shift "
    "alone; no attack on these texts says more than what it adds to the blind classifier."
)


def vocabulary_is_public(encoder: TextEncoder, *, public: bool = False) -> Check:
    """A tokenizer that was trained on private text is itself a release, which no noise covers.

    Bytes are public by construction. Of any other tokenizer only its maker knows: say ``public=True`` where
    it was made without the private texts.
    """
    name = "the vocabulary is public"
    if isinstance(encoder, ByteEncoder):
        return Check(name=name, outcome=Outcome.PASSED, finding="The tokens are bytes.")
    if public:
        finding = "The tokenizer is said to come from public text."
        return Check(name=name, outcome=Outcome.PASSED, finding=finding)
    return Check(
        name=name,
        outcome=Outcome.WARNED,
        finding="It is not known whether the tokenizer was trained on private text.",
        advice="A vocabulary of private text lists its words and helps attacks. Take a public one, or bytes.",
    )


def tokens_fit(view: TokenView, sequences: Sequence[Tokens]) -> Check:
    """A model that predicts texts worse than a uniform guess was trained with another tokenizer."""
    name = "the tokens are the model's"
    if not len(sequences):
        return Check(name=name, outcome=Outcome.SKIPPED, finding="There are no texts.")
    loss = -float(view.logprobs(sequences[:_ASKED]).logprobs.mean())
    uniform = math.log(view.vocabulary)
    finding = f"The mean loss of a token is {loss:.2f} nats; a uniform guess has {uniform:.2f}."
    if loss <= uniform + _SLACK:
        return Check(name=name, outcome=Outcome.PASSED, finding=finding)
    return Check(
        name=name,
        outcome=Outcome.WARNED,
        finding=finding,
        advice="Take the tokenizer that the model was trained with; attacks on these tokens say nothing.",
    )


def blind_scores(texts: Sequence[str], members: Bits, *, seed: int = 0) -> Scores:
    """The cross-fitted scores of the blind classifier: the baseline that an attack on the model must beat."""
    coin = _check_coins(texts, members)
    scores, _, chosen = _cross_fit(texts, coin, seed)
    return Scores(scores, coin[chosen], "blind classifier of texts")


def _check_coins(texts: Sequence[str], members: Bits) -> Bits:
    coin = np.asarray(members)
    if not len(texts) or coin.shape != (len(texts),) or coin.dtype != np.bool_:
        raise InvalidArgument(
            f"'members' must be True or False for each of {len(texts)} texts, at least one, got an array of "
            f"shape {coin.shape} and type {coin.dtype}. Give the coin of each text."
        )
    return coin


def _cross_fit(texts: Sequence[str], coin: Bits, seed: int) -> tuple[Numbers, np.ndarray, np.ndarray]:
    """Scores of at most ``_MOST`` texts of a side, their folds, and which texts they are."""
    generator = np.random.default_rng(whole("seed", seed, least=0))
    sides = [generator.permutation(np.flatnonzero(side))[:_MOST] for side in (coin, ~coin)]
    chosen = generator.permutation(np.concatenate(sides))
    own, some = coin[chosen], [texts[one] for one in chosen]
    fold = np.empty(len(own), dtype=np.int64)
    for side in (own, ~own):
        fold[side] = generator.permutation(np.arange(int(side.sum())) % _FOLDS)
    scores = np.empty(len(own))
    for one in range(_FOLDS):
        held = fold == one
        judge = learn_texts([some[place] for place in np.flatnonzero(~held)], own[~held])
        scores[held] = judge([some[place] for place in np.flatnonzero(held)])
    return scores, fold, chosen
