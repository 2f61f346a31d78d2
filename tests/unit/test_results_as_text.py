"""How results show themselves: one line in a terminal, escaped HTML in a notebook, a data frame; and joint reports."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest

import privet
from privet.adjacency import AddRemove
from privet.attacks.shadows.recipe import CallableRecipe, ScikitRecipe, to_recipe
from privet.errors import InvalidArgument, MissingPackage
from privet.events import Gaussian
from privet.fingerprints import FingerprintKey
from privet.pipeline import TimeLimit, audit_scores
from privet.scores import Challenge, Records, References, Scores

BAD = "<script>alert(1)</script>"
LEDGER = privet.Ledger(AddRemove()).spend(BAD, Gaussian(2.0))
CLAIM = privet.account(LEDGER)


def scored(name="model", shift=1.0, **options):
    noise = np.random.default_rng(3).normal(size=1200)
    return audit_scores(noise[:600] + shift, noise[600:], name=name, **options)


REPORT = scored(ledger=LEDGER)


@pytest.mark.parametrize(
    "thing",
    [
        REPORT,
        REPORT.audits[0],
        REPORT.audits[0].results[0],
        REPORT.audits[0].results[0].leakage,
        REPORT.audits[0].results[0].leakage.roc,
        REPORT.audits[0].results[0].scores,
        Records(np.zeros((500, 40)), np.zeros(500)),
        Challenge(Records(np.zeros((500, 40))), np.arange(500) % 2 == 0),
        References(np.zeros((8, 1, 500)), np.zeros((8, 500))),
        CLAIM,
        LEDGER,
    ],
    ids=lambda thing: type(thing).__name__,
)
def test_a_repr_is_one_short_line(thing):
    text = repr(thing)
    assert text.startswith(type(thing).__name__)
    assert "\n" not in text
    assert len(text) < 200


def test_a_repr_holds_no_score_and_no_record():
    values = np.array([0.123456, 7.654321])
    scores = Scores(values, np.array([True, False]))
    assert not re.search("123|654", repr(scores))
    assert "0.123" not in repr(Records(values[:, None]))


def test_long_reports_and_ledgers_stay_short():
    many = replace(REPORT, audits=[replace(REPORT.audits[0], name=f"model {n}") for n in range(50)])
    assert "and 47 more" in repr(many)
    long = LEDGER
    for number in range(100):
        long = long.spend(f"entry {number}", Gaussian(2.0))
    assert len(repr(long)) < 200


def test_html_for_notebooks_is_escaped():
    for html in (scored(BAD)._repr_html_(), replace(CLAIM, accountant=BAD)._repr_html_()):
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_html_of_a_guarantee_has_epsilon_rounded_up():
    shown = re.search(r"<td>1e-06</td><td>([\d.]+)</td>", CLAIM._repr_html_())
    assert 0 <= float(shown[1]) - CLAIM.epsilon(delta=1e-6) < 1.001e-3


class TestJointReports:
    def test_models_of_all_reports_are_in_order(self):
        joint = privet.Report.of(scored("a"), scored("b", 0.0), title="Both")
        assert [audit.name for audit in joint.audits] == ["a", "b"]
        assert joint.title == "Both"
        assert joint.worst.name == "a"
        assert "1 of 2 models" in joint.verdict

    def test_every_form_can_be_written(self, tmp_path):
        joint = privet.Report.of(scored("a"), scored("b"))
        for ending in ("html", "json", "md", "dpia.html", "pia.json"):
            assert joint.save(tmp_path / f"joint.{ending}").stat().st_size > 1000

    def test_the_call_gives_the_same_figures(self):
        joint = privet.Report.of(scored("a"), scored("b"))
        noise = np.random.default_rng(3).normal(size=1200)
        again = eval(
            joint.origin.call, {"privet": privet, "members": noise[:600] + 1.0, "nonmembers": noise[600:]}
        )
        assert [audit.epsilon_measured for audit in again.audits] == [
            a.epsilon_measured for a in joint.audits
        ]

    def test_keys(self, tmp_path):
        key = FingerprintKey.generate()
        assert privet.Report.of(scored("a", key=key), scored("b", key=key)).key == key
        different = privet.Report.of(scored("a"), scored("b"))
        assert different.key is None
        with pytest.raises(InvalidArgument, match="Save the keys of the reports"):
            different.save_key(tmp_path / "key")

    def test_refusals(self):
        with pytest.raises(InvalidArgument, match="at least one report"):
            privet.Report.of()
        with pytest.raises(InvalidArgument, match="names that differ"):
            privet.Report.of(scored("a"), scored("a"))


class TestDataFrames:
    def test_one_row_for_each_model_and_attack(self):
        frame = privet.Report.of(scored("a", ledger=LEDGER), scored("b", 0.0)).to_pandas()
        assert frame["model"].tolist() == ["a", "b"]
        assert frame["epsilon_upper"].notna().tolist() == [True, False]
        assert frame["auc"][0] == REPORT.audits[0].results[0].leakage.auc.value

    def test_figures_and_scores(self):
        result = REPORT.audits[0].results[0]
        figures = result.leakage.to_pandas().set_index("figure")
        assert figures.loc["AUC", "lower"] == result.leakage.auc.lower
        assert np.isnan(figures.loc["TPR at 0.0001 FPR", "value"])
        frame = result.scores.to_pandas()
        np.testing.assert_array_equal(frame["score"], result.scores.values)
        np.testing.assert_array_equal(frame["member"], result.scores.members)

    def test_pandas_is_optional(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(MissingPackage, match="pip install pandas"):
            REPORT.to_pandas()


class TestTimeLimit:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [("90s", 90), ("10min", 600), ("2h", 7200), ("1.5 h", 5400), ("45", 45), (30, 30), (0.5, 0.5)],
    )
    def test_what_is_accepted(self, value, seconds):
        assert TimeLimit.of(value) == TimeLimit(seconds)
        assert TimeLimit.of(TimeLimit(seconds)) == TimeLimit(seconds)

    @pytest.mark.parametrize(
        "value", ["soon", "10 days", "", "-3s", 0, -1.0, float("nan"), "inf", True, [60]]
    )
    def test_what_is_refused(self, value):
        with pytest.raises(
            InvalidArgument, match=r"'time_limit' must be a time above 0 .* Give seconds|must be a TimeLimit"
        ):
            TimeLimit.of(value)


class TestRecipesOfPlainFunctions:
    def test_a_function_and_an_estimator(self):
        linear = pytest.importorskip("sklearn.linear_model")

        def train(inputs, labels, seed):
            return linear.LogisticRegression().fit(inputs, labels)

        assert to_recipe(train) == CallableRecipe(train) or to_recipe(train).train is train
        assert isinstance(to_recipe(linear.LogisticRegression()), ScikitRecipe)
        recipe = CallableRecipe(train, version="1")
        assert to_recipe(recipe) is recipe

    def test_an_audit_takes_a_function(self):
        linear = pytest.importorskip("sklearn.linear_model")
        generator = np.random.default_rng(0)
        x, y = generator.normal(size=(120, 3)), generator.integers(0, 2, 120)

        def train(inputs, labels, seed):
            return linear.LogisticRegression().fit(inputs, labels)

        model = train(x[:60], y[:60], 0)
        report = privet.audit(
            model,
            [x[:60], y[:60]],
            [x[60:], y[60:]],
            recipe=train,
            references=2,
            time_limit="1min",
            progress=False,
        )
        assert [result.name for result in report.audits[0].results] == ["loss", "RMIA + BaVarIA"]

    @pytest.mark.parametrize("value", [lambda: None, lambda inputs: None, 3, "recipe", ScikitRecipe])
    def test_what_is_refused(self, value):
        with pytest.raises(InvalidArgument, match=r"'recipe' must be a Recipe.*TorchRecipe"):
            to_recipe(value)
