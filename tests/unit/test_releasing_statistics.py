"""Arguments of statistics, plans and budgets: each refusal says what was got and how to mend it."""

import math

import pytest

from privet.adjacency import AddRemove, ReplaceOne, Unit
from privet.cli import options_tables
from privet.errors import InvalidArgument
from privet.releasing import (
    Budget,
    Contribution,
    Count,
    GroupBy,
    Histogram,
    Marginal,
    Mean,
    MemoryStore,
    Quantile,
    ReleasePlan,
    Sum,
    TopK,
    Variance,
)
from privet.releasing.questions import Question, question_key
from privet.releasing.statistics import NAMED_STATISTICS

REFUSED = [
    (lambda: Sum("", 0, 1), "column"),
    (lambda: Sum(3, 0, 1), "column"),
    (lambda: Sum("x", 1, 0), "Swap"),
    (lambda: Mean("x", 1, 1), "Swap"),
    (lambda: Variance("x", math.nan, 1), "finite"),
    (lambda: Mean("x", -math.inf, 1), "finite"),
    (lambda: Mean("x", "0", 1), "number"),
    (lambda: Mean("x", -1e308, 1e308), "really have"),
    (lambda: Mean("x", 0, 5e-324), "really have"),
    (lambda: Mean("x", 1e300, 2e300), "really have"),
    (lambda: Mean("x", 0, True), "number"),
    (lambda: Quantile("x", 0, 0, 1), "probability"),
    (lambda: Quantile("x", 1.0, 0, 1), "probability"),
    (lambda: Quantile("x", 0.5, 0, 1, 1), "candidates"),
    (lambda: Quantile("x", 0.5, 0, 1, 2**21), "candidates"),
    (lambda: Histogram("x", ()), "categories"),
    (lambda: Histogram("x", "a"), "tuple"),
    (lambda: Histogram("x", ("a", "a")), "twice"),
    (lambda: Histogram("x", ("a", 1)), "one way"),
    (lambda: Histogram("x", (True, 1)), "one way"),
    (lambda: Histogram("x", (None,)), "one way"),
    (lambda: Histogram("x", (math.nan,)), "finite"),
    (lambda: Histogram("x", (2**63,)), "text"),
    (lambda: Marginal(()), "columns"),
    (lambda: Marginal(("a",)), "pairs"),
    (lambda: Marginal((("a", ("x",)), ("a", ("y",)))), "twice"),
    (lambda: Marginal(tuple((f"c{i}", tuple(range(100))) for i in range(5))), "fewer columns"),
    (lambda: GroupBy((), Count()), "by"),
    (lambda: GroupBy("a", GroupBy("b", Count())), "several columns"),
    (lambda: GroupBy("a", Histogram("b", ("x",))), "several columns"),
    (lambda: GroupBy("a", Count(), ()), "keys"),
    (lambda: GroupBy(("a", "b"), Count(), ("x",)), "tuples of 2"),
    (lambda: GroupBy(("a", "b"), Count(), (("x", 1), ("x", 1))), "twice"),
    (lambda: GroupBy(("a", "b"), Count(), (("x", 1), (1, 1))), "one way"),
    (lambda: TopK("a", 0, ("x",)), "k"),
    (lambda: TopK("a", 2, ("x",)), "histogram"),
    (lambda: Contribution(0, 1), "rows"),
    (lambda: Contribution(1, 0), "groups"),
    (lambda: Contribution(10**7, 1), "rows"),
    (lambda: Contribution(1.5), "whole"),
    (lambda: Budget(epsilon=0), "epsilon"),
    (lambda: Budget(epsilon=1, delta=1), "delta"),
    (lambda: Budget(epsilon=math.nan), "finite"),
    (lambda: MemoryStore(AddRemove(), budget=1.0), "Budget"),
]


@pytest.mark.parametrize(("made", "said"), REFUSED)
def test_what_makes_no_sense_is_refused_with_its_fix(made, said):
    with pytest.raises(InvalidArgument, match=said) as refused:
        made()
    assert str(refused.value).endswith(".")


def of(**changed):
    fields = {"statistics": (("n", Count()),), "unit": "user", "budget": Budget(epsilon=1.0)}
    return ReleasePlan(**(fields | changed))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"statistics": ()}, "statistics"),
        ({"statistics": {"n": Count()}}, "tuple"),
        ({"statistics": (Count(),)}, "pairs"),
        ({"statistics": (("n", Count()), ("n", Count()))}, "Rename"),
        ({"statistics": (("", Count()),)}, "label"),
        ({"budget": 1.0}, "Budget"),
        ({"split": (1.0, 2.0)}, "weight"),
        ({"split": (0.0,)}, "above 0"),
        ({"contribution": 3}, "Contribution"),
        ({"adjacency": "add-remove"}, "Adjacency"),
        ({"adjacency": AddRemove()}, "leave 'unit' out"),
        ({"unit": None, "adjacency": ReplaceOne(Unit.USER)}, "Name it"),
        ({"unit": None, "contribution": Contribution(2)}, "every row is a unit"),
        ({"unit": ""}, "column"),
        ({"confidence": 1.0}, "confidence"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(changed, said):
    with pytest.raises(InvalidArgument, match=said):
        of(**changed)


def test_the_adjacency_follows_from_the_unit():
    assert of().relation == AddRemove(Unit.USER)
    assert of(unit=None).relation == AddRemove(Unit.RECORD)


def test_a_question_is_its_public_parameters():
    question = of().questions[0]
    assert question_key(question, "a") == question_key(Question("other label", *_rest(question)), "a")
    different = [
        question_key(question, "b"),
        question_key(of(contribution=Contribution(2)).questions[0], "a"),
        question_key(of(adjacency=ReplaceOne(Unit.USER)).questions[0], "a"),
        question_key(of(unit="other").questions[0], "a"),
        question_key(of(statistics=(("n", Mean("x", 0, 1)),)).questions[0], "a"),
    ]
    assert len({question_key(question, "a"), *different}) == 6


def _rest(question):
    return question.statistic, question.unit, question.contribution, question.adjacency


def test_the_command_line_lists_every_statistic_that_has_an_option():
    """``--help`` does not load this package, so the parser has a list of its own."""
    assert [name for name, _, _ in options_tables._STATISTICS] == list(NAMED_STATISTICS)
