"""Lots: sizes, numbers, resuming, gathering. Their law is in tests/statistical."""

import copy
import os
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, TensorDataset

from privet.errors import InvalidArgument
from privet.randomness import NoiseSource, SecureNoise, SeededNoise
from privet.training.sampling import subsets
from privet.training.sampling.batch_sampler import (
    CyclicBatchSampler,
    CyclicPoissonBatchSampler,
    FixedSizeBatchSampler,
    PoissonBatchSampler,
    ShuffledBatchSampler,
)
from privet.training.sampling.datasets import DatasetExamples
from privet.training.sampling.examples import TensorExamples, split_micro_batches
from privet.training.sampling.reading import as_examples
from privet.training.sampling.subsets import draw_binomial, draw_subset


class Bits(NoiseSource):
    """Words whose first bits are those of a given number U, for one coin."""

    caveats = frozenset()

    def __init__(self, number: Fraction) -> None:
        self.rest = number

    def bits(self, words):
        assert words == 1
        self.rest *= 2
        bit, self.rest = divmod(self.rest, 1)
        return np.array([int(bit) << 63], dtype=np.uint64)


WAYS = {
    "coins": {"_COINS": 1 << 19},
    "coins in parts": {"_COINS": 777, "_COIN_RATE": 0.0},
    "a count and a subset": {"_COINS": 0, "_COIN_RATE": 2.0},
}


@pytest.mark.parametrize("probability", [1e-7, 0.1, 1 / 3, 0.5, 0.75, 1e-300, 5e-324, 1 - 2**-53])
def test_a_coin_is_exact_to_the_last_bit_of_its_float(probability):
    """U is below p or not, also where they differ in the 1100th bit: no rounding anywhere."""
    exact, step = Fraction(probability), Fraction(1, 2**1100)
    for number, heads in ((exact - step, 1), (exact, 0), (exact + step, 0), (Fraction(0), 1)):
        assert draw_binomial(1, probability, Bits(number)) == heads


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("rate", [1e-12, 1e-3, 0.3, 0.9, 1.0])
def test_poisson_lots_are_rising_numbers(monkeypatch, rate, way):
    for name, value in WAYS[way].items():
        monkeypatch.setattr(subsets, name, value)
    lots = PoissonBatchSampler(5000, rate, SeededNoise(1))
    for _ in range(5):
        found = lots.draw()
        assert found.dtype == torch.int64
        assert bool((found.diff() > 0).all())
        assert found.numel() == 0 or 0 <= int(found[0]) <= int(found[-1]) < 5000
    assert found.numel() == 5000 or rate < 1
    assert lots.lots_drawn == 5


def test_empty_lots_are_lots():
    lots = PoissonBatchSampler(10, 1e-9, SecureNoise())
    assert [lots.draw().numel() for _ in range(20)] == [0] * 20
    assert lots.lots_drawn == 20


@pytest.mark.parametrize("size", [0, 1, 49, 50, 51, 99, 100])
def test_subsets_have_their_size(size):
    found = draw_subset(100, size, SeededNoise(size))
    assert found.size == len(set(found.tolist())) == size
    assert size == 0 or 0 <= found.min() <= found.max() < 100


def test_fixed_lots_are_drawn_afresh():
    lots = FixedSizeBatchSampler(1000, 30, SecureNoise())
    found = [frozenset(lots.draw().tolist()) for _ in range(10)]
    assert all(len(lot) == 30 for lot in found)
    assert len(set(found)) == 10


def test_shuffled_epochs_see_everybody_once():
    lots = ShuffledBatchSampler(100, 30, SecureNoise())
    epochs = []
    for _ in range(2):
        epoch = [lots.draw().tolist() for _ in range(4)]
        assert [len(lot) for lot in epoch] == [30, 30, 30, 10]
        assert sorted(sum(epoch, [])) == list(range(100))  # noqa: RUF017
        epochs.append(epoch)
    assert epochs[0] != epochs[1]
    lots.resume(8)
    with pytest.raises(InvalidArgument, match="end of an epoch"):
        lots.resume(9)


def test_cyclic_lots_come_back_after_an_epoch():
    lots = CyclicBatchSampler(10, 4, SecureNoise())
    found = [lots.draw().tolist() for _ in range(8)]
    assert found[:4] == found[4:] == [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]
    lots.resume(2)
    assert lots.draw().tolist() == [2, 6]


def test_part_lots_stay_in_their_part():
    lots = CyclicPoissonBatchSampler(1000, 3, 0.5, SecureNoise())
    for turn in range(7):
        found = lots.draw()
        assert found.numel() > 50
        assert set((found % 3).tolist()) == {turn % 3}
    lots.resume(2)
    assert set((lots.draw() % 3).tolist()) == {2}


@pytest.mark.parametrize(
    "make",
    [
        lambda: PoissonBatchSampler(0, 0.1, SecureNoise()),
        lambda: PoissonBatchSampler(10, 0.0, SecureNoise()),
        lambda: PoissonBatchSampler(10, 1.5, SecureNoise()),
        lambda: PoissonBatchSampler(10, 0.1, np.random.default_rng(1)),
        lambda: FixedSizeBatchSampler(10, 11, SecureNoise()),
        lambda: ShuffledBatchSampler(10, 11, SecureNoise()),
        lambda: CyclicBatchSampler(10, 0, SecureNoise()),
        lambda: CyclicPoissonBatchSampler(10, 0, 0.5, SecureNoise()),
    ],
)
def test_refusals(make):
    with pytest.raises(InvalidArgument):
        make()


def test_tensors_are_gathered_into_the_same_memory():
    inputs, targets = torch.arange(20.0).view(10, 2), torch.arange(10)
    rows = TensorExamples((inputs, targets))
    first = rows.take(torch.tensor([9, 0, 9]))
    assert first[0].tolist() == [[18, 19], [0, 1], [18, 19]]
    assert first[1].tolist() == [9, 0, 9]
    place = first[0].data_ptr()
    second = rows.take(torch.tensor([3]))
    assert second[0].tolist() == [[6, 7]]
    assert second[0].data_ptr() == place
    assert [column.shape for column in rows.take(torch.tensor([], dtype=torch.int64))] == [(0, 2), (0,)]
    assert rows.take(torch.arange(10))[1].tolist() == list(range(10))


class Squares(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return torch.tensor([float(index)]), index * index


def test_any_dataset_gives_rows():
    rows = as_examples(Squares())
    assert isinstance(rows, DatasetExamples)
    assert len(rows) == 5
    inputs, targets = rows.take(torch.tensor([1, 4]))
    assert inputs.tolist() == [[1], [4]]
    assert targets.tolist() == [1, 16]
    assert [column.shape for column in rows.take(torch.tensor([], dtype=torch.int64))] == [(0, 1), (0,)]
    assert isinstance(as_examples(TensorDataset(torch.zeros(3))), TensorExamples)
    assert isinstance(as_examples([np.zeros((3, 2)), np.zeros(3)]), TensorExamples)
    assert as_examples(rows) is rows


@pytest.mark.parametrize("data", [None, 5, "abc", (torch.zeros(3), torch.zeros(4)), ()])
def test_what_is_not_data_is_refused(data):
    with pytest.raises(InvalidArgument):
        as_examples(data)


def test_micro_batches_are_the_lot():
    lot = torch.arange(10)
    assert [piece.tolist() for piece in split_micro_batches(lot, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(split_micro_batches(lot[:0], 4)) == []


def test_lots_that_wait_are_nobody_elses():
    lots = PoissonBatchSampler(1000, 0.02, SecureNoise())
    lots.draw()
    copied = copy.deepcopy(lots)
    assert copied.lots_drawn == 1
    assert [lots.draw().tolist() for _ in range(5)] != [copied.draw().tolist() for _ in range(5)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_after_a_fork_draws_its_own_lots():
    lots = PoissonBatchSampler(1000, 0.02, SecureNoise())
    lots.draw()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(lots.draw().tolist()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = pipe.read()
    os.waitpid(child, 0)
    assert theirs
    assert theirs != str(lots.draw().tolist())
