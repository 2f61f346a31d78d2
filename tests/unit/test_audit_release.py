"""``audit_release``: the report on a table, every form of it, and one sentence for each bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

import privet
from privet.cli import main
from privet.errors import InvalidArgument
from privet.events import Gaussian
from privet.reporting.caution import audit_badge
from privet.reporting.documents.report_json import document, read_document
from privet.reporting.facts import Standing
from privet.reporting.table_words import table_advice

COINS = np.random.default_rng(8)
ROWS = 400
PEOPLE = {
    "id": np.arange(ROWS),
    "zip": COINS.integers(0, 30, ROWS),
    "age": COINS.integers(18, 90, ROWS),
    "sex": COINS.integers(0, 2, ROWS),
    "disease": COINS.integers(0, 5, ROWS),
}
LEDGER = privet.Ledger(privet.AddRemove()).spend("synthetic table", Gaussian(20.0))


def part(rows, names=tuple(PEOPLE)):
    return {name: PEOPLE[name][rows] for name in names}


def audit(table=None, **more):
    given = {"quasi": ["zip", "age", "sex"], "secret": "disease"} | more
    return privet.audit_release(PEOPLE if table is None else table, **given)


def attacks_of(report):
    return [each.name for each in report.audits[0].recoveries]


def test_rows_are_attacked_where_rows_are_people(tmp_path):
    report = audit(sampling_fraction=0.1, population=PEOPLE)
    found = report.audits[0]
    assert attacks_of(report) == ["exact match", "homogeneity", "background knowledge"]
    assert found.standing is Standing.LEAKS
    assert found.table.k_anonymity == 1
    assert found.table.presence.upper == 1.0
    assert found.confidence == pytest.approx(0.95, abs=1e-9)  # the population's interval has its share
    assert "people in it" in report.verdict
    assert "trained" not in report.verdict
    for ending in ("html", "json", "md", "dpia.html", "pia.json"):
        text = report.save(tmp_path / f"report.{ending}").read_text(encoding="utf-8")
        assert "homogeneity" in text
    assert "Who is unique in the table" in (tmp_path / "report.html").read_text(encoding="utf-8")
    plain = read_document(document(report))["models"][0]["table"]
    assert plain["unique_share"] == found.table.unique_share
    assert plain["population"]["unique_share"]["lower"] <= plain["population"]["unique_share"]["value"]


def test_the_same_seed_gives_the_same_figures():
    first, second, third = (audit(seed=seed).audits[0].recoveries for seed in (1, 1, 2))
    assert [str(each.leakage) for each in first] == [str(each.leakage) for each in second]
    assert [str(each.leakage) for each in first] != [str(each.leakage) for each in third]


def test_a_large_class_is_no_leak():
    table = {"sex": np.arange(800) % 2, "disease": np.arange(800) // 2 % 2 * 0 + np.arange(800) % 2}
    found = audit(table, quasi=["sex"]).audits[0]
    assert found.standing is Standing.NOT_DETECTED
    assert audit_badge(found).word == "Not detected at this power"


def test_a_second_table_is_linked_and_the_absent_are_counted():
    report = audit(other=part(slice(0, 200), ("id", "zip", "age", "sex")), key="id")
    linkage = report.audits[0].recoveries[-1]
    assert linkage.name == "record linkage"
    assert linkage.leakage.outside == 100  # half of those who are known was taken out of the table
    assert linkage.leakage.success.value > linkage.leakage.baseline.value


def test_a_second_release_with_the_secret_is_intersected():
    second = part(slice(0, 300), ("id", "zip", "age", "disease"))
    assert attacks_of(audit(other=second, key="id"))[-2:] == [
        "record linkage",
        "intersection of two releases",
    ]


def test_the_key_is_hidden_from_attacks():
    """The key alone would link everybody; here the other columns are noise."""
    coins = np.random.default_rng(1)
    other = {"id": np.arange(200), "zip": coins.integers(0, 30, 200), "age": coins.integers(18, 90, 200)}
    found = audit(other=other, key="id").audits[0].recoveries[-1]
    assert found.leakage.success.value < 0.2


def test_synthetic_tables_are_attacked_by_their_original():
    inside, outside = part(slice(0, 200)), part(slice(200, 400))
    for table in (inside, outside):
        table.pop("id")
    report = audit(inside, original=inside, control=outside)
    assert "exact copies" in attacks_of(report)
    assert "exact match" not in attacks_of(report)
    assert report.audits[0].standing is Standing.LEAKS
    assert not report.audits[0].table.rows_are_people
    page = document(report)
    assert "finds their row" not in page
    claimed = audit(inside, original=inside, control=outside, ledger=LEDGER)
    assert claimed.audits[0].standing is Standing.BROKEN
    assert all(each.ceiling is not None for each in claimed.audits[0].recoveries)


BAD = {
    "no quasi-identifier": ({}, {"quasi": []}, "at least one quasi-identifier"),
    "unknown column": ({}, {"quasi": ["zap"]}, "'quasi' must name columns of the table, got 'zap'"),
    "unknown secret": ({}, {"secret": "illness"}, "'secret' must name columns of the table"),
    "a quasi that is the secret": ({}, {"secret": "age"}, "as both"),
    "all rows equal": (
        {"zip": np.zeros(9, dtype=int)},
        {"quasi": ["zip"], "secret": None},
        "all rows are equal",
    ),
    "a secret that is a key": ({}, {"secret": "id"}, "it is a key"),
    "no values": (
        {"zip": [None] * 4, "age": [1, 2, 3, 4]},
        {"quasi": ["zip", "age"], "secret": None},
        "missing in every row",
    ),
    "a secret without values": (
        {"zip": [1, 2, 3], "s": [None] * 3},
        {"quasi": ["zip"], "secret": "s"},
        "missing in every row",
    ),
    "no rows": ({"zip": []}, {"quasi": ["zip"], "secret": None}, "at least 2 rows, got 0"),
    "10,000 quasi-identifiers": (
        {f"c{number}": [0, 1] for number in range(10_000)},
        {"quasi": [f"c{number}" for number in range(10_000)], "secret": None},
        "at most 100 columns, got 10,000",
    ),
    "no common column": ({}, {"other": {"id": [1, 2], "shoe": [40, 41]}, "key": "id"}, "besides the key"),
    "no common people": ({}, {"other": {"id": [-1, -2], "age": [40, 41]}, "key": "id"}, "must share people"),
    "a key that is none": ({}, {"other": PEOPLE, "key": "sex"}, "different in every row"),
    "a key that one table lacks": ({}, {"other": {"age": [40]}, "key": "id"}, "not in 'other'"),
    "a second table without a key": ({}, {"other": PEOPLE}, "given together, got only other"),
    "an original without a control": ({}, {"original": PEOPLE}, "given together, got only original"),
    "a second table beside a ledger": (
        {},
        {"ledger": LEDGER, "other": PEOPLE, "key": "id", "original": PEOPLE, "control": PEOPLE},
        "'other' cannot be given with a ledger",
    ),
    "a ledger alone": ({}, {"ledger": LEDGER}, "must be given with a ledger"),
    "a fraction above 1": ({}, {"sampling_fraction": 5.0}, "'sampling_fraction' must be above 0"),
    "a set of no columns": ({}, {"largest_set": 0}, "'largest_set' must be"),
    "another population": ({}, {"population": {"zip": [1]}}, "must have every quasi-identifier"),
    "no table": (3, {}, "got a value of type int"),
    "no file": ("no-such-file.csv", {}, "a file that exists"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_a_sentence_with_a_fix(case):
    table, more, words = BAD[case]
    with pytest.raises(InvalidArgument, match=words) as refused:
        audit(table if not isinstance(table, dict) or table else None, **more)
    assert 2 <= str(refused.value).count(". ") + str(refused.value).endswith(".") <= 3


def test_ten_thousand_columns_are_no_obstacle():
    table = {f"c{number}": np.arange(30) % (number + 2) for number in range(10_000)}
    assert audit(table, quasi=["c3", "c4"], secret=None).audits[0].table.rows == 30


def test_missing_values_are_a_warning_and_count_as_a_value():
    table = {"zip": ["a", None, None, "b"] * 20, "s": [1, 2] * 40}
    found = audit(table, quasi=["zip"], secret="s").audits[0]
    assert found.table.classes == 3
    warning = next(check for check in found.warnings if check.name == "missing values")
    assert "zip in 40 rows" in warning.finding


def test_no_value_of_the_table_is_in_a_report_or_an_error(tmp_path):
    secret = "Zanzibar-17"
    table = {"town": [secret, "b", "c", secret] * 20, "s": [secret, "y"] * 40}
    report = audit(table, quasi=["town"], secret="s")
    for ending in ("html", "json", "md"):
        assert secret not in report.save(tmp_path / f"r.{ending}").read_text(encoding="utf-8")
    with pytest.raises(InvalidArgument) as refused:
        audit({"town": [secret] * 3}, quasi=["town"], secret=None)
    assert secret not in str(refused.value)


@pytest.fixture
def file(tmp_path):
    pytest.importorskip("polars")
    lines = [",".join(PEOPLE), *(",".join(map(str, row)) for row in zip(*PEOPLE.values(), strict=True))]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


class TestCommand:
    WORDS = ("--quasi", "zip,age,sex", "--secret", "disease")

    def test_json_has_the_figures_of_the_table_and_of_every_attack(self, file, capsys):
        assert main(["audit-table", str(file), *self.WORDS, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert (answer["rows"], answer["k_anonymity"], answer["l_diversity"]) == (ROWS, 1, 1)
        assert answer["unique_share"] == audit().audits[0].table.unique_share
        for attack in answer["attacks"]:
            for name in ("success", "baseline", "leak"):
                assert attack[name]["lower"] <= attack[name]["value"] <= attack[name]["upper"]
            assert attack["ceiling"] is None
            assert attack["epsilon_lower"] >= 0
        assert answer["attacks"][0]["attack"] == "exact match"

    def test_text_and_report(self, file, capsys, tmp_path):
        out = tmp_path / "report.html"
        assert main(["audit-table", str(file), *self.WORDS, "--out", str(out)]) == 0
        text = capsys.readouterr().out
        for words in ("data.csv leaks", "2 of 3", "k-anonymity", "t-closeness", "homogeneity", "≥"):
            assert words in text
        assert out.exists()

    def test_the_report_is_about_this_table_and_no_other(self, file, capsys, tmp_path):
        out = tmp_path / "report.json"
        assert main(["audit-table", str(file), *self.WORDS, "--out", str(out)]) == 0
        lines = file.read_text(encoding="utf-8").splitlines()
        turned, changed = tmp_path / "turned.csv", tmp_path / "changed.csv"
        turned.write_text("\n".join([lines[0], *reversed(lines[1:])]), encoding="utf-8")
        changed.write_text("\n".join(lines[:-1]), encoding="utf-8")
        other = tmp_path / "other.csv"
        other.write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
        for path, code in ((file, 0), (turned, 0), (changed, 1), (other, 1)):
            assert main(["verify", str(out), "--table", str(path)]) == code
        capsys.readouterr()

    def test_every_table_of_the_command(self, file, capsys, tmp_path):
        text = file.read_text(encoding="utf-8").splitlines()
        first, second = tmp_path / "first.csv", tmp_path / "second.csv"
        first.write_text("\n".join(text[:201]), encoding="utf-8")
        second.write_text("\n".join([text[0], *text[201:]]), encoding="utf-8")
        synthetic = ["--original", str(first), "--control", str(second), "--population", str(file)]
        assert main(["audit-table", str(first), *self.WORDS, *synthetic, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["presence"]["upper"] == 1.0
        assert (
            main(["audit-table", str(file), *self.WORDS, "--with", str(first), "--key", "id", "--json"]) == 0
        )
        assert "record linkage" in {each["attack"] for each in json.loads(capsys.readouterr().out)["attacks"]}

    @pytest.mark.parametrize(
        ("limit", "code"), [("unique=0.999", 0), ("unique=0.1", 1), ("detected", 1), ("leak=1", 0)]
    )
    def test_limits(self, file, capsys, limit, code):
        assert main(["audit-table", str(file), *self.WORDS, "--fail-above", limit]) == code
        assert ("FAILED" in capsys.readouterr().out) == bool(code)

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            ([], "at least one quasi-identifier"),
            (["--quasi", "zap"], "It has 'id', 'zip', 'age', 'sex', 'disease'"),
            (["--quasi", "zip", "--with", "nowhere.csv", "--key", "id"], "'other' must be a table or a file"),
            (["--quasi", "zip", "--secret", "id"], "it is a key"),
            (["--quasi", "zip", "--with", "{shoes}", "--key", "id"], "besides the key"),
            (
                ["--quasi", ",".join(f"c{number}" for number in range(10_000))],
                "at most 100 columns, got 10,000",
            ),
        ],
    )
    def test_refusals(self, file, capsys, words, sentence):
        shoes = file.with_name("shoes.csv")
        shoes.write_text("id,shoe\n1,40\n2,41\n", encoding="utf-8")
        words = [str(shoes) if word == "{shoes}" else word for word in words]
        assert main(["audit-table", str(file), *words]) == 2
        said = capsys.readouterr().err
        assert sentence in said
        assert said.count("\n") == 1

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ("", "is empty"),
            ("\n", "first line names its columns"),
            ("zip,age\n", "at least 2 rows, got 0"),
            ("zip,age\n1,2\n", "at least 2 rows, got 1"),
            ("zip,age\n1,2\n1,3\n", "all rows are equal"),
            ("zip,age\n,2\n,3\n", "missing in every row"),
            ("zip,zip\n1,2\n", "each differently"),
            ("zip;age\n1;2\n3;4\n", "commas between its columns, and 'odd.csv' seems to have ';'"),
            ("zip\tage\n1\t2\n3\t4\n", "seems to have '\\t'"),
        ],
    )
    def test_files_that_hold_no_table(self, capsys, content, sentence, tmp_path):
        pytest.importorskip("polars")
        path = Path(tmp_path, "odd.csv")
        path.write_text(content, encoding="utf-8")
        assert main(["audit-table", str(path), "--quasi", "zip"]) == 2
        said = capsys.readouterr().err
        assert sentence in said
        assert said.count("\n") == 1

    @pytest.mark.parametrize(
        ("name", "encoding", "sentence"),
        [
            ("table.xlsx", "utf-8", "'table' must be a .csv or .parquet file"),
            ("table", "utf-8", ".csv or .parquet"),
            ("table.csv", "utf-16", "in UTF-8"),
        ],
    )
    def test_files_of_another_format(self, capsys, name, encoding, sentence, tmp_path):
        pytest.importorskip("polars")
        path = tmp_path / name
        path.write_text("zip,age\n1,2\n3,4\n", encoding=encoding)
        assert main(["audit-table", str(path), "--quasi", "zip"]) == 2
        assert sentence in capsys.readouterr().err


def test_advice_begins_with_the_fewest_columns_that_single_people_out():
    """A birth date that alone makes everybody unique is named alone, and not beside a column that adds nothing."""
    report = audit(
        {"sex": np.arange(90) % 2, "birth": np.arange(90) % 88}, quasi=["sex", "birth"], secret=None
    )
    advice = " ".join(piece.why for piece in table_advice(report.audits[0]))
    assert "Begin with birth (95.6\xa0% unique by it)" in advice


def test_no_form_of_a_report_on_a_table_speaks_of_training(tmp_path):
    """Each form is about a table: it says so, and has its figures."""
    report = audit()
    for ending in ("html", "md", "dpia.html", "pia.json"):
        text = report.save(tmp_path / f"report.{ending}").read_text(encoding="utf-8")
        assert "are unique by zip, age, sex" in text
        for sentence in (
            "that it was trained on",
            "scored records were trained",
            "Train with differential",
            "same model",
        ):
            assert sentence not in text
    assert "Quasi-identifier" in (tmp_path / "report.html").read_text(encoding="utf-8")
