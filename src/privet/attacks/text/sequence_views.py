"""Sequences in the membership game of records: what the shadow engine and the attacks with references need.

A record is its token numbers as one string, with the label 1: a record is the same whatever the lengths of
the others are. Its confidence is p = exp(mean ln p(token)),
the geometric mean over its tokens and the inverse of its perplexity. So φ = ln(p/(1−p)), LiRA and every other
attack on φ apply to sequences. Over models, φ of a sequence is a mean over many tokens, and near to Gaussian.

*Deviation*: the papers define these attacks for classifiers. A sum over tokens would give long sequences a
larger variance; the mean treats every length alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.text.token_views import TokenLogProbs, Tokens, TokenView
from privet.errors import InvalidArgument
from privet.scores import Records
from privet.views import BlackBox, Numbers, Rows

__all__ = ["SequenceView", "log_confidences_of_tokens", "sequence_records", "sequences_of"]


def sequence_records(sequences: Sequence[Tokens], groups: NDArray[np.str_] | None = None) -> Records:
    """Records of sequences.

    >>> records = sequence_records([np.array([5, 1]), np.array([5, 2, 3])])
    >>> records.inputs.tolist(), records.labels.tolist()
    (['5 1', '5 2 3'], [1, 1])
    """
    if not len(sequences):
        raise InvalidArgument("'sequences' must hold at least one sequence, got none. Give some texts.")
    rows = np.array([" ".join(map(str, np.asarray(one).tolist())) for one in sequences])
    return Records(rows, np.ones(len(rows), dtype=np.int64), groups)


def sequences_of(rows: Rows) -> list[Tokens]:
    """The sequences of some rows."""
    if rows.ndim != 1 or rows.dtype.kind != "U":
        raise InvalidArgument(
            f"'records' must be sequences for a language model, got an array of shape {rows.shape} and type "
            f"{rows.dtype}. Make them by sequence_records(sequences)."
        )
    return [np.array(row.split(), dtype=np.int64) for row in rows.tolist()]


@final
@dataclass(frozen=True, eq=False)
class SequenceView(BlackBox):
    """A language model that says of every row of tokens how likely it holds it."""

    tokens: TokenView

    def log_confidences(self, inputs: Rows) -> Numbers:
        return log_confidences_of_tokens(self.tokens.logprobs(sequences_of(inputs)))


def log_confidences_of_tokens(found: TokenLogProbs) -> Numbers:
    """ln(1 − p) and ln p of every sequence, with p = exp(mean ln p(token))."""
    own = found.sums(found.logprobs) / found.lengths
    with np.errstate(divide="ignore"):
        return np.stack([np.log(-np.expm1(np.minimum(own, 0.0))), own], axis=1)
