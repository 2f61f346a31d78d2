"""Reconstruction by least squares: fast, and as good as any linear method where errors are alike.

With the public share p of ones as prior, each bit has variance p(1 − p); an answer's error has variance σ².
The best linear estimate of the bits is p + (AᵀA + λI)⁻¹Aᵀ(a − pA1) with λ = σ²/(p(1 − p)). It tends to the
least-squares solution for small errors and to the blind guess for large ones. Estimates are cut off at 0 and
1, and rounded.

Where σ is not published, it is estimated from the residuals of the plain solution, which needs more answers
than people; else λ is small.

One wild answer moves every estimate: ``LinearProgram`` is robust against that.

Reference: Dinur & Nissim 2003, "Revealing information while preserving privacy", who decode by linear
programming. *Deviation*: the prior.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import lsqr

from privet.attacks.reconstruction.linear_attack import LinearReconstruction
from privet.attacks.reconstruction.subset_sums import SubsetSums
from privet.public_calls import check_public_calls
from privet.views import Numbers

__all__ = ["LeastSquares"]

_MOST_PEOPLE = 4000  # for people × people numbers; above, the equations are solved by iterations
_SMALL = 1e-6  # λ relative to the mean of the diagonal, where nothing is known of the noise
_EXACT = 2**24  # whole numbers up to this are exact in 32 bits


@final
@dataclass(frozen=True)
class LeastSquares(LinearReconstruction):
    """Least squares with the public share of ones as prior, cut off at 0 and 1.

    >>> generator = np.random.default_rng(0)
    >>> bits, queries = generator.integers(0, 2, 50), generator.integers(0, 2, (200, 50))
    >>> answers = queries @ bits + generator.uniform(-1, 1, 200)
    >>> bool((LeastSquares().recover(SubsetSums(queries, answers)) == bits).all())
    True
    """

    name: ClassVar[str] = "least squares"

    def estimate(self, published: SubsetSums) -> Numbers:
        queries, people = published.queries, published.people
        start = np.full(people, self.prior)
        rest = published.answers - queries @ start
        solver = _Iterations(queries, rest) if people > _MOST_PEOPLE else _NormalEquations(queries, rest)
        spread = self.prior * (1 - self.prior)
        variance = None if published.noise is None else published.noise**2
        if variance is None and len(published) > people:
            plain = solver.solve(_SMALL * solver.diagonal)
            variance = float(
                np.mean((rest - queries @ plain) ** 2) * len(published) / (len(published) - people)
            )
        damping = (
            _SMALL * solver.diagonal if variance is None else max(variance / spread, _SMALL * solver.diagonal)
        )
        return np.clip(start + solver.solve(damping), 0.0, 1.0)


@final
class _NormalEquations:
    """AᵀA, once for every λ."""

    def __init__(self, queries: Any, rest: Numbers) -> None:  # noqa: ANN401
        single = _fits_single(queries)
        weights = queries.astype(np.float32 if single else np.float64, copy=False)
        self._gram = (weights.T @ weights).astype(np.float64)
        self._right = (
            weights.T.astype(np.float64, copy=False) @ rest
            if not single
            else _multiply_transposed(weights, rest)
        )
        self.diagonal = max(float(np.diag(self._gram).mean()), 1e-300)

    def solve(self, damping: float) -> Numbers:
        damped = self._gram.copy()
        damped.flat[:: len(damped) + 1] += damping
        answer: Numbers = cho_solve(cho_factor(damped, overwrite_a=True, check_finite=False), self._right)
        return answer


@final
class _Iterations:
    """The same by LSQR, which needs no people × people numbers."""

    def __init__(self, queries: Any, rest: Numbers) -> None:  # noqa: ANN401
        self._queries, self._rest = queries, rest
        self.diagonal = max(float(np.mean((queries**2).sum(axis=0))), 1e-300)

    def solve(self, damping: float) -> Numbers:
        answer: Numbers = lsqr(self._queries, self._rest, damp=np.sqrt(damping), atol=1e-7, btol=1e-7)[0]
        return answer


def _fits_single(queries: Any) -> bool:  # noqa: ANN401
    """Whether AᵀA is exact in 32 bits: whole weights whose products add up to less than 2²⁴."""
    largest = float(np.abs(queries).max(initial=0.0))
    return largest**2 * len(queries) < _EXACT and bool((queries == np.rint(queries)).all())


def _multiply_transposed(weights: Any, rest: Numbers) -> Numbers:  # noqa: ANN401
    """Aᵀr in 64 bits, in parts, so that no second copy of A is made."""
    total = np.zeros(weights.shape[1])
    for start in range(0, len(weights), 512):
        total += weights[start : start + 512].T.astype(np.float64) @ rest[start : start + 512]
    return total


check_public_calls(__name__)
