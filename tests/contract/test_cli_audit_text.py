"""``privet audit-text``: the table, the JSON, limits and refusals."""

import json
import socket
import time

import pytest

from privet.cli import main

_FILE = """
import numpy as np
from privet.attacks.text import ByteEncoder, NGramModel, encode_texts

encoder = ByteEncoder()
members = [f"dear {one * 7919 % 1000003}, your code is {one * 104729 % 999983}" for one in range(40)]
nonmembers = [f"dear {one * 7919 % 1000003}, your code is {one * 104729 % 999983}" for one in range(40, 80)]
authors = [f"person {one // 2}" for one in range(80)]
model = NGramModel(encode_texts(encoder, members, end=256), vocabulary=257, order=6, end=256)
prompt_tokens = passage_tokens = 8
"""


@pytest.fixture
def subject(tmp_path):
    path = tmp_path / "mails.py"
    path.write_text(_FILE)
    return str(path)


_GUESSED = {"attack", "level", "auc", "tpr", "fpr_floor", "epsilon_lower", "detected"}


def test_json_lists_every_attack_with_its_figures(subject, capsys):
    assert main(["audit-text", subject, "--samples", "10", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    guessed = [attack for attack in document["attacks"] if attack["level"] in ("text", "author")]
    recovered = [attack for attack in document["attacks"] if attack["level"] == "recovery"]
    assert len(guessed) + len(recovered) == len(document["attacks"])
    assert {attack["level"] for attack in guessed} == {"text", "author"}
    assert all(attack.keys() == _GUESSED for attack in guessed)
    assert all(
        {"attack", "success", "baseline", "leak", "ceiling", "epsilon_lower"} <= attack.keys()
        for attack in recovered
    )
    assert all(attack["ceiling"] is None for attack in recovered)  # nothing was claimed
    assert [attack["attack"] for attack in recovered] == [
        "greedy extraction",
        "extraction in 100 tries",
        "sampled extraction",
    ]
    assert all(0.5 <= attack["auc"]["value"] <= 1 for attack in guessed)
    assert document["epsilon_lower"] > 0
    assert document["text"]["coin_unit"] == "author"
    assert document["failed"] == []


def test_no_name_and_no_text_leaves_without_exhibits(subject, capsys, tmp_path):
    """On the screen, as JSON, and in the file; a number of a mail has six digits and occurs nowhere else."""
    private = {str(one * 104729 % 999983) for one in range(3, 80)} | {"person "}
    arguments = ["audit-text", subject, "--samples", "0"]
    for extra in (["--json"], ["--out", str(tmp_path / "report.json")]):
        assert main([*arguments, *extra]) == 0
    said = capsys.readouterr()
    kept = (tmp_path / "report.json").read_text()
    assert not [word for word in private if word in said.out + said.err]
    assert not [word for word in private if word in kept]
    assert main([*arguments, "--out", str(tmp_path / "shown.json"), "--exhibits"]) == 0
    assert "person " in (tmp_path / "shown.json").read_text()
    assert "person " not in capsys.readouterr().out


def test_the_table_the_report_and_a_broken_limit(subject, capsys, tmp_path):
    out = tmp_path / "report.html"
    code = main(["audit-text", subject, "--samples", "0", "--out", str(out), "--fail-above", "auc=0.6"])
    said = capsys.readouterr().out
    assert code == 1
    assert "FAILED: auc is" in said
    assert "author loss" in said
    assert "What the model remembers" in out.read_text()


@pytest.mark.parametrize(
    ("text", "words", "code"),
    [
        ("model = 3", "must set encoder, texts, members", 2),
        (_FILE + "\nmodel = 3", "'model' must be a causal language model", 2),
        (_FILE + "\nmembers = 3", "must be lists of texts", 2),
        (_FILE + "\nmembers = []\nauthors = None", "got no text that was trained on", 2),
        (_FILE + "\nmembers[0] = 5", "'texts' must be a list of text", 2),
        (_FILE + "\nmembers[0] = ''", "no empty one", 2),
        (_FILE + "\nauthors = ['a'] * 80", "at least two authors", 2),
        (_FILE + "\nend = 400", "'end'", 2),
        (_FILE + "\nlongest = 'x'", "'longest'", 2),
        (
            _FILE + "\nclass Wrong:\n    decode = encode = lambda self, text: [1, text]\nencoder = Wrong()",
            "'encoder'",
            2,
        ),
        ("raise ValueError('mine')", "ValueError: mine", 3),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(text, words, code, tmp_path, capsys):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert main(["audit-text", str(path)]) == code
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert "your code is" not in said


@pytest.mark.slow
def test_the_demo_is_offline_within_three_minutes_and_shows_both_models(tmp_path, capsys, monkeypatch):
    def refuse(*_):
        raise AssertionError("the demo opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    out, began = tmp_path / "demo.html", time.process_time()
    assert main(["text", "demo", "--out", str(out), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    plain, private = document["models"]
    assert time.process_time() - began < 180  # of the processor, which others use as well
    assert (plain["standing"], private["epsilon_proved"] <= 8) == ("leaks", True)
    assert private["epsilon_lower"] <= private["epsilon_proved"]
    greedy = [{a["attack"]: a for a in model["attacks"]}["greedy extraction"] for model in (plain, private)]
    assert greedy[0]["success"]["value"] > greedy[1]["success"]["value"]
    page = out.read_text()
    assert "What the model remembers" in page
    assert "dear " not in page  # every letter begins so
    assert "writer 1" not in page


def test_a_demo_into_a_folder_that_is_missing_is_refused_before_it_trains(tmp_path, capsys):
    assert main(["text", "demo", "--out", str(tmp_path / "missing" / "demo.html")]) == 2
    assert "must be" in capsys.readouterr().err
