"""What a private run will do, before it does it; the plan derives its own event, so what runs is what is accounted.

Everything here is public: the number of examples too, which sets rates, steps, divisors and so the noise. Under add-remove
adjacency that number is a secret, and a neighbour has another one. Whoever sees the noise of many steps and weights can tell
its scale, and so the number, far beyond ε (Privet's own tests do). There are two sound ways:

* ``size_is_public=True``: ``population`` was known before the data was, or was released with noise. It stays the same whatever number of
  examples there is, and so do rate, divisor, steps and noise. Each example is drawn at that rate, however many there are.
* an adjacency under which the number is public: ``ZeroOut()`` or ``ReplaceOne()``.

Otherwise the ledger carries the caveat ``SIZE_TAKEN_AS_PUBLIC``. Lots that go by an example's place in the data (``CyclicSampling``,
``PartSampling``) take the places as public too: where one example is left out of a list, all others behind it move up, and into
other lots. So under add-remove they carry the caveat ``PLACES_TAKEN_AS_PUBLIC``.

Reference: arXiv 2605.15648 audits implementations of DP-SGD for this.
"""

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, final

from privet.adjacency import AddRemove, Adjacency, ReplaceOne
from privet.arguments import open_fraction, positive, shown, whole
from privet.callers import level_of_caller
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved
from privet.events import Event, Poisson, Repeat
from privet.guarantees import Guarantee, delta_warning
from privet.ledger import Ledger
from privet.training.correlated import Correlation, Independent
from privet.training.encoding import Encoding
from privet.training.executions import Executions
from privet.training.noise_laws import NoiseLaw, Normal
from privet.training.sampling_schemes import Sampling

if TYPE_CHECKING:
    from privet.accounting import Target

__all__ = ["Plan", "QuantileClip", "steps_for"]

_NO_CAVEATS: frozenset[Caveat] = frozenset()


@final
@dataclass(frozen=True)
class QuantileClip:
    """The clip bound follows a quantile of the gradients' norms, by a noisy count of those that are below it.

    In every step each example gives b − ½, with b = 1 if its norm is at most the bound, so that one unit moves the count
    by ½. ``count_deviation`` is the noise on that sum; the paper takes a twentieth of the expected lot.
    The bound is then multiplied by exp(−learning_rate · (noisy fraction − quantile)).

    *Cost*: none beside the plan's own noise multiplier z. Gradients and count are one Gaussian mechanism, whose noise is
    split: 1/z² = 1/z_Δ² + 1/(2σ_b)², and the gradients get the larger multiplier z_Δ.

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
        """z_Δ, so that gradients and count together have the multiplier z.

        >>> QuantileClip(0.5, count_deviation=10.0).gradient_multiplier(1.0) > 1
        True
        """
        rest = noise_multiplier**-2 - (2 * self.count_deviation) ** -2
        if rest <= 0:
            raise InvalidArgument(
                f"'count_deviation' must be above half the noise multiplier {noise_multiplier:g}, got "
                f"{self.count_deviation!r}, or the count alone spends all. A twentieth of the lot is usual."
            )
        return 1 / math.sqrt(rest)


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """A private run: lots, steps, noise, clip, and whom it protects.

    ``noise_multiplier`` is the one that is accounted: σ over the clip bound, for everything that a step releases.
    ``micro_batch`` splits a lot into pieces of that size; without it they are as large as the caches like them. ``augmentations`` averages
    the gradients of that many variants of an example before it is clipped; neither changes what is released, nor its cost. Noise of another ``law`` than the
    normal one protects as well as normal noise of that multiplier. ``encoding`` changes what a clipped gradient
    is, and not its bound. ``size_is_public`` says that ``population`` does not come from the data (see the module).

    >>> from privet.training.sampling_schemes import PoissonSampling
    >>> plan = Plan(
    ...     population=60_000, sampling=PoissonSampling(256 / 60_000), steps=14_062, noise_multiplier=1.1, clip_bound=1.0
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
    correlation: Correlation = Independent()  # noqa: RUF009 - frozen
    adaptive: QuantileClip | None = None
    micro_batch: int | None = None
    augmentations: int = 1
    law: NoiseLaw = Normal()  # noqa: RUF009 - frozen
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
            ("law", self.law, NoiseLaw),
            ("encoding", self.encoding, Encoding | None),
        ):
            if not isinstance(value, kind):
                wanted = kind.__name__ if isinstance(kind, type) else "Encoding or None"
                raise InvalidArgument(
                    f"'{name}' must be a {wanted}, got {shown(value)}. See the classes of that name."
                )
        if not isinstance(self.law, Normal) and not isinstance(self.correlation, Independent):
            raise NotProved(
                "Correlated noise is proved for normal noise alone. Use law=Normal(), or independent noise."
            )
        if (
            not isinstance(self.law, Normal)
            and isinstance(self.adjacency, ReplaceOne)
            and _is_sampled(self.event)
        ):
            raise NotProved(
                "Poisson samples under replace-one adjacency are proved for normal noise alone. "
                "Use law=Normal(), FixedSizeSampling, or another adjacency."
            )
        if self.adaptive is not None and not isinstance(self.correlation, Independent):
            raise NotProved(
                "Correlated noise is proved for one scale in all steps, and an adaptive clip changes it. "
                "Use a fixed clip bound, or independent noise."
            )
        if not isinstance(self.size_is_public, bool):
            raise InvalidArgument(
                f"'size_is_public' must be True or False, got {shown(self.size_is_public)}. "
                f"Say whether 'population' was known before the data was."
            )
        if self.size_is_public and self.sampling.needs_size and isinstance(self.adjacency, AddRemove):
            raise NotProved(
                f"{str(self.sampling).capitalize()} are made from the number of examples that there are, which add-remove adjacency "
                f"keeps secret. Use PoissonSampling, or ZeroOut() or ReplaceOne() adjacency, where it is public."
            )
        self.sampling.expected_lot(self.population)
        _ = (
            self.gradient_multiplier,
            self.event,
        )  # whatever is wrong is said now, and not after hours of training

    @property
    def event(self) -> Event:
        """Exactly what the whole run is."""
        return self._event(self.steps)

    @property
    def expected_lot(self) -> float:
        """The public divisor of a step's sum; never the size of the lot that was drawn."""
        return float(self.sampling.expected_lot(self.population))

    @property
    def gradient_multiplier(self) -> float:
        """The noise on the gradients over the clip bound: more than is accounted if a noisy count shares the step."""
        if self.adaptive is None:
            return self.noise_multiplier
        return self.adaptive.gradient_multiplier(self.noise_multiplier)

    @property
    def standard_deviation(self) -> float:
        """That of the noise on the sum of gradients, at the (first) clip bound."""
        return self.gradient_multiplier * self.clip_bound * self.law.spread

    def guarantee(self) -> Guarantee:
        """What the whole run leaks at most."""
        from privet.accounting import account  # late: it loads scipy, which training itself does not need

        return account(self.ledger(self.steps))

    def ledger(
        self,
        steps: int,
        *,
        abandoned: tuple[tuple[int, int], ...] = (),
        caveats: frozenset[Caveat] = _NO_CAVEATS,
    ) -> Ledger:
        """What has been spent when the noisy gradient of step number ``steps`` is about to be used.

        ``abandoned`` are stretches (from, to) that ran, were lost by a crash, and run again: see ``Executions``.
        ``caveats`` are those of the noise.
        """
        if whole("steps", steps, least=0) > self.steps:
            raise InvalidArgument(
                f"'steps' must be at most the plan's {self.steps}, got {steps}. Plan a longer run."
            )
        found = Ledger(
            self.adjacency,
            caveats=self.sampling.caveats | self.law.caveats | self._public_caveats | caveats,
        )
        if 0 < steps < self.steps:
            # A number of steps that was chosen in view of the weights is a parameter that was not fixed beforehand.
            found = replace(found, caveats=found.caveats | {Caveat.STOPPED_EARLY})
        ran = Executions(steps, abandoned)
        if not ran.layers:
            return found
        again = f", and {ran.again} that a crash lost" if ran.again else ""
        event = self.sampling.event_of(
            self.noise_multiplier, self.correlation, ran, self.population, self.adjacency
        )
        return found.spend(f"private training, {steps} steps{again}", event)

    @property
    def _public_caveats(self) -> frozenset[Caveat]:
        """What is taken as public although the adjacency keeps it secret."""
        if not isinstance(self.adjacency, AddRemove):
            return _NO_CAVEATS
        size = _NO_CAVEATS if self.size_is_public else frozenset({Caveat.SIZE_TAKEN_AS_PUBLIC})
        return size | (
            frozenset({Caveat.PLACES_TAKEN_AS_PUBLIC}) if self.sampling.goes_by_place else _NO_CAVEATS
        )

    def require_size(self, examples: int) -> None:
        """Refuses data that this plan was not made for; a public population is kept with any number of examples."""
        if examples != self.population and not (self.size_is_public and not self.sampling.needs_size):
            raise InvalidArgument(
                f"'data' must have the plan's {self.population} examples, and does not. Plan for this data."
            )

    def caveats(self, *, delta: float) -> frozenset[Caveat]:
        """What must be said with this plan's ε at this δ."""
        return self.guarantee().caveats | delta_warning(delta, self.population)

    def reaching(self, target: "Target") -> "Plan":
        """The same plan with the least noise that reaches a target."""
        from privet.accounting import calibrate

        found = calibrate(self._event_with, target, adjacency=self.adjacency)
        return replace(self, noise_multiplier=found.value)

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
        correlation: Correlation = Independent(),  # noqa: B008 - frozen
        adaptive: QuantileClip | None = None,
        micro_batch: int | None = None,
        augmentations: int = 1,
        law: NoiseLaw = Normal(),  # noqa: B008 - frozen
        encoding: Encoding | None = None,
        size_is_public: bool = False,
    ) -> "Plan":
        """The plan with the least noise that is (ε, δ)-differentially private, for a number of epochs or of steps."""
        from privet.accounting import EpsilonTarget

        target = EpsilonTarget(epsilon=epsilon, delta=delta)
        if (epochs is None) == (steps is None):
            raise InvalidArgument(
                f"Exactly one of 'epochs' and 'steps' must be given, got {shown(epochs)} and {shown(steps)}. "
                f"Say how long to train."
            )
        for caveat in delta_warning(delta, population):
            warnings.warn(caveat.sentence, stacklevel=level_of_caller())
        if steps is None:
            steps = steps_for(0.0 if epochs is None else epochs, population, sampling)
        first = Plan(
            population=population,
            sampling=sampling,
            steps=steps,
            noise_multiplier=1.0,
            clip_bound=clip_bound,
            adjacency=adjacency,
            correlation=correlation,
            micro_batch=micro_batch,
            augmentations=augmentations,
            law=law,
            encoding=encoding,
            size_is_public=size_is_public,
        ).reaching(target)
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
            f"{self.steps} steps, {self.sampling} of {self.population}, noise {self.noise_multiplier:.6g} × clip "
            f"{self.clip_bound:g}, {self.adjacency}"
        )


def _is_sampled(event: Event) -> bool:
    """Whether the steps are Poisson samples, where a unit may be left out."""
    return isinstance(event, Repeat) and isinstance(event.inner, Poisson) and event.inner.rate < 1


def steps_for(epochs: float, population: int, sampling: Sampling) -> int:
    """The number of steps in which an example is expected ``epochs`` times: ⌈epochs · n / expected lot⌉.

    A quotient that misses a whole number by float rounding alone is that number.

    >>> from privet.training.sampling_schemes import PoissonSampling
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
