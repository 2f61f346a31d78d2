"""Data with canaries: each canary has a slot, and a fair coin decides whether the slot is filled.

The number of slots is public and does not depend on the coins. So rates, divisors and steps do not depend on
them either. A lot that draws the slot of a canary whose coin shows tails finds nothing there. No other slot
changes.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.training.double_precision import to_float64
from privet.training.loop.binary_outputs import ends_in_sigmoid, has_one_output, log_probabilities
from privet.training.loop.distributed import ProcessGroup
from privet.training.loop.losses import find_logits
from privet.training.loop.model_calls import prepare_call
from privet.training.loop.step import NoisyGradient, split_targets
from privet.training.noise.correlated import IndependentNoise
from privet.training.noise.distributions import NoiseDistribution, Normal
from privet.training.per_example import Layout
from privet.training.plan import TrainingPlan
from privet.training.sampling.examples import Examples, TensorExamples, split_micro_batches
from privet.training.sampling.schemes import CyclicSampling, FixedSizeSampling, PoissonSampling
from privet.views import Adversary, Numbers, confidence_logits

__all__ = ["CanaryCost", "CanaryDataset", "CanaryResults", "DiracCanaries", "RecordCanaries"]

_BATCH = 1024
# The norm of a Dirac gradient over the clip bound: every rule clips it to the bound, up to 10⁻⁵.
_HEIGHT = 1024.0


@final
@dataclass(frozen=True, kw_only=True)
class CanaryCost:
    """What canaries cost the model, as far as this is known before training.

    ``records_lost`` is the number of examples that no longer train as they are. ``share`` is the expected
    share of canaries among the examples of a step. ``drift`` is, for canaries that are gradients, the
    expected squared length of their sum over that of the noise which is added anyway. It is None where it
    depends on the model.
    """

    records_lost: int
    share: float
    drift: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class CanaryResults:
    """The canaries of a run after it: the adversary, how many took part, and their scores.

    ``normal_noise`` says whether a bound that assumes Gaussian curves may judge the canaries. It may if the
    noise is normal: without sampling the curve is Gaussian, and sampling makes its tails heavier, so such a
    bound reports too little. It may not under Student's t noise, whose privacy loss is bounded. At z = 1 and
    ν = 3 no ε exceeds 1.234. For 10,000 canaries ``OneRunFDP`` reports ε ≥ 1.6 and ``OrderStatistic`` 4.0,
    which are false. ``OneRun`` assumes no curve, and reports 0.9.

    ``independent`` says whether each score is independent of all others, so that a bound may use it which
    asks for canaries that do not interfere. ``DiracCanaries`` says when that is so. Records interfere through
    the weights, and are never called independent.

    *Leaks*: the scores are for the auditor. The ledger does not cover them, nor what is computed from them.
    The scores of Dirac canaries, together with all updates, reveal the sums of the other gradients in the
    canaries' coordinates. Mislabelled records are records of people.
    """

    kind: str
    adversary: Adversary
    count: int
    included: int
    cost: CanaryCost
    normal_noise: bool
    independent: bool
    scores: Scores = field(repr=False)


class CanaryDataset(Examples):
    """Examples with canaries among them.

    ``coin`` says for each canary whether it takes part, independently and with probability ½. Coins, slots
    and contents are three streams of one seed. So the coins are independent of everything else, and a run
    that resumes has the same coins.
    """

    def __init__(
        self, examples: Examples, count: int, seed: int, kind: str, adversary: Adversary, *, added: int
    ) -> None:
        self._examples, self.count, self.kind = examples, whole("count", count, most=1 << 40), kind
        self.adversary, self.added = adversary, added
        self._draw_canaries(whole("seed", seed, least=0))

    def __len__(self) -> int:
        return len(self._examples) + self.added

    @property
    def input_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """The keywords of the model for the inputs."""
        return self._examples.input_names

    def split(self, indices: Tensor) -> Iterator[Tensor]:
        """Split the slots that are filled."""
        is_whole = not (indices.is_floating_point() or indices.is_complex() or indices.dtype is torch.bool)
        if not is_whole or (
            indices.numel() and not 0 <= int(indices.min()) <= int(indices.max()) < len(self)
        ):
            raise InvalidArgument(
                f"'indices' must be whole numbers from 0 to {len(self) - 1}, got others. Give those of a lot."
            )
        canaries = self._canary_of_slot[indices]
        filled = indices[(canaries < 0) | self._present[canaries.clamp(min=0)]]
        if isinstance(self._examples, TensorExamples):
            if filled.numel():
                yield filled
            return
        is_own = filled < len(self._examples)
        yield from self._examples.split(filled[is_own])
        if not bool(is_own.all()):
            yield filled[~is_own]

    @property
    def included(self) -> int:
        """How many canaries take part."""
        return int(self.coin.sum())

    @property
    def data(self) -> tuple[Tensor, ...]:
        """All examples that take part, as columns: for a training loop outside of Privet."""
        return tuple(column.clone() for column in self.take(torch.arange(len(self))))

    def take(self, indices: Tensor) -> tuple[Tensor, ...]:
        """Gather the examples in those of these slots that are filled."""
        canaries = self._canary_of_slot[indices]
        mask = (canaries < 0) | self._present[canaries.clamp(min=0)]
        return self._gather(indices[mask], canaries[mask])

    def begin(self, model: nn.Module, plan: TrainingPlan | None = None) -> None:
        """Record what the scores need of the plan, and of the model before training."""

    def add_gradients(self, indices: Tensor, gradient: NoisyGradient, group: ProcessGroup) -> None:
        """Add the canaries of this lot to the sum, if they are gradients and not records."""

    def observe(self, gradient: NoisyGradient) -> None:
        """Look at the noisy gradient of a step, as the adversary does."""

    @abstractmethod
    def scores(self, model: nn.Module) -> Scores:
        """One score for each canary, beside its coin. A higher score means that it more likely took part."""

    def results(self, model: nn.Module, plan: TrainingPlan) -> CanaryResults:
        """The results of the canaries of a run."""
        return CanaryResults(
            kind=self.kind,
            adversary=self.adversary,
            count=self.count,
            included=self.included,
            cost=self.cost(plan),
            normal_noise=isinstance(plan.noise_distribution, Normal),
            independent=self.is_independent(plan),
            scores=self.scores(model),
        )

    def is_independent(self, plan: TrainingPlan) -> bool:
        """Whether the score of each canary is independent of the coins and scores of all others."""
        del plan
        return False

    def cost(self, plan: TrainingPlan) -> CanaryCost:
        """What these canaries cost the model."""
        del plan
        return CanaryCost(records_lost=self.count - self.added, share=self._share)

    def state(self) -> dict[str, Any]:
        """What a run that resumes needs. It is as secret as the data."""
        return {"kind": self.kind, "count": self.count, "seed": self._seed, "notes": self._score_state()}

    def resume(self, state: dict[str, Any] | None) -> None:
        """Continue with the coins and the scores of the saved run."""
        if state is None or state.get("kind") != self.kind or state.get("count") != self.count:
            raise InvalidArgument(
                f"'canaries' must be those of the saved run, got {self.count} of {self.kind}. "
                f"Resume with the same canaries, or use another folder."
            )
        self._draw_canaries(int(state["seed"]))
        self._resume_scores(state["notes"])

    @property
    def _share(self) -> float:
        half = self.count / 2
        return half / (len(self._examples) - self.count + self.added + half)

    def _draw_canaries(self, seed: int) -> None:
        self._seed = seed
        coins, slots, contents = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(3))
        self.coin: Bits = coins.integers(0, 2, size=self.count).astype(np.bool_)
        self._present = torch.from_numpy(self.coin)
        chosen = self._draw_slots(slots)
        self._canary_of_slot = torch.full((len(self),), -1, dtype=torch.int64)  # −1: no canary
        self._canary_of_slot[chosen] = torch.arange(self.count)
        self._draw_contents(chosen, contents)

    def _draw_slots(self, generator: np.random.Generator) -> Tensor:
        if self.added:
            return torch.arange(len(self._examples), len(self))
        return torch.from_numpy(np.sort(generator.permutation(len(self._examples))[: self.count]))

    @abstractmethod
    def _draw_contents(self, slots: Tensor, generator: np.random.Generator) -> None: ...

    @abstractmethod
    def _gather(self, indices: Tensor, canaries: Tensor) -> tuple[Tensor, ...]:
        """Gather these filled slots; ``canaries`` has the number of the canary in each, or −1."""

    @abstractmethod
    def _score_state(self) -> Tensor | None: ...

    @abstractmethod
    def _resume_scores(self, state: Tensor | None) -> None: ...


class RecordCanaries(CanaryDataset):
    """Canaries that are labelled records, scored by how much training raises the confidence in the label.

    Reference: Steinke, Nasr & Jagielski 2023, section 6 (black-box): the loss before training minus the loss
    after. Here φ = ln(p/(1−p)) replaces the loss. It keeps its digits where p is near 1, and is a monotone
    function of it.
    """

    def __init__(
        self, examples: Examples, count: int, seed: int, kind: str, adversary: Adversary, *, added: int
    ) -> None:
        super().__init__(examples, count, seed, kind, adversary, added=added)
        self._before: Numbers | None = None

    @abstractmethod
    def _records(self, canaries: Tensor) -> tuple[Tensor, ...]:
        """These canaries, as columns."""

    def begin(self, model: nn.Module, plan: TrainingPlan | None = None) -> None:
        self._before = self._signals(model)

    def scores(self, model: nn.Module) -> Scores:
        after = self._signals(model)
        values = after if self._before is None else after - self._before
        return Scores(values, self.coin, self.kind)

    def _signals(self, model: nn.Module) -> Numbers:
        """φ of every canary, in evaluation mode. Afterwards each module is back in its own mode."""
        training = [module for module in model.modules() if module.training]
        model.eval()
        signals: list[Numbers] = []
        try:
            with torch.no_grad():
                for canaries in split_micro_batches(torch.arange(self.count), _BATCH):
                    inputs, labels = split_targets(self._records(canaries))
                    called = prepare_call(model, self.input_names)
                    logs = _log_probabilities(called, inputs).cpu().numpy()
                    signals.append(confidence_logits(logs, labels.cpu().numpy()))
        finally:
            for module in training:
                module.training = True
        return np.concatenate(signals)

    def _score_state(self) -> Tensor | None:
        return None if self._before is None else torch.from_numpy(self._before)

    def _resume_scores(self, state: Tensor | None) -> None:
        self._before = None if state is None else state.numpy()


def _log_probabilities(model: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    """Log-probabilities of all classes, from one output (binary) or one output per class."""
    outputs = find_logits(model(*inputs))
    if has_one_output(outputs):
        first = tuple(column[:1] for column in inputs)
        return log_probabilities(outputs, probabilities=ends_in_sigmoid(model, first))
    return torch.log_softmax(to_float64(outputs), 1)


@final
class DiracCanaries(CanaryDataset):
    """Canaries that are gradients, each long in one coordinate of its own.

    They are drawn, clipped and noised like records. The adversary sees every noisy sum and knows the
    gradients of all other examples. From each sum they subtract the others, and x is left in the canary's
    coordinate. The proof allows the adversary to know the others: it holds for any other examples, and for
    any of them that a lot draws.

    The score is Σ x over the steps, the inner product with the canary's direction. If lots are drawn afresh
    at a rate q < 1, or the noise is not normal, the score is the log-likelihood ratio Σ ln(1 − q + q·f(x −
    a)/f(x)) for a Dirac gradient of length a and the noise density f that the plan claims. If the claim is
    true, no score is more powerful (Neyman & Pearson). If it is false, the score is still valid.

    *Scores are independent of each other* if the noise is normal and lots are Poisson samples with noise that
    is independent between steps, or if a canary is in the same steps whatever the chance (full batches,
    cyclic lots). Proof: in its own coordinate a canary finds, in units of its clipped length, s·b + noise: b
    is its coin, s says whether the lot of the step drew its slot. All others were subtracted, and those who
    share the coordinate are not canaries. Coins, draws of slots in Poisson samples, and coordinates of normal
    noise are independent, and the score reads nothing else. The weights do depend on everything, and decide
    only what is subtracted. Lots of fixed size are not such: a slot that is drawn leaves less room for
    others. Sampled lots with noise that is correlated between steps are left out, because the shape of their
    trade-off curve is not known.

    Reference: Nasr et al. 2023 (Dirac gradients); Steinke, Nasr & Jagielski 2023, section 6 (white-box), who
    sum the inner products at any rate, and do not subtract the others.
    """

    def __init__(
        self, examples: Examples, count: int, seed: int, kind: str, adversary: Adversary, model: nn.Module
    ) -> None:
        self._size = Layout.of(model).size
        if count > self._size:
            raise InvalidArgument(
                f"'count' must not exceed the model's {self._size} trainable numbers, because each canary "
                f"has its own coordinate, got {count}. Ask for fewer canaries, or for another kind."
            )
        super().__init__(examples, count, seed, kind, adversary, added=count)
        self._others: Tensor | None = None  # sums of the other gradients, in the canaries' coordinates
        self._rate = 1.0
        self._bound: float | None = None
        self._length_changed = False  # whether the clip was another one in some step
        self._noise_distribution: NoiseDistribution = Normal()

    def begin(self, model: nn.Module, plan: TrainingPlan | None = None) -> None:
        if plan is not None and isinstance(plan.correlation, IndependentNoise):
            fresh = isinstance(plan.sampling, PoissonSampling | FixedSizeSampling)
            self._rate = plan.expected_lot / plan.population if fresh else 1.0
            self._noise_distribution = plan.noise_distribution

    def add_gradients(self, indices: Tensor, gradient: NoisyGradient, group: ProcessGroup) -> None:
        self._others = to_float64(gradient.buffer[self._coordinates])
        group.reduce_(self._others)
        group.broadcast_(self._others)
        drawn = self._canary_of_slot[indices]
        drawn = drawn[drawn >= 0]
        drawn = drawn[self._present[drawn]]
        self._length_changed |= self._bound is not None and gradient.clip.bound != self._bound
        self._bound = gradient.clip.bound
        height = _HEIGHT * max(1.0, gradient.clip.bound)
        self._lengths = gradient.clip_dirac_gradients(self._coordinates, height)
        # The standard deviation of normal noise that protects as well.
        self._deviation = gradient.deviation * gradient.divisor / self._noise_distribution.relative_deviation
        gradient.add_dirac_gradients(self._coordinates[drawn], height)

    def observe(self, gradient: NoisyGradient) -> None:
        if self._others is None:
            return
        evidence = to_float64(gradient.buffer[self._coordinates]) * gradient.divisor - self._others
        self._others = None
        if self._rate < 1 or not isinstance(self._noise_distribution, Normal):
            evidence = self._noise_distribution.log_density_ratio(
                evidence.cpu(), self._lengths, self._deviation
            )
        if self._rate < 1:
            evidence = torch.logaddexp(evidence + math.log(self._rate), torch.tensor(math.log1p(-self._rate)))
        self._evidence += evidence.cpu()

    def scores(self, model: nn.Module) -> Scores:
        del model
        return Scores(self._evidence.cpu().numpy(), self.coin, self.kind)

    def is_independent(self, plan: TrainingPlan) -> bool:
        if not isinstance(plan.noise_distribution, Normal):
            return False
        if isinstance(plan.sampling, PoissonSampling):
            return isinstance(plan.correlation, IndependentNoise)
        # The sum over steps is in units of the clipped length. An adaptive clip changes it by all coins.
        return isinstance(plan.sampling, CyclicSampling) and not self._length_changed

    def cost(self, plan: TrainingPlan) -> CanaryCost:
        rate = plan.expected_lot / plan.population
        draws = plan.steps * rate
        squared = draws * draws + draws * (1 - rate)
        noise = self._size * plan.steps * plan.gradient_multiplier**2
        return CanaryCost(records_lost=0, share=self._share, drift=self.count / 2 * squared / noise)

    def _draw_contents(self, slots: Tensor, generator: np.random.Generator) -> None:
        del slots
        self._coordinates = torch.from_numpy(generator.permutation(self._size)[: self.count])
        self._evidence = torch.zeros(self.count, dtype=torch.float64)

    def _gather(self, indices: Tensor, canaries: Tensor) -> tuple[Tensor, ...]:
        return self._examples.take(indices[canaries < 0])

    def _score_state(self) -> Tensor:
        return self._evidence

    def _resume_scores(self, state: Tensor | None) -> None:
        if state is not None:
            self._evidence = state.clone()
