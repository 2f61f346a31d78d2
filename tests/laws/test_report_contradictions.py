"""No two statements of one report contradict each other: read from its own JSON and its own words, over many audits.

Statement pairs that are held against each other:

- "not detected" never stands beside an ε above 0 of the same kind, an interval of the same kind that excludes chance, or a record
  or group that is called exposed;
- a rate whose interval lies above its proved ceiling stands only beside "broken", and so does an ε above the proved one;
- all statements share one confidence, and the failures that are stated add up to it;
- ε on records and ε on canaries are two numbers in every form;
- an estimate above its ceiling is explained where both are told.
"""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

import privet
from privet.auditing import OneRun, OneRunFDP, Shares, leakage_by_group, measure, most_at_risk
from privet.events import Gaussian, Opaque, Poisson, Repeat
from privet.pipeline import audit_scores
from privet.pipeline.audit_model import _flag_only_where_detected
from privet.reporting import AttackResult, ModelAudit, Origin, Report
from privet.reporting.caution import audit_badge
from privet.reporting.documents.evidence import measured_sentences, proof_sentences
from privet.reporting.documents.model_card import model_card
from privet.reporting.documents.report_json import document
from privet.reporting.facts import Harm
from privet.reporting.meaning import meaning
from privet.scores import Scores
from privet.views import Adversary

DELTA = 1e-5
WHO = Adversary(sees="the confidence", knows="the record", wants="whether it was trained on")
SILENT = ("not detected, and bounded by proof", "not detected at this power")
SHAPES = {
    "continuous": lambda generator, count, shift: generator.normal(shift, 1, count),
    "binary": lambda generator, count, shift: (generator.random(count) < 0.6 + 0.12 * shift) * 1.0,
    "few values": lambda generator, count, shift: np.round(generator.normal(shift, 1, count)),
    "constant": lambda generator, count, shift: np.zeros(count),
    "a tail": lambda generator, count, shift: (
        generator.normal(size=count) + 6 * (generator.random(count) < 0.03 * shift)
    ),
}
LEDGERS = {
    "no proof": None,
    "tight": Gaussian(2.0),
    "loose": Repeat(Poisson(0.01, Gaussian(0.6)), 200),
    "wrong": Opaque(epsilon=0.05),
}


def _claimed(name):
    event = LEDGERS[name]
    ledger = None if event is None else privet.Ledger(privet.AddRemove()).spend("training", event)
    return ledger, None if ledger is None else privet.account(ledger)


CLAIMS = {name: _claimed(name) for name in LEDGERS}


def _model(seed):
    """A random model: several attacks, perhaps canaries, groups, a proof; of any size, any shape and any leakage."""
    generator = np.random.default_rng(seed)
    ledger, claim = CLAIMS[list(LEDGERS)[seed % len(LEDGERS)]]
    count = int(generator.integers(20, 2500))
    shift = float(generator.choice([0.0, 0.0, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0]))
    shape = SHAPES[str(generator.choice(list(SHAPES)))]
    attacks, planted = int(generator.integers(1, 4)), generator.random() < 0.4
    shares = Shares.of(0.95, others=[count] * attacks + [500] * planted, tables=1)
    results = []
    for place in range(attacks):
        scores = Scores.of(shape(generator, count, shift), shape(generator, count, 0.0), f"attack {place}")
        results.append(_result(scores, claim, OneRun(shares.bound), shares))
    if planted:
        coins = generator.random(1000) < 0.5
        seen = Scores(generator.normal(size=1000) + generator.choice([0.0, 1.0]) * coins, coins, "canaries")
        results.append(replace(_result(seen, claim, OneRunFDP(shares.bound), shares), planted=True))
    told = results[attacks - 1].scores
    harm = Harm(
        attack=told.attack,
        at_risk=most_at_risk(told),
        names=tuple(str(place) for place in np.flatnonzero(told.members)),
        groups=leakage_by_group(told, generator.integers(0, 3, len(told)), confidence=shares.table),
        failure=1 - shares.table,
    )
    return _flag_only_where_detected(
        ModelAudit(
            name=f"model {seed}", delta=DELTA, results=tuple(results), claim=claim, ledger=ledger, harm=harm
        )
    )


def _result(scores, claim, judge, shares):
    return AttackResult(
        adversary=WHO,
        scores=scores,
        leakage=measure(scores, confidence=shares.interval),
        finding=judge.test(scores, claim, delta=DELTA),
        method="one run",
    )


def _excludes(chance, rate):
    return rate is not None and not rate["lower"] <= chance <= rate["upper"]


def _attack_excludes(attack):
    return (
        attack["epsilon"]["measured"] > 0
        or _excludes(0.5, attack["auc"])
        or _excludes(0.5, attack["balanced_accuracy"])
        or any(_excludes(float(fpr), tpr) for fpr, tpr in attack["tpr"].items())
    )


def check_figures_agree(model):
    """What must hold between the numbers of one model of a report."""
    found = []
    people = [attack for attack in model["attacks"] if not attack["planted"]]
    canaries = [attack for attack in model["attacks"] if attack["planted"]]
    harm = model["harm"] or {"flagged": 0, "classes": [], "groups": []}
    groups = [*harm["classes"], *harm["groups"]]
    if any(_attack_excludes(attack) and not attack["detected"] for attack in model["attacks"]):
        found.append("an attack excludes chance and is called not detected")
    excluded = any(_attack_excludes(attack) for attack in people) or any(
        group["flagged"] or _excludes(0.5, group["auc"]) for group in groups
    )
    if excluded and not model["detected"]["records"]:
        found.append("a statement about records excludes chance and nothing is detected")
    silent = model["standing"] in SILENT
    if silent and (
        model["detected"]["records"] or (model["epsilon"]["records"] or {"measured": 0})["measured"] > 0
    ):
        found.append("not detected beside a detection")
    if not model["detected"]["records"] and harm["flagged"]:
        found.append("exposed members where nothing is detected")
    if model["detected"]["canaries"] != (
        None if not canaries else any(attack["detected"] for attack in canaries)
    ):
        found.append("canaries are told in one place and not in another")
    for kind, attacks in (("records", people), ("canaries", canaries)):
        best = max((attack["epsilon"]["measured"] for attack in attacks), default=None)
        if (model["epsilon"][kind] or {"measured": None})["measured"] != best:
            found.append(f"two numbers for ε on {kind}")
    if model["standing"] != "broken" and model["proof"] is not None:
        for attack in model["attacks"]:
            if attack["epsilon"]["measured"] > model["epsilon"]["proved"]:
                found.append("ε above the proved one")
            for fpr, ceiling in model["proof"]["tpr_at_most"].items():
                tpr = attack["tpr"][fpr]
                if tpr is not None and ceiling is not None and tpr["lower"] > ceiling:
                    found.append("a rate above its ceiling")
    stated = sum(
        1
        - attack["epsilon"]["confidence"]
        + (1 - attack["confidence"]) * (3 + sum(tpr is not None for tpr in attack["tpr"].values()))
        for attack in model["attacks"]
    )
    if stated > 1 - model["epsilon"]["confidence"] + 1e-9:
        found.append("the failures of single statements add up to more than the stated one")
    return found


@pytest.fixture(
    scope="module",
    params=[pytest.param(range(24), id="24"), pytest.param(range(24, 400), id="376", marks=pytest.mark.slow)],
)
def models(request):
    return [_model(seed) for seed in request.param]


def _json(*audits):
    report = Report(audits=audits, origin=Origin(command="privet audit x.toml", version="0"))
    return json.loads(document(report))["models"]


def test_numbers_of_one_report_agree(models):
    for audited in models:
        (model,) = _json(audited)
        assert check_figures_agree(model) == [], audited.name
        assert model["epsilon"]["confidence"] == pytest.approx(0.95)
    standings = {audited.standing for audited in models}
    assert len(standings) == 5  # all of them were tried


def test_words_of_one_report_agree(models):
    for audited in models:
        said = [
            *meaning(audited),
            *measured_sentences(audited),
            *proof_sentences(audited),
            audit_badge(audited).word,
        ]
        words = " ".join(said)
        unseen = re.search(r"not detected at this power|beyond chance|Not detected", words)
        assert bool(unseen) <= (not audited.detected), audited.name
        canaries = audited.epsilon_of_canaries
        if canaries and not audited.detected:
            assert "canaries" in audit_badge(audited).word or audited.standing.value == "broken"
            assert audit_badge(audited).kind != "bounded"  # the colour of good news
            assert "On canaries of the run, ε is at least" in words
        broken = audited.standing.value == "broken"
        assert ("does not hold" in words) == (broken and audited.claim is not None)
        if not broken and audited.claim is not None and "finds more than" in words:
            fpr = audited.strongest.leakage.reported_fpr
            ceiling, tpr = audited.claim.tpr(fpr=fpr), audited.strongest.leakage.tpr(fpr)
            assert tpr.lower <= ceiling
            assert (tpr.value > ceiling) == ("does not contradict the proof" in words)


def test_records_and_canaries_are_two_columns(models):
    for audited in models[:6]:
        report = Report(audits=(audited,), origin=Origin(command="x", version="0"))
        header = next(line for line in model_card(report).splitlines() if line.startswith("| Model"))
        assert "ε on records, at least | ε on canaries, at least" in header


def test_how_sure_an_attack_is_does_not_pass_what_the_proof_allows(models):
    """ "78.6 % of those named were members" beside "at most 73.2 % sure": ends of intervals are held against the proof."""
    for audited in models:
        if audited.claim is None or audited.standing.value == "broken":
            continue
        for result in audited.results:
            point = result.leakage.reported_point
            if point is not None and point.tpr.lower > point.fpr.upper:
                assert point.tpr.lower <= audited.claim.tpr(fpr=point.fpr.upper)


def test_the_check_sees_contradictions():
    """Mutations: each is put into a report's JSON by hand, and must be seen."""
    (model,) = _json(_model(1))
    people = next(attack for attack in model["attacks"] if not attack["planted"])
    assert check_figures_agree(model) == []

    def mutated(change):
        copy = json.loads(json.dumps(model))
        change(copy, next(attack for attack in copy["attacks"] if attack["name"] == people["name"]))
        return check_figures_agree(copy)

    def silenced(copy, attack):
        copy["standing"] = SILENT[0]
        copy["detected"]["records"] = True

    assert mutated(silenced)
    assert mutated(
        lambda copy, attack: (
            attack["auc"].update(lower=0.51, upper=0.6, value=0.55) or attack.update(detected=False)
        )
    )
    assert mutated(lambda copy, attack: attack["epsilon"].update(measured=90.0))
    assert mutated(lambda copy, attack: attack.update(confidence=0.9))
    assert mutated(
        lambda copy, attack: attack["tpr"].update({"0.1": {"value": 1.0, "lower": 0.999, "upper": 1.0}})
    )


def test_a_rate_above_its_ceiling_breaks_the_claim():
    """Half of the members are found at no false alarm, and ε = 0.05 was claimed; also where ε itself is not measured high enough."""
    generator = np.random.default_rng(0)
    ledger, _ = CLAIMS["wrong"]
    exposed = generator.normal(size=3000) + 50 * (generator.random(3000) < 0.5)
    audited = audit_scores(exposed, generator.normal(size=3000), ledger=ledger).audits[0]
    assert audited.above_ceiling
    assert audited.standing.value == "broken"
    lenient = replace(
        audited.results[0], finding=OneRun(0.975).test(audited.results[0].scores, None, delta=DELTA)
    )
    quiet = replace(audited, results=(lenient,))
    assert not quiet.violated
    assert quiet.standing.value == "broken"
    assert "of members with" in Report(audits=(quiet,), origin=Origin(command="x", version="0")).verdict
