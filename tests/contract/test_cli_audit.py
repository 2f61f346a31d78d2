"""What ``privet audit`` promises: files in, one document out, exit codes for pipelines, and a sentence for every mistake."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from privet import AddRemove, Ledger
from privet.cli import main
from privet.events import Gaussian

KEYS = {
    "name", "verdict", "standing", "attack", "auc", "tpr", "fpr_floor", "epsilon_lower", "epsilon_ceiling", "epsilon_proved",
    "confidence", "delta", "train_accuracy", "test_accuracy", "attacks", "reference_models", "checks", "failed",
    "report", "report_failed",
}  # fmt: skip

# A model without torch: it remembers the records that it was given. Each training leaves a line in a file, so that they can be counted.
REMEMBERS = """
import time
import numpy as np
from pathlib import Path
from privet.attacks import Probabilities
from privet.attacks.shadows import CallableRecipe

rng = np.random.default_rng(0)
x = rng.normal(size=(240, 4))
y = (x[:, 0] + rng.normal(size=240) > 0).astype(int)
members, nonmembers = (x[:120], y[:120]), (x[120:], y[120:])

def train(inputs, labels, seed):
    with Path({log!r}).open("a") as log:
        log.write("trained\\n")
    time.sleep({seconds})
    known = {{row.tobytes(): label for row, label in zip(inputs, labels)}}
    noise = np.random.default_rng(seed)
    def answer(rows):
        sure = np.array([0.5 + 0.3 * (row.tobytes() in known) for row in rows]) + 0.1 * noise.random(len(rows))
        right = np.array([known.get(row.tobytes(), int(row[0] > 0)) for row in rows])
        return np.where(right[:, None] == np.arange(2), sure[:, None], 1 - sure[:, None])
    return Probabilities(answer)

recipe = CallableRecipe(train, version="1")
model = train(*members, 7)
"""

MODEL = """
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=(200, 3)).astype(np.float32)
y = (x[:, 0] > 0).astype(int)
members, nonmembers = (x[:100], y[:100]), (x[100:], y[100:])

class Model:
    def predict_proba(self, rows):
        sure = 1 / (1 + np.exp(-rows[:, 0].astype(float)))
        return np.stack([1 - sure, sure], axis=1)

model = Model()
"""


@pytest.fixture
def ask(capsys):
    """Run ``privet audit … --json``; the document, and the exit code."""

    def run(*words, code=0):
        assert main(["audit", *map(str, words), "--json"]) == code
        printed = capsys.readouterr()
        assert printed.err == ""
        return json.loads(printed.out, parse_constant=pytest.fail)

    return run


@pytest.fixture
def refuse(capsys):
    """Run a command that must fail cleanly; its message, two sentences in one line."""

    def run(*words, code=2):
        ended = main(["audit", *map(str, words)])
        printed = capsys.readouterr()
        assert (ended, printed.out) == (code, "")
        assert printed.err.startswith("privet: ")
        assert printed.err.count("\n") == 1
        assert "Traceback" not in printed.err
        return printed.err.removeprefix("privet: ").rstrip("\n")

    return run


@pytest.fixture
def scores(tmp_path):
    """Scores of members above those of others, as two files."""
    rng = np.random.default_rng(3)
    for name, shift in (("m", 1.5), ("n", 0.0)):
        np.save(tmp_path / f"{name}.npy", rng.normal(shift, 1.0, 2000))
    return ["--members", tmp_path / "m.npy", "--nonmembers", tmp_path / "n.npy"]


@pytest.fixture
def file(tmp_path):
    """A Python file that names a model, with lines after it."""

    def write(*lines, source=MODEL):
        path = tmp_path / "mine.py"
        path.write_text(source + "\n".join(lines), encoding="utf-8")
        return path

    return write


class TestScores:
    def test_document(self, ask, scores):
        found = ask(*scores)
        assert set(found) >= KEYS
        assert found["auc"]["lower"] < found["auc"]["value"] < found["auc"]["upper"]
        assert found["auc"]["value"] == pytest.approx(0.856, abs=0.02)  # Φ(1.5/√2)
        assert set(found["tpr"]) == {"0.1", "0.01", "0.001", "0.0001"}
        assert found["tpr"]["0.01"]["value"] == pytest.approx(0.2, abs=0.06)
        assert found["tpr"]["0.0001"] is None  # 2,000 others do not support it
        assert found["fpr_floor"] == 1 / 2000
        assert 0.5 < found["epsilon_lower"] < found["epsilon_ceiling"]
        assert found["confidence"] == 0.95
        assert (found["epsilon_proved"], found["standing"]) == (None, "leaks")

    def test_every_form_gives_the_same(self, ask, scores, tmp_path):
        expected = ask(*scores)
        columns = {name: np.load(tmp_path / f"{name}.npy") for name in "mn"}
        for ending, head, foot in ((".csv", "", ""), (".csv", "score\n", "\n"), (".csv", "\ufeffscore\n", ""), (".txt", "", "\n")):  # fmt: skip
            for name, values in columns.items():
                text = head + "\n".join(map(repr, values.tolist())) + foot
                (tmp_path / f"{name}{ending}").write_text(text, encoding="utf-8")
            assert (
                ask("--members", tmp_path / f"m{ending}", "--nonmembers", tmp_path / f"n{ending}") == expected
            )
        for name, values in columns.items():
            rows = "\n".join(f"{place},{value!r}" for place, value in enumerate(values.tolist()))
            (tmp_path / f"{name}.csv").write_text(f"record,score\n{rows}", encoding="utf-8")
        assert ask("--members", tmp_path / "m.csv", "--nonmembers", tmp_path / "n.csv") == expected

    def test_parquet(self, ask, scores, tmp_path):
        pa = pytest.importorskip("pyarrow", reason="a .parquet file needs pyarrow")
        import pyarrow.parquet

        expected = ask(*scores)
        for name in "mn":
            table = pa.table({"id": np.arange(2000), "score": np.load(tmp_path / f"{name}.npy")})
            pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
        assert ask("--members", tmp_path / "m.parquet", "--nonmembers", tmp_path / "n.parquet") == expected

    def test_text_begins_with_the_verdict(self, capsys, scores):
        assert main(["audit", *map(str, scores), "--name", "Mine"]) == 0
        said = capsys.readouterr().out
        assert said.startswith("Mine leaks who was in its training data")
        assert "TPR at 0.1 % FPR" in said

    @pytest.mark.parametrize(
        ("limit", "code"),
        [
            ("tpr@0.001=0.5", 0),
            ("tpr@0.001=0.001", 1),
            ("auc=0.9", 0),
            ("auc=0.6", 1),
            ("epsilon=5", 0),
            ("epsilon=0.1", 1),
            ("tpr@0.0001=0.5", 1),  # not supported by so few, so nobody has shown that it holds
        ],
    )
    def test_fail_above(self, ask, scores, limit, code):
        found = ask(*scores, "--fail-above", limit, code=code)
        assert len(found["failed"]) == code

    def test_one_broken_limit_of_two_is_enough(self, capsys, scores):
        words = ["audit", *map(str, scores), "--fail-above", "auc=0.9", "--fail-above", "epsilon=0.1"]
        assert main(words) == 1
        said = capsys.readouterr().out
        assert said.count("FAILED: ") == 1
        assert "FAILED: epsilon is" in said

    @pytest.mark.parametrize(
        "limit", ["tpr=0.1", "auc@0.1=0.1", "tpr@2=0.1", "tpr@0.1", "f1=3", "auc=-1", "auc=nan", "auc=x"]
    )
    def test_limits_that_say_nothing(self, refuse, scores, limit):
        assert "'--fail-above' must" in refuse(*scores, "--fail-above", limit)

    def test_a_claim_that_the_scores_break(self, ask, scores, tmp_path):
        ledger = tmp_path / "ledger.json"
        ledger.write_text(Ledger(AddRemove()).spend("training", Gaussian(50.0)).to_json(), encoding="utf-8")
        found = ask(*scores, "--ledger", ledger)
        assert found["standing"] == "broken"
        assert found["epsilon_lower"] > found["epsilon_proved"] > 0
        ledger.write_text(Ledger(AddRemove()).spend("training", Gaussian(0.3)).to_json(), encoding="utf-8")
        assert ask(*scores, "--ledger", ledger)["standing"] == "leaks within its proof"

    @pytest.mark.parametrize("ending", [".json", ".md", ".html", ".dpia.html", ".pia.json"])
    def test_out(self, ask, scores, tmp_path, ending):
        if ending == ".html":
            pytest.importorskip("plotly", reason="the page needs plotly")
        out = tmp_path / f"report{ending}"
        assert ask(*scores, "--out", out)["report"] == str(out)
        assert out.stat().st_size > 300
        assert not list(tmp_path.glob("*.part"))

    def test_constant_scores_find_nothing(self, ask, tmp_path):
        for name in "mn":
            np.save(tmp_path / f"{name}.npy", np.full(50, 0.25))
        found = ask("--members", tmp_path / "m.npy", "--nonmembers", tmp_path / "n.npy")
        assert (found["auc"]["value"], found["epsilon_lower"]) == (0.5, 0)
        assert found["standing"] == "not detected at this power"

    def test_one_member_only(self, ask, tmp_path):
        np.save(tmp_path / "m.npy", [3.0])
        np.save(tmp_path / "n.npy", np.arange(50.0))
        found = ask("--members", tmp_path / "m.npy", "--nonmembers", tmp_path / "n.npy")
        assert found["epsilon_lower"] == 0
        assert found["standing"] == "not detected at this power"

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("0.5\nnan\n", "NaN"),
            ("", "as many fields"),
            ("score\n", "one score for each record"),
            ("score\nhigh\n", "must hold numbers"),
            ("a,b\n1,2\n", "one that is called score"),
            ("1,2\n3\n", "as many fields"),
        ],
    )
    def test_scores_that_are_none(self, refuse, scores, tmp_path, text, said):
        (tmp_path / "bad.csv").write_text(text, encoding="utf-8")
        assert said in refuse("--members", tmp_path / "bad.csv", *scores[2:])

    def test_files_that_are_none(self, refuse, scores, tmp_path):
        assert "a file that exists" in refuse("--members", tmp_path / "no.csv", *scores[2:])
        assert "both --members and --nonmembers" in refuse(*scores[:2])
        assert "both --members and --nonmembers" in refuse()
        (tmp_path / "bad.npy").write_bytes(b"not an array")
        assert "bad.npy" in refuse("--members", tmp_path / "bad.npy", *scores[2:])
        (tmp_path / "bad.csv").write_bytes(b"\xff\xfe\x00\x01")
        assert "bad.csv" in refuse("--members", tmp_path / "bad.csv", *scores[2:])
        (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00\x01")
        assert "bad.txt" in refuse("--members", tmp_path / "bad.txt", *scores[2:])

    def test_options_that_do_not_go_with_scores(self, refuse, scores, tmp_path, file):
        assert "'--references' must be left out" in refuse(*scores, "--references", 4)
        assert "beside a file that names a model" in refuse(file(), *scores)
        assert "'--out' must be a file in a folder that exists" in refuse(
            *scores, "--out", tmp_path / "no" / "a.html"
        )
        assert "'--out' must end in" in refuse(*scores, "--out", tmp_path / "a.pdf")
        assert "ledger" in refuse(*scores, "--ledger", tmp_path / "no.json")
        (tmp_path / "bad.json").write_text("{}")
        refuse(*scores, "--ledger", tmp_path / "bad.json")
        assert "delta" in refuse(*scores, "--delta", 0)
        assert "confidence" in refuse(*scores, "--confidence", 1)


class TestPython:
    def test_alone(self, ask, file):
        found = ask(file("name = 'Mine'"))
        assert set(found) >= KEYS
        assert found["name"] == "Mine"
        assert [attack["name"] for attack in found["attacks"]] == ["loss", "modified entropy"]
        assert found["test_accuracy"] == 1.0
        assert any(check["outcome"] == "warned" for check in found["checks"])  # 100 records are few

    def test_a_file_may_import_its_neighbours(self, ask, file, tmp_path):
        mine = file("import beside_the_audited_file\nname = beside_the_audited_file.NAME")
        (Path(mine).parent / "beside_the_audited_file.py").write_text("NAME = 'Theirs'\n")
        assert ask(mine)["name"] == "Theirs"

    def test_attacks_by_name(self, ask, refuse, file):
        assert [row["name"] for row in ask(file(), "--attacks", "entropy,gap")["attacks"]] == [
            "entropy",
            "gap",
        ]
        assert "must name some of loss" in refuse(file(), "--attacks", "loss,magic")
        assert "needs reference models, and got none" in refuse(file(), "--attacks", "lira")
        assert "must go with a recipe" in refuse(file(), "--references", 4)

    def test_references_are_kept_and_found_again(self, ask, file, tmp_path):
        log = tmp_path / "log"
        mine = file(source=REMEMBERS.format(log=str(log), seconds=0))
        words = [mine, "--references", 4, "--cache", tmp_path / "cache"]
        first = ask(*words)
        assert [attack["name"] for attack in first["attacks"]] == ["loss", "RMIA + BaVarIA"]
        assert first["auc"]["value"] > 0.9
        assert first["epsilon_lower"] > 1
        assert len(log.read_text().split()) == 5
        assert ask(*words)["epsilon_lower"] == pytest.approx(first["epsilon_lower"], abs=1.0)
        assert len(log.read_text().split()) == 6  # the target alone

    def test_a_recipe_without_a_version_is_not_kept(self, ask, refuse, file, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        source = REMEMBERS.format(log=str(tmp_path / "log"), seconds=0).replace(', version="1"', "")
        assert ask(file(source=source), "--references", 2)["auc"]["value"] > 0.9
        assert not (tmp_path / ".privet-cache").exists()
        assert "version" in refuse(file(source=source), "--references", 2, "--cache", tmp_path / "cache")

    def test_budget(self, ask, refuse, file, tmp_path):
        log = tmp_path / "log"
        mine = file(source=REMEMBERS.format(log=str(log), seconds=0.1))
        words = [mine, "--references", 500, "--cache", tmp_path / "cache"]
        began = time.monotonic()
        ask(*words, "--time-limit", "1.5s")
        assert time.monotonic() - began < 25
        assert 3 <= len(log.read_text().split()) < 50
        for wrong in ("soon", "10 parsecs", "-3s", "0s"):
            assert "must" in refuse(*words, "--time-limit", wrong)

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            ("nonmembers = (x[100:, :2], y[100:])", "must have rows of one shape, got (3,) and (2,)"),
            ("nonmembers = (x[100:], y[100:150])", "one entry for each of 100 records"),
            ("nonmembers = (x[100:], np.where(np.arange(100) == 3, 5, y[100:]))", "below the model's 2 classes"),
            ("nonmembers = (x[100:], np.where(np.arange(100) == 3, -1, y[100:]))", "whole numbers from 0"),
            ("nonmembers = (x[100:], np.full(100, 0.5))", "whole numbers from 0"),
            ("nonmembers = (x[100:], np.full(100, 'yes'))", "'labels' must be"),
            ("nonmembers = (x[:0], y[:0])", "at least one record"),
            ("nonmembers = (x[100:],)", "must both have labels"),
            ("nonmembers = 5", "must be records, got a int"),
            ("Model.predict_proba = lambda self, rows: 1 / 0", "it failed with ZeroDivisionError: division by zero"),
            ("Model.predict_proba = lambda self, rows: np.ones(7)", "rows × classes"),
            ("Model.predict_proba = lambda self, rows: np.full((len(rows), 2), np.nan)", "got NaN"),
            ("Model.predict_proba = lambda self, rows: 3 * rows[:, :2]", "must give probabilities"),
            ("model = lambda rows: rows", "must say what it gives"),
            ("from privet.attacks import Logits; model = Logits(Model().predict_proba)", "must give logits"),
            ("del model", "must set model"),
            ("recipe = 3", "'recipe' in 'mine.py' must be a Recipe, a scikit-learn classifier or a function"),
            ("gives = 'logits'", "must be a Outputs"),
            ("raise RuntimeError('the disk is full')", "failed in line 14 with RuntimeError: the disk is full"),
            ("def (", "SyntaxError"),
        ],
    )  # fmt: skip
    def test_one_sentence_and_what_to_do(self, refuse, file, lines, said):
        message = refuse(file(lines), code=3 if any(word in said for word in ("Error", "failed")) else 2)
        assert said in message
        assert message.endswith(".")
        assert len(message) < 420

    def test_a_class_that_the_model_does_not_know_is_told_before_references(self, refuse, file, tmp_path):
        log = tmp_path / "log"
        source = REMEMBERS.format(log=str(log), seconds=0)
        mine = file("nonmembers = (x[120:], np.where(np.arange(120) == 3, 5, y[120:]))", source=source)
        assert "below the model's 2 classes" in refuse(mine, "--references", 4, "--cache", tmp_path / "cache")
        assert len(log.read_text().split()) == 1

    @pytest.mark.parametrize(
        "line",
        [
            "def fail(self, rows): raise MemoryError",
            'def fail(self, rows): raise RuntimeError("DefaultCPUAllocator: can\'t allocate memory")',
        ],
    )
    def test_out_of_memory(self, refuse, file, line):
        message = refuse(file(line, "Model.predict_proba = fail"), code=3)
        assert "There must be enough memory" in message
        assert "Give fewer records." in message

    def test_out_of_memory_while_the_file_runs_or_the_report_is_written(
        self, refuse, file, scores, monkeypatch, tmp_path, capsys
    ):
        assert "There must be enough memory" in refuse(file("raise MemoryError"), code=3)
        monkeypatch.setattr("privet.reporting.Report.save", _no_memory)
        monkeypatch.chdir(tmp_path)
        assert main(["audit", *map(str, scores), "--out", str(tmp_path / "a.json")]) == 3
        assert "there was not enough memory" in capsys.readouterr().out  # beside the figures

    def test_files_that_are_none(self, refuse, tmp_path):
        assert "a file that exists" in refuse(tmp_path / "no.py")
        (tmp_path / "a.json").write_text("{}")
        assert "a .py or .toml file" in refuse(tmp_path / "a.json")

    def test_interrupted_it_keeps_what_was_finished_and_goes_on(self, file, tmp_path):
        log, cache = tmp_path / "log", tmp_path / "cache"
        mine = file(source=REMEMBERS.format(log=str(log), seconds=0.5))
        command = [sys.executable, "-m", "privet.cli", "audit", str(mine), "--references", "8", "--cache", str(cache), "--json"]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
            _wait_until(
                lambda: log.exists() and len(log.read_text().split()) >= 4
            )  # the target and three more
            running.send_signal(signal.SIGINT)
            said, complaint = running.communicate(timeout=60)
        assert (running.returncode, said) == (130, "")
        assert complaint.strip() == f"privet: Stopped. Reference models that were finished are kept in {cache}; the same command goes on from there."  # fmt: skip
        before = len(log.read_text().split())
        assert before < 9
        log.unlink()
        assert main(command[3:]) == 0
        assert (
            1 + 8 - (before - 1) <= len(log.read_text().split()) <= 7
        )  # the target, and those that were not finished


def _no_memory(*_):
    raise MemoryError


def _wait_until(done):
    for _ in range(600):
        if done():
            return
        time.sleep(0.1)
    pytest.fail("it never happened")


class TestToml:
    @pytest.fixture
    def folder(self, tmp_path):
        torch = pytest.importorskip("torch", reason="a TOML file names a torch module")
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 3)).astype(np.float32)
        y = (x[:, 0] + rng.normal(size=200) > 0).astype(np.int64)
        (tmp_path / "net.py").write_text(
            "from torch import nn\n\n"
            "def make():\n    return nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 2))\n\n"
            "def soft():\n    return nn.Sequential(nn.Linear(3, 2), nn.Softmax(1))\n"
            "class Hidden(nn.Linear):\n    def forward(self, x):\n        return super().forward(x).softmax(1)\n"
            "def hidden():\n    return Hidden(3, 2)\n"
        )
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
        torch.save(net.state_dict(), tmp_path / "net.pt")
        for name, rows in (("m", slice(100)), ("n", slice(100, None))):
            np.savez(tmp_path / f"{name}.npz", x=x[rows], y=y[rows])
            lines = [
                f"{a!r},{b!r},{c!r},{label}"
                for (a, b, c), label in zip(x[rows].tolist(), y[rows].tolist(), strict=True)
            ]
            (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,c,label", *lines]))
        return tmp_path

    @staticmethod
    def write(folder, *lines, model="net.py:make", ending="npz"):
        path = folder / "mine.toml"
        names = [f'model = "{model}"', f'members = "m.{ending}"', f'nonmembers = "n.{ending}"']
        path.write_text("\n".join([*names, *lines]), encoding="utf-8")
        return path

    def test_weights_and_every_kind_of_table(self, ask, folder):
        expected = ask(self.write(folder, 'weights = "net.pt"', 'name = "Mine"'))
        assert expected["name"] == "Mine"
        assert ask(self.write(folder, 'weights = "net.pt"', 'name = "Mine"', ending="csv")) == expected
        pa = pytest.importorskip("pyarrow", reason="a .parquet file needs pyarrow")
        import pyarrow.parquet

        for name in "mn":
            with np.load(folder / f"{name}.npz") as arrays:
                columns = dict(zip("abc", arrays["x"].T, strict=True)) | {"label": arrays["y"]}
            pyarrow.parquet.write_table(pa.table(columns), folder / f"{name}.parquet")
        assert ask(self.write(folder, 'weights = "net.pt"', 'name = "Mine"', ending="parquet")) == expected

    def test_a_recipe_trains_the_model_and_its_references(self, ask, folder):
        recipe = ["[recipe]", "epochs = 60", "batch_size = 10", "learning_rate = 0.05", 'optimizer = "adam"']
        found = ask(self.write(folder, *recipe), "--references", 4, "--cache", folder / "cache")
        assert found["train_accuracy"] > found["test_accuracy"] + 0.1
        assert found["attack"] == "RMIA + BaVarIA"
        assert found["auc"]["value"] > 0.6
        assert any((folder / "cache").rglob("*"))

    def test_probabilities_and_logits(self, ask, refuse, folder):
        assert "got rows of probabilities" in refuse(
            self.write(folder, 'gives = "logits"', model="net.py:hidden")
        )
        assert ask(self.write(folder, model="net.py:hidden"))["test_accuracy"] > 0
        assert ask(self.write(folder, model="net.py:soft"))["test_accuracy"] > 0
        assert ask(self.write(folder, 'gives = "probabilities"', model="net.py:soft"))["test_accuracy"] > 0
        assert "must give probabilities" in refuse(self.write(folder, 'gives = "probabilities"'))
        assert "must be logits or probabilities" in refuse(self.write(folder, 'gives = "odds"'))

    @pytest.mark.parametrize(
        ("lines", "said"),
        [
            (['weights = "no.pt"'], "'weights' in 'mine.toml' must be"),
            (['weights = "net.py"'], "'weights' in 'mine.toml' must be"),
            (['colour = "red"'], "got 'colour'"),
            (["= 3"], "must be TOML"),
            (["[recipe]", "epoch = 3"], "got 'epoch'"),
            (["[recipe]", "epochs = 0"], "epochs"),
            (["[recipe]", 'epochs = "many"'], "epochs"),
            (["[recipe]", 'learning_rate = "fast"'], "learning_rate"),
            (["[recipe]", 'optimizer = "magic"'], "must be sgd or adam"),
            (["recipe = 3"], "must be a table"),
            (['ledger = "no.json"'], "no.json"),
        ],
    )
    def test_one_sentence_and_what_to_do(self, refuse, folder, lines, said):
        assert said in refuse(self.write(folder, *lines))

    def test_files_and_columns_that_are_none(self, refuse, folder):
        assert "must be FILE.py:FUNCTION" in refuse(self.write(folder, model="net.py"))
        assert "'nothing' is none" in refuse(self.write(folder, model="net.py:nothing"))
        assert "there is none" in refuse(self.write(folder, ending="parquet"))
        assert "a column 'class'" in refuse(self.write(folder, 'label = "class"', ending="csv"))
        (folder / "mine.toml").write_text('model = "net.py:make"')
        assert "must set members, nonmembers" in refuse(folder / "mine.toml")
        (folder / "net.py").write_text("1/0")
        assert "net.py" in refuse(self.write(folder), code=3)
        (folder / "net.py").write_text("def make():\n    raise OSError('no such disk')")
        assert "it failed with OSError: no such disk" in refuse(self.write(folder), code=3)
        (folder / "m.npz").write_bytes(b"nothing")
        (folder / "net.py").write_text("make = dict")
        assert "m.npz" in refuse(self.write(folder))


def test_help(capsys):
    assert main(["audit", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in ("--fail-above", "--time-limit", "--references", "--nonmembers"))


def test_the_examples_of_the_help_are_examples_of_this_command():
    from privet.cli.parser import parse_arguments

    lines = Path(sys.modules["privet.cli.parser"].__file__).read_text(encoding="utf-8").splitlines()
    shown = [line.split()[1:] for line in lines if line.startswith("  privet audit ")]
    assert len(shown) == 2
    assert all(callable(parse_arguments(words).command) for words in shown)
