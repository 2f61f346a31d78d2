"""``privet verify``: a report is about what was audited, and about nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest

from privet.adjacency import AddRemove
from privet.cli import main
from privet.events import Gaussian
from privet.ledger import Ledger

OLD_REPORT = Path(__file__).parents[1] / "golden" / "report-0.1.0.json"
MODEL = """
import numpy as np

generator = np.random.default_rng(0)
members = generator.normal(size=(60, 2)), np.arange(60) % 2
nonmembers = generator.normal(size=(60, 2)), np.arange(60) % 2

class Model:
    slope = 1.0

    def predict_proba(self, rows):
        sure = 1 / (1 + np.exp(-self.slope * rows[:, 0].astype(float)))
        return np.stack([1 - sure, sure], axis=1)

model = Model()
model.slope = 2.0
"""


@pytest.fixture
def audited(tmp_path, capsys):
    """A report on a model, with its ledger and its key beside it."""
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    ledger = Ledger(AddRemove()).spend("all", Gaussian(1.0))
    (tmp_path / "ledger.json").write_text(ledger.to_json(), encoding="utf-8")
    words = [
        "audit",
        tmp_path / "mine.py",
        "--ledger",
        tmp_path / "ledger.json",
        "--out",
        tmp_path / "r.json",
    ]
    assert main([*map(str, words), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == str(tmp_path / "r.fingerprints.key")
    return tmp_path


@pytest.fixture
def verify(capsys):
    """Run ``privet verify … --json``: how each comparison ended, and the sentence."""

    def run(*words, code):
        assert main(["verify", *map(str, words), "--json"]) == code
        printed = capsys.readouterr()
        assert printed.err == ""
        found = json.loads(printed.out)
        assert found["same"] is (code == 0)
        return {one["what"]: one["outcome"] for one in found["compared"]}, found["verdict"]

    return run


@pytest.fixture
def refuse(capsys):
    def run(*words):
        code = main(["verify", *map(str, words)])
        printed = capsys.readouterr()
        assert (code, printed.out) == (2, "")
        assert "Traceback" not in printed.err
        return printed.err

    return run


def test_everything_matches(audited, verify):
    found, told = verify(audited / "r.json", audited / "mine.py", "--ledger", audited / "ledger.json", code=0)
    assert found == dict.fromkeys(("model", "members", "nonmembers", "ledger", "code"), "matches")
    assert told == "The report on “mine” is about this: model, members, nonmembers, ledger match."


def test_what_was_not_given_is_told(audited, verify):
    found, told = verify(audited / "r.json", "--ledger", audited / "ledger.json", code=0)
    assert found["ledger"] == "matches"
    assert found["model"] == found["members"] == found["nonmembers"] == "not checked"
    assert told.endswith("ledger matches. Not checked: model, members, nonmembers.")


@pytest.mark.parametrize(
    ("line", "different"),
    [
        ("model.slope = 2.0000001", {"model"}),
        ("members[0][7, 1] += 1e-9", {"members"}),
        ("members[1][7] ^= 1", {"members"}),
        ("nonmembers = nonmembers[0][:-1], nonmembers[1][:-1]", {"nonmembers"}),
        ("members, nonmembers = nonmembers, members", {"members", "nonmembers"}),
        ("members = members[0][::-1].astype(np.float64), members[1][::-1]", set()),
    ],
)
def test_a_difference_is_found_and_named(audited, verify, line, different):
    (audited / "other.py").write_text(MODEL + line, encoding="utf-8")
    found, told = verify(audited / "r.json", audited / "other.py", code=1 if different else 0)
    assert {what for what in ("model", "members", "nonmembers") if found[what] == "differs"} == different
    assert all(what in told for what in different)


def test_another_ledger_and_a_report_that_was_changed(audited, verify):
    other = Ledger(AddRemove()).spend("all", Gaussian(2.0))
    (audited / "other.json").write_text(other.to_json(), encoding="utf-8")
    found, _ = verify(audited / "r.json", "--ledger", audited / "other.json", code=1)
    assert found["ledger"] == "differs"
    text = (audited / "r.json").read_text(encoding="utf-8")
    plain = json.loads(text)
    plain["models"][0]["ledger"] = json.loads(other.to_json())
    (audited / "r.json").write_text(json.dumps(plain), encoding="utf-8")
    found, _ = verify(audited / "r.json", "--ledger", audited / "ledger.json", code=1)
    assert found["ledger in the report"] == "differs"


def test_other_code_is_told_and_does_not_decide(audited, verify):
    plain = json.loads((audited / "r.json").read_text(encoding="utf-8"))
    plain["origin"]["code"]["digest"] = "0" * 64
    (audited / "r.json").write_text(json.dumps(plain), encoding="utf-8")
    found, _ = verify(audited / "r.json", audited / "mine.py", code=0)
    assert found["code"] == "differs"


def test_without_the_key_nothing_keyed_is_confirmed(audited, verify, refuse):
    (audited / "r.fingerprints.key").rename(audited / "away.key")
    found, told = verify(audited / "r.json", audited / "mine.py", "--ledger", audited / "ledger.json", code=1)
    assert found["members"] == "not checked"
    assert found["ledger"] == "matches"
    assert told.startswith("It is not confirmed that")
    verify(audited / "r.json", audited / "mine.py", "--key", audited / "away.key", code=0)
    (audited / "wrong.key").write_text("privet-fingerprint-key-1 " + "0" * 64, encoding="utf-8")
    assert "must be the key of this report" in refuse(
        audited / "r.json", audited / "mine.py", "--key", audited / "wrong.key"
    )


def test_a_model_that_is_public_needs_no_key(tmp_path, capsys, verify):
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    words = ["audit", tmp_path / "mine.py", "--public-model", "--out", tmp_path / "r.json"]
    assert main([*map(str, words)]) == 0
    assert "keep it with the data, not with the report" in capsys.readouterr().out
    (tmp_path / "r.fingerprints.key").unlink()
    found, _ = verify(tmp_path / "r.json", tmp_path / "mine.py", code=1)
    assert found["model"] == "matches"
    assert found["members"] == "not checked"


def test_weights_and_tables_of_a_toml_file(tmp_path, capsys, verify, refuse):
    torch = pytest.importorskip("torch")
    (tmp_path / "net.py").write_text("from torch import nn\n\ndef make():\n    return nn.Linear(2, 2)\n")
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "net.pt")
    torch.save(torch.nn.Linear(2, 2).state_dict(), tmp_path / "other.pt")
    generator = np.random.default_rng(0)
    for side in ("m", "n"):
        np.savez(tmp_path / f"{side}.npz", x=generator.normal(size=(50, 2)), y=np.arange(50) % 2)
    lines = ['model = "net.py:make"', 'weights = "net.pt"', 'members = "m.npz"', 'nonmembers = "n.npz"']
    (tmp_path / "mine.toml").write_text("\n".join(lines), encoding="utf-8")
    report = tmp_path / "r.json"
    assert main(["audit", str(tmp_path / "mine.toml"), "--out", str(report)]) == 0
    capsys.readouterr()
    verify(report, tmp_path / "mine.toml", code=0)
    sides = "--members", tmp_path / "m.npz", "--nonmembers", tmp_path / "n.npz"
    found, _ = verify(report, "--model", tmp_path / "net.pt", *sides, code=0)
    assert found["model"] == found["members"] == found["nonmembers"] == "matches"
    found, _ = verify(report, "--model", tmp_path / "other.pt", "--members", tmp_path / "n.npz", code=1)
    assert found["model"] == found["members"] == "differs"
    assert "--model" in refuse(report, "--model", tmp_path / "m.npz")
    assert "--model" in refuse(report, "--model", tmp_path / "none.pt")


def test_scores(tmp_path, capsys, verify, refuse):
    generator = np.random.default_rng(0)
    for side in ("m", "n"):
        np.save(tmp_path / f"{side}.npy", generator.normal(size=60))
    sides = ["--members", str(tmp_path / "m.npy"), "--nonmembers", str(tmp_path / "n.npy")]
    for ending in ("json", "dpia.html"):  # two forms under one key
        assert main(["audit", *sides, "--out", str(tmp_path / f"r.{ending}")]) == 0
        capsys.readouterr()
    verify(tmp_path / "r.json", *sides, code=0)
    found, _ = verify(tmp_path / "r.json", "--members", sides[3], code=1)
    assert found["members"] == "differs"
    digest = json.loads((tmp_path / "r.json").read_text())["models"][0]["fingerprints"]["members"]["digest"]
    assert digest in (tmp_path / "r.dpia.html").read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    assert "Give the scores" in refuse(tmp_path / "r.json", tmp_path / "mine.py")


def test_an_old_report_has_none(verify, tmp_path):
    (tmp_path / "ledger.json").write_text(Ledger(AddRemove()).to_json(), encoding="utf-8")
    found, _ = verify(OLD_REPORT, "--ledger", tmp_path / "ledger.json", code=1)
    assert found["ledger"] == found["code"] == "not checked"


def test_wrong_use(audited, refuse, tmp_path):
    assert "got the report alone" in refuse(audited / "r.json")
    assert "report.json" in refuse(audited / "none.json", audited / "mine.py")
    refuse(audited / "mine.py", audited / "mine.py")
    assert "'mine'" in refuse(audited / "r.json", audited / "mine.py", "--name", "other")
    plain = json.loads((audited / "r.json").read_text(encoding="utf-8"))
    plain["models"].append({**plain["models"][0], "name": "second"})
    (tmp_path / "two.json").write_text(json.dumps(plain), encoding="utf-8")
    assert "'--name' must say which model" in refuse(tmp_path / "two.json", audited / "mine.py")


def test_a_file_that_fails_confirms_nothing(audited, capsys):
    for line in ("raise ValueError", "import sys; sys.exit(0)"):
        (audited / "broken.py").write_text(MODEL + line, encoding="utf-8")
        assert main(["verify", str(audited / "r.json"), str(audited / "broken.py")]) == 3
        assert capsys.readouterr().out == ""


def test_the_key_of_an_audit_has_a_folder(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(MODEL, encoding="utf-8")
    words = ["audit", tmp_path / "mine.py", "--key", tmp_path / "none" / "a.key"]
    assert main([*map(str, words)]) == 2
    assert "'--key' must be a file in a folder that exists" in capsys.readouterr().err


def test_text_begins_with_the_verdict(audited, capsys):
    assert main(["verify", str(audited / "r.json"), str(audited / "mine.py")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("The report on “mine” is about this: model, members, nonmembers match.")
    assert "not given" in said
