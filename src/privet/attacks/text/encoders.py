"""From texts to tokens and back.

A tokenizer that was trained on private text is itself a release. Its vocabulary lists words that occur in
that text, and no noise protects them; a name that is one token of a private vocabulary was in the data. It
also helps an attack: with a vocabulary that was built on members and others alike, rare words of both are
known. Take a public vocabulary, or bytes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, final, runtime_checkable

import numpy as np

from privet.attacks.text.token_views import Tokens, TokenView
from privet.errors import InvalidArgument, ProgramFailed

__all__ = [
    "ByteEncoder",
    "TextEncoder",
    "WordEncoder",
    "check_encoder",
    "decode_tokens",
    "encode_text",
    "encode_texts",
]

_BYTES = 256


@runtime_checkable
class TextEncoder(Protocol):
    """A tokenizer: ``encode`` gives the tokens of a text, ``decode`` the text of tokens.

    Tokenizers of Hugging Face have both, those of ``transformers`` and those of ``tokenizers``.
    """

    def encode(self, text: str) -> Any: ...  # noqa: ANN401 - a list or an array of whole numbers
    def decode(self, tokens: Any) -> str: ...  # noqa: ANN401


@runtime_checkable
class _HoldsNumbers(Protocol):
    """What a tokenizer of the package ``tokenizers`` gives."""

    ids: Any


@final
@dataclass(frozen=True)
class ByteEncoder:
    """Bytes of UTF-8 as tokens, and the token 256 for the end of a text. Public by construction.

    >>> ByteEncoder().encode("ab€").tolist()
    [97, 98, 226, 130, 172]
    >>> ByteEncoder().decode(np.array([97, 226, 130, 172, 256]))
    'a€'
    """

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return _BYTES + 1

    @property
    def end(self) -> int:
        """The token that ends a text."""
        return _BYTES

    def encode(self, text: str) -> Tokens:
        """The bytes of a text."""
        return np.frombuffer(text.encode("utf-8", errors="surrogatepass"), dtype=np.uint8).astype(np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of some bytes; a part of a letter becomes �, as does a token of a larger model that is no
        byte, and the end token becomes nothing.
        """
        given = (int(token) for token in tokens if token != _BYTES)
        # 0xFF occurs nowhere in UTF-8, so it is replaced.
        return bytes(min(token, 0xFF) for token in given).decode("utf-8", errors="replace")


@final
@dataclass(frozen=True)
class WordEncoder:
    """Words of a *public* list as tokens; then one token for every other word, and one for the end of a text.

    Texts are split at spaces. The list must not come from private text (see this module).

    >>> encoder = WordEncoder(("the", "cat"))
    >>> encoder.encode("the black cat").tolist(), encoder.decode([0, 2, 1, 3])
    ([0, 2, 1], 'the � cat')
    """

    words: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.words or len(set(self.words)) < len(self.words):
            raise InvalidArgument(
                f"'words' must be different words, got {len(self.words)} of which "
                f"{len(self.words) - len(set(self.words))} are repeated. Give each word of a public list."
            )

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return len(self.words) + 2

    @property
    def unknown(self) -> int:
        """The token of every word that is not in the list."""
        return len(self.words)

    @property
    def end(self) -> int:
        """The token that ends a text."""
        return len(self.words) + 1

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    def encode(self, text: str) -> Tokens:
        """The words of a text."""
        return np.array([self._places.get(word, self.unknown) for word in text.split()], dtype=np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """The words with spaces between them; an unknown word becomes �, as does a token of a larger model
        that is not in the list, and the end token becomes nothing.
        """
        known = (*self.words, "�")
        return " ".join(known[min(int(token), self.unknown)] for token in tokens if token != self.end)


def encode_text(encoder: TextEncoder, text: str) -> Tokens:
    """The tokens of one text, as the tokenizer gives them; refused unless they are whole numbers from 0.

    What a tokenizer says when it fails may show the text, so it is not repeated.
    """
    try:
        found = encoder.encode(text)
        given = np.asarray(found.ids if isinstance(found, _HoldsNumbers) else found)
    except Exception as failure:  # of any kind: it is not our code
        raise ProgramFailed(
            f"'encoder' must give the tokens of every text, and it failed with {type(failure).__name__}. Try "
            f"encoder.encode on each text."
        ) from None
    flat = given.reshape(-1)
    whole_numbers = given.dtype.kind in "iu" or flat.size == 0
    if not whole_numbers or (flat.size and (int(flat.min()) < 0 or int(flat.max()) >= 1 << 63)):
        raise InvalidArgument(
            f"'encoder' must give whole numbers from 0 upwards, got {_describe(given)}. Give a tokenizer "
            f"whose encode makes a list of numbers of a text."
        )
    return flat.astype(np.int64)


def decode_tokens(encoder: TextEncoder, tokens: Tokens) -> str:
    """The text of some tokens. What a tokenizer says when it fails is not repeated."""
    try:
        return str(encoder.decode([int(token) for token in tokens]))
    except Exception as failure:
        raise ProgramFailed(
            f"'encoder' must give the text of its own tokens, and its decode failed with "
            f"{type(failure).__name__}. Try encoder.decode on the tokens of a text."
        ) from None


def _describe(given: np.ndarray) -> str:
    """What came instead of tokens, without its values."""
    if given.dtype.kind in "iu":
        return "a number below 0" if int(given.min()) < 0 else "a number beyond 2⁶³"
    return {"U": "text", "S": "bytes", "f": "fractions", "b": "booleans"}.get(
        given.dtype.kind, "other objects"
    )


def encode_texts(
    encoder: TextEncoder, texts: Sequence[str], *, end: int | None, longest: int | None = None
) -> list[Tokens]:
    """Each text as the end token, its own tokens, and the end token again.

    The first token of a sequence is not predicted, so the end token stands before the text as well: every
    token of the text is then predicted. A model without an end token (``end=None``) predicts the tokens from
    the second one on. With ``longest`` a sequence is cut to that many tokens.

    >>> [part.tolist() for part in encode_texts(ByteEncoder(), ["ab"], end=256)]
    [[256, 97, 98, 256]]
    """
    if isinstance(texts, str) or not len(texts) or not all(isinstance(text, str) for text in texts):
        raise InvalidArgument(
            "'texts' must be a list of texts with at least one, got something else. Give one str for each."
        )
    least = 1 if end is not None else 2
    sequences = []
    for text in texts:
        tokens = encode_text(encoder, text)
        if len(tokens) < least:
            raise InvalidArgument(
                f"'texts' must have at least {least} {'token' if least == 1 else 'tokens'} each, got one "
                f"with {len(tokens)}: nothing of it can be predicted. Leave such texts out beforehand."
            )
        framed = tokens if end is None else np.concatenate([[end], tokens, [end]]).astype(np.int64)
        sequences.append(framed if longest is None else framed[:longest])
    return sequences


def check_encoder(encoder: TextEncoder, view: TokenView, texts: Sequence[str]) -> None:
    """Refuse a tokenizer that does not match the model's vocabulary, before any attack runs.

    A smaller vocabulary of the tokenizer cannot be seen in the tokens, so its size is compared where the
    tokenizer says it.
    """
    own = encoder.vocabulary if isinstance(encoder, ByteEncoder | WordEncoder) else None
    if own is not None and own > view.vocabulary:
        raise InvalidArgument(
            f"'encoder' must have the model's {view.vocabulary} tokens, got {own}. Take the tokenizer that "
            f"the model was trained with."
        )
    for text in texts[:64]:
        highest = int(np.max(encode_text(encoder, text), initial=0))
        if highest >= view.vocabulary:
            raise InvalidArgument(
                f"'encoder' must give the model's tokens, 0 to {view.vocabulary - 1}, got {highest}. Take "
                f"the tokenizer that the model was trained with."
            )
