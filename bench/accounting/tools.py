"""Privet and its peers, each behind the same two calls: ``load`` once, ``answer`` a question.

A tool raises ``NotOffered`` for what it has no function for. Parameters that trade accuracy for time are the
tool's defaults, or stand in its name.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

import opacus_modules
from questions import DpSgd, Epsilon, Gaussians, Laplaces, NoiseForEpsilon, NoiseForTpr, Question, Tpr


class NotOffered(Exception):
    """The tool has no function for this question."""


class Answer(NamedTuple):
    """A value, and the certified lower bound of the same truth where the tool gives one."""

    value: float
    lower: float | None = None


class Tool(ABC):
    """``package`` is whose version is reported; ``slow`` tools are left out of a quick run."""

    name: str
    package: str
    slow = False

    @abstractmethod
    def load(self) -> None:
        """Import what is needed; raises when that fails."""

    @abstractmethod
    def answer(self, question: Question) -> Answer:
        """One cold answer, nothing kept from the one before."""


class Privet(Tool):
    name = "Privet"
    package = "privet"

    def load(self) -> None:
        self.privet = import_module("privet")
        self.near = self.privet.AddRemove()
        self.privet.account(self.privet.events.Gaussian(1.0), adjacency=self.near)  # the lazy imports

    def answer(self, question: Question) -> Answer:
        _forget()
        match question:
            case Epsilon(mechanism, delta):
                found = self._account(mechanism).epsilon_bounds(delta=delta)
                return Answer(found.upper, found.lower)
            case Tpr(mechanism, fpr):
                found = self._account(mechanism).tpr_bounds(fpr=fpr)
                return Answer(found.upper, found.lower)
            case NoiseForEpsilon(rate, steps, epsilon, delta):
                return self._calibrate(rate, steps, self.privet.EpsilonTarget(epsilon=epsilon, delta=delta))
            case NoiseForTpr(rate, steps, tpr, fpr):
                return self._calibrate(rate, steps, self.privet.TprTarget(tpr=tpr, fpr=fpr))
        raise NotOffered

    def _account(self, mechanism: DpSgd | Gaussians | Laplaces) -> Any:
        events = self.privet.events
        match mechanism:
            case DpSgd(rate, noise, steps):
                event = events.Repeat(events.Poisson(rate, events.Gaussian(noise)), steps)
            case Gaussians(noise, steps):
                event = events.Repeat(events.Gaussian(noise), steps)
            case Laplaces(noise, steps):
                event = events.Repeat(events.Laplace(noise), steps)
        return self.privet.account(event, adjacency=self.near)

    def _calibrate(self, rate: float, steps: int, target: Any) -> Answer:
        def event(noise: float) -> Any:
            return self.privet.dp_sgd(noise_multiplier=noise, sampling_rate=rate, steps=steps)

        return Answer(self.privet.calibrate(event, target, adjacency=self.near).value)


def _forget() -> None:
    """Clear Privet's caches, so that a repeated question costs what it costs the first time."""
    for name, module in list(sys.modules.items()):
        if name.startswith("privet."):
            for member in vars(module).values():
                clear = getattr(member, "cache_clear", None)
                if clear is not None:
                    clear()


class DpAccounting(Tool):
    package = "dp-accounting"
    tolerance = 1e-4  # of σ, in calibrate_dp_mechanism; the bracket is the library's default

    def load(self) -> None:
        self.dp = import_module("dp_accounting")

    @abstractmethod
    def accountant(self) -> Any:
        """A fresh one."""

    def answer(self, question: Question) -> Answer:
        match question:
            case Epsilon(mechanism, delta):
                return Answer(float(self.accountant().compose(self._event(mechanism)).get_epsilon(delta)))
            case NoiseForEpsilon(rate, steps, epsilon, delta):
                found = self.dp.calibrate_dp_mechanism(
                    self.accountant,
                    lambda noise: self._event(DpSgd(rate, noise, steps)),
                    epsilon,
                    delta,
                    tol=self.tolerance,
                )
                return Answer(float(found))
        raise NotOffered

    def _event(self, mechanism: DpSgd | Gaussians | Laplaces) -> Any:
        match mechanism:
            case DpSgd(rate, noise, steps):
                once = self.dp.PoissonSampledDpEvent(rate, self.dp.GaussianDpEvent(noise))
            case Gaussians(noise, steps):
                once = self.dp.GaussianDpEvent(noise)
            case Laplaces(noise, steps):
                once = self.dp.LaplaceDpEvent(noise)
        return self.dp.SelfComposedDpEvent(once, steps)


class DpAccountingPld(DpAccounting):
    def __init__(self, grid: float) -> None:
        self.grid = grid
        self.name = f"dp-accounting PLD {grid:.0e}".replace("e-0", "e-")

    def accountant(self) -> Any:
        return self.dp.pld.PLDAccountant(value_discretization_interval=self.grid)


class DpAccountingRdp(DpAccounting):
    name = "dp-accounting RDP"

    def accountant(self) -> Any:
        return self.dp.rdp.RdpAccountant()


class PrvAccountant(Tool):
    package = "prv-accountant"

    def __init__(self, epsilon_error: float, *, slow: bool = False) -> None:
        self.error, self.slow = epsilon_error, slow
        self.name = f"prv-accountant ±{epsilon_error:g}"

    def load(self) -> None:
        self.prv = import_module("prv_accountant")

    def answer(self, question: Question) -> Answer:
        match question:
            case Epsilon(DpSgd(rate, noise, steps), delta):
                once = self.prv.PoissonSubsampledGaussianMechanism(
                    sampling_probability=rate, noise_multiplier=noise
                )
            case Epsilon(Gaussians(noise, steps), delta):
                once = self.prv.GaussianMechanism(noise)
            case Epsilon(Laplaces(noise, steps), delta):
                once = self.prv.LaplaceMechanism(mu=1 / noise)
            case _:
                raise NotOffered
        accountant = self.prv.PRVAccountant(
            once, eps_error=self.error, delta_error=delta / 1000, max_self_compositions=steps
        )
        lower, _, upper = accountant.compute_epsilon(delta, steps)
        return Answer(float(upper), float(lower))


class Opacus(Tool):
    package = "opacus"
    tolerance = 1e-3  # of ε, in get_noise_multiplier; its default is 0.01

    def __init__(self, mechanism: str, *, slow: bool = False) -> None:
        self.mechanism, self.slow = mechanism, slow
        self.name = f"Opacus {mechanism.upper()}"

    def load(self) -> None:
        self.accountants = opacus_modules.load()
        self.search = import_module("opacus.accountants.utils").get_noise_multiplier

    def answer(self, question: Question) -> Answer:
        match question:
            case Epsilon(DpSgd(rate, noise, steps), delta):
                return self._epsilon(rate, noise, steps, delta)
            case Epsilon(Gaussians(noise, steps), delta):
                return self._epsilon(1.0, noise, steps, delta)
            case NoiseForEpsilon(rate, steps, epsilon, delta):
                found = self.search(
                    target_epsilon=epsilon,
                    target_delta=delta,
                    sample_rate=rate,
                    steps=steps,
                    accountant=self.mechanism,
                    epsilon_tolerance=self.tolerance,
                )
                return Answer(float(found))
        raise NotOffered

    def _epsilon(self, rate: float, noise: float, steps: int, delta: float) -> Answer:
        accountant = self.accountants.create_accountant(mechanism=self.mechanism)
        accountant.history = [(noise, rate, steps)]
        return Answer(float(accountant.get_epsilon(delta=delta)))


class AutodpRdp(Tool):
    name = "autodp RDP"
    package = "autodp"

    def load(self) -> None:
        self.zoo = import_module("autodp.mechanism_zoo")
        self.transformers = import_module("autodp.transformer_zoo")

    def answer(self, question: Question) -> Answer:
        match question:
            case Epsilon(DpSgd(rate, noise, steps), delta):
                composed = self.zoo.NoisySGD_Mechanism(prob=rate, sigma=noise, niter=steps)
            case Epsilon(Gaussians(noise, steps), delta):
                once = self.zoo.GaussianMechanism(noise, approxDP_off=True)
                composed = self.transformers.Composition()([once], [steps])
            case Epsilon(Laplaces(noise, steps), delta):
                composed = self.transformers.Composition()([self.zoo.LaplaceMechanism(noise)], [steps])
            case _:
                raise NotOffered
        return Answer(float(composed.get_approxDP(delta)))


class AutodpFourier(Tool):
    """The analytical Fourier accountant; for add-remove both directions are asked, the larger counts."""

    name = "autodp AFA"
    package = "autodp"
    slow = True

    def load(self) -> None:
        self.zoo = import_module("autodp.mechanism_zoo")
        self.transformers = import_module("autodp.transformer_zoo")

    def answer(self, question: Question) -> Answer:
        match question:
            case Epsilon(DpSgd(rate, noise, steps), delta):
                sample = self.transformers.AmplificationBySampling_pld
                whole = self.zoo.GaussianMechanism(noise, phi_off=False, RDP_off=True)
                ways = [sample(neighboring=way)(whole, rate) for way in ("add_only", "remove_only")]
            case Epsilon(Gaussians(noise, steps), delta):
                ways = [self.zoo.GaussianMechanism(noise, phi_off=False, RDP_off=True)]
            case Epsilon(Laplaces(noise, steps), delta):
                ways = [self.zoo.LaplaceMechanism(noise, phi_off=False, RDP_off=True)]
            case _:
                raise NotOffered
        composed = [self.transformers.ComposeAFA()([once], [steps]) for once in ways]
        return Answer(max(float(mechanism.get_approxDP(delta)) for mechanism in composed))


class Riskcal(Tool):
    name = "riskcal (grid 1e-4)"
    package = "riskcal"
    least, most = 0.5, 5.0  # its default bracket of σ, 0.1 to 50, takes minutes

    def load(self) -> None:
        self.dpsgd: ModuleType = import_module("riskcal.calibration.dpsgd")

    def answer(self, question: Question) -> Answer:
        match question:
            case Tpr(DpSgd(rate, noise, steps), fpr):
                return Answer(1 - float(self.dpsgd.get_beta_for_dpsgd(noise, rate, steps, fpr)))
            case NoiseForTpr(rate, steps, tpr, fpr):
                found = self.dpsgd.find_noise_multiplier_for_err_rates(
                    fpr, 1 - tpr, rate, steps, noise_min=self.least, noise_max=self.most
                )
                return Answer(float(found))
        raise NotOffered


def every_tool() -> Iterator[Tool]:
    """Privet first: the others' times are given relative to it."""
    yield Privet()
    yield DpAccountingPld(1e-4)
    yield DpAccountingPld(1e-3)
    yield DpAccountingRdp()
    yield PrvAccountant(0.01)
    yield PrvAccountant(0.001, slow=True)
    yield Opacus("prv", slow=True)
    yield Opacus("rdp")
    yield Opacus("gdp")
    yield AutodpRdp()
    yield AutodpFourier()
    yield Riskcal()
