"""Nothing that limits a figure is lost on the way: every caveat and every warning is in every form of a report."""

import html
import json
import re
import warnings
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from privet.adjacency import AddRemove
from privet.caveats import Caveat
from privet.checks import Check, Outcome
from privet.cli import main
from privet.events import Gaussian, Poisson, Repeat
from privet.ledger import Ledger
from privet.pipeline import audit, audit_scores
from privet.reporting import Standing, Strength
from privet.reporting.caution import attack_strength, audit_badge
from privet.reporting.documents.cnil import cnil_document
from privet.reporting.documents.dpia import dpia_page
from privet.reporting.documents.model_card import model_card
from privet.reporting.documents.report_json import document, read_document
from privet.reporting.numbers import percent
from privet.scores import Records

OLD_REPORT = Path(__file__).parents[1] / "golden" / "report-0.1.0.json"


def html_page(report):
    pytest.importorskip("plotly", reason="the page needs plotly")
    from privet.reporting.page import page

    return page(report)


def plain(form, text):
    """The words of a form as they were before they were escaped for it."""
    if form == "markdown":
        text = re.sub(r"\\([\\`*_{}\[\]|~#])", r"\1", text)
    if form in ("cnil", "json"):
        text = "\n".join(_texts(json.loads(text)))
    return html.unescape(text).replace("\u00a0", " ")


def _texts(value):
    if isinstance(value, dict):
        return [text for part in value.values() for text in _texts(part)]
    if isinstance(value, list):
        return [text for part in value for text in _texts(part)]
    return [str(value)]


FORMS = {
    "page": html_page,
    "dpia": dpia_page,
    "markdown": model_card,
    "json": document,
    "cnil": cnil_document,
}


def scored(*, ledger=None, shift=0.0, count=300, delta=1e-5):
    generator = np.random.default_rng(1)
    sides = generator.normal(shift, 1, count), generator.normal(0, 1, count)
    report = audit_scores(*sides, ledger=ledger, delta=delta)
    return replace(report, origin=replace(report.origin, created=datetime(2026, 1, 2, tzinfo=UTC)))


def changed(report, **fields):
    return replace(report, audits=tuple(replace(audit, **fields) for audit in report.audits))


NOISY = Ledger(AddRemove()).spend("training", Repeat(Poisson(0.01, Gaussian(1.0)), 200))
CLAIMS = {
    Standing.NOT_DETECTED_PROVED: scored(ledger=NOISY),
    Standing.LEAKS_WITHIN: scored(ledger=Ledger(AddRemove()).spend("training", Gaussian(0.5)), shift=1.0),
    Standing.BROKEN: scored(ledger=Ledger(AddRemove()).spend("training", Gaussian(9.0)), shift=5.0),
}


@pytest.mark.parametrize("standing", list(CLAIMS))
@pytest.mark.parametrize("form", list(FORMS))
def test_every_caveat_of_a_claim_is_in_every_form(standing, form):
    report = CLAIMS[standing]
    assert report.worst.standing is standing
    report = changed(report, claim=replace(report.worst.claim, caveats=frozenset(Caveat)))
    words = plain(form, FORMS[form](report))
    assert [caveat.code for caveat in Caveat if caveat.sentence not in words] == []


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("ledger", [None, NOISY], ids=["nothing is proved", "a proof"])
def test_a_delta_that_is_too_large_is_told_in_every_form_and_in_the_verdict(form, ledger):
    """δ = 5/n, as the audit knows n by the members that it was given."""
    report = scored(ledger=ledger, delta=5 / 300)
    told = "is too large for 300 records"
    assert told in report.verdict
    words = plain(form, FORMS[form](report))
    assert told in words
    assert Caveat.DELTA_TOO_LARGE.sentence in words
    fine = scored(ledger=ledger, delta=1e-5)
    assert "too large" not in fine.verdict
    assert Caveat.DELTA_TOO_LARGE.sentence not in plain(form, FORMS[form](fine))


def test_the_delta_of_a_run_is_judged_by_its_places_and_kept_in_its_ledger():
    """The members that are audited may be fewer than those that were trained on: n is that of the plan."""
    torch = pytest.importorskip("torch")
    from privet.training import train

    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(400, 3)).astype(np.float32), generator.integers(0, 2, 400)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained = train(
            torch.nn.Linear(3, 2), (rows, labels), epsilon=2, delta=1 / 3000, epochs=1, lot_size=100
        )
    assert Caveat.DELTA_TOO_LARGE.sentence in {str(one.message) for one in caught}
    assert Caveat.DELTA_TOO_LARGE in trained.ledger.caveats
    assert Caveat.DELTA_TOO_LARGE in trained.guarantee().caveats
    # 1/3000 is below 1/(10 · 60), and above 1/(10 · 400).
    some, others = (
        (rows[:60], labels[:60]),
        (generator.normal(size=(60, 3)).astype(np.float32), labels[60:120]),
    )
    ledger = Ledger(trained.ledger.adjacency, trained.ledger.entries)  # as if it had come without the caveat
    report = audit(trained, some, others, ledger=ledger, delta=1 / 3000, progress=False)
    assert report.worst.population == 400
    assert Caveat.DELTA_TOO_LARGE in report.worst.caveats
    assert "too large for 400 records" in report.verdict


def test_the_command_line_tells_it_too(tmp_path, capsys):
    generator = np.random.default_rng(1)
    for name, shift in (("m", 0.5), ("n", 0.0)):
        np.savetxt(tmp_path / f"{name}.txt", generator.normal(shift, 1, 200))
    sides = ["--members", str(tmp_path / "m.txt"), "--nonmembers", str(tmp_path / "n.txt")]
    assert main(["audit", *sides, "--delta", "0.01"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "δ = 0.01 is too large for 200 records" in told
    assert Caveat.DELTA_TOO_LARGE.sentence in told
    assert "only its scores were given" in told
    assert main(["audit", *sides, "--delta", "0.01", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [caveat["code"] for caveat in found["caveats"]] == ["DELTA_TOO_LARGE"]
    assert found["strength"] == "unknown"


def test_an_account_of_a_ledger_tells_its_caveats(tmp_path, capsys):
    """All of them: from the file, through the accountant, to the screen and the JSON.

    Of two ways in which parameters may be chosen one is true of a ledger, and decides how it is accounted.
    """
    every = frozenset(Caveat) - {Caveat.ADAPTIVE_PARAMETERS}
    ledger = Ledger(AddRemove(), NOISY.entries, every)
    (tmp_path / "ledger.json").write_text(ledger.to_json(), encoding="utf-8")
    assert main(["account", str(tmp_path / "ledger.json"), "--delta", "1e-5"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"Warning: {Caveat.DELTA_TOO_LARGE.sentence}" in told
    assert [caveat.code for caveat in every if caveat.sentence not in told] == []
    assert main(["account", str(tmp_path / "ledger.json"), "--delta", "1e-5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["caveats"]
    assert {caveat["code"] for caveat in found} == {caveat.code for caveat in every}


@pytest.mark.parametrize("form", list(FORMS))
def test_every_warning_of_a_check_is_in_every_form(form):
    check = Check(
        name="an odd check", outcome=Outcome.WARNED, finding="Something is amiss.", advice="Mend it first."
    )
    words = plain(form, FORMS[form](changed(scored(), checks=(check,))))
    assert "an odd check" in words.lower()
    assert check.finding in words
    assert check.advice in words


# How strong the attacks were


def of_strength(strength, **fields):
    report = scored(**fields)
    return changed(report, results=tuple(replace(one, strength=strength) for one in report.audits[0].results))


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("strength", list(Strength))
def test_how_strong_the_attacks_were_is_in_every_form(form, strength):
    report = of_strength(strength, ledger=NOISY)
    words = plain(form, FORMS[form](report))
    if form == "json":
        assert json.loads(document(report))["models"][0]["strength"] == strength.value
    elif form == "page" and strength is Strength.CALIBRATED:
        assert (
            attack_strength(report.worst) not in words
        )  # beside the verdict stands only what takes away from it
    else:
        assert attack_strength(report.worst) in words


@pytest.mark.parametrize("ledger", [None, NOISY], ids=["nothing is proved", "a proof"])
@pytest.mark.parametrize("strength", list(Strength))
def test_a_silence_of_weak_attacks_is_not_shown_as_good_news(strength, ledger):
    """Teal is the colour of "bounded": only strong attacks that found nothing, beside a proof, deserve it."""
    report = of_strength(strength, ledger=ledger)
    good = strength is Strength.CALIBRATED and ledger is not None
    assert (audit_badge(report.worst).kind == "bounded") is good
    for form in (dpia_page, html_page) if ledger is not None else (dpia_page,):  # the page takes its time
        shown = form(report)
        assert ("badge bounded" in shown) is ("verdict bounded" in shown) is good


def test_a_delta_that_is_too_large_is_not_shown_as_good_news():
    report = of_strength(Strength.CALIBRATED, ledger=NOISY, delta=5 / 300)
    assert report.worst.standing is Standing.NOT_DETECTED_PROVED
    assert "badge bounded" not in dpia_page(report)
    assert "δ is too large for the proof" in dpia_page(report)


def test_canaries_do_not_make_attacks_on_records_strong():
    report = of_strength(Strength.TARGET_ALONE)
    planted = replace(report.audits[0].results[0], planted=True, strength=Strength.CALIBRATED)
    report = changed(report, results=(*report.audits[0].results, planted))
    assert report.worst.strength is Strength.TARGET_ALONE


# Who the model is right for


@pytest.fixture(scope="module")
def tree():
    """Right for the north and wrong for every second record of the south, whose labels are coins."""
    from sklearn.tree import DecisionTreeClassifier

    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(600, 4))
    groups = np.where(np.arange(600) % 3 == 0, "south", "north")
    labels = np.where(groups == "south", generator.integers(0, 2, 600), inputs[:, 0] > 0).astype(np.int64)
    inside = np.arange(600) < 300
    model = DecisionTreeClassifier(max_depth=6, random_state=0).fit(inputs[inside], labels[inside])
    sides = [Records(inputs[side], labels[side], groups[side]) for side in (inside, ~inside)]
    right = model.predict(inputs) == labels
    return audit(model, *sides, progress=False), right, inside, groups, labels


def test_accuracy_by_group_is_counted(tree):
    report, right, inside, groups, labels = tree
    harm = report.worst.harm
    for names, found in ((groups, harm.group_accuracies), (labels.astype(str), harm.class_accuracies)):
        assert {one.name for one in found} == set(names)
        for one in found:
            mine = names == one.name
            assert one.on_members.value == pytest.approx(right[mine & inside].mean())
            assert one.on_others.value == pytest.approx(right[mine & ~inside].mean())
            assert one.on_others.lower < one.on_others.value < one.on_others.upper
    assert [one.name for one in harm.group_accuracies] == ["south", "north"]


def test_accuracy_by_group_is_in_every_form(tree):
    report = tree[0]
    known = [one.on_others for one in report.worst.harm.group_accuracies]
    south, north = (percent(rate.value).replace("\u00a0", " ") for rate in known)
    for form, write in FORMS.items():
        words = plain(form, write(report))
        if form == "json":
            groups = {
                group["name"]: group for group in json.loads(document(report))["models"][0]["harm"]["groups"]
            }
            rates = [groups[name]["accuracy"]["nonmembers"]["value"] for name in ("south", "north")]
            assert rates == [rate.value for rate in known]
        else:
            assert south in words, form
            assert north in words, form


# What was planted


def test_canaries_that_there_were_are_known():
    torch = pytest.importorskip("torch")
    from privet.training import train

    generator = np.random.default_rng(0)
    rows, labels = generator.normal(size=(300, 3)).astype(np.float32), generator.integers(0, 2, 300)
    others = generator.normal(size=(300, 3)).astype(np.float32), labels
    for canaries, outcome in ((64, Outcome.PASSED), (None, Outcome.WARNED)):
        trained = train(
            torch.nn.Sequential(torch.nn.Linear(3, 20), torch.nn.ReLU(), torch.nn.Linear(20, 2)),
            (rows, labels),
            epsilon=2,
            delta=1e-6,
            epochs=1,
            lot_size=100,
            canaries=canaries,
        )
        report = audit(trained, (rows, labels), others, progress=False)
        check = next(check for check in report.worst.checks if check.name == "canaries")
        assert check.outcome is outcome
        for form in ("page", "dpia"):
            words = plain(form, FORMS[form](report))
            assert "not known whether there were canaries" not in words
            assert ("There were 64 canaries." in words) is (canaries == 64)
    unknown = audit(trained.model, (rows, labels), others, progress=False)
    assert "not known whether there were canaries" in plain("dpia", dpia_page(unknown))


# Reports that were written before


def test_a_report_of_version_0_1_0_is_still_read():
    old = read_document(OLD_REPORT.read_text(encoding="utf-8"))
    assert old["origin"]["privet_version"] == "0.1.0"
    assert "strength" not in old["models"][0]
