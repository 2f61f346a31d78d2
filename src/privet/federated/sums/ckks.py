"""Homomorphic encryption of real numbers (CKKS, by TenSEAL): parameters by a rule, and keys that stay apart.

The rule: the smallest ring whose modulus holds the largest result and keeps 128 bits of security by the
table of the Homomorphic Encryption Standard (2018). Numbers are multiples of 2^−scale_bits; what is left of
the modulus above the largest result is spent on the scale, so on accuracy.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import tenseal  # type: ignore[import-untyped]

from privet.arguments import positive, whole
from privet.errors import InvalidArgument
from privet.federated.sum_protocols import MessageRefused
from privet.views import Numbers

__all__ = ["CKKSParameters", "CKKSSecret", "encrypt_public", "open_public", "read_vectors"]

_LARGEST_MODULUS = {4096: 109, 8192: 218, 16384: 438}  # bits, by ring size, at 128 bits of security
_FIRST_PRIME, _SPECIAL_PRIME = 60, 49  # bits: SEAL's largest prime; what the smallest ring has left
_MOST_SCALE, _LEAST_SCALE = 40, 20
_ERROR = 3.2  # standard deviation of the encryption noise in SEAL

Vector = Any  # of TenSEAL, which has no types
Context = Any


@final
@dataclass(frozen=True)
class CKKSParameters:
    """A ring, its modulus as bits of primes, and the scale of numbers.

    >>> CKKSParameters.for_sum(largest=1.0, clients=100).scale_bits
    40
    """

    ring: int
    primes: tuple[int, ...]
    scale_bits: int

    @staticmethod
    def for_sum(*, largest: float, clients: int) -> "CKKSParameters":
        """For sums of ``clients`` numbers up to ``largest`` each; sums need no multiplication."""
        result = positive("largest", largest) * whole("clients", clients)
        scale = _fit_scale(_FIRST_PRIME, result)
        return CKKSParameters(4096, (_FIRST_PRIME, _SPECIAL_PRIME), scale)

    @staticmethod
    def for_dot_product(*, largest_result: float) -> "CKKSParameters":
        """For one product with public numbers; one prime more, which the product uses up."""
        scale = _fit_scale(_FIRST_PRIME, positive("largest_result", largest_result))
        return CKKSParameters(8192, (_FIRST_PRIME, scale, _FIRST_PRIME), scale)

    def __post_init__(self) -> None:
        if sum(self.primes) > _LARGEST_MODULUS.get(self.ring, 0):
            raise InvalidArgument(
                f"A modulus of {sum(self.primes)} bits is too large for a ring of {self.ring}, because less "
                "than 128 bits of security are left. Take a larger ring, or smaller primes."
            )

    @property
    def slots(self) -> int:
        """How many numbers one ciphertext holds."""
        return self.ring // 2

    @property
    def fresh_error(self) -> float:
        """A bound on the error of a fresh ciphertext's numbers that holds with overwhelming probability.

        8√2 σN + 6σ√N + 16σ√(hN) with h = 2N/3 non-zero coefficients of the secret key, over the scale.

        Reference: Cheon, Kim, Kim & Song 2017, Lemma 1.
        """
        n = self.ring
        noise = 8 * math.sqrt(2) * _ERROR * n + 6 * _ERROR * math.sqrt(n)
        noise += 16 * _ERROR * n * math.sqrt(2 / 3)
        return math.ldexp(noise, -self.scale_bits)


def _fit_scale(prime: int, result: float) -> int:
    """The bits that a prime has above the result, with its sign and one bit to spare."""
    scale = min(prime - 2 - max(math.ceil(math.log2(result)), 0), _MOST_SCALE)
    if scale < _LEAST_SCALE:
        raise InvalidArgument(
            f"Results up to {result:g} leave {max(scale, 0)} bits for the accuracy of an encrypted "
            f"number, and {_LEAST_SCALE} are needed. Scale the numbers down."
        )
    return scale


@final
class CKKSSecret:
    """A new key pair; the secret key stays inside. ``public`` is all that others need, as bytes."""

    def __init__(self, parameters: CKKSParameters, *, rotations: bool = False) -> None:
        self.parameters = parameters
        self._context: Context = tenseal.context(
            tenseal.SCHEME_TYPE.CKKS,
            poly_modulus_degree=parameters.ring,
            coeff_mod_bit_sizes=list(parameters.primes),
            n_threads=1,
        )
        self._context.global_scale = 2.0**parameters.scale_bits
        if rotations:
            self._context.generate_galois_keys()
        self.public: bytes = self._context.serialize(save_secret_key=False, save_relin_keys=False)

    def decrypt(self, ciphertext: bytes) -> list[float]:
        """The numbers of one ciphertext."""
        (vector,) = read_vectors(self._context, [ciphertext])
        found: list[float] = vector.decrypt()
        return found

    def encrypt(self, numbers: list[float]) -> bytes:
        """One ciphertext."""
        octets: bytes = tenseal.ckks_vector(self._context, numbers).serialize()
        return octets


def open_public(public: bytes) -> Context:
    """A context that encrypts and computes. A context with a secret key in it is refused."""
    try:
        context = tenseal.context_from(public, n_threads=1)
    except (ValueError, RuntimeError, TypeError):
        raise InvalidArgument(
            "'public' must be a public context of TenSEAL, and cannot be read. Take it from the key holder."
        ) from None
    if context.has_secret_key():
        raise InvalidArgument(
            "'public' must not have the secret key in it, and has. Give the others CKKSSecret.public only."
        )
    return context


def encrypt_public(context: Context, numbers: Numbers) -> bytes:
    """One ciphertext, under the public key alone."""
    octets: bytes = tenseal.ckks_vector(context, numbers).serialize()
    return octets


def read_vectors(context: Context, ciphertexts: list[bytes]) -> list[Vector]:
    """Ciphertexts from bytes. What is not one of this context is refused."""
    try:
        return [tenseal.ckks_vector_from(context, octets) for octets in ciphertexts]
    except (ValueError, RuntimeError, TypeError):
        raise MessageRefused(
            "A message must be encrypted under the public key of this run, and is not. Give the client "
            "that key."
        ) from None
