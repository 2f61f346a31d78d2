"""The page: verdict first, words that claim no more than the figures, nothing that a name could smuggle in."""

import json
import re
import sys
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

from privet.adjacency import AddRemove
from privet.auditing import OneRun, Shares, leakage_by_group, measure, most_at_risk
from privet.bounds import EpsilonBound, Finding, Side
from privet.checks import Check, Outcome
from privet.errors import MissingPackage
from privet.guarantees import Guarantee, PairCurve
from privet.pipeline import audit_scores
from privet.reporting import AttackResult, ModelAudit, Origin, Report, Standing
from privet.reporting.advice import advice
from privet.reporting.charts.epsilon import Span, epsilon_chart
from privet.reporting.charts.frontier import frontier_chart
from privet.reporting.charts.plotting import embed_json
from privet.reporting.charts.proved_curve import ceiling_curve, ceiling_of_pair
from privet.reporting.charts.roc import models_roc, roc_chart
from privet.reporting.charts.scores import bin_scores, scores_chart
from privet.reporting.documents.model_card import model_card
from privet.reporting.documents.plain_data import report_figures
from privet.reporting.facts import Harm, ReferenceModels
from privet.reporting.meaning import crowd, meaning
from privet.reporting.numbers import at_least, at_most, percent, percent_at_most, small
from privet.reporting.page import page
from privet.scores import Scores
from privet.views import Adversary

pytest.importorskip("plotly", reason="the page needs plotly")

WHO = Adversary(sees="the confidence", knows="the record", wants="whether it was trained on")
ORIGIN = Origin(command="privet audit x.toml", version="0.1.0", seed=3)


def normal_scores(shift, count=1500, seed=0):
    values = np.random.default_rng(seed).normal(size=2 * count)
    return Scores.of(values[:count] + shift, values[count:], "RMIA")


def audited(
    name="model", shift=1.0, *, epsilon=None, scores=None, harm=True, test=0.7, finding=None, checks=()
):
    scores = normal_scores(shift) if scores is None else scores
    claim = None if epsilon is None else Guarantee(PairCurve(epsilon, 1e-5), AddRemove(), "claim")
    shares = Shares.of(0.95, others=[int((~scores.members).sum())])
    found = OneRun(shares.bound).test(scores, claim, delta=1e-5) if finding is None else finding
    who = None
    if harm:
        risk, names = most_at_risk(scores), np.where(np.arange(len(scores)) % 3 == 0, "north", "south")
        who = Harm(
            attack=scores.attack,
            at_risk=risk,
            names=tuple(str(place) for place in risk.records),
            classes=leakage_by_group(scores, np.arange(len(scores)) % 2),
            groups=leakage_by_group(scores, names),
        )
    result = AttackResult(
        adversary=WHO,
        scores=scores,
        leakage=measure(scores, confidence=shares.interval),
        finding=found,
        method="one run",
    )
    return ModelAudit(
        name=name,
        delta=1e-5,
        results=(result,),
        claim=claim,
        train_accuracy=None if test is None else 0.9,
        test_accuracy=test,
        checks=checks,
        harm=who,
        seconds=1.0,
    )


def violated():
    measured = EpsilonBound(value=4.0, delta=1e-5, side=Side.LOWER, confidence=0.95)
    return Finding(
        measured=measured, ceiling=6.0, claimed=EpsilonBound(value=1.0, delta=1e-5, side=Side.UPPER)
    )


STANDINGS = {
    Standing.BROKEN: lambda name: audited(name, 2.0, epsilon=1.0, finding=violated()),
    Standing.LEAKS: lambda name: audited(name, 1.0),
    Standing.LEAKS_WITHIN: lambda name: audited(name, 1.0, epsilon=8.0),
    Standing.NOT_DETECTED_PROVED: lambda name: audited(name, 0.0, epsilon=3.0),
    Standing.NOT_DETECTED: lambda name: audited(name, 0.0),
}


def report(*audits, title="Audit of the survey"):
    return Report(audits=audits, origin=ORIGIN, title=title)


class Read(HTMLParser):
    """What a browser's parser would see: elements with attributes, and the words between them."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.words, self.scripts, self._inside = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in {"meta", "path", "rect"}:
            self._inside.append(tag)
        if tag == "script":
            self.scripts.append((dict(attributes), ""))

    def handle_endtag(self, tag):
        if tag not in {"path", "rect"}:
            assert self._inside.pop() == tag

    def handle_data(self, data):
        if self._inside and self._inside[-1] == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif self._inside and self._inside[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    @property
    def closed(self):
        return not self._inside


@pytest.fixture(scope="module")
def all_standings():
    return report(*(make(f"model {place}") for place, make in enumerate(STANDINGS.values())))


@pytest.fixture(scope="module")
def read(all_standings):
    return Read(page(all_standings))


def test_the_audits_stand_as_the_tests_think(all_standings):
    assert [audit.standing for audit in all_standings.audits] == list(STANDINGS)


def test_the_verdict_comes_first_and_the_parts_follow_in_order(read, all_standings):
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    parts = ["roc", "epsilon", "scores", "people", "meaning", "trust", "next"]
    wanted = [
        "verdict",
        "compared",
        "model-0",
        *(f"model-0-{part}" for part in parts),
        "model-1",
        "reproduce",
    ]
    assert [ids.index(name) for name in wanted] == sorted(ids.index(name) for name in wanted)
    assert read.text.index(all_standings.verdict) < read.text.index("The models compared")


def test_no_report_says_private(read):
    assert not re.search(r"\bprivate\b|\bsafe\b|\banonymous\b", read.text, re.IGNORECASE)
    assert "Not detected at this power" in read.text
    assert "at most, by proof" in read.text.lower()


def test_the_page_is_well_formed_and_speaks_to_assistive_programs(read):
    assert read.closed
    assert ("html", {"lang": "en"}) in read.elements
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for _, attributes in read.elements:
        for pointer in ("aria-labelledby", "aria-controls"):
            assert attributes.get(pointer, ids[0]) in ids
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
    charts = [attributes for _, attributes in read.elements if attributes.get("class") == "chart"]
    assert len(charts) == 3 + 3 * 5
    assert all(attributes["role"] == "img" and len(attributes["aria-label"]) > 20 for attributes in charts)
    drawn = {attributes["data-for"] for attributes, _ in read.scripts if "data-for" in attributes}
    assert drawn == {attributes["id"] for attributes in charts}
    assert read.text.count("The numbers behind this chart") == len(charts)


def test_the_policy_names_the_scripts_and_nothing_else(read):
    policy = next(a["content"] for t, a in read.elements if a.get("http-equiv") == "Content-Security-Policy")
    run = [code for attributes, code in read.scripts if "type" not in attributes]
    hashes = {f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in run}
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert set(rules["script-src"].split()) == hashes
    assert rules["default-src"] == "'none'"
    assert "http" not in policy
    assert sum("plotly.js v" in code for code in run) == 1
    for _, attributes in read.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")


def test_a_name_cannot_become_markup_or_script():
    name = '</script><img src=x onerror="alert(1)">&amp;\u2028'
    html = page(report(audited(name), audited("</style><b>", 0.0, epsilon=1.0), title=f"{name} title"))
    read = Read(html)
    assert read.closed
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in read.elements)
    assert name.removesuffix("\u2028") in read.text
    for attributes, code in read.scripts:
        if "data-for" in attributes:
            json.loads(code)
            assert "<img" not in json.dumps(json.loads(code)).replace("&lt;img", "")
    assert "<" not in embed_json({"a": ["<b>", "</script>"]})


def test_many_records_do_not_make_a_large_page():
    few, many = (
        len(page(report(audited(scores=normal_scores(1.0, count), harm=count < 1e4))))
        for count in (500, 50_000)
    )
    assert many < 6_000_000
    assert many - few < 40_000


@pytest.mark.parametrize(
    "scores",
    [
        Scores.of(np.ones(5), np.zeros(5), "perfect"),
        Scores.of(np.zeros(30), np.zeros(40), "constant"),
        Scores.of(np.array([np.inf, 1.0, -np.inf, 0.0]), np.array([-np.inf, 0.0, 1.0]), "infinite"),
        Scores.of(np.array([1.0]), np.array([0.0]), "one of each"),
        Scores.of(np.full(3, np.inf), np.full(3, -np.inf), "only infinite"),
    ],
    ids=lambda scores: scores.attack,
)
def test_odd_scores_have_a_page(scores):
    found = Finding(
        measured=EpsilonBound(value=0.0, delta=1e-5, side=Side.LOWER, confidence=0.95), ceiling=0.5
    )
    read = Read(
        page(report(audited(scores=scores, finding=found, test=None, harm=scores.attack != "one of each")))
    )
    assert read.closed
    for attributes, code in read.scripts:
        if "data-for" in attributes:
            assert "NaN" not in code
            assert "Infinity" not in code


def test_charts_are_what_plotly_takes(all_standings):
    objects = pytest.importorskip("plotly.graph_objects")
    audits = all_standings.audits
    frontier = frontier_chart(audits)
    charts = [
        *(roc_chart(audit) for audit in audits),
        models_roc(audits),
        frontier,
        scores_chart(audits[0].strongest),
        epsilon_chart(
            [Span("a", 1.0, None, 5.0), Span("b", 1.0, float("inf"), 5.0), Span("c", 3.0, 2.0, 5.0)]
        ),
    ]
    for chart in charts:
        objects.Figure(json.loads(embed_json(chart)))  # it refuses what it does not know
    assert len(frontier["data"]) == len(audits)


def test_the_roc_shows_the_counted_rates_and_stays_above_its_floor():
    audit = audited(scores=normal_scores(1.0, 2000), epsilon=3.0)
    curve = next(trace for trace in roc_chart(audit)["data"] if trace.get("name") == "RMIA")
    assert min(curve["x"]) == audit.strongest.leakage.fpr_floor
    for fpr in (0.1, 0.01, 1e-3):
        place = np.flatnonzero(np.array(curve["x"]) <= fpr * (1 + 1e-9))[-1]
        assert curve["y"][place] == pytest.approx(audit.strongest.leakage.tpr(fpr).value, rel=0.06)
    line = next(trace for trace in roc_chart(audit)["data"] if trace.get("name") == "at most, by proof")
    for fpr, tpr in zip(line["x"], line["y"], strict=True):
        assert tpr == pytest.approx(audit.claim.tpr(fpr=fpr), rel=1e-3)


def test_an_attack_without_a_false_alarm_is_drawn_at_the_floor():
    audit = audited(scores=Scores.of(np.arange(50.0) + 100, np.zeros(50), "perfect"), harm=False)
    curve = next(trace for trace in roc_chart(audit)["data"] if trace.get("name") == "perfect")
    assert (min(curve["x"]), min(curve["y"])) == (1 / 50, 1.0)


def test_the_drawn_ceiling_is_a_ceiling_and_close_to_the_lowest():
    accounting = pytest.importorskip("privet.accounting")
    from privet import Ledger
    from privet.events import Gaussian

    claim = accounting.account(Ledger(AddRemove()).spend("a", Gaussian(1.0)))
    rates = np.geomspace(1e-4, 0.9, 12)
    for fpr, drawn in zip(rates, ceiling_curve(claim, rates, delta=1e-5), strict=True):
        lowest = claim.tpr_bounds(fpr=float(fpr))
        assert lowest.lower <= drawn <= 1.03 * lowest.upper


def test_what_it_means_is_told_in_people():
    members = np.concatenate([np.full(16, 2000.0), np.full(984, -1.0)])
    audit = audited(scores=Scores.of(members, np.arange(1000.0), "LiRA"))
    said = " ".join(meaning(audit))
    assert "named 16 in this sample, and names between 0 and 33 in general (at 95 % confidence" in said
    assert "when it is set to name 1 of 1,000" in said
    assert crowd(audit) == (16, None, 1)
    assert "94.1" in said.replace("\u00a0", " ")  # 16/1000 of members, 1/1000 of others: 16/17
    assert "Nothing is proved" in said


def test_what_is_proved_is_rounded_up_and_told():
    audit = audited("model", 0.0, epsilon=1.0)
    said = " ".join(meaning(audit)).replace("\u00a0", " ")
    assert "finds more than 0.28 % of members with 0.1 % false alarms" in said  # e·0.001 + 1e-5 = 0.2728 %
    # Of a claim (ε, δ) alone: odds of (1 + 2e)/1 at 2 δ, 0.8656
    assert "at most 86.6 % sure by seeing the model, except with a probability of at most 2·10⁻⁵" in said
    assert crowd(audit).at_most == 3
    assert crowd(audited("model", 0.0, epsilon=1.5)).at_most == 5  # 4.49 of a thousand


def test_advice_for_a_leak_has_caps_and_costs():
    leaking, other = audited("plain", 1.0, test=0.712), audited("noisy", 0.0, epsilon=1.0, test=0.7)
    said = {piece.what: piece.why.replace("\u00a0", " ") for piece in advice(report(leaking, other), leaking)}
    caps = next(why for what, why in said.items() if what.startswith("Train with differential privacy"))
    assert (
        "no attack finds more than 2.1 % at ε = 3, 0.28 % at ε = 1." in caps
    )  # ε = 8 caps nothing, and is not offered
    assert "ε = 8" not in caps
    cost = next(why for what, why in said.items() if what.startswith("What that costs"))
    assert "noisy (ε ≤ 1) costs 1.2 points of test accuracy and caps the share found at 0.28 %" in cost
    assert any("18.8 points higher on members" in why for why in said.values())
    assert any(what.startswith("Let a stronger") for what in said)


def test_advice_follows_from_the_figures():
    broken = audited("model", 2.0, epsilon=1.0, finding=violated())
    assert any("Do not rely on the claim" in piece.what for piece in advice(report(broken), broken))
    warned = Check(name="copies", outcome=Outcome.WARNED, finding="Some are equal.", advice="Remove them.")
    checked = audited("model", 0.0, epsilon=1.0, checks=(warned,))
    assert advice(report(checked), checked)[0] == (
        "First settle a warning: copies.",
        "Some are equal. Remove them.",
    )
    few = audited("model", scores=normal_scores(0.0, 100))
    told = " ".join(piece.why for piece in advice(report(few), few))
    assert "100 non-members cannot show" in told
    assert "10 times as many can show up to" in told
    high = audited("model", 0.0, epsilon=8.0)
    assert any("smaller ε" in piece.what for piece in advice(report(high), high))


def test_a_pair_caps_as_the_theorem_says():
    for epsilon in (0.5, 3.0, 8.0):
        wanted = min(np.exp(epsilon) * 1e-3 + 1e-5, 1 - np.exp(-epsilon) * (1 - 1e-5 - 1e-3))
        assert ceiling_of_pair(epsilon, 1e-5, 1e-3) == pytest.approx(wanted, rel=1e-12)


def test_histograms_count_everybody():
    scores = Scores.of(np.array([np.inf, 0.0, 1.0, 2.0]), np.array([-np.inf, 0.5, 1000.0]))
    found = bin_scores(scores)
    assert found.members.sum() == pytest.approx(1)
    assert found.others.sum() == pytest.approx(1)
    wide = bin_scores(normal_scores(1.0), 12)
    counts, _ = np.histogram(np.clip(normal_scores(1.0).of_members, *wide.edges[[0, -1]]), wide.edges)
    assert (wide.members * 1500).round().astype(int).tolist() == counts.tolist()


def test_numbers_are_never_rounded_to_their_own_advantage():
    for value in np.random.default_rng(0).uniform(0, 10, 300):
        assert float(at_least(value)) <= value + 1e-9
        assert float(at_most(value)) >= value - 1e-9
        share = float(percent_at_most(value / 10).removesuffix("\u00a0%")) / 100
        assert value / 10 - 1e-9 <= share <= 1.1 * value / 10 + 1e-9
    assert percent(1.0) == "100\u00a0%"
    assert percent(0.5) == "50\u00a0%"
    assert small(1e-10) == "10⁻¹⁰"


def test_how_to_reproduce_it_runs(tmp_path, monkeypatch):
    """The snippet of a page is a program that gives the same page."""
    scores = normal_scores(1.0, 200)
    made = audit_scores(scores.of_members, scores.of_others, name="a 'name'", delta=1e-4, confidence=0.9)
    code = next(word for word in Read(page(made)).words if "import privet" in word)
    monkeypatch.chdir(tmp_path)
    known = {"members": scores.of_members, "nonmembers": scores.of_others}
    exec(code, known)
    assert (tmp_path / "report.html").exists()
    assert known["report"].verdict == made.verdict
    assert known["report"].audits[0].results[0].finding == made.audits[0].results[0].finding


def test_no_call_is_made_up_where_none_is_known():
    assert "In Python" not in "".join(Read(page(report(audited(harm=False)))).words)


def test_how_many_reference_models_there_were_is_told():
    few = ReferenceModels(asked=16, used=2, records=4000, time_limit=180.0)
    told = replace(audited(harm=False), reference_models=few)
    sentence = "2 of the 16 that were asked for, because 180 s were allowed; each trained on 4,000 records"
    assert sentence in " ".join(Read(page(report(told))).words)
    assert sentence in model_card(report(told))
    plain = report_figures(report(told))["models"][0]["reference_models"]
    assert plain == {"asked": 16, "used": 2, "records_each": 4000, "budget_seconds": 180.0}


def test_without_plotly_the_fix_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(MissingPackage, match=r"privet\[report\]"):
        page(report(audited(harm=False)))


def test_the_page_is_written_by_its_name(tmp_path):
    path = report(audited(harm=False)).save(tmp_path / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]


def test_words_can_be_read_in_both_themes():
    css = (files("privet.reporting") / "assets" / "report.css").read_text(encoding="utf-8")
    colours = dict(re.findall(r"--([\w-]+): light-dark\((#\w{6}, #\w{6})\)", css))
    pairs = {name: pair.split(", ") for name, pair in colours.items()}
    words = ["ink", "muted", "link", "attack", "proof", "broken", "leaks", "within", "bounded", "unseen"]
    for theme in (0, 1):
        for ground in ("paper", "surface"):
            for name in words:
                assert contrast(pairs[name][theme], pairs[ground][theme]) >= 4.5, (name, ground, theme)
        for mark in ("others", "faint-line", *(f"series-{place}" for place in range(6))):
            assert contrast(pairs[mark][theme], pairs["paper"][theme]) >= 3, mark


def contrast(one, other):
    """WCAG 2.2: the relative luminances, lighter over darker."""

    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_a_cap_is_not_told_as_if_privacy_made_it_worse():
    """1.1 % were found where ε = 3 caps at 2.1 %: a floor beside a ceiling, never before and after."""
    weak = audited(scores=normal_scores(0.05, 4000), harm=False)
    (first, *_) = [one for one in advice(report(weak), weak) if "differential privacy" in one.what]
    found = weak.strongest.leakage.tpr(1e-3)
    assert f"The attacks that were run found {percent(found.value)}." in first.why
    assert "A better attack may find more" in first.why
    assert "no attack finds more than" in first.why
    assert " now, by the attacks" not in first.why
