"""Real records for the benches: retail baskets with labels by clustering, and MNIST."""

from pathlib import Path

import numpy as np

from privet.scores import Records

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def baskets(folder: Path, count: int, classes: int = 100, seed: int = 0) -> Records:
    """Baskets of 600 items, and the cluster of each (2, 10, 20, 50 or 100); a stand-in for Purchase, and not Purchase."""
    kept = np.load(folder / "retail600_purchaselike.npz")
    bits = next(kept[name] for name in kept.files if kept[name].ndim == 2)
    chosen = np.random.default_rng(seed).permutation(len(bits))[:count]
    rows = np.unpackbits(bits[chosen], axis=1)[:, :600].astype(np.float32)
    return Records(rows, kept[f"y{classes}"][chosen].astype(np.int64))


def digits(folder: Path, count: int, seed: int = 0) -> Records:
    """MNIST digits, 1 × 28 × 28, from 0 to 1."""
    kept = np.load(folder / "mnist.npz")
    images, labels = kept["x_train"], kept["y_train"]
    chosen = np.random.default_rng(seed).permutation(len(images))[:count]
    rows = images[chosen].reshape(-1, 1, 28, 28).astype(np.float32) / 255
    return Records(rows, labels[chosen].astype(np.int64))
