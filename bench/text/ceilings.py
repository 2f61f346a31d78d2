"""Whether any attack on text exceeds what the proof allows, in many small private runs, and whether one does without the noise.

    python bench/text/ceilings.py [--runs 100]

A tiny LSTM learns 80 short random texts privately, at ε = 1 or ε = 4; a coin decides for each text, or for each of 40 users with two
texts, who is in. Canaries of two digits are among them. Attacked are sentences or users, the canaries, and the texts by prompts.
A run exceeds its ceiling where a lower bound of 95 % confidence is above the claim; over all runs of one ε, where the lower end (99.9 %) of the
share of hits is above the ceiling of hits, or the mean exposure is. The control is the same training without noise and clipping.
"""

import argparse
import time

import numpy as np
import torch
from scipy.stats import beta
from torch.nn.functional import cross_entropy

import privet
from privet.adjacency import AddRemove, Unit
from privet.attacks.text import (
    AuthorLoss,
    Authors,
    CanaryExposure,
    Decoding,
    LSTMLanguageModel,
    PromptedExtraction,
    SequenceLoss,
    Texts,
    TorchTokenView,
    bound_hit_rate,
    bound_mean_exposure,
    find_passages,
)  # fmt: skip
from privet.auditing import OneRun, bound_recoveries
from privet.canary_formats import CanaryFormat, plant_canaries
from privet.training import UserLanguageModel, gather_users

WORDS, LENGTH, USERS, DELTA, STEPS, LOT = 24, 8, 40, 1e-5, 60, 24
FORMAT = CanaryFormat(np.array([0, 1]), (np.arange(10, 20),) * 2)


def unit_loss(outputs, targets):
    each = cross_entropy(outputs.transpose(1, 2), targets, ignore_index=-100, reduction="none")
    return each.sum(dim=1) / (targets != -100).sum(dim=1).clamp_min(1)


def train(model, data, epsilon):
    """Privately; without noise and clipping where ``epsilon`` is None."""
    if epsilon is not None:
        return privet.train(
            model, data, epsilon=epsilon, delta=DELTA, epochs=STEPS * LOT / len(data[0]), lot_size=LOT, loss=unit_loss,
            optimizer=lambda parameters: torch.optim.Adam(parameters, 2e-2), clip=1.0, adjacency=AddRemove(Unit.USER),
        ).guarantee()  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), 2e-2)
    for _ in range(STEPS):
        chosen = torch.randint(len(data[0]), (LOT,))
        optimizer.zero_grad()
        unit_loss(model(data[0][chosen]), data[1][chosen]).mean().backward()
        optimizer.step()
    return None


def run(seed, by_user, epsilon):
    """One run: lower bounds, the claim, and exposures and hits of the canaries that were in."""
    draw = np.random.default_rng([seed, by_user, 50])
    torch.manual_seed(seed)
    sequences = [np.concatenate([[0], draw.integers(2, WORDS, size=LENGTH)]) for _ in range(2 * USERS)]
    names = np.array([f"u{place // 2 if by_user else place:03d}" for place in range(2 * USERS)])
    people = np.unique(names)
    coin = draw.random(len(people)) < 0.5
    inside = coin[np.searchsorted(people, names)]
    planted = plant_canaries(FORMAT, count=30, copies=(1,), controls=0, generator=draw)
    texts = [sequences[one] for one in np.flatnonzero(inside)] + planted.sequences
    owners = [*names[inside], *(f"c{place}" for place in range(len(planted.sequences)))]
    data = gather_users(texts, owners, most_texts=2 if by_user else 1, most_tokens=LENGTH).data
    model = LSTMLanguageModel(WORDS, embedding=12, width=24)
    claim = train(UserLanguageModel(model), data, epsilon)
    view = TorchTokenView(model)
    if by_user:
        scores = AuthorLoss().run(view, Authors(tuple(sequences), names), coin)
    else:
        scores = SequenceLoss().run(
            view, Texts(tuple(map(str, range(len(sequences)))), tuple(sequences)), coin
        )
    exposed = CanaryExposure(hit_rank=1).run(view, planted)
    passages = find_passages(sequences, prompt=3, length=3, from_start=True)
    prompted = PromptedExtraction(100, 0.5, Decoding()).run(view, passages, inside[passages.source])
    secrets = exposed.recoveries(1)
    own = exposed.found.exposures.estimates[: len(planted)][planted.coin]
    bounds = {
        "users" if by_user else "sentences": OneRun().epsilon(scores, delta=DELTA),
        "exposure": bound_recoveries(secrets, delta=DELTA).epsilon,
    }
    if not by_user:  # two texts of a user are no two coins
        bounds["extraction"] = bound_recoveries(prompted, delta=DELTA).epsilon
    extracted = prompted.hits[prompted.members], prompted.hits[~prompted.members]
    return bounds, claim, own, extracted


def show(label, runs, epsilon):
    claim = runs[0][1]
    allowed = claim.epsilon(delta=DELTA) if claim else np.inf
    compared = allowed if claim else 4.0
    for name in runs[0][0]:
        values = np.array([one[0][name] for one in runs])
        print(
            f"{label} {name:10s}: bound above {compared:.2f} in {np.sum(values > compared)} of {len(runs)}, largest {values.max():.2f}"
        )
    exposures = np.concatenate([one[2] for one in runs])
    hits = int((exposures >= np.log2(FORMAT.size) - 1e-9).sum())
    lower = beta.ppf(0.001, hits, len(exposures) - hits + 1) if hits else 0.0
    said = f"{label} canaries  : mean exposure {exposures.mean():.2f} ± {exposures.std() / np.sqrt(len(exposures)):.2f}, rank 1 in {hits} of {len(exposures)} (at least {lower:.4f})"
    ins, outs = (np.concatenate([one[3][part] for one in runs]) for part in (0, 1))
    said += f"; extracted {ins.mean():.4f} of members, {outs.mean():.4f} of others"
    if claim:
        most, mean = (
            bound_hit_rate(claim, rank=1, size=FORMAT.size),
            bound_mean_exposure(claim, size=FORMAT.size, per_bit=2),
        )
        said += (
            f"; ceilings {most:.4f} and {mean:.2f} bits; exceeded: {lower > most or exposures.mean() > mean}"
        )
    print(said, flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--runs", type=int, default=100)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    started = time.process_time()
    for by_user in (False, True):
        for epsilon in (1.0, 4.0, None):
            count = options.runs // 4 if epsilon else max(2, options.runs // 20)
            label = f"{'users  ' if by_user else 'records'} {f'ε = {epsilon:.0f}' if epsilon else 'plain'}"
            show(label, [run(seed, by_user, epsilon) for seed in range(count)], epsilon)
    print(f"{time.process_time() - started:.0f} processor seconds")


if __name__ == "__main__":
    main()
