"""``privet audit-text``: the table, the JSON, limits and refusals."""

import json

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


def test_json_lists_every_attack_with_its_figures(subject, capsys):
    assert main(["audit-text", subject, "--samples", "10", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    guessed = [attack for attack in document["attacks"] if attack["level"] in ("text", "author")]
    recovered = [attack for attack in document["attacks"] if attack["level"] == "recovery"]
    assert {attack["level"] for attack in guessed} == {"text", "author"}
    assert all({"attack", "auc", "tpr", "epsilon_lower"} <= attack.keys() for attack in guessed)
    assert all({"attack", "success", "baseline", "leak", "ceiling"} <= attack.keys() for attack in recovered)
    assert len(recovered) == 3
    assert document["text"]["coin_unit"] == "author"
    assert "person" not in json.dumps(document["text"])


def test_the_table_the_report_and_a_broken_limit(subject, capsys, tmp_path):
    out = tmp_path / "report.html"
    code = main(["audit-text", subject, "--samples", "0", "--out", str(out), "--fail-above", "auc=0.6"])
    said = capsys.readouterr().out
    assert code == 1
    assert "FAILED: auc is" in said
    assert "author loss" in said
    assert "What the model remembers" in out.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model = 3", "must set encoder, texts, members"),
        (_FILE + "\nmodel = 3", "'model' must be a causal language model"),
        (_FILE + "\nmembers = 3", "must be lists of texts"),
        (_FILE + "\nauthors = ['a'] * 80", "at least two authors"),
        ("raise ValueError('mine')", "ValueError: mine"),
    ],
)
def test_a_wrong_file_is_refused_in_one_sentence(text, words, tmp_path, capsys):
    path = tmp_path / "wrong.py"
    path.write_text(text)
    assert main(["audit-text", str(path)]) in (2, 3)
    assert words in capsys.readouterr().err
