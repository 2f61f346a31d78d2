"""Composed Poisson-sampled Gaussians against tests/oracle, which shares no code with the accountants."""

import json
from pathlib import Path

import pytest

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.errors import OutOfReach
from privet.events import dp_sgd

_TABLE = json.loads((Path(__file__).parent / "poisson_gaussian.json").read_text(encoding="utf-8"))["cells"]
_CELLS = sorted(_TABLE, key=lambda c: (c["rate"], c["noise_multiplier"], c["steps"], -c["delta"]))
_SAMPLE = _CELLS[:: max(1, len(_CELLS) // 40)]


def bounds(cell):
    event = dp_sgd(noise_multiplier=cell["noise_multiplier"], sampling_rate=cell["rate"], steps=cell["steps"])
    return account(event, adjacency=AddRemove()).epsilon_bounds(delta=cell["delta"])


def unsound(cell, found):
    exact = float(cell["epsilon"])
    return found.lower > exact * (1 + 1e-15) or found.upper < exact * (1 - 1e-15)


def name(cell):
    return f"q={cell['rate']:g} σ={cell['noise_multiplier']:g} T={cell['steps']} δ={cell['delta']:g}"


@pytest.mark.parametrize("cell", _SAMPLE, ids=name)
def test_a_sample_of_the_table(cell):
    found = bounds(cell)
    assert not unsound(cell, found), (found, cell["epsilon"])
    assert found.relative_gap <= 1e-4, (found, cell["epsilon"])


@pytest.mark.slow
def test_the_whole_table():
    """No cell unsound or refused; gaps at most 1e-4 in 97 cells of 100 and at most 1e-6 in nine of ten.

    The looser ones are listed in docs/known-limits.md.
    """
    wrong, refused, gaps = [], [], []
    for cell in _CELLS:
        try:
            found = bounds(cell)
        except OutOfReach:
            refused.append(name(cell))
            continue
        gaps.append((found.relative_gap, name(cell)))
        if unsound(cell, found):
            wrong.append((name(cell), found, cell["epsilon"]))
    assert not wrong, f"{len(wrong)} of {len(_CELLS)} cells are unsound: {wrong[:20]}"
    assert not refused, f"{len(refused)} of {len(_CELLS)} cells are refused: {refused[:20]}"
    loose = sorted((gap for gap in gaps if gap[0] > 1e-4), reverse=True)
    assert len(loose) <= 0.03 * len(gaps), f"{len(loose)} of {len(_CELLS)} cells are loose: {loose[:20]}"
    assert sum(gap <= 1e-6 for gap, _ in gaps) >= 0.9 * len(gaps)


_FAILURES = [(1e-12, 4.17446869913242), (1e-16, 4.95883182559943)]  # by tests/oracle, last digit rounded


@pytest.mark.parametrize(("delta", "exact"), _FAILURES)
def test_where_a_fourier_transform_without_a_tilt_fails(delta, exact):
    """Issue 2: dp-accounting's PLD gives 4.15273 at δ = 1e-12, whose true δ is 1.27e-12, and inf at 1e-16."""
    event = dp_sgd(noise_multiplier=1.1, sampling_rate=256 / 60_000, steps=14_062)
    found = account(event, adjacency=AddRemove()).epsilon_bounds(delta=delta)
    assert found.lower <= exact + 1e-14
    assert found.upper >= exact - 1e-14
    assert found.relative_gap <= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "exact"), _FAILURES)
def test_the_oracle_still_says_so(oracle, delta, exact):
    found = oracle.epsilon(rate=256 / 60_000, noise_multiplier=1.1, steps=14_062, delta=delta, digits=16)
    assert float(found) == pytest.approx(exact, abs=1e-14)
