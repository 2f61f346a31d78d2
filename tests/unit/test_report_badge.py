"""The badge and the sentence beside it: what was detected, on whom, by how strong an attack, and the ε that it shows."""

from dataclasses import replace

import numpy as np
import pytest

from privet.adjacency import AddRemove
from privet.auditing import OneRun, Shares, measure
from privet.bounds import EpsilonBound, Side
from privet.guarantees import Guarantee, PairCurve
from privet.reporting import AttackResult, ModelAudit, Standing
from privet.reporting.caution import audit_badge
from privet.reporting.facts import Strength
from privet.reporting.verdicts import sentence
from privet.scores import Scores
from privet.views import Adversary

WHO = Adversary(sees="the confidence", knows="the record", wants="whether it was trained on")
CLAIM = Guarantee(PairCurve(3.0, 1e-5), AddRemove(), "claim")


def attacked(shift, *, epsilon=None, planted=False, strength=Strength.CALIBRATED, claim=None):
    """An attack whose scores are shifted by ``shift``, with its own bound or with ``epsilon`` as its bound."""
    values = np.random.default_rng(0).normal(size=1500)
    scores = Scores.of(values[:750] + shift, values[750:], "canaries" if planted else "attack")
    shares = Shares.of(0.95, others=[750, 750])
    finding = OneRun(shares.bound).test(scores, claim, delta=1e-5)
    if epsilon is not None:
        measured = EpsilonBound(value=epsilon, delta=1e-5, side=Side.LOWER, confidence=shares.bound)
        finding = replace(finding, measured=measured)
    leakage = measure(scores, confidence=shares.interval)
    return AttackResult(
        adversary=WHO,
        scores=scores,
        leakage=leakage,
        finding=finding,
        method="one run",
        planted=planted,
        strength=strength,
    )


def audit_of(*results, claim=None):
    return ModelAudit(name="model", delta=1e-5, results=results, claim=claim)


def both(epsilon, *, claim=None, strength=Strength.CALIBRATED):
    """Records that no attack detects, and canaries that one does."""
    return audit_of(
        attacked(0.0, epsilon=0.0, claim=claim, strength=strength),
        attacked(0.4, epsilon=epsilon, planted=True, claim=claim),
        claim=claim,
    )


@pytest.mark.parametrize(
    ("epsilon", "words"), [(0.0, "no ε above 0 shown"), (0.004, "ε > 0"), (0.5, "ε ≥ 0.5")]
)
def test_a_badge_says_which_epsilon_detected_canaries_show(epsilon, words):
    audited = both(epsilon, claim=CLAIM)
    assert audited.standing is Standing.NOT_DETECTED_PROVED
    assert audited.canaries_detected
    word = f"Not detected on records; canaries detected, {words}, within the proof"
    assert audit_badge(audited) == (word, "≤", "within")


def test_the_sentence_says_the_same_as_the_badge():
    assert sentence(both(0.0, claim=CLAIM)).endswith(
        "; an attack tells the canaries in its training from others (AUC 0.604), and shows no ε above 0."
    )
    assert sentence(both(0.5, claim=CLAIM)).endswith(
        "; canaries in its training show that it is at least ε = 0.5."
    )


def test_canaries_without_a_proof_are_not_shown_as_within_one():
    badge = audit_badge(both(0.5))
    assert "proof" not in badge.word
    assert (badge.sign, badge.kind) == ("!", "within")


@pytest.mark.parametrize(
    ("strength", "by"),
    [(Strength.TARGET_ALONE, " by weak attacks"), (Strength.UNKNOWN, " by an unknown attack")],
)
def test_detected_canaries_do_not_hide_that_attacks_on_records_were_weak(strength, by):
    assert audit_badge(both(0.5, strength=strength)).word.startswith(f"Not detected on records{by}; canaries")


@pytest.mark.parametrize("claim", [None, CLAIM], ids=["unproved", "proved"])
def test_canaries_alone_find_no_person(claim):
    audited = audit_of(attacked(2.0, epsilon=1.2, planted=True, claim=claim), claim=claim)
    badge, words = audit_badge(audited), sentence(audited)
    assert badge.word.startswith("No records attacked; canaries detected, ε ≥ 1.2")
    assert badge.kind == ("leaks" if claim is None else "within")
    assert "of canaries are found" in words
    assert "members" not in words
    assert "who was in its training data" not in words


def test_detected_records_keep_their_own_badge():
    audited = audit_of(attacked(2.0), attacked(2.0, planted=True))
    assert audit_badge(audited).word == "Leaks"
    assert "of members are found" in sentence(audited)
