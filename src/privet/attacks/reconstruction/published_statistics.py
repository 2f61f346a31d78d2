"""Published statistics of a small table of people: counts, means and medians of groups, some of them
suppressed.

A statistical office publishes such figures for every block of houses. The columns, their values and the
rounding are public. The people are not.
"""

from dataclasses import dataclass
from itertools import product
from typing import final

import numpy as np

from privet.arguments import at_least, finite, whole
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.scores import Bits

__all__ = ["PeopleColumns", "PeopleGroup", "PublishedStatistic"]

_MOST_CELLS = 200_000
_ROUNDED = 0.05  # half of the last digit of a mean with one decimal


@final
@dataclass(frozen=True)
class PeopleGroup:
    """People with these values of some columns, whose number is between ``lower`` and ``upper``.

    >>> PeopleGroup({"sex": "f"}, lower=18).words
    'sex = f, at least 18'
    """

    where: dict[str, str] | None = None
    lower: int | None = None
    upper: int | None = None

    @property
    def words(self) -> str:
        """The group in words."""
        parts = [f"{column} = {value}" for column, value in (self.where or {}).items()]
        parts += [] if self.lower is None else [f"at least {self.lower}"]
        parts += [] if self.upper is None else [f"at most {self.upper}"]
        return ", ".join(parts) or "everybody"

    @property
    def is_everybody(self) -> bool:
        """Whether nobody is left out."""
        return not self.where and self.lower is None and self.upper is None


@final
@dataclass(frozen=True)
class PeopleColumns:
    """The public columns of the table: categories with their values, and one column of whole numbers, such as
    the age.

    ``impossible`` are groups in which nobody can be, such as the married below 15. A *cell* is one
    combination of all columns.

    >>> columns = PeopleColumns({"sex": ("f", "m")}, "age", 0, 125)
    >>> len(columns), columns.cell(3)
    (252, ('f', 3))
    """

    categories: dict[str, tuple[str, ...]]
    number: str
    lower: int
    upper: int
    impossible: tuple[PeopleGroup, ...] = ()

    def __post_init__(self) -> None:
        whole("upper", self.upper - self.lower, least=0)
        if self.number in self.categories:
            raise InvalidArgument(
                f"'number' must be another column than the categories, got {self.number!r} twice. Rename one."
            )
        for name, values in self.categories.items():
            if len(set(values)) != len(values) or not values:
                raise InvalidArgument(
                    f"'categories' must list different values of {name!r}, got {len(values)} with a value "
                    "twice or none. List each once."
                )
        if len(self) > _MOST_CELLS:
            raise InvalidArgument(
                f"'categories' must have at most {_MOST_CELLS:,} cells with the number, got {len(self):,}. "
                "Leave out columns, or narrow the bounds."
            )

    def __len__(self) -> int:
        return int(np.prod([len(values) for values in self.categories.values()], dtype=np.int64)) * self.span

    @property
    def span(self) -> int:
        """How many numbers are possible."""
        return self.upper - self.lower + 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns; the number comes last."""
        return (*self.categories, self.number)

    def cell(self, place: int) -> tuple[str | int, ...]:
        """The values of a cell. The number changes fastest."""
        whole("place", place, least=0, most=len(self) - 1)
        combination = tuple(product(*self.categories.values()))[place // self.span]
        return (*combination, self.lower + place % self.span)

    def place(self, person: tuple[str | int, ...]) -> int:
        """The cell of a person, given as the values of all columns."""
        if len(person) != len(self.names):
            raise InvalidArgument(
                f"'person' must have the values of {', '.join(self.names)}, got {len(person)} values. Give "
                "all of them."
            )
        place = 0
        for value, (name, values) in zip(person, self.categories.items(), strict=False):
            if value not in values:
                raise InvalidArgument(
                    f"'person' must have one of the listed values of {name!r}, got another. List it in "
                    "'categories'."
                )
            place = place * len(values) + values.index(str(value))
        number = person[-1]
        if not isinstance(number, (int, np.integer)) or not self.lower <= number <= self.upper:
            raise InvalidArgument(
                f"'person' must have a whole {self.number!r} from {self.lower} to {self.upper}, got another. "
                "Widen the bounds."
            )
        return place * self.span + int(number) - self.lower

    @property
    def numbers(self) -> "np.typing.NDArray[np.int64]":
        """The number of each cell."""
        answer: np.typing.NDArray[np.int64] = self.lower + np.arange(len(self)) % self.span
        return answer

    def members(self, group: PeopleGroup) -> Bits:
        """Which cells are in a group."""
        kept = np.ones(len(self) // self.span, dtype=np.bool_)
        combinations = list(product(*self.categories.values()))
        for name, value in (group.where or {}).items():
            if name not in self.categories or value not in self.categories[name]:
                raise InvalidArgument(
                    f"'where' must name columns and values of the table, got {name!r} = {value!r}. Choose "
                    f"from {', '.join(self.categories)}."
                )
            column = list(self.categories).index(name)
            kept &= np.array([combination[column] == value for combination in combinations])
        inside = np.repeat(kept, self.span)
        inside &= self.numbers >= (self.lower if group.lower is None else group.lower)
        inside &= self.numbers <= (self.upper if group.upper is None else group.upper)
        return inside


@final
@dataclass(frozen=True)
class PublishedStatistic:
    """What is published of one group. ``below`` says instead that the count was suppressed because it is
    below this number.

    ``mean`` is within ``rounding`` of the exact mean. ``median`` is the middle number, or half of the sum of
    the middle two.

    >>> PublishedStatistic(PeopleGroup({"sex": "m"}), count=3, mean=44, median=30).group.words
    'sex = m'
    """

    group: PeopleGroup
    count: int | None = None
    mean: float | None = None
    median: float | None = None
    below: int | None = None
    rounding: float = _ROUNDED

    def __post_init__(self) -> None:
        if (self.count is None) == (self.below is None):
            raise InvalidArgument(
                f"'count' or 'below' must be given for {self.group.words}, got both or neither. A suppressed "
                "count has 'below'."
            )
        if self.count is not None:
            whole("count", self.count, least=0)
        if self.below is not None:
            whole("below", self.below)
        at_least("rounding", self.rounding, 0)
        for name, value in (("mean", self.mean), ("median", self.median)):
            if value is not None:
                finite(name, value)
                if not self.count:
                    raise InvalidArgument(
                        f"'{name}' must come with a count above 0, got none for {self.group.words}. Give the "
                        f"count, or leave the {name} out."
                    )
        if self.median is not None and (2 * self.median) % 1:
            raise InvalidArgument(
                f"'median' must be a whole or a half number, got {self.median!r}. Give it without rounding."
            )


check_public_calls(__name__)
