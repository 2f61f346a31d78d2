"""Every form of a report but the page: report.json, the model card, the evidence for an impact assessment."""

import importlib.util
import itertools
import json
import math
import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.cli import main
from privet.errors import InvalidArgument, Unreadable
from privet.events import Gaussian, Poisson, Repeat
from privet.ledger import Ledger
from privet.pipeline import audit, audit_scores
from privet.reporting import Report, Standing
from privet.reporting.documents.cnil import LEFT, cnil_document
from privet.reporting.documents.dpia import dpia_page
from privet.reporting.documents.evidence import CONTROLLER
from privet.reporting.documents.model_card import model_card
from privet.reporting.documents.plain_data import LISTED, POINTS
from privet.reporting.documents.report_json import document, read_document
from privet.reporting.documents.schema import conform, report_schema
from privet.reporting.numbers import at_least

SCHEMA_PAGE = Path(__file__).parents[2] / "docs" / "report-schema.md"
CREATED = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
AWKWARD = 'a|b*_<script>alert("1")</script>`\n[x](y)'


def scored(shift, name, *, ledger=None, count=1500, seed=0):
    generator = np.random.default_rng(seed)
    members, others = generator.normal(shift, 1, count), generator.normal(0, 1, count)
    report = audit_scores(members, others, name=name, ledger=ledger)
    return replace(report, origin=replace(report.origin, created=CREATED))


def noisy(multiplier):
    return Ledger(AddRemove()).spend("training", Repeat(Poisson(0.01, Gaussian(multiplier)), 200))


@pytest.fixture(scope="module")
def tree():
    """A model that leaks, with classes and groups, and several attacks that share their confidence out."""
    from sklearn.tree import DecisionTreeClassifier

    from privet.scores import Records

    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(600, 5))
    labels = (inputs[:, 0] + generator.normal(size=600) > 0).astype(np.int64)
    groups = np.where(inputs[:, 1] > 0, "north", "south")
    inside = np.arange(600) < 300
    model = DecisionTreeClassifier(random_state=0).fit(inputs[inside], labels[inside])
    sides = [Records(inputs[side], labels[side], groups[side]) for side in (inside, ~inside)]
    return audit(model, *sides, name="tree", progress=False)


@pytest.fixture(scope="module")
def reports(tree):
    """One of each standing, and one with several models."""
    leaks = scored(1.0, "leaking")
    proved = scored(0.0, "noisy", ledger=noisy(1.0), seed=1)
    broken = scored(5.0, "broken", ledger=Ledger(AddRemove()).spend("training", Gaussian(4.0)))
    within = scored(1.0, "within", ledger=noisy(0.5))
    unseen = scored(0.0, "unseen", seed=1)
    several = replace(
        leaks,
        audits=(
            replace(leaks.audits[0], train_accuracy=0.99, test_accuracy=0.91),
            replace(proved.audits[0], train_accuracy=0.9, test_accuracy=0.88),
        ),
    )
    awkward = replace(leaks, title=AWKWARD, audits=(replace(leaks.audits[0], name=AWKWARD),))
    return {
        "leaks": leaks,
        "proved": proved,
        "broken": broken,
        "within": within,
        "unseen": unseen,
        "several": several,
        "awkward": awkward,
        "tree": tree,
    }


CASES = ("leaks", "proved", "broken", "within", "unseen", "several", "awkward", "tree")


def test_the_cases_are_what_they_are_called(reports):
    standings = {name: report.worst.standing for name, report in reports.items()}
    assert standings["leaks"] is standings["tree"] is standings["several"] is Standing.LEAKS
    assert standings["proved"] is Standing.NOT_DETECTED_PROVED
    assert standings["broken"] is Standing.BROKEN
    assert standings["within"] is Standing.LEAKS_WITHIN
    assert standings["unseen"] is Standing.NOT_DETECTED


# report.json


@pytest.mark.parametrize("case", CASES)
def test_a_document_follows_its_schema_and_reads_back(reports, case):
    text = document(reports[case])
    plain = read_document(text)
    assert json.loads(text) == plain
    assert document(reports[case]) == text
    if importlib.util.find_spec("jsonschema") is not None:
        import jsonschema

        jsonschema.Draft202012Validator(report_schema()).validate(plain)


@pytest.mark.parametrize("case", CASES)
def test_every_field_is_in_the_schema_and_every_key_in_order(reports, case):
    schema = report_schema()

    def visit(value, inside):
        inside = schema["$defs"][inside["$ref"].split("/")[-1]] if "$ref" in inside else inside
        if isinstance(value, dict) and "properties" in inside:
            assert list(value) == list(inside["properties"])
            for name, part in value.items():
                visit(part, inside["properties"][name])
        if isinstance(value, list):
            for part in value:
                visit(part, inside["items"])
        if isinstance(value, float):
            assert math.isfinite(value)

    visit(read_document(document(reports[case])), schema)


def test_every_field_is_documented():
    """Each name of the schema stands on the page in code, by itself or behind the object that holds it."""
    prose = re.sub(r"```.*?```", "", SCHEMA_PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    spans = "\n".join(re.findall(r"`([^`]+)`", prose))
    words = set(re.findall(r"[a-z_]+", spans))

    def names(schema):
        for name, inside in schema.get("properties", {}).items():
            yield name
            yield from names(inside)
        if "items" in schema:
            yield from names(schema["items"])

    schema = report_schema()
    kept = [name for name, inside in schema["$defs"].items() if name not in ("ledger", "tpr")]
    found = {*names(schema)}.union(*(names(schema["$defs"][name]) for name in kept))
    assert {name for name in found if not name[0].isdigit()} <= words


def test_the_figures_are_those_of_the_report(reports):
    report = reports["several"]
    plain = read_document(document(report))
    assert plain["verdict"] == report.verdict
    assert plain["worst"] == "leaking"
    assert plain["origin"]["created"] == "2026-01-02T03:04:05.600000+00:00"
    for told, audited in zip(plain["models"], report.audits, strict=True):
        result, leakage = audited.strongest, audited.strongest.leakage
        attack = told["attacks"][0]
        assert told["epsilon"]["measured"] == attack["epsilon"]["measured"] == result.finding.measured.value
        assert told["epsilon"]["proved"] == audited.epsilon_proved
        assert told["epsilon"]["ceiling"] == result.finding.ceiling
        assert told["accuracy"] == {"members": audited.train_accuracy, "nonmembers": audited.test_accuracy}
        assert attack["auc"] == leakage.auc._asdict()
        assert attack["tpr"]["0.01"] == leakage.tpr(0.01)._asdict()
        assert attack["tpr"]["0.0001"] is None
        assert attack["fpr_floor"] == 1 / 1500
    plain_model, noisy_model = plain["models"]
    assert plain_model["proof"] is None
    assert plain_model["ledger"] is None
    ledger = Ledger.from_json(json.dumps(noisy_model["ledger"]))
    assert account(ledger).epsilon(delta=1e-5) == noisy_model["epsilon"]["proved"]
    assert noisy_model["proof"]["tpr_at_most"]["0.001"] == report.audits[1].claim.tpr(fpr=1e-3)


def test_the_best_of_several_bounds_holds_at_the_confidence_asked_for(tree):
    told = read_document(document(tree))["models"][0]
    assert len(told["attacks"]) > 1
    assert told["epsilon"]["confidence"] == 0.95
    assert all(attack["epsilon"]["confidence"] > 0.95 for attack in told["attacks"])
    other = audit_scores(np.arange(50.0), np.arange(50.0), confidence=0.9)
    assert read_document(document(other))["models"][0]["epsilon"]["confidence"] == 0.9


def test_canaries_bound_and_find_nobody(reports):
    audited = reports["several"].audits[0]
    planted = replace(scored(3.0, "x").audits[0].results[0], planted=True)
    planted = replace(planted, scores=replace(planted.scores, attack="canaries"))
    told = read_document(
        document(replace(reports["leaks"], audits=(replace(audited, results=(*audited.results, planted)),)))
    )["models"][0]
    assert told["epsilon"]["attack"] == "canaries"
    assert told["epsilon"]["measured"] == planted.finding.measured.value
    assert told["strongest"] == "scores"
    assert [attack["planted"] for attack in told["attacks"]] == [False, True]


def test_who_is_hurt(tree):
    told, harm = read_document(document(tree))["models"][0]["harm"], tree.audits[0].harm
    assert told["members"] == 300
    assert len(told["most_at_risk"]) == LISTED
    assert [row["record"] for row in told["most_at_risk"]] == list(harm.names[:LISTED])
    assert sum(row["flagged"] for row in told["most_at_risk"]) == min(told["flagged"], LISTED)
    assert {group["name"] for group in told["groups"]} == {"north", "south"}
    assert {group["name"] for group in told["classes"]} == {"0", "1"}


def test_a_curve_is_thinned_and_keeps_its_shape(reports):
    leakage = reports["leaks"].audits[0].strongest.leakage
    curve = read_document(document(reports["leaks"]))["models"][0]["attacks"][0]["roc"]
    assert curve["thinned"]
    assert 100 < len(curve["fpr"]) <= POINTS
    assert (curve["fpr"][0], curve["tpr"][0]) == (0.0, 0.0)
    assert (curve["fpr"][-1], curve["tpr"][-1]) == (1.0, 1.0)
    assert np.all(np.diff(curve["fpr"]) >= 0)
    assert np.all(np.diff(curve["tpr"]) >= 0)
    assert np.all((np.array(curve["lower"]) <= curve["tpr"]) & (curve["tpr"] <= np.array(curve["upper"])))
    heights = (np.array(curve["tpr"])[1:] + curve["tpr"][:-1]) / 2
    assert abs(np.diff(curve["fpr"]) @ heights - leakage.auc.value) < 0.01
    without = leakage.roc.tpr[leakage.roc.false_positives == 0].max()
    assert max(t for f, t in zip(curve["fpr"], curve["tpr"], strict=True) if f == 0) == pytest.approx(without)


def test_endless_scores_and_many_records_stay_small_and_finite():
    generator = np.random.default_rng(0)
    members, others = generator.normal(1, 1, 100_000), generator.normal(0, 1, 100_000)
    members[:50], others[:50] = np.inf, -np.inf
    text = document(audit_scores(members, others))
    read_document(text)
    assert len(text) < 40_000
    assert "Infinity" not in text


def changed(reports, change):
    plain = json.loads(document(reports["several"]))
    change(plain)
    return json.dumps(plain)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda d: d.update(format="privet-ledger"), "format 'privet.report'"),
        (lambda d: d.update(version=2), "'version' must be 1, got 2"),
        (lambda d: d.update(version=True), "'version' must be 1"),
        (lambda d: d.pop("models"), "a field 'models'"),
        (lambda d: d["models"].clear(), "models must be"),
        (lambda d: d["models"][0].pop("epsilon"), r"models\[0\] must have a field 'epsilon'"),
        (lambda d: d["models"][0]["epsilon"].update(measured=-1), r"models\[0\].epsilon.measured must be at least 0"),
        (lambda d: d["models"][0]["epsilon"].update(measured=None), r"epsilon.measured must be number"),
        (lambda d: d["models"][0]["epsilon"].update(measured=True), r"epsilon.measured must be number"),
        (lambda d: d["models"][1]["attacks"][0]["auc"].update(value=1.5), r"models\[1\].attacks\[0\].auc.value must be at most 1"),
        (lambda d: d["models"][0].update(standing="private"), "standing must be one of"),
        (lambda d: d["models"][0]["attacks"][0]["tpr"].update({"0.01": 0.5}), "must be object or null"),
        (lambda d: d["models"][0]["attacks"][0]["roc"].update(fpr=[0.5] * 201), "roc.fpr must be"),
        (lambda d: d["models"][1]["ledger"].update(format="x"), "ledger.format must be"),
    ],
)  # fmt: skip
def test_what_is_not_a_report_is_refused(reports, change, complaint):
    with pytest.raises(Unreadable, match=complaint):
        read_document(changed(reports, change))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(reports, number):
    text = re.sub(r'"seconds": [0-9.]+', f'"seconds": {number}', document(reports["leaks"]))
    with pytest.raises(Unreadable, match="finite"):
        read_document(text)


def test_a_field_that_is_not_known_is_passed_over(reports):
    assert read_document(changed(reports, lambda d: d.update(later=1)))["later"] == 1


def test_a_schema_with_a_word_that_is_not_understood_is_refused():
    with pytest.raises(Unreadable, match="'pattern'"):
        conform("x", {"pattern": "y"})


def test_the_file_is_written_by_its_name(reports, tmp_path):
    path = reports["leaks"].save(tmp_path / "report.json")
    assert path.read_text(encoding="utf-8") == document(reports["leaks"])
    assert isinstance(reports["leaks"], Report)


def test_the_command_line_shows_the_same_figures(tmp_path, capsys):
    generator = np.random.default_rng(0)
    for name, shift in (("m.csv", 1.0), ("n.csv", 0.0)):
        np.savetxt(tmp_path / name, generator.normal(shift, 1, 400))
    paths = ["--members", str(tmp_path / "m.csv"), "--nonmembers", str(tmp_path / "n.csv")]
    assert main(["audit", *paths, "--json", "--out", str(tmp_path / "r.json")]) == 0
    shown = json.loads(capsys.readouterr().out)
    told = read_document((tmp_path / "r.json").read_text(encoding="utf-8"))["models"][0]
    attack = told["attacks"][0]
    assert shown["auc"] == attack["auc"]
    assert shown["tpr"] == attack["tpr"]
    assert shown["fpr_floor"] == attack["fpr_floor"]
    assert shown["epsilon_lower"] == told["epsilon"]["measured"] > 0
    assert shown["epsilon_ceiling"] == told["epsilon"]["ceiling"]
    assert shown["epsilon_proved"] is told["epsilon"]["proved"] is None
    assert shown["confidence"] == 0.95
    assert shown["verdict"] == told["verdict"]


# In all forms


WRITERS = (document, model_card, cnil_document, dpia_page)


def read_aloud(report, writer):
    """The words of a form, as somebody reads them."""
    text = writer(report)
    if writer is cnil_document:
        text = json.dumps(json.loads(text), ensure_ascii=False)
    return re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("case", CASES)
def test_no_form_calls_a_model_private(reports, case, writer):
    words = read_aloud(reports[case], writer).lower()
    assert not re.search(r"\bprivate\b|\bsafe\b|\banonymous\b", words)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_was_not_detected_is_told_with_its_power(reports, writer):
    words = read_aloud(reports["unseen"], writer)
    assert "not detected at this power" in words
    assert at_least(reports["unseen"].audits[0].strongest.finding.ceiling) in words
    assert "by proof" not in words.lower()


@pytest.mark.parametrize("writer", [model_card, cnil_document, dpia_page])
def test_a_proof_is_told_as_at_most(reports, writer):
    words = read_aloud(reports["proved"], writer)
    bound = reports["proved"].audits[0].epsilon_proved
    shown = f"{math.ceil(100 * bound) / 100:.2f}".rstrip("0").rstrip(".")
    assert f"By proof, ε is at most {shown} at δ = 10⁻⁵, for one record (add-remove" in words
    assert "Batches are accounted as Poisson samples" in words


@pytest.mark.parametrize("writer", [model_card, cnil_document, dpia_page])
def test_a_claim_that_does_not_hold_is_no_proof(reports, writer):
    words = read_aloud(reports["broken"], writer)
    assert "the claim does not hold" in words
    assert "By proof, " not in words
    assert "Differential privacy in training" not in words


@pytest.mark.parametrize("suffix", ["md", "pia.json", "dpia.html"])
def test_the_name_of_the_file_says_the_form(reports, tmp_path, suffix):
    writer = {"md": model_card, "pia.json": cnil_document, "dpia.html": dpia_page}[suffix]
    path = reports["several"].save(tmp_path / f"report.{suffix}")
    assert path.read_text(encoding="utf-8") == writer(reports["several"])


# The model card


@pytest.mark.parametrize("case", CASES)
def test_a_model_card_section_is_sound_markdown(reports, case):
    card = model_card(reports[case])
    headings = [line for line in card.splitlines() if line.startswith("#") and not line.startswith("# ")]
    assert headings == [
        "## Privacy",
        "### What was measured",
        "### What is proved",
        "### Limits",
        "### What this is about",
        "### How to reproduce",
    ]
    tables = re.findall(r"(?:^\|.*\n?)+", card, flags=re.MULTILINE)
    assert len(tables) == 1 + len(reports[case].audits)
    for lines in (table.strip().splitlines() for table in tables):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
    prose = card[: card.index("### How to reproduce")]
    assert "<script" not in prose
    assert "[x](y)" not in prose
    assert card.count("```") % 2 == 0


def test_the_fence_is_longer_than_any_in_the_command(reports):
    report = reports["leaks"]
    card = model_card(replace(report, origin=replace(report.origin, command="a ``` b\n## c")))
    assert "\n````text\na ``` b ## c\n" in card


def test_a_card_has_the_figures(reports):
    card = model_card(reports["several"])
    leaking = reports["several"].audits[0].strongest.leakage
    row = next(line for line in card.splitlines() if line.startswith("| leaking | Leaks |"))
    assert f"{leaking.auc.value:.3f} ({leaking.auc.lower:.3f} to {leaking.auc.upper:.3f})" in row
    assert "| nothing is proved |" in row
    assert card.count("- Membership of people's records was not detected at this power.") == 1
    assert "91\u00a0% |" in row
    assert "Privet " in card
    assert "2026-01-02" in card


def test_warnings_of_checks_reach_the_card(tree):
    assert tree.audits[0].warnings
    card = model_card(tree)
    for check in tree.audits[0].warnings:
        assert f"Warning, {check.name}: " in card


# The CNIL's import


def answers(plain):
    return {answer["reference_to"]: answer["data"] for answer in plain["answers"]}


@pytest.mark.parametrize("case", CASES)
def test_each_question_that_an_audit_speaks_to_says_what_is_left(reports, case):
    plain = json.loads(cnil_document(reports[case]))
    comments = {comment["reference_to"]: comment["description"] for comment in plain["comments"]}
    assert list(comments) == list(LEFT)
    for question, words in comments.items():
        assert words.endswith(f"{CONTROLLER} {LEFT[question]}")
    assert reports[case].audits[0].name in comments[111]
    assert "records that it was trained on" in comments[121]
    assert all(measure["title"] in answers(plain)[324]["list"] for measure in plain["measures"])


def test_measures_and_likelihood_have_the_figures(reports):
    plain = json.loads(cnil_document(reports["several"]))
    proof, tested = plain["measures"]
    assert re.fullmatch(r"Differential privacy in training \(noisy\): ε ≤ [\d.]+ at δ = 10⁻⁵", proof["title"])
    assert tested["title"] == "Membership-inference audit of 2026-01-02"
    likelihood = answers(plain)[326]["text"]
    assert f"{reports['several'].audits[0].strongest.leakage.auc.value:.3f}" in likelihood
    comments = {comment["reference_to"]: comment["description"] for comment in plain["comments"]}
    assert "200 times poisson (rate 0.01) of gaussian (noise multiplier 1)" in comments[122]
    assert plain["pia"]["created_at"] == "2026-01-02T03:04:05.600Z"


def test_names_cannot_become_markup_in_the_tool(reports):
    for data in answers(json.loads(cnil_document(reports["awkward"]))).values():
        assert "<script" not in (data["text"] or "")


# The page by Article 35(7)


class Outline(HTMLParser):
    """What is open, what was seen, and the text under each heading."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.tags, self.headings, self.links = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if name in given]
        if tag != "meta":
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append([int(tag[1]), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if any(re.fullmatch("h[1-6]", tag) for tag in self.open):
            self.headings[-1][1] += data.replace("\n", " ")


@pytest.mark.parametrize("case", CASES)
def test_the_page_is_whole_and_asks_nothing_of_the_network(reports, case):
    page = dpia_page(reports[case])
    outline = Outline()
    outline.feed(page)
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert "script" not in outline.tags
    assert all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)
    assert "http:" not in page
    assert "https:" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page
    levels = [level for level, _ in outline.headings]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert len(page) < 100_000


def test_each_letter_has_both_halves(reports):
    outline = Outline()
    outline.feed(dpia_page(reports["several"]))
    top = [words for level, words in outline.headings if level == 2]
    assert [words[:3] for words in top[1:5]] == ["(a)", "(b)", "(c)", "(d)"]
    halves = [words for level, words in outline.headings if level == 3]
    assert halves[:8] == ["What this audit supports", CONTROLLER] * 4


def letters(page):
    return [part.split("</section>")[0] for part in page.split('<section id="letter-')[1:]]


def test_what_stands_under_each_letter(reports, tree):
    done, worth, risks, measures = letters(dpia_page(reports["several"]))
    assert "1,500 records that it was trained on" in done
    assert "200 times poisson" in done
    assert "91\u00a0%" in worth
    assert "88\u00a0%" in worth
    assert f"{reports['several'].audits[0].strongest.leakage.auc.value:.3f}" in risks
    assert "did not test whether attributes" in risks
    assert "Differential privacy in training (noisy)" in measures
    assert "Fewer than two models" in letters(dpia_page(reports["leaks"]))[1]
    checks = letters(dpia_page(tree))[3]
    assert all(check.finding.split(";")[0][:30] in checks for check in tree.audits[0].checks)


@pytest.mark.parametrize("ending", [".html", ".json", ".md", ".dpia.html", ".pia.json"])
def test_half_a_character_in_a_name_is_written_by_its_number(tmp_path, ending):
    """A file cannot hold it, and the audit was lost."""
    report = audit_scores([1.0, 2.0, 3.0] * 9, [0.0, 1.0, 2.0] * 9, name="a\ud800b", attack="\udfff")
    path = report.save(tmp_path / f"report{ending}")
    assert "\\ud800" in path.read_text(encoding="utf-8") or ending == ".pia.json"
    if ending == ".json":
        assert json.loads(path.read_text())["models"][0]["name"] == "a\ud800b"


@pytest.mark.parametrize("path", ["a\0b.json", "", "missing/report.json", "x" * 5000 + ".json"])
def test_a_report_needs_a_place(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    report = audit_scores([1.0, 2.0, 3.0] * 9, [0.0, 1.0, 2.0] * 9)
    for save in (report.save, report.save_key):
        with pytest.raises(InvalidArgument, match="'path' must be"):
            save(path)
