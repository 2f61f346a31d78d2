"""Passages of texts: which runs of tokens belong to one person alone, and where they occur again.

Much of what a model repeats is nobody's: greetings, footers, templates, which other people write, too. A
passage counts as a person's only if it occurs in no text of anybody else, neither in the training data nor in
texts that were never trained on. The same rule chooses the passages of members and of others, so that the
others are a fair control.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.arguments import whole
from privet.attacks.text.token_views import Tokens
from privet.errors import InvalidArgument
from privet.scores import Bits

__all__ = ["NgramIndex", "Passages", "are_near_copies", "drop_near_copies", "find_passages"]

_SHARED = -1  # the owner of what several people wrote


@final
class NgramIndex:
    """Every run of ``length`` tokens in some texts, and whose it is.

    ``owners`` says who wrote each text; by default each text has an owner of its own. Runs with a token of
    ``excluded`` are left out: a token that stands for many words, as that of unknown words does, is no copy
    of any.

    >>> index = NgramIndex([np.array([1, 2, 3, 4]), np.array([9, 2, 3, 4])], length=3)
    >>> index.owner_of(np.array([1, 2, 3])), index.owner_of(np.array([2, 3, 4])), index.owner_of([5, 5, 5])
    (0, -1, None)
    """

    def __init__(
        self,
        sequences: Sequence[Tokens],
        *,
        length: int,
        owners: NDArray[np.int64] | None = None,
        excluded: Sequence[int] = (),
    ) -> None:
        self.length, self._excluded = whole("length", length), np.asarray(excluded, dtype=np.int64)
        people = np.arange(len(sequences)) if owners is None else np.asarray(owners, dtype=np.int64)
        if people.shape != (len(sequences),) or (people < 0).any():
            raise InvalidArgument(
                f"'owners' must hold a number from 0 for each of {len(sequences)} texts, got an array of "
                f"shape {people.shape}. Number the people."
            )
        self._owners: dict[bytes, int] = {}
        for sequence, owner in zip(sequences, people.tolist(), strict=True):
            for run in self.runs(sequence):
                if run is not None and self._owners.setdefault(run, owner) != owner:
                    self._owners[run] = _SHARED

    def runs(self, sequence: Tokens) -> list[bytes | None]:
        """Every run of the text, in order, as a key; None where it holds an excluded token."""
        tokens = np.ascontiguousarray(sequence, dtype=np.int64)
        data, width = tokens.tobytes(), 8 * self.length
        runs: list[bytes | None] = [
            data[start : start + width] for start in range(0, len(data) - width + 1, 8)
        ]
        for place in np.flatnonzero(np.isin(tokens, self._excluded)).tolist():
            for run in range(max(place - self.length + 1, 0), min(place + 1, len(runs))):
                runs[run] = None
        return runs

    def keys(self, sequence: Tokens) -> set[bytes]:
        """The different runs of the text, without those that hold an excluded token."""
        return {run for run in self.runs(sequence) if run is not None}

    def owner_of(self, run: Tokens) -> int | None:
        """Whose run this is; −1 if several people have it, None if nobody."""
        return self._owners.get(np.ascontiguousarray(run, dtype=np.int64).tobytes())

    def find_owners(self, sequence: Tokens) -> list[int | None]:
        """The owner of every run of the text, in order."""
        return [None if run is None else self._owners.get(run) for run in self.runs(sequence)]


@final
@dataclass(frozen=True, eq=False)
class Passages:
    """Prompts and what follows them; ``source`` is the number of the text that each comes from."""

    prompts: list[Tokens]
    continuations: list[Tokens]
    source: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.prompts) == len(self.continuations) == len(self.source):
            raise InvalidArgument(
                f"'continuations' and 'source' must have one entry for each of {len(self.prompts)} prompts, "
                f"got {len(self.continuations)} and {len(self.source)}. Use find_passages."
            )

    def __len__(self) -> int:
        return len(self.prompts)

    def __repr__(self) -> str:
        return f"Passages({len(self)}, confidential)"


def find_passages(
    sequences: Sequence[Tokens],
    *,
    prompt: int,
    length: int,
    owners: NDArray[np.int64] | None = None,
    elsewhere: Sequence[Tokens] = (),
    excluded: Sequence[int] = (),
    shared: bool = False,
    from_start: bool = False,
) -> Passages:
    """The first passage of each text that is its owner's alone: ``prompt`` tokens and the next ``length``.

    ``elsewhere`` are texts of other people that were never trained on. A run of ``length`` tokens that occurs
    there, or in a text of another owner, is a template and is passed over, and so is one with an ``excluded``
    token, such as that of unknown words. Texts without a passage of their
    own are left out. With ``shared=True`` the first passage of every long enough text is taken, whoever else
    has it, to show the difference. With ``from_start=True`` the prompt is all of the text before the passage,
    at least ``prompt`` tokens: an adversary who knows how the text begins.

    >>> mails = [np.array([1, 2, 3, 4, 5, 6]), np.array([1, 2, 3, 4, 7, 8])]
    >>> found = find_passages(mails, prompt=2, length=2)
    >>> [(a.tolist(), b.tolist()) for a, b in zip(found.prompts, found.continuations)]
    [([2, 3], [4, 5]), ([2, 3], [4, 7])]
    """
    whole("prompt", prompt)
    index = NgramIndex(sequences, length=length, owners=owners, excluded=excluded)
    templates = {run for text in elsewhere for run in index.keys(text)}
    prompts, continuations, source = [], [], []
    for number, sequence in enumerate(sequences):
        runs, whose = index.runs(sequence), index.find_owners(sequence)
        for place in range(prompt, len(runs)):
            if runs[place] is None:
                continue
            if shared or (whose[place] != _SHARED and runs[place] not in templates):
                prompts.append(np.asarray(sequence[0 if from_start else place - prompt : place]))
                continuations.append(np.asarray(sequence[place : place + length]))
                source.append(number)
                break
    return Passages(prompts, continuations, np.array(source, dtype=np.int64))


def drop_near_copies(texts: Sequence[Tokens], order: Iterable[int]) -> Bits:
    """Which texts are no near-copy of an earlier one in this order.

    *Reference*: Carlini et al. 2021, section 5.1, who keep a sample only if fewer than half of its trigrams
    are in another one; here that is asked of all earlier ones that were kept.
    """
    kept: Bits = np.zeros(len(texts), dtype=np.bool_)
    chosen: list[set[bytes]] = []
    for one in order:
        trigrams = _trigrams(texts[one])
        if not any(_overlap(trigrams, other) for other in chosen):
            kept[one] = True
            chosen.append(trigrams)
    return kept


def are_near_copies(text: Tokens, other: Tokens) -> bool:
    """Whether at least half of the trigrams of ``text`` are in the other text, too.

    >>> are_near_copies(np.arange(9), np.arange(1, 9)), are_near_copies(np.arange(9), np.arange(6, 20))
    (True, False)
    """
    return _overlap(_trigrams(text), _trigrams(other))


def _trigrams(text: Tokens) -> set[bytes]:
    data = np.ascontiguousarray(text, dtype=np.int64).tobytes()
    width = min(24, max(len(data), 8))
    return {data[start : start + width] for start in range(0, len(data) - width + 1, 8)}


def _overlap(one: set[bytes], other: set[bytes]) -> bool:
    return 2 * len(one & other) >= max(len(one), 1)
