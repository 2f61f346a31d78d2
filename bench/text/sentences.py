"""Which e-mails a small language model was trained on: every attack on single texts, after 3, 6 and 10 epochs.

    python bench/text/sentences.py [--corpus emails] [--seeds 1 2 3] [--lira 0]

An LSTM of 0.68 million parameters learns 300 e-mails; 300 others are judged beside them. Words are those of public mail, and the
trigram reference has counted public mail. ``--corpus`` takes film reviews (reviews) or presidents' speeches (speeches) instead. For each attack: AUC, and the true-positive rate at a false-positive rate of 1 %, as
means over seeds with their range; the 95 % interval of the AUC is that of the first seed. The neighbourhood attack runs at 6 epochs. ``--lira N`` trains N reference models
for LiRA at 6 epochs, on the first seed. The ratio is that of one pass that serves all signals to a plain evaluation pass.
"""

import argparse
import time

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from corpora import emails, load, public_words, reviews, speeches, words_of

from privet.attacks import LiRA, OfflineLiRA
from privet.attacks.preflight import text_shift
from privet.attacks.shadows import Sequential, study
from privet.attacks.text import (
    LSTMLanguageModel,
    MinK,
    MinKPlusPlus,
    Neighbourhood,
    NGramModel,
    ReferencedSequences,
    ReferenceRatio,
    SequenceLoss,
    TextRecipe,
    Texts,
    TokenView,
    WordEncoder,
    ZlibRatio,
    run_together,
    sequence_records,
)
from privet.auditing import measure

EPOCHS, WORDS, LONGEST, EACH = (3, 6, 10), 3000, 64, 300
CORPORA = {"emails": emails, "reviews": reviews, "speeches": speeches}


class Remembering(TokenView):
    """A public model that answers the same question once: the judged texts are the same after every epoch."""

    vocabulary, end, context = property(lambda self: self.inner.vocabulary), None, None

    def __init__(self, inner):
        self.inner, self.answers = inner, {}

    def logprobs(self, sequences, *, top=0):
        if id(sequences) not in self.answers:
            self.answers[id(sequences)] = self.inner.logprobs(sequences, top=top)
        return self.answers[id(sequences)]

    def next_logits(self, prefixes):
        return self.inner.next_logits(prefixes)


def plain_pass(view, sequences):
    """Cross-entropy and nothing else, on the same batches."""
    with torch.inference_mode():
        for batch in view._batches([len(one) - 1 for one in sequences]):
            inputs = torch.from_numpy(view._pad([sequences[one][:-1] for one in batch]))
            targets = view._pad([sequences[one][1:] for one in batch])
            for row, one in zip(targets, batch, strict=True):
                row[len(sequences[one]) - 1 :] = -100
            logits = view.model(inputs).flatten(0, 1)
            F.cross_entropy(logits, torch.from_numpy(targets).flatten(), reduction="sum")


def ratio_of_passes(view, sequences, repeats=9):
    """The median over repeats of the time of the shared pass by that of a plain one."""
    view.model.eval()
    ratios = []
    for _ in range(repeats + 1):
        started = time.process_time()
        plain_pass(view, sequences)
        between = time.process_time()
        view.logprobs(sequences)
        ratios.append((time.process_time() - between) / (between - started))
    return float(np.median(ratios[1:]))


def blind_by_date(seed):
    """The blind classifier where members are the earlier half: what a benchmark by date measures."""
    table = load("spamassassin_emails")
    table = table[table.spam == 0].drop_duplicates("body")
    dates = table.date.astype(str).str.extract(r"(\d{1,2}) (\w{3}) (20\d\d)")
    months = {
        name: place
        for place, name in enumerate(
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        )
    }
    when = dates[2].astype(float) * 372 + dates[1].map(months) * 31 + dates[0].astype(float)
    kept = when.notna()
    chosen = np.random.default_rng(seed).permutation(np.flatnonzero(kept))[: 2 * EACH]
    texts = [words_of(body) for body in table.body.iloc[chosen]]
    return text_shift(texts, (when.iloc[chosen] <= when.iloc[chosen].median()).to_numpy(), seed=seed).finding


def run(corpus, seed, references):
    judged, public = CORPORA[corpus](seed, 2 * EACH)
    encoder = WordEncoder(public_words(public, WORDS))
    texts = Texts.encode(encoder, judged, end=encoder.end, longest=LONGEST)
    members = np.random.default_rng([seed, 20]).permutation(2 * EACH) < EACH
    known = Texts.encode(encoder, public, end=encoder.end, longest=400)
    trigram = Remembering(NGramModel(known.sequences, vocabulary=encoder.vocabulary, end=encoder.end))
    attacks = [
        SequenceLoss(),
        ZlibRatio(),
        MinK(),
        MinKPlusPlus(),
        ReferenceRatio([trigram]),
    ]
    recipe = TextRecipe(
        model=lambda: LSTMLanguageModel(encoder.vocabulary, embedding=64, width=128),
        epochs=max(EPOCHS), batch_size=8, learning_rate=1e-2, end=encoder.end,
    )  # fmt: skip
    trained = [texts.sequences[one] for one in np.flatnonzero(members)]
    found, ratio = {}, None
    for epoch, view in enumerate(recipe.train_by_epoch(trained, seed=seed), 1):
        if epoch in EPOCHS:
            some = list(attacks)
            if epoch == 6:
                some.append(Neighbourhood(trigram, neighbours=5, seed=seed))
            if references and epoch == 6:
                records = sequence_records(texts.sequences)
                compared = study(
                    recipe.after(6),
                    records,
                    models=references,
                    seed=seed,
                    engine=Sequential(),
                    progress=False,
                )
                some += [ReferencedSequences(LiRA(compared)), ReferencedSequences(OfflineLiRA(compared))]
            found[epoch] = {one.attack: measure(one) for one in run_together(some, view, texts, members)}
            ratio = ratio or ratio_of_passes(view, texts.sequences)
    for epoch, each in found.items():
        said = [f"{name} {one.auc.value:.3f} ({one.tpr(0.01).value:.3f})" for name, one in each.items()]
        print(f"seed {seed}, {epoch} epochs: {', '.join(said)}", flush=True)
    return found, ratio, text_shift(texts.texts, members, seed=seed).finding


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--corpus", choices=CORPORA, default="emails")
    arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments.add_argument("--lira", type=int, default=0)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    runs = [
        run(options.corpus, seed, options.lira if place == 0 else 0)
        for place, seed in enumerate(options.seeds)
    ]
    print(f"blind, by coins: {runs[0][2]}")
    if options.corpus == "emails":
        print(f"blind, by date:  {blind_by_date(options.seeds[0])}")
    print(f"one pass for all signals / plain pass: {np.median([one[1] for one in runs]):.2f}")
    for epoch in EPOCHS:
        for name in runs[0][0][epoch]:
            each = [found[epoch][name] for found, _, _ in runs if name in found[epoch]]
            areas = [one.auc.value for one in each]
            rates = [one.tpr(0.01).value for one in each]
            first = each[0].auc
            print(
                f"{epoch:3d} epochs  {name:28s} AUC {np.mean(areas):.3f} ({min(areas):.3f}-{max(areas):.3f}; first seed 95 % "
                f"{first.lower:.3f}-{first.upper:.3f})  TPR at 1 % {np.mean(rates):.3f} ({min(rates):.3f}-{max(rates):.3f})"
            )
    print(f"{time.process_time() - started:.0f} processor seconds")


if __name__ == "__main__":
    main()
