"""Budgets in concentrated DP: the ρ that an (ε, δ) allows, and the cost of a query.

An adaptive mechanism chooses its next noise in view of earlier answers. In concentrated DP Σρ ≤ ρ is still a
proof then (Feldman & Zrnic 2021; Whitehouse et al. 2023). The privacy-loss distribution of the noise that was
used would not be.
"""

import math

from privet.accounting import Concentrated, fold
from privet.adjacency import Adjacency
from privet.arguments import open_fraction, positive
from privet.caveats import Caveat
from privet.ledger import Ledger

__all__ = ["ADAPTIVE", "choice_epsilon", "concentrated_budget", "measurement_scale", "spent_rho"]

_SLACK = 1e-9  # of the budget: more than the round-off of some hundred additions

ADAPTIVE = frozenset({Caveat.ADAPTIVE_PARAMETERS})


def concentrated_budget(*, epsilon: float, delta: float) -> float:
    """The largest ρ for which ρ-zCDP gives (ε, δ)-DP by the Concentrated accountant, less a little slack.

    >>> f"{concentrated_budget(epsilon=1.0, delta=1e-9):.5f}"
    '0.01497'
    """
    positive("epsilon", epsilon)
    open_fraction("delta", delta)
    low, high = 1e-20, max(epsilon, 1e-10)  # ρ-zCDP has a mean loss of ρ, so ε exceeds it for any useful δ
    while _epsilon(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _epsilon(middle, delta) <= epsilon else (low, middle)
    return low * (1 - _SLACK)


def measurement_scale(rho: float, adjacency: Adjacency) -> float:
    """σ of a marginal that costs ρ: one unit moves ``contribution_distance`` cells by one each."""
    return math.sqrt(adjacency.contribution_distance / (2 * rho))


def choice_epsilon(rho: float) -> float:
    """ε of a choice that costs ρ = ε²/8 (Cesar & Rogers 2021)."""
    return math.sqrt(8 * rho)


def spent_rho(ledger: Ledger) -> float:
    """The ρ of everything on a ledger."""
    return fold(Concentrated(), ledger.event, ledger.adjacency)


def _epsilon(rho: float, delta: float) -> float:
    return Concentrated().curve(rho).epsilon(delta).upper
