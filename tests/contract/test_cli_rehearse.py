"""``privet release --rehearse``: attacks before a release. It reads no row and spends nothing."""

import json

import pytest

from privet.cli import main, release_rehearsal
from privet.cli.output import fixed_up

pytest.importorskip("polars")

FIGURES = {"attack", "success", "baseline", "leak", "ceiling", "epsilon_lower"}


def words(path, *more):
    return [
        "release",
        str(path),
        "--privacy-unit",
        "person",
        "--mean",
        "salary:0:100",
        "--epsilon",
        "1",
        *more,
    ]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "salaries.csv"
    path.write_text("person,salary\n" + "\n".join(f"{person},{person % 100}" for person in range(300)) + "\n")
    return path


def test_a_rehearsal_reads_no_row_and_spends_nothing(table, tmp_path, capsys):
    """The table is deleted after the release, and every file beside the ledger stays as it is."""
    ledger = tmp_path / "ledger.json"
    assert main(words(table, "--ledger", str(ledger), "--budget", "2")) == 0
    capsys.readouterr()
    table.unlink()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(words(table, "--ledger", str(ledger), "--rehearse", "--population", "20", "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert document["drawn_from"] == "answers"
    assert document["people"] == 20
    assert [level["epsilon"] for level in document["levels"]] == [0.5, 1.0, 2.0]
    for level in document["levels"]:
        assert {"differencing: salary", "averaging 10 stored answers: salary"} <= {
            attack["attack"] for attack in level["attacks"]
        }
        for attack in level["attacks"]:
            assert set(attack) >= FIGURES
            assert attack["success"]["lower"] <= attack["ceiling"]


def test_the_text_says_what_an_attacker_would_get(tmp_path, capsys, monkeypatch):
    """The ceiling that is shown is the sure one: at the measured baseline, a tight attack is above it every other time."""
    made, rehearse = [], release_rehearsal.rehearse_plan

    def keep(plan, **options):
        made.append(rehearse(plan, **options))
        return made[0]

    monkeypatch.setattr(release_rehearsal, "rehearse_plan", keep)
    assert main(words(tmp_path / "missing.csv", "--rehearse", "--population", "10")) == 0
    said = capsys.readouterr().out
    assert "No row was read, and nothing was spent." in said
    assert "At ε = 1 the attack" in said
    assert "public bounds and keys" in said
    assert list(tmp_path.iterdir()) == []
    results = [result for level in made[0].levels for result in level.results]
    shown = [line.rpartition("≤ ")[2] for line in said.splitlines() if "≤ " in line]
    assert sorted(shown) == sorted(f"{fixed_up(100 * result.sure_ceiling, 1)} %" for result in results)


def test_a_quote_and_a_rehearsal_are_asked_for_one_by_one(tmp_path, capsys):
    assert main(words(tmp_path / "missing.csv", "--rehearse", "--quote")) == 2
    assert "--rehearse must be given without --quote" in capsys.readouterr().err
