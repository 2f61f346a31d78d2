r"""Noise distributions for gradients, normal and Student's t, and what each is proved to protect.

*What is accounted.* A plan's noise multiplier z is that of normal noise. Other noise is scaled so that it
protects at least as well as normal noise of standard deviation zC. The ledger has the event of that normal
noise.

*Student's t.* Let T have the density f of Student's t with ν degrees of freedom, and let P_a be the
distribution of T + a. For any set A the probability p(a) = P_a(A) changes at the rate p′(a) = E[ψ(T); T + a ∈
A], with the score ψ(x) = −f′(x)/f(x) = (ν+1)x/(ν+x²). Among all sets of probability p, the set of the largest
scores has the largest rate, J(p) = E[ψ; ψ > c_p]. The points with a score above c > 0 are an interval (l, u)
with l·u = ν, so J = f(l) − f(u) at p = F(u) − F(l), and J(1 − p) = J(p). If

    J(p) ≤ L φ(Φ⁻¹(p)) for all p,                                                                       (*)

then dΦ⁻¹(p(a))/da ≤ L, so Φ⁻¹(P_a(A)) ≤ Φ⁻¹(P_0(A)) + L a: no test separates P_a from P_0 better than N(La,
1) from N(0, 1). That is La-Gaussian differential privacy, for every a at once. Independent coordinates with
shifts a_1, …, a_d compose to L‖a‖₂ for every d (Dong, Roth & Su 2022, composition of Gaussian differential
privacy). With scale s, a bound C on the ℓ₂ norm and s = L z C, this is the 1/z of normal noise of standard
deviation zC. The same holds for sampled lots, because amplification is a function of the dominating pair
(Zhu, Dong & Wang 2022).

(*) holds with equality at p = ½ for L = f(0)/φ(0) = √(2/ν) Γ((ν+1)/2)/Γ(ν/2), which is below 1. Near ½ it
holds because L² < (ν+1)/ν, and near 0 because ψ is bounded. In between it was checked on a fine grid, for ν
from 1 to 1000. (At ν = ½ it fails.) The part in between is not proved, and nobody else has checked the rest:
hence the caveat ``UNVETTED``. The lower bound of ε that an accountant gives is that of normal noise: hence
``WORST_OF_CLASS``.

*Use*: there is little reason to use it. At this bound it has the density of the normal noise at 0 and heavier
tails. Its variance is L²ν/(ν−2) times as large: 2.5 at ν = 3, 1.5 at 5, 1.2 at 10. A better bound could not
change this for a gradient with many coordinates: there the privacy depends only on the Fisher information
(ν+1)/(ν+3), and the normal distribution has the smallest variance of all distributions with the same Fisher
information.

Reference: Nasr, Shokri & Houmansadr 2020, who propose the noise. Their own accounting is not used.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet.arguments import format_value, positive
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.training.noise.gradient_noise import add_gaussian_, add_student_

__all__ = ["NoiseDistribution", "Normal", "Student"]


class NoiseDistribution(ABC):
    """The distribution of the noise on every coordinate of a sum."""

    @property
    @abstractmethod
    def caveats(self) -> frozenset[Caveat]:
        """The caveats of every guarantee that rests on this noise."""

    @property
    @abstractmethod
    def relative_deviation(self) -> float:
        """The standard deviation, divided by that of the normal noise that protects as well."""

    @abstractmethod
    def log_density_ratio(self, x: Tensor, shift: Tensor, deviation: float) -> Tensor:
        """ln(f(x − shift)/f(x)), for noise that protects as well as normal noise of this deviation."""

    @abstractmethod
    def add_(self, buffer: Tensor, deviation: float, source: NoiseSource, divisor: float) -> Tensor:
        """Add noise that protects as well as normal noise of this deviation, then divide, in place."""


@final
@dataclass(frozen=True)
class Normal(NoiseDistribution):
    """Normal noise."""

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset()

    @property
    def relative_deviation(self) -> float:
        return 1.0

    def log_density_ratio(self, x: Tensor, shift: Tensor, deviation: float) -> Tensor:
        return (shift * x - shift**2 / 2) / deviation**2

    def add_(self, buffer: Tensor, deviation: float, source: NoiseSource, divisor: float) -> Tensor:
        return add_gaussian_(buffer, deviation, source, divisor=divisor)


@final
@dataclass(frozen=True)
class Student(NoiseDistribution):
    """Student's t with ``degrees`` of freedom. More than 2 are needed, so that the variance is finite.

    >>> round(Student(3.0).shift, 4), round(Student(3.0).relative_deviation, 4)
    (0.9213, 1.5958)
    """

    degrees: float

    def __post_init__(self) -> None:
        if not 2 < positive("degrees", self.degrees) <= 1000:
            raise InvalidArgument(
                f"'degrees' must be above 2, so that the variance is finite, and at most 1000, "
                f"got {format_value(self.degrees)}. Use Normal() for more."
            )

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset({Caveat.UNVETTED, Caveat.WORST_OF_CLASS})

    @property
    def shift(self) -> float:
        """L: a shift by 1 is no easier to detect than a shift by L in standard normal noise."""
        half = self.degrees / 2
        return math.exp(math.lgamma(half + 0.5) - math.lgamma(half)) / math.sqrt(half)

    @property
    def relative_deviation(self) -> float:
        return self.shift * math.sqrt(self.degrees / (self.degrees - 2))

    def log_density_ratio(self, x: Tensor, shift: Tensor, deviation: float) -> Tensor:
        denominator = self.degrees * (self.shift * deviation) ** 2  # ν s²
        unshifted, shifted = torch.log1p(x**2 / denominator), torch.log1p((x - shift) ** 2 / denominator)
        return (unshifted - shifted) * ((self.degrees + 1) / 2)

    def add_(self, buffer: Tensor, deviation: float, source: NoiseSource, divisor: float) -> Tensor:
        return add_student_(buffer, self.shift * deviation, self.degrees, source).div_(divisor)
