"""``privet synthesize``, ``privet train``, ``privet compare``, and the sizes of training for ``account`` and ``calibrate``."""

import json
import math

import pytest

pytest.importorskip("polars")
torch = pytest.importorskip("torch")

import privet  # noqa: E402
from privet.cli import main  # noqa: E402
from privet.ledger import Ledger  # noqa: E402

DOMAIN = ["--column", "sex:f,m", "--bins", "age:0:100:5"]
MODEL = """
import torch
generator = torch.Generator().manual_seed(0)
members = torch.randn(400, 3, generator=generator), torch.randint(0, 2, (400,), generator=generator)
model = torch.nn.Linear(3, 2)
"""


@pytest.fixture
def table(tmp_path):
    lines = ["person,sex,age", *(f"{row // 2},{'fm'[row % 3 == 0]},{row % 100}" for row in range(2000))]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def subject(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(MODEL, encoding="utf-8")
    return path


def ask(capsys, *words):
    code = main([*map(str, words), "--json"])
    return code, json.loads(capsys.readouterr().out)


class TestTrainingSizes:
    def test_they_are_a_rate_and_steps_rounded_up(self, capsys):
        noise = ("--noise-multiplier", 1.1, "--delta", 1e-6)
        sizes = ("--batch-size", 256, "--dataset-size", 60000, "--epochs", 1)
        steps = math.ceil(60000 / 256)
        _, by_sizes = ask(capsys, "account", *noise, *sizes)
        _, by_rate = ask(capsys, "account", *noise, "--sampling-rate", "256/60000", "--steps", steps)
        assert by_sizes["epsilon"] == by_rate["epsilon"]

    def test_the_dataset_size_is_the_population(self, capsys):
        sizes = ("--batch-size", 10, "--dataset-size", 100, "--epochs", 1)
        _, answer = ask(capsys, "account", "--noise-multiplier", 1, "--delta", 1e-2, *sizes)
        assert "delta-too-large" in {row["code"].replace("_", "-").lower() for row in answer["caveats"]}

    def test_calibrate_takes_them(self, capsys):
        sizes = ("--batch-size", 10, "--dataset-size", 1000, "--epochs", 2)
        _, answer = ask(capsys, "calibrate", "--epsilon", 2, "--delta", 1e-6, *sizes)
        assert (answer["sampling_rate"], answer["steps"]) == (0.01, 200)

    @pytest.mark.parametrize(
        ("words", "fix"),
        [
            (("--batch-size", 10), "Give all three"),
            (("--batch-size", 10, "--dataset-size", 5, "--epochs", 1), "Check the two numbers"),
            (("--batch-size", 1, "--dataset-size", 5, "--epochs", 0), "number of passes"),
            (("--batch-size", 1, "--dataset-size", 5, "--epochs", "inf"), "finite"),
            (("--batch-size", 1, "--dataset-size", 1e15, "--epochs", 1e15), "fewer epochs"),
            (
                ("--batch-size", 1, "--dataset-size", 5, "--epochs", 1, "--steps", 3),
                "Leave one of the two out",
            ),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, capsys, words, fix):
        assert main([*map(str, ("account", "--noise-multiplier", 1, "--delta", 1e-5, *words))]) == 2
        assert fix in capsys.readouterr().err


class TestSynthesize:
    def test_the_table_follows_the_domain_and_the_ledger_has_its_cost(self, capsys, table, tmp_path):
        out = tmp_path / "synthetic.csv"
        cost = ("--epsilon", 8, "--delta", 1e-6, "--method", "mst")
        code, answer = ask(capsys, "synthesize", table, *DOMAIN, *cost, "--out", out, "--rows", 500)
        header, *lines = out.read_text(encoding="utf-8").splitlines()
        assert (code, header, len(lines)) == (0, "sex,age", 500)
        women = sum(line.startswith("f,") for line in lines)
        assert abs(women / 500 - 2 / 3) < 0.05  # the noise is below 1 % of 2,000 rows at this ε
        assert all(0 <= float(line.split(",")[1]) <= 100 for line in lines)
        ledger = Ledger.from_json((tmp_path / "synthetic.csv.ledger.json").read_text(encoding="utf-8"))
        assert privet.account(ledger).epsilon(delta=1e-6) == pytest.approx(answer["epsilon"])
        assert answer["epsilon"] <= 8

    def test_a_privacy_unit_counts_once(self, capsys, table, tmp_path):
        out = tmp_path / "synthetic.parquet"
        words = ("--privacy-unit", "person", "--epsilon", 50, "--method", "mwem", "--order", 1)
        _, answer = ask(capsys, "synthesize", table, *DOMAIN, *words, "--out", out)
        assert answer["unit"] == "user"
        assert abs(answer["rows"] - 1000) < 50  # 1,000 people with two rows each

    @pytest.mark.parametrize(
        ("words", "fix"),
        [
            ((), "--column sex:f,m"),
            (("--column", "sex"), "COL:A,B"),
            (("--bins", "age:0:100"), "COL:LOW:HIGH:N"),
            (("--bins", "age:5:1:3"), "LOW below HIGH"),
            (("--column", "nobody:a,b"), "Check the spelling"),
        ],
    )
    def test_a_wrong_domain_is_refused_and_nothing_is_written(self, capsys, table, tmp_path, words, fix):
        out = tmp_path / "synthetic.csv"
        code = main([*map(str, ("synthesize", table, *words, "--epsilon", 1, "--delta", 1e-6, "--out", out))])
        assert (code, fix in capsys.readouterr().err) == (2, True)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv"]

    def test_no_file_is_written_over(self, capsys, table, tmp_path):
        out = tmp_path / "synthetic.csv"
        out.write_text("precious", encoding="utf-8")
        words = ("synthesize", table, *DOMAIN, "--epsilon", 1, "--delta", 1e-6, "--out", out)
        assert main([*map(str, words)]) == 2
        assert out.read_text(encoding="utf-8") == "precious"


class TestTrain:
    def test_weights_and_ledger_are_written(self, capsys, subject, tmp_path):
        out = tmp_path / "model.pt"
        words = ("--epsilon", 3, "--delta", 1e-5, "--epochs", 1, "--clip", 0.5)
        code, answer = ask(capsys, "train", subject, *words, "--out", out)
        assert (code, answer["interrupted"]) == (0, False)
        assert answer["epsilon"] <= 3
        assert set(torch.load(out, weights_only=True)) == {"weight", "bias"}
        ledger = Ledger.from_json((tmp_path / "model.pt.ledger.json").read_text(encoding="utf-8"))
        assert privet.account(ledger).epsilon(delta=1e-5) == pytest.approx(answer["epsilon"])

    @pytest.mark.parametrize("missing", ["epsilon", "delta", "epochs"])
    def test_what_has_no_default_must_be_given(self, capsys, subject, tmp_path, missing):
        words = {"epsilon": "3", "delta": "1e-5", "epochs": "1"}
        del words[missing]
        options = [word for name, value in words.items() for word in (f"--{name}", value)]
        assert main(["train", str(subject), *options, "--out", str(tmp_path / "model.pt")]) == 2
        assert f"--{missing}" in capsys.readouterr().err

    def test_a_file_that_fails_is_one_sentence(self, capsys, subject, tmp_path):
        subject.write_text(MODEL.replace("Linear(3, 2)", "Linear(7, 2)"), encoding="utf-8")
        words = ["train", subject, "--epsilon", 3, "--delta", 1e-5, "--epochs", 1, "--out", tmp_path / "m.pt"]
        assert main([*map(str, words)]) in (2, 3)
        assert "Traceback" not in capsys.readouterr().err
        assert not (tmp_path / "m.pt").exists()


def test_compare_has_a_line_for_each_model(capsys, tmp_path):
    for name, shift in (("weak", 0.0), ("strong", 3.0)):
        (tmp_path / "m.txt").write_text("\n".join(str(shift + i / 50) for i in range(50)), encoding="utf-8")
        (tmp_path / "n.txt").write_text("\n".join(str(i / 50) for i in range(50)), encoding="utf-8")
        scores = ["--members", str(tmp_path / "m.txt"), "--nonmembers", str(tmp_path / "n.txt")]
        assert main(["audit", *scores, "--name", name, "--out", str(tmp_path / f"{name}.json")]) == 0
    capsys.readouterr()
    reports = [str(tmp_path / f"{name}.json") for name in ("weak", "strong")]
    assert main(["compare", *reports]) == 0
    shown = capsys.readouterr().out
    assert shown.index("weak") < shown.index("strong")
    assert main(["compare", *reports, "--json"]) == 0
    weak, strong = json.loads(capsys.readouterr().out)["models"]
    assert weak["auc"] < strong["auc"] == 1.0
    assert main(["compare", *reports, "--fpr", "0.1"]) == 2
    assert "'--fpr' must go with a .py file" in capsys.readouterr().err
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    assert main(["compare", reports[0], str(tmp_path / "broken.json")]) == 2
