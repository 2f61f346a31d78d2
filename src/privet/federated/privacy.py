"""Who adds noise in a federated run, and what that proves: the server, each client alone, or nobody.

A rule is a frozen value of public parameters. ``settle`` turns it into the terms of a run: the noise for (ε,
δ), the clip, and the ledger of any number of rounds. The noise of clients who add it together is that of a
``NoisySumProtocol``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import final

from privet.accounting import EpsilonTarget, calibrate
from privet.adjacency import Adjacency, ReplaceOne, Unit, ZeroOut
from privet.arguments import format_value, whole
from privet.errors import InvalidArgument, NotProved
from privet.events import Repeat
from privet.federated.sum_protocols import NoisySumProtocol, SumProtocol
from privet.federated.terms import CentralTerms, DistributedTerms, LocalTerms, OpenTerms, Terms
from privet.training.clipping import Adaptive, Clip, PerLayer, as_clip
from privet.training.noise.correlated import Correlation, IndependentNoise
from privet.training.plan import TrainingPlan
from privet.training.sampling.schemes import PoissonSampling, Sampling

__all__ = ["CentralNoise", "DistributedNoise", "FederatedPrivacy", "LocalNoise", "NoNoise", "RunSize"]

_COHORT = 100
_FIRST_BOUND = 0.5


@final
@dataclass(frozen=True, kw_only=True)
class RunSize:
    """The public numbers of a run: clients, rounds, and the length of a vector."""

    population: int
    rounds: int
    length: int
    epsilon: float | None
    delta: float | None


class FederatedPrivacy(ABC):
    """Who adds noise, how updates are clipped, and which clients take part in a round."""

    @abstractmethod
    def settle(self, size: RunSize, protocol: SumProtocol) -> Terms:
        """The terms of a run, with the least noise for (ε, δ). Refuses what is not proved."""


@final
@dataclass(frozen=True, kw_only=True)
class CentralNoise(FederatedPrivacy):
    """The server clips and adds noise to each sum: client-level differential privacy of every model.

    *Guarantee*: all models of the run together are (ε, δ)-differentially private for a client and all of its
    data, under ``adjacency``. *Leaks*: the server itself sees what the sum protocol shows it, without noise.
    The cohorts must stay secret if the sampling amplifies.

    Args:
        clip: the clipping rule for whole updates; a number C means ``Flat(C)``. The default is
            ``Adaptive(0.5)``, which follows the median norm and pays for that.
        sampling: which clients are in a round. The default draws Poisson cohorts of 100 clients on average,
            or all clients if there are no more. ``FixedSizeSampling`` and ``ShuffledSampling`` are accounted
            as what they are.
        adjacency: which groups of clients are neighbours. The default is ``ZeroOut``: one client contributes
            nothing, and the number of clients is public, as it is to a server that knows its clients.
        correlation: how the noise of different rounds is correlated. It needs sampling that limits how often,
            and at what distance, a client takes part.
        size_is_public: whether the number of clients was known before; for add-remove adjacency.

    Reference: McMahan, Ramage, Talwar & Zhang 2018; Andrew et al. 2021 for the adaptive clip; Kairouz et al.
        2021 (DP-FTRL) for correlated noise.
    """

    clip: Clip | float | None = None
    sampling: Sampling | None = None
    adjacency: Adjacency = ZeroOut(Unit.CLIENT)  # noqa: RUF009 - frozen
    correlation: Correlation = IndependentNoise()  # noqa: RUF009 - frozen
    size_is_public: bool = False

    def settle(self, size: RunSize, protocol: SumProtocol) -> Terms:
        _refuse_noisy(protocol, "CentralNoise")
        if self.adjacency.unit is not Unit.CLIENT:
            raise InvalidArgument(
                f"'adjacency' must be about clients, got {self.adjacency}. Write ZeroOut(Unit.CLIENT)."
            )
        clip = Adaptive(_FIRST_BOUND) if self.clip is None else _whole_update_clip(self.clip)
        if isinstance(clip, Adaptive) and not isinstance(self.correlation, IndependentNoise):
            raise NotProved(
                "Correlated noise is proved for one noise scale in all rounds, and an adaptive clip changes "
                "the scale. Give a fixed clip: clip=1.0."
            )
        _require_fine(protocol.bound_growth(size.length + isinstance(clip, Adaptive)), clip.bound)
        target = _require_target(size)
        plan = TrainingPlan.calibrated(
            epsilon=target.epsilon,
            delta=target.delta,
            population=size.population,
            sampling=default_cohort(size.population) if self.sampling is None else self.sampling,
            steps=size.rounds,
            clip_bound=clip.bound,
            adjacency=self.adjacency,
            correlation=self.correlation,
            size_is_public=self.size_is_public,
        )
        if isinstance(clip, Adaptive):
            plan = replace(plan, adaptive=clip.quantile_clip(plan.expected_lot, plan.noise_multiplier))
        return CentralTerms(plan, clip)


@final
@dataclass(frozen=True, kw_only=True)
class LocalNoise(FederatedPrivacy):
    """Each client clips its update and adds Gaussian noise before it sends it: the server need not be
    trusted.

    *Guarantee*: everything that a client sends in the run is (ε, δ)-differentially private for that client's
    data as a whole, replaced by any other data, whoever sees the messages and whatever the server asks. A
    client takes part in no more than the planned number of rounds, and counts them itself. It counts in the
    context that Flower keeps for its node and for one run of Flower: a node that was set up anew, or another
    run, counts from 0 and is a run of its own, whose cost adds to this one's. So decide at the clients which
    runs they take part in. *Leaks*: which client takes part, and when.

    Args:
        clip: the fixed clipping rule; a number C means ``Flat(C)``.
        sampling: which clients are asked in a round; the default asks all. It does not amplify, because the
            server knows whom it asks.

    Reference: Kasiviswanathan et al. 2011 for the model; Balle & Wang 2018 for the calibrated noise.
    """

    clip: Clip | float
    sampling: Sampling | None = None

    def settle(self, size: RunSize, protocol: SumProtocol) -> Terms:
        _refuse_noisy(protocol, "LocalNoise")
        clip = _whole_update_clip(self.clip)
        if isinstance(clip, Adaptive):
            raise NotProved(
                "Local noise is proved for a fixed clip bound, and an adaptive one would come from the "
                "server. Give a fixed clip: clip=1.0."
            )
        target = _require_target(size)
        plan = TrainingPlan.calibrated(
            epsilon=target.epsilon,
            delta=target.delta,
            population=size.population,
            sampling=PoissonSampling(1.0),
            steps=size.rounds,
            clip_bound=clip.bound,
            adjacency=ReplaceOne(Unit.CLIENT),
        )
        return LocalTerms(plan, clip, PoissonSampling(1.0) if self.sampling is None else self.sampling)


@final
@dataclass(frozen=True, kw_only=True)
class DistributedNoise(FederatedPrivacy):
    """The clients of a round add the noise together, under a ``NoisySumProtocol``; the server adds none.

    *Guarantee*: the sums of all rounds together are (ε, δ)-differentially private for a client and all of its
    data, also against the server, as far as the protocol hides single vectors. Sampling does not amplify,
    because the server knows whom it asks. A round with fewer than ``least_contributors`` is not used: its sum
    has less noise than promised, so the run ends with an error before the model changes.

    Args:
        least_contributors: the number of clients whose noise is needed. The noise is chosen for it.
        sampling: which clients are asked in a round; the default asks all.
    """

    least_contributors: int
    sampling: Sampling | None = None

    def __post_init__(self) -> None:
        whole("least_contributors", self.least_contributors)

    def settle(self, size: RunSize, protocol: SumProtocol) -> Terms:
        if not isinstance(protocol, NoisySumProtocol):
            raise InvalidArgument(
                f"'sums' must be a protocol with noise for DistributedNoise, got {type(protocol).__name__}. "
                "Give a NoisySumProtocol, or use CentralNoise."
            )
        if self.least_contributors > size.population:
            raise InvalidArgument(
                f"'least_contributors' must not exceed the {size.population} clients, got "
                f"{self.least_contributors}. Ask for fewer."
            )
        target = _require_target(size)
        adjacency = ZeroOut(Unit.CLIENT)
        found = calibrate(
            lambda z: Repeat(
                protocol.with_noise(z).event(length=size.length, contributors=self.least_contributors),
                size.rounds,
            ),
            target,
            adjacency=adjacency,
            between=(1e-2, 1e4),
        )
        return DistributedTerms(
            protocol.with_noise(found.value),
            size.length,
            size.rounds,
            self.least_contributors,
            PoissonSampling(1.0) if self.sampling is None else self.sampling,
        )


@final
@dataclass(frozen=True, kw_only=True)
class NoNoise(FederatedPrivacy):
    """Nobody adds noise, so nothing is proved, and there is no ledger. For experiments and baselines.

    Args:
        clip: the clipping rule; None leaves updates as they are. A clip alone proves nothing.
        sampling: which clients are asked in a round; the default asks all.
    """

    clip: Clip | float | None = None
    sampling: Sampling | None = None

    def settle(self, size: RunSize, protocol: SumProtocol) -> Terms:
        _refuse_noisy(protocol, "NoNoise")
        if size.epsilon is not None or size.delta is not None:
            raise InvalidArgument(
                f"'epsilon' and 'delta' must be left out with NoNoise, got {format_value(size.epsilon)} and "
                f"{format_value(size.delta)}, because nothing is proved without noise. Use CentralNoise."
            )
        clip = None if self.clip is None else _whole_update_clip(self.clip)
        if isinstance(clip, Adaptive):
            raise InvalidArgument("'clip' must be fixed with NoNoise, got Adaptive. Give a number.")
        return OpenTerms(size.rounds, clip, PoissonSampling(1.0) if self.sampling is None else self.sampling)


def default_cohort(population: int) -> Sampling:
    """Poisson cohorts of 100 clients on average, or all clients if there are no more.

    >>> default_cohort(50), default_cohort(1000)
    (PoissonSampling(rate=1.0), PoissonSampling(rate=0.1))
    """
    return PoissonSampling(min(1.0, _COHORT / population))


def _whole_update_clip(clip: Clip | float) -> Clip:
    rule = as_clip(clip)
    if isinstance(rule, PerLayer):
        raise InvalidArgument(
            f"'clip' must be for the whole update, got {rule!r}. Give a number, Automatic or Adaptive."
        )
    return rule


def _require_fine(growth: float, bound: float) -> None:
    if growth > bound / 2:
        raise InvalidArgument(
            f"'sums' must round by far less than the clip bound {bound:g}, and may move an update by "
            f"{growth:.3g}. Use more bits behind the point, or a larger clip."
        )


def _require_target(size: RunSize) -> EpsilonTarget:
    if size.epsilon is None or size.delta is None:
        raise InvalidArgument(
            f"'epsilon' and 'delta' must be given for a private run, got {format_value(size.epsilon)} and "
            f"{format_value(size.delta)}. Give both, or privacy=NoNoise() for a run without a guarantee."
        )
    return EpsilonTarget(epsilon=size.epsilon, delta=size.delta)


def _refuse_noisy(protocol: SumProtocol, rule: str) -> None:
    if isinstance(protocol, NoisySumProtocol):
        raise InvalidArgument(
            f"'sums' must be a protocol without noise for {rule}, got {type(protocol).__name__}, whose "
            "clients add it. Use DistributedNoise with it."
        )
