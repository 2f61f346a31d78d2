"""``audit_text``: which texts, authors, passages and secrets a language model gives away."""

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privet import __version__
from privet.accounting import account
from privet.arguments import open_fraction, whole
from privet.attacks.preflight import enough_records
from privet.attacks.preflight.texts import text_shift, tokens_fit, vocabulary_is_public
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.text.encoders import ByteEncoder, TextEncoder, WordEncoder, decode_tokens
from privet.attacks.text.exposure import CanaryExposure
from privet.attacks.text.ngrams import NGramModel
from privet.attacks.text.passages import Passages
from privet.attacks.text.sequence_views import sequence_records
from privet.attacks.text.token_views import Tokens, TokenView
from privet.auditing import OneRun, RecoveryBound, Shares
from privet.canary_formats import PlantedCanaries
from privet.errors import InvalidArgument
from privet.fingerprints import FingerprintKey
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.pipeline.audit_model import judge_scores
from privet.pipeline.identification import bare_model, find_ledger, identify
from privet.pipeline.recovery_results import check_targets, judge_recoveries
from privet.pipeline.reproducing import format_call, one_line
from privet.pipeline.text_attacks import ScoredAttack, TextKnowledge, extract, score_authors, score_texts
from privet.pipeline.text_exhibits import describe_texts
from privet.pipeline.text_game import TextGame, check_claim_unit, claim_of_coins, read_authors, read_coins
from privet.pipeline.text_views import (
    RememberedView,
    encode_public,
    encode_targets,
    find_end,
    see_language_model,
)
from privet.public_calls import check_public_calls
from privet.recoveries import Recoveries
from privet.reporting.facts import AttackResult, ModelAudit, Origin, Strength
from privet.reporting.recovery_facts import RecoveryResult
from privet.reporting.report import Report
from privet.scores import Challenge, Records

__all__ = ["audit_text"]

_OF_BYTES, _OF_TOKENS = (32, 40), (8, 12)  # a prompt and a passage
_GROUP = (
    "No bound on the ε of one record: the copies of a secret are a group. Its success is held against the "
    "claim for a group of so many."
)


def audit_text(
    model: object,
    encoder: TextEncoder,
    texts: Sequence[str],
    members: object,
    *,
    authors: Sequence[object] | None = None,
    public: Sequence[str] = (),
    public_models: Sequence[object] = (),
    recipe: object = None,
    references: int = 8,
    canaries: PlantedCanaries | None = None,
    passages: Passages | None = None,
    prompt_tokens: int | None = None,
    passage_tokens: int | None = None,
    samples: int = 200,
    end: int | None = None,
    longest: int | None = None,
    public_vocabulary: bool = False,
    ledger: Ledger | None = None,
    delta: float = 1e-5,
    confidence: float = 0.95,
    seed: int = 0,
    name: str = "language model",
    fingerprint_key: FingerprintKey | None = None,
) -> Report:
    """Attack a causal language model: which texts and authors it was trained on, what it repeats, and which
    secrets it keeps.

    ``model`` is a torch module or a model of Hugging Face (tokens (n, t) → logits (n, t, V)), a
    ``TokenView``, or what ``privet.train`` gives. ``encoder`` is its tokenizer. ``members`` says of each text
    whether it was trained on. Then, as far as it is given:

    - ``authors`` names the author of each text. All texts of an author have one coin. Then authors are
      attacked, too, and one text of each author is judged.
    - ``public`` are texts of other people that were not trained on: a trigram model of them is a reference,
      and what they hold is a template. ``public_models`` are further models that saw none of the texts.
    - ``recipe`` is a ``TextRecipe``, by which ``references`` models are trained for LiRA.
    - ``canaries`` are the planted secrets of the training, for exposure.
    - ``passages`` are to be extracted; by default the first one of each text that is its owner's alone, of
      ``passage_tokens`` after ``prompt_tokens``. ``samples`` texts are written without a prompt, 0 for none.
    - ``end`` is the token that ends a text, and ``longest`` the tokens after which texts are cut.
    - ``public_vocabulary=True`` says that the tokenizer was made without the private texts.
    - ``ledger`` records the private training and puts a ceiling on every attack.

    The report leaves texts and names out; ``report.save(path, exhibits=True)`` shows them.

    >>> from privet.attacks.text import ByteEncoder, NGramModel, encode_texts
    >>> coins = np.arange(60) % 2 == 0
    >>> mails = [f"dear {one * 7919 % 1000003}, your code is {one * 104729 % 999983}" for one in range(60)]
    >>> trained = encode_texts(ByteEncoder(), [mail for mail, coin in zip(mails, coins) if coin], end=256)
    >>> model = NGramModel(trained, vocabulary=257, order=6, end=256)
    >>> report = audit_text(model, ByteEncoder(), mails, coins, samples=0, prompt_tokens=8, passage_tokens=8)
    >>> report.audits[0].standing.value
    'leaks'
    """
    started = time.monotonic()
    open_fraction("delta", delta)
    open_fraction("confidence", confidence)
    whole("seed", seed, least=0)
    whole("samples", samples, least=0)
    whole("references", references, least=2)
    if longest is not None:
        whole("longest", longest, least=2)
    if end is not None:
        whole("end", end, least=0)
    if recipe is not None and not isinstance(recipe, Recipe):
        raise InvalidArgument(
            f"'recipe' must be a TextRecipe, got a {type(recipe).__name__}. Say how the model was trained: "
            f"TextRecipe(model=…, epochs=…)."
        )
    usual = _OF_BYTES if isinstance(encoder, ByteEncoder) else _OF_TOKENS
    prompt = usual[0] if prompt_tokens is None else whole("prompt_tokens", prompt_tokens)
    length = usual[1] if passage_tokens is None else whole("passage_tokens", passage_tokens)
    ledger = find_ledger(model) if ledger is None else ledger
    module = bare_model(model)
    asked = see_language_model(module, end=find_end(encoder, end))
    if end is not None and asked.end != end:
        raise InvalidArgument(
            f"'end' must be the end token of the view, {asked.end}, got {end}. Leave it out, or make the "
            f"view with end={end}."
        )
    encoded = encode_targets(asked, encoder, texts, longest)
    coins = read_coins(members, len(texts))
    names = read_authors(authors, coins)
    game = TextGame.of(encoded, coins, names, seed=seed)
    claim = claim_of_coins(ledger, game)
    of_record = None if ledger is None else account(ledger)
    elsewhere = encode_public(asked, encoder, public, longest)
    known = TextKnowledge(
        references=_references(asked, elsewhere, public_models),
        elsewhere=elsewhere,
        recipe=recipe,
        models=references,
        seed=seed,
        excluded=(encoder.unknown,) if isinstance(encoder, WordEncoder) else (),
    )
    view = RememberedView(asked)
    view.logprobs(game.texts.sequences)  # the one forward pass over the texts
    scored = [*score_texts(view, game, known), *score_authors(view, game, known)]
    extracted = extract(view, game, known, prompt=prompt, length=length, passages=passages, samples=samples)
    exposure = None if canaries is None else CanaryExposure(seed=seed).run(asked, canaries)
    copies = [] if exposure is None else sorted(set(exposure.planted.copies.tolist()))
    secrets = [] if exposure is None else [(times, exposure.recoveries(times)) for times in copies]
    recoveries = [*extracted.recoveries, *(each for _, each in secrets)]
    shares = Shares.of(
        confidence, others=[len(one.scores.of_others) for one in scored], recoveries=recoveries
    )
    key = FingerprintKey.generate() if fingerprint_key is None else fingerprint_key
    judged = game.texts.take(game.judged)
    audited = ModelAudit(
        name=name,
        delta=delta,
        results=[_judge(one, claim, delta, shares) for one in scored],
        claim=claim,
        ledger=ledger,
        checks=[
            *check_claim_unit(ledger, game),
            text_shift(*_texts_by_coin(game), seed=seed),
            vocabulary_is_public(encoder, public=public_vocabulary),
            tokens_fit(view, game.texts.sequences),
            enough_records(Challenge(sequence_records(judged.sequences), coins[game.judged]), fpr=0.01),
            *map(check_targets, recoveries),
            *extracted.skipped,
        ],
        reference_models=known.describe(),
        population=int(coins.sum()) if game.authors is None else int(game.coins_of_authors.sum()),
        fingerprints=identify(
            _module_of(asked, module), _side(game, True), _side(game, False), ledger, key, public_model=False
        ),
        recoveries=[
            *(judge_recoveries(each, claim, delta=delta, shares=shares) for each in extracted.recoveries),
            *(_judge_secrets(times, each, of_record, delta, shares) for times, each in secrets),
        ],
    )
    facts = describe_texts(
        view,
        game,
        scored,
        extracted,
        exposure,
        of_record,
        detected=audited.detected,
        decode=lambda tokens: decode_tokens(encoder, tokens),
    )
    audited = replace(audited, text=facts, seconds=time.monotonic() - started)
    call = _text_call(
        name=name,
        authors=None if names is None else len(np.unique(names)),
        public=len(public),
        public_models=len(public_models),
        recipe=recipe,
        references=references,
        canaries=canaries,
        passages=passages,
        sizes=(prompt, length),
        samples=samples,
        end=asked.end,
        longest=longest,
        ledger=ledger,
        delta=delta,
        confidence=confidence,
        seed=seed,
    )
    return Report(
        audits=(audited,),
        origin=Origin(command=one_line(call), version=__version__, seed=seed, call=call),
        key=key,
    )


def _references(view: TokenView, elsewhere: list[Tokens], models: Sequence[object]) -> list[TokenView]:
    """Models that saw none of the texts, each asked once about a text."""
    found = [see_language_model(one, end=view.end, name="public_models") for one in models]
    for one in found:
        if one.vocabulary != view.vocabulary:
            raise InvalidArgument(
                f"'public_models' must have the {view.vocabulary} tokens of the model, got one with "
                f"{one.vocabulary}. Give models of the same tokenizer."
            )
    if elsewhere:
        found.append(NGramModel(elsewhere, vocabulary=view.vocabulary, end=view.end))
    return [RememberedView(one) for one in found]


def _judge(one: ScoredAttack, claim: Guarantee | None, delta: float, shares: Shares) -> AttackResult:
    result = judge_scores(one.scores, one.adversary, claim, OneRun(shares.bound), delta, shares)
    strength = Strength.CALIBRATED if one.is_calibrated else Strength.TARGET_ALONE
    return replace(result, strength=strength, unit="author" if one.on_authors else "text")


def _judge_secrets(
    copies: int, recoveries: Recoveries, claim: Guarantee | None, delta: float, shares: Shares
) -> RecoveryResult:
    """Secrets of so many copies, against the claim for a group of so many records."""
    if copies == 1:
        return judge_recoveries(recoveries, claim, delta=delta, shares=shares)
    found = judge_recoveries(recoveries, None, delta=delta, shares=shares)
    group = None if claim is None else claim.group(size=copies)
    return replace(
        found,
        ceiling=found.leakage.ceiling(group),
        sure_ceiling=found.leakage.sure_ceiling(group),
        bound=RecoveryBound(None, _GROUP),
    )


def _texts_by_coin(game: TextGame) -> tuple[list[str], np.ndarray]:
    """One text for each coin: the texts, or all texts of each author as one."""
    if game.authors is None:
        return list(game.texts.texts), game.members
    joined: list[list[str]] = [[] for _ in game.authors.names]
    for place, text in zip(game.authors.places.tolist(), game.texts.texts, strict=True):
        joined[place].append(text)
    return ["\n".join(parts) for parts in joined], game.coins_of_authors


def _side(game: TextGame, side: bool) -> Records:
    """The texts that were trained on, or the others, as records."""
    return sequence_records([game.texts.sequences[one] for one in np.flatnonzero(game.members == side)])


def _module_of(view: TokenView, model: object) -> object:
    if not isinstance(model, TokenView):
        return model
    from privet.attacks.text.torch_tokens import TorchTokenView

    return view.model if isinstance(view, TorchTokenView) else view


def _text_call(
    *,
    name: str,
    authors: int | None,
    public: int,
    public_models: int,
    recipe: object,
    references: int,
    canaries: PlantedCanaries | None,
    passages: Passages | None,
    sizes: tuple[int, int],
    samples: int,
    end: int | None,
    longest: int | None,
    ledger: Ledger | None,
    delta: float,
    confidence: float,
    seed: int,
) -> str:
    """``privet.audit_text`` with every argument that decides a figure."""
    given: list[tuple[bool, str]] = [
        (authors is not None, f"authors=authors,  # {authors or 0:,} of them"),
        (public > 0, f"public=public,  # {public:,} texts"),
        (public_models > 0, f"public_models=public_models,  # {public_models:,} of them"),
        (recipe is not None, f"recipe=recipe,  # a {type(recipe).__name__}"),
        (recipe is not None, f"references={references!r},"),
        (canaries is not None, f"canaries=canaries,  # {0 if canaries is None else len(canaries):,}"),
        (passages is not None, f"passages=passages,  # {0 if passages is None else len(passages):,}"),
        (longest is not None, f"longest={longest!r},"),
        (ledger is not None, "ledger=ledger,  # what the training recorded"),
    ]
    lines = ["model,", "encoder,", "texts,", "members,", *(line for there, line in given if there)]
    lines += [
        f"prompt_tokens={sizes[0]!r},",
        f"passage_tokens={sizes[1]!r},",
        f"samples={samples!r},",
        f"end={end!r},",
        f"name={name!r},",
        f"delta={delta!r},",
        f"confidence={confidence!r},",
        f"seed={seed!r},",
    ]
    return format_call("privet.audit_text", lines)


check_public_calls(__name__)
