"""What all bounds from one run share: coins, guesses, and the price of choosing how many.

One line of the plan may be chosen on a part of the records. Given the coins of that part, the run is as
private as before for the other records, and their coins are still fair.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import final

from privet.arguments import open_fraction, whole
from privet.auditing.audits import Audit, check_delta
from privet.auditing.draws import balance_draw, discount_random_half, max_remaining
from privet.auditing.guesses import Guesses, GuessResult, count_right_guesses, lines_between_ties, plan_counts
from privet.auditing.thresholds import SelectionSplit
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["COINS", "OneRunAudit"]

COINS = "a fair coin of its own decided whether each record is in, or a random half of them is in"

_MOST = 10**8  # records of a side: tails of so many fit into memory
_FEWEST = 40  # records; with fewer, a part of them cannot choose well, and the lines share the level


class OneRunAudit(Audit):
    """A bound from the number of right guesses.

    ``split=None`` divides the level over the lines of the plan.
    """

    plan: Sequence[Guesses]
    split: SelectionSplit | None

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)
        whole("the number of lines of 'plan'", len(self.plan))

    @abstractmethod
    def raise_bound(self, line: GuessResult, records: int, level: float, delta: float, least: float) -> float:
        """The largest parameter that so many right guesses refute at this level.

        ``least`` if they refute less.
        """

    @abstractmethod
    def to_epsilon(self, parameter: float, delta: float) -> float:
        """ε of the largest refuted parameter; 0 if none was refuted."""

    @final
    def best_epsilon(self, lines: Sequence[GuessResult], records: int, level: float, delta: float) -> float:
        """The largest ε that one of the lines refutes at this level."""
        parameter = 0.0
        for line in lines:
            if not 0 <= line.right <= line.made <= whole("records", records):
                raise InvalidArgument(
                    "'lines' must have no more right guesses than guesses, and no more guesses than records. "
                    "Count each guess once."
                )
            parameter = self.raise_bound(line, records, level, delta, parameter)
        return self.to_epsilon(parameter, delta)

    @final
    def epsilon(self, scores: Scores, *, delta: float) -> float:
        check_delta(delta)
        draw, level = balance_draw(scores), 1 - self.confidence
        values, members, count = draw.values, draw.members, len(draw.values)
        split = self._split(count)
        if split is None:
            lines = count_right_guesses(values, members, plan_counts(self.plan, count))
            level /= len(lines)
        else:
            selection = draw.selection_mask(split)
            values, count = values[~selection], count - int(selection.sum())
            chosen = self._choose_line(draw.values[selection], members[selection], count, delta)
            lines = count_right_guesses(values, members[~selection], [chosen.counts(count)])
        return self.best_epsilon([draw.discount(line) for line in lines], count, level, delta)

    @final
    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        check_delta(delta)
        records = whole("members", members, most=_MOST) + whole("others", others, most=_MOST)
        split = self._split(records)
        rest = records if split is None else max_remaining(members, others, split)
        perfect = [GuessResult(sum(line), sum(line)) for line in plan_counts(self.plan, rest)]
        if members == others:
            perfect = [discount_random_half(line) for line in perfect]
        return self.best_epsilon(
            perfect, rest, (1 - self.confidence) / (len(perfect) if split is None else 1), delta
        )

    def _split(self, records: int) -> SelectionSplit | None:
        return self.split if len(self.plan) > 1 and records >= _FEWEST else None

    def _choose_line(self, values: Numbers, members: Bits, records: int, delta: float) -> Guesses:
        """The line with the largest bound if the rest were guessed as well as this part.

        Lines that end between groups of ties are tried as well; the groups are those of this part alone.
        """
        most = max(line.members + line.others for line in self.plan)
        plan = [*self.plan, *lines_between_ties(values, most)]
        results = count_right_guesses(values, members, [line.counts(len(values)) for line in plan])
        chosen, parameter = plan[0], 0.0
        for line, (made, right) in zip(plan, results, strict=True):
            guesses = sum(line.counts(records))
            expected = GuessResult(guesses, int(right / made * guesses))
            higher = self.raise_bound(expected, records, 1 - self.confidence, delta, parameter)
            chosen, parameter = (line, higher) if higher > parameter else (chosen, parameter)
        return chosen
