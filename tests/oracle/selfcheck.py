"""Check the oracle against everything known without it:  python -m tests.oracle.selfcheck

1. epsilons published or computed by others, to the digits known;
2. steps = 1: contour method against the closed form, in both directions;
3. steps = 2: contour method against the exact integral of the closed form over one step.
Takes a few minutes: it is all pure mpmath.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from mpmath import mp, mpf

if __package__:
    from . import poisson_gaussian as oracle
else:  # run as a script
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    import poisson_gaussian as oracle

DIGITS = 16

KNOWN = (  # rate, noise multiplier, steps, delta, epsilon
    (256 / 60000, 1.1, 14062, 1e-5, 2.38160),
    (1e-4, 0.6, 10**5, 1e-6, 0.963278),
    (1024 / 1e6, 0.7, 10**4, 1e-7, 2.13720),
    (0.5, 20.0, 1000, 1e-6, 3.75509),
    (1e-3, 10.0, 1000, 1e-8, 0.0133524),
    (0.01, 0.4, 2000, 1e-5, 38.7360),
    (1.0, 10.0, 100, 1e-6, 4.886554),
)

SMALL = (  # rate, noise multiplier, epsilon
    (0.01, 0.1, 40.0),
    (0.1, 0.5, 1.5),
    (0.5, 1.0, 0.3),
    (0.9, 3.0, 0.2),
    (1e-4, 1.0, 1e-4),
    (1e-3, 0.3, 0.001),
    (0.01, 30.0, 0.0005),
)


def two_steps(step: oracle.Step, epsilon: mpf) -> mpf:
    """delta(eps) for two steps as E_P delta_1(eps - L(x)) over the first step's output x."""
    one = oracle.Step(step.rate, step.sigma, 1, step.direction)
    q, sigma = mpf(step.rate), mpf(step.sigma)

    def integrand(x: mpf) -> mpf:
        ratio = 1 - q + q * mp.exp((2 * x - 1) / (2 * sigma**2))
        density = mp.npdf(x, 0, sigma) * (ratio if step.remove else 1)
        loss = mp.log(ratio) if step.remove else -mp.log(ratio)
        return density * oracle.closed_delta(one, epsilon - loss, DIGITS)

    with mp.workdps(30):
        edges = {mean + k * sigma / 2 for k in range(-28, 29) for mean in (0, 1)}
        kink = _kink(step, epsilon)
        if kink is not None:
            edges |= {kink + sign * sigma**2 * mpf(2) ** -k for k in range(70) for sign in (-1, 1)}
            edges.add(kink)
        points = sorted(edges)
        return mp.fsum(_gauss(integrand, a, b) for a, b in pairwise(points))


def _kink(step: oracle.Step, epsilon: mpf) -> mpf | None:
    """Where eps - L(x) passes the end of the second step's loss range, if it does."""
    q, sigma = mpf(step.rate), mpf(step.sigma)
    ratio = mp.exp(epsilon) / (1 - q) if step.remove else mp.exp(-epsilon) / (1 - q)
    odds = (ratio - 1 + q) / q
    return sigma**2 * mp.log(odds) + mpf(1) / 2 if odds > 0 else None


def _gauss(f: Callable[[mpf], mpf], a: mpf, b: mpf) -> mpf:
    return mp.quad(f, [a, b], method="gauss-legendre", maxdegree=3)


def report(name: str, value: mpf, reference: mpf, tolerance: float, start: float) -> bool:
    """Print one comparison and return its outcome."""
    with mp.workdps(30):
        error = abs(value / reference - 1)
    good = error <= tolerance
    took = time.monotonic() - start
    print(
        f"{'ok  ' if good else 'FAIL'} {took:5.1f}s {name}: {mp.nstr(value, 18)} error {mp.nstr(error, 2)}",
        flush=True,
    )
    return bool(good)


def main() -> None:
    """Run all comparisons; exit status 1 if one fails."""
    good = True
    for rate, sigma, epsilon in SMALL:
        for direction in oracle.DIRECTIONS:
            for steps in (1, 2):
                start = time.monotonic()
                step = oracle.Step(rate, sigma, steps, direction)
                exact = oracle.closed_delta if steps == 1 else None
                reference = exact(step, epsilon, 30) if exact else two_steps(step, mpf(epsilon))
                value = oracle.contour_delta(step, mpf(epsilon), DIGITS)
                if reference == 0 == value:
                    continue
                good &= report(f"delta {step} eps={epsilon}", value, reference, 1e-14, start)
    for rate, sigma, steps, delta, known in KNOWN:
        start = time.monotonic()
        value = oracle.epsilon(rate=rate, noise_multiplier=sigma, steps=steps, delta=delta, digits=DIGITS)
        name = f"epsilon {(rate, sigma, steps, delta)}"
        good &= report(name, value, mpf(known), 3e-6, start)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
