"""The attacks of ``bench/curator/under_attack.py`` against live curators: every secret without a budget, none with it."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("fastapi")

BENCH = Path(__file__).parents[2] / "bench" / "curator" / "under_attack.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("privet_bench_under_attack", BENCH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.mark.slow
@pytest.mark.parametrize("opened", ["open_in_process", "open_over_http"])
@pytest.mark.parametrize("name", ["averaging", "differencing", "Dinur and Nissim"])
def test_a_curator_under_attack(bench, name, opened):
    people = 12
    draw = np.random.default_rng(3)
    tables = [draw.integers(0, 2, people) for _ in range(people)]
    attack, count = bench.ATTACKS[name]
    given = tables if name == "differencing" else tables[:1]
    for cap in (0.2, bench.OFF):
        row = bench.run(name, attack, getattr(bench, opened), given, cap=cap, questions=count(people))
        assert row["refused_after"] is (cap != bench.OFF)
        if cap == bench.OFF:
            assert row["recovered"] == 1.0
        else:  # twelve coins at a ceiling of 0.6 at most: all twelve are right less than once in 400 draws
            assert row["recovered"] < 1.0
