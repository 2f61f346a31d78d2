"""Commands among closed and full streams, odd paths and hostile names: an answer or one sentence, never a traceback, nothing spent for nothing."""

import csv
import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

import privet
from privet.cli import main
from privet.cli.printable import one_line, printable, printable_json

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(privet.__file__).parents[1])}
ACCOUNT = ["account", "--noise-multiplier", "1", "--steps", "1", "--delta", "1e-5"]
ESCAPE = "\x1b[2J\x1b]0;owned\x07\u202eevil\x9b31m\r\nforged   1,000   1"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["who", "key", "value"])
        rows.writerows([number, ESCAPE if number % 2 else "plain", number % 7] for number in range(4000))
    return path


@pytest.fixture
def spend(table, tmp_path):
    ledger = tmp_path / "ledger.json"
    return ["release", str(table), "--count", "--epsilon", "1", "--ledger", str(ledger)], ledger


def shell(line, words, **more):
    """Run a command by a shell, whose redirections close and fill streams."""
    script = f'exec "$@" {line}'
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "privet", *words]
    return subprocess.run(command, capture_output=True, env=ENVIRONMENT, check=False, text=True, **more)


class TestStreams:
    def test_a_closed_output_is_refused_before_anything_is_spent(self, spend):
        words, ledger = spend
        ended = shell(">&-", words)
        assert ended.returncode == 3
        assert ended.stderr == (
            "privet: Standard output must be open to take the answer, and is closed. "
            "Send it to a file or a terminal.\n"
        )
        assert not ledger.exists()

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
    def test_a_full_output_is_refused_before_anything_is_spent(self, spend):
        words, ledger = spend
        ended = shell(">/dev/full", words)
        assert ended.returncode == 3
        assert "must have room for the answer, and has not (No space left on device)" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert not ledger.exists()

    def test_nobody_who_reads(self, spend):
        words, ledger = spend
        read, write = os.pipe()
        os.close(read)
        ended = subprocess.run(
            [sys.executable, "-m", "privet", *words], stdout=write, stderr=subprocess.PIPE, env=ENVIRONMENT, check=False
        )  # fmt: skip
        os.close(write)
        assert (ended.returncode, ended.stderr) == (141, b"")
        assert not ledger.exists()

    @pytest.mark.parametrize("as_json", [[], ["--json"]])
    def test_an_output_that_fails_after_the_spend_says_how_to_get_the_answer(
        self, spend, monkeypatch, capsys, as_json
    ):
        words, ledger = spend

        class Full:
            def write(self, text):
                raise OSError(28, "No space left on device")

            def flush(self):
                pass

        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", Full())
            assert main([*words, *as_json]) == 3
        assert "the same command shows them and costs nothing more" in capsys.readouterr().err
        before = json.loads(ledger.read_text())
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["answers"][0]["stored"]
        assert json.loads(ledger.read_text()) == before

    @pytest.mark.parametrize("redirection", ["2>&- <&-", "2>/dev/full"])
    def test_the_other_streams_may_be_closed_or_full(self, redirection):
        for words, code in ((ACCOUNT, 0), (["account"], 2)):
            ended = shell(redirection, [*words, "--json"])
            assert ended.returncode == code
            json.loads(ended.stdout)
            assert ended.stderr == "" or code

    def test_a_closed_input_is_empty(self):
        ended = shell("<&-", ["account", "-", "--delta", "1e-5"])
        assert ended.returncode == 2
        assert "The file must be JSON" in ended.stderr

    def test_a_closed_descriptor_is_not_given_to_a_ledger(self, spend):
        """Otherwise whatever is printed to descriptor 2 would be written into the first file that is opened."""
        words, ledger = spend
        assert shell("2>&- <&-", words).returncode == 0
        assert json.loads(ledger.read_text())["format"] == "privet-ledger"


COMMANDS = [
    (["account", "{}", "--delta", "1e-5"], [".json"]),
    (["explain", "{}", "--delta", "1e-5"], [".json"]),
    (["explain", *ACCOUNT[1:], "--plot", "{}"], [".svg"]),
    (["release", "{}", "--count", "--epsilon", "1"], [".csv", ".parquet"]),
    (["release", "{table}", "--count", "--epsilon", "1", "--ledger", "{}"], [".json"]),
    (["release", "{table}", "--count", "--epsilon", "1", "--ledger", "{}", "--quote"], [".json"]),
    (["audit", "{}"], [".py", ".toml"]),
    (["audit", "--members", "{}", "--nonmembers", "{}"], [".csv", ".npy", ".txt", ".parquet"]),
    (["audit", "--members", "{scores}", "--nonmembers", "{scores}", "--ledger", "{}"], [".json"]),
    (["audit", "--members", "{scores}", "--nonmembers", "{scores}", "--out", "{}"], [".json"]),
    (["audit", "--members", "{scores}", "--nonmembers", "{scores}", "--key", "{}"], [".key"]),
    (["ledger", "{}"], [".json"]),
    (["verify", "{}", "--members", "{scores}"], [".json"]),
    (["verify", "{report}", "{}"], [".py", ".toml"]),
    (["verify", "{report}", "--members", "{}"], [".csv"]),
    (["verify", "{report}", "--model", "{}"], [".pt"]),
    (["verify", "{report}", "--ledger", "{}"], [".json"]),
    (["verify", "{report}", "--members", "{scores}", "--key", "{}"], [".key"]),
    (["demo", "--out", "{}"], [".html", ".md"]),
]


@pytest.fixture
def odd_paths(tmp_path):
    """Paths that a program rarely meets: a loop of links, a name too long, NUL, bytes that are no text, a folder, a device."""

    def of(ending):
        loop = tmp_path / f"loop{ending}"
        if not loop.is_symlink():
            loop.symlink_to(loop)
        (tmp_path / f"folder{ending}").mkdir(exist_ok=True)
        closed = tmp_path / "closed"
        closed.mkdir(exist_ok=True)
        closed.chmod(0)
        dangling = tmp_path / f"dangling{ending}"
        if not dangling.is_symlink():
            dangling.symlink_to(tmp_path / "nothing")
        return {
            "loop": str(loop), "inside a loop": str(loop / f"a{ending}"), "long": "x" * 5000 + ending,
            "long part": str(tmp_path / ("y" * 300 + ending)), "nul": f"a\0b{ending}",
            "bytes": str(tmp_path / f"\udcff\udc80{ending}"), "folder": str(tmp_path / f"folder{ending}"),
            "closed": str(closed / f"a{ending}"), "dangling": str(dangling), "empty": "", "null": "/dev/null", "root": "/",
            "below a file": str(tmp_path / "table.csv" / f"a{ending}"),
        }  # fmt: skip

    yield of
    (tmp_path / "closed").chmod(0o700)


@pytest.mark.parametrize(("form", "endings"), COMMANDS, ids=lambda form: " ".join(form)[:60])
def test_every_path_of_every_command_has_a_sentence(
    form, endings, odd_paths, table, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(
        "privet.cli.demo.injuries", lambda: (_ for _ in ()).throw(privet.errors.NotProved("It ran."))
    )
    scores, report = tmp_path / "scores.csv", tmp_path / "report.json"
    scores.write_text("score\n1\n2\n3\n")
    assert main(["audit", "--members", str(scores), "--nonmembers", str(scores), "--out", str(report)]) == 0
    capsys.readouterr()
    known = {"table": str(table), "scores": str(scores), "report": str(report)}
    for ending in (*endings, ""):
        for kind, path in odd_paths(ending).items():
            words = [word.replace("{}", path) if "{}" in word else word.format(**known) for word in form]
            code = main([*words, "--json"])
            printed = capsys.readouterr()
            assert "Traceback" not in printed.err, (kind, words, printed.err)
            assert code in (0, 1, 2), (kind, words, printed.err)
            said = json.loads(printed.out)
            assert code != 2 or said["error"]["message"].endswith("."), said


def test_arguments_that_are_no_text(tmp_path):
    """Linux passes any bytes."""
    for words in (
        [b"account", b"\xff\xfe.json", b"--delta", b"1e-5"],
        [b"\xff"],
        [b"account", b"--delta=\xff"],
    ):
        ended = subprocess.run(
            [os.fsencode(sys.executable), b"-m", b"privet", *words, b"--json"],
            capture_output=True, env=ENVIRONMENT, check=False,
        )  # fmt: skip
        assert ended.returncode == 2
        assert b"Traceback" not in ended.stderr
        assert json.loads(ended.stdout.decode())["error"]["type"] in ("Unreadable", "InvalidArgument")


def test_an_audit_of_a_file_whose_name_is_no_text_is_reported(tmp_path, capsys):
    source = tmp_path / "\udcff.py"
    source.write_text(
        "import numpy as np\nfrom privet.attacks import Probabilities\n"
        "model = Probabilities(lambda rows: np.full((len(rows), 2), 0.5))\n"
        "members = nonmembers = (np.zeros((20, 2)), np.arange(20) % 2)\n"
    )
    for ending in (".json", ".md", ".dpia.html", ".pia.json"):
        assert main(["audit", str(source), "--out", str(tmp_path / f"a{ending}")]) == 0, (
            capsys.readouterr().err
        )
    assert "\\udcff" in json.loads((tmp_path / "a.json").read_text())["models"][0]["name"]


class TestTerminal:
    def test_discovered_keys_do_not_reach_the_terminal_as_they_are(self, table, capsys):
        words = ["release", str(table), "--count", "--group-by", "key", "--epsilon", "1", "--delta", "1e-6"]
        assert main(words) == 0
        text = capsys.readouterr().out
        assert "\\x1b[2J" in text
        assert not [
            c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")
        ]
        assert not any(line.strip().startswith("forged") for line in text.split("\n"))
        assert main([*words, "--json"]) == 0
        text = capsys.readouterr().out
        assert not [
            c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")
        ]
        keys = json.loads(text)["answers"][0]["value"]
        assert any("\x1b[2J" in key for key in keys)  # the same meaning for a program

    def test_nor_do_names(self, tmp_path, capsys):
        scores = tmp_path / "scores.csv"
        scores.write_text("score\n1\n2\n3\n")
        main(["audit", "--members", str(scores), "--nonmembers", str(scores), "--name", ESCAPE])
        main(["account", f"{ESCAPE}.json", "--delta", "1e-5"])
        main(["release", str(tmp_path / f"{ESCAPE}.csv"), "--count", "--epsilon", "1"])
        printed = capsys.readouterr()
        for text in (printed.out, printed.err):
            assert not [
                c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zs") and c != " "
            ]

    def test_every_character_that_a_terminal_obeys(self):
        bad = [
            chr(code)
            for code in range(0x110000)
            if unicodedata.category(chr(code)) in ("Cc", "Zl", "Zp", "Cs")
        ]
        bad += list("\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u061c\ufeff")
        for character in bad:
            assert character not in one_line(character)
            assert character == "\n" or character not in printable(character)
            document = json.dumps({character: character}, ensure_ascii=False)
            shown = printable_json(document)
            assert character == "\n" or character not in shown
            assert json.loads(shown) == {character: character}
        for text in ("ε ≤ 1 × 10⁻⁵ – “é” 名前 🙂", "a\\b"):
            assert printable(text) == one_line(text) == printable_json(text) == text


class TestNumbers:
    def test_zero_is_a_seed(self, tmp_path, capsys):
        scores = tmp_path / "scores.csv"
        scores.write_text("score\n1\n2\n3\n")
        for seed, code in (("0", 0), ("1", 0), ("-1", 2), ("0.5", 2)):
            words = ["audit", "--members", str(scores), "--nonmembers", str(scores), "--seed", seed]
            assert main(words) == code, capsys.readouterr().err

    def test_zero_is_no_confidence(self, tmp_path, capsys):
        """``arguments.confidence or 0.95`` took 0 for nothing."""
        scores = tmp_path / "scores.csv"
        scores.write_text("score\n1\n2\n3\n")
        assert (
            main(["audit", "--members", str(scores), "--nonmembers", str(scores), "--confidence", "0"]) == 2
        )
        assert "'confidence'" in capsys.readouterr().err


def test_help_says_that_the_file_is_run(capsys):
    for command in ("audit", "verify"):
        main([command, "--help"])
        said = " ".join(capsys.readouterr().out.split())
        assert "is run as a program" in said
        assert "files that you trust" in said
