"""Identification: is the truth the nearest of many candidates to what was recovered?

A reconstruction is worth what it tells about a person. A list of candidates (the truth among 999 others of
the same kind) measures that: rank 1 means that whoever has the list finds the person. The blind baseline is
one divided by the number of candidates for a target that is drawn from the list at random.
"""

import numpy as np

from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.recoveries import Criterion
from privet.views import Numbers, Rows

__all__ = ["first_of", "rank_truths"]


def rank_truths(recovered: Rows, truths: Rows, candidates: Rows) -> Numbers:
    """The rank of each truth among the candidates by correlation with what was recovered; 1 = nearest.

    The correlation is blind to brightness and contrast, which noise and clipping change. Ties count against
    the attack: a constant or missing recovery has the last rank. Candidates that equal the truth are not
    counted.

    >>> table = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> rank_truths(np.array([[0.2, 0.9, 0.1]]), table[:1], table).tolist()
    [1.0]
    """
    found, true, listed = (_standardise(rows) for rows in (recovered, truths, candidates))
    if found.shape != true.shape or listed.shape[1:] != true.shape[1:]:
        raise InvalidArgument(
            f"'recovered', 'truths' and 'candidates' must be rows of one shape, got {found.shape}, "
            f"{true.shape} and {listed.shape} numbers. Give them in the same form."
        )
    own = np.einsum("ij,ij->i", found, true)
    others = found @ listed.T
    others[true @ listed.T > 1.0 - 1e-9] = -np.inf  # the truth itself
    with np.errstate(invalid="ignore"):
        ranks: Numbers = 1.0 + (~(others < own[:, None] - 1e-12) & ~np.isneginf(others)).sum(axis=1)
    return ranks


def first_of(candidates: Rows, *, places: int = 1) -> Criterion:
    """A hit: the truth is among the first ``places`` of the candidates by likeness to what was recovered."""
    words = "first" if places == 1 else f"among the first {places}"
    return Criterion(
        f"{words} of {len(candidates):,} candidates",
        lambda recovered, truths: rank_truths(recovered, truths, candidates),
        float(places),
    )


def _standardise(rows: Rows) -> Numbers:
    """Each row with mean 0 and length 1; a constant row becomes 0."""
    flat = np.asarray(rows, dtype=np.float64).reshape(len(rows), -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    answer: Numbers = np.where(lengths > 1e-12, centred / np.maximum(lengths, 1e-12), 0.0)
    return answer


check_public_calls(__name__)
