"""Accuracy first: the ε that is needed to know something within ± 5, from the noise alone.

The weights of the statistics are those at which all reach their error at about the same ε, and the ε is found
by bisection on quotes, which read no row. It is rounded up, to three digits, so that nearly equal wishes are
one question.
"""

import math
from dataclasses import replace
from typing import final

from privet.curator.questions.question import TableQuestion, check_epsilon
from privet.errors import InvalidArgument
from privet.releasing import ErrorKind, Quote

__all__ = ["choose_epsilon", "expected_error", "round_epsilon_up"]

_NEAR = 1e-3  # of ln ε: below what rounding to three digits adds
_DIGITS = 3
_SMALLEST = 1e-9


@final
class _Wish:
    """The errors of a question at an ε, relative to those that are wanted."""

    def __init__(self, question: TableQuestion) -> None:
        self._question = question

    def ratios(self, epsilon: float) -> list[float]:
        """Error over wanted error, for each statistic; 1 or less is accurate enough."""
        question = replace(self._question, epsilon=epsilon)
        return [
            expected_error(quote, question) / (asked.within or math.inf)
            for quote, asked in zip(question.plan().quote(), question.statistics, strict=True)
        ]


def choose_epsilon(question: TableQuestion) -> TableQuestion:
    """The question with the smallest ε (to three digits) at which every statistic is within its error."""
    limit = question.dataset.limits.epsilon
    ratios = _Wish(question).ratios(1.0)
    total = sum(ratios)
    weighted = replace(
        question,
        statistics=tuple(
            replace(asked, weight=round(max(ratio / total * len(ratios), 1e-6), 3) or 0.001)
            for asked, ratio in zip(question.statistics, ratios, strict=True)
        ),
    )
    wish = _Wish(weighted)
    best = max(wish.ratios(limit))
    if best > 1:
        raise InvalidArgument(
            f"This accuracy must cost at most ε = {limit:g}, which is this dataset's limit for one question, "
            f"and costs more. Ask for a larger error, or for fewer statistics."
        )
    # Errors fall as 1/ε with Laplace noise, and between that and 1/√ε with Gaussian noise.
    enough = min(limit, 1.2 * limit * best)
    low = math.log(max(_SMALLEST, limit * best * best / 2))
    high = math.log(enough if max(wish.ratios(enough)) <= 1 else limit)
    while high - low > _NEAR:
        middle = (low + high) / 2
        if max(wish.ratios(math.exp(middle))) <= 1:
            high = middle
        else:
            low = middle
    epsilon = min(round_epsilon_up(math.exp(high)), limit)
    while max(wish.ratios(epsilon)) > 1 and epsilon < limit:  # quotes are steps of whole numbers
        epsilon = min(round_epsilon_up(epsilon * 1.01), limit)
    check_epsilon(epsilon, question.dataset)
    return replace(
        weighted,
        epsilon=epsilon,
        statistics=tuple(replace(asked, within=None) for asked in weighted.statistics),
        assuming_rows=None,
    )


def expected_error(quote: Quote, question: TableQuestion) -> float:
    """The error of a quote in the unit of the answer; a mean's needs an assumed number of rows."""
    if quote.error_kind is not ErrorKind.OVER_COUNT:
        return quote.error
    if question.assuming_rows is None:
        raise InvalidArgument(
            f"The error of {quote.label!r} depends on the number of rows, so 'assuming_rows' is needed with "
            f"'within'. Give a number of rows that you expect, or ask for a count first."
        )
    return quote.error / question.assuming_rows


def round_epsilon_up(epsilon: float) -> float:
    """The next number with three digits.

    >>> round_epsilon_up(0.12341)
    0.124
    """
    scale = 10.0 ** (math.floor(math.log10(epsilon)) - _DIGITS + 1)
    return float(f"{math.ceil(epsilon / scale * (1 - 1e-12)) * scale:.{_DIGITS}g}")
