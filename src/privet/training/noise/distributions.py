r"""Which law the noise on a gradient has: normal, or Student's t. What each is proved to protect.

*What is accounted.* A plan's noise multiplier z is that of normal noise. Other noise is scaled so that it protects at least as
well as normal noise of the deviation zC, and the ledger has the event of that.

*Student's t.* Let T have the density f of Student's t with ν degrees of freedom, and let P_a be the law of T + a. For any
set A the probability p(a) = P_a(A) changes at the rate p′(a) = E[ψ(T); T + a ∈ A], with the score
ψ(x) = −f′(x)/f(x) = (ν+1)x/(ν+x²). Of all sets with the probability p the one that has the largest scores has the largest
rate, J(p) = E[ψ; ψ > c_p]; the scores above c > 0 are those of an interval (l, u) with l·u = ν, so that
J = f(l) − f(u) at p = F(u) − F(l), and J(1 − p) = J(p). If

    J(p) ≤ L φ(Φ⁻¹(p)) for all p,                                                                       (*)

then dΦ⁻¹(p(a))/da ≤ L, so Φ⁻¹(P_a(A)) ≤ Φ⁻¹(P_0(A)) + L a: no test tells P_a from P_0 better than N(La, 1) from N(0, 1).
That is La-Gaussian differential privacy, for every a at once. Independent coordinates that are shifted by a_1, …, a_d
compose to L‖a‖₂, whatever d is (Dong, Roth & Su 2022, composition of Gaussian differential privacy). With the scale s, a bound C on the ℓ₂ norm and
s = L z C this is the 1/z of normal noise of the deviation zC; so it is for sampled lots, since amplification is a function of the
dominating pair (Zhu, Dong & Wang 2022).

(*) holds with equality at p = ½ for L = f(0)/φ(0) = √(2/ν) Γ((ν+1)/2)/Γ(ν/2), which is below 1. Near ½ it holds
because L² < (ν+1)/ν, and near 0 because ψ is bounded; between, it was found on a fine grid, for ν from 1 to 1000. (At ν = ½ it
fails.) That part is not proved, nor has anyone else checked the rest: so the caveat ``UNVETTED``. The lower bound of ε
that an accountant gives is that of normal noise, whence ``WORST_OF_CLASS``.

*What it is good for*: little. At this bound it has the density of the normal noise at 0, and heavier tails; its variance is
L²ν/(ν−2) times as large: 2.5 at ν = 3, 1.5 at 5, 1.2 at 10. No bound could turn that round where a gradient has many coordinates:
there what can be told depends on the Fisher information (ν+1)/(ν+3) alone, and of all laws with the same Fisher information the
normal one has the least variance.

Reference: Nasr, Shokri & Houmansadr 2020, who propose the noise. Their own accounting is not used.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from privet.arguments import positive, shown
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.randomness import NoiseSource
from privet.training.noise.gradient_noise import gaussian_, student_

__all__ = ["NoiseLaw", "Normal", "Student"]


class NoiseLaw(ABC):
    """The law of the noise on every coordinate of a sum."""

    @property
    @abstractmethod
    def caveats(self) -> frozenset[Caveat]:
        """What must be said with every number that rests on this."""

    @property
    @abstractmethod
    def spread(self) -> float:
        """The standard deviation over that of the normal noise which it stands for."""

    @abstractmethod
    def log_ratio(self, seen: Tensor, shift: Tensor, deviation: float) -> Tensor:
        """ln(f(x − a)/f(x)) for x seen, a shift a, and noise that protects as well as normal noise of this deviation."""

    @abstractmethod
    def add_(self, buffer: Tensor, deviation: float, source: NoiseSource, divisor: float) -> Tensor:
        """Add noise that protects as well as normal noise of this deviation, and divide, in place."""


@final
@dataclass(frozen=True)
class Normal(NoiseLaw):
    """Normal noise."""

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset()

    @property
    def spread(self) -> float:
        return 1.0

    def log_ratio(self, seen: Tensor, shift: Tensor, deviation: float) -> Tensor:
        return (shift * seen - shift**2 / 2) / deviation**2

    def add_(self, buffer: Tensor, deviation: float, source: NoiseSource, divisor: float) -> Tensor:
        return gaussian_(buffer, deviation, source, divisor=divisor)


@final
@dataclass(frozen=True)
class Student(NoiseLaw):
    """Student's t with ``degrees`` of freedom, more than 2, so that there is a variance.

    >>> round(Student(3.0).shift, 4), round(Student(3.0).spread, 4)
    (0.9213, 1.5958)
    """

    degrees: float

    def __post_init__(self) -> None:
        if not 2 < positive("degrees", self.degrees) <= 1000:
            raise InvalidArgument(
                f"'degrees' must be above 2, where the noise has a variance, and at most 1000, got {shown(self.degrees)}. "
                f"Use Normal() for more."
            )

    @property
    def caveats(self) -> frozenset[Caveat]:
        return frozenset({Caveat.UNVETTED, Caveat.WORST_OF_CLASS})

    @property
    def shift(self) -> float:
        """L: a shift of 1 is no easier to tell than one of L in standard normal noise."""
        half = self.degrees / 2
        return math.exp(math.lgamma(half + 0.5) - math.lgamma(half)) / math.sqrt(half)

    @property
    def spread(self) -> float:
        return self.shift * math.sqrt(self.degrees / (self.degrees - 2))

    def log_ratio(self, seen: Tensor, shift: Tensor, deviation: float) -> Tensor:
        tails = self.degrees * (self.shift * deviation) ** 2  # ν s²
        without, within = torch.log1p(seen**2 / tails), torch.log1p((seen - shift) ** 2 / tails)
        return (without - within) * ((self.degrees + 1) / 2)

    def add_(self, buffer: Tensor, deviation: float, source: NoiseSource, divisor: float) -> Tensor:
        return student_(buffer, self.shift * deviation, self.degrees, source).div_(divisor)
