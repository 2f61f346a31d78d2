"""Copies of training digits in the samples of a small diffusion model, by how often a digit was repeated and how large the set is.

    python bench/generative/copies.py [--steps 8000] [--samples 2000]

Digits of 14 × 14 pixels. A small set of 40, and a set of 175 in which 5 digits stand 32 times and 10 stand 8 times; as many held-out
digits are the control. Printed are the targets found by number of copies, held-out hits, the precision of cliques, and the AUC of the
denoising loss.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch

from privet.attacks.generative import CopySearch, PictureDiffusion
from privet.auditing import measure, measure_recoveries

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def digits(seed):
    sys.path.insert(0, str(next(p for p in (SHARED, Path("/work/shared/data")) if p.exists())))
    from load import load

    data = load("mnist")
    name = next(name for name in data if data[name].ndim == 3 and len(data[name]) == 60_000)
    chosen = np.random.default_rng(seed).permutation(60_000)[:4000]
    pictures = data[name][chosen].astype(np.float64) / 255
    return pictures.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))


def run(label, pictures, copies, options):
    """The first pictures are trained on, each as often as ``copies`` says; as many are held out; the rest are public."""
    count = len(copies)
    targets, members = pictures[: 2 * count], np.arange(2 * count) < count
    start = time.process_time()
    model = PictureDiffusion.learn(
        np.repeat(pictures[:count], copies, axis=0), steps=options.steps, width=options.width, seed=0
    )
    trained = time.process_time() - start
    samples = model.sample(options.samples, steps=30, seed=1)
    search = CopySearch(ratio=options.ratio)
    found = search.run(samples, targets, members, public=pictures[2 * count :])
    hits = found.recoveries.hits
    rows = ", ".join(
        f"{int(hits[:count][copies == times].sum())} of {int((copies == times).sum())} at {times}"
        for times in np.unique(copies)[::-1]
    )
    print(
        f"{label}: {rows}; held out {int(hits[count:].sum())} of {count}; {measure_recoveries(found.recoveries)}"
    )
    print(
        f"  {len(found.candidates)} cliques, precision at 20: {found.precision(20):.2f}; AUC of the denoising loss {measure(model.score_members(targets, members)).auc}; trained in {trained:.0f} s, all {time.process_time() - start:.0f} s",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--ratio", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    pictures = digits(options.seed)
    run("small set", pictures, np.ones(40, dtype=np.int64), options)
    run("larger set", pictures, np.repeat([32, 8, 1], [5, 10, 160]), options)


if __name__ == "__main__":
    main()
