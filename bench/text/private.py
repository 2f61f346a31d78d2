"""Private fine-tuning of a small transformer on e-mails with the sender as the unit, beside plain fine-tuning for the same steps.

    python bench/text/private.py [--seeds 1 2] [--steps 30] [--epsilon 8]

A transformer of words learns public text first: spam (no sender of which sends other mail), film reviews and text messages, in
pieces of the same form as those of the e-mails. Then it learns e-mails of some 800 senders, by LoRA and in full, plainly and
privately, for as many steps; a lot holds half of the users. Perplexity is that of a word of held-out
senders' mail. The private run has SGD or Adam and a moving average, the plain one Adam. Each canary is a user of its own, with one or two copies of a secret of four digits; a coin decides who is in.
Extraction asks for the next six words of mails, members beside senders that were left out, and beside the public model. Learning rates were chosen on seed 0.
"""

import argparse
import copy
import time

import numpy as np
import torch
from corpora import load, public_words, words_of
from torch.nn.functional import cross_entropy

import privet
from privet.adjacency import AddRemove, Unit
from privet.attacks.text import (
    CanaryExposure,
    Decoding,
    PromptedExtraction,
    TorchTokenView,
    TransformerLanguageModel,
    WordEncoder,
    bound_mean_exposure,
    compute_blind_exposure,
    encode_texts,
    find_passages,
)  # fmt: skip
from privet.auditing import measure_recoveries
from privet.canary_formats import CanaryFormat, plant_canaries
from privet.training import LoRA, MovingAverage, UserLanguageModel, gather_users, merge_adapters

WORDS, LENGTH, MOST_TEXTS, DELTA, COPIES = 1000, 16, 6, 1e-5, (1, 2)
RATES = {
    ("full", "plain"): 4e-3,
    ("full", "private"): 2.0,
    ("LoRA", "plain"): 2e-2,
    ("LoRA", "private"): 1e-2,
}


def make_optimizer(form, rate):
    """Where most coordinates are noise, Adam makes full steps along the noise, and SGD does not."""
    if form == "LoRA":
        return lambda parameters: torch.optim.Adam(parameters, rate)
    return lambda parameters: torch.optim.SGD(parameters, rate, momentum=0.9)


def public_text():
    """Words of spam, of film reviews and of text messages."""
    table = load("spamassassin_emails")
    spam = table[table.spam == 1].drop_duplicates("body").body
    reviews = load("imdb_reviews_20k").text.sample(800, random_state=0)
    return [words_of(text) for some in (spam, reviews, load("sms_spam").text) for text in some]


def cut(text, most):
    """The first pieces of a text, each one word shorter than LENGTH: an end token follows."""
    words = text.split()[: most * LENGTH]
    return [" ".join(words[start : start + LENGTH - 1]) for start in range(0, len(words) - 12, LENGTH)]


def emails_by_sender(encoder, generator):
    """Pieces of mail with their senders, for senders that are trained on, and for others."""
    table = load("spamassassin_emails")
    table = table[table.spam == 0].drop_duplicates("body")
    pieces, senders = [], []
    for sender, body in zip(table["from"].astype(str), table.body, strict=True):
        own = cut(words_of(body), MOST_TEXTS)
        pieces += own
        senders += [sender] * len(own)
    tokens = encode_texts(encoder, pieces, end=encoder.end, longest=LENGTH + 1)
    names = generator.permutation(np.unique(senders))
    return tokens, np.array(senders), set(names[: int(0.85 * len(names))])


def train_plainly(model, data, steps, lot, rate, seed):
    """Lots by coins, as the private run has them; the same loss, optimizer and steps."""
    draw = np.random.default_rng([seed, 41])
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], rate)
    inputs, targets = data
    for _ in range(steps):
        chosen = torch.from_numpy(np.flatnonzero(draw.random(len(inputs)) < lot / len(inputs)))
        optimizer.zero_grad()
        for part in chosen.split(64):
            user_loss(model(inputs[part]), targets[part]).sum().div(len(chosen)).backward()
        optimizer.step()
    return model


def user_loss(outputs, targets):
    """The mean over the tokens of each user."""
    each = cross_entropy(outputs.transpose(1, 2), targets, ignore_index=-100, reduction="none")
    return each.sum(dim=1) / (targets != -100).sum(dim=1).clamp_min(1)


def pretrain(encoder, texts, steps, seed):
    rows = encode_texts(
        encoder, [one for text in texts for one in cut(text, 30)], end=encoder.end, longest=LENGTH + 1
    )
    table = torch.full((len(rows), LENGTH + 1), -100)
    for place, row in enumerate(rows):
        table[place, : len(row)] = torch.from_numpy(row)
    torch.manual_seed(seed)
    model = TransformerLanguageModel(encoder.vocabulary, context=LENGTH + 8, width=64, heads=4, layers=2)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=steps)
    draw = np.random.default_rng([seed, 42])
    for _ in range(steps):
        batch = table[draw.integers(0, len(table), size=64)]
        optimizer.zero_grad()
        cross_entropy(model(batch[:, :-1].clamp_min(0)).flatten(0, 1), batch[:, 1:].flatten()).backward()
        optimizer.step()
        schedule.step()
    return model


def adapt(model, form):
    model = copy.deepcopy(model).train()
    return LoRA(rank=4).apply_to(model) if form == "LoRA" else model


class Setting:
    """Public model, users, canaries and passages of one seed."""

    def __init__(self, seed, pretraining):
        draw = np.random.default_rng([seed, 40])
        texts = public_text()
        self.encoder = WordEncoder(
            (*map(str, range(10)), *(w for w in public_words(texts, WORDS) if w not in set("0123456789")))
        )
        self.start = pretrain(self.encoder, texts, pretraining, seed)
        tokens, senders, trained = emails_by_sender(self.encoder, draw)
        inside = np.array([one in trained for one in senders])
        self.held = [tokens[one] for one in np.flatnonzero(~inside)]
        digits = np.array([self.encoder.encode(str(one))[0] for one in range(10)])
        head = np.concatenate([[self.encoder.end], self.encoder.encode("my secret number is")])
        self.format = CanaryFormat(head, (digits,) * 4, np.array([self.encoder.end]))
        self.planted = plant_canaries(self.format, count=20, copies=COPIES, controls=200, generator=draw)
        own = [tokens[one] for one in np.flatnonzero(inside)]
        names = [f"sender {senders[one]}" for one in np.flatnonzero(inside)]
        for place, (text, copies) in enumerate(
            zip(self.format.write(self.planted.secrets), self.planted.copies, strict=True)
        ):
            if self.planted.coin[place]:
                own += [text] * int(copies)
                names += [f"canary {place}"] * int(copies)
        self.users = gather_users(own, names, most_texts=MOST_TEXTS, most_tokens=LENGTH, seed=seed)
        shown = {tuple(row[row >= 0]) for row in self.users.targets.reshape(-1, LENGTH).numpy()}
        # Passages of one sender alone: a template that many write would count as a member's by its copies.
        _, owners = np.unique(senders, return_inverse=True)
        judged = np.flatnonzero(
            [not one or tuple(own[1 : LENGTH + 1]) in shown for one, own in zip(inside, tokens, strict=True)]
        )
        self.passages = find_passages(
            [tokens[one] for one in judged], prompt=8, length=6, from_start=True, owners=owners[judged],
            excluded=[self.encoder.unknown],
        )  # fmt: skip
        self.members = inside[judged][self.passages.source]

    def perplexity(self, model):
        return float(np.exp(-TorchTokenView(model, end=self.encoder.end).logprobs(self.held).logprobs.mean()))

    def leaks(self, model):
        view = TorchTokenView(model, end=self.encoder.end)
        exposures = CanaryExposure().run(view, self.planted)
        found = PromptedExtraction(100, 0.5, Decoding(top_k=40)).run(view, self.passages, self.members)
        return exposures, measure_recoveries(found)


def fine_tune(setting, form, kind, options, seed):
    model = adapt(setting.start, form)
    steps, lot, data = options.steps, options.lot or len(setting.users) // 2, setting.users.data
    rate = options.rate or RATES[form, kind]
    if kind == "plain":
        train_plainly(UserLanguageModel(model), data, steps, lot, rate, seed)
        return (merge_adapters(model) if form == "LoRA" else model), None
    trained = privet.train(
        UserLanguageModel(model), data, epsilon=options.epsilon, delta=DELTA, epochs=steps * lot / len(setting.users), lot_size=lot,
        loss=user_loss, optimizer=make_optimizer(form, rate), clip=options.clip, average=MovingAverage(0.9),
        adjacency=AddRemove(Unit.USER), population=len(setting.users),
    )  # fmt: skip
    return (merge_adapters(model) if form == "LoRA" else model), trained


def run(seed, options):
    started = time.process_time()
    setting = Setting(seed, options.pretraining)
    print(f"seed {seed}: {len(setting.users)} users, perplexity of the public model {setting.perplexity(setting.start):.1f}; "
          f"{time.process_time() - started:.0f} s", flush=True)  # fmt: skip
    if not options.quick:  # senders differ much, so the model that saw no mail is the control of extraction
        print(f"  public model, extraction: {setting.leaks(setting.start)[1]}", flush=True)
    for form in options.forms:
        plain = None
        for kind in options.kinds:
            started = time.process_time()
            model, trained = fine_tune(setting, form, kind, options, seed)
            perplexity = setting.perplexity(model)
            plain = perplexity if kind == "plain" else plain
            said = f"  {form:5s} {kind:8s} perplexity {perplexity:.1f}"
            if trained is not None:
                said += f" (ε = {trained.epsilon(delta=DELTA):.2f}, σ = {trained.plan.noise_multiplier:.2f}, {trained.plan.steps} steps)"
                said += f", {perplexity / plain:.3f} of plain" if plain else ""
            print(f"{said}; {time.process_time() - started:.0f} s", flush=True)
            if options.quick:
                continue
            exposures, extraction = setting.leaks(model)
            controls = exposures.found.exposures.estimates[len(setting.planted) :]
            each = "; ".join(
                f"{one.copies} copies {one.mean:.2f} ± {one.deviation / np.sqrt(one.canaries):.2f}"
                for one in exposures.by_copies
            )
            print(f"    exposure: {each}; controls {controls.mean():.2f} ± {controls.std() / np.sqrt(len(controls)):.2f}, theory "
                  f"{compute_blind_exposure(setting.format.size):.2f}; extraction: {extraction}", flush=True)  # fmt: skip
            if trained is not None:
                ceiling = bound_mean_exposure(
                    trained.guarantee(), size=setting.format.size, copies=1, per_bit=2
                )
                print(f"    ceiling of the mean exposure of a user's secret: {ceiling:.1f} bits", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--steps", type=int, default=30)
    arguments.add_argument("--lot", type=int, default=None)
    arguments.add_argument("--clip", type=float, default=0.1)
    arguments.add_argument("--epsilon", type=float, default=8.0)
    arguments.add_argument("--rate", type=float, default=None)
    arguments.add_argument("--pretraining", type=int, default=2000)
    arguments.add_argument("--forms", nargs="+", default=["LoRA", "full"])
    arguments.add_argument("--kinds", nargs="+", default=["plain", "private"])
    arguments.add_argument("--quick", action="store_true")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    for seed in options.seeds:
        run(seed, options)
    print(f"{time.process_time() - started:.0f} processor seconds")


if __name__ == "__main__":
    main()
