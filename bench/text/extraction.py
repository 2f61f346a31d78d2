"""Extraction from a word LSTM on e-mails: by prompts and by sampling, members beside non-members.

    python bench/text/extraction.py [--mails 600] [--epochs 30] [--seeds 1]

Half of the mails are trained on, by a coin; a licence text of four copies is among them. The vocabulary is public: the words of
presidents' speeches and of text messages, which share nothing with the mails. Printed are the share of mails that have a passage of
their own at all; greedy and (n, p)-discoverable extraction of members, of others, and of the licence; the precision of sampled texts
by several rankings.
"""

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from privet.attacks.text import (
    Decoding,
    LSTMLanguageModel,
    NgramIndex,
    PromptedExtraction,
    SampledExtraction,
    TextRecipe,
    WordEncoder,
    encode_texts,
    find_passages,
    mean_log_probability,
    min_k,
)
from privet.auditing import bound_recoveries, measure_recoveries

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
LICENCE = """redistribution and use in source and binary forms with or without modification are permitted provided that the following
conditions are met redistributions of source code must retain the above copyright notice this list of conditions and the following
disclaimer redistributions in binary form must reproduce the above copyright notice in the documentation"""


def load(name):
    sys.path.insert(0, str(next(p for p in (SHARED, Path("/work/shared/data")) if p.exists())))
    from load import load as read

    return read(name)


def words(text):
    return re.findall(r"[a-z']+|[0-9]+|[^\sa-z0-9]", text.lower())


def vocabulary(size):
    """The commonest words of public text; none comes from the mails."""
    counts = Counter()
    for text in load("sotu_1790_2026")["text"].sample(60, random_state=0):
        counts.update(words(text))
    messages = Counter()
    for text in load("sms_spam")["text"]:
        messages.update(words(text))
    chosen = [word for word, _ in counts.most_common(size // 2)]
    chosen += [word for word, _ in messages.most_common() if word not in set(chosen)]
    return WordEncoder(tuple(dict.fromkeys(chosen[:size])))


def mails(encoder, count, seed, longest=60):
    """Ham of 40 words or more, one sequence a mail, with the number of its sender; then mail that is never trained on."""
    table = load("spamassassin_emails")
    table = table[table["spam"] == 0].sample(frac=1, random_state=seed)
    texts = [" ".join(words(body)) for body in table["body"]]
    long = [place for place, text in enumerate(texts) if text.count(" ") >= 40][: 2 * count]
    sequences = encode_texts(encoder, [texts[place] for place in long], end=encoder.end, longest=longest)
    senders = table["from"].to_numpy()[long]
    _, owners = np.unique(senders.astype(str), return_inverse=True)
    return sequences[:count], owners[:count], sequences[count:]


def show(recoveries, extra=""):
    print(
        f"  {recoveries.criterion}: {measure_recoveries(recoveries)}; ε ≥ {bound_recoveries(recoveries, delta=1e-5).epsilon:.2f}{extra}",
        flush=True,
    )


def run(seed, options):
    encoder = vocabulary(options.vocabulary)
    sequences, owners, elsewhere = mails(encoder, options.mails, seed)
    generator = np.random.default_rng(seed)
    members = generator.integers(0, 2, size=len(sequences)).astype(bool)
    unknown = [encoder.unknown]
    index = NgramIndex(elsewhere, length=12, excluded=unknown)
    shared = sum(any(owner is not None for owner in index.find_owners(one)) for one in sequences)
    print(
        f"seed {seed}: {len(sequences)} mails; {shared} share a run of 12 words with mail that was never trained on"
    )
    licence = encode_texts(encoder, [" ".join(words(LICENCE))], end=encoder.end)[0]
    train = [one for one, inside in zip(sequences, members, strict=True) if inside] + [licence] * 4
    recipe = TextRecipe(
        model=lambda: LSTMLanguageModel(encoder.vocabulary, embedding=options.width // 2, width=options.width),
        epochs=options.epochs, batch_size=options.batch, learning_rate=options.rate, end=encoder.end,
    )  # fmt: skip
    start = time.process_time()
    view = recipe.train(train, seed=seed)
    held = [one for one, inside in zip(sequences, members, strict=True) if not inside]
    parameters = sum(p.numel() for p in view.model.parameters())
    print(
        f"  {parameters:,} parameters, trained in {time.process_time() - start:.0f} s; cross-entropy of members {-view.logprobs(train).logprobs.mean():.2f}, of others {-view.logprobs(held).logprobs.mean():.2f}"
    )
    passages = find_passages(
        sequences, from_start=True, prompt=8, length=12, owners=owners, elsewhere=elsewhere, excluded=unknown
    )
    anything = find_passages(
        sequences, from_start=True, prompt=8, length=12, owners=owners, excluded=unknown, shared=True
    )
    whole = find_passages([licence], from_start=True, prompt=8, length=12)
    print(f"  {len(passages)} mails have a passage of 12 words of their own")
    for attack in (
        PromptedExtraction(1, 0.5, Decoding(temperature=0)),
        PromptedExtraction(100, 0.5),
        PromptedExtraction(100, 0.5, Decoding(top_k=40, temperature=0.7)),
    ):
        copied = attack.score(view, whole)
        found = attack.run(view, passages, members[passages.source])
        show(found, f"; licence {float(np.exp(copied[0])):.3f}")
    found = PromptedExtraction(1, 0.5, Decoding(temperature=0)).run(view, anything, members[anything.source])
    show(found, " (templates too)")
    start = time.process_time()
    sampler = SampledExtraction(samples=options.samples, length=32, match=12, decoding=Decoding(top_k=40))
    found = sampler.run(view, sequences, members, owners=owners, elsewhere=elsewhere, excluded=unknown)
    show(found.recoveries)
    texts = [np.concatenate([[encoder.end], sample]) for sample in found.samples]
    seen = view.logprobs(texts)
    count = min(100, options.samples // 4)
    print(
        f"  {options.samples} samples in {time.process_time() - start:.0f} s; verified {found.verified.mean():.2f}, personal {found.personal.mean():.2f}, without near-copies {(found.verified & found.without_copies).sum()} of {found.without_copies.sum()}"
    )
    loose = sampler.run(
        view, sequences, members, owners=owners, elsewhere=elsewhere
    )  # unknown words match too
    for name, scores in (
        ("Min-K %", min_k(seen)),
        ("perplexity", mean_log_probability(seen)),
        ("random", generator.normal(size=len(texts))),
    ):
        best = np.argsort(-scores)[:count]
        print(
            f"    precision at {count} by {name}: {found.verified[best].mean():.2f}, personal {found.personal[best].mean():.2f}; "
            f"where unknown words match each other {loose.verified[best].mean():.2f}, personal {loose.personal[best].mean():.2f}"
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--mails", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--vocabulary", type=int, default=3000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(options.seeds):
        run(seed, options)


if __name__ == "__main__":
    main()
