"""Kinds of canaries: examples that a fair coin adds or leaves out, so that one run can be audited.

::

    trained = privet.train(model, data, epsilon=3, delta=1e-5, epochs=20, canaries=1000)
    OneRun(confidence=0.95).test(trained.canaries.scores, trained.guarantee(), delta=1e-5)

Dirac gradients (``DiracGradient``) do not interfere with each other where lots are Poisson samples. So
``WeightedRanks`` and ``OrderStatistic`` may judge them, and give the largest bounds. ``OneRun`` and
``OneRunFDP`` hold for any canaries.

*Guarantee*: canaries do not change the guarantee of the run for anybody. A canary is one record with its own
slot. It is drawn, clipped and noised like the others. No canary is made from more than one record, and none
from sums, ranges or label counts of the data, which the ledger would not cover. Rates, steps and divisors
follow from the number of slots, which is public, and never from the coins.

*How many slots.* ``Mislabelled`` takes canaries from the data, so the number of slots stays n. Other kinds
add ``count`` slots. ``lot_size`` still refers to the n examples: the rate is lot_size / n as without
canaries. So Poisson lots have the same ledger, and the divisor of a step is the rate times the number of
slots. The warning about a large δ counts all slots. Other sampling schemes draw from all slots, and are
accounted like that.
"""

import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import finite, format_value, whole
from privet.errors import InvalidArgument
from privet.training.canaries.canary_datasets import CanaryDataset, DiracCanaries, RecordCanaries
from privet.training.loop.binary_outputs import has_one_output
from privet.training.loop.distributed import ProcessGroup
from privet.training.loop.model_calls import prepare_call
from privet.training.loop.probing import Probe
from privet.training.loop.step import split_targets
from privet.training.sampling.examples import Examples
from privet.training.sampling.reading import as_examples
from privet.views import Adversary

__all__ = [
    "Canaries",
    "CanaryKind",
    "DiracGradient",
    "Mislabelled",
    "OutOfDistribution",
    "resolve_canaries",
    "with_canaries",
]

_FEWEST = 32  # with fewer, all coins may fall alike, and no bound says anything

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
    def insert_into(
        self, examples: Examples, count: int, seed: int, model: nn.Module | None
    ) -> CanaryDataset:
        """Insert this number of canaries into the examples."""


@final
@dataclass(frozen=True)
class Mislabelled(CanaryKind):
    """Random records of the data, each with a wrong label in place of its own.

    No record is in the data twice: that would halve the protection of its person. ``classes`` is the number
    of labels; it may be left out where a model is given.
    """

    classes: int | None = None

    def insert_into(
        self, examples: Examples, count: int, seed: int, model: nn.Module | None
    ) -> CanaryDataset:
        if count > len(examples):
            raise InvalidArgument(
                f"'count' must not exceed the {len(examples)} examples, from which mislabelled canaries are "
                f"taken, got {count}. Ask for fewer, or for a kind that is added to the data."
            )
        classes = _count_classes(self.classes, examples, model)
        return _MislabelledCanaries(examples, count, seed, repr(self), classes=classes)


@final
@dataclass(frozen=True)
class OutOfDistribution(CanaryKind):
    """Uniform noise between ``low`` and ``high`` in every input, with a random label.

    The range is public and does not come from the data. Integer inputs, such as pixels or tokens, need
    integers.
    """

    low: float = -1.0
    high: float = 1.0
    classes: int | None = None

    def __post_init__(self) -> None:
        if finite("high", self.high) <= finite("low", self.low):
            raise InvalidArgument(
                f"'high' must be above 'low' = {self.low!r}, got {self.high!r}. Give the range of the inputs."
            )

    def insert_into(
        self, examples: Examples, count: int, seed: int, model: nn.Module | None
    ) -> CanaryDataset:
        columns = examples.take(torch.zeros(0, dtype=torch.int64))
        integers = any(not column.is_floating_point() for column in split_targets(columns)[0])
        if integers and not (isinstance(self.low, int) and isinstance(self.high, int)):
            raise InvalidArgument(
                f"'low' and 'high' must be integers if the inputs are, got {self.low!r} and {self.high!r}. "
                f"Give OutOfDistribution(low=0, high=255) for pixels, for example."
            )
        classes = _count_classes(self.classes, examples, model)
        return _OutOfDistributionCanaries(
            examples, count, seed, repr(self), low=self.low, high=self.high, classes=classes
        )


@final
@dataclass(frozen=True)
class DiracGradient(CanaryKind):
    """Gradients instead of records: each is long in one coordinate of its own, and zero elsewhere.

    They need a loop of Privet, and work with any model and any loss. They give the largest bounds. They cost
    least if the model has many more numbers than there are canaries: a canary moves its coordinate about as
    much as the noise does anyway.
    """

    def insert_into(
        self, examples: Examples, count: int, seed: int, model: nn.Module | None
    ) -> CanaryDataset:
        if model is None:
            raise InvalidArgument(
                "'canaries' must be records for a loop outside of Privet, got gradients. "
                "Give them to privet.train or make_private, or use Mislabelled or OutOfDistribution."
            )
        return DiracCanaries(examples, count, seed, repr(self), _WHITE_BOX, model)


@final
@dataclass(frozen=True)
class Canaries:
    """How many canaries of which kind. Each takes part with probability ½, independently.

    ``seed`` makes the experiment reproducible: coins, slots and contents. By default it comes from the
    operating system. It is no privacy noise. But anybody who knows it knows the coins, so keep it from the
    adversary who has to guess them.

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
                f"'kind' must be a kind of canary, got {format_value(self.kind)}. Give DiracGradient(), "
                "for example."
            )
        if self.seed is not None:
            whole("seed", self.seed, least=0)

    def insert_into(self, examples: Examples, model: nn.Module | None = None) -> CanaryDataset:
        """Insert these canaries into the examples."""
        seed = _draw_seed() if self.seed is None else self.seed
        return self.kind.insert_into(examples, self.count, seed, model)


def resolve_canaries(canaries: int | Canaries | None, group: ProcessGroup) -> Canaries | None:
    """Read the argument; a number means that many Dirac gradients. All processes use the leader's seed."""
    if canaries is None:
        return None
    chosen = canaries if isinstance(canaries, Canaries) else Canaries(canaries)
    return replace(chosen, seed=group.broadcast_object(_draw_seed() if chosen.seed is None else chosen.seed))


def with_canaries(data: object, canaries: Canaries) -> CanaryDataset:
    """Insert canaries into data, for a training loop outside of Privet.

    Train on ``.data``, which has the examples and the canaries whose coin shows heads. Then call
    ``.scores(model)``. ``.begin(model)`` before training makes the scores sharper: a score is then the change
    of a canary's confidence.

    >>> data = torch.randn(500, 3), torch.randint(0, 2, (500,))
    >>> dataset = with_canaries(data, Canaries(100, OutOfDistribution(classes=2), seed=1))
    >>> len(dataset.data[0]) == 500 + dataset.included
    True
    >>> len(dataset.scores(nn.Linear(3, 2)))
    100
    """
    return canaries.insert_into(as_examples(data))


@final
class _MislabelledCanaries(RecordCanaries):
    """Canaries in slots of the data. Only their label is replaced."""

    def __init__(self, examples: Examples, count: int, seed: int, kind: str, *, classes: int) -> None:
        self._classes = classes
        super().__init__(examples, count, seed, kind, _BLACK_BOX, added=0)

    def _draw_contents(self, slots: Tensor, generator: np.random.Generator) -> None:
        self._slots = slots
        labels = self._examples.take(slots)[-1]
        offsets = torch.from_numpy(generator.integers(1, self._classes, size=self.count))
        self._wrong_labels = ((labels + offsets) % self._classes).to(labels.dtype)

    def _gather(self, indices: Tensor, canaries: Tensor) -> tuple[Tensor, ...]:
        columns = self._examples.take(indices)
        is_canary = canaries >= 0
        labels = columns[-1].clone()
        labels[is_canary] = self._wrong_labels[canaries[is_canary]]
        return (*columns[:-1], labels)

    def _records(self, canaries: Tensor) -> tuple[Tensor, ...]:
        return self._gather(self._slots[canaries], canaries)


@final
class _OutOfDistributionCanaries(RecordCanaries):
    """Canaries of noise, in slots behind the data."""

    def __init__(
        self, examples: Examples, count: int, seed: int, kind: str, *, low: float, high: float, classes: int
    ) -> None:
        self._low, self._high, self._classes = low, high, classes
        super().__init__(examples, count, seed, kind, _BLACK_BOX, added=count)

    def _draw_contents(self, slots: Tensor, generator: np.random.Generator) -> None:
        del slots
        *inputs, labels = self._examples.take(torch.zeros(0, dtype=torch.int64))
        columns = [self._draw_noise(column, generator) for column in inputs]
        drawn = torch.from_numpy(generator.integers(0, self._classes, size=self.count))
        self._columns = (*columns, drawn.to(labels.dtype))

    def _draw_noise(self, like: Tensor, generator: np.random.Generator) -> Tensor:
        shape = (self.count, *like.shape[1:])
        if like.is_floating_point():
            return torch.from_numpy(generator.uniform(self._low, self._high, shape)).to(like.dtype)
        return torch.from_numpy(generator.integers(int(self._low), int(self._high) + 1, shape)).to(like.dtype)

    def _gather(self, indices: Tensor, canaries: Tensor) -> tuple[Tensor, ...]:
        examples = self._examples.take(indices[canaries < 0])
        records = self._records(canaries[canaries >= 0])
        return tuple(torch.cat((a, b)) for a, b in zip(examples, records, strict=True))

    def _records(self, canaries: Tensor) -> tuple[Tensor, ...]:
        return tuple(column[canaries] for column in self._columns)


def _draw_seed() -> int:
    return secrets.randbits(62)


def _count_classes(given: int | None, examples: Examples, model: nn.Module | None) -> int:
    """The number of labels: as given, or the number of the model's outputs; never read from the data."""
    empty = examples.take(torch.zeros(0, dtype=torch.int64))
    if len(empty) < 2 or empty[-1].is_floating_point() or empty[-1].dim() != 1:
        raise InvalidArgument(
            "'canaries' of this kind need an integer label for each example, and the data has none. "
            "Use DiracGradient(), which needs no label."
        )
    if given is None and model is not None:
        outputs = Probe(prepare_call(model, examples.input_names), empty).require_logits()
        given = 2 if has_one_output(outputs) else outputs.shape[1] if outputs.dim() == 2 else None
    if given is None:
        raise InvalidArgument(
            "'classes' must be the number of labels if no model is given, got None. Give "
            "Mislabelled(classes=10), for example."
        )
    return whole("classes", given, least=2)
