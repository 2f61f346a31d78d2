"""Write tests/golden/poisson_gaussian.json with the high-precision oracle.

    python -m tests.oracle.generate [--cells 600] [--seconds 1200] [--limit 60]

Runs through a seeded random permutation of the grid, so that every prefix of the table is a fair
sample of it.  Resumable: cells already in the file (resolved or not) are skipped; the file is
rewritten every few cells.  python-flint, when installed, makes it about ten times faster: it
replaces the one hot loop of the oracle; formulas, nodes and error control stay the oracle's.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from mpmath import mp, mpc, mpf

if __package__:
    from . import poisson_gaussian as oracle
else:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import poisson_gaussian as oracle

try:
    import flint
except ImportError:
    flint = None

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "poisson_gaussian.json"
DELTAS = (0.5, 0.1, 1e-2, 1e-5, 1e-8, 1e-12, 1e-16, 1e-20, 1e-30)
STEPS = (1, 2, 10, 100, 1000, 10**4, 10**6, 10**8)
SIGMAS = (0.1, 0.3, 0.5, 0.6, 0.8, 1.0, 1.5, 2.0, 5.0, 10.0, 100.0, 1000.0)
RATES = (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 1.0)
SEED = 20240229
DIGITS = 24
FLUSH_EVERY = 10

Cell = dict[str, float | int | str]
KEY = ("rate", "noise_multiplier", "steps", "delta")


def _to_arb(value: mpf) -> flint.arb:
    sign, mantissa, exponent, _ = value._mpf_
    return flint.arb((int(-mantissa if sign else mantissa), int(exponent)))


def _to_acb(value: mpc) -> flint.acb:
    value = mpc(value)
    return flint.acb(_to_arb(value.real), _to_arb(value.imag))


def _from_arb(value: flint.arb) -> mpf:
    mantissa, exponent = value.mid().man_exp()
    return mpf((int(mantissa), int(exponent)))


class FlintSum:
    """``oracle.exponential_sum`` in ball arithmetic (midpoints; the radii are rounding only)."""

    def __init__(self) -> None:
        self._source: Sequence[mpc] | None = None
        self._pairs: list[tuple[flint.acb, flint.acb]] = []

    def __call__(self, constants: Sequence[mpc], slopes: Sequence[mpc], u: mpc) -> mpc:
        flint.ctx.prec = mp.prec
        if self._source is not constants:
            self._source = constants
            self._pairs = [(_to_acb(g), _to_acb(s)) for g, s in zip(constants, slopes, strict=True)]
        power = _to_acb(u)
        total = flint.acb(0)
        for constant, slope in self._pairs:
            total += (power * slope + constant).exp()
        return mpc(_from_arb(total.real), _from_arb(total.imag))


def grid() -> list[Cell]:
    """All cells, in the seeded random order."""
    cells = [
        dict(zip(KEY, values, strict=True)) for values in itertools.product(RATES, SIGMAS, STEPS, DELTAS)
    ]
    random.Random(SEED).shuffle(cells)
    return cells


def _key(cell: Cell) -> tuple[float | int | str, ...]:
    return tuple(cell[name] for name in KEY)


def _raise_timeout(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError


def resolve(cell: Cell, limit: float) -> Cell:
    """The cell with epsilon and direction, or with the reason why there are none."""
    summer = FlintSum() if flint else oracle.exponential_sum
    signal.signal(signal.SIGALRM, _raise_timeout)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        epsilon, direction = oracle.binding_epsilon(**cell, digits=DIGITS, summer=summer)
    except TimeoutError:
        return {**cell, "reason": f"not finished in {limit:g} s"}
    except (ArithmeticError, ValueError) as error:
        return {**cell, "reason": f"{type(error).__name__}: {error}"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    text = mp.nstr(epsilon, DIGITS, strip_zeros=False) if epsilon else "0"
    return {**cell, "epsilon": text, "direction": direction}


def load() -> tuple[list[Cell], list[Cell]]:
    """The resolved and the unresolved cells of the table, if there is one."""
    if not GOLDEN.exists():
        return [], []
    table = json.loads(GOLDEN.read_text())
    return table["cells"], table["unresolved"]


def save(cells: list[Cell], unresolved: list[Cell]) -> None:
    """Rewrite the table atomically, one cell per line."""
    source = (
        "tests/oracle/generate.py: smallest epsilon >= 0 with delta(epsilon) <= delta in both"
        " directions, by Mellin inversion along deformed contours in multiple precision (closed"
        f" forms for steps=1 or rate=1), two independent quadratures agreeing to {DIGITS} digits;"
        " rate, noise_multiplier and delta are exactly the doubles shown; ties (epsilon=0 or"
        f" rate=1) are listed as 'remove'. {datetime.date.today().isoformat()}"
    )
    parts = [f'{{\n"source": {json.dumps(source)}']
    for name, rows in (("cells", cells), ("unresolved", unresolved)):
        parts.append(f'"{name}": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]")
    temporary = GOLDEN.with_suffix(".tmp")
    temporary.write_text(",\n".join(parts) + "\n}\n")
    temporary.replace(GOLDEN)


def pending(done: set[tuple[float | int | str, ...]]) -> Iterator[Cell]:
    """The cells still to do, in order."""
    return (cell for cell in grid() if _key(cell) not in done)


def main() -> None:
    """Extend the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=600, help="stop at this many resolved cells")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one cell")
    parser.add_argument("--retry", action="store_true", help="try unresolved cells again")
    options = parser.parse_args()
    GOLDEN.parent.mkdir(parents=True, exist_ok=True)
    cells, unresolved = load()
    if options.retry:
        unresolved = []
    start = time.monotonic()
    for count, cell in enumerate(pending({_key(row) for row in cells + unresolved})):
        if len(cells) >= options.cells or time.monotonic() - start > options.seconds:
            break
        begin = time.monotonic()
        row = resolve(cell, options.limit)
        (cells if "epsilon" in row else unresolved).append(row)
        outcome = row.get("epsilon", row.get("reason"))
        took = time.monotonic() - begin
        print(
            f"{len(cells)}+{len(unresolved)} {took:6.2f}s {_key(row)} {outcome} {row.get('direction', '')}",
            flush=True,
        )
        if count % FLUSH_EVERY == 0:
            save(cells, unresolved)
    save(cells, unresolved)


if __name__ == "__main__":
    main()
