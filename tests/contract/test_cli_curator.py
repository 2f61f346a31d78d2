"""``privet curator`` without a server: what stewards write, what is refused, and the exit codes."""

import json
import tomllib

import pytest

pytest.importorskip("alembic", reason="the curator needs the extra curator")
pytest.importorskip("fastapi", reason="the curator needs the extra curator")

from privet.cli import main
from privet.curator.serving.demonstration import prepare_demonstration
from privet.curator.serving.installation import read_installation
from privet.errors import InvalidArgument, Unreadable

ADD = [
    "--path",
    "data/visits.parquet",
    "--unit",
    "patient",
    "--rows",
    "2",
    "--groups",
    "2",
    "--column",
    "age:whole:0:100",
]
ADD += [
    "--column",
    "ward:text:surgery,medicine",
    "--column",
    "smoker:truth",
    "--epsilon",
    "3",
    "--delta",
    "1e-7",
]


def run(*words):
    return main(["curator", *map(str, words)])


@pytest.fixture
def steward(tmp_path):
    path = tmp_path / "steward.toml"
    assert run("add-dataset", path, "visits", *ADD, "--description", "Visits", "--json") == 0
    return path


def test_a_dataset_is_described_in_the_file(steward, capsys):
    (visits,) = tomllib.loads(steward.read_text())["datasets"].values()
    assert visits["budget"] == {"epsilon": 3.0, "delta": 1e-7}
    assert visits["columns"]["age"] == {"type": "whole", "lower": 0, "upper": 100}
    assert visits["columns"]["ward"]["keys"] == ["surgery", "medicine"]
    before = steward.read_text()
    assert run("add-dataset", steward, "visits", *ADD) == 2
    assert steward.read_text() == before


@pytest.mark.parametrize("column", ["age", "age:whole:a:b", "age:colour", "age:whole:5:1", "a:b:c:d:e"])
def test_a_column_that_makes_no_sense_is_refused(tmp_path, column, capsys):
    words = [
        "add-dataset",
        tmp_path / "new.toml",
        "visits",
        "--path",
        "v.csv",
        "--each-row-is-a-person",
        "--column",
        column,
    ]
    assert run(*words, "--epsilon", "1", "--delta", "0") == 2
    assert not (tmp_path / "new.toml").exists()


def test_accounts_and_the_chain_that_keeps_them(steward, tmp_path, capsys):
    capsys.readouterr()
    assert run("add-analyst", steward, "stella", "--role", "steward", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["password"]) == 27
    password = tmp_path / "password"
    password.write_text("short")
    assert run("add-analyst", steward, "ann", "--password-file", password) == 2
    password.write_text("a-long-enough-password\n")
    assert run("add-analyst", steward, "ann", "--password-file", password, "--email", "ann@example.org") == 0
    assert "a-long-enough" not in capsys.readouterr().out
    assert (
        run("grant", steward, "ann", "visits", "--epsilon", "1") == 2
    )  # not in the ledger before the first start
    assert run("verify", steward, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chain_ok"]
    assert found["charges"] == 0


def test_a_chain_that_was_changed_is_found(steward, capsys):
    import sqlite3

    run("add-analyst", steward, "ann")
    with sqlite3.connect(steward.with_name("curator.db")) as ledger:
        for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            ledger.execute(f"DROP TRIGGER {name}")  # the database itself refuses the change
        ledger.execute("UPDATE chain SET body = replace(body, 'ann', 'eve')")
    ledger.close()
    assert run("verify", steward) == 1
    assert "does not agree" in capsys.readouterr().out


@pytest.mark.parametrize(
    "section",
    ["[curator]\ncolour = 1", "[curator.database]\naddress = 3", '[curator.gateway]\nhost = "0.0.0.0"'],
)
def test_settings_that_are_wrong_are_refused_before_anything_starts(tmp_path, section):
    path = tmp_path / "steward.toml"
    path.write_text(f"version = 1\n{section}\n")
    with pytest.raises(InvalidArgument):
        read_installation(path)
    assert run("serve", path) == 2


def test_passwords_do_not_stand_in_the_file(tmp_path, monkeypatch):
    path = tmp_path / "steward.toml"
    path.write_text('[curator.database]\naddress = "postgresql+psycopg://me:secret@db/privet"\n')
    with pytest.raises(InvalidArgument, match="password_file") as refused:
        read_installation(path)
    assert "secret" not in str(refused.value)
    path.write_text('[curator.database]\naddress = "postgresql+psycopg://me@db/privet"\n')
    monkeypatch.setenv("PRIVET_DATABASE_PASSWORD", "hidden-one")
    installation = read_installation(path)
    assert "hidden-one" in installation.database_address
    assert "hidden-one" not in repr(installation)
    assert installation.accounts_address == installation.database_address


def test_what_is_not_there_is_said(tmp_path, capsys):
    for words in (["serve"], ["verify"], ["export"], ["grant"]):
        extra = {"export": ["visits"], "grant": ["ann", "visits"]}.get(words[0], [])
        assert run(*words, tmp_path / "missing.toml", *extra) == 2
    with pytest.raises(Unreadable):
        read_installation(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(InvalidArgument, match="empty"):
        prepare_demonstration(tmp_path / "full", port=8443)
    assert run("demo", "--folder", tmp_path / "full") == 2
    assert run("nothing") == 2
    assert run() == 2
