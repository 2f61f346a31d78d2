"""What the command line promises: its numbers, its JSON, its exit codes, and a sentence for every mistake."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from privet import AddRemove, Ledger, __version__, account, dp_sgd
from privet.adjacency import Unit
from privet.caveats import Caveat
from privet.cli import main
from privet.documents import event_to_json
from privet.events import BestOfNegativeBinomial, Compose, DiscreteGaussian, Gaussian, Laplace, Repeat

MNIST = ["--noise-multiplier", "1.1", "--sampling-rate", "256/60000", "--steps", "14062"]
GAUSSIAN = ["--noise-multiplier", "10", "--steps", "100"]
CLAIM_KEYS = {"epsilon", "epsilon_lower", "delta", "adjacency", "unit", "accountant", "caveats"}


def no_constant(name):
    raise AssertionError(f"{name} is not a JSON number")


@pytest.fixture
def ask(capsys):
    """Run a command with --json; the document, after it was found to be strict JSON and alone."""

    def run(*words):
        code = main([*map(str, words), "--json"])
        printed = capsys.readouterr()
        document = json.loads(printed.out, parse_constant=no_constant)
        assert (code, printed.err) == (0, "")
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
    """Run a command that must fail cleanly, with and without --json; the message."""

    def run(*words):
        code = main([*map(str, words)])
        printed = capsys.readouterr()
        assert (code, printed.out) == (2, "")
        assert printed.err.startswith("privet: ")
        assert printed.err.count("\n") == 1
        message = printed.err.removeprefix("privet: ").rstrip("\n")
        assert main([*map(str, words), "--json"]) == 2
        printed = capsys.readouterr()
        assert json.loads(printed.out)["error"]["message"] == message
        assert "Error" not in json.loads(printed.out)["error"]["type"]
        return message

    return run


class TestAccount:
    def test_dp_sgd_matches_the_reference(self, ask):
        found = ask("account", *MNIST, "--delta", "1e-5")
        assert set(found) >= CLAIM_KEYS
        assert found["epsilon"] == pytest.approx(2.38160, abs=1e-5)
        assert found["epsilon_lower"] <= found["epsilon"] <= found["epsilon_lower"] * (1 + 1e-4)
        assert found["delta"] == 1e-5
        assert (found["adjacency"], found["unit"]) == ("add-remove", "record")
        assert found["accountant"] == "privacy-loss distribution"
        assert all(set(row) == {"code", "sentence"} for row in found["caveats"])
        assert "POISSON_SAMPLING" in [row["code"] for row in found["caveats"]]

    def test_text_begins_with_the_verdict_rounded_up(self, tell):
        text = tell(
            "account",
            "--noise-multiplier",
            1.1,
            "--sampling-rate",
            0.0042667,
            "--steps",
            14063,
            "--delta",
            1e-5,
        )
        assert text.startswith("ε ≤ 2.38172 at δ = 1e-05 for every record, under add-remove adjacency.\n")
        assert "chosen because no --adjacency was given" in text
        assert Caveat.POISSON_SAMPLING.sentence.split(";")[0] in " ".join(text.split())

    def test_without_a_rate_it_is_the_plain_gaussian(self, ask):
        assert ask("account", *GAUSSIAN, "--delta", "1e-6")["epsilon"] == pytest.approx(4.886554, abs=2e-6)

    def test_steps_default_to_one_and_rate_one_is_everybody(self, ask):
        once = ask("account", "--noise-multiplier", 1, "--delta", "1e-5")
        assert once == ask(
            "account", "--noise-multiplier", 1, "--sampling-rate", 1, "--steps", 1, "--delta", "1e-5"
        )

    def test_adjacency_and_unit_are_said_and_count(self, ask):
        added = ask("account", *GAUSSIAN, "--delta", "1e-6")
        replaced = ask(
            "account", *GAUSSIAN, "--delta", "1e-6", "--adjacency", "replace-one", "--unit", "user"
        )
        assert (replaced["adjacency"], replaced["unit"]) == ("replace-one", "user")
        assert (added["adjacency_chosen"], replaced["adjacency_chosen"]) == (True, False)
        assert replaced["epsilon"] > added["epsilon"]

    @pytest.mark.parametrize(("population", "warned"), [(60_000, True), (1_000, False)])
    def test_population_warns_of_a_large_delta(self, ask, tell, population, warned):
        words = ["account", *GAUSSIAN, "--delta", "1e-5", "--population", population]
        codes = [row["code"] for row in ask(*words)["caveats"]]
        assert ("DELTA_TOO_LARGE" in codes) is warned
        assert ("Warning: " in tell(*words)) is warned

    def test_ledger(self, ask, tmp_path):
        ledger = Ledger(AddRemove(Unit.USER)).spend("training", Repeat(Gaussian(10.0), 100))
        path = tmp_path / "ledger.json"
        path.write_text(ledger.to_json())
        found = ask("account", path, "--delta", "1e-6")
        assert found["epsilon"] == pytest.approx(4.886554, abs=2e-6)
        assert (found["unit"], found["adjacency_chosen"]) == ("user", False)

    def test_event(self, ask, tmp_path):
        path = tmp_path / "event.json"
        path.write_text(event_to_json(Repeat(Laplace(10.0), 100)))
        assert ask("account", path, "--delta", "1e-6")["epsilon"] == pytest.approx(4.69267, abs=1e-5)
        assert ask("account", path, "--delta", "0")["epsilon"] == pytest.approx(10.0)

    def test_standard_input(self, ask, monkeypatch, tmp_path):
        path = tmp_path / "event.json"
        path.write_text(event_to_json(Gaussian(1.0)))
        with path.open() as stream:
            monkeypatch.setattr("sys.stdin", stream)
            assert ask("account", "-", "--delta", "1e-5")["epsilon"] > 0


class TestCalibrate:
    def test_noise(self, ask):
        found = ask("calibrate", "--epsilon", 2, "--delta", "1e-5", *MNIST[2:])
        assert set(found) >= CLAIM_KEYS | {"noise_multiplier", "sampling_rate", "steps", "target"}
        assert found["noise_multiplier"] == pytest.approx(1.22415, abs=1e-5)
        assert found["sampling_rate"] == 256 / 60_000
        assert found["steps"] == 14062
        assert found["target"] == {"kind": "epsilon", "epsilon": 2.0, "delta": 1e-5}
        assert found["epsilon"] <= 2

    def test_steps(self, ask):
        words = ["--noise-multiplier", 10, "--sampling-rate", 1, "--delta", "1e-6"]
        found = ask("calibrate", "--epsilon", 5, *words)
        assert isinstance(found["steps"], int)
        assert found["steps"] >= 100  # which cost 4.89
        assert ask("account", *words, "--steps", found["steps"])["epsilon"] <= 5
        assert ask("account", *words, "--steps", found["steps"] + 1)["epsilon"] > 5

    def test_rate(self, ask):
        found = ask("calibrate", "--epsilon", 3, "--delta", "1e-5", "--noise-multiplier", 1, "--steps", 1000)
        assert found["sampling_rate"] == pytest.approx(0.015758, rel=1e-4)
        assert found["solved"] == "sampling_rate"

    def test_posterior(self, ask):
        found = ask(
            "calibrate",
            "--posterior",
            0.6,
            "--prior",
            0.5,
            "--delta",
            "1e-5",
            "--sampling-rate",
            1,
            "--steps",
            1,
        )
        assert 0.6 * (1 - 1e-5) <= found["reached"] <= 0.6
        # ε at δ is well below the gain in log-odds, because the loss exceeds ε far more often than δ
        assert found["epsilon"] == pytest.approx(0.294909, rel=1e-5)

    def test_advantage_needs_no_delta(self, ask, tell):
        words = ["calibrate", "--advantage", 0.1, "--sampling-rate", 1, "--steps", 1]
        found = ask(*words)
        assert found["noise_multiplier"] == pytest.approx(3.9789, rel=1e-3)  # 2Φ(1/2σ) − 1 = 0.1
        assert (found["epsilon"], found["epsilon_lower"], found["delta"]) == (None, None, None)
        assert "A noise multiplier of 3.9" in tell(*words)

    def test_tpr(self, ask):
        found = ask("calibrate", "--tpr", 0.01, "--fpr", 0.001, "--sampling-rate", 1, "--steps", 1)
        # N(μ, 1) against N(0, 1): TPR = Φ(Φ⁻¹(FPR) + μ)
        assert 1 / found["noise_multiplier"] == pytest.approx(3.090232 - 2.326348, rel=1e-3)
        assert found["reached"] <= 0.01

    def test_text_rounds_to_the_private_side(self, tell, ask):
        words = ["calibrate", "--epsilon", 3, "--delta", "1e-5", "--sampling-rate", 1, "--steps", 1]
        shown = float(tell(*words).split("noise multiplier of ")[1].split()[0])
        assert shown >= ask(*words)["noise_multiplier"]

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            ([], "One target"),
            (["--epsilon", 1, "--advantage", 0.1], "--epsilon and --advantage"),
            (["--epsilon", 1, "--sampling-rate", 1, "--steps", 1], "--delta must be given"),
            (["--epsilon", 1, "--delta", 1e-5], "Exactly one of"),
            (["--epsilon", 1, "--delta", 1e-5, *MNIST], "got none left out"),
            (["--tpr", 0.01, "--sampling-rate", 1, "--steps", 1], "Give --fpr"),
            (["--advantage", 0.1, "--prior", 0.1, "--sampling-rate", 1, "--steps", 1], "Leave it out"),
            (
                ["--epsilon", 0, "--delta", 1e-5, "--sampling-rate", 1, "--steps", 1],
                "'epsilon' must be above 0",
            ),
            (["--epsilon", 1, "--delta", 0, "--sampling-rate", 1, "--steps", 1], "'delta' must be above 0"),
            (["--tpr", 0.01, "--fpr", 0.1, "--sampling-rate", 1, "--steps", 1], "guessing reaches that"),
            (
                ["--epsilon", 1, "--delta", 1e-5, "--steps", 1, "--sampling-rate", 1, "--runs", 1],
                "--runs must",
            ),
            (["--epsilon", 1, "--delta", 1e-5, *MNIST[2:], "--score-noise", 5], "--score-noise must"),
        ],
    )
    def test_refuses(self, refuse, words, part):
        assert part in refuse("calibrate", *words)

    @pytest.mark.slow
    def test_the_best_of_several_runs_needs_more_noise(self, ask):
        """The budget of a search: more noise for more runs and for a score, and ε of the whole within the target."""
        words = ["calibrate", "--epsilon", 2, "--delta", "1e-5", "--sampling-rate", 1, "--steps", 1]
        one = ask(*words)
        few, many = (ask(*words, "--runs", mean) for mean in (3, 30))
        scored = ask(*words, "--runs", 3, "--score-noise", 5)
        noises = [found["noise_multiplier"] for found in (one, few, many)]
        assert noises == sorted(set(noises))
        assert scored["noise_multiplier"] > few["noise_multiplier"]
        for found in (few, many, scored):
            assert 1.99 < found["reached"] <= 2
            assert "BEST_OF_SECRET_RUNS" in [caveat["code"] for caveat in found["caveats"]]
        run = Compose((Gaussian(scored["noise_multiplier"]), DiscreteGaussian(5.0, 1)))
        search = BestOfNegativeBinomial((run,), 1.0, 1 / 3)
        assert account(search, adjacency=AddRemove()).epsilon(delta=1e-5) <= 2


class TestExplain:
    def test_claim(self, ask):
        found = ask("explain", "--epsilon", 3, "--delta", "1e-5")
        assert set(found) >= CLAIM_KEYS | {"tpr", "posterior", "advantage"}
        ceilings = {row["fpr"]: row["tpr"] for row in found["tpr"]}
        assert set(ceilings) == {1e-4, 1e-3, 1e-2}
        for fpr, tpr in ceilings.items():
            exact = 1e-5 + math.exp(3) * fpr
            assert exact * (1 - 1e-12) <= tpr <= exact * 1.005
        for row in found["posterior"]:
            prior = row["prior"]
            odds = 1 + 2 * math.exp(3)  # what an (ε, δ) alone says at 2 δ
            assert row["upper"] == pytest.approx(prior / (prior + (1 - prior) / odds))
            assert row["lower"] == pytest.approx(prior / (prior + (1 - prior) * odds))
        assert found["posterior_failure"] == 2e-5
        assert [row["prior"] for row in found["posterior"]] == [0.01, 0.1, 0.5]
        assert found["advantage"] == pytest.approx(1e-5 + (1 - 1e-5) * math.tanh(1.5))
        assert (found["epsilon"], found["accountant"]) == (3.0, "as claimed")

    def test_a_mechanism_leaks_less_than_its_pair(self, ask):
        mechanism = ask("explain", *GAUSSIAN, "--delta", "1e-6")
        pair = ask("explain", "--epsilon", mechanism["epsilon"], "--delta", "1e-6")
        assert mechanism["advantage"] < pair["advantage"]
        assert all(a["tpr"] < b["tpr"] for a, b in zip(mechanism["tpr"], pair["tpr"], strict=True))

    def test_words(self, tell):
        text = " ".join(tell("explain", "--epsilon", 3, "--delta", "1e-5").split())
        assert "An attacker asks whether a given record is in the data." in text
        assert "a false alarm in 0.1 % of the cases is right in at most 2.01 %" in text
        assert "thought it 10 % likely will end between 0.269 % and 82.1 %" in text
        assert "except with a probability of at most 2e-05" in text

    @pytest.mark.parametrize("relation", ["add-remove", "replace-one", "zero-out"])
    def test_every_adjacency_has_words(self, tell, relation):
        assert relation in tell(
            "explain", "--epsilon", 1, "--delta", 0, "--adjacency", relation, "--unit", "client"
        )

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["--epsilon", 3], "--delta must be given"),
            (["--epsilon", 3, "--delta", 1], "'delta' must be at least 0 and below 1"),
            (["--epsilon", -1, "--delta", 1e-5], "'epsilon' must be at least 0"),
            (["--epsilon", "-1e-5", "--delta", 1e-5], "'epsilon' must be at least 0"),
            (["--epsilon", "nan", "--delta", 1e-5], "finite"),
            (["--epsilon", 3, "--delta", 1e-5, "--steps", 3], "Leave them out"),
            (["--epsilon", 3, "--delta", 1e-5, *GAUSSIAN], "--noise-multiplier and --epsilon"),
            (["--epsilon", 3, "--delta", 1e-5, "--plot", "out.png"], "ends in .svg"),
            (["--epsilon", 3, "--delta", 1e-5, "--plot", "no/such/folder/out.svg"], "folder that exists"),
        ],
    )
    def test_refuses(self, refuse, words, part):
        assert part in refuse("explain", *words)


class TestRefusals:
    @pytest.mark.parametrize(
        ("option", "value", "part"),
        [
            ("--noise-multiplier", "nan", "must be finite"),
            ("--noise-multiplier", "-1", "must be above 0"),
            ("--noise-multiplier", "0", "must be above 0"),
            ("--noise-multiplier", "inf", "must be finite"),
            ("--noise-multiplier", "much", "must be a number, got 'much'"),
            ("--sampling-rate", "1.5", "at most 1"),
            ("--sampling-rate", "-1e-5", "above 0"),
            ("--sampling-rate", "0", "above 0"),
            ("--sampling-rate", "1/0", "must be a number"),
            ("--steps", "0", "from 1 to"),
            ("--steps", "-3", "from 1 to"),
            ("--steps", "2.5", "whole number"),
            ("--steps", "1e30", "from 1 to"),
            ("--steps", "9" * 5000, "number"),
            ("--delta", "0", "must be above 0"),
            ("--delta", "1", "below 1"),
            ("--delta", "-1e-5", "at least 0"),
            ("--delta", "nan", "must be finite"),
            ("--adjacency", "neighbours", "one of add-remove, replace-one, zero-out"),
            ("--unit", "person", "one of record, user, client"),
            ("--population", "0", "from 1 to"),
        ],
    )
    def test_a_bad_parameter(self, refuse, option, value, part):
        assert part in refuse("account", *MNIST, "--delta", "1e-5", option, value)

    @pytest.mark.parametrize(
        ("words", "part"),
        [
            (["account"], "One mechanism, file or claim"),
            (["account", "--delta", "1e-5"], "Give --noise-multiplier"),
            (["account", *MNIST], "--delta must be given"),
            (["account", *MNIST, "--delta"], "expected one argument"),
            (["account", *MNIST, "--delta", "1e-5", "--loud"], "--loud"),
            (["account", "--noise-mult", "1", "--delta", "1e-5"], "--noise-mult"),
            (["reckon"], "invalid choice: 'reckon'"),
        ],
    )
    def test_a_bad_command(self, refuse, words, part):
        assert part in refuse(*words)

    @pytest.mark.parametrize(
        ("content", "part"),
        [
            (b"", "must be JSON"),
            (b"hello", "must be JSON"),
            (bytes(range(256)), "not text"),
            (b"[" * 100_000, "must be JSON"),
            (b"[]", "names neither"),
            (b'{"format": "other"}', "names neither"),
            (b'{"format": "privet-event", "version": 2}', "'version' must be 1"),
            (b'{"format": "privet-event", "version": 1}', "must be an object with a 'kind'"),
            (b'{"format": "privet-event", "version": 1, "event": {"kind": "magic"}}', "got 'magic'"),
            (
                b'{"format": "privet-event", "version": 1, "event": '
                b'{"kind": "gaussian", "noise_multiplier": NaN}}',
                "finite",
            ),
            (
                b'{"format": "privet-event", "version": 1, "event": '
                b'{"kind": "gaussian", "noise_multiplier": 1.0, "color": 3}}',
                "got also color",
            ),
            (b'{"format": "privet-ledger", "version": 1, "adjacency": "add-remove"}', "entries"),
        ],
    )
    def test_a_bad_file(self, refuse, tmp_path, content, part):
        path = tmp_path / "document"
        path.write_bytes(content)
        assert part in refuse("account", path, "--delta", "1e-5")

    def test_no_file_and_a_folder(self, refuse, tmp_path):
        assert "No such file" in refuse("account", tmp_path / "missing.json", "--delta", "1e-5")
        assert "directory" in refuse("account", tmp_path, "--delta", "1e-5")
        assert "NUL" in refuse("account", "a\0b", "--delta", "1e-5")

    def test_a_ledger_keeps_its_adjacency(self, refuse, tmp_path):
        path = tmp_path / "ledger.json"
        path.write_text(Ledger(AddRemove()).spend("one", Gaussian(1.0)).to_json())
        assert "Leave 'adjacency' out" in refuse(
            "account", path, "--delta", "1e-5", "--adjacency", "zero-out"
        )
        assert "a file and --noise-multiplier" in refuse("account", path, *GAUSSIAN, "--delta", "1e-5")

    def test_sampled_and_repeated_beyond_all_measure(self, refuse, tmp_path):
        path = tmp_path / "event.json"
        text = event_to_json(Repeat(Gaussian(1.0), 10**15)).replace("1000000000000000", "1" + "0" * 400)
        path.write_text(text)
        refuse("account", path, "--delta", "1e-5")


class TestManners:
    def test_version(self, capsys):
        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"privet {__version__}\n"

    @pytest.mark.parametrize("command", [[], ["account"], ["calibrate"], ["explain"], ["demo"]])
    def test_help(self, capsys, command):
        assert main([*command, "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith("usage: privet")
        assert all(
            word in text for word in (["--json"] if command else ["account", "calibrate", "explain", "demo"])
        )

    def test_nothing_asked_is_a_call_for_help(self, capsys):
        assert main([]) == 0
        assert capsys.readouterr().out.startswith("usage: privet")

    def test_a_closed_pipe_is_no_error(self):
        command = [sys.executable, "-m", "privet.cli", "--help"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
            running.stdout.close()
            assert running.stderr.read() == b""

    def test_import_is_light(self):
        program = "import sys, privet; print(*{name.split('.')[0] for name in sys.modules})"
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert not {"torch", "scipy", "matplotlib", "numpy"} & set(found.stdout.split())

    def test_account_loads_neither_torch_nor_a_plotting_library(self):
        program = (
            "import sys; from privet.cli import main; "
            "main(['account', '--noise-multiplier', '1', '--delta', '1e-5']); "
            "print(*{name.split('.')[0] for name in sys.modules})"
        )
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert not {"torch", "matplotlib"} & set(found.stdout.split())

    def test_every_option_reads_back_the_event_it_wrote(self, ask, tmp_path):
        path: Path = tmp_path / "event.json"
        path.write_text(event_to_json(dp_sgd(noise_multiplier=1.1, sampling_rate=256 / 60_000, steps=14_062)))
        assert ask("account", path, "--delta", "1e-5") == ask("account", *MNIST, "--delta", "1e-5")
