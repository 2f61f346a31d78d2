"""How members were drawn: by a fair coin each, or as a random half. The order of the records must not tell.

The theorems on one run are about independent fair coins, on records whose order was fixed before the coins fell. Two cases are
treated apart, because there the number of members is known beforehand and not by chance:

*As many members as others*, as where people give two sides of the same size; and *records that stand side by side*, all members
before all others or the other way round, which is how ``Scores.of`` writes them. (Fair coins do that with probability
(n + 1)/2ⁿ⁻¹ at most.) Of the larger side as many are then drawn as the smaller one has, and a part of the records is set apart for
choosing with as many of one side as of the other.

*What a random half changes.* At ε = 0 the members are a uniformly random half of N records. Of k₊ + k₋ = r guesses the number of
right ones, V, then has the variance ¼(r + (r − (k₊ − k₋)²)/(N − 1)), that of a binomial count times N/(N − 1) at most; and if everybody
is guessed, V is even. So P[V ≥ v] can be larger than P[Binomial(r, ½) ≥ v]. It is at most P[Binomial(r, ½) ≥ v − 1], which the tests
check for every N up to 600 without simulation. A bound on a random half is therefore 0 unless one right guess less would still refute ε = 0.

*At ε > 0*, with δ = 0 and everybody guessed. Let the run be ε-DP when a record is added or removed. Then two halves that differ by a
swap have outputs within the factor e^{2ε}. Let h of n calls "member" be right. From a half with h each swap of a wrongly called member
with a wrongly denied one leads to a half with h + 1. Counting these pairs from both ends, P[h + 1]/P[h] ≤ e^{2ε} N_{h+1}/N_h for
the numbers N_h of halves with h: h is at most a Fisher's non-central hypergeometric count with the odds e^{2ε}, in the
likelihood-ratio order. Its mean share is e^ε/(1 + e^ε) up to O(1/n), and V = 2h has the variance of the binomial count of the theorem for
coins. So the two designs agree but for the evenness of V. With abstention or δ > 0 nothing is proved for a random half; the
theorem for coins is used.
"""

from typing import NamedTuple

import numpy as np

from privet.auditing.guesses import Guessed, need_fair_coins
from privet.auditing.proportions import few_errors
from privet.auditing.thresholds import Split
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["Draw", "draw_of", "most_left"]


class Draw(NamedTuple):
    """Scores and coins; ``halved`` where the members are a random half, and no coin each."""

    values: Numbers
    members: Bits
    halved: bool

    def seen(self, split: Split) -> Bits:
        """Which records to choose on."""
        return split.of_both(self.members) if self.halved else split.blind(len(self.members))

    def told(self, line: Guessed, level: float) -> bool:
        """Whether ε = 0 may be refuted at all at this level."""
        if not self.halved:
            return True
        return float(few_errors(line.made - line.right + 1, line.made, 0.5)) < level


def draw_of(scores: Scores) -> Draw:
    """The scores, as many of one side as of the other where the order or the numbers tell of coins that were none."""
    need_fair_coins(scores)
    members = scores.members
    inside, outside = np.flatnonzero(members), np.flatnonzero(~members)
    side_by_side = np.count_nonzero(members[1:] != members[:-1]) == 1
    if len(inside) != len(outside) and not side_by_side:
        return Draw(scores.values, members, halved=False)
    count, generator = min(len(inside), len(outside)), np.random.default_rng(0)
    if len(inside) != len(outside):
        inside, outside = (generator.choice(side, count, replace=False) for side in (inside, outside))
    kept = np.concatenate([inside, outside])
    return Draw(scores.values[kept], members[kept], halved=True)


def most_left(members: int, others: int, split: Split) -> int:
    """How many records are left to guess, at most, after a part was set apart."""
    halves = 2 * split.left(min(members, others))
    return halves if members == others else max(halves, split.left(members + others))
