"""``privet ledger``: what a ledger file is, its budget that is changed on the record, and heads that were noted."""

import json

import pytest

from privet.cli import main
from privet.ledger import Ledger


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("person,family,age\n" + "".join(f"{row},{row // 3},{row % 90}\n" for row in range(300)))
    return path


@pytest.fixture
def ledger(tmp_path):
    return tmp_path / "ledger.json"


@pytest.fixture
def release(table, ledger, capsys):
    def run(*words, unit="person"):
        code = main(
            [
                "release",
                str(table),
                "--privacy-unit",
                unit,
                "--ledger",
                str(ledger),
                "--epsilon",
                "0.5",
                *words,
                "--json",
            ]
        )
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.fixture
def tell(ledger, capsys):
    def run(*words):
        code = main(["ledger", str(ledger), *words, "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


def test_it_tells_what_the_file_is(release, tell, ledger, capsys):
    release("--count", "--budget", "2")
    code, found = tell()
    assert code == 0
    assert (found["entries"], found["unit_column"], found["adjacency"], found["unit"]) == (
        1,
        "person",
        "add-remove",
        "user",
    )
    assert found["filter"]["epsilon"] == 2.0
    assert found["filter"]["reached"] == pytest.approx(0.5)
    assert found["changes"] == []
    assert main(["ledger", str(ledger)]) == 0
    told = capsys.readouterr().out
    assert "is a ledger of 1 entry" in told
    assert found["head"] in told
    assert "ε = 2 at δ = 0" in told


def test_a_budget_is_given_once_and_changed_on_the_record(release, tell, ledger, capsys):
    release("--count", "--budget", "1")
    code, found = release("--mean", "age:0:100", "--budget", "5")
    assert code == 2
    assert "was given now" in found["error"]["message"]
    assert "--change-budget" in found["error"]["message"]
    assert len(Ledger.from_json(ledger.read_text())) == 1
    assert release("--mean", "age:0:100", "--budget", "1")[0] == 0
    code, found = tell("--change-budget", "5")
    assert code == 2
    assert "--reason" in found["error"]["message"]
    assert tell("--reason", "x")[0] == 2
    code, found = tell("--change-budget", "5", "--reason", "second wave")
    assert code == 0
    (change,) = found["changes"]
    assert (change["place"], change["before"]["epsilon"], change["after"]["epsilon"]) == (2, 1.0, 5.0)
    assert change["reason"] == "second wave"
    assert [caveat["code"] for caveat in found["caveats"]] == ["LATE_BUDGET"]
    assert main(["ledger", str(ledger)]) == 0
    assert "second wave" in capsys.readouterr().out
    assert release("--histogram", "age:1,2,3")[0] == 0
    code, found = tell("--change-budget", "0.1", "--reason", "less")
    assert (code, found["error"]["type"]) == (2, "BudgetExceeded")


def test_another_unit_column_is_refused_also_in_a_quote(release):
    release("--count")
    for words in (("--count",), ("--count", "--quote")):
        code, found = release(*words, unit="family")
        assert code == 2
        assert "'family' is asked for" in found["error"]["message"]


def test_a_restored_backup_is_behind_the_head_that_was_noted(release, tell, ledger, capsys):
    release("--count")
    folder = {file: file.read_bytes() for file in ledger.parent.iterdir()}
    release("--mean", "age:0:100")
    noted = tell()[1]["head"]
    assert tell("--beyond", noted)[0] == 0
    for file, content in folder.items():
        file.write_bytes(content)
    code, found = tell("--beyond", noted)
    assert (code, found["beyond"]) == (1, False)
    assert main(["ledger", str(ledger), "--beyond", noted]) == 1
    assert "BEHIND the head" in capsys.readouterr().out
    assert tell("--beyond", noted, "--change-budget", "3", "--reason", "x")[0] == 2
    assert tell("--beyond", "x")[0] == 2


def test_what_is_no_ledger_is_refused(tell, ledger, table, capsys):
    assert tell()[0] == 2
    ledger.write_text("{}")
    assert tell()[0] == 2
    assert main(["ledger", str(table)]) == 2
    assert "must be a Privet ledger" in capsys.readouterr().err


def test_a_ledger_of_0_1_0_has_no_head_until_it_is_spent_from(tell, ledger, capsys):
    ledger.write_text(
        '{"format": "privet-ledger", "version": 1, "adjacency": "add-remove", "unit": "user", "caveats": [], "entries": '
        '[{"label": "a", "event": {"kind": "opaque", "epsilon": 0.5, "delta": 0.0}}]}'
    )
    assert tell()[1]["head"] is None
    assert main(["ledger", str(ledger)]) == 0
    assert "none: an earlier version wrote it" in capsys.readouterr().out
    code, found = tell("--change-budget", "2", "--reason", "a first one")
    assert code == 0
    assert found["head"] is not None
    assert found["filter"]["delta"] == 0
