"""Graphs of masks: tails against scipy, and failures that are no more frequent than the plan says.

Where failures are counted, the plan is for so weak a security that they occur; the bound must hold with a false-alarm rate
of 1e-8.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from privet.errors import InvalidArgument
from privet.federated.sums import HonestServer, MaliciousServer
from privet.federated.sums.secure_rounds import draw_neighbours, seat_clients
from privet.federated.sums.tails import log_at_least, log_below

FALSE_ALARM = 1e-8


@given(st.data())
def test_tails_are_those_of_the_hypergeometric_law(data):
    population = data.draw(st.integers(1, 60))
    marked, draws = (data.draw(st.integers(0, population)) for _ in range(2))
    least = data.draw(st.integers(0, draws + 1))
    law = hypergeom(population, marked, draws)
    above = math.exp(log_at_least(least, population=population, marked=marked, draws=draws))
    below = math.exp(log_below(least, population=population, marked=marked, draws=draws))
    assert above == pytest.approx(law.sf(least - 1), rel=1e-5, abs=1e-12)
    assert below == pytest.approx(law.cdf(least - 1), rel=1e-5, abs=1e-12)
    assert above + below >= 1


def is_connected(graph, staying):
    seen, todo = set(), [next(iter(staying))]
    while todo:
        seat = todo.pop()
        if seat not in seen:
            seen.add(seat)
            todo += [other for other in graph[seat] if other in staying]
    return seen == staying


def test_a_curious_server_fails_no_more_often_than_planned():
    threat = HonestServer(colluding=0.2, dropouts=0.3, privacy_bits=2, delivery_bits=2)
    plan = threat.plan(40)
    assert plan.neighbours < 20
    corrupt, gone = set(range(8)), set(range(8, 20))
    leaks = failures = 0
    runs = 1_000
    for _ in range(runs):
        graph = seat_clients(range(40), plan.neighbours)
        assert all(len(peers) == plan.neighbours for peers in graph.values())
        honest = set(range(40)) - corrupt
        leaks += any(len(corrupt & set(graph[c])) >= plan.threshold for c in honest) or not is_connected(
            graph, honest - gone
        )
        failures += any(len(set(graph[c]) - gone) < plan.threshold for c in graph)
    assert leaks <= binom.isf(FALSE_ALARM, runs, 2**plan.log2_leak)
    assert failures <= binom.isf(FALSE_ALARM, runs, 2**plan.log2_failure)


def test_against_a_malicious_server_a_quorum_excludes_another():
    for threat in (
        MaliciousServer(colluding=0.2, dropouts=0.2),
        MaliciousServer(colluding=0.05, dropouts=0.1, privacy_bits=60),
        MaliciousServer(colluding=0.0, dropouts=0.0),
    ):
        for clients in (5, 20, 100, 300):
            plan = threat.plan(clients)
            corrupt = math.floor(threat.colluding * clients)
            most = min(corrupt, plan.neighbours)
            seen = log_at_least(most, population=clients - 1, marked=corrupt, draws=plan.neighbours)
            if seen > -threat.privacy_bits * math.log(2):  # so many colluding neighbours do occur
                assert 2 * plan.threshold > plan.neighbours + most
            assert 2 <= plan.together <= clients - corrupt
            assert plan.log2_leak <= -threat.privacy_bits + 1e-6
            assert plan.log2_failure <= -threat.delivery_bits


def test_a_clients_own_choice_is_uniform():
    counts = np.zeros(12)
    for _ in range(3_000):
        chosen = draw_neighbours(0, range(13), 4)
        assert len(set(chosen)) == 4
        assert 0 not in chosen
        counts[np.array(chosen) - 1] += 1
    low, high = binom.isf([1 - FALSE_ALARM, FALSE_ALARM], 3_000, 1 / 3)
    assert low <= counts.min() <= counts.max() <= high


def test_the_number_of_neighbours_grows_as_the_logarithm():
    threat = HonestServer(colluding=0.1, dropouts=0.2)
    sizes = [2**power for power in range(7, 12)]
    found = [threat.plan(size).neighbours for size in sizes]
    assert found == sorted(found)
    assert found[-1] < 1.8 * found[0]  # where the clients become 16 times as many


def test_the_planned_numbers_stay():
    """A change here changes how many neighbours a deployment needs; both ends must have the same."""
    plan = HonestServer(colluding=0.2, dropouts=0.3).plan(400)
    assert (plan.neighbours, plan.threshold, plan.together) == (110, 52, 200)
    plan = MaliciousServer(colluding=0.2, dropouts=0.3).plan(100)
    assert (plan.neighbours, plan.threshold, plan.together) == (82, 52, 37)


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(InvalidArgument, match="No graph of 10 clients stands 60% of them colluding"):
        HonestServer(colluding=0.6, dropouts=0.5).plan(10)
    with pytest.raises(InvalidArgument, match="'colluding' must be at least 0 and below 1"):
        MaliciousServer(colluding=1.0, dropouts=0.0)
