"""How commands end: 0 held, 1 broken, 2 wrong use, 3 failed. Nothing but an answer ends with 0, and nothing but a broken limit with 1."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import privet.cli
from privet.cli import main
from privet.cli.exit_codes import EXIT_CODES, ExitCode
from privet.reporting import Report

FILE = """
import sys
import numpy as np
from privet.attacks import Probabilities
from privet.attacks.shadows import CallableRecipe

x = np.random.default_rng(0).normal(size=(80, 2))
y = (x[:, 0] > 0).astype(int)
members, nonmembers = (x[:40], y[:40]), (x[40:], y[40:])

def answer(rows):
    {in_model}
    return np.full((len(rows), 2), 0.5)

def train(rows, labels, seed):
    {in_recipe}
    return Probabilities(answer)

model = Probabilities(answer)
{in_file}
"""
HELD = ["--fail-above", "auc=0.9"]
FAILURES = [
    "sys.exit(0)",
    "sys.exit()",
    "exit(0)",
    "sys.exit('done')",
    "raise RuntimeError('x')",
    "raise SystemExit",
    "1 / 0",
]


@pytest.fixture
def file(tmp_path):
    def write(in_file="pass", in_model="pass", in_recipe="pass"):
        path = tmp_path / "mine.py"
        path.write_text(FILE.format(in_file=in_file, in_model=in_model, in_recipe=in_recipe))
        return str(path)

    return write


def run(*words, **more):
    here = {**os.environ, "PYTHONPATH": str(Path(privet.cli.__file__).parents[2])}
    command = [sys.executable, "-m", "privet", *words]
    return subprocess.run(command, capture_output=True, text=True, env=here, check=False, **more)


class TestAudit:
    def test_a_limit_that_holds(self, file):
        assert main(["audit", file(), *HELD]) == ExitCode.HELD == 0

    def test_a_limit_that_is_broken(self, file):
        assert main(["audit", file(), "--fail-above", "auc=0.4"]) == ExitCode.BROKEN == 1

    @pytest.mark.parametrize(
        "words",
        [["--fail-above", "auc"], ["--attacks", "magic"], ["--nonsense"], ["--out", "no/such/a.json"]],
    )
    def test_wrong_use(self, file, words):
        assert main(["audit", file(), *words]) == ExitCode.REFUSED == 2

    @pytest.mark.parametrize("failure", FAILURES)
    @pytest.mark.parametrize("where", ["in_file", "in_model", "in_recipe"])
    def test_a_file_that_fails_or_ends_itself(self, file, where, failure, capsys):
        given = {where: failure}
        if where == "in_recipe":
            given["in_file"] = "recipe = CallableRecipe(train)"
        assert main(["audit", file(**given), *HELD, "--json"]) == ExitCode.FAILED == 3
        said = json.loads(capsys.readouterr().out)
        assert said["error"]["type"] == "ProgramFailed"

    def test_in_a_process_of_its_own(self, file):
        ended = run("audit", file(in_file="sys.exit(0)"), *HELD)
        assert ended.returncode == 3
        assert "called exit(0) in line " in ended.stderr
        assert "Passed" not in ended.stdout

    @pytest.mark.parametrize("failure", ["raise asyncio.CancelledError", "raise GeneratorExit"])
    @pytest.mark.parametrize("where", ["in_file", "in_model"])
    def test_what_is_no_ordinary_exception_is_no_broken_limit(self, file, where, failure):
        """Neither is an ``Exception``: both would end Python with 1, the code of a broken limit."""
        assert main(["audit", file(**{where: f"import asyncio; {failure}"}), *HELD]) == ExitCode.FAILED

    def test_a_defect_is_no_broken_limit(self, file, monkeypatch, capsys):
        def fail(*_):
            raise LookupError("a defect")

        monkeypatch.setattr("privet.cli.audit._blocks", fail)
        assert main(["audit", file(), "--fail-above", "auc=0.4"]) == ExitCode.FAILED
        assert "a defect" in capsys.readouterr().err

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
    def test_output_that_cannot_be_written(self):
        with Path("/dev/full").open("w") as full:
            ended = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "privet",
                    "account",
                    "--noise-multiplier",
                    "1",
                    "--steps",
                    "1",
                    "--delta",
                    "1e-5",
                ],
                stdout=full,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(Path(privet.cli.__file__).parents[2])},
                check=False,
            )
        assert ended.returncode == 3


class TestOthers:
    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (["--help"], 0),
            (["--version"], 0),
            (["audit", "--help"], 0),
            ([], 0),
            (["account"], 2),
            (["account", "no-such-file.json", "--delta", "1e-5"], 2),
            (["release", "no-such-table.csv", "--count", "--epsilon", "1"], 2),
            (["nonsense"], 2),
        ],
    )
    def test_codes(self, words, code):
        assert main(words) == code

    @pytest.mark.parametrize("command", ["account", "calibrate", "explain", "release", "demo"])
    @pytest.mark.parametrize(
        "failure", [SystemExit(0), SystemExit(None), LookupError("x"), OSError(5, "x"), AssertionError()]
    )
    def test_every_command_that_breaks_fails(self, command, failure, monkeypatch):
        def broken(_):
            raise failure

        monkeypatch.setattr(
            "privet.cli.parser.import_module", lambda _: type("Command", (), {"run": staticmethod(broken)})
        )
        words = [command, "data.csv"] if command == "release" else [command]
        assert main(words) == ExitCode.FAILED

    def test_are_documented(self, capsys):
        for words in ([], ["audit", "--help"], ["release", "--help"]):
            main(words)
            assert EXIT_CODES.strip() in capsys.readouterr().out
        page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
        for code in ExitCode:
            assert f"| {int(code)} |" in page


@pytest.fixture
def elsewhere(tmp_path_factory, monkeypatch):
    """The places where a report goes that cannot be written: for this test alone, and not the home or the working folder."""
    folder = tmp_path_factory.mktemp("elsewhere")
    for name in ("temporary", "home", "working"):
        (folder / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    monkeypatch.setenv("HOME", str(folder / "home"))
    monkeypatch.chdir(folder / "working")
    return folder


@pytest.mark.usefixtures("elsewhere")
class TestReportsThatCannotBeWritten:
    def _full(self, monkeypatch, bad):
        """A disk that is full: writing to a path that ``bad`` names fails halfway."""
        write = Path.write_text

        def limited(path, text, **more):
            if bad(path):
                write(path, text[:100], **more)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(path, text, **more)

        monkeypatch.setattr(Path, "write_text", limited)

    def test_are_written_elsewhere(self, file, tmp_path, monkeypatch, capsys):
        source = file()
        self._full(monkeypatch, lambda path: path.parent == tmp_path)
        assert main(["audit", source, *HELD, "--out", str(tmp_path / "a.json"), "--json"]) == ExitCode.FAILED
        said = json.loads(capsys.readouterr().out)
        assert "No space left on device" in said["report_failed"]
        kept = Path(said["report"])
        assert json.loads(kept.read_text())["format"] == "privet.report"
        assert kept.name == "a.json"
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.py"]  # no half of a report

    def test_a_broken_limit_is_still_told(self, file, tmp_path, monkeypatch):
        words = ["audit", file(), "--fail-above", "auc=0.4", "--out", str(tmp_path / "a.json")]
        self._full(monkeypatch, lambda path: path.parent == tmp_path)
        assert main(words) == ExitCode.BROKEN

    def test_are_smaller_where_room_is_short(self, file, tmp_path, monkeypatch, capsys):
        pytest.importorskip("plotly")
        self._full(monkeypatch, lambda path: ".html" in path.name)
        assert main(["audit", file(), "--out", str(tmp_path / "a.html"), "--json"]) == ExitCode.FAILED
        assert json.loads(capsys.readouterr().out)["report"].endswith("/a.json")

    def test_are_printed_where_there_is_no_room_at_all(self, file, tmp_path, monkeypatch, capsys, elsewhere):
        self._full(monkeypatch, lambda path: path.suffix == ".part")
        assert main(["audit", file(), "--out", str(tmp_path / "a.json")]) == ExitCode.FAILED
        said = capsys.readouterr().out
        assert "keep what is printed here" in said
        assert "modified entropy" in said
        assert [path for path in elsewhere.rglob("*") if path.is_file() or "privet-report" in path.name] == []

    def test_nothing_is_attacked_where_nothing_can_be_written(self, file, tmp_path, monkeypatch, capsys):
        def full(*_, **__):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        source = file(in_file="raise RuntimeError('it ran')")
        monkeypatch.setattr("tempfile.mkstemp", full)
        assert main(["audit", source, "--out", str(tmp_path / "a.json")]) == ExitCode.REFUSED
        assert "'--out' must be a place that can be written" in capsys.readouterr().err

    def test_half_a_report_is_not_left(self, tmp_path, monkeypatch):
        import privet

        report: Report = privet.audit_scores([1.0, 2.0], [0.0, 0.5])
        self._full(monkeypatch, lambda _: True)
        with pytest.raises(OSError, match="No space"):
            report.save(tmp_path / "a.json")
        assert list(tmp_path.iterdir()) == []


def test_the_command_that_is_reported_is_what_was_run(file, tmp_path):
    source, out = file(), str(tmp_path / "a b.json")
    assert main(["audit", source, "--seed", "3", "--attacks", "loss", "--out", out]) == 0
    origin = json.loads(Path(out).read_text())["origin"]
    assert origin["command"] == f"privet audit {source} --seed 3 --attacks loss --out '{out}'"
    assert "attacks=['loss']" in origin["call"]
    assert "seed=3" in origin["call"]
