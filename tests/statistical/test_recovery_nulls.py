"""Reports on attacks that know nothing: a leak is claimed in at most 5 % of them, over everything that they state.

False alarms of this file: the number of claims is binomial with a share of at most 5 %; the limit is four standard errors above it, which
chance exceeds in fewer than 1 of 10,000 runs.
"""

import numpy as np
import pytest

import privet
from privet.recoveries import Recoveries
from privet.views import Adversary

ADVERSARY = Adversary(sees="", knows="", wants="")
FORMS = [
    pytest.param(60, 60, 0.5, id="some"),
    *(
        pytest.param(300, targets, share, id=f"{targets} targets, {share}", marks=pytest.mark.slow)
        for targets in (12, 60, 300)
        for share in (0.1, 0.5)
    ),
]


def coins(generator, targets, share):
    """Hits are fixed by the attack, and coins fall without them."""
    hits = generator.random(targets) < share
    members = generator.random(targets) < 0.5
    members[:2] = True, False
    sure = generator.integers(0, 3, targets).astype(float)  # with ties
    return {
        "hits": hits,
        "members": members,
        "confidence": sure,
        "groups": generator.choice(["a", "b"], targets),
    }


def names(generator, targets, share):
    del share
    return {"hits": generator.random(targets) < 0.2, "candidates": 5, "confidence": generator.random(targets)}


def guesses(generator, targets, share):
    """The attack guesses as well as the blind guess, by itself."""
    return {"hits": generator.random(targets) < share, "blind_hits": generator.random(targets) < share}


@pytest.mark.parametrize(("reports", "targets", "share"), FORMS)
@pytest.mark.parametrize("draw", [coins, names, guesses])
def test_nothing_is_detected_where_nothing_leaks(draw, reports, targets, share):
    generator = np.random.default_rng([targets, int(10 * share)])
    claimed = 0
    for _ in range(reports):
        several = [
            Recoveries(f"attack {number}", ADVERSARY, "exact", **draw(generator, targets, share))
            for number in (1, 2)
        ]
        claimed += privet.audit_recoveries(several).audits[0].recovered
    assert claimed <= reports * 0.05 + 4 * np.sqrt(reports * 0.05 * 0.95)
