"""Which records each shadow model is trained on, drawn from the seed before anything is trained."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import format_value, open_fraction, whole
from privet.errors import InvalidArgument
from privet.scores import Bits

__all__ = ["MOST_MODELS", "Coins", "Halves", "HalvesBesideRest", "Split", "model_seed"]

MOST_MODELS, MOST_RECORDS = 10**6, 10**10  # beyond these a number was mistyped
_SPLIT = 0x5EED  # not zero: numpy pads seeds with zeros, so [seed, 0, 0] would be the stream of the bare seed


class Split(ABC):
    """A rule that draws the members of each model.

    Those of model k do not depend on how many models come after it.
    """

    @abstractmethod
    def members(self, models: int, records: int, seed: int) -> Bits:
        """One bit for each model and record."""


@final
@dataclass(frozen=True)
class Halves(Split):
    """Models come in pairs: a random half of the records, and the other half.

    With an even number of models every record is a member of exactly half of them, so that no record has few
    models on one side by chance. With an odd number of records, one model of each pair has one record more.

    Reference: Carlini et al. 2022, section VI-A, which balances over all models at once; pairs let a study
    grow later.

    >>> Halves().members(4, 10, seed=0).sum(axis=0).tolist()
    [2, 2, 2, 2, 2, 2, 2, 2, 2, 2]
    """

    def members(self, models: int, records: int, seed: int) -> Bits:
        _check(models, records, seed)
        bits = np.zeros((models, records), dtype=np.bool_)
        for first in range(0, models, 2):
            chosen = _generator(seed, first).permutation(records)[: records // 2]
            bits[first, chosen] = True
            if first + 1 < models:
                bits[first + 1] = ~bits[first]
        return bits


@final
@dataclass(frozen=True)
class HalvesBesideRest(Split):
    """Halves of the first ``judged`` records; the records after them are in every model.

    This is for a target with more members than non-members. Each model then has as many records as the
    target, and each judged record is in half of the models. Given the rest, the target got its judged records
    by the same rule: a random half.

    >>> bits = HalvesBesideRest(judged=4).members(2, 7, seed=0)
    >>> bits.sum(axis=1).tolist(), bits[:, 4:].all(), bits[:, :4].sum(axis=0).tolist()
    ([5, 5], np.True_, [1, 1, 1, 1])
    """

    judged: int

    def members(self, models: int, records: int, seed: int) -> Bits:
        _check(models, records, seed)
        if not 0 <= self.judged <= records:
            raise InvalidArgument(
                f"'judged' must be a part of the {records} records, got {format_value(self.judged)}. Give "
                "how many are judged."
            )
        rest = np.ones((models, records - self.judged), dtype=np.bool_)
        return np.concatenate([Halves().members(models, self.judged, seed), rest], axis=1)


@final
@dataclass(frozen=True)
class Coins(Split):
    """An independent coin for each model and record."""

    probability: float = 0.5

    def __post_init__(self) -> None:
        open_fraction("probability", self.probability)

    def members(self, models: int, records: int, seed: int) -> Bits:
        _check(models, records, seed)
        rows = [_generator(seed, k).random(records) < self.probability for k in range(models)]
        return np.array(rows, dtype=np.bool_).reshape(models, records)


def _check(models: int, records: int, seed: int) -> None:
    whole("models", models, most=MOST_MODELS)
    whole("records", records, most=MOST_RECORDS)
    whole("seed", seed, least=0)


def _generator(seed: int, model: int) -> np.random.Generator:
    """A stream that differs from ``default_rng(seed)``: a target that was split by the same seed shares no
    coin with its references.
    """
    return np.random.default_rng([seed, model, _SPLIT])


def model_seed(seed: int, model: int) -> int:
    """The seed of one model of a study, for its initial weights, order and dropout."""
    state = np.random.SeedSequence([seed, model, 1]).generate_state(1, np.uint64)
    return int(state[0]) >> 1
