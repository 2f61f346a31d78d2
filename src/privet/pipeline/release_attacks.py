"""Which attacks a published table gets: those on its rows, on links with a second table, or on synthetic
data.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import format_value
from privet.attacks.linkage import BackgroundKnowledge, ExactMatch, Homogeneity, Intersection
from privet.attacks.linkage.records import RecordLinkage
from privet.attacks.synthetic import attack_synthetic
from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable
from privet.randomness import experiment
from privet.recoveries import Recoveries

__all__ = ["ReleaseFindings", "ReleaseGame", "run_attacks"]


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class ReleaseGame:
    """A table that is to be published, and what an adversary may have besides.

    ``rows_are_people`` is False for a table that was made with a proof: its rows are nobody's.
    """

    published: PublishedTable
    quasi: Sequence[str]
    secret: str | None = None
    other: PublishedTable | None = None
    key: str | None = None
    original: PublishedTable | None = None
    control: PublishedTable | None = None
    rows_are_people: bool = True
    seed: int = 0


@final
@dataclass(frozen=True, eq=False)
class ReleaseFindings:
    """What each attack recovered, and sentences on what was not run."""

    recoveries: tuple[Recoveries, ...]
    notes: tuple[str, ...] = ()


def run_attacks(game: ReleaseGame) -> ReleaseFindings:
    """Every attack that the game has the tables for.

    Rows of a synthetic table are nobody's. So where an original is given, people are looked for who were in
    it or not; else rows of the table itself are the targets.
    """
    found: list[Recoveries] = []
    notes: tuple[str, ...] = ()
    if game.original is not None and game.control is not None:
        synthetic = attack_synthetic(
            game.published, game.original, game.control, secret=game.secret, seed=game.seed
        )
        found += synthetic.recoveries
        notes = synthetic.notes
    elif game.rows_are_people:
        found += _attack_rows(game)
    if game.other is not None and game.key is not None:
        found += _attack_with(game, game.other, game.key)
    return ReleaseFindings(tuple(found), notes)


def _attack_rows(game: ReleaseGame) -> list[Recoveries]:
    found = [ExactMatch().run(game.published, game.quasi, seed=game.seed)]
    if game.secret is not None:
        for attack in (Homogeneity(), BackgroundKnowledge()):
            found.append(attack.run(game.published, game.quasi, game.secret, seed=game.seed))
    return found


def _attack_with(game: ReleaseGame, other: PublishedTable, key: str) -> list[Recoveries]:
    """Link the second table with the first; where both have the secret, intersect them as well."""
    for name, table in (("table", game.published), ("other", other)):
        if key not in table:
            raise InvalidArgument(
                f"'key' must be a column of both tables, and {format_value(key)} is not in '{name}'. Name "
                f"the column that says who is who."
            )
    truth = match_keys(game.published, other, key)
    hidden = [key, *([] if game.secret is None else [game.secret])]
    known = other.without([name for name in hidden if name in other]) if len(other.names) > 1 else other
    common = [name for name in known.names if name in game.published and name not in hidden]
    if not common:
        raise InvalidArgument(
            "'other' must have a column of the table besides the key and the secret, got none. Rename its "
            "columns as in the table."
        )
    published = game.published.select(common)
    found = [_link(published, known.select(common), truth, game.seed)]
    shared = [name for name in game.quasi if name in other]
    if game.secret is not None and game.secret in other and shared:
        found.append(
            Intersection().run(
                game.published,
                other,
                game.quasi,
                game.secret,
                truth=truth,
                other_quasi=shared,
                seed=game.seed,
            )
        )
    return found


def _link(
    published: PublishedTable, known: PublishedTable, truth: NDArray[np.int64], seed: int
) -> Recoveries:
    """Link by all columns that both have.

    Where everybody who is known is in the table, a fair half of them is taken out of it first: without
    people who are absent nobody learns how often such people are "found".
    """
    if (truth >= 0).all() and len(truth) > 1:
        absent = experiment(seed).permutation(len(truth)) < len(truth) // 2
        kept = np.ones(len(published), dtype=np.bool_)
        kept[truth[absent]] = False
        places = np.cumsum(kept) - 1
        truth = np.where(absent, -1, places[truth])
        published = published.take(kept)
    linked = RecordLinkage(seed=seed).run(published, known, truth)
    return replace(linked, attack="record linkage")


def match_keys(published: PublishedTable, other: PublishedTable, key: str) -> NDArray[np.int64]:
    """The row of the table that has the key of each row of the other one; −1 where there is none."""
    codes = published.select([key]).below(other.select([key]))[key].codes
    first, second = codes[: len(published)], codes[len(published) :]
    used = first[first > 0]
    if len(np.unique(used)) < len(used):
        raise InvalidArgument(
            f"'key' must be different in every row of the table, and {format_value(key)} is not. Name the "
            f"column that says who is who, or give one row for each person."
        )
    rows = np.full(int(codes.max(initial=0)) + 1, -1, dtype=np.int64)
    rows[first] = np.arange(len(first))
    rows[0] = -1  # a missing key is nobody's
    truth = rows[second]
    if (truth < 0).all():
        raise InvalidArgument(
            f"'other' must share people with the table, and no value of {format_value(key)} is in both. "
            f"Check that the two write it in the same way."
        )
    return truth
