"""How often all checks together may warn of a fair challenge.

A fair challenge is one in which coins decided who is a member, whatever the records are. Every test here
compares both sides by something that is computed without the coins, so all orders of the coins are equally
likely. ``FAMILY`` is the probability that any of the tests warns of a fair challenge; by Bonferroni's
inequality each of them gets an equal share.
"""

import numpy as np

from privet.scores import Bits, Challenge

__all__ = ["FAMILY", "LEVEL", "Drawn", "draw_sides"]

FAMILY = 0.02
# single columns, the classifier, class shares, labels that do not fit, other labellings, equal records, near
# pairs, accuracy and losses of references
_TESTS = 9
LEVEL = FAMILY / _TESTS

Drawn = np.ndarray


def draw_sides(challenge: Challenge, most: int, generator: np.random.Generator) -> Drawn:
    """At most ``most`` records of each side, in random order.

    The order must be random: ties are broken by position, and positions may tell the sides.
    """
    coin: Bits = challenge.members
    sides = [generator.permutation(np.flatnonzero(side))[:most] for side in (coin, ~coin)]
    return generator.permutation(np.concatenate(sides))
