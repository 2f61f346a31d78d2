"""Examples with canaries among them: each canary has a place, and a fair coin says whether anything stands there.

The number of places is public and does not depend on the coins, so neither rates, divisors nor steps do. A lot that draws the
place of a canary whose coin fell on tails finds nothing there. All other places are as they were.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.training.loop.binary_outputs import ends_in_sigmoid, has_one_output, log_probabilities
from privet.training.loop.distributed import Workers
from privet.training.loop.step import NoisyGradient, split
from privet.training.noise.correlated import Independent
from privet.training.noise.distributions import NoiseLaw, Normal
from privet.training.per_example import Layout
from privet.training.plan import Plan
from privet.training.sampling.rows import Rows, micro_batches
from privet.training.sampling.schemes import FixedSizeSampling, PoissonSampling
from privet.views import Adversary, Numbers, confidence_logits

__all__ = ["Cost", "Flock", "Planted", "RecordFlock", "SpikeFlock"]

_BATCH = 1024
_HEIGHT = 1024.0  # a spike before clipping, over the bound: every rule brings it to the bound, within 10⁻⁵


@final
@dataclass(frozen=True, kw_only=True)
class Cost:
    """What canaries take from the model, as far as it is known before training.

    ``records_lost`` are examples that train no more as they are. ``share`` is the expected share of canaries among the
    examples that a step looks at. ``drift`` is, for gradients that are canaries, the expected squared length of all that
    they add, over that of the noise which is added anyway; None where it depends on the model.
    """

    records_lost: int
    share: float
    drift: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Planted:
    """The canaries of a run, after it: who they were to be told by, how many took part, and their scores.

    ``normal_noise`` says whether bounds by Gaussian curves may judge them. They may where noise is normal: without sampling the curve is
    Gaussian, and sampling makes its tails heavier, so that such a bound says too little. They may not under Student's t noise, whose
    privacy loss is bounded. At z = 1 and ν = 3 no ε is above 1.234, and 10,000 canaries are given ε ≥ 1.6 by ``OneRunFDP`` and 4.0 by
    ``OrderStatistic``; ``OneRun``, which assumes no curve, gives 0.9 and holds.

    *Leaks*: scores are for who audits. They are not covered by the ledger, nor is what is computed from them. Those of spikes,
    beside all updates, tell the sums of the other gradients in the canaries' coordinates; mislabelled records are people's.
    """

    kind: str
    adversary: Adversary
    count: int
    included: int
    cost: Cost
    normal_noise: bool
    scores: Scores = field(repr=False)


class Flock(Rows):
    """Rows with canaries among them.

    ``coin`` says of each canary whether it takes part, independently and with probability ½. Coins, places and contents are
    three streams of one seed, so that coins are independent of all else and a run that resumes has the same.
    """

    def __init__(
        self, rows: Rows, count: int, seed: int, kind: str, adversary: Adversary, *, added: int
    ) -> None:
        self._rows, self.count, self.kind, self.adversary, self.added = rows, count, kind, adversary, added
        self._plant(seed)

    def __len__(self) -> int:
        return len(self._rows) + self.added

    @property
    def included(self) -> int:
        """How many canaries take part."""
        return int(self.coin.sum())

    @property
    def data(self) -> tuple[Tensor, ...]:
        """All examples that take part, as columns: for a loop that is not Privet's own."""
        return tuple(column.clone() for column in self.take(torch.arange(len(self))))

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        """Those of these places where something stands."""
        numbers = self._numbers[indices]
        kept = (numbers < 0) | self._present[numbers.clamp(min=0)]
        return self._taken(indices[kept], numbers[kept])

    def begin(self, model: nn.Module, plan: Plan | None = None) -> None:
        """Note what is needed of the model before it is trained, and of the plan."""

    def join(self, indices: Tensor, gradient: NoisyGradient, workers: Workers) -> None:
        """Add what canaries of this lot give, if they are gradients and not records."""

    def observe(self, gradient: NoisyGradient) -> None:
        """See the noisy gradient of a step, as this adversary does."""

    @abstractmethod
    def scores(self, model: nn.Module) -> Scores:
        """One score for each canary beside its coin; higher = more likely to have taken part."""

    def planted(self, model: nn.Module, plan: Plan) -> Planted:
        """What is known of the canaries of a run."""
        return Planted(
            kind=self.kind,
            adversary=self.adversary,
            count=self.count,
            included=self.included,
            cost=self.cost(plan),
            normal_noise=isinstance(plan.law, Normal),
            scores=self.scores(model),
        )

    def cost(self, plan: Plan) -> Cost:
        """What these canaries take."""
        del plan
        return Cost(records_lost=self.count - self.added, share=self._share)

    def state(self) -> dict[str, Any]:
        """What a run that resumes needs; as secret as the data."""
        return {"kind": self.kind, "count": self.count, "seed": self._seed, "notes": self._notes()}

    def resume(self, state: dict[str, Any] | None) -> None:
        """Go on with the coins, and the notes, of the run that was kept."""
        if state is None or state["kind"] != self.kind or state["count"] != self.count:
            raise InvalidArgument(
                f"'canaries' must be those that the kept run began with, got {self.count} of {self.kind}. "
                f"Resume with the same canaries, or use another folder."
            )
        self._plant(int(state["seed"]))
        self._remember(state["notes"])

    @property
    def _share(self) -> float:
        half = self.count / 2
        return half / (len(self._rows) - self.count + self.added + half)

    def _plant(self, seed: int) -> None:
        self._seed = seed
        coins, places, contents = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
        self.coin: Bits = coins.integers(0, 2, size=self.count).astype(np.bool_)
        self._present = torch.from_numpy(self.coin)
        chosen = self._places(places)
        self._numbers = torch.full((len(self),), -1, dtype=torch.int64)
        self._numbers[chosen] = torch.arange(self.count)
        self._fill(chosen, contents)

    def _places(self, generator: np.random.Generator) -> Tensor:
        if self.added:
            return torch.arange(len(self._rows), len(self))
        return torch.from_numpy(np.sort(generator.permutation(len(self._rows))[: self.count]))

    @abstractmethod
    def _fill(self, places: Tensor, generator: np.random.Generator) -> None: ...

    @abstractmethod
    def _taken(self, indices: Tensor, numbers: Tensor) -> tuple[Tensor, ...]: ...

    @abstractmethod
    def _notes(self) -> Tensor | None: ...

    @abstractmethod
    def _remember(self, notes: Tensor | None) -> None: ...


class RecordFlock(Flock):
    """Canaries that are records with a label: told by how much more the model believes in the label than before training.

    Reference: Steinke, Nasr & Jagielski 2023, section 6 (black-box): the loss before training less that after. Here it is
    φ = ln(p/(1−p)) instead of the loss, which keeps its digits where p is near 1; a monotone change of one number.
    """

    def __init__(
        self, rows: Rows, count: int, seed: int, kind: str, adversary: Adversary, *, added: int
    ) -> None:
        super().__init__(rows, count, seed, kind, adversary, added=added)
        self._before: Numbers | None = None

    @abstractmethod
    def _records(self, numbers: Tensor) -> tuple[Tensor, ...]:
        """These canaries, as columns."""

    def begin(self, model: nn.Module, plan: Plan | None = None) -> None:
        self._before = self._signals(model)

    def scores(self, model: nn.Module) -> Scores:
        after = self._signals(model)
        values = after if self._before is None else after - self._before
        return Scores(values, self.coin, self.kind)

    def _signals(self, model: nn.Module) -> Numbers:
        """φ of every canary, in evaluation mode; every module's own mode is put back."""
        training = [module for module in model.modules() if module.training]
        model.eval()
        found: list[Numbers] = []
        try:
            with torch.no_grad():
                for piece in micro_batches(torch.arange(self.count), _BATCH):
                    inputs, labels = split(self._records(piece))
                    logs = _log_probabilities(model, inputs).cpu().numpy()
                    found.append(confidence_logits(logs, labels.cpu().numpy()))
        finally:
            for module in training:
                module.training = True
        return np.concatenate(found)

    def _notes(self) -> Tensor | None:
        return None if self._before is None else torch.from_numpy(self._before)

    def _remember(self, notes: Tensor | None) -> None:
        self._before = None if notes is None else notes.numpy()


def _log_probabilities(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    """Of every class, for every example: of the one output of a binary model, or of one output for each class."""
    outputs = model(*inputs)
    if has_one_output(outputs):
        first = tuple(column[:1] for column in inputs)
        return log_probabilities(outputs, probabilities=ends_in_sigmoid(model, first))
    return torch.log_softmax(outputs.double(), 1)


@final
class SpikeFlock(Flock):
    """Canaries that are gradients: each is a spike in a coordinate of its own, clipped, drawn and noised as records are.

    The adversary sees every noisy sum and knows the other gradients: of each sum they take off what the others gave, and x is
    left in the canary's coordinate. That they know the others is what the proof allows them: it holds whatever the others
    are, and whichever of them a lot has drawn.

    The score is Σ x over the steps, the inner product with the canary's direction. Where lots are drawn afresh at a rate q
    below 1, or the noise is not normal, it is the logarithm of the likelihood ratio, Σ ln(1 − q + q·f(x − a)/f(x)) for a spike of
    length a, by the noise f that the plan claims. No score tells more if the claim is true (Neyman & Pearson); any score is a valid one if it is not.

    Reference: Nasr et al. 2023 (Dirac gradients); Steinke, Nasr & Jagielski 2023, section 6 (white-box), who add up the inner
    products, at any rate, without taking off the others.
    """

    def __init__(
        self, rows: Rows, count: int, seed: int, kind: str, adversary: Adversary, model: nn.Module
    ) -> None:
        self._size = Layout.of(model).size
        if count > self._size:
            raise InvalidArgument(
                f"'count' must not exceed the model's {self._size} trainable numbers, because each canary has one of its "
                f"own, got {count}. Ask for fewer canaries, or for another kind."
            )
        super().__init__(rows, count, seed, kind, adversary, added=count)
        self._known: Tensor | None = None
        self._rate = 1.0
        self._law: NoiseLaw = Normal()

    def begin(self, model: nn.Module, plan: Plan | None = None) -> None:
        if plan is not None and isinstance(plan.correlation, Independent):
            afresh = isinstance(plan.sampling, PoissonSampling | FixedSizeSampling)
            self._rate, self._law = plan.expected_lot / plan.population if afresh else 1.0, plan.law

    def join(self, indices: Tensor, gradient: NoisyGradient, workers: Workers) -> None:
        self._known = gradient.buffer[self._coordinates].double()
        workers.total_(self._known)
        workers.spread_(self._known)
        drawn = self._numbers[indices]
        drawn = drawn[drawn >= 0]
        drawn = drawn[self._present[drawn]]
        height = _HEIGHT * max(1.0, gradient.clip.bound)
        self._lengths = gradient.clipped_spikes(self._coordinates, height)
        self._deviation = (
            gradient.deviation * gradient.divisor / self._law.spread
        )  # of normal noise that protects as well
        gradient.add_spikes(self._coordinates[drawn], height)

    def observe(self, gradient: NoisyGradient) -> None:
        if self._known is None:
            return
        left = gradient.buffer[self._coordinates].double() * gradient.divisor - self._known
        self._known = None
        if self._rate < 1 or not isinstance(self._law, Normal):
            left = self._law.log_ratio(left.cpu(), self._lengths, self._deviation)
        if self._rate < 1:
            left = torch.logaddexp(left + math.log(self._rate), torch.tensor(math.log1p(-self._rate)))
        self._seen += left.cpu()

    def scores(self, model: nn.Module) -> Scores:
        del model
        return Scores(self._seen.cpu().numpy(), self.coin, self.kind)

    def cost(self, plan: Plan) -> Cost:
        rate = plan.expected_lot / plan.population
        draws = plan.steps * rate
        squared = draws * draws + draws * (1 - rate)
        noise = self._size * plan.steps * plan.gradient_multiplier**2
        return Cost(records_lost=0, share=self._share, drift=self.count / 2 * squared / noise)

    def _fill(self, places: Tensor, generator: np.random.Generator) -> None:
        del places
        self._coordinates = torch.from_numpy(generator.permutation(self._size)[: self.count])
        self._seen = torch.zeros(self.count, dtype=torch.float64)

    def _taken(self, indices: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        return self._rows.take(indices[numbers < 0])

    def _notes(self) -> Tensor:
        return self._seen

    def _remember(self, notes: Tensor | None) -> None:
        if notes is not None:
            self._seen = notes.clone()
