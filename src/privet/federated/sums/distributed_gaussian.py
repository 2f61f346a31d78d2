"""Distributed differential privacy: each client adds a small share of noise, and only the sum is opened."""

import math
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import open_fraction, positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.events import DiscreteGaussianShares
from privet.federated.sums.masks import Words, word_type
from privet.federated.sums.rotation import PublicRotation, padded_size
from privet.federated.sums.word_encoding import WordEncoding, check_vector
from privet.mechanisms.sampling import discrete_gaussian
from privet.randomness import NoiseSource, SecureNoise
from privet.views import Numbers

__all__ = ["DistributedGaussian"]

_RETRY = math.exp(-0.5)  # β: how often a rounding is drawn again, at most
_MOST_DRAWS = 200
_RARE = 1e-9  # how often ``bound_error`` fails
_LARGEST_SQUARE = 2.0**62

Integers = NDArray[np.int64]


@final
@dataclass(frozen=True, kw_only=True)
class DistributedGaussian(WordEncoding):
    """Vectors clipped to ``clip``, rotated, rounded to multiples of ``granularity``, with a share of noise.

    A share is a discrete Gaussian of standard deviation noise_multiplier · clip / √shares on each number,
    so that ``shares`` of them make up Gaussian noise of noise_multiplier · clip. ``shares`` is the smallest
    number of honest clients that a sum is opened over, such as ``threat.plan(cohort).together``: what
    colluding clients add is known to them, and what dropped clients would have added is missing. Clients
    refuse a cohort for which the protocol guarantees fewer.

    Guarantee: a client's rounded vector has an ℓ₂ norm of at most Δ (``contribution``), which is checked
    after the rounding, on whole numbers. A sum is the event ``DiscreteGaussianShares(scale, shares,
    contribution, coordinates)``, under zero-out or replace-one adjacency of clients. Sampling is exact. The
    rotation comes before, the reduction modulo 2^bits and all of the decoding after, so they cost nothing.

    Adversary: whoever learns the sum, with all of the protocol's randomness but the honest clients' own.

    Leaks: who took part; how often a rounding was drawn again, if time is measured. A client that does not
    follow the protocol adds no noise; count it among the colluding ones.

    Sums whose numbers leave the words wrap around, which costs accuracy and no privacy. ``fit`` makes that as
    rare as is asked for: a number of the rotated sum is at most k √((n·clip)²/N + variance of the noise) +
    n·granularity with probability 1 − 2 exp(−k²/2), over N rotated numbers and the signs.

    Reference: Kairouz, Liu & Steinke 2021, Algorithms 1 and 2 (conditional randomised rounding, with the
    probability β = exp(−½) to draw again). Deviation: after 200 draws a vector is rounded towards 0, whose
    norm is smaller. The proof of the noise is that of ``privet.accounting.noise_shares``.
    """

    clip: float
    noise_multiplier: float
    shares: int
    granularity: float
    bits: int = 32
    seed: int = 0
    source: NoiseSource = field(default_factory=SecureNoise)

    def __post_init__(self) -> None:
        for name in ("clip", "noise_multiplier", "granularity"):
            positive(name, getattr(self, name))
        whole("shares", self.shares, most=10**6)
        whole("seed", self.seed, least=0)
        word_type(self.bits)

    @staticmethod
    def fit(
        *,
        clip: float,
        noise_multiplier: float,
        clients: int,
        shares: int,
        length: int,
        bits: int = 32,
        wrapping: float = 1e-6,
        seed: int = 0,
        source: NoiseSource | None = None,
    ) -> "DistributedGaussian":
        """The finest grid on which a sum of ``clients`` wraps around with a probability below ``wrapping``.

        >>> fitted = DistributedGaussian.fit(
        ...     clip=1.0, noise_multiplier=1.0, clients=100, shares=50, length=3_000, bits=16
        ... )
        >>> f"{fitted.granularity:.5f}"
        '0.00044'
        """
        whole("clients", clients)
        whole("length", length)
        open_fraction("wrapping", wrapping)
        reach = _reach(
            clip=positive("clip", clip),
            noise=positive("noise_multiplier", noise_multiplier) * clip,
            clients=clients,
            shares=whole("shares", shares),
            length=length,
            wrapping=wrapping,
        )
        room = 2.0 ** (8 * word_type(bits).itemsize - 1) - 1 - clients
        if room <= 0:
            raise InvalidArgument(
                f"'bits' = {bits} is too few for the sum of {clients} clients. Use larger words."
            )
        return DistributedGaussian(
            clip=clip,
            noise_multiplier=noise_multiplier,
            shares=shares,
            granularity=max(reach / room, clip * 2.0**-28),
            bits=bits,
            seed=seed,
            source=SecureNoise() if source is None else source,
        )

    @property
    def scale(self) -> float:
        """The scale of one share, in steps of the grid."""
        return self.noise_multiplier * self.clip / (math.sqrt(self.shares) * self.granularity)

    def contribution(self, length: int) -> float:
        """Δ: the largest ℓ₂ norm of a rounded vector, in steps of the grid, rounded up."""
        return math.nextafter(math.sqrt(self._largest_square(length)), math.inf)

    def _largest_square(self, length: int) -> int:
        """Δ², a whole number: the smaller of (c + √N)² and c² + N/4 + √(2 ln 1/β) (c + √N/2)."""
        steps, root = self.clip / self.granularity, math.sqrt(padded_size(length))
        likely = steps**2 + 0.25 * root**2 + math.sqrt(-2 * math.log(_RETRY)) * (steps + 0.5 * root)
        return math.floor(min((steps + root) ** 2, likely))

    def check_cohort(self, clients: int, length: int) -> None:
        if (self.clip / self.granularity + math.sqrt(padded_size(length))) ** 2 > _LARGEST_SQUARE:
            raise InvalidArgument(
                f"'granularity' = {self.granularity:g} is too fine for vectors of norm {self.clip:g}. "
                "Take it from DistributedGaussian.fit."
            )
        reach = _reach(
            clip=self.clip,
            noise=self.noise_multiplier * self.clip,
            clients=clients,
            shares=self.shares,
            length=length,
            wrapping=0.01,
        )
        if reach > self.granularity * (2.0 ** (self.bits - 1) - clients):
            raise InvalidArgument(
                f"The sum of {clients} clients would leave words of {self.bits} bits in more than 1 % of the "
                "rounds. Take the granularity from DistributedGaussian.fit, or larger words."
            )

    def word_count(self, length: int) -> int:
        return padded_size(length)

    def encode(self, vector: Numbers, *, round_number: int, length: int) -> Words:
        numbers = check_vector(vector, length)
        norm = float(np.linalg.norm(numbers))
        if norm > self.clip:
            numbers = numbers * (self.clip / norm)
        rotation = PublicRotation(length, seed=self.seed, round_number=round_number)
        steps = self._round(rotation.turn(numbers) / self.granularity, self._largest_square(length))
        noise = discrete_gaussian(self.scale, steps.size, self.source)
        return (steps + noise).astype(word_type(self.bits))  # modulo 2^bits

    def _round(self, numbers: Numbers, largest_square: int) -> Integers:
        """Each number up or down at random, so that its mean stays; drawn again while the norm is above Δ."""
        below = np.floor(numbers)
        shares = numbers - below
        whole_below = below.astype(np.int64)
        for _ in range(_MOST_DRAWS):
            coins = (self.source.bits(numbers.size) >> np.uint64(11)) * 2.0**-53
            steps = whole_below + (coins < shares)
            if int(np.dot(steps, steps)) <= largest_square:
                return steps
        return np.trunc(numbers).astype(np.int64)

    def decode(self, words: Words, *, round_number: int, length: int) -> Numbers:
        rotation = PublicRotation(length, seed=self.seed, round_number=round_number)
        signed = np.ascontiguousarray(words).view(f"<i{self.bits // 8}").astype(np.float64)
        return rotation.turn_back(signed * self.granularity)

    def bound_error(self, contributors: int, length: int) -> float:
        """Of the rounding; holds for all numbers at once, except with probability 1e-9 and where sums wrap.

        For one client the error of a number is a sum of N independent ones, each of at most one step and mean
        0, over √N: Hoeffding's inequality, divided by the probability 1 − β of a rounding that is kept.
        """
        tails = 2 * padded_size(length) * contributors / (_RARE * (1 - _RETRY))
        return contributors * self.granularity * math.sqrt(0.5 * math.log(tails))

    def bound_growth(self, length: int) -> float:
        return self.contribution(length) * self.granularity - self.clip

    @property
    def least_honest(self) -> int:
        return self.shares

    def describe_noise(self, length: int) -> DiscreteGaussianShares:
        """The event of one sum."""
        return DiscreteGaussianShares(self.scale, self.shares, self.contribution(length), padded_size(length))

    @property
    def caveats(self) -> frozenset[Caveat]:
        return self.source.caveats


def _reach(*, clip: float, noise: float, clients: int, shares: int, length: int, wrapping: float) -> float:
    """How far the numbers of a rotated sum go, without the rounding, except with probability ``wrapping``."""
    size = padded_size(length)
    variance = (clients * clip) ** 2 / size + clients * noise**2 / shares
    return math.sqrt(2 * math.log(2 * size / wrapping) * variance)
