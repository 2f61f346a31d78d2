"""The exact law of "the best of a random number of runs" on finitely many outcomes; shares no code with the
accountants.

The law of K is written down term by term from its definition (Papernot & Steinke 2022, Definitions 1 and 3),
and the shown outcome is enumerated over every order of the scores, ties included.
"""

import itertools
import math

import numpy as np

from privet.events import BestOfPoisson

_TERMS = 600


def number_of_runs(event):
    """P[K = k], k = 0, 1, …; what is cut off is returned too."""
    k = np.arange(_TERMS)
    if isinstance(event, BestOfPoisson):
        logs = k * math.log(event.mean) - event.mean - np.array([math.lgamma(n + 1) for n in k])
        masses = np.exp(logs)
    elif event.shape == 0:
        masses = np.append(0.0, (1 - event.stop) ** k[1:] / (k[1:] * math.log(1 / event.stop)))
    else:
        # The product of (l + η)/(l + 1) over l < k, times (1 − γ)^k/(γ^−η − 1).
        ratios = (k[:-1] + event.shape) / (k[:-1] + 1) * (1 - event.stop)
        masses = np.append(0.0, np.cumprod(ratios)) / (event.stop**-event.shape - 1)
    return masses, max(0.0, 1.0 - masses.sum())


def score_orders(outcomes):
    """Every way to score the outcomes, up to the scores' values: all weak orders."""
    for scores in itertools.product(range(outcomes), repeat=outcomes):
        if set(scores) == set(range(max(scores) + 1)):
            yield np.array(scores)


def shown(masses, scores, runs, known):
    """The law of the shown outcome; the last entry is "nothing", for K = 0. ``known`` keeps E[x^K]."""

    def expected(x):
        if round(x, 13) not in known:
            known[round(x, 13)] = float(runs @ np.power(x, np.arange(runs.size)))
        return known[round(x, 13)]

    law = np.zeros(len(masses) + 1)
    law[-1] = runs[0]
    below = 0.0
    for level in range(scores.max() + 1):
        group = scores == level
        held = masses[group].sum()
        ends = expected(below), expected(below + held)
        if held > 0:
            law[:-1][group] = (ends[1] - ends[0]) * masses[group] / held
        below += held
    return law


def hockey_stick(p, q, epsilon):
    """The larger of both orders."""
    y = math.exp(epsilon)
    return max(np.maximum(p - y * q, 0).sum(), np.maximum(q - y * p, 0).sum())
