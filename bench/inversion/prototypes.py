"""Faces from a model: 20 private identities of Olivetti, 20 public ones, three judges that choose among all 40.

    python bench/inversion/prototypes.py [--seeds 3] [--private-runs 5]

Half of each private person's pictures train the model. The judges learn from the *other* half and from the public people, so that
they recognise persons and not training pictures. Then the same attack on private models, beside the ceiling that their proof
sets for a person with five pictures.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

from privet.attacks import see
from privet.attacks.inversion import (
    ConfidencePrototype,
    GradientPrototype,
    JudgePanel,
    PCAPrior,
    PixelPrior,
    PrototypeGame,
    score_pictures,
)
from privet.attacks.inversion.prototypes.vae_prior import VAEPrior
from privet.auditing import measure, measure_recoveries
from privet.scores import Scores

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
PRIVATE = 20


def faces(seed):
    """Pictures, persons, the private ones, and which pictures are trained on."""
    folder = next(path for path in (SHARED, Path("/work/shared/data")) if path.exists())
    kept = np.load(folder / "olivetti_faces64.npz")
    pictures = kept["images"].astype(np.float64)
    pictures /= max(pictures.max(), 1.0)
    persons = kept["subject"].astype(np.int64)
    generator = np.random.default_rng(seed)
    private = generator.permutation(40)[:PRIVATE]
    coin = np.zeros(len(persons), dtype=bool)
    for person in np.unique(persons):
        coin[generator.permutation(np.flatnonzero(persons == person))[:5]] = True
    return pictures, persons, private, coin


def network(kind, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if kind == "linear":
            return nn.Sequential(nn.Flatten(), nn.Linear(4096, PRIVATE))
        if kind == "MLP":
            return nn.Sequential(nn.Flatten(), nn.Linear(4096, 300), nn.Sigmoid(), nn.Linear(300, PRIVATE))
        return nn.Sequential(
            nn.Unflatten(1, (1, 64)), nn.Conv2d(1, 8, 5, 2, 2), nn.ReLU(), nn.Conv2d(8, 16, 5, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(4096, PRIVATE),
        )  # fmt: skip


def fit(model, pictures, labels, steps=300):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-4)
    rows, targets = torch.as_tensor(pictures, dtype=torch.float32), torch.as_tensor(labels)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(rows), targets).backward()
        optimizer.step()
    return model


class Setting:
    """One draw of people and pictures."""

    def __init__(self, seed):
        self.pictures, persons, private, coin = faces(seed)
        self.position = {person: place for place, person in enumerate(private.tolist())}
        mine = np.isin(persons, private)
        self.trained, self.left_out = mine & coin, mine & ~coin
        self.public = self.pictures[~mine]
        others = ~self.trained
        panel = JudgePanel.learn(self.pictures[others], persons[others])
        truths = np.stack(
            [self.pictures[np.flatnonzero(self.left_out & (persons == person))[0]] for person in private]
        )
        self.game = PrototypeGame(private, panel, self.public, truths)
        self.means = np.stack(
            [self.pictures[self.trained & (persons == person)].mean(axis=0) for person in private]
        )
        self.labels = np.array([self.position.get(person, -1) for person in persons.tolist()])

    def attacks(self):
        yield "pixels from the public mean", GradientPrototype(PixelPrior.mean(self.public))
        yield "pixels from grey", GradientPrototype(PixelPrior.grey((64, 64)))
        yield "PCA of the public", GradientPrototype(PCAPrior.learn(self.public), steps=300)
        yield "VAE of the public", GradientPrototype(VAEPrior.learn(self.public))
        yield "PCA, confidences alone", ConfidencePrototype(PCAPrior.learn(self.public), steps=100)


def of_pictures(setting, drawn):
    """The area under the curve of "was this picture trained on", from its likeness to its prototype."""
    mine = setting.trained | setting.left_out
    scores = score_pictures(drawn, setting.pictures[mine], setting.labels[mine])
    return measure(Scores(scores, setting.trained[mine])).auc.value


def show(title, rows):
    figures = np.mean(rows, axis=0)
    print(f"| {title} | " + " | ".join(f"{value:.2f}" for value in figures) + " |", flush=True)


def main():
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--private-runs", type=int, default=5)
    options = parser.parse_args()
    settings = [Setting(seed) for seed in range(options.seeds)]
    print(
        "| model and attack | discriminant | correlation | kernel | every judge | AUC of single pictures | s |"
    )
    print("|---|---|---|---|---|---|---|")
    blind = [[*one.game.panel.recognize(one.game.blind, one.game.people).values()] for one in settings]
    show(
        "blind: the public mean",
        [[*np.mean(row, axis=1), np.all(row, axis=0).mean(), 0.5, 0] for row in blind],
    )
    means = [[*one.game.panel.recognize(one.means, one.game.people).values()] for one in settings]
    show(
        "the mean of the trained pictures themselves",
        [
            [*np.mean(row, axis=1), np.all(row, axis=0).mean(), of_pictures(one, one.means), 0]
            for row, one in zip(means, settings, strict=True)
        ],
    )
    for kind in ("linear", "MLP", "CNN", "untrained MLP"):
        rows = {}
        for number, one in enumerate(settings):
            model = network(kind.removeprefix("untrained "), number)
            if not kind.startswith("untrained"):
                fit(model, one.pictures[one.trained], one.labels[one.trained])
            for title, attack in one.attacks():
                started = time.process_time()
                told = one.game.play(attack, see(model))
                spent = time.process_time() - started
                rows.setdefault(title, []).append(
                    [
                        *told.by_judge.values(),
                        told.recoveries.hits.mean(),
                        of_pictures(one, told.pictures),
                        spent,
                    ]
                )
        for title, figures in rows.items():
            show(f"{kind}, {title}", figures)
    private_models(options.private_runs)


def private_models(runs):
    """The first attack on models that ``privet.train`` made, beside the ceiling for a person with five pictures."""
    import privet

    print(
        "\n| ε | accuracy on other pictures | every judge | largest single judge | success of all runs | blind | ceiling (five pictures) | above |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for epsilon in (8.0, 3.0, 1.0):
        rows, above = [], 0
        for seed in range(runs):
            one = Setting(1000 + seed)
            model = network("linear", seed)
            rows_of = one.pictures[one.trained].astype(np.float32)
            trained = privet.train(
                model, (rows_of, one.labels[one.trained]), epsilon=epsilon, delta=1e-3, epochs=40, lot_size=25, clip=1.0, progress=False,
            )  # fmt: skip
            view = see(trained.model)
            told = one.game.play(GradientPrototype(PixelPrior.mean(one.public)), view)
            leakage = measure_recoveries(told.recoveries, confidence=0.95)
            claim = privet.account(trained.ledger).group(5)
            ceiling = claim.tpr(fpr=min(max(leakage.baseline.upper, 1e-9), 1.0))
            above += leakage.success.lower > ceiling
            accuracy = (view.labels(one.pictures[one.left_out]) == one.labels[one.left_out]).mean()
            rows.append(
                [
                    accuracy,
                    told.recoveries.hits.mean(),
                    max(told.by_judge.values()),
                    leakage.success.value,
                    leakage.baseline.value,
                    ceiling,
                ]
            )
        figures = np.mean(rows, axis=0)
        print(
            f"| {epsilon:g} | " + " | ".join(f"{value:.3f}" for value in figures) + f" | {above} of {runs} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
