"""How members were drawn: by a fair coin each, or as a random half.

The order of the records must not tell which.

The theorems on one run are about independent fair coins, on records whose order was fixed before the coins
fell. Two cases are treated differently, because there the number of members is fixed beforehand and not
random:

*Equally many members and others*, where people give two sides of the same size; and *records in two blocks*,
all members before all others or the other way round, as ``Scores.of`` writes them. (Fair coins do that with
probability (n + 1)/2ⁿ⁻¹ at most.) Then records of the larger side are drawn until both sides are equal, and
the part that is used for choosing has equally many of both.

*What a random half changes.* Let V be the number of right ones of r = k₊ + k₋ guesses, among N records. At ε
= 0 its variance is ¼(r + (r − (k₊ − k₋)²)/(N − 1)), that of a binomial count times N/(N − 1) at most; and if
everybody is guessed, V is even. So P[V ≥ v] can be larger than for coins, at ε = 0 and at every other ε. It
is at most what the theorem for coins says of v − 1. So one right guess is not counted wherever the members
are a random half.

*Why one is enough*, with δ = 0. Let the run be ε-DP when a record is added or removed. Then two halves that
differ by a swap have outputs within the factor e^{2ε}. Let everybody be guessed, and h of n calls "member" be
right. From a half with h each swap of a wrongly called member with a wrongly denied one leads to a half with
h + 1. Counting these pairs from both ends, P[h + 1]/P[h] ≤ e^{2ε} N_{h+1}/N_h for the numbers N_h of halves
with h: h is at most a Fisher's non-central hypergeometric count with the odds e^{2ε}, in the likelihood-ratio
order. In the tail, P[2h ≥ v] ≤ P[Binomial(2n, e^ε/(1 + e^ε)) ≥ v − 1]; the tests check it for sizes and ε on
a grid. This is needed, and not only for the proof: with 15 + 15 records an ε = 2 run may allow all guesses to
be right with probability 9.5 %, and by the theorem for coins 30 of 30 would refute ε = 2 at 5 %. With
abstention the largest P[V ≥ v] over *all* ε-DP runs is a linear program; the tests solve it for small N, and
find it below the binomial tail at v − 1. With abstention at larger N, and with δ > 0, nothing is proved for a
random half; the theorem for coins is used, one guess less.
"""

from typing import NamedTuple

import numpy as np

from privet.auditing.guesses import GuessResult, require_fair_coins
from privet.auditing.thresholds import SelectionSplit
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["Draw", "balance_draw", "discount_random_half", "max_remaining"]


class Draw(NamedTuple):
    """Scores and coins; ``halved`` says that the members are a random half, and not drawn by a coin each."""

    values: Numbers
    members: Bits
    halved: bool

    def selection_mask(self, split: SelectionSplit) -> Bits:
        """Which records are used for choosing."""
        return split.stratified_mask(self.members) if self.halved else split.blind_mask(len(self.members))

    def discount(self, line: GuessResult) -> GuessResult:
        """The right guesses that the theorem for coins may count."""
        return discount_random_half(line) if self.halved else line


def discount_random_half(line: GuessResult) -> GuessResult:
    """One right guess less: see the docstring of this module."""
    return GuessResult(line.made, max(line.right - 1, 0))


def balance_draw(scores: Scores) -> Draw:
    """The scores; balanced where the order or the numbers show that no fair coins decided."""
    require_fair_coins(scores)
    members = scores.members
    inside, outside = np.flatnonzero(members), np.flatnonzero(~members)
    side_by_side = np.count_nonzero(members[1:] != members[:-1]) == 1
    if len(inside) != len(outside) and not side_by_side:
        return Draw(scores.values, members, halved=False)
    count, generator = min(len(inside), len(outside)), np.random.default_rng(0)
    if len(inside) != len(outside):
        inside, outside = (generator.choice(side, count, replace=False) for side in (inside, outside))
    chosen = np.concatenate([inside, outside])
    return Draw(scores.values[chosen], members[chosen], halved=True)


def max_remaining(members: int, others: int, split: SelectionSplit) -> int:
    """The largest number of records that are left to guess after a part was used for choosing."""
    halves = 2 * split.remaining(min(members, others))
    return halves if members == others else max(halves, split.remaining(members + others))
