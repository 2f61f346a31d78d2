"""What a claim allows of exposure: the ceiling of hits, and of the mean exposure.

A canary's secret is uniform on R. If it was left out, the model does not depend on it, so P[rank ≤ r] ≤
r/|R|: at most r secrets have a rank of r or less, ties counted against the attack. "The rank is at most r" is
a test of whether the canary is in the data, with a false-positive rate of at most r/|R|. So under a claim

    P[rank ≤ r | the canary is in]  ≤  tpr(r/|R|),

where ``tpr`` is that of the claim for all of its copies together: k copies are a group of k records. Where
the unit of the claim is a user who has all copies, they are one unit. No estimate enters, neither of the
baseline nor of a tail.

The mean follows: E[exposure] = Σ_{r < |R|} P[rank ≤ r]·(log₂(r+1) − log₂ r), each probability below its
ceiling. At ε = 0 this is ``compute_blind_exposure``, near 1.44 bits; it is log₂ |R| where nothing is claimed.

*Reference*: Carlini et al. 2019, section 4.2 (exposure); Balle, Cherubin & Hayes 2022 (reconstruction against
a blind baseline). The mean is our own.
"""

import math

import numpy as np

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee

__all__ = ["bound_hit_rate", "bound_mean_exposure"]


def bound_hit_rate(claim: Guarantee, *, rank: int, size: int, copies: int = 1) -> float:
    """The largest P[rank ≤ ``rank``] of a canary of so many copies, for any model under the claim.

    >>> from privet.adjacency import AddRemove
    >>> from privet.guarantees import PairCurve
    >>> claim = Guarantee(PairCurve(1.0, 0.0), AddRemove(), "claim")
    >>> round(bound_hit_rate(claim, rank=1, size=1000, copies=4) * 1000, 2)  # exp(4)
    54.6
    """
    if whole("rank", rank) > whole("size", size):
        raise InvalidArgument(f"'rank' must not exceed the {size} secrets, got {rank}. Give a smaller one.")
    return claim.group(size=whole("copies", copies)).tpr(fpr=rank / size)


def bound_mean_exposure(claim: Guarantee, *, size: int, copies: int = 1, per_bit: int = 8) -> float:
    """The largest mean exposure, in bits, of canaries of so many copies, for any model under the claim.

    ``per_bit`` is how often the ceiling is computed for each doubling of the rank: in between, that of the
    larger rank is taken, so the answer is rounded up by at most 1/``per_bit`` of its part.
    """
    group = claim.group(size=whole("copies", copies))
    total, low = 0.0, 1
    for high in _block_ends(whole("size", size), whole("per_bit", per_bit)):
        # Ranks low … high − 1 share the ceiling of the largest of them.
        share = math.log2(high) - math.log2(low)
        total += min(group.tpr(fpr=(high - 1) / size), 1.0) * share
        low = high
    return min(total, math.log2(size))


def _block_ends(size: int, per_bit: int) -> list[int]:
    bits = math.log2(size)
    ends = np.exp2(np.linspace(0.0, bits, math.ceil(bits * per_bit) + 1)[1:-1]).astype(np.int64).tolist()
    return sorted({end for end in ends if 1 < end < size} | {size} - {1})
