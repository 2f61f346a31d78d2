"""An ε that is certainly spent, measured from samples of two neighbours. It knows nothing of any mechanism.

A quarter of the samples choose the most telling event, of the kinds {x ≥ t}, {x ≤ t} and {x = v}; the others measure
it, so that choosing costs nothing in confidence. If an event has probability p under one neighbour and q under the
other, (ε, δ)-DP means p ≤ exp(ε) q + δ; with Clopper & Pearson's bounds, p from below and q from above, at half of
``failure`` each, ε ≥ ln((p − δ)/q) with probability at least 1 − failure.
"""

import math

import numpy as np
from scipy.special import betaincinv

__all__ = ["epsilon_lower_bound"]


def epsilon_lower_bound(first, second, *, delta=0.0, failure=1e-6):
    """The larger of the bounds by one order of neighbours and by the other; each may fail with failure/2."""
    first, second = np.asarray(first), np.asarray(second)
    return max(_one_way(first, second, delta, failure / 2), _one_way(second, first, delta, failure / 2), 0.0)


def _one_way(first, second, delta, failure):
    cut, cut_other = first.size // 4, second.size // 4
    seen, kept, seen_other, kept_other = first[:cut], first[cut:], second[:cut_other], second[cut_other:]
    event = max(
        _events(np.concatenate([seen, seen_other])), key=lambda e: _bound(e, seen, seen_other, delta, failure)
    )
    return _bound(event, kept, kept_other, delta, failure)


def _bound(event, first, second, delta, failure):
    below = _lower(int(event(first).sum()), first.size, failure / 2)
    above = _upper(int(event(second).sum()), second.size, failure / 2)
    return math.log((below - delta) / above) if below > delta else -math.inf


def _events(values):
    """Threshold events at forty quantiles, and one event for each of at most forty frequent values."""
    found = []
    for cut in np.unique(np.quantile(values, np.linspace(0.01, 0.99, 40), method="inverted_cdf")):
        found += [lambda x, cut=cut: x >= cut, lambda x, cut=cut: x <= cut]
    levels, counts = np.unique(values, return_counts=True)
    for level in levels[np.argsort(-counts)[:40]]:
        found.append(lambda x, level=level: x == level)
    return found


def _lower(hits, trials, failure):
    return float(betaincinv(hits, trials - hits + 1, failure)) if hits > 0 else 0.0


def _upper(hits, trials, failure):
    return float(betaincinv(hits + 1, trials - hits, 1 - failure)) if hits < trials else 1.0
