"""Every sampler under one name: numbers of a law at a scale, and what it promises."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib import import_module

import numpy as np

LAPLACE, GAUSSIAN = "discrete Laplace", "discrete Gaussian"


class Sampler(ABC):
    """Draws numbers; ``size`` is how many of them take some ten milliseconds."""

    name: str
    package: str
    promise: str
    size: int

    def load(self) -> None:
        """Import what is needed, so that a missing package is found before the clock runs."""
        import_module(self.package)

    @abstractmethod
    def draw(self, law: str, scale: float, size: int) -> np.ndarray: ...


@dataclass(frozen=True)
class Privet(Sampler):
    constant_time: bool = False
    package = "privet"
    promise = "exact; bits of the operating system"

    @property
    def name(self) -> str:
        return "Privet, constant time" if self.constant_time else "Privet"

    @property
    def size(self) -> int:
        return 100_000 if self.constant_time else 1_000_000

    def draw(self, law, scale, size):
        from privet.mechanisms.sampling import discrete_gaussian, discrete_laplace
        from privet.randomness import SecureNoise

        noise = discrete_laplace if law == LAPLACE else discrete_gaussian
        return noise(scale, size, SecureNoise(), constant_time=self.constant_time)


class OpenDP(Sampler):
    name, package, promise, size = "OpenDP", "opendp", "exact; bits of the operating system", 4_000

    def load(self):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        self.dp = dp

    def draw(self, law, scale, size):
        dp = self.dp
        domain = dp.vector_domain(dp.atom_domain(T="i64"))
        if law == LAPLACE:
            release = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
        else:
            release = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)
        return np.array(release([0] * size))


class Diffprivlib(Sampler):
    name, package, size = "diffprivlib", "diffprivlib", 4_000
    promise = "float logarithm, secrets.SystemRandom"

    def load(self):
        from diffprivlib.mechanisms import Geometric

        self.geometric = Geometric

    def draw(self, law, scale, size):
        if law == GAUSSIAN:
            raise NotImplementedError  # it has one, but takes ε and δ, and its scale cannot be set
        mechanism = self.geometric(epsilon=1 / scale, sensitivity=1)
        return np.array([mechanism.randomise(0) for _ in range(size)])


class Numpy(Sampler):
    """Not a peer: rounded floats from a generator that can be seeded, as a measure of what is fast."""

    name, package, promise, size = "numpy, rounded", "numpy", "neither exact nor secret", 1_000_000

    def draw(self, law, scale, size):
        generator = np.random.default_rng()
        drawn = generator.laplace(0, scale, size) if law == LAPLACE else generator.normal(0, scale, size)
        return np.rint(drawn).astype(np.int64)


EVERY = (Privet(), Privet(constant_time=True), OpenDP(), Diffprivlib(), Numpy())
