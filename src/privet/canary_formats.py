"""Formats of canaries: a text with a secret in it, drawn from a space whose size is known.

"My number is " followed by six digits is a format with |R| = 10⁶ secrets. All of them are equally likely
beforehand, so a model that prefers the one that was inserted has memorised it: how the secret was chosen, and
not how it is written, gives the baseline.

Reference: Carlini, Liu, Erlingsson, Kos & Song 2019, "The secret sharer", section 4.1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.scores import Bits

__all__ = ["CanaryFormat", "PlantedCanaries", "plant_canaries"]

Tokens = NDArray[np.int64]

_CONTROLS = 200  # fresh secrets that were never inserted; they cost no training


class _Encodes(Protocol):
    def encode(self, text: str) -> Any: ...  # noqa: ANN401 - a list or an array of whole numbers


@final
@dataclass(frozen=True, eq=False)
class CanaryFormat:
    """``prefix``, then one token of ``choices[i]`` at each place i, then ``suffix``.

    A secret is drawn uniformly and independently at each place. The model is asked about the secret given the
    prefix; the suffix is inserted into the data and not asked about.

    >>> format = CanaryFormat(np.array([7]), (np.array([0, 1]), np.array([0, 1, 2])))
    >>> format.size, format.locate(np.array([[1, 2]])).tolist()
    (6, [5])
    >>> [text.tolist() for text in format.write(np.array([[1, 2]]))]
    [[7, 1, 2]]
    """

    prefix: Tokens
    choices: tuple[Tokens, ...]
    suffix: Tokens = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        for name in ("prefix", "suffix"):
            object.__setattr__(self, name, _to_tokens(name, getattr(self, name)))
        choices = tuple(_to_tokens("choices", place) for place in self.choices)
        object.__setattr__(self, "choices", choices)
        if len(self.prefix) == 0:
            raise InvalidArgument(
                "'prefix' must hold at least one token, got none: a model needs something to continue. Start "
                "with a word, or with the token that begins every text."
            )
        if not choices or any(len(place) < 2 or len(np.unique(place)) < len(place) for place in choices):
            raise InvalidArgument(
                "'choices' must hold at least one place with two different tokens or more, and no token "
                "twice. Give the tokens of the ten digits at each of six places, for example."
            )

    @classmethod
    def of_text(
        cls,
        encoder: _Encodes,
        prefix: str,
        *,
        end: int | None,
        alphabet: str = "0123456789",
        places: int = 6,
        suffix: str = "",
    ) -> "CanaryFormat":
        """A format of characters: ``prefix``, then ``places`` characters of the alphabet, then ``suffix``.

        The end token, where there is one, stands before and after the text, as ``encode_texts`` has it. Each
        character must be one token for the encoder, as it is for bytes.

        >>> from privet.attacks.text.encoders import ByteEncoder
        >>> format = CanaryFormat.of_text(ByteEncoder(), "My number is ", end=256, places=9)
        >>> format.size, round(format.bits, 1)
        (1000000000, 29.9)
        """
        letters = [_to_tokens("alphabet", encoder.encode(letter)) for letter in alphabet]
        if any(len(letter) != 1 for letter in letters):
            raise InvalidArgument(
                "'alphabet' must be characters that are one token each for the encoder, got others. Use a "
                "ByteEncoder and ASCII characters, or give the tokens of each place to CanaryFormat."
            )
        choices = np.concatenate(letters) if letters else np.zeros(0, dtype=np.int64)
        frame = np.zeros(0, dtype=np.int64) if end is None else np.array([end], dtype=np.int64)
        head, tail = (_to_tokens("prefix", encoder.encode(part)) for part in (prefix, suffix))
        places = whole("places", places)
        return cls(np.concatenate([frame, head]), (choices,) * places, np.concatenate([tail, frame]))

    @property
    def size(self) -> int:
        """|R|, the number of secrets, exactly."""
        return math.prod(len(place) for place in self.choices)

    @property
    def bits(self) -> float:
        """log₂ |R|: the largest exposure that there is."""
        return sum(math.log2(len(place)) for place in self.choices)

    def draw(self, count: int, generator: np.random.Generator) -> Tokens:
        """Independent uniform secrets, count × places."""
        whole("count", count, least=0)
        columns = [place[generator.integers(0, len(place), size=count)] for place in self.choices]
        return np.stack(columns, axis=1).astype(np.int64)

    def write(self, secrets: Tokens) -> list[Tokens]:
        """The whole text of each secret: prefix, secret and suffix."""
        return [np.concatenate([self.prefix, secret, self.suffix]) for secret in self.check(secrets)]

    def check(self, secrets: Tokens) -> Tokens:
        """The secrets as count × places; what is no secret of this format is refused."""
        rows = np.asarray(secrets, dtype=np.int64)
        if rows.ndim != 2 or rows.shape[1] != len(self.choices):
            raise InvalidArgument(
                f"'secrets' must have one row of {len(self.choices)} tokens for each secret, got an array of "
                f"shape {rows.shape}. Draw them with the format."
            )
        if not all(np.isin(rows[:, i], place).all() for i, place in enumerate(self.choices)):
            raise InvalidArgument(
                "'secrets' must hold tokens of the format only, got others. Draw them with the format."
            )
        return rows

    def locate(self, secrets: Tokens) -> NDArray[np.int64]:
        """The number of each secret in the order in which the whole space is listed, from 0."""
        rows = self.check(secrets)
        if self.size >= 1 << 62:
            raise InvalidArgument(
                f"'secrets' of a space of 2^{self.bits:.0f} cannot be numbered in 63 bits. Use a smaller "
                f"format."
            )
        numbers = np.zeros(len(rows), dtype=np.int64)
        for i, place in enumerate(self.choices):
            order = np.argsort(place)
            numbers = numbers * len(place) + order[np.searchsorted(place, rows[:, i], sorter=order)]
        return numbers


@final
@dataclass(frozen=True, eq=False)
class PlantedCanaries:
    """Canaries and their coins: ``secrets`` (one row each), how many ``copies`` of each are inserted if its
    coin shows heads, ``coin``, and ``controls``: fresh secrets that are never inserted.

    *Leaks*: whoever has the coins can tell members. Keep it from the adversary, and train on ``sequences``.
    """

    format: CanaryFormat
    secrets: Tokens
    copies: NDArray[np.int64]
    coin: Bits
    controls: Tokens

    def __post_init__(self) -> None:
        secrets = self.format.check(self.secrets)
        copies, coin = np.asarray(self.copies, dtype=np.int64), np.asarray(self.coin, dtype=np.bool_)
        if copies.shape != (len(secrets),) or coin.shape != copies.shape or (copies < 1).any():
            raise InvalidArgument(
                f"'copies' and 'coin' must have one entry for each of {len(secrets)} canaries, and at least "
                f"one copy each, got shapes {copies.shape} and {coin.shape}. Use plant_canaries."
            )
        for name, value in (("secrets", secrets), ("copies", copies), ("coin", coin)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "controls", self.format.check(self.controls))

    def __len__(self) -> int:
        return len(self.secrets)

    def __repr__(self) -> str:
        return f"PlantedCanaries({len(self)} canaries, {len(self.controls)} controls, confidential)"

    @property
    def sequences(self) -> list[Tokens]:
        """What is added to the training data: the canaries whose coin shows heads, each as often as it is
        copied."""
        texts = self.format.write(self.secrets)
        return [
            texts[canary] for canary in np.flatnonzero(self.coin) for _ in range(int(self.copies[canary]))
        ]

    def insert_into(self, sequences: Sequence[Tokens], generator: np.random.Generator) -> list[Tokens]:
        """The texts with the canaries among them, in random order."""
        together = [*sequences, *self.sequences]
        return [together[place] for place in generator.permutation(len(together))]


def plant_canaries(
    format: CanaryFormat,
    *,
    count: int,
    copies: Sequence[int] = (1, 4, 16),
    controls: int = _CONTROLS,
    generator: np.random.Generator,
) -> PlantedCanaries:
    """Draw ``count`` canaries for each number of copies, a fair coin for each, and fresh controls.

    *Guarantee*: a canary of k copies is k records. What is proved for one record is proved for it as for a
    group of k (``Guarantee.group``), and its audit must be held against that claim.

    >>> format = CanaryFormat(np.array([7]), (np.arange(10),) * 6)
    >>> plant_canaries(format, count=50, copies=(1, 4), generator=np.random.default_rng(0))
    PlantedCanaries(100 canaries, 200 controls, confidential)
    """
    whole("count", count)
    if not copies:
        raise InvalidArgument("'copies' must hold at least one number, got none. Give (1, 4, 16).")
    repeats = np.repeat(np.array([whole("copies", times) for times in copies], dtype=np.int64), count)
    secrets = format.draw(len(repeats), generator)
    coin = generator.integers(0, 2, size=len(repeats)).astype(np.bool_)
    return PlantedCanaries(
        format, secrets, repeats, coin, format.draw(whole("controls", controls, least=0), generator)
    )


def _to_tokens(name: str, values: object) -> Tokens:
    tokens = np.asarray(values)
    if tokens.size == 0:
        return np.zeros(0, dtype=np.int64)
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or int(tokens.min()) < 0:
        raise InvalidArgument(
            f"'{name}' must be tokens, whole numbers from 0 on one axis, got something else. Encode the text "
            f"first."
        )
    return tokens.astype(np.int64)


check_public_calls(__name__)
