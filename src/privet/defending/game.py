"""The game that every defence plays: who may be trained on, by which coins, and who is most exposed.

*Population*: records as they are, each with a coin of its own. *Mislabelled* canaries: records with a wrong
label, which a model can only know by heart. *Near-duplicates*: a mislabelled record and a slightly changed
copy, in or out by one coin; a defence that never asks a sub-model about a record that it saw (SELENA) asks
one that saw the copy. The coins are those of the shadow engine: every model is trained on a random half.

Records that no model is trained on follow: those of the test, those that a defender knows besides, and noisy
copies of judged records, whose labels serve label-only attacks.

*Reference*: Aerni, Zhang & Tramèr 2024, sections 3 and 4: canaries that fit the defence, every model attacked
with the others. Deviations: both kinds of canaries are given to every defence, and the worse one counts; a
copy is changed by weak noise, where the paper changes pictures.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.shadows.splits import Halves, Split
from privet.errors import InvalidArgument
from privet.scores import Bits, Records
from privet.views import Labels, Rows

__all__ = ["MISLABELLED", "NEAR_DUPLICATES", "DefenceGame", "SharedCoins", "prepare_game"]

MISLABELLED, NEAR_DUPLICATES = "mislabelled", "near-duplicates"
_NEVER = -1
_MOST_COPIED = 400  # of the population, for label-only attacks
_FLIPS, _SCALES = (0.01, 0.03, 0.06, 0.1), (0.1, 0.3, 0.6, 1.0)
_DRAWS = 3  # of each strength
_NEAR_FLIPS, _NEAR_SCALE = 0.01, 0.02

Places = NDArray[np.intp]


@final
@dataclass(frozen=True, eq=False)
class DefenceGame:
    """All rows of a game, the coin of each, and the places of each kind."""

    records: Records
    coins: NDArray[np.int64]  # which coin decides about a row; −1: it is in no model
    population: Places
    canaries: dict[str, Places]
    test: Places
    outside: Places  # what a defender knows besides its members
    copied: Places  # rows that have noisy copies
    copies: NDArray[np.intp]  # copied × draws
    seed: int

    def __repr__(self) -> str:
        exposed = sum(map(len, self.canaries.values()))
        return (
            f"DefenceGame({len(self.population)} records, {exposed} canaries, {len(self.test)} of the test)"
        )

    @property
    def split(self) -> "SharedCoins":
        """Who is trained on, in every model."""
        return SharedCoins(self.coins)


@final
@dataclass(frozen=True, eq=False)
class SharedCoins(Split):
    """Halves of the coins; rows with one coin are in the same models, and those with coin −1 in none.

    >>> SharedCoins(np.array([0, 0, 1, -1])).members(2, 4, seed=0).sum(axis=0).tolist()
    [1, 1, 1, 0]
    """

    coins: NDArray[np.int64]

    def members(self, models: int, records: int, seed: int) -> Bits:
        if self.coins.shape != (records,) or not (self.coins >= 0).any():
            raise InvalidArgument(
                f"'coins' must be one for each of {records} records, and one at least 0, got others. "
                f"Give the records of the game."
            )
        tossed = Halves().members(models, int(self.coins.max()) + 1, seed)
        return np.where(self.coins >= 0, tossed[:, np.maximum(self.coins, 0)], False)


def prepare_game(records: Records, *, test: Records, canaries: int = 50, seed: int = 0) -> DefenceGame:
    """The game for these records: half of them are trained on in every model.

    ``canaries`` is the number of each kind; twice as many records are taken out of ``records`` for them.
    ``test`` are labelled records that no model is trained on; a tenth of them is what a defender knows
    besides. Records are arrays of numbers.
    """
    whole("canaries", canaries, least=2)
    whole("seed", seed, least=0)
    labels, test_labels = records.known_labels, test.known_labels
    inputs, test_inputs = _require_numbers("records", records), _require_numbers("test", test)
    _require_disjoint(records, test)
    if inputs.shape[1:] != test_inputs.shape[1:] or len(test) < 20 or len(records) < 4 * canaries:
        raise InvalidArgument(
            f"'records' must be at least {4 * canaries}, four for each canary, and 'test' at least 20 of the "
            f"same shape, got {len(records)} and {len(test)}. Give more records, or fewer canaries."
        )
    classes = int(max(labels.max(), test_labels.max())) + 1
    if classes < 2:
        raise InvalidArgument("'records' must have two classes, got one. Give labels of every class.")
    generator = np.random.default_rng([seed, 21])
    order = generator.permutation(len(records))
    single, paired, rest = order[:canaries], order[canaries : 2 * canaries], np.sort(order[2 * canaries :])
    wrong = _other_labels(labels[np.concatenate([single, paired])], classes, generator)
    near = _change(inputs[paired], inputs, (_NEAR_FLIPS, _NEAR_SCALE), generator)
    blocks = [
        (inputs[rest], labels[rest]),
        (inputs[single], wrong[:canaries]),
        (inputs[paired], wrong[canaries:]),
        (near, wrong[canaries:]),
        (test_inputs, test_labels),
    ]
    bounds = np.cumsum([0, *(len(block[1]) for block in blocks)])
    population, singles, pairs, _, held_out = (np.arange(first, last) for first, last in pairwise(bounds))
    coined = len(rest) + 2 * canaries
    coins = np.concatenate([np.arange(coined), pairs, np.full(len(test), _NEVER)])
    some = np.sort(generator.permutation(population)[:_MOST_COPIED])
    copied = np.concatenate([some, singles, pairs])
    rows, tags = np.concatenate([block[0] for block in blocks]), np.concatenate([b[1] for b in blocks])
    strengths = [pair for pair in zip(_FLIPS, _SCALES, strict=True) for _ in range(_DRAWS)]
    noisy = [_change(rows[copied], inputs, pair, generator) for pair in strengths]
    copies = len(rows) + np.arange(len(copied) * len(noisy)).reshape(len(noisy), len(copied)).T
    all_rows = np.concatenate([rows, *noisy])
    all_labels = np.concatenate([tags, *(tags[copied] for _ in noisy)])
    outside = len(test) // 10
    return DefenceGame(
        Records(all_rows, all_labels),
        np.concatenate([coins, np.full(copies.size, _NEVER)]).astype(np.int64),
        population,
        {MISLABELLED: singles, NEAR_DUPLICATES: pairs},
        held_out[outside:],
        held_out[:outside],
        copied,
        copies,
        seed,
    )


def _require_disjoint(records: Records, test: Records) -> None:
    shared = int(np.isin(test.hashes, records.hashes).sum())
    if 2 * shared > len(test):
        raise InvalidArgument(
            f"'test' must be records that are not trained on, and {shared} of {len(test)} are among "
            f"'records'. Give records that were kept apart."
        )


def _require_numbers(name: str, records: Records) -> Rows:
    inputs = records.inputs
    if inputs.dtype.kind not in "fiub" or inputs.ndim < 2:
        raise InvalidArgument(
            f"'{name}' must be rows of numbers, got {inputs.dtype} of {inputs.ndim} axes. "
            f"Give an array of numbers, with categories encoded."
        )
    if inputs.dtype.kind == "f" and not np.isfinite(inputs).all():
        raise InvalidArgument(f"'{name}' must be finite, got NaN or infinity. Fill them in beforehand.")
    return inputs


def _other_labels(labels: Labels, classes: int, generator: np.random.Generator) -> Labels:
    """Another class for each record, all others equally likely."""
    return np.asarray((labels + generator.integers(1, classes, len(labels))) % classes, dtype=np.int64)


def _change(rows: Rows, kind: Rows, strengths: tuple[float, float], generator: np.random.Generator) -> Rows:
    """Noisy copies: flipped bits for zeros and ones, else Gaussian noise in units of the mean deviation."""
    flips, scale = strengths
    if np.isin(kind, (0, 1)).all():
        flipped = generator.random(rows.shape) < flips
        return np.asarray(np.where(flipped, 1 - rows, rows), dtype=rows.dtype)
    unit = float(np.asarray(kind, dtype=np.float64).std(axis=0).mean()) or 1.0
    moved = rows.astype(np.float64) + scale * unit * generator.normal(size=rows.shape)
    return np.asarray(moved if kind.dtype.kind == "f" else np.rint(moved), dtype=rows.dtype)
