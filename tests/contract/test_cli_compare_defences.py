"""``privet compare study.py`` from end to end, and what it refuses before a model is trained."""

import json

import pytest

from privet.cli import main

pytest.importorskip("torch", reason="the command needs torch")
pytest.importorskip("sklearn", reason="the studies train estimators")

KEYS = {"name", "test_accuracy", "tpr_population", "tpr_exposed", "fpr", "epsilon_proved", "seconds"}
STUDY = """
import numpy as np
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

generator = np.random.default_rng(0)
inputs = generator.normal(size=(300, 4))
data = inputs, (inputs[:, 0] + generator.normal(size=300) > 0).astype(int)
recipes = {"tree": DecisionTreeClassifier(random_state=0), "naive Bayes": GaussianNB()}
"""
FEW = ["--references", "6", "--canaries", "5"]


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(more=""):
        (tmp_path / "study.py").write_text(STUDY + more, encoding="utf-8")

    write()
    return write


def test_a_study_from_end_to_end(study, capsys, tmp_path):
    assert main(["compare", "study.py", *FEW, "--json", "--out", "defences.json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [set(row) & KEYS for row in told["defences"]] == [KEYS, KEYS]
    assert [row["name"] for row in told["defences"]] == ["tree", "naive Bayes"]
    assert all(row["fpr"] == 0.01 and row["epsilon_proved"] is None for row in told["defences"])
    assert told["defences"][0]["tpr_exposed"] > 0.5  # by heart
    # Again, from the cache: the same figures, also the time that a model took.
    assert main(["compare", "study.py", *FEW]) == 0
    shown = capsys.readouterr().out
    assert "take this" in shown
    assert f"Take {told['recommended']}:" in shown
    # The audit of a model quotes it.
    for name, shift in (("m", 2.0), ("n", 0.0)):
        lines = (str(shift + place / 30) for place in range(60))
        (tmp_path / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    scores = ["audit", "--members", "m.txt", "--nonmembers", "n.txt", "--out", "report.dpia.html"]
    assert main([*scores, "--comparison", "defences.json"]) == 0
    assert f"Take {told['recommended']}:" in (tmp_path / "report.dpia.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main([*scores, "--comparison", "study.py"]) == 2
    assert "JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ("recipes = {'tree': recipes['tree']}", 2, "two or more defences, got 1"),
        ("recipes = {}", 2, "two or more defences, got 0"),
        ("del data", 2, "must set data"),
        ("test = data", 2, "300 of 300 are also in 'data'"),
        ("data = inputs[:10], data[1][:10]", 2, "four for each canary"),
        ("data = inputs, inputs[:, 0]", 2, "labels"),
        ("def fail(*_): raise RuntimeError('no layer')\nrecipes['broken'] = fail", 3, "'broken' must train"),
        ("1 / 0", 3, "ZeroDivisionError"),
    ],
)
def test_bad_studies_get_one_sentence(study, capsys, tmp_path, more, code, words):
    study(more)
    assert main(["compare", "study.py", *FEW, "--out", "page.html"]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert not (tmp_path / "page.html").exists()
    assert code == 3 or not (tmp_path / ".privet-cache").exists()  # nothing was trained


def test_what_a_defence_finished_before_another_failed_is_kept(study, capsys, tmp_path):
    study("def fail(*_): raise RuntimeError('no layer')\nrecipes['broken'] = fail")
    assert main(["compare", "study.py", *FEW]) == 3
    assert "is kept in the cache" in capsys.readouterr().err
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".privet-cache/defences/*.json")}
    assert len(kept) == 2
    study()
    assert main(["compare", "study.py", *FEW]) == 0
    again = {path: path.stat().st_mtime_ns for path in tmp_path.glob(".privet-cache/defences/*.json")}
    # The figures depend on the number of defences, which share the failure of all intervals: measured again
    # from models that were kept.
    assert kept.items() <= again.items()
