"""Advice on defences: a comparison is quoted with its numbers; without one the figures say where to begin."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.test_defence_report import NONE, PRIVATE, STOPPED, compare, defence
from tests.unit.test_report_page import audited, report

from privet.auditing import Rate
from privet.defending import NoDefence
from privet.errors import InvalidArgument, PrivetError, Unreadable
from privet.pipeline import audit_scores
from privet.reporting import ComparedDefence, DefenceComparison, Report
from privet.reporting.advice import advice
from privet.reporting.defence_facts import WITHOUT_DEFENCE
from privet.reporting.regression_facts import RegressionFit


def said(content: Report) -> dict[str, str]:
    return {piece.what: piece.why.replace("\u00a0", " ") for piece in advice(content, content.audits[0])}


def with_comparison(comparison: DefenceComparison | None, **changes: Any) -> Report:
    scores = np.random.default_rng(0).normal(size=300)
    return audit_scores(scores + 1.0, scores, comparison=comparison, **changes)


def test_a_comparison_is_quoted_with_its_numbers() -> None:
    told = said(with_comparison(compare(NONE, STOPPED, PRIVATE)))
    quoted = told["Use the defence that was measured to be the best choice."]
    assert quoted.startswith(
        "Take DP-SGD, ε = 8: it costs 1.1 points of test accuracy more than early stopping, attacks find "
        "0.2 % instead of 6 % of the most exposed, and ε ≤ 7.99 is proved. Without a defence the accuracy is "
        "80 %, and attacks find 2 % of the population and 50 % of the most exposed."
    )
    assert "at 0.1 % false alarms, by attacks with 16 reference models" in quoted
    assert not any("privet compare study.py" in why for why in told.values())


def test_an_empirical_defence_gets_no_epsilon() -> None:
    (quoted,) = [
        why
        for what, why in said(with_comparison(compare(NONE, STOPPED))).items()
        if what.startswith("Use the defence")
    ]
    assert "ε" not in quoted
    assert "nothing is proved" in quoted


def test_no_defence_can_be_the_best_choice() -> None:
    assert NoDefence().name == WITHOUT_DEFENCE
    comparison = compare(NONE, defence("noisy", 0.60, 0.49))
    assert comparison.recommendation.startswith("Take no defence: it is")
    assert "Keep the training as it is: no defence was measured to be a better choice." in said(
        with_comparison(comparison)
    )


def test_reports_with_different_comparisons_are_not_joined() -> None:
    one, other = compare(NONE, STOPPED), compare(NONE, PRIVATE)
    first, plain = with_comparison(one, name="a"), with_comparison(None, name="b")
    assert Report.of(first, plain).comparison is one
    with pytest.raises(InvalidArgument, match="share one comparison of defences, got 2"):
        Report.of(first, with_comparison(other, name="b"))


def test_the_defence_to_try_first_follows_from_the_model() -> None:
    wide = said(report(audited(test=0.7)))
    why = wide["Fit the data less closely: try early stopping first."]
    assert "20.0 points higher on members" in why
    assert "tells members from others in 60 % of cases" in why  # (1 + 0.2)/2
    narrow = said(report(audited(test=0.9)))
    why = narrow["Limit what each record can teach: try DP-SGD first, also at a large ε."]
    quiet = said(report(audited(shift=0.0, test=0.9, harm=False)))
    unknown = said(report(audited(test=None)))
    for told in (wide, narrow, quiet, unknown):
        assert sum("privet compare study.py --out defences.json" in why for why in told.values()) == 1
    assert "Try early stopping and DP-SGD first." in unknown
    assert "See what a proof would cost before you decide." in quiet
    proved = said(report(audited(shift=0.0, epsilon=1.0, test=0.9)))
    assert not any("privet compare" in why for why in proved.values())


def test_regression_models_are_compared_by_their_reports() -> None:
    from dataclasses import replace

    fit = RegressionFit(train_r2=0.95, test_r2=0.6, train_error=1.0, test_error=2.0)
    told = said(report(replace(audited(test=None), regression=fit)))
    why = told["Fit the data less closely: try early stopping first."]
    assert "R² is 0.950 on members and 0.600 on others" in why
    assert why.endswith("privet compare before.json after.json.")


def test_a_saved_comparison_is_read_again(tmp_path: Path) -> None:
    comparison = compare(NONE, STOPPED, PRIVATE)
    again = DefenceComparison.load(comparison.save(tmp_path / "defences.json"))
    assert again.to_plain() == comparison.to_plain()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "privet.report"}, "format 'privet.defences'"),
        ({"fpr": 2.0}, "'fpr' of a comparison"),
        ({"records": True}, "'records' of a comparison"),
        ({"defences": [3, 4]}, "'defences' of a comparison"),
        ({"defences": []}, "two or more, got 0"),
        ({"origin": {"command": "x", "version": "1", "created": "yesterday"}}, "as Privet wrote it"),
    ],
)
def test_a_comparison_that_was_changed_is_refused(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    plain = compare(NONE, STOPPED).to_plain() | change
    (tmp_path / "c.json").write_text(json.dumps(plain))
    with pytest.raises(PrivetError, match=words):
        DefenceComparison.load(tmp_path / "c.json")


def test_an_interval_without_its_value_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    outside = ComparedDefence(
        name="odd",
        test_accuracy=Rate(0.5, 0.6, 0.7),
        tpr_population=Rate(0.5, 0.4, 0.6),
        tpr_exposed=Rate(0.5, 0.4, 0.6),
    )
    with pytest.raises(Unreadable, match="'test_accuracy' of a comparison"):
        DefenceComparison.load(compare(NONE, outside).save(tmp_path / "c.json"))
    with pytest.raises(Unreadable, match="cannot be read"):
        DefenceComparison.load(tmp_path / "missing.json")
