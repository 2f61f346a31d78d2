"""What ``privet release`` promises: answers with their error and cost, a quote that reads nothing, a ledger."""

import json
import math
import os
import subprocess
import sys

import pytest

from privet import Ledger, account
from privet.accounting import fixed_price
from privet.cli import main

pytest.importorskip("polars")

CLAIM_KEYS = {
    "epsilon",
    "epsilon_lower",
    "delta",
    "adjacency",
    "adjacency_chosen",
    "unit",
    "accountant",
    "caveats",
}
ANSWER_KEYS = {"label", "value", "error", "error_kind", "confidence", "cost", "stored", "threshold", "event"}
CITIES = "abcd"
PEOPLE = 4_000


def no_constant(name):
    raise AssertionError(f"{name} is not a JSON number")


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """4,000 people with one to three rows each; ages 0 to 99, cities in equal parts."""
    path = tmp_path_factory.mktemp("tables") / "data.csv"
    rows = [
        f"{person},{(person * 7) % 100},{CITIES[person % 4]},{'fm'[person % 2]}"
        for person in range(PEOPLE)
        for _ in range(1 + person % 3)
    ]
    path.write_text("user_id,age,city,sex\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def ask(capsys):
    """Run a command with --json; the document, after it was found to be strict JSON and alone."""

    def run(*words):
        code = main([*map(str, words), "--json"])
        printed = capsys.readouterr()
        document = json.loads(printed.out, parse_constant=no_constant)
        assert (code, printed.err) == (0, ""), document
        return document

    return run


@pytest.fixture
def tell(capsys):
    """Run a command; its text."""

    def run(*words):
        code = main(list(map(str, words)))
        printed = capsys.readouterr()
        assert (code, printed.err) == (0, "")
        return printed.out

    return run


@pytest.fixture
def refuse(capsys):
    """Run a command that must fail cleanly, with and without --json; type and message."""

    def run(*words):
        assert main([*map(str, words)]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("privet: ")
        assert printed.err.count("\n") == 1
        message = printed.err.removeprefix("privet: ").rstrip("\n")
        assert main([*map(str, words), "--json"]) == 2
        document = json.loads(capsys.readouterr().out)["error"]
        assert document["message"] == message
        return document["type"], message

    return run


ISSUE = (
    "--privacy-unit",
    "user_id",
    "--count",
    "--mean",
    "age:0:100",
    "--histogram",
    "city:a,b,c,d",
    "--epsilon",
    "1",
)


class TestAnswers:
    def test_the_example(self, ask, csv):
        found = ask("release", csv, *ISSUE)
        assert set(found) == CLAIM_KEYS | {"quote", "answers", "warnings", "ledger"}
        assert [answer["label"] for answer in found["answers"]] == ["count", "mean age", "histogram city"]
        assert all(set(answer) == ANSWER_KEYS for answer in found["answers"])
        assert found["epsilon"] == pytest.approx(1, rel=1e-6)
        assert found["epsilon"] <= 1
        assert (found["delta"], found["unit"], found["adjacency"]) == (0, "user", "add-remove")
        assert sum(answer["cost"]["epsilon"] for answer in found["answers"]) == pytest.approx(1, rel=1e-6)
        count, mean, histogram = (answer["value"] for answer in found["answers"])
        # Each bound fails by chance about once in 10^9 runs: 20 times the scale of the noise.
        assert abs(count - PEOPLE) < 20 * 3
        assert 47 < mean < 52
        assert set(histogram) == set(CITIES)
        assert all(abs(histogram[city] - 1000) < 20 * 3 for city in CITIES)
        assert set(found["answers"][2]["error"]) == set(CITIES)

    def test_the_error_is_about_three_scales(self, ask, csv):
        (answer,) = ask("release", csv, "--privacy-unit", "user_id", "--count", "--epsilon", 0.1)["answers"]
        assert answer["error"] == pytest.approx(10 * math.log(20), abs=1.5)
        assert answer["confidence"] == 0.95

    @pytest.mark.parametrize(
        ("words", "label", "low", "high"),
        [
            (("--sum", "age:0:100"), "sum age", 170_000, 225_000),
            (("--variance", "age:0:100"), "variance age", 760, 900),
            (("--quantile", "age:0.5:0:100"), "quantile 0.5 age", 44, 55),
            (("--count", "--rows-per-person", "3"), "count", 7_900, 8_100),
        ],
    )
    def test_each_statistic(self, ask, csv, words, label, low, high):
        (answer,) = ask("release", csv, "--privacy-unit", "user_id", *words, "--epsilon", 2)["answers"]
        assert answer["label"] == label
        assert low < answer["value"] < high
        assert answer["error"] >= 0
        assert 0 < answer["cost"]["epsilon"] <= 2

    def test_marginal_top_k_and_groups(self, ask, csv):
        found = ask(
            "release", csv, "--privacy-unit", "user_id", "--marginal", "city:a,b;sex:f,m", "--epsilon", 5
        )["answers"][0]
        assert list(found["value"]) == ["a,f", "a,m", "b,f", "b,m"]
        assert found["value"]["a,f"] > 900
        assert abs(found["value"]["a,m"]) < 100
        top = ask("release", csv, "--privacy-unit", "user_id", "--top-k", "city:2:a,b,c,d", "--epsilon", 5)
        assert len(top["answers"][0]["value"]) == 2
        grouped = ask(
            "release", csv, "--privacy-unit", "user_id", "--mean", "age:0:100", "--group-by", "city:a,b,z",
            "--epsilon", 5,
        )["answers"][0]  # fmt: skip
        assert grouped["label"] == "mean age by city"
        assert list(grouped["value"]) == ["a", "b", "z"]
        assert 40 < grouped["value"]["a"] < 60

    def test_unknown_keys_need_delta(self, ask, refuse, csv):
        words = ("release", csv, "--privacy-unit", "user_id", "--count", "--group-by", "city", "--epsilon", 2)
        _, message = refuse(*words)
        assert "delta" in message
        found = ask(*words, "--delta", "1e-6")
        assert set(found["answers"][0]["value"]) == set(CITIES)
        assert found["answers"][0]["threshold"] > 1
        assert found["delta"] == 1e-6
        assert found["epsilon"] <= 2

    def test_split_is_by_weight(self, ask, csv):
        found = ask(
            "release", csv, "--privacy-unit", "user_id", "--count", "--sum", "age:0:100", "--split", "3,1", "--epsilon", 1
        )  # fmt: skip
        costs = [answer["cost"]["epsilon"] for answer in found["answers"]]
        assert costs == pytest.approx([0.75, 0.25], rel=1e-6)

    def test_without_a_unit_a_row_is_one_and_the_text_says_so(self, ask, tell, csv):
        found = ask("release", csv, "--count", "--epsilon", 1)
        assert found["unit"] == "record"
        assert abs(found["answers"][0]["value"] - 2 * PEOPLE) < 60
        assert "each row by itself, because no --privacy-unit was given" in tell(
            "release", csv, "--count", "--epsilon", 1
        )

    def test_replace_one_costs_no_less(self, ask, csv):
        words = ("release", csv, "--privacy-unit", "user_id", "--histogram", "city:a,b,c,d", "--epsilon", 1)
        added, replaced = ask(*words), ask(*words, "--adjacency", "replace-one")
        assert replaced["adjacency"] == "replace-one"
        assert (added["adjacency_chosen"], replaced["adjacency_chosen"]) == (True, False)
        assert replaced["answers"][0]["error"]["a"] > added["answers"][0]["error"]["a"]

    def test_two_bounds_of_one_column_have_two_labels(self, ask, csv):
        found = ask("release", csv, "--mean", "age:0:100", "--mean", "age:0:50", "--epsilon", 4)
        assert [answer["label"] for answer in found["answers"]] == ["mean age:0:100", "mean age:0:50"]

    def test_whole_numbers_and_quoted_text_are_categories(self, ask, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("k,t\n" + "7,01\n" * 900 + '8,"a,b"\n' * 100)
        found = ask("release", path, "--histogram", "k:7,8,9", "--histogram", 't:01,"a,b"', "--epsilon", 10)
        numbers, texts = (answer["value"] for answer in found["answers"])
        assert abs(numbers["7"] - 900) < 40 > abs(numbers["9"])
        assert abs(texts["01"] - 900) < 40 > abs(texts["a,b"] - 100)

    def test_parquet_as_csv(self, ask, csv, tmp_path):
        import polars as pl

        path = tmp_path / "data.parquet"
        pl.read_csv(csv).write_parquet(path)
        found = ask("release", path, *ISSUE)
        assert abs(found["answers"][0]["value"] - PEOPLE) < 60


class TestText:
    def test_value_error_and_cost_in_a_table(self, tell, csv):
        text = tell("release", csv, *ISSUE)
        assert text.startswith(
            "This release costs ε ≤ 1 at δ = 0 for every user, under add-remove adjacency.\n"
        )
        assert [line.split()[0] for line in text.splitlines() if line.startswith("  count")] == ["count"]
        assert "± error" in text
        assert "ε 0.333" in text
        assert "user_id; each counts for at most 1 row" in text

    def test_long_answers_are_cut_for_people_and_not_for_programs(self, tell, ask, csv):
        keys = ",".join(f"k{number}" for number in range(100))
        words = ("release", csv, "--histogram", f"city:{keys}", "--epsilon", 1)
        assert "… and 75 more; --json shows all" in tell(*words)
        assert len(ask(*words)["answers"][0]["value"]) == 100

    def test_a_careless_delta_is_warned_of(self, tell, csv):
        words = ("release", csv, "--count", "--group-by", "city", "--epsilon", 1, "--delta", "1e-3")
        assert "Warning: δ is at least 1/(10 n)" in tell(*words, "--population", 1000)


class TestQuote:
    def test_it_costs_and_errs_as_the_answer_does(self, ask, csv):
        words = (
            "release",
            csv,
            "--privacy-unit",
            "user_id",
            "--count",
            "--histogram",
            "city:a,b",
            "--epsilon",
            0.5,
        )
        quoted, answered = ask(*words, "--quote"), ask(*words)
        assert (quoted["quote"], answered["quote"]) == (True, False)
        assert quoted["epsilon"] == answered["epsilon"]
        for before, after in zip(quoted["answers"], answered["answers"], strict=True):
            assert set(before) == ANSWER_KEYS
            assert before["value"] is None
            assert (before["label"], before["cost"], before["event"]) == (
                after["label"],
                after["cost"],
                after["event"],
            )
        assert quoted["answers"][0]["error"] == answered["answers"][0]["error"]

    @pytest.mark.parametrize(
        "content", [None, b"", b"\x00\xff\xfe\x80garbage", b"user_id,age,city\n\x80\x81,,\n"]
    )
    def test_it_reads_no_row(self, ask, tmp_path, content):
        path = tmp_path / "data.csv"
        if content is not None:
            path.write_bytes(content)
        assert ask("release", path, *ISSUE, "--quote")["answers"][0]["cost"]["epsilon"] > 0

    def test_it_spends_nothing(self, ask, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        ask("release", csv, *ISSUE, "--ledger", ledger, "--budget", 0.5, "--quote")
        assert not ledger.exists()

    def test_its_text(self, tell, csv):
        text = tell("release", csv, *ISSUE, "--quote")
        assert text.startswith("It would cost ε ≤ 1 at δ = 0 for every user")
        assert "nothing was spent" in text

    def test_errors_that_are_no_plain_distance_are_explained(self, tell, csv):
        text = tell(
            "release", csv, "--quantile", "age:0.5:0:100", "--mean", "age:0:100", "--epsilon", 1, "--quote"
        )
        assert " rows " in text
        assert " / n " in text
        assert "is to be divided by the number of rows" in text


class TestLedger:
    def test_the_same_question_has_the_same_answer_and_costs_nothing(self, ask, tell, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        words = ("release", csv, *ISSUE, "--ledger", ledger, "--budget", 1.5)
        first = ask(*words)
        bytes_then = ledger.read_bytes()
        again = ask(*words)
        assert [a["value"] for a in first["answers"]] == [a["value"] for a in again["answers"]]
        assert [a["error"] for a in first["answers"]] == [a["error"] for a in again["answers"]]
        assert not any(a["stored"] for a in first["answers"])
        assert all(a["stored"] and a["cost"] == {"epsilon": 0, "delta": 0} for a in again["answers"])
        assert (again["epsilon"], first["ledger"]["epsilon"]) == (0, again["ledger"]["epsilon"])
        assert ledger.read_bytes() == bytes_then
        assert tell(*words).startswith(
            "All of this was answered before, for the file as it was then; it costs nothing.\n"
        )

    def test_the_budget_is_kept_to_the_last_and_not_beyond(self, ask, refuse, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        own = ("--privacy-unit", "user_id", "--ledger", ledger, "--budget", 1.5)
        ask("release", csv, *own, "--count", "--epsilon", 0.75)
        found = ask("release", csv, *own, "--sum", "age:0:100", "--epsilon", 0.75)
        assert found["ledger"]["epsilon"] <= 1.5
        assert found["ledger"]["budget"] == {"epsilon": 1.5, "delta": 0}
        before = ledger.read_bytes()
        kind, message = refuse("release", csv, *own, "--mean", "age:0:100", "--epsilon", 0.01)
        assert kind == "BudgetExceeded"
        assert "nothing was spent" in message
        assert ledger.read_bytes() == before
        # What was answered stays answered, also when nothing is left.
        assert ask("release", csv, *own, "--count", "--epsilon", 0.75)["answers"][0]["stored"]

    def test_account_reads_it(self, ask, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        ask("release", csv, *ISSUE, "--ledger", ledger)
        found = ask("account", ledger, "--delta", 0)
        assert (found["epsilon"], found["unit"]) == (pytest.approx(1, rel=1e-6), "user")
        assert [entry.label for entry in Ledger.from_json(ledger.read_text())] == [
            "count",
            "mean age",
            "histogram city",
        ]

    def test_a_budget_with_a_delta_of_its_own(self, ask, refuse, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        words = (
            "release",
            csv,
            "--privacy-unit",
            "user_id",
            "--group-by",
            "city",
            "--epsilon",
            0.5,
            "--delta",
            "1e-7",
        )
        own = ("--ledger", ledger, "--budget", "1.01:1e-6")
        ask(*words, "--count", *own)
        found = ask(*words, "--sum", "age:0:100", *own)
        assert found["ledger"]["delta"] == 1e-6
        assert (
            fixed_price(Ledger.from_json(ledger.read_text())).epsilon(delta=1e-6)
            == found["ledger"]["epsilon"]
            <= 1.01
        )
        assert refuse(*words, "--mean", "age:0:100", *own)[0] == "BudgetExceeded"

    def test_part_of_a_release_may_be_stored(self, ask, csv, tmp_path):
        own = ("--privacy-unit", "user_id", "--ledger", tmp_path / "ledger.json", "--budget", 1)
        first = ask("release", csv, *own, "--count", "--epsilon", 0.5)["answers"][0]
        found = ask("release", csv, *own, "--count", "--sum", "age:0:100", "--epsilon", 1)
        assert found["answers"][0]["value"] == first["value"]
        assert [answer["stored"] for answer in found["answers"]] == [True, False]
        assert found["epsilon"] == pytest.approx(0.5, rel=1e-6)

    def test_lost_answers_cost_again_within_the_budget(self, ask, refuse, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        words = (
            "release",
            csv,
            "--privacy-unit",
            "user_id",
            "--count",
            "--epsilon",
            1,
            "--ledger",
            ledger,
            "--budget",
            1.5,
        )
        ask(*words)
        (tmp_path / "ledger.json.answers.jsonl").unlink()
        assert refuse(*words)[0] == "BudgetExceeded"

    def test_answers_that_cannot_be_kept_are_given_with_a_warning(
        self, ask, tell, csv, tmp_path, monkeypatch
    ):
        from privet.errors import InvalidArgument
        from privet.releasing import durable

        def full(path, line):
            raise InvalidArgument("the disk is full")

        monkeypatch.setattr(durable, "append_durably", full)
        words = (
            "release",
            csv,
            "--privacy-unit",
            "user_id",
            "--count",
            "--epsilon",
            1,
            "--ledger",
            tmp_path / "l.json",
        )
        found = ask(*words)
        assert len(found["answers"]) == 1
        assert "asking again costs again" in found["warnings"][0]
        assert "Warning: The answers could not be kept" in tell(*words)
        assert len(Ledger.from_json((tmp_path / "l.json").read_text())) == 2

    def test_another_table_is_another_question(self, ask, csv, tmp_path):
        other = tmp_path / "other.csv"
        other.write_bytes(csv.read_bytes())
        own = ("--privacy-unit", "user_id", "--ledger", tmp_path / "ledger.json", "--count", "--epsilon", 1)
        ask("release", csv, *own)
        assert not ask("release", other, *own)["answers"][0]["stored"]

    def test_another_unit_is_refused(self, ask, refuse, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        ask("release", csv, *ISSUE, "--ledger", ledger)
        assert "same unit" in refuse("release", csv, "--count", "--epsilon", 1, "--ledger", ledger)[1]

    @pytest.mark.parametrize("content", ["", "{", "[]", '{"format": "privet-ledger", "version": 2}'])
    def test_a_broken_ledger_is_refused_and_left_as_it_is(self, refuse, csv, tmp_path, content):
        ledger = tmp_path / "ledger.json"
        ledger.write_text(content)
        kind, message = refuse("release", csv, *ISSUE, "--ledger", ledger)
        assert (kind, ledger.read_text()) == ("Unreadable", content)
        assert "restore the file" in message

    def test_the_table_is_not_a_ledger(self, refuse, csv):
        before = csv.read_bytes()
        assert "must not be the table itself" in refuse("release", csv, *ISSUE, "--ledger", csv)[1]
        assert csv.read_bytes() == before


class TestProcesses:
    def test_a_race_of_whole_commands_never_overspends(self, csv, tmp_path):
        """Three processes ask for 0.4 each, of a budget of 1: two get it, and one is refused."""
        ledger = tmp_path / "ledger.json"
        bounds = [f"age:0:{100 + number}" for number in range(3)]
        children = [
            subprocess.Popen(
                [
                    sys.executable, "-m", "privet.cli", "release", str(csv), "--privacy-unit", "user_id",
                    "--sum", bound, "--epsilon", "0.4", "--ledger", str(ledger), "--budget", "1",
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for bound in bounds
        ]  # fmt: skip
        said = [child.communicate(timeout=120)[1] for child in children]
        assert sorted(child.returncode for child in children) == [0, 0, 2], said
        assert account(Ledger.from_json(ledger.read_text())).epsilon(delta=0.0) <= 1
        assert sum("nothing was spent" in text for text in said) == 1

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals")
    def test_killed_while_it_reads_the_spend_stays(self, csv, tmp_path, ask):
        """The process kills itself between the spend and the first look at a row."""
        ledger = tmp_path / "ledger.json"
        program = (
            "import os, signal, sys\n"
            "from privet.releasing.durable import HeldLedger\n"
            "real = HeldLedger.spend\n"
            "def spend(self, entries, **more):\n"
            "    real(self, entries, **more)\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "HeldLedger.spend = spend\n"
            "from privet.cli import main\n"
            "main(sys.argv[1:])\n"
        )
        words = [
            "release",
            str(csv),
            "--privacy-unit",
            "user_id",
            "--count",
            "--epsilon",
            "1",
            "--ledger",
            str(ledger),
        ]
        killed = subprocess.run(
            [sys.executable, "-c", program, *words], capture_output=True, timeout=60, check=False
        )
        assert (killed.returncode, killed.stdout) == (-9, b"")
        assert len(Ledger.from_json(ledger.read_text())) == 1
        again = ask(*words)
        assert not again["answers"][0]["stored"]
        assert again["ledger"]["epsilon"] == pytest.approx(2)


class TestMistakes:
    @pytest.mark.parametrize(
        ("words", "needed"),
        [
            (("--epsilon", 1), "A statistic must be asked for"),
            (("--count",), "--epsilon must be given"),
            (("--count", "--epsilon", 0), "above 0"),
            (("--count", "--epsilon", "-1"), "above 0"),
            (("--count", "--epsilon", "nan"), "finite"),
            (("--count", "--epsilon", 1, "--delta", 1), "below 1"),
            (("--count", "--epsilon", 1, "--budget", 2), "--budget must be given with --ledger"),
            (("--mean", "age", "--epsilon", 1), "COL:LOW:HIGH"),
            (("--mean", "age:0", "--epsilon", 1), "COL:LOW:HIGH"),
            (("--mean", "age:young:old", "--epsilon", 1), "a number here"),
            (("--mean", "age:100:0", "--epsilon", 1), "Swap the bounds"),
            (("--mean", "age:0:inf", "--epsilon", 1), "finite"),
            (("--mean", "age:nan:1", "--epsilon", 1), "finite"),
            (("--quantile", "age:1.5:0:100", "--epsilon", 1), "between 0 and 1"),
            (("--quantile", "age:0:100", "--epsilon", 1), "COL:Q:LOW:HIGH"),
            (("--histogram", "city", "--epsilon", 1), "COL:A,B"),
            (("--histogram", "city:", "--epsilon", 1), "COL:A,B"),
            (("--histogram", "city:a,,b", "--epsilon", 1), "between its commas"),
            (("--histogram", "city:a,a", "--epsilon", 1), "twice"),
            (("--marginal", "city;sex:f,m", "--epsilon", 1), "list the values"),
            (("--top-k", "city", "--epsilon", 1), "COL:K"),
            (("--top-k", "city:x:a,b", "--epsilon", 1), "whole number"),
            (("--top-k", "city:3:a,b", "--epsilon", 1), "at most the number"),
            (("--histogram", "city:a,b", "--group-by", "sex", "--epsilon", 1), "--group-by is for"),
            (("--count", "--group-by", "city:a;sex", "--epsilon", 1), "every column or of none"),
            (("--count", "--count", "--epsilon", 1), "--count twice"),
            (("--count", "--epsilon", 1, "--split", "1,2"), "split"),
            (("--count", "--epsilon", 1, "--split", "a"), "number"),
            (("--count", "--epsilon", 1, "--rows-per-person", 0), "--rows-per-person"),
            (("--count", "--epsilon", 1, "--rows-per-person", 2), "given with --privacy-unit"),
            (("--count", "--epsilon", 1, "--adjacency", "near"), "adjacency"),
            (("--count", "--epsilon", 1, "--confidence", 1), "confidence"),
            (("--count", "--epsilon", 1, "--ledger", "/nowhere/ledger.json"), "a folder that exists"),
        ],
    )
    def test_each_has_a_sentence_and_spends_nothing(self, refuse, csv, tmp_path, words, needed):
        ledger = tmp_path / "ledger.json"
        own = () if "--ledger" in words or "--budget" in words else ("--ledger", ledger)
        _, message = refuse("release", csv, *words, *own)
        assert needed in message
        assert message.count(". ") >= 1, "what is wrong, and how to mend it"
        assert not ledger.exists()


class TestFilter:
    OWN = ("--privacy-unit", "user_id", "--epsilon", 0.1)

    def test_the_ledger_tells_where_its_filter_stands_and_the_price_beside_it(self, ask, tell, csv, tmp_path):
        own = (*self.OWN, "--ledger", tmp_path / "ledger.json", "--budget", "1:1e-6")
        found = ask("release", csv, "--count", *own)
        ledger = found["ledger"]
        assert ledger["budget"] == {"epsilon": 1, "delta": 1e-6}
        assert ledger["filter"]["name"] == "Rényi"
        assert ledger["epsilon"] <= ledger["filter"]["reached"] < 1
        assert 0 < ledger["filter"]["remaining"] < 1
        codes = {caveat["code"] for caveat in found["caveats"]}
        assert "ADAPTIVE_PARAMETERS" in codes
        assert "FIXED_PARAMETERS" not in codes
        text = " ".join(tell("release", csv, "--sum", "age:0:100", *own).split())
        assert "ε = 1 at δ = 1e-06, kept by a filter (Rényi) that stands at ε =" in text
        assert "if every question had been fixed beforehand" in text

    def test_without_a_budget_the_running_total_says_what_it_is(self, ask, csv, tmp_path):
        found = ask(
            "release", csv, "--count", *self.OWN, "--delta", "1e-6", "--ledger", tmp_path / "ledger.json"
        )
        assert found["ledger"]["filter"] is None
        assert "RUNNING_TOTAL" in {caveat["code"] for caveat in found["caveats"]}

    def test_a_quote_asks_the_filter_and_spends_nothing(self, ask, tell, csv, tmp_path):
        ledger = tmp_path / "ledger.json"
        own = (*self.OWN, "--ledger", ledger, "--budget", "0.15:1e-6")
        first = ask("release", csv, "--count", *own, "--quote")["ledger"]
        assert first["permitted"]
        assert not ledger.exists()
        ask("release", csv, "--count", *own)
        then = ledger.read_bytes()
        again = ask("release", csv, "--sum", "age:0:100", *own, "--quote")["ledger"]
        assert not again["permitted"]
        assert again["filter"]["remaining"] == first["filter"]["remaining"]
        text = " ".join(tell("release", csv, "--sum", "age:0:100", *own, "--quote").split())
        assert "would refuse it: The ledger would reach ε" in text
        assert ledger.read_bytes() == then
