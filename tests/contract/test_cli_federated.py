"""``privet federated demo``: the table, the JSON, the page, and what is refused."""

import json

import pytest

pytest.importorskip("torch", reason="clients train torch models")
pytest.importorskip("flwr", reason="Flower carries the messages")
pytest.importorskip("sklearn", reason="the digits come with scikit-learn")

from privet.cli import federated_demo, main


@pytest.fixture
def small(monkeypatch):
    """Eight clients and three rounds, so that the command is quick."""
    monkeypatch.setattr(federated_demo, "CLIENTS", 8)
    monkeypatch.setattr(federated_demo, "_ROUNDS", 3)
    monkeypatch.setattr(federated_demo, "_HIDDEN", 8)


def check_document(document):
    assert [run["defence"] for run in document["runs"]] == [
        "no defence",
        "clipping + noise",
        "secure aggregation",
        "both",
    ]
    for run in document["runs"]:
        assert 0 <= run["test_accuracy"] <= 1
        assert (run["epsilon_proved"] is None) == (run["covers"] == "nobody")
        assert len(run["attacks"]) == 6
        for attack in run["attacks"]:
            assert 0 <= attack["success"] <= 1
            assert 0 <= attack["baseline"] <= 1
            assert attack["ceiling"] is None or attack["baseline"] <= attack["ceiling"] <= 1
            assert not attack["above_ceiling"]


@pytest.mark.slow
def test_the_demo_prints_one_table_and_writes_the_page(small, tmp_path, capsys):
    out = tmp_path / "demo.html"
    assert main(["federated", "demo", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    for words in (
        "membership, active server",
        "secure aggregation",
        "ε of a client",
        "no proof",
        f"in {out}.",
    ):
        assert words in said
    assert "What the server sees of one client" in out.read_text(encoding="utf-8")


def test_the_demo_as_json(small, tmp_path, capsys):
    out = tmp_path / "demo.html"
    assert main(["federated", "demo", "--json", "--epsilon", "2", "--delta", "0.01", "--out", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    check_document(document)
    assert document["runs"][1]["epsilon_proved"] <= 2
    assert document["report"] == str(out)
    assert "What the server sees of one client" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["demo", "--out", "demo.txt"], "'--out' must end in"),
        (["demo", "--epsilon", "many"], "must be a number"),
        (["demo", "--epsilon", "-1"], "epsilon"),
        (["demo", "--delta", "1"], "delta"),
        (["train"], "demo"),
    ],
)
def test_what_is_refused(small, words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["federated", *words]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_whole_demo(tmp_path, capsys):
    """Fifty clients. Open messages show records; masks and shared sums do not."""
    assert main(["federated", "demo", "--json", "--out", str(tmp_path / "demo.json")]) == 0
    document = json.loads(capsys.readouterr().out)
    check_document(document)
    runs = {
        run["defence"]: {attack["attack"]: attack for attack in run["attacks"]} for run in document["runs"]
    }
    assert runs["no defence"]["inversion, server"]["leak_interval"][0] > 0
    assert runs["no defence"]["membership, server"]["leak_interval"][0] > 0
    assert runs["secure aggregation"]["inversion, server"]["success"] == 0
