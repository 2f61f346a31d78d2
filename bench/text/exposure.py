"""Canary exposure of a character LSTM on text messages: six digits, inserted 0, 1, 4 or 16 times.

    python bench/text/exposure.py [--seeds 2] [--epochs 20] [--canaries 10] [--curve] [--private]

For each number of copies: the mean exposure with its standard error, over canaries and seeds; controls beside theory (1.44 bits);
success of the coin's canaries beside those left out; the same exposures by search and draws, as if the space could not be listed,
and how often their intervals hold the exact value. ``--curve`` follows the exposure along the training, ``--private`` compares a
private run with the plain run at equal cross-entropy.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

from privet.attacks.text import (
    ByteEncoder,
    CanaryExposure,
    LeakCurve,
    LSTMLanguageModel,
    TextRecipe,
    bound_mean_exposure,
    compare_at_equal_loss,
    compute_blind_exposure,
    encode_texts,
    extrapolate_exposures,
    score_secrets,
)
from privet.auditing import bound_recoveries, measure_recoveries
from privet.canary_formats import CanaryFormat, plant_canaries

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
COPIES = (1, 4, 16)
LONGEST = 80


def load(name):
    sys.path.insert(0, str(next(p for p in (SHARED, Path("/work/shared/data")) if p.exists())))
    from load import load as read

    return read(name)


def messages(count, seed):
    """Short messages as bytes, and as many held-out ones."""
    texts = load("sms_spam")["text"].drop_duplicates()
    texts = texts[texts.str.len().between(10, LONGEST)].sample(frac=1, random_state=seed)
    sequences = encode_texts(ByteEncoder(), texts.tolist(), end=256, longest=LONGEST)
    return sequences[:count], sequences[count : count + 300]


def cross_entropy(view, sequences):
    return float(-view.logprobs(sequences).logprobs.mean())


def recipe(options):
    return TextRecipe(
        model=lambda: LSTMLanguageModel(257, embedding=32, width=options.width),
        epochs=options.epochs, batch_size=32, learning_rate=options.rate, end=256,
    )  # fmt: skip


def show(label, results, seconds=None):
    rows = ", ".join(
        f"{part.copies}: {part.mean:.2f} ± {part.deviation / np.sqrt(part.canaries):.2f} ({part.canaries})"
        for part in results.by_copies
    )
    print(f"{label}: {rows}" + ("" if seconds is None else f"  [{seconds:.0f} s]"), flush=True)


def run(seed, options):
    generator = np.random.default_rng(seed)
    train, held = messages(options.messages, seed)
    format = CanaryFormat.of_text(ByteEncoder(), "my number is ", end=256)
    planted = plant_canaries(format, count=options.canaries, copies=COPIES, controls=200, generator=generator)
    mixed = planted.insert_into(train, generator)
    attack = CanaryExposure()
    start = time.process_time()
    losses, leaks, view = [], [], None
    for epoch, current in enumerate(recipe(options).train_by_epoch(mixed, seed=seed)):
        view = current
        if options.curve and (epoch + 1) % options.every == 0:
            losses.append(cross_entropy(view, held))
            means = {part.copies: part.mean for part in attack.run(view, planted).by_copies}
            leaks.append(means.get(16, np.nan))
            print(
                f"  epoch {epoch + 1}: cross-entropy {losses[-1]:.2f}",
                {k: round(v, 1) for k, v in means.items()},
                flush=True,
            )
    trained = time.process_time() - start
    start = time.process_time()
    results = attack.run(view, planted)
    seconds = time.process_time() - start
    print(
        f"seed {seed}: trained in {trained:.0f} s, held-out cross-entropy {cross_entropy(view, held):.2f} nats per byte"
    )
    show("  exact exposure by copies", results, seconds)
    theory = compute_blind_exposure(format.size)
    controls = results.found.exposures.estimates[len(planted) :]
    print(
        f"  controls {controls.mean():.2f} ± {controls.std() / np.sqrt(len(controls)):.2f} bits, theory {theory:.2f}; ceiling {format.bits:.1f}"
    )
    for copies in COPIES:
        recoveries = results.recoveries(copies)
        print(
            f"  {measure_recoveries(recoveries)}; ε ≥ {bound_recoveries(recoveries, delta=1e-5).epsilon:.2f} for {copies}"
        )
    start = time.process_time()
    searched = CanaryExposure(largest_listed=1000, hit_rank=256).run(view, planted)
    show("  searched and drawn", searched, time.process_time() - start)
    truth, found = results.found.exposures.estimates, searched.found.exposures
    inside = (found.lower <= truth + 1e-6) & (truth <= found.upper + 1e-6)
    print(
        f"  intervals hold the exact value in {inside.mean():.3f}; mean width {np.mean(found.upper - found.lower):.2f} bits; exact in {searched.found.exact.mean():.2f}; median error {np.median(np.abs(found.estimates - truth)):.3f}"
    )
    scores = score_secrets(view, format, np.concatenate([planted.secrets, planted.controls]))
    fitted = extrapolate_exposures(scores[: len(planted)], scores[len(planted) :], bits=format.bits)
    own = truth[: len(planted)]
    print(
        f"  skew normal through 200 controls: median error {np.median(np.abs(fitted.estimates - own)):.2f} bits, largest {np.max(np.abs(fitted.estimates - own)):.1f}"
    )
    return planted, train, held, results, (losses, leaks)


def run_privately(seed, planted, train, held, curve, options):
    """A private run of the same model; its exposure beside that of the plain run at equal cross-entropy."""
    from torch.nn.functional import cross_entropy as torch_cross_entropy

    import privet
    from privet.attacks.text import TorchTokenView

    mixed = planted.insert_into(train, np.random.default_rng(seed))
    rows = torch.full((len(mixed), LONGEST), 0)
    targets = torch.full((len(mixed), LONGEST), -100)
    for row, text in enumerate(mixed):
        rows[row, : len(text) - 1] = torch.from_numpy(text[:-1])
        targets[row, : len(text) - 1] = torch.from_numpy(text[1:])

    def loss(outputs, targets):
        each = torch_cross_entropy(outputs.transpose(1, 2), targets, ignore_index=-100, reduction="none")
        return each.sum(dim=1) / (targets != -100).sum(dim=1)

    torch.manual_seed(seed)
    model = LSTMLanguageModel(257, embedding=32, width=options.width)
    start = time.process_time()
    trained = privet.train(
        model, (rows, targets), epsilon=8.0, delta=1e-5, epochs=options.private_epochs, lot_size=512, loss=loss,
        optimizer=lambda parameters: torch.optim.Adam(parameters, 4e-3),
    )  # fmt: skip
    view = TorchTokenView(model, end=256)
    results = CanaryExposure().run(view, planted)
    entropy = cross_entropy(view, held)
    print(
        f"private, ε = {trained.epsilon(delta=1e-5):.2f}: cross-entropy {entropy:.2f} in {time.process_time() - start:.0f} s"
    )
    show("  exposure by copies", results)
    for copies in (1, 16):
        print(
            f"  ceiling of the mean exposure, {copies} copies: {bound_mean_exposure(trained.guarantee(), size=10**6, copies=copies, per_bit=2):.1f} bits"
        )
    point = compare_at_equal_loss(
        LeakCurve(np.array([entropy]), np.array([results.by_copies[-1].mean])),
        LeakCurve(*map(np.array, curve)),
    )[0]
    print(
        f"  at equal cross-entropy the plain run has {point.plain}, the private one {point.private:.1f} bits"
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--canaries", type=int, default=10)
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--private-epochs", type=int, default=10)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--private", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(options.seeds):
        planted, train, held, _, curve = run(seed, options)
        if options.private:
            run_privately(seed, planted, train, held, curve, options)


if __name__ == "__main__":
    main()
