"""The facts on a language model: the most exposed authors and texts, passages that it repeats, and the
exposure of planted secrets.

What attacks score is in the results beside them. Texts, names of authors and passages are private data: forms
of a report leave them out until they are asked for them.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, final

__all__ = ["ExposedUnit", "MarkedPassage", "Piece", "SecretExposure", "TextFacts"]


class Piece(NamedTuple):
    """A part of a passage, and whether its tokens stand at the same places in the other version."""

    text: str
    same: bool


@final
@dataclass(frozen=True, kw_only=True)
class ExposedUnit:
    """A member that an attack ranks high: a text by its number, or an author by their number.

    ``as_high`` is how many of those that were left out score as high. ``flagged`` says that it stands out
    beyond coincidence. ``words`` is the text, or the author's name: private data.
    """

    number: int
    score: float
    as_high: int
    flagged: bool
    words: str = field(repr=False)


@final
@dataclass(frozen=True, kw_only=True)
class MarkedPassage:
    """A passage of a text beside what the model wrote after the same prompt. All of it is private data.

    ``number`` is that of the text. ``matched`` of ``length`` tokens are the same, counted from the first one
    to the first that differs. ``agrees`` says of each token of the source whether the model wrote the same at
    its place; without words it is what a redacted report shows. ``extracted`` says that the attack found the
    whole passage.
    """

    number: int
    matched: int
    length: int
    extracted: bool
    agrees: tuple[bool, ...]
    prompt: str = field(repr=False)
    source: tuple[Piece, ...] = field(repr=False)
    written: tuple[Piece, ...] = field(repr=False)


class SecretExposure(NamedTuple):
    """Planted secrets of one number of copies: their mean exposure in bits, and the most that the claim
    allows, where there is one. 0 copies are those that were never inserted.
    """

    copies: int
    canaries: int
    mean: float
    deviation: float
    ceiling: float | None


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class TextFacts:
    """A language model and the texts that it was asked about.

    ``loss`` is the mean of −ln p over tokens, in nats, on members and on others. ``coin_unit`` is what a coin
    decided on, a text or an author. ``blind_bits`` is the mean exposure of a secret that the model never saw,
    ``most_bits`` the largest that there is; both are None without planted secrets.
    """

    coin_unit: str
    texts: int
    tokens: int
    authors: int | None
    loss_on_members: float
    loss_on_others: float
    text_attack: str
    texts_left_out: int
    exposed_texts: tuple[ExposedUnit, ...]
    author_attack: str | None = None
    authors_left_out: int = 0
    exposed_authors: tuple[ExposedUnit, ...] = ()
    passages: tuple[MarkedPassage, ...] = ()
    exposure: tuple[SecretExposure, ...] = ()
    blind_bits: float | None = None
    most_bits: float | None = None

    def __repr__(self) -> str:
        return f"TextFacts({self.texts:,} texts, {self.tokens:,} tokens, confidential)"
