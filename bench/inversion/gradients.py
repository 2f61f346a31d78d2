"""Gradient inversion, measured: ``python bench/inversion/gradients.py [PART …] [--data FOLDER] [--peer PYTHON]``.

Parts: first_layer, imprint, federated, leakage, inverting, together, cifar, adult, noise, trained, tokens, peer. Each prints rows of a Markdown
table. Seeds are fixed here; data are MNIST, CIFAR-10 and Adult from the folder of ``load.py``. Times are processor seconds of one
thread. ``--peer`` is the interpreter of a virtual environment with the peer (``breaching``); peer.py runs in it.
"""

import argparse
import importlib.util
import subprocess
import tempfile
import time
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from scipy.stats import beta, norm, t
from torch import nn

import privet
from privet.attacks.inversion.gradients import (
    CandidateTest,
    DeepLeakage,
    ExpectedSignal,
    FirstLayer,
    Imprint,
    ImprintModel,
    InvertingGradients,
    MixedColumns,
    PublicModel,
    RankOne,
    SpanCheck,
    TabularInversion,
    align_batches,
)
from privet.attacks.inversion.identification import rank_truths
from privet.attacks.inversion.picture_quality import measure_psnr, measure_ssim
from privet.shared_gradients import LocalSteps, NoisyStep, SharedGradient

SEED = 16
ARGUMENTS = argparse.Namespace(data=Path("/work/shared/data"), peer=None)


# ---- data and networks


@cache
def load(name):
    spec = importlib.util.spec_from_file_location("bench_data", ARGUMENTS.data / "load.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load(name)


@cache
def mnist():
    data = load("mnist")
    return (data["x_train"].astype(np.float32) / 255).reshape(-1, 1, 28, 28), data["y_train"].astype(np.int64)


@cache
def cifar():
    data = load("cifar10")
    pixels = data["x_train"].astype(np.float32).transpose(0, 3, 1, 2) / 255
    return pixels, data["y_train"].astype(np.int64)


@cache
def adult():
    """Encoded rows, labels and columns: numbers in standard deviations, categories as blocks."""
    table = load("adult")
    numbers = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
    parts = [((table[c] - table[c].mean()) / table[c].std()).to_numpy()[:, None] for c in numbers]
    for name in table.columns:
        if name not in (*numbers, "income", "split"):
            codes, words = table[name].factorize()
            parts.append(np.eye(len(words))[codes])
    labels = table["income"].str.contains(">50K").to_numpy().astype(np.int64)
    return np.concatenate(parts, axis=1), labels, MixedColumns(tuple(part.shape[1] for part in parts))


def lenet(channels=1, side=28, seed=SEED):
    """The network of Zhu et al. 2019: sigmoids, strides, weights uniform in ±0.5."""
    torch.manual_seed(seed)
    net = nn.Sequential(
        nn.Conv2d(channels, 12, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, stride=2, padding=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, stride=1, padding=2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(12 * (side // 4) ** 2, 10),
    )
    for parameter in net.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return PublicModel(net, shape=(channels, side, side))


def perceptron(neurons=1024, seed=SEED):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, neurons), nn.ReLU(), nn.Linear(neurons, 10))
    return PublicModel(net, shape=(1, 28, 28))


# ---- counting


def share(hits):
    """A share with its exact 95 % interval."""
    hits = np.asarray(hits)
    k, n = int(hits.sum()), len(hits)
    low = beta.ppf(0.025, k, n - k + 1) if k else 0.0
    high = beta.ppf(0.975, k + 1, n - k) if k < n else 1.0
    return f"{k / n:.2f} [{low:.2f}, {high:.2f}]"


def mean(values):
    """A mean with its 95 % interval by Student's t."""
    values = np.asarray(values)
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.1f} ± {half:.1f}"


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def attack_pictures(attack, model, data, batch, messages, sharing=None, rng=None):
    """PSNR, SSIM, rank among 1,000, blind PSNR and seconds of an attack on random batches."""
    rng = np.random.default_rng(SEED) if rng is None else rng
    inputs, labels = data
    chosen = rng.choice(5000, (messages, batch), replace=False)
    shared = [
        model.share(inputs[i], labels[i], *([] if sharing is None else [sharing]), randomness=rng)
        for i in chosen
    ]
    start = time.process_time()
    found = attack.recover(model, shared)
    seconds = time.process_time() - start
    truths = inputs[chosen.ravel()]
    rows = found.rows[align_batches(found.rows, truths, batch=batch)]
    public = inputs[5000:10000].mean(axis=0)
    filled = np.where(np.isfinite(rows), rows, public[None])  # what was not found: the blind guess
    candidates = np.concatenate([truths, inputs[6000 : 6000 + 1000 - len(truths)]])
    right = np.mean(
        [np.array_equal(np.sort(labels[i]), np.sort(f)) for i, f in zip(chosen, found.labels, strict=True)]
    )
    return {
        "psnr": measure_psnr(filled, truths),
        "ssim": measure_ssim(filled, truths),
        "rank": rank_truths(rows, truths, candidates),
        "blind": measure_psnr(np.repeat(public[None], len(truths), axis=0), truths),
        "exact": np.nan_to_num(measure_psnr(rows, truths), nan=0.0) > 40,
        "labels": right,
        "seconds": seconds / messages,
        "rows": rows,
        "truths": truths,
    }


# ---- parts


def first_layer():
    row("FirstLayer, MNIST, 1024 neurons", "exact (PSNR > 40 dB)", "labels", "s/message")
    for batch in (1, 8, 16, 32):
        got = attack_pictures(FirstLayer(), perceptron(), mnist(), batch, 20)
        row(f"batch {batch}", share(got["exact"]), f"{got['labels']:.2f}", f"{got['seconds']:.2f}")


def imprint():
    inputs, labels = mnist()
    torch.manual_seed(SEED)
    honest = nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    module = ImprintModel(honest, classes=10, public=inputs[10000:14000], neurons=1024, seed=SEED)
    model = PublicModel(module, shape=(1, 28, 28))
    row("Imprint, MNIST, 1024 neurons", "exact (PSNR > 40 dB)", "SSIM > 0.5", "s/message")
    for batch in (64, 256, 512):
        got = attack_pictures(Imprint(), model, mnist(), batch, 2)
        row(f"batch {batch}", share(got["exact"]), share(got["ssim"] > 0.5), f"{got['seconds']:.2f}")
    rng = np.random.default_rng(SEED)
    for each in (1, 4, 8):
        chosen = rng.choice(5000, (64, each), replace=False)
        total = SharedGradient.mean_of([model.share(inputs[i], labels[i]) for i in chosen])
        found, truths = Imprint().recover(model, [total]), inputs[chosen.ravel()]
        rows = found.rows[align_batches(found.rows, truths, batch=64 * each)]
        likeness = np.nan_to_num(measure_ssim(np.nan_to_num(rows), truths))
        exact = np.nan_to_num(measure_psnr(rows, truths)) > 40
        row(f"sum of 64 clients with {each}", share(exact), share(likeness > 0.5), "")


def federated():
    sharing = LocalSteps(learning_rate=0.1, batch_size=2, epochs=2)
    row("update of 4 local steps, 4 examples", "PSNR, dB", "blind", "first of 1,000", "s/message")
    for name, attack, model in (
        ("FirstLayer, perceptron", FirstLayer(), perceptron()),
        ("DeepLeakage, LeNet", DeepLeakage(iterations=300), lenet()),
    ):
        got = attack_pictures(attack, model, mnist(), 4, 3, sharing)
        row(
            name,
            mean(got["psnr"]),
            f"{got['blind'].mean():.1f}",
            share(got["rank"] == 1),
            f"{got['seconds']:.1f}",
        )


def leakage():
    row(
        "DeepLeakage, MNIST, LeNet",
        "PSNR, dB",
        "blind",
        "SSIM > 0.5",
        "first of 1,000",
        "labels",
        "s/message",
    )
    for batch, messages in ((1, 20), (2, 10), (4, 6), (8, 3)):
        got = attack_pictures(DeepLeakage(), lenet(), mnist(), batch, messages)
        _picture_row(f"batch {batch}", got)


def inverting():
    row(
        "InvertingGradients, MNIST, LeNet",
        "PSNR, dB",
        "blind",
        "SSIM > 0.5",
        "first of 1,000",
        "labels",
        "s/message",
    )
    for batch, messages in ((1, 12), (2, 6)):
        got = attack_pictures(InvertingGradients(), lenet(), mnist(), batch, messages)
        _picture_row(f"batch {batch}", got)


def cifar_anchor():
    row(
        "CIFAR-10, LeNet, batch 1", "PSNR, dB", "blind", "SSIM > 0.5", "first of 1,000", "labels", "s/message"
    )
    for name, attack in (("InvertingGradients", InvertingGradients()), ("DeepLeakage", DeepLeakage())):
        got = attack_pictures(attack, lenet(3, 32), cifar(), 1, 8)
        _picture_row(name, got)
        print(f"  standard deviation over pictures: {got['psnr'].std(ddof=1):.1f} dB")


def _picture_row(name, got):
    row(
        name,
        mean(got["psnr"]),
        f"{got['blind'].mean():.1f}",
        share(got["ssim"] > 0.5),
        share(got["rank"] == 1),
        f"{got['labels']:.2f}",
        f"{got['seconds']:.1f}",
    )


def together():
    """100 pictures together and one at a time: seconds for a picture, the same number of iterations."""
    attack = InvertingGradients(iterations=150)
    model = lenet()
    attack_pictures(attack, model, mnist(), 1, 1)  # warm up
    alone = [
        attack_pictures(attack, model, mnist(), 1, 1, rng=np.random.default_rng(seed))["seconds"]
        for seed in range(8)
    ]
    joint = attack_pictures(attack, model, mnist(), 1, 100)["seconds"]
    row("InvertingGradients, 150 iterations", "alone, s/picture", "100 together, s/picture", "ratio")
    row("MNIST, LeNet", f"{np.median(alone):.3f}", f"{joint:.3f}", f"{joint / np.median(alone):.3f}")


def adult_rows():
    rows, labels, columns = adult()
    torch.manual_seed(SEED)
    width = columns.size
    net = nn.Sequential(nn.Linear(width, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 2))
    model = PublicModel(net, shape=(width,))
    rng = np.random.default_rng(SEED)
    chosen = rng.choice(30000, (4, 8), replace=False)
    shared = [model.share(rows[i], labels[i]) for i in chosen]
    truths, public = rows[chosen.ravel()], rows[32000:]
    row("Adult, batch 8, two layers of 100", "columns right, %", "s/message")
    row(
        "drawn from public people",
        mean(100 * columns.share_right(public[rng.integers(0, len(public), 32)], truths)),
        "",
    )
    blind = np.repeat(columns.most_frequent(public)[None], 32, axis=0)
    row("most frequent value", mean(100 * columns.share_right(blind, truths)), "")
    for attack in (TabularInversion(columns), FirstLayer()):
        start = time.process_time()
        found = attack.recover(model, shared)
        seconds = (time.process_time() - start) / len(shared)
        order = align_batches(found.rows, truths, batch=8)
        row(attack.name, mean(100 * columns.share_right(found.rows[order], truths)), f"{seconds:.1f}")


def noise(targets=40):
    """Identification among 1,000 by the noise, clip 1, one example: three attacks and the ceiling."""
    model, (inputs, labels) = perceptron(), mnist()
    rng = np.random.default_rng(SEED)
    candidates, known, public = inputs[:1000], labels[:1000], inputs[10000:10500]
    row(
        "σ (clip 1)",
        "rank one",
        "its PSNR (blind)",
        "expected signal",
        "candidate test",
        "label",
        "ceiling at 1/1,000",
    )
    for sigma in (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0):
        chosen = rng.choice(1000, targets)
        sharing = NoisyStep(clip=1.0, noise_multiplier=sigma)
        shared = [model.share(inputs[[i]], labels[[i]], sharing, randomness=rng) for i in chosen]
        truths = inputs[chosen]
        cells = []
        for attack in (RankOne(public), ExpectedSignal(public), CandidateTest(candidates, known)):
            found = attack.recover(model, shared)
            cells.append(share(rank_truths(found.rows, truths, candidates) == 1))
            if isinstance(attack, RankOne):
                right = share(found.labels[:, 0] == labels[chosen])
                clipped = measure_psnr(found.rows.clip(0, 1), truths).mean()
                blind = measure_psnr(np.repeat(public.mean(axis=0)[None], targets, axis=0), truths).mean()
        ceiling = norm.cdf(1 / sigma - norm.isf(1e-3))
        row(f"{sigma:g}", cells[0], f"{clipped:.1f} ({blind:.1f})", *cells[1:], right, f"{ceiling:.3f}")


def trained(runs=200, lot=16, listed=10):
    """One step of ``privet.train`` on the target and 15 people whom the adversary knows: which of ten is the sixteenth?

    Ten candidates, because a share of 1/1,000 is out of the reach of 200 runs.
    """
    inputs, labels = mnist()
    rng = np.random.default_rng(SEED)
    row("privet.train, one step", "noise multiplier", "candidate test", "ceiling at 1/10", "blind")
    public = perceptron(64)
    others = slice(2000, 2000 + lot - 1)
    known = public.share(inputs[others], labels[others], NoisyStep(clip=1.0, noise_multiplier=0.0))
    before = {name: value.double().numpy() for name, value in public.weights.items()}
    for epsilon in (8.0, 3.0, 1.0):
        chosen, messages = rng.choice(listed, runs), []
        for target in chosen:
            model = perceptron(64).module
            data = (
                torch.tensor(np.concatenate([inputs[others], inputs[[target]]])),
                torch.tensor(np.append(labels[others], labels[target])),
            )
            done = privet.train(
                model,
                data,
                epsilon=epsilon,
                delta=1e-5,
                epochs=1,
                lot_size=lot,
                clip=1.0,
                population=lot,
                optimizer=partial(torch.optim.SGD, lr=1.0),
            )
            sigma = done.plan.noise_multiplier
            after = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
            rest = {n: lot * (before[n] - after[n]) - (lot - 1) * known.gradients[n] for n in before}
            messages.append(SharedGradient(rest, 1, NoisyStep(clip=1.0, noise_multiplier=sigma)))
        found = CandidateTest(inputs[:listed], labels[:listed]).recover(public, messages)
        hits = np.abs(found.rows - inputs[chosen]).max(axis=(1, 2, 3)) < 1e-6
        ceiling = done.guarantee().tpr(fpr=1 / listed)
        row(f"ε = {epsilon:g}", f"{sigma:.3f}", share(hits), f"{ceiling:.3f}", f"{1 / listed:g}")


class Transformer(nn.Module):
    """Two causal layers of width 64 over 1,000 tokens."""

    def __init__(self, vocabulary=1000, width=64, length=12):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 128, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.end = nn.Linear(width, 2)
        self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1))

    def forward(self, tokens):
        h = self.tokens(tokens) + self.places.weight
        for layer in self.layers:
            h = layer(h, src_mask=self.mask)
        return self.end(h.mean(dim=1))


def tokens():
    torch.manual_seed(SEED)
    model = PublicModel(Transformer().eval(), shape=(12,))
    rng = np.random.default_rng(SEED)
    attack = SpanCheck("layers.0.self_attn.in_proj_weight", "layers.1.self_attn.in_proj_weight")
    row("SpanCheck, 12 tokens of 1,000, width 64", "sentences exact", "s/message")
    for batch in (1, 2, 4):
        words, labels = rng.integers(0, 1000, (20, batch, 12)), rng.integers(0, 2, (20, batch))
        shared = [model.share(w, y) for w, y in zip(words, labels, strict=True)]
        start = time.process_time()
        found = attack.recover(model, shared)
        seconds = (time.process_time() - start) / 20
        truths = words.reshape(-1, 12)
        order = align_batches(found.rows, truths, batch=batch)
        row(f"batch {batch}", share((found.rows[order] == truths).all(axis=1)), f"{seconds:.2f}")


def peer():
    """The same network, pictures and run: ``breaching`` with its own settings, and with our number of iterations."""
    if ARGUMENTS.peer is None:
        print("no --peer given")
        return
    row("LeNet, batch 1, 3 pictures", "iterations", "PSNR, dB", "s/picture")
    # The peer's total variation is written for three channels, so it does not run on MNIST.
    for name, data, model in (("CIFAR-10", cifar(), lenet(3, 32)),):
        rng = np.random.default_rng(SEED)
        chosen = rng.choice(5000, (3, 1), replace=False).ravel()
        truths, labels = data[0][chosen], data[1][chosen]
        with tempfile.TemporaryDirectory() as folder:
            given, taken = Path(folder) / "given.npz", Path(folder) / "taken.npz"
            weights = {f"weight:{n}": v.numpy() for n, v in model.weights.items()}
            np.savez(given, truths=truths, labels=labels, **weights)
            for iterations in (1200,):
                command = [ARGUMENTS.peer, Path(__file__).with_name("peer.py"), given, taken, str(iterations)]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                answer = np.load(taken)
                row(
                    f"breaching, {name}",
                    iterations,
                    mean(measure_psnr(answer["pictures"], truths)),
                    f"{answer['seconds']:.1f}",
                )
        for attack in (InvertingGradients(), DeepLeakage()):
            shared = [model.share(truths[[i]], labels[[i]]) for i in range(3)]
            start = time.process_time()
            found = attack.recover(model, shared)
            seconds = (time.process_time() - start) / 3
            row(
                f"Privet, {attack.name}, {name}",
                attack.iterations,
                mean(measure_psnr(found.rows, truths)),
                f"{seconds:.1f}",
            )


PARTS = {
    "first_layer": first_layer,
    "imprint": imprint,
    "federated": federated,
    "leakage": leakage,
    "inverting": inverting,
    "together": together,
    "cifar": cifar_anchor,
    "adult": adult_rows,
    "noise": noise,
    "trained": trained,
    "tokens": tokens,
    "peer": peer,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS))
    parser.add_argument("--data", type=Path, default=ARGUMENTS.data)
    parser.add_argument("--peer")
    ARGUMENTS = parser.parse_args()
    torch.set_num_threads(1)
    for part in ARGUMENTS.parts:
        print(f"\n{part}", flush=True)
        PARTS[part]()
