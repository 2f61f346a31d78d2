"""Which chat users a small language model was trained on, from trained messages and from other messages.

    python bench/text/authors.py [--seeds 1 2 3] [--lira 0]

240 users, half of them in by a coin, twenty messages each; an LSTM learns them. The adversary has 1, 5 or 20 of the trained messages,
or 30 other messages of the same user. The reference, which is the shadow model of the rank histogram too, was trained the same
way on other users; beside it stands a trigram model of public messages. AUC as means over seeds with their range; the 95 % interval is that of the first seed. ``--lira N`` trains N
reference models on halves of the users, for LiRA with the author as the unit, on the first seed.
"""

import argparse
import time

import numpy as np
import torch
from corpora import chats, public_words

from privet.attacks import LiRA, OfflineLiRA
from privet.attacks.preflight import text_shift
from privet.attacks.shadows import Sequential, study
from privet.attacks.text import (
    AuthorLoss,
    AuthorRatio,
    Authors,
    AuthorShadow,
    AuthorSplit,
    LSTMLanguageModel,
    NGramModel,
    RankHistogram,
    ReferencedAuthors,
    TextRecipe,
    WordEncoder,
    encode_texts,
    group_by_author,
    run_authors,
    sequence_records,
)
from privet.auditing import measure

USERS, TRAINED, OTHER, WORDS, LONGEST, EPOCHS = 240, 20, 30, 3000, 32, 5


def authors_of(table, encoder):
    sequences = encode_texts(encoder, table.words.tolist(), end=encoder.end, longest=LONGEST)
    return Authors(tuple(sequences), table.sender.astype(str).to_numpy())


def train(recipe, authors, members, seed):
    kept = np.flatnonzero(members[authors.places])
    return recipe.train([authors.sequences[one] for one in kept], seed=seed)


def run(seed, references):
    mine, rest, public = chats(seed, USERS, TRAINED, OTHER)
    # Public users: half of them make the vocabulary, the others are the shadow model's.
    people = np.random.default_rng([seed, 21]).permutation(public.sender.unique())
    sizes = public.groupby("sender").size()
    shadow_people = [one for one in people if sizes[one] >= TRAINED][:USERS]
    own = public[public.sender.isin(shadow_people)].groupby("sender").head(TRAINED)
    elsewhere = public.words[~public.sender.isin(shadow_people)]
    encoder = WordEncoder(public_words(elsewhere, WORDS))
    recipe = TextRecipe(
        model=lambda: LSTMLanguageModel(encoder.vocabulary, embedding=64, width=128),
        epochs=EPOCHS, batch_size=16, learning_rate=5e-3, end=encoder.end,
    )  # fmt: skip
    authors, others = authors_of(mine, encoder), authors_of(rest, encoder)
    shadow_authors = authors_of(own, encoder)
    members, shadow_members = (
        np.random.default_rng([seed, stream]).permutation(len(one.names)) < len(one.names) // 2
        for stream, one in ((22, authors), (23, shadow_authors))
    )
    target = train(recipe, authors, members, seed)
    shadow = train(recipe, shadow_authors, shadow_members, seed + 1000)
    open_texts = [*own.words, *elsewhere[:20_000]]
    trigrams = NGramModel(
        encode_texts(encoder, open_texts, end=encoder.end, longest=LONGEST),
        vocabulary=encoder.vocabulary, order=3, end=encoder.end,
    )  # fmt: skip
    grouped = None
    if references:
        study_of = Authors(
            authors.sequences + others.sequences, np.concatenate([authors.owners, others.owners])
        )
        trained = np.arange(len(study_of.sequences)) < len(authors.sequences)
        found = study(
            recipe, sequence_records(study_of.sequences), models=references, seed=seed, engine=Sequential(),
            split=AuthorSplit(study_of.owners, trained), progress=False,
        )  # fmt: skip
        grouped = lambda asked: group_by_author(found, study_of, asked)  # noqa: E731
    results = {}
    for name, asked in {
        "1 trained message": authors.sample(1, seed=seed),
        "5 trained messages": authors.sample(5, seed=seed),
        "20 trained messages": authors,
        "30 other messages": others,
    }.items():
        most = int(asked.counts.max())
        teach = AuthorShadow(shadow, shadow_authors.sample(min(most, TRAINED), seed=seed), shadow_members)
        attacks = [AuthorLoss(), AuthorRatio([shadow]), RankHistogram([teach])]
        if grouped is not None:
            compared = grouped(asked)
            attacks += [ReferencedAuthors(LiRA(compared)), ReferencedAuthors(OfflineLiRA(compared))]
        for scores in run_authors(attacks, target, asked, members):
            results[name, scores.attack] = measure(scores)
        for compared_with, views in (("trigrams", [trigrams]), ("shadow and trigrams", [shadow, trigrams])):
            (scores,) = run_authors([AuthorRatio(views)], target, asked, members)
            results[name, f"{scores.attack}, {compared_with}"] = measure(scores)
    said = [f"{asked}, {name} {one.auc.value:.3f}" for (asked, name), one in results.items()]
    print(f"seed {seed}: {'; '.join(said)}", flush=True)
    joined = mine.groupby(mine.sender.astype(str)).words.agg(" ".join).loc[authors.names].tolist()
    return results, text_shift(joined, members, seed=seed).finding


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments.add_argument("--lira", type=int, default=0)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    runs = [run(seed, options.lira if place == 0 else 0) for place, seed in enumerate(options.seeds)]
    print(f"blind, by coins: {runs[0][1]}")
    for key in runs[0][0]:
        each = [found[key] for found, _ in runs if key in found]
        areas, first = [one.auc.value for one in each], each[0].auc
        print(
            f"{key[0]:20s} {key[1]:28s} AUC {np.mean(areas):.3f} ({min(areas):.3f}-{max(areas):.3f}; first seed 95 % "
            f"{first.lower:.3f}-{first.upper:.3f})"
        )
    print(f"{time.process_time() - started:.0f} processor seconds")


if __name__ == "__main__":
    main()
