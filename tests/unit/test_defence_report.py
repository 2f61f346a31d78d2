"""Which defences are dominated, which one is taken, and what the report says of it."""

import json
from pathlib import Path

import pytest

from privet.auditing import Rate
from privet.errors import InvalidArgument
from privet.reporting import ComparedDefence, DefenceComparison, Origin
from privet.reporting.charts.defences import defences_chart
from privet.reporting.defence_choice import choose_defence, dominating


def rate(value: float, half: float) -> Rate:
    return Rate(value, max(value - half, 0.0), min(value + half, 1.0))


def defence(
    name: str, accuracy: float, exposed: float, *, epsilon: float | None = None, half: float = 0.005
) -> ComparedDefence:
    return ComparedDefence(
        name=name,
        test_accuracy=rate(accuracy, half),
        tpr_population=rate(min(exposed, 0.02), 0.01),
        tpr_exposed=rate(exposed, half),
        epsilon_proved=epsilon,
        delta=None if epsilon is None else 1e-5,
        seconds=1.5,
    )


NONE, STOPPED, PRIVATE = (
    defence("none", 0.80, 0.50),
    defence("early stopping", 0.801, 0.06),
    defence("DP-SGD, ε = 8", 0.79, 0.002, epsilon=7.99),
)


def compare(*defences: ComparedDefence, accuracy_loss: float = 0.02) -> DefenceComparison:
    return DefenceComparison(
        defences=defences,
        fpr=0.001,
        confidence=0.95,
        accuracy_loss=accuracy_loss,
        records=1000,
        exposed=100,
        references=16,
        origin=Origin(command="privet compare study.py", version="1"),
    )


def test_the_sentence_has_the_numbers_of_the_issue() -> None:
    said = compare(NONE, STOPPED, PRIVATE).recommendation.replace("\u00a0", " ")
    assert said == (
        "Take DP-SGD, ε = 8: it costs 1.1 points of test accuracy more than early stopping, attacks find "
        "0.2 % instead of 6 % of the most exposed, and ε ≤ 7.99 is proved."
    )


def test_intervals_that_overlap_are_said_to_overlap() -> None:
    wide = defence("noisy", 0.79, 0.002, half=0.1)
    said = compare(defence("none", 0.80, 0.05, half=0.1), wide, accuracy_loss=0.5).recommendation
    assert said.count("the intervals overlap") == 2
    assert said.endswith("nothing is proved.")


def test_a_point_is_dominated_where_one_is_clearly_better_and_none_is_worse() -> None:
    all_three = (NONE, STOPPED, PRIVATE)
    assert [dominating(each, all_three) for each in all_three] == [STOPPED, None, None]
    close = defence("close", 0.8015, 0.058)
    assert dominating(STOPPED, (STOPPED, close)) is None  # better, within the intervals


def test_a_measurement_never_outweighs_a_proof() -> None:
    better = defence("lucky", 0.95, 0.0)
    assert dominating(PRIVATE, (PRIVATE, better)) is None
    assert dominating(PRIVATE, (PRIVATE, defence("proved", 0.95, 0.0, epsilon=3.0))) is not None
    assert dominating(PRIVATE, (PRIVATE, defence("weaker", 0.95, 0.0, epsilon=9.0))) is None


def test_the_acceptable_loss_decides() -> None:
    assert choose_defence(compare(NONE, STOPPED, PRIVATE)).taken is PRIVATE
    assert choose_defence(compare(NONE, STOPPED, PRIVATE, accuracy_loss=0.01)).taken is STOPPED


def test_json_has_the_documented_fields(tmp_path: Path) -> None:
    path = compare(NONE, STOPPED, PRIVATE).save(tmp_path / "defences.json")
    plain = json.loads(path.read_text(encoding="utf-8"))
    fields = ("name", "test_accuracy", "tpr_population", "tpr_exposed", "fpr", "epsilon_proved", "seconds")
    assert [plain["defences"][2][name] for name in fields] == [
        *("DP-SGD, ε = 8", 0.79, 0.002, 0.002, 0.001, 7.99, 1.5)
    ]
    assert plain["defences"][0]["epsilon_proved"] is None
    assert plain["recommended"] == "DP-SGD, ε = 8"
    assert plain["defences"][0]["dominated_by"] == STOPPED.name


def test_the_page_is_complete_and_escapes_names(tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    hostile = defence("<script>alert(1)</script>", 0.5, 0.9)
    page = compare(hostile, STOPPED, PRIVATE).save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "default-src 'none'" in page
    assert "dominated by early stopping" in page
    assert "no proof" in page


def test_dominated_points_are_grey_and_zero_found_can_be_drawn() -> None:
    chart = defences_chart(compare(NONE, STOPPED, defence("none found", 0.7, 0.0)))
    marks = [trace for trace in chart["data"] if trace["mode"] == "markers"]
    assert marks[1]["marker"]["color"] == "var(--faint-line)"
    assert marks[3]["marker"]["color"] == "var(--attack)"
    assert all(value > 0 for trace in marks for value in trace["x"])
    assert len(chart["layout"]["annotations"]) == 3


def test_other_endings_and_a_single_defence_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"\.html, \.json or \.md"):
        compare(NONE, STOPPED).save(tmp_path / "page.pdf")
    with pytest.raises(InvalidArgument, match="two or more, got 1"):
        compare(NONE)
    with pytest.raises(InvalidArgument, match="'none' twice"):
        compare(NONE, NONE)
