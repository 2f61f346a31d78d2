"""IMDB reviews at ε = 8, δ = 1e-5: which words a review has, hashed, and a linear model.

    python bench/utility/imdb.py [--repetitions 3] [--validate]

No vocabulary is read from the reviews: a word's place is its CRC-32 modulo the number of buckets. The words that are left
out are scikit-learn's list of English stop words, which is public, less those that turn or weigh an opinion. Each row is then
brought to length 1. There are 10,000 reviews to learn from, and as many, of other films, to test.

Hyperparameters are constants below. They were chosen by training on 8,000 of the training reviews and scoring the other 2,000, as
``--validate`` does; the choice itself is not paid for in ε. Noise is secure, so no run can be repeated exactly.
"""

import argparse
import re
import time
import zlib

import numpy as np
import polars as pl
import torch
from outcome import Outcome, accuracy, found, plainly_trained, table
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from torch import Tensor, nn

import privet
from privet.training import Flat

EPSILON, DELTA = 8.0, 1e-5
BUCKETS = 16_384
LOT_SIZE, EPOCHS, CLIP, RATE = 2000, 30, Flat(0.2), 20.0
PLAIN_EPOCHS, PLAIN_RATE = 10, 0.01
HELD_OUT = 2000
KEPT = {"not", "no", "never", "nothing", "nor", "none", "cannot"} | {"very", "too", "only", "however", "well"}
KEPT |= {"least", "most", "more"}
LEFT_OUT = ENGLISH_STOP_WORDS - KEPT
WORD = re.compile(r"[a-z']+")


def features(texts: list[str]) -> Tensor:
    """How many different words fall into each bucket; rows of length 1."""
    rows = np.zeros((len(texts), BUCKETS), dtype=np.float32)
    for row, text in zip(rows, texts, strict=True):
        words = set(WORD.findall(text.lower().replace("<br />", " "))) - LEFT_OUT
        np.add.at(row, [zlib.crc32(word.encode()) % BUCKETS for word in words], 1)
    return nn.functional.normalize(torch.from_numpy(rows))


def model() -> nn.Module:
    """Starts from 0, so there is no seed."""
    found = nn.Linear(BUCKETS, 2)
    for parameter in found.parameters():
        nn.init.zeros_(parameter)
    return found


def part(reviews: pl.DataFrame, split: str) -> tuple[Tensor, Tensor]:
    chosen = reviews.filter(pl.col("split") == split)
    return features(chosen["text"].to_list()), torch.tensor((chosen["label"] == "pos").to_list()).long()


def measured(repetitions: int = 3, *, validate: bool = False) -> Outcome:
    """Train that many times, and score each model once."""
    reviews = pl.read_parquet(found("imdb_reviews_20k.parquet"))
    begin = time.process_time()
    train = part(reviews, "train")
    if validate:
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(train[1])))
        fit, held = order[:-HELD_OUT], order[-HELD_OUT:]
        train, test = (train[0][fit], train[1][fit]), (train[0][held], train[1][held])
    else:
        test = part(reviews, "test")
    seconds = time.process_time() - begin
    scores, proved, spent = [], 0.0, []
    for _ in range(repetitions):
        begin = time.process_time()
        trained = privet.train(
            model(),
            train,
            epsilon=EPSILON,
            delta=DELTA,
            epochs=EPOCHS,
            lot_size=LOT_SIZE,
            clip=CLIP,
            optimizer=lambda parameters: torch.optim.SGD(parameters, lr=RATE, momentum=0.9),
        )
        spent.append(time.process_time() - begin)
        scores.append(accuracy(trained.model, *test))
        proved = max(proved, trained.epsilon(delta=DELTA))
    plain = plainly_trained(model(), *train, epochs=PLAIN_EPOCHS, rate=PLAIN_RATE, seed=0)
    return Outcome(
        dataset="IMDB" + (", validation" if validate else ""),
        model="hashed words, linear",
        epsilon=EPSILON,
        delta=DELTA,
        accuracies=tuple(scores),
        plain=accuracy(plain, *test),
        minutes=(seconds + sum(spent) / repetitions) / 60,
        proved=proved,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--validate", action="store_true", help="score held-out training reviews, never the test"
    )
    asked = parser.parse_args()
    outcome = measured(asked.repetitions, validate=asked.validate)
    print(table([outcome]))
    print("runs:", *(f"{100 * score:.2f}" for score in outcome.accuracies))


if __name__ == "__main__":
    main()
