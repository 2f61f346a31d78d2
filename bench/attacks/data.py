"""Real records for the benches: retail baskets with labels by clustering, MNIST, CIFAR-10, Location30 and Adult."""

import csv
import gzip
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


def locations(folder: Path, count: int, seed: int = 0) -> Records:
    """Location30: 446 places that a person has visited or not, and one of 30 kinds of person."""
    kept = np.load(folder / "location30.npz")
    chosen = np.random.default_rng(seed).permutation(len(kept["x"]))[:count]
    labels = kept["y"].astype(np.int64)
    return Records(kept["x"][chosen].astype(np.float32), (labels - labels.min())[chosen])


def pictures(folder: Path, count: int, seed: int = 0) -> Records:
    """CIFAR-10, 3 × 32 × 32, from 0 to 1: of its first batch, which is stored as one picture of 100 columns."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None
    sheet = np.asarray(Image.open(folder / "cifar10_train_b1_10k.webp").convert("RGB"))
    tiles = sheet.reshape(len(sheet) // 32, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)
    labels = np.load(folder / "cifar10_labels.npz")["y_train"]
    chosen = np.random.default_rng(seed).permutation(len(labels))[:count]
    return Records(tiles[chosen].astype(np.float32) / 255, labels[chosen].astype(np.int64))


def adults(folder: Path, count: int, seed: int = 0) -> Records:
    """Adult: 14 attributes of a person, words as one column each, numbers standardised; and income above 50,000."""
    with gzip.open(folder / "adult.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    *names, income = (name for name in rows[0] if name not in ("", "split", "dataset"))
    columns = []
    for name in names:
        values = [row[name].strip() for row in rows]
        try:
            numbers = np.array(values, dtype=np.float64)
            columns.append(((numbers - numbers.mean()) / numbers.std())[:, None])
        except ValueError:
            words = sorted(set(values))
            columns.append(np.eye(len(words))[[words.index(value) for value in values]])
    chosen = np.random.default_rng(seed).permutation(len(rows))[:count]
    labels = np.array([">50K" in row[income] for row in rows], dtype=np.int64)
    return Records(np.concatenate(columns, axis=1)[chosen].astype(np.float32), labels[chosen])
