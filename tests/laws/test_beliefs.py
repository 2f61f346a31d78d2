"""The posterior interval holds for everything that is computed from the outputs: by enumeration of small laws."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.beliefs import least_loss_bound
from privet.errors import NotProved
from privet.events import Opaque


def _outputs(epsilons):
    """P and Q of every output of several randomised responses, by their definition."""
    p, q = [], []
    for signs in product((1, -1), repeat=len(epsilons)):
        p.append(math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True)))
        q.append(math.prod(1 / (1 + math.exp(s * e)) for s, e in zip(signs, epsilons, strict=True)))
    return np.array(p), np.array(q)


def _worst_outside(p, q, loss):
    """The most probable that |ln P(S)/Q(S)| > loss can be made by joining outputs: upper and lower sets of the ratio."""
    order = np.argsort(-(np.log(p) - np.log(q)))
    ps, qs = np.cumsum(p[order]), np.cumsum(q[order])
    told = np.log(ps / qs) > loss * (1 + 1e-9)
    up = ps[told].max(initial=0.0)
    ps, qs = np.cumsum(p[order][::-1]), np.cumsum(q[order][::-1])
    told = np.log(qs / ps) > loss * (1 + 1e-9)
    return up + ps[told].max(initial=0.0)


@settings(max_examples=100)
@given(
    epsilons=st.lists(st.floats(0.05, 1.5), min_size=1, max_size=8),
    delta=st.sampled_from([1e-4, 1e-3, 1e-2, 0.1, 0.3]),
)
def test_joined_outputs_leave_the_interval_with_at_most_delta(epsilons, delta):
    """And not much sooner: the least bound is within 0.1 % of what some joined output reaches."""
    p, q = _outputs(epsilons)

    def profile(a):
        return float(np.maximum(p - math.exp(a) * q, 0.0).sum())

    start = brentq(lambda a: profile(a) - delta, 0.0, sum(epsilons) + 1) if profile(0.0) > delta else 0.0
    loss = least_loss_bound(profile, delta, start)
    assert loss is not None
    assert _worst_outside(p, q, loss) <= delta * (1 + 1e-9)
    assert _worst_outside(q, p, loss) <= delta * (1 + 1e-9)
    places = np.linspace(0.0, max(loss, 1e-6), 2000)
    shares = np.array([profile(float(a)) for a in places]) / delta
    usable = shares < 1
    proved = places[usable] + np.log1p(shares[usable] * np.exp(-places[usable])) - np.log1p(-shares[usable])
    assert loss <= proved.min(initial=math.inf) * (1 + 1e-3)


def test_a_flat_profile_proves_no_bound():
    assert least_loss_bound(lambda _: 1e-6, 1e-6, 1.0) is None
    claim = account(Opaque(epsilon=0.5, delta=1e-6), adjacency=AddRemove())
    assert claim.loss_bound(delta=2e-6) < math.log(1 + 2 * math.exp(0.5)) * 1.001
    with pytest.raises(NotProved):
        claim.loss_bound(delta=1e-6)
