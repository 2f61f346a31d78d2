"""Canaries: examples that a fair coin puts in or leaves out, so that a run can be audited by itself.

::

    trained = privet.train(model, data, epsilon=3, delta=1e-5, epochs=20, canaries=1000)
    OneRun(confidence=0.95).test(trained.canaries.scores, trained.guarantee(), delta=1e-5)

Spikes (``DiracGradient``) do not interfere with each other, so ``OrderStatistic`` may be used for them, and tells the most;
``OneRun`` and ``OneRunFDP`` hold for any canaries.

*Guarantee*: that of the run, for everybody, is not changed. A canary is one record with a place of its own; it is drawn,
clipped and drowned in noise like the others. No canary is made from more than one record, and none from sums, ranges or
label counts of the data, which the ledger would not cover. Rates, steps and divisors follow from the number of places,
which is public, never from the coins.

*How many places.* ``Mislabelled`` takes canaries out of the data, so the number of places stays n. Other kinds add ``count``
places. A ``lot_size`` is still meant among the n examples: the rate is lot_size / n as without canaries, so Poisson lots have
the same ledger, and the divisor of a step is the rate times all places. A δ that is too large is warned of by all places. Other
ways of sampling draw among all places, and are accounted so.
"""

import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import finite, shown, whole
from privet.errors import InvalidArgument
from privet.training.canaries.canary_datasets import Flock, RecordFlock, SpikeFlock
from privet.training.loop.binary_outputs import has_one_output
from privet.training.loop.distributed import Workers
from privet.training.loop.inputs import tried
from privet.training.loop.step import split
from privet.training.sampling.rows import Rows, rows_of
from privet.views import Adversary

__all__ = [
    "Canaries",
    "CanaryKind",
    "DiracGradient",
    "Mislabelled",
    "OutOfDistribution",
    "canaries_of",
    "with_canaries",
]

_FEWEST = 32  # below, both sides could be missing by chance, and no bound says anything

_BLACK_BOX = Adversary(
    sees="the confidences of the model, before and after training",
    knows="every canary, and not its coin",
    wants="which canaries were trained on",
)
_WHITE_BOX = Adversary(
    sees="the noisy sum of every step",
    knows="every canary and not its coin, and the clipped gradients of all other examples",
    wants="which canaries were trained on",
)


class CanaryKind(ABC):
    """What a canary is."""

    @abstractmethod
    def among(self, rows: Rows, count: int, seed: int, model: nn.Module | None) -> Flock:
        """The rows with that many canaries among them."""


@final
@dataclass(frozen=True)
class Mislabelled(CanaryKind):
    """Records of the data, chosen at random and taken out, each with a label that is not its own.

    No record is in the data twice, which would protect its person half as well. ``classes`` is how many labels there are; a
    model that is given says it.
    """

    classes: int | None = None

    def among(self, rows: Rows, count: int, seed: int, model: nn.Module | None) -> Flock:
        if count > len(rows):
            raise InvalidArgument(
                f"'count' must not exceed the {len(rows)} examples, from which mislabelled canaries are taken, got {count}. "
                f"Ask for fewer, or for a kind that is added to the data."
            )
        return _Mislabelled(rows, count, seed, repr(self), classes=_classes(self.classes, rows, model))


@final
@dataclass(frozen=True)
class OutOfDistribution(CanaryKind):
    """Uniform noise between ``low`` and ``high`` in every input, with a random label.

    The range is public, and is not read off the data. Whole-number inputs, such as pixels or tokens, need whole numbers.
    """

    low: float = -1.0
    high: float = 1.0
    classes: int | None = None

    def __post_init__(self) -> None:
        if finite("high", self.high) <= finite("low", self.low):
            raise InvalidArgument(
                f"'high' must be above 'low' = {self.low!r}, got {self.high!r}. Give the range of the inputs."
            )

    def among(self, rows: Rows, count: int, seed: int, model: nn.Module | None) -> Flock:
        columns = rows.take(torch.zeros(0, dtype=torch.int64))
        whole_numbers = any(not column.is_floating_point() for column in split(columns)[0])
        if whole_numbers and not (isinstance(self.low, int) and isinstance(self.high, int)):
            raise InvalidArgument(
                f"'low' and 'high' must be whole numbers where inputs are, got {self.low!r} and {self.high!r}. "
                f"Give OutOfDistribution(low=0, high=255) for pixels, for instance."
            )
        classes = _classes(self.classes, rows, model)
        return _OutOfDistribution(
            rows, count, seed, repr(self), low=self.low, high=self.high, classes=classes
        )


@final
@dataclass(frozen=True)
class DiracGradient(CanaryKind):
    """Gradients instead of records: each is long in one coordinate of its own, and zero elsewhere.

    They need a loop of Privet's, any model and any loss. They tell the most, and cost the least where the model has many more
    numbers than there are canaries: a canary's pull is as long as the noise that its coordinate has anyway.
    """

    def among(self, rows: Rows, count: int, seed: int, model: nn.Module | None) -> Flock:
        if model is None:
            raise InvalidArgument(
                "'canaries' must be records where the loop is not Privet's own, got gradients. "
                "Give them to privet.train or make_private, or take Mislabelled or OutOfDistribution."
            )
        return SpikeFlock(rows, count, seed, repr(self), _WHITE_BOX, model)


@final
@dataclass(frozen=True)
class Canaries:
    """How many canaries of which kind. Each takes part with probability ½, independently.

    ``seed`` makes the experiment repeatable: coins, places and contents. Left out, it comes from the operating system. It is
    not privacy noise; but who knows it knows the coins, so keep it from the adversary who has to guess them.

    >>> Canaries(1000, Mislabelled()).count
    1000
    """

    count: int
    kind: CanaryKind = field(default_factory=DiracGradient)
    seed: int | None = None

    def __post_init__(self) -> None:
        whole("count", self.count, least=_FEWEST)
        if not isinstance(self.kind, CanaryKind):
            raise InvalidArgument(
                f"'kind' must be a kind of canary, got {shown(self.kind)}. Give DiracGradient(), for instance."
            )
        if self.seed is not None:
            whole("seed", self.seed, least=0)

    def among(self, rows: Rows, model: nn.Module | None = None) -> Flock:
        """The rows with these canaries among them."""
        seed = _fresh() if self.seed is None else self.seed
        return self.kind.among(rows, self.count, seed, model)


def canaries_of(wanted: int | Canaries | None, workers: Workers) -> Canaries | None:
    """A number means that many gradients. All processes of a run have the same coins: those of the leader's seed."""
    if wanted is None:
        return None
    found = wanted if isinstance(wanted, Canaries) else Canaries(wanted)
    return replace(found, seed=workers.leaders(_fresh() if found.seed is None else found.seed))


def with_canaries(data: object, canaries: Canaries) -> Flock:
    """Data with canaries among it, for any loop.

    Train on ``.data``, which holds the examples and the canaries whose coin fell on heads, and ask ``.scores(model)`` when done.
    ``.begin(model)`` before training makes the scores sharper: they are then the change of each canary's confidence.

    >>> data = torch.randn(500, 3), torch.randint(0, 2, (500,))
    >>> flock = with_canaries(data, Canaries(100, OutOfDistribution(classes=2), seed=1))
    >>> len(flock.data[0]) == 500 + flock.included
    True
    >>> len(flock.scores(nn.Linear(3, 2)))
    100
    """
    return canaries.among(rows_of(data))


@final
class _Mislabelled(RecordFlock):
    """Canaries at places of the data; only their label is replaced."""

    def __init__(self, rows: Rows, count: int, seed: int, kind: str, *, classes: int) -> None:
        self._classes = classes
        super().__init__(rows, count, seed, kind, _BLACK_BOX, added=0)

    def _fill(self, places: Tensor, generator: np.random.Generator) -> None:
        self._at = places
        labels = self._rows.take(places)[-1]
        turns = torch.from_numpy(generator.integers(1, self._classes, size=self.count))
        self._wrong = ((labels + turns) % self._classes).to(labels.dtype)

    def _taken(self, indices: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        columns = self._rows.take(indices)
        marked = numbers >= 0
        labels = columns[-1].clone()
        labels[marked] = self._wrong[numbers[marked]]
        return (*columns[:-1], labels)

    def _records(self, numbers: Tensor) -> tuple[Tensor, ...]:
        return self._taken(self._at[numbers], numbers)


@final
class _OutOfDistribution(RecordFlock):
    """Canaries of noise, behind the data."""

    def __init__(
        self, rows: Rows, count: int, seed: int, kind: str, *, low: float, high: float, classes: int
    ) -> None:
        self._low, self._high, self._classes = low, high, classes
        super().__init__(rows, count, seed, kind, _BLACK_BOX, added=count)

    def _fill(self, places: Tensor, generator: np.random.Generator) -> None:
        del places
        *inputs, labels = self._rows.take(torch.zeros(0, dtype=torch.int64))
        made = [self._noise(column, generator) for column in inputs]
        drawn = torch.from_numpy(generator.integers(0, self._classes, size=self.count))
        self._columns = (*made, drawn.to(labels.dtype))

    def _noise(self, like: Tensor, generator: np.random.Generator) -> Tensor:
        shape = (self.count, *like.shape[1:])
        if like.is_floating_point():
            return torch.from_numpy(generator.uniform(self._low, self._high, shape)).to(like.dtype)
        return torch.from_numpy(generator.integers(int(self._low), int(self._high) + 1, shape)).to(like.dtype)

    def _taken(self, indices: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        own = self._rows.take(indices[numbers < 0])
        return tuple(
            torch.cat((a, b)) for a, b in zip(own, self._records(numbers[numbers >= 0]), strict=True)
        )

    def _records(self, numbers: Tensor) -> tuple[Tensor, ...]:
        return tuple(column[numbers] for column in self._columns)


def _fresh() -> int:
    return secrets.randbits(62)


def _classes(given: int | None, rows: Rows, model: nn.Module | None) -> int:
    """How many labels there are: what was said, or as many as the model has outputs; never what the data shows."""
    empty = rows.take(torch.zeros(0, dtype=torch.int64))
    if len(empty) < 2 or empty[-1].is_floating_point() or empty[-1].dim() != 1:
        raise InvalidArgument(
            "'canaries' of this kind must have a whole-number label for each example, and the data has none. "
            "Take DiracGradient(), which needs no label."
        )
    if given is None and model is not None:
        outputs = tried(model, empty)
        given = 2 if has_one_output(outputs) else outputs.shape[1] if outputs.dim() == 2 else None
    if given is None:
        raise InvalidArgument(
            "'classes' must say how many labels there are where no model does, got None. Give Mislabelled(classes=10), "
            "for instance."
        )
    return whole("classes", given, least=2)
