"""Exact samplers of privacy noise: the distribution is exactly the named one, so sampling costs no δ.

Numbers are drawn from the bits of a ``NoiseSource``, by comparing a uniform number with the distribution's
cumulative sums in as many bits as it takes. Tables and float64 with error bounds make that fast; exact
integers decide the cases that these leave open. Every result is an integer, so no float's last bits can leak
(Mironov 2012).

*How data flow*: ``noise`` chooses a sampler (``integer_samplers``) over a table (``cumulative_table``) of the
weights (``decay``), which ``exponentials`` encloses. ``choice`` and ``uniform`` are samplers of their own.

docs/noise.md has the method, the proofs and the speed.
"""

from privet.mechanisms.sampling.choice import choose
from privet.mechanisms.sampling.noise import discrete_gaussian, discrete_laplace
from privet.mechanisms.sampling.uniform import bernoulli, uniform_integers

__all__ = ["bernoulli", "choose", "discrete_gaussian", "discrete_laplace", "uniform_integers"]
