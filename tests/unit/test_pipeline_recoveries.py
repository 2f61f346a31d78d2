"""``audit_recoveries``, and recoveries within ``audit`` and the command line: a toy attack takes the place of real ones."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest

import privet
from privet.attacks.inversion import registry
from privet.attacks.inversion.registry import NamedRecovery, RecoveryKnowledge, find_recoveries
from privet.auditing import Shares
from privet.cli import main
from privet.errors import InvalidArgument
from privet.events import Gaussian
from privet.pipeline import recovery_attacks
from privet.pipeline.recovery_results import judge_recoveries
from privet.recoveries import Criterion, Picture, Recoveries, RecoveryGame
from privet.reporting.documents.report_json import document, read_document
from privet.reporting.facts import Standing
from privet.views import Adversary

ADVERSARY = Adversary(sees="the confidences", knows="the other columns", wants="the secret")
COIN = np.arange(400) % 2 == 0
STRONG = privet.Ledger(privet.AddRemove()).spend("training", Gaussian(10.0))
WEAK = privet.Ledger(privet.AddRemove()).spend("training", Gaussian(0.3))


def recoveries(inside=0.9, outside=0.1, name="toy", **more):
    number = np.arange(400) // 2 / 200
    hits = np.where(COIN, number < inside, number < outside)
    return Recoveries(name, ADVERSARY, "exactly right", hits, COIN, **more)


@pytest.mark.parametrize(
    ("found", "ledger", "standing"),
    [
        (recoveries(), None, Standing.LEAKS),
        (recoveries(), WEAK, Standing.LEAKS_WITHIN),
        (recoveries(), STRONG, Standing.BROKEN),
        (recoveries(0.5, 0.5), None, Standing.NOT_DETECTED),
        (recoveries(0.5, 0.5), STRONG, Standing.NOT_DETECTED_PROVED),
    ],
)
def test_the_standing_follows_from_recoveries(found, ledger, standing, tmp_path):
    report = privet.audit_recoveries(found, ledger=ledger)
    assert report.audits[0].standing is standing
    assert "private" not in report.verdict
    for ending in ("html", "json", "md", "dpia.html", "pia.json"):
        text = report.save(tmp_path / f"report.{ending}").read_text(encoding="utf-8")
        assert "toy" in text
    report.to_pandas()
    assert "toy" in report._repr_html_()


def test_success_above_the_ceiling_breaks_the_claim_where_a_coin_left_targets_out():
    """Beside a blind guess it does not: a better guess may come from what the model teaches about everybody."""
    hits = np.arange(400) < 380
    guessed = Recoveries("toy", ADVERSARY, "exact", hits, blind_hits=np.arange(400) % 10 == 0)
    audit = privet.audit_recoveries(guessed, ledger=STRONG).audits[0]
    assert audit.recoveries[0].epsilon is None
    assert audit.recoveries[0].ceiling < 0.5
    assert audit.standing is Standing.LEAKS_WITHIN
    coin = np.arange(800) % 2 == 0
    found = Recoveries(
        "toy", ADVERSARY, "exact", np.where(coin, np.arange(800) < 760, np.arange(800) % 20 == 1), coin
    )
    report = privet.audit_recoveries(found, ledger=STRONG)
    assert report.audits[0].standing is Standing.BROKEN
    assert report.audits[0].recoveries[0].is_above_ceiling


def test_an_attack_below_its_blind_guess_is_no_leak():
    found = Recoveries("toy", ADVERSARY, "exact", np.zeros(400), blind_hits=np.ones(400))
    assert privet.audit_recoveries(found).audits[0].standing is Standing.NOT_DETECTED


def test_json_has_every_figure_of_a_recovery():
    plain = read_document(document(privet.audit_recoveries(recoveries(), ledger=WEAK)))
    (found,) = plain["models"][0]["recoveries"]
    assert found["attack"] == "toy"
    for name in ("success", "baseline", "leak"):
        assert set(found[name]) == {"value", "lower", "upper"}
    assert found["success"]["value"] == 0.9
    assert found["ceiling"] == pytest.approx(privet.account(WEAK).tpr(fpr=0.1))
    assert found["epsilon_lower"] > 0.5
    assert plain["models"][0]["detected"]["recoveries"] is True
    without = read_document(document(privet.audit_recoveries(recoveries())))
    assert without["models"][0]["recoveries"][0]["ceiling"] is None


def test_reports_without_recoveries_still_read():
    """A report.json of before recoveries has neither their list nor the word on private data."""
    plain = json.loads(document(privet.audit_scores(np.arange(60.0) + 40, np.arange(60.0))))
    plain.pop("shows_private_data")
    plain["models"][0].pop("recoveries")
    plain["models"][0]["detected"].pop("recoveries")
    read_document(json.dumps(plain))


def test_statements_hold_together_at_the_confidence():
    several = [recoveries(name=f"toy {k}", groups=np.where(COIN, "a", "b")[::-1]) for k in range(3)]
    assert privet.audit_recoveries(several, confidence=0.9).audits[0].confidence >= 0.9 - 1e-9


class TestExhibits:
    def report(self):
        game = RecoveryGame(np.array(["<b>truth</b>"] * 40), np.arange(40) < 20)
        text = game.judge(game.secrets, "text", adversary=ADVERSARY, draw=str)
        pictures = RecoveryGame(np.full((40, 4, 4), 0.37), None, np.zeros((40, 4, 4)), Criterion.within(0.1))
        shown = pictures.judge(pictures.secrets, "pictures", adversary=ADVERSARY, draw=Picture)
        return privet.audit_recoveries([text, shown])

    @pytest.mark.parametrize("ending", ["html", "json", "md", "dpia.html", "pia.json"])
    def test_they_are_left_out_unless_asked_for(self, ending, tmp_path):
        text = self.report().save(tmp_path / f"report.{ending}").read_text(encoding="utf-8")
        assert "truth</b>" not in text
        assert "b&gt;truth" not in text
        assert "<img " not in text
        assert ending == "html" or "data:image/png" not in text  # the plotting script knows that word

    @pytest.mark.parametrize("ending", ["html", "json", "md"])
    def test_they_are_shown_where_asked_for_and_named_private(self, ending, tmp_path):
        text = self.report().save(tmp_path / f"report.{ending}", exhibits=True).read_text(encoding="utf-8")
        assert "truth" in text
        assert "data:image/png;base64," in text
        assert "private data" in text or '"shows_private_data": true' in text
        if ending != "json":
            assert "<b>truth</b>" not in text  # escaped
        else:
            read_document(text)

    def test_pictures_are_png_that_others_can_read(self):
        pytest.importorskip("matplotlib")
        from io import BytesIO

        from matplotlib.image import imread

        from privet.reporting.pictures import encode_png

        for shape in ((5, 7), (6, 3, 3)):
            pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
            assert (np.rint(255 * imread(BytesIO(encode_png(Picture(pixels))))) == pixels).all()

    def test_every_picture_has_words_for_those_who_do_not_see_it(self, tmp_path):
        text = self.report().save(tmp_path / "report.html", exhibits=True).read_text(encoding="utf-8")
        assert text.count("<img ") == text.count('alt="Truth, a picture') + text.count(
            'alt="Recovered, a'
        ) + text.count('alt="Blind guess, a')


@dataclass(frozen=True)
class _Toy:
    """It reads the secret through the model: the confidence in class 1 is that of the secret column, for members."""

    knowledge: RecoveryKnowledge

    def run(self, view, members):
        inputs = self.knowledge.records.inputs
        (column,) = self.knowledge.known_secret
        answers = view.log_confidences(inputs).argmax(axis=1)
        game = RecoveryGame(inputs[:, column], members)
        return game.judge(answers, "toy", adversary=ADVERSARY)


class _Memory:
    """A model that knows the first column of those whose second column is 1."""

    def predict_proba(self, inputs):
        high = np.where(inputs[:, 1] == 1, inputs[:, 0], 0.0)
        return np.stack([1 - 0.9 * high - 0.05, 0.9 * high + 0.05], axis=1)


@pytest.fixture
def toy(monkeypatch):
    entry = NamedRecovery("toy", (registry.SECRET,), _Toy)
    monkeypatch.setitem(registry.RECOVERY_ATTACKS, "toy", entry)
    return entry


def sides():
    generator = np.random.default_rng(0)
    first = generator.integers(0, 2, (300, 3)).astype(float)
    second = first[150:].copy()
    first = first[:150]
    first[:, 1], second[:, 1] = 1, 0
    return (first, first[:, 0].astype(int)), (second, second[:, 0].astype(int))


def test_an_audit_runs_recoveries_beside_membership(toy):
    members, others = sides()
    report = privet.audit(_Memory(), members, others, attacks=["loss", "toy"], secret=0)
    audit = report.audits[0]
    assert [result.name for result in audit.results] == ["loss"]
    assert audit.recoveries[0].leakage.success.value == 1.0
    assert audit.recoveries[0].leakage.baseline.value < 0.7
    assert audit.confidence >= 0.95 - 1e-9
    assert "attacks=['loss', 'toy']" in report.origin.call
    assert "secret=[0]" in report.origin.call


def test_an_audit_may_run_recoveries_alone(toy):
    members, others = sides()
    audit = privet.audit(_Memory(), members, others, attacks="toy", secret=[0]).audits[0]
    assert audit.results == ()
    assert audit.harm is None
    assert audit.standing is Standing.LEAKS


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"attacks": ["toy"]}, "needs the columns of a secret attribute, and got none. Give secret="),
        ({"attacks": ["toy"], "secret": 3}, "'secret' must be positions of columns below 3"),
        ({"attacks": ["toy", "toy"], "secret": 0}, "each once"),
        ({"attacks": ["toy", "los"], "secret": 0}, "'attacks' must name some of"),
    ],
)
def test_refusals_come_before_the_work(toy, options, sentence):
    members, others = sides()
    with pytest.raises(InvalidArgument, match=sentence):
        privet.audit(_Memory(), members, others, **options)


def test_the_table_of_recoveries_says_what_is_missing(toy):
    knowledge = RecoveryKnowledge(view=None, records=None)
    with pytest.raises(InvalidArgument, match="toy, which needs"):
        find_recoveries(["toy"], knowledge)
    assert (
        tuple(name for name in registry.RECOVERY_ATTACKS if name != "toy")
        == recovery_attacks.ATTACKS_THAT_RECOVER
    )


def test_the_command_line_reaches_them(toy, tmp_path, capsys):
    (tmp_path / "subject.py").write_text(
        "import sys\nsys.path.insert(0, 'TESTS')\nfrom test_pipeline_recoveries import _Memory, sides\n"
        "model = _Memory()\nmembers, nonmembers = sides()\n".replace(
            "TESTS", str(__import__("pathlib").Path(__file__).parent)
        ),
        encoding="utf-8",
    )
    words = ["audit", str(tmp_path / "subject.py"), "--attacks", "toy", "--secret", "0"]
    code = main([*words, "--out", str(tmp_path / "r.json"), "--fail-above", "leak=0.1", "--exhibits"])
    printed = capsys.readouterr().out
    assert code == 1
    assert "leak in points" in printed
    assert "FAILED: leak is" in printed
    assert read_document((tmp_path / "r.json").read_text(encoding="utf-8"))["shows_private_data"] is True
    main([*words, "--json"])
    assert json.loads(capsys.readouterr().out)["recoveries"][0]["attack"] == "toy"
    main(["compare", str(tmp_path / "r.json"), str(tmp_path / "r.json")])
    assert "model" in capsys.readouterr().out


def test_membership_and_recoveries_in_one_verdict():
    report = privet.audit_scores(np.arange(400.0) + 300, np.arange(400.0))
    shares = Shares.of(0.95, others=[400], recoveries=[recoveries()])
    found = judge_recoveries(recoveries(), None, delta=1e-5, shares=shares)
    both = replace(report, audits=[replace(report.audits[0], recoveries=[found])])
    assert "“toy” recovers 90" in both.verdict
    assert "of members are found" in both.verdict


def test_nothing_and_twice_the_same_are_refused():
    with pytest.raises(InvalidArgument, match="at least one attack"):
        privet.audit_recoveries([])
    with pytest.raises(InvalidArgument, match="names that differ"):
        privet.audit_recoveries([recoveries(), recoveries()])


def test_the_help_lists_every_attack_that_recovers():
    from privet.cli.options_models import _RECOVERIES

    assert set(registry.RECOVERY_ATTACKS) <= set(_RECOVERIES)
