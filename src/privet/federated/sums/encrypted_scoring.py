"""Encrypted scoring: a linear model scores a row that it cannot read, and the row's owner reads the score."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import finite, positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.federated.sums.ckks import CKKSParameters, CKKSSecret, open_public, read_vectors
from privet.views import Numbers

__all__ = ["EncryptedScorer", "ReadScore", "RowOwner"]

_MOST_FEATURES = 4096


@final
@dataclass(frozen=True)
class ReadScore:
    """A decrypted score, how far it may be from the exact one, and what it must not be used for."""

    score: float
    error_bound: float
    caveats: frozenset[Caveat] = frozenset({Caveat.ONE_KEY_HOLDER, Caveat.APPROXIMATE_DECRYPTION})


@final
class RowOwner:
    """Who has the rows, and the only secret key.

    ``largest`` is the largest absolute value of a feature; ``largest_score`` bounds the scores of the model,
    so that they fit into the modulus.

    >>> owner = RowOwner(features=3, largest=4.0, largest_score=100.0)
    >>> scorer = EncryptedScorer(np.array([1.0, -2.0, 0.5]), 0.25, owner.public_context)
    >>> found = owner.read_score(scorer.score_row(owner.encrypt_row([3.0, 1.0, 2.0])), scorer.size)
    >>> abs(found.score - 2.25) < found.error_bound < 0.01
    True
    """

    def __init__(self, *, features: int, largest: float, largest_score: float) -> None:
        self.features = whole("features", features, most=_MOST_FEATURES)
        self.largest = positive("largest", largest)
        self.parameters = CKKSParameters.for_dot_product(largest_result=max(largest_score, largest))
        self._secret = CKKSSecret(self.parameters, rotations=True)

    @property
    def public_context(self) -> bytes:
        """For the owner of the model: parameters, public key and rotation keys, without the secret key."""
        return self._secret.public

    def encrypt_row(self, row: Sequence[float] | Numbers) -> bytes:
        """One row, encrypted."""
        numbers = np.asarray(row, dtype=np.float64)
        if numbers.shape != (self.features,) or not np.isfinite(numbers).all():
            raise InvalidArgument(
                f"'row' must be {self.features} finite numbers, and is not. Give all features, without NaN."
            )
        if float(np.abs(numbers).max()) > self.largest:
            raise InvalidArgument(
                f"'row' must have numbers of at most {self.largest:g}, and has a larger one. Scale the "
                "features."
            )
        return self._secret.encrypt(numbers.tolist())

    def read_score(self, encrypted: bytes, size: float) -> ReadScore:
        """The score, with a bound on its error for a model of this ``size`` (``EncryptedScorer.size``).

        The error of each feature is multiplied by its weight; the weights, the sum of the products and its
        rotations are rounded too, each with an error as of a fresh ciphertext at most.
        """
        score = self._secret.decrypt(encrypted)[0]
        rounded = 2 + 2 * int(np.ceil(np.log2(max(self.features, 2))))
        bound = self.parameters.fresh_error * (size + self.features * self.largest + rounded)
        return ReadScore(score, bound)


@final
class EncryptedScorer:
    """A linear model's owner, who scores rows without reading them.

    Guarantee: as ``EncryptedSum``: the ciphertexts say nothing about the row or the score to the model's
    owner.

    Adversary: a model's owner that follows the protocol, or a row's owner that does.

    Leaks: the score, to the row's owner. As many scores as there are weights give the whole model away: limit
    the queries. CKKS does not hide from the row's owner how its ciphertext was computed (no circuit privacy).
    """

    def __init__(self, weights: Numbers, bias: float, public_context: bytes) -> None:
        numbers = np.asarray(weights, dtype=np.float64)
        if numbers.ndim != 1 or not 0 < numbers.size <= _MOST_FEATURES or not np.isfinite(numbers).all():
            raise InvalidArgument(
                f"'weights' must be 1 to {_MOST_FEATURES} finite numbers, and are not. Give one for each "
                "feature."
            )
        self._weights, self._bias = numbers, float(finite("bias", bias))
        self._context = open_public(public_context)

    @property
    def size(self) -> float:
        """Σ |weights|, which bounds how an error of the features grows."""
        return float(np.abs(self._weights).sum())

    def score_row(self, encrypted: bytes) -> bytes:
        """weights · row + bias, encrypted."""
        (row,) = read_vectors(self._context, [encrypted])
        if row.size() != self._weights.size:
            raise InvalidArgument(
                f"'encrypted' must be a row of {self._weights.size} numbers, got {row.size()}. Encrypt a "
                "row of the model's features."
            )
        scored: bytes = row.dot(self._weights.tolist()).add([self._bias]).serialize()
        return scored
