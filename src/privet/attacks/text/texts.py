"""Texts in the membership game: each text with its tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.text.encoders import TextEncoder, decode_tokens, encode_texts
from privet.attacks.text.token_views import Tokens
from privet.errors import InvalidArgument

__all__ = ["Texts"]


@final
@dataclass(frozen=True, eq=False)
class Texts:
    """Some texts, and the sequence of tokens of each.

    >>> from privet.attacks.text.encoders import ByteEncoder
    >>> Texts.encode(ByteEncoder(), ["ab", "c"], end=256)
    Texts(2 texts, 3 to 4 tokens)
    """

    texts: tuple[str, ...]
    sequences: tuple[Tokens, ...]

    def __post_init__(self) -> None:
        if not self.texts or len(self.texts) != len(self.sequences):
            raise InvalidArgument(
                f"'texts' must have one sequence each and hold at least one, got {len(self.texts)} texts and "
                f"{len(self.sequences)} sequences. Make them by Texts.encode(encoder, texts, end=…)."
            )

    def __len__(self) -> int:
        return len(self.texts)

    def __repr__(self) -> str:
        lengths = [len(sequence) for sequence in self.sequences]
        return f"Texts({len(self)} texts, {min(lengths)} to {max(lengths)} tokens)"

    @classmethod
    def encode(
        cls, encoder: TextEncoder, texts: Sequence[str], *, end: int | None, longest: int | None = None
    ) -> "Texts":
        """Encode texts, each between end tokens; see ``encode_texts``.

        With ``longest`` a text is what is left after the cut, so that no attack reads what the model did not.
        """
        sequences = encode_texts(encoder, texts, end=end, longest=longest)
        whole = encode_texts(encoder, texts, end=end)
        shown = [
            text if len(cut) == len(full) else decode_tokens(encoder, cut[int(end is not None) :])
            for text, cut, full in zip(texts, sequences, whole, strict=True)
        ]
        return cls(tuple(shown), tuple(sequences))

    def take(self, which: NDArray[np.intp] | NDArray[np.bool_]) -> "Texts":
        """Some of the texts, in the order asked for."""
        places = np.arange(len(self))[which].tolist()
        return Texts(tuple(self.texts[one] for one in places), tuple(self.sequences[one] for one in places))
