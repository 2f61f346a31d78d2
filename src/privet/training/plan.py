"""What a private run will do, before it does it. The plan derives its own event, so what runs is accounted.

Everything in a plan is public. That includes the number of examples, which sets the sampling rate, the number
of steps, the divisor and therefore the noise. Under add-remove adjacency that number is a secret, and a
neighbour has another one. An adversary who sees the noise of many steps and weights can infer its scale, and
so the number, far beyond ε (Privet's own tests do this). There are two sound ways:

* ``size_is_public=True``: ``population`` was known before the data, or was released with noise. It does not
  change with the actual number of examples, and neither do rate, divisor, steps and noise. Each example is
  drawn at that rate, whatever their number is.
* an adjacency under which the number is public: ``ZeroOut()`` or ``ReplaceOne()``.

Otherwise the ledger has the caveat ``SIZE_TAKEN_AS_PUBLIC``. Sampling by position in the data
(``CyclicSampling``, ``CyclicPoissonSampling``) takes the positions as public too: if an example is removed
from a list, all examples behind it move up, and into other lots. So under add-remove these schemes have the
caveat ``PLACES_TAKEN_AS_PUBLIC``.

Reference: arXiv 2605.15648 audits implementations of DP-SGD for this.
"""

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from privet.accounting import EpsilonTarget, Target, account, calibrate
from privet.adjacency import AddRemove, Adjacency, ReplaceOne
from privet.arguments import format_value, open_fraction, positive, whole
from privet.callers import level_of_caller
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Event, Poisson, Repeat
from privet.guarantees import Guarantee, delta_warning
from privet.ledger import Ledger
from privet.training.extras.encoding import Encoding
from privet.training.loop.executions import Executions
from privet.training.noise.correlated import Correlation, IndependentNoise
from privet.training.noise.distributions import NoiseDistribution, Normal
from privet.training.sampling.schemes import Sampling

__all__ = ["QuantileClip", "TrainingPlan", "steps_for"]

_NO_CAVEATS: frozenset[Caveat] = frozenset()


@final
@dataclass(frozen=True)
class QuantileClip:
    """The clip bound follows a quantile of the gradient norms, by a noisy count of the norms below the bound.

    In every step each example adds b − ½ to the count, with b = 1 if its norm is at most the bound. So one
    unit moves the count by ½. ``count_deviation`` is the standard deviation of the noise on the count; the
    paper uses one twentieth of the expected lot. Then the bound is multiplied by exp(−learning_rate · (noisy
    fraction − quantile)).

    *Cost*: nothing beyond the plan's noise multiplier z. Gradients and count are one Gaussian mechanism,
    which splits its noise: 1/z² = 1/z_Δ² + 1/(2σ_b)². The gradients get the larger multiplier z_Δ.

    Reference: Andrew, Thakkar, McMahan & Ramaswamy 2021, Theorem 1 and Algorithm 1.
    """

    quantile: float
    count_deviation: float
    learning_rate: float = 0.2

    def __post_init__(self) -> None:
        open_fraction("quantile", self.quantile)
        positive("count_deviation", self.count_deviation)
        positive("learning_rate", self.learning_rate)

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """z_Δ: the multiplier of the gradients, if gradients and count together have the multiplier z.

        >>> QuantileClip(0.5, count_deviation=10.0).gradient_multiplier(1.0) > 1
        True
        """
        rest = noise_multiplier**-2 - (2 * self.count_deviation) ** -2
        if rest <= 0:
            raise InvalidArgument(
                f"'count_deviation' must be above half the noise multiplier {noise_multiplier:g}, got "
                f"{self.count_deviation!r}: the count alone would spend it all. Use one twentieth of the lot."
            )
        return 1 / math.sqrt(rest)


@final
@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """A private run: lots, steps, noise, clip, and the adjacency.

    Args:
        population: the public number of examples.
        sampling: how lots are drawn.
        steps: the number of steps.
        noise_multiplier: σ over the clip bound, for everything that a step releases. This is what is
            accounted.
        clip_bound: the largest norm of what one example adds to a sum (at the first step, if it adapts).
        adjacency: which data sets are neighbours.
        correlation: how the noise of different steps is correlated.
        adaptive: how the clip bound adapts; None keeps it fixed.
        micro_batch: how many examples go through the model at once; None fits them to the caches. It does not
            change what is released.
        augmentations: how many variants of an example have their gradients averaged before the clip. It does
            not change the cost.
        noise_distribution: the distribution of the noise. Any other than ``Normal`` is scaled to protect as
            well as normal noise of this multiplier.
        encoding: changes a clipped gradient, but not its bound.
        size_is_public: ``population`` does not come from the data (see the module docstring).

    >>> from privet.training.sampling.schemes import PoissonSampling
    >>> plan = TrainingPlan(
    ...     population=60_000,
    ...     sampling=PoissonSampling(256 / 60_000),
    ...     steps=14_062,
    ...     noise_multiplier=1.1,
    ...     clip_bound=1.0,
    ... )
    >>> print(plan)
    14062 steps, Poisson lots at rate 0.00426667 of 60000, noise 1.1 × clip 1, add-remove (record)
    >>> f"{plan.guarantee().epsilon(delta=1e-5):.5f}"
    '2.38160'
    """

    population: int
    sampling: Sampling
    steps: int
    noise_multiplier: float
    clip_bound: float
    adjacency: Adjacency = AddRemove()  # noqa: RUF009 - frozen
    correlation: Correlation = IndependentNoise()  # noqa: RUF009 - frozen
    adaptive: QuantileClip | None = None
    micro_batch: int | None = None
    augmentations: int = 1
    noise_distribution: NoiseDistribution = Normal()  # noqa: RUF009 - frozen
    encoding: Encoding | None = None
    size_is_public: bool = False

    def __post_init__(self) -> None:
        whole("population", self.population)
        whole("steps", self.steps)
        positive("noise_multiplier", self.noise_multiplier)
        positive("clip_bound", self.clip_bound)
        whole("augmentations", self.augmentations)
        if self.micro_batch is not None:
            whole("micro_batch", self.micro_batch)
        for name, value, kind in (
            ("sampling", self.sampling, Sampling),
            ("correlation", self.correlation, Correlation),
            ("adjacency", self.adjacency, Adjacency),
            ("noise_distribution", self.noise_distribution, NoiseDistribution),
            ("encoding", self.encoding, Encoding | None),
        ):
            if not isinstance(value, kind):
                wanted = kind.__name__ if isinstance(kind, type) else "Encoding or None"
                raise InvalidArgument(
                    f"'{name}' must be a {wanted}, got {format_value(value)}. See the classes of that name."
                )
        if not isinstance(self.noise_distribution, Normal) and not isinstance(
            self.correlation, IndependentNoise
        ):
            raise NotProved(
                "Correlated noise is proved for normal noise only. Use noise_distribution=Normal(), or "
                "independent noise."
            )
        if (
            not isinstance(self.noise_distribution, Normal)
            and isinstance(self.adjacency, ReplaceOne)
            and _is_sampled(self.event)
        ):
            raise NotProved(
                "Poisson samples under replace-one adjacency are proved for normal noise only. "
                "Use noise_distribution=Normal(), FixedSizeSampling, or another adjacency."
            )
        if self.adaptive is not None and not isinstance(self.correlation, IndependentNoise):
            raise NotProved(
                "Correlated noise is proved for one noise scale in all steps, and an adaptive clip changes "
                "the scale. Use a fixed clip bound, or independent noise."
            )
        if not isinstance(self.size_is_public, bool):
            raise InvalidArgument(
                f"'size_is_public' must be True or False, got {format_value(self.size_is_public)}. "
                f"Give True if 'population' was known before the data."
            )
        if self.size_is_public and self.sampling.needs_size and isinstance(self.adjacency, AddRemove):
            raise NotProved(
                f"{str(self.sampling).capitalize()} use the actual number of examples, which add-remove "
                "adjacency keeps secret. Use PoissonSampling, or ZeroOut() or ReplaceOne() adjacency, where "
                "it is public."
            )
        self.sampling.expected_lot(self.population)
        _ = (
            self.gradient_multiplier,
            self.event,
        )  # raises now what would otherwise fail after hours of training

    @property
    def event(self) -> Event:
        """The event of the whole run."""
        return self._event(self.steps)

    @property
    def expected_lot(self) -> float:
        """The public divisor of the sum of a step; never the actual size of a lot."""
        return float(self.sampling.expected_lot(self.population))

    @property
    def gradient_multiplier(self) -> float:
        """σ of the gradient noise over the clip bound: larger if a noisy count shares the step."""
        if self.adaptive is None:
            return self.noise_multiplier
        return self.adaptive.gradient_multiplier(self.noise_multiplier)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the noise on the sum of gradients, at the (first) clip bound."""
        return self.gradient_multiplier * self.clip_bound * self.noise_distribution.relative_deviation

    def guarantee(self) -> Guarantee:
        """An upper bound on what the whole run leaks."""
        return account(self.ledger(self.steps))

    def ledger(
        self,
        steps: int,
        *,
        abandoned: tuple[tuple[int, int], ...] = (),
        caveats: frozenset[Caveat] = _NO_CAVEATS,
    ) -> Ledger:
        """The ledger when the noisy gradient of step number ``steps`` is about to be used.

        ``abandoned`` are ranges (from, to] of steps that ran, were lost in a crash, and run again: see
        ``Executions``. ``caveats`` are the caveats of the noise.
        """
        if whole("steps", steps, least=0) > self.steps:
            raise InvalidArgument(
                f"'steps' must be at most the plan's {self.steps}, got {steps}. Make a longer plan."
            )
        ledger = Ledger(
            self.adjacency,
            caveats=self.sampling.caveats | self.noise_distribution.caveats | self._public_caveats | caveats,
        )
        if 0 < steps < self.steps:
            # A number of steps that was chosen after a look at the weights was not fixed beforehand.
            ledger = replace(ledger, caveats=ledger.caveats | {Caveat.STOPPED_EARLY})
        executions = Executions(steps, abandoned)
        if not executions.layers:
            return ledger
        again = f", and {executions.again} that a crash lost" if executions.again else ""
        event = self.sampling.event_of_executions(
            self.noise_multiplier, self.correlation, executions, self.population, self.adjacency
        )
        return ledger.spend(f"private training, {steps} steps{again}", event)

    @property
    def _public_caveats(self) -> frozenset[Caveat]:
        """Caveats for what is taken as public although the adjacency keeps it secret."""
        if not isinstance(self.adjacency, AddRemove):
            return _NO_CAVEATS
        size = _NO_CAVEATS if self.size_is_public else frozenset({Caveat.SIZE_TAKEN_AS_PUBLIC})
        return size | (
            frozenset({Caveat.PLACES_TAKEN_AS_PUBLIC}) if self.sampling.depends_on_position else _NO_CAVEATS
        )

    def require_size(self, examples: int) -> None:
        """Refuse data of another size than the plan's; a public population allows any number of examples."""
        if examples != self.population and not (self.size_is_public and not self.sampling.needs_size):
            raise InvalidArgument(
                f"'data' must have the plan's {self.population} examples, and does not. Make a plan for this "
                "data."
            )

    def caveats(self, *, delta: float) -> frozenset[Caveat]:
        """Caveats of this plan's ε at this δ."""
        return self.guarantee().caveats | delta_warning(delta, self.population)

    def with_least_noise(self, target: Target) -> "TrainingPlan":
        """The same plan with the least noise that reaches a target."""
        calibration = calibrate(self._event_with, target, adjacency=self.adjacency)
        return replace(self, noise_multiplier=calibration.value)

    @staticmethod
    def calibrated(
        *,
        epsilon: float,
        delta: float,
        population: int,
        sampling: Sampling,
        clip_bound: float,
        epochs: float | None = None,
        steps: int | None = None,
        adjacency: Adjacency = AddRemove(),  # noqa: B008 - frozen
        correlation: Correlation = IndependentNoise(),  # noqa: B008 - frozen
        adaptive: QuantileClip | None = None,
        micro_batch: int | None = None,
        augmentations: int = 1,
        noise_distribution: NoiseDistribution = Normal(),  # noqa: B008 - frozen
        encoding: Encoding | None = None,
        size_is_public: bool = False,
    ) -> "TrainingPlan":
        """Make the (ε, δ)-differentially private plan with the least noise, for a number of epochs or steps.

        ``epsilon`` and ``delta`` are the target. Exactly one of ``epochs`` and ``steps`` says how long to
        train. The other arguments are those of the plan.
        """
        target = EpsilonTarget(epsilon=epsilon, delta=delta)
        if (epochs is None) == (steps is None):
            raise InvalidArgument(
                f"Exactly one of 'epochs' and 'steps' must be given, got {format_value(epochs)} and "
                f"{format_value(steps)}. Give one of them."
            )
        for caveat in delta_warning(delta, population):
            warnings.warn(caveat.sentence, stacklevel=level_of_caller())
        if steps is None:
            steps = steps_for(0.0 if epochs is None else epochs, population, sampling)
        first = TrainingPlan(
            population=population,
            sampling=sampling,
            steps=steps,
            noise_multiplier=1.0,
            clip_bound=clip_bound,
            adjacency=adjacency,
            correlation=correlation,
            micro_batch=micro_batch,
            augmentations=augmentations,
            noise_distribution=noise_distribution,
            encoding=encoding,
            size_is_public=size_is_public,
        ).with_least_noise(target)
        return replace(first, adaptive=adaptive)

    def _event(self, steps: int) -> Event:
        return self.sampling.event(
            self.noise_multiplier, self.correlation, steps, self.population, self.adjacency
        )

    def _event_with(self, noise_multiplier: float) -> Event:
        return self.sampling.event(
            noise_multiplier, self.correlation, self.steps, self.population, self.adjacency
        )

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, {self.sampling} of {self.population}, noise {self.noise_multiplier:.6g} × "
            f"clip {self.clip_bound:g}, {self.adjacency}"
        )


def _is_sampled(event: Event) -> bool:
    """Whether the steps are Poisson samples at a rate below 1."""
    return isinstance(event, Repeat) and isinstance(event.inner, Poisson) and event.inner.rate < 1


def steps_for(epochs: float, population: int, sampling: Sampling) -> int:
    """The number of steps that use an example ``epochs`` times on average: ⌈epochs · n / expected lot⌉.

    A quotient that differs from a whole number only by float rounding is that number.

    >>> from privet.training.sampling.schemes import PoissonSampling
    >>> steps_for(1, 60_000, PoissonSampling(256 / 60_000)), steps_for(1, 9, PoissonSampling(1 / 3))
    (235, 3)
    """
    exact = (
        Fraction(positive("epochs", epochs))
        * whole("population", population)
        / sampling.expected_lot(population)
    )
    nearest = round(exact)
    if nearest and abs(exact - nearest) <= nearest * Fraction(1, 2**40):
        return nearest
    return math.ceil(exact)
