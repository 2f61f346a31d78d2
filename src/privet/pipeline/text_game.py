"""The game on texts: which coin decided on what, which texts are judged, and which claim they are held
against.

*Coins on texts*: each text has a coin of its own, and every text is judged. *Coins on authors*: all texts of
an author share one coin. Then the coins of two texts of one author are the same coin, and a bound that counts
right guesses must count it once: one text of each author, drawn at random, is judged, and each author.

*The claim.* A proof for a record covers an author with k texts as a group of k; a proof for a user covers the
author as it is. A coin on single texts cannot be held against a proof for users without knowing the users.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.accounting import account
from privet.adjacency import Unit
from privet.attacks.text.authors import Authors
from privet.attacks.text.texts import Texts
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee
from privet.ledger import Ledger
from privet.scores import Bits

__all__ = ["TextGame", "check_claim_unit", "claim_of_coins", "read_authors", "read_coins"]


@final
@dataclass(frozen=True, eq=False)
class TextGame:
    """Texts and their coins; with ``authors``, one coin for each author. ``judged`` are numbers of texts."""

    texts: Texts
    members: Bits
    authors: Authors | None
    judged: NDArray[np.intp]

    @property
    def coin_unit(self) -> str:
        """What a coin decided on."""
        return "text" if self.authors is None else "author"

    @property
    def coins_of_authors(self) -> Bits:
        """The coin of each author, in the order of their names."""
        if self.authors is None:
            raise InvalidArgument("'authors' must be given to have coins, got None. Name the authors.")
        coins = np.zeros(len(self.authors.names), dtype=np.bool_)
        coins[self.authors.places] = self.members
        return coins

    @property
    def most_texts(self) -> int:
        """The largest number of texts of one author; 1 where coins are on texts."""
        return 1 if self.authors is None else int(self.authors.counts.max())

    @classmethod
    def of(cls, texts: Texts, members: Bits, names: NDArray[np.str_] | None, *, seed: int) -> "TextGame":
        """The game; with names of authors one text of each is drawn to be judged."""
        if names is None:
            return cls(texts, members, None, np.arange(len(texts)))
        authors = Authors(texts.sequences, names)
        order = np.random.default_rng([seed, 7]).permutation(len(texts))
        _, first = np.unique(names[order], return_index=True)
        return cls(texts, members, authors, np.sort(order[first]))


def read_coins(members: object, count: int) -> Bits:
    """One coin for each text, of both kinds."""
    try:
        coins = np.asarray(members)
    except (ValueError, TypeError, RuntimeError):  # rows of several lengths, or a tensor with a gradient
        coins = np.empty(0, dtype=object)
    if coins.shape != (count,) or coins.dtype.kind not in "biu" or not np.isin(coins, (0, 1)).all():
        raise InvalidArgument(
            f"'members' must be True or False for each of {count} texts, got an array of shape {coins.shape} "
            f"and type {coins.dtype}. Say of each text whether it was trained on."
        )
    coins = coins.astype(np.bool_)
    if coins.all() or not coins.any():
        missing = "left out" if coins.all() else "trained on"
        raise InvalidArgument(
            f"'members' must hold both sides, got no text that was {missing}. Let a fair coin for each text, "
            f"or for each author, decide what is trained on."
        )
    return coins


def read_authors(authors: Sequence[object] | None, coins: Bits) -> NDArray[np.str_] | None:
    """The name of each text's author; refused where the texts of an author have different coins."""
    if authors is None:
        return None
    names = np.array([str(name).encode(errors="replace").decode() for name in authors])
    if names.shape != coins.shape:
        raise InvalidArgument(
            f"'authors' must name the author of each of {len(coins)} texts, got {len(names)} names. Give one "
            f"for each text."
        )
    everybody, places = np.unique(names, return_inverse=True)
    if len(everybody) < 2:
        raise InvalidArgument(
            "'authors' must name at least two authors, got one: there is nobody to compare with. Add authors "
            "that were not trained on, or leave 'authors' out."
        )
    inside = np.bincount(places, weights=coins)
    mixed = int(((inside > 0) & (inside < np.bincount(places))).sum())
    if mixed:
        raise InvalidArgument(
            f"'authors' must have one coin each, got {mixed} with texts on both sides. Train on all given "
            f"texts of an author or on none, or leave 'authors' out and let each text have a coin."
        )
    return names


def claim_of_coins(ledger: Ledger | None, game: TextGame) -> Guarantee | None:
    """What the ledger proves about whatever a coin decided on."""
    if ledger is None:
        return None
    if ledger.adjacency.unit is not Unit.RECORD:
        if game.authors is None:
            raise InvalidArgument(
                f"'authors' must be given with a ledger for a {ledger.adjacency.unit}, got None: the proof "
                f"is about all texts of a {ledger.adjacency.unit} together. Name the author of each text."
            )
        return account(ledger)
    return account(ledger).group(size=game.most_texts)


def check_claim_unit(ledger: Ledger | None, game: TextGame) -> list[Check]:
    """A warning where a proof for single texts is held against authors with several."""
    if ledger is None or ledger.adjacency.unit is not Unit.RECORD or game.most_texts == 1:
        return []
    return [
        Check(
            name="the claim is about authors",
            outcome=Outcome.WARNED,
            finding=(
                f"The ledger proves ε for one text, and coins decided on authors with up to "
                f"{game.most_texts:,} texts. They are a group, and the ε by proof is that of such a group."
            ),
            advice="Train with the user as the unit (gather_users), so that the proof is about people.",
        )
    ]
