"""How often an audit of text claims a leak where there is none: coins on sentences and on users, models that saw neither.

    python bench/text/nulls.py [--runs 600]

Each run draws new people or new e-mails and new coins. The target is a small LSTM that was trained on other text, so no coin has
touched it. Reference models of LiRA are trained on halves of the judged texts, as in earnest, and the target is none of them.
Printed is the share of runs with ε > 0 for each attack at a confidence of 95 %; at most 5 % is right. Models are few, and coins many.
"""

import argparse
import time

import numpy as np
import torch
from corpora import chats, emails, public_words
from scipy.stats import beta

from privet.attacks import LiRA
from privet.attacks.shadows import Sequential, study
from privet.attacks.text import (
    AuthorLoss,
    AuthorRatio,
    Authors,
    AuthorShadow,
    AuthorSplit,
    CanaryExposure,
    LSTMLanguageModel,
    MinK,
    MinKPlusPlus,
    NGramModel,
    PromptedExtraction,
    RankHistogram,
    ReferencedAuthors,
    ReferencedSequences,
    ReferenceRatio,
    SequenceLoss,
    TextRecipe,
    Texts,
    WordEncoder,
    ZlibRatio,
    encode_texts,
    find_passages,
    group_by_author,
    run_authors,
    run_together,
    sequence_records,
)  # fmt: skip
from privet.auditing import OneRun, bound_recoveries
from privet.canary_formats import CanaryFormat, plant_canaries

MODELS, WORDS, LONGEST, JUDGED, USERS, REFERENCES = 6, 1000, 32, 160, 120, 8
DELTA = 1e-5


def make_recipe(encoder):
    return TextRecipe(
        model=lambda: LSTMLanguageModel(encoder.vocabulary, embedding=24, width=48),
        epochs=4, batch_size=16, learning_rate=1e-2, end=encoder.end,
    )  # fmt: skip


def of_sentences(seed, runs):
    """For each attack, whether ε > 0 in each run: 160 e-mails by coins, a model of other e-mails."""
    judged, public = emails(seed, JUDGED + 300)
    encoder = WordEncoder(public_words(public, WORDS))
    recipe = make_recipe(encoder)
    texts = Texts.encode(encoder, judged[:JUDGED], end=encoder.end, longest=LONGEST)
    others = encode_texts(encoder, judged[JUDGED:], end=encoder.end, longest=LONGEST)
    target = recipe.train(others, seed=seed)
    known = encode_texts(encoder, public[:500], end=encoder.end, longest=200)
    trigram = NGramModel(known, vocabulary=encoder.vocabulary, end=encoder.end)
    compared = study(
        recipe, sequence_records(texts.sequences), models=REFERENCES, seed=seed, engine=Sequential(), progress=False
    )  # fmt: skip
    attacks = [SequenceLoss(), ZlibRatio(), MinK(), MinKPlusPlus(), ReferenceRatio([trigram])]
    attacks.append(ReferencedSequences(LiRA(compared)))
    fixed = run_together(attacks, target, texts, np.arange(JUDGED) < JUDGED // 2)
    passages = find_passages(texts.sequences, prompt=4, length=4, from_start=True, excluded=[encoder.unknown])
    format = CanaryFormat(np.array([encoder.end, *encoder.encode("my number is")]), (np.arange(10, 20),) * 3)
    claims = {}
    for run in range(runs):
        draw = np.random.default_rng([seed, 31, run])
        members = draw.random(JUDGED) < 0.5
        for scores in fixed:
            claims.setdefault(scores.attack, []).append(one_run(scores, members))
        found = PromptedExtraction(10_000, 0.01).run(target, passages, members[passages.source])
        claims.setdefault("prompted extraction", []).append(bound_recoveries(found, delta=DELTA).epsilon > 0)
        planted = plant_canaries(format, count=40, copies=(1,), controls=0, generator=draw)
        found = CanaryExposure(hit_rank=100).run(target, planted).recoveries(1)
        claims.setdefault("canary exposure", []).append(bound_recoveries(found, delta=DELTA).epsilon > 0)
    return claims


def of_users(seed, runs):
    """The same with coins on 120 chat users of five messages each, a model of other users."""
    mine, _, public = chats(seed, USERS, 5, 5)
    sizes = public.groupby("sender").size()
    people = np.random.default_rng([seed, 32]).permutation(sizes.index[sizes >= 5].to_numpy())
    own, shadows = (
        public[public.sender.isin(part)].groupby("sender").head(5) for part in (people[:60], people[60:180])
    )
    encoder = WordEncoder(public_words(public.words[~public.sender.isin(people[:180])], WORDS))
    recipe = make_recipe(encoder)

    def to_authors(table):
        tokens = encode_texts(encoder, table.words.tolist(), end=encoder.end, longest=LONGEST)
        return Authors(tuple(tokens), table.sender.astype(str).to_numpy())

    authors, taught = to_authors(mine), to_authors(shadows)
    target = recipe.train(list(to_authors(own).sequences), seed=seed)
    inside = np.random.default_rng([seed, 33]).permutation(len(taught.names)) < len(taught.names) // 2
    trained = [one for one, place in zip(taught.sequences, taught.places, strict=True) if inside[place]]
    shadow = recipe.train(trained, seed=seed + 100)
    compared = study(
        recipe, sequence_records(authors.sequences), models=REFERENCES, seed=seed, engine=Sequential(),
        split=AuthorSplit(authors.owners), progress=False,
    )  # fmt: skip
    attacks = [
        AuthorLoss(), AuthorRatio([shadow]), RankHistogram([AuthorShadow(shadow, taught, inside)]),
        ReferencedAuthors(LiRA(group_by_author(compared, authors, authors))),
    ]  # fmt: skip
    fixed = run_authors(attacks, target, authors, np.arange(USERS) < USERS // 2)
    claims = {}
    for run in range(runs):
        members = np.random.default_rng([seed, 34, run]).random(USERS) < 0.5
        for scores in fixed:
            claims.setdefault(scores.attack, []).append(one_run(scores, members))
    return claims


def one_run(scores, members):
    return OneRun().epsilon(type(scores)(scores.values, members, scores.attack), delta=DELTA) > 0


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=600)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    for unit, study_of in (("sentences", of_sentences), ("users", of_users)):
        together = {}
        for seed in range(MODELS):
            for name, claimed in study_of(seed, -(-options.runs // MODELS)).items():
                together.setdefault(name, []).extend(claimed)
        for name, claimed in together.items():
            hits, runs = int(np.sum(claimed)), len(claimed)
            upper = beta.ppf(0.95, hits + 1, runs - hits)
            print(
                f"{unit:10s} {name:28s} ε > 0 in {hits} of {runs} runs ({hits / runs:.3f}; at most {upper:.3f})",
                flush=True,
            )
    print(f"{time.process_time() - started:.0f} processor seconds")


if __name__ == "__main__":
    main()
