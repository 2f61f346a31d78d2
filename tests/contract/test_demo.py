"""What ``privet demo`` and the pictures promise: known numbers, and SVG that is whole and stands alone."""

import json
import re
from xml.etree import ElementTree as Xml

import pytest

from privet.cli import main

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


def test_demo(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--json"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    found = json.loads(printed.out)
    # tensorflow/privacy, tutorials/README.md
    assert [(row["noise_multiplier"], row["epochs"], row["published"]) for row in found["published"]] == [
        (1.3, 15, 1.19),
        (1.1, 60, 3.01),
        (0.7, 45, 7.10),
    ]
    for row in found["published"]:
        assert row["epsilon_lower"] <= row["epsilon"] <= row["renyi"] <= row["published"]
        assert row["epsilon"] <= row["epsilon_lower"] * (1 + 1e-4)
    assert found["published"][1]["epsilon"] == pytest.approx(2.38160, abs=1e-5)
    # SPEC C3: ε = 1/1000, T = 500, δ = 1e-6
    theorems = {row["accountant"]: row["epsilon"] for row in found["composition"]}
    assert theorems["basic composition"] == pytest.approx(0.5)
    assert theorems["advanced composition"] == pytest.approx(0.1178, abs=5e-5)
    assert theorems["optimal composition"] == pytest.approx(0.0798, abs=5e-5)
    noise = {row["epsilon"]: row["noise_multiplier"] for row in found["calibration"]}
    assert noise[2.0] == pytest.approx(1.22415, abs=1e-5)
    assert list(noise.values()) == sorted(noise.values(), reverse=True)
    assert_stands_alone(tmp_path / "privet-demo.svg")


def test_demo_refuses_before_it_works(capsys):
    assert main(["demo", "--plot", "no/such/folder/a.svg"]) == 2
    assert "folder that exists" in capsys.readouterr().err
