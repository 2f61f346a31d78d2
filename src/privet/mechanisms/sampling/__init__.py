"""Exact samplers of privacy noise: the law is the one that is named, not one close to it, so no δ is charged.

Numbers are drawn from the bits of a ``NoiseSource``, by comparing a uniform number with the law's cumulative sums
in as many bits as it takes. Tables and float64 with error bounds make that fast; whole numbers settle what they
leave open. Everything that is returned is an integer, so no float's last bits can leak (Mironov 2012).

How it works, what is proved and how fast it is: docs/noise.md.
"""

from privet.mechanisms.sampling.choice import choose
from privet.mechanisms.sampling.noise import discrete_gaussian, discrete_laplace
from privet.mechanisms.sampling.uniform import bernoulli, uniform_integers

__all__ = ["bernoulli", "choose", "discrete_gaussian", "discrete_laplace", "uniform_integers"]
