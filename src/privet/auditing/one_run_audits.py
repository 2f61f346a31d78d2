"""What all bounds from one run have in common: coins, guesses, and the price of choosing how many.

One line of the plan may be chosen on a part of the records: for the rest of them the coins of that part are known circumstances,
given which the run is as private as before, and their own coins are still fair.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import final

from privet.arguments import open_fraction, whole
from privet.auditing.audits import Audit, small_delta
from privet.auditing.draws import counted_of_half, draw_of, most_left
from privet.auditing.guesses import Guessed, Guesses, between_ties, guessed, planned
from privet.auditing.thresholds import Split
from privet.errors import InvalidArgument
from privet.scores import Bits, Scores
from privet.views import Numbers

__all__ = ["COINS", "OneRunAudit"]

COINS = "whether each record is in was decided by a fair coin of its own, or a random half of them is in"

_FEWEST = 40  # records; below, a part of them chooses nothing sensible, and the lines share the level


class OneRunAudit(Audit):
    """A bound from the number of right guesses. ``split=None`` shares the level out over the lines of the plan."""

    plan: Sequence[Guesses]
    split: Split | None

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)
        whole("the number of lines of 'plan'", len(self.plan))

    @abstractmethod
    def raised(self, line: Guessed, records: int, level: float, delta: float, least: float) -> float:
        """The largest parameter that so many right guesses refute at this level, or ``least`` if they refute less."""

    @abstractmethod
    def shown(self, parameter: float, delta: float) -> float:
        """ε of the largest parameter that was refuted, 0 if none was."""

    @final
    def best(self, lines: Sequence[Guessed], records: int, level: float, delta: float) -> float:
        """The largest ε that one of the lines refutes at this level."""
        parameter = 0.0
        for line in lines:
            if not 0 <= line.right <= line.made <= whole("records", records):
                raise InvalidArgument(
                    "'lines' must have no more right guesses than guesses, and no more guesses than records, and do not. "
                    "Count each guess once."
                )
            parameter = self.raised(line, records, level, delta, parameter)
        return self.shown(parameter, delta)

    @final
    def epsilon(self, scores: Scores, *, delta: float) -> float:
        small_delta(delta)
        drawn, level = draw_of(scores), 1 - self.confidence
        values, members, count = drawn.values, drawn.members, len(drawn.values)
        split = self._split(count)
        if split is None:
            lines = guessed(values, members, planned(self.plan, count))
            level /= len(lines)
        else:
            seen = drawn.seen(split)
            values, count = values[~seen], count - int(seen.sum())
            chosen = self._chosen(drawn.values[seen], members[seen], count, delta)
            lines = guessed(values, members[~seen], [chosen.counts(count)])
        return self.best([drawn.counted(line) for line in lines], count, level, delta)

    @final
    def ceiling(self, members: int, others: int, *, delta: float) -> float:
        small_delta(delta)
        records = whole("members", members) + whole("others", others)
        split = self._split(records)
        rest = records if split is None else most_left(members, others, split)
        perfect = [Guessed(sum(line), sum(line)) for line in planned(self.plan, rest)]
        if members == others:
            perfect = [counted_of_half(line) for line in perfect]
        return self.best(perfect, rest, (1 - self.confidence) / (len(perfect) if split is None else 1), delta)

    def _split(self, records: int) -> Split | None:
        return self.split if len(self.plan) > 1 and records >= _FEWEST else None

    def _chosen(self, values: Numbers, members: Bits, records: int, delta: float) -> Guesses:
        """The line that would show most if the rest were guessed as well as the part that was seen.

        Lines that end between groups of ties are tried as well: where they are was seen on this part alone.
        """
        most = max(line.members + line.others for line in self.plan)
        plan = [*self.plan, *between_ties(values, most)]
        seen = guessed(values, members, [line.counts(len(values)) for line in plan])
        chosen, parameter = plan[0], 0.0
        for line, (made, right) in zip(plan, seen, strict=True):
            guesses = sum(line.counts(records))
            alike = Guessed(guesses, int(right / made * guesses))
            higher = self.raised(alike, records, 1 - self.confidence, delta, parameter)
            chosen, parameter = (line, higher) if higher > parameter else (chosen, parameter)
        return chosen
