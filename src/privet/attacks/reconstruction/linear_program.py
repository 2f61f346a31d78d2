"""Reconstruction by linear programming: robust where some answers are wild.

The bits x in [0, 1] with the smallest Σ|a − Ax|. The sum of absolute errors hardly minds a few answers that
are far off, while one such answer moves every estimate of least squares.

Reference: Dwork, McSherry & Talwar 2007, "The price of privacy and the limits of LP decoding": with Gaussian
queries this programme corrects any share ρ < 0.239 of arbitrary errors. *Deviations*: queries are any
weights, and x is held in [0, 1]; Dinur & Nissim 2003 instead ask for any x that is consistent with a known
bound on the errors.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from privet.attacks.reconstruction.linear_attack import LinearReconstruction
from privet.attacks.reconstruction.subset_sums import SubsetSums
from privet.errors import OutOfReach
from privet.public_calls import check_public_calls
from privet.views import Numbers

__all__ = ["LinearProgram"]


@final
@dataclass(frozen=True)
class LinearProgram(LinearReconstruction):
    """The bits with the smallest sum of absolute errors, by HiGHS.

    >>> generator = np.random.default_rng(0)
    >>> bits, queries = generator.integers(0, 2, 30), generator.integers(0, 2, (120, 30))
    >>> answers = queries @ bits + generator.uniform(-1, 1, 120)
    >>> answers[::10] = 1000.0  # one answer of ten says nothing
    >>> bool((LinearProgram().recover(SubsetSums(queries, answers)) == bits).all())
    True
    """

    name: ClassVar[str] = "linear programming"

    def estimate(self, published: SubsetSums) -> Numbers:
        count, people = len(published), published.people
        unit = sparse.identity(count, format="csr")
        weights = sparse.hstack(
            [sparse.csr_matrix(published.queries, dtype=np.float64), unit, -unit], format="csc"
        )
        costs = np.concatenate([np.zeros(people), np.ones(2 * count)])
        bounds = [(0.0, 1.0)] * people + [(0.0, np.inf)] * (2 * count)
        found = linprog(costs, A_eq=weights, b_eq=published.answers, bounds=bounds, method="highs")
        if found.x is None:
            raise OutOfReach(
                f"The linear programme of {count} sums over {people} people was not solved. Scale the "
                "answers to a moderate size, or take "
                f"LeastSquares."
            )
        estimates: Numbers = np.clip(found.x[:people], 0.0, 1.0)
        return estimates


check_public_calls(__name__)
