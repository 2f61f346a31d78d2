"""Numbers as whole words modulo 2^bits, so that sums are exact and masks hide completely."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from privet.arguments import positive, whole
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.events import Event
from privet.federated.sum_protocols import MessageRefused
from privet.federated.sums.masks import Words, word_type
from privet.views import Numbers

__all__ = ["FixedPoint", "WordEncoding", "check_vector", "require_honest"]


class WordEncoding(ABC):
    """How a client's numbers become words, and a sum of words becomes numbers again."""

    bits: int

    @abstractmethod
    def check_cohort(self, clients: int, length: int) -> None:
        """Refuse a cohort whose sum could leave the words."""

    @abstractmethod
    def word_count(self, length: int) -> int:
        """How many words a vector of this length becomes."""

    @abstractmethod
    def encode(self, vector: Numbers, *, round_number: int, length: int) -> Words:
        """The words of one client. A vector that cannot be encoded is refused."""

    @abstractmethod
    def decode(self, words: Words, *, round_number: int, length: int) -> Numbers:
        """The numbers of a sum of words."""

    @abstractmethod
    def bound_error(self, contributors: int, length: int) -> float:
        """How far a decoded number may be from the sum of what was encoded."""

    @abstractmethod
    def bound_growth(self, length: int) -> float:
        """How much larger than the norm of a vector that of its rounded numbers may be."""

    @property
    def largest_number(self) -> float:
        """The largest absolute value that can be encoded."""
        return math.inf

    @property
    def least_honest(self) -> int:
        """How many honest clients a sum must be over. A protocol that does not guarantee it is refused."""
        return 0

    def describe_noise(self, length: int) -> Event | None:
        """What the noise of ``least_honest`` contributors proves for one client; None without noise."""
        del length
        return None

    @property
    def caveats(self) -> frozenset[Caveat]:
        """What travels with the sum."""
        return frozenset()


@final
@dataclass(frozen=True, kw_only=True)
class FixedPoint(WordEncoding):
    """Multiples of 2^−fraction_bits, each of absolute value at most ``largest``, modulo 2^bits.

    Guarantee: for n clients with n · largest · 2^fraction_bits < 2^(bits−1) the sum is the exact sum of the
    rounded numbers; a larger cohort is refused before anything is sent. Each number is rounded to the
    nearest multiple, so the sum is off by at most n · 2^−(fraction_bits+1), and by 2^−53 of itself where it
    has more than 53 bits.

    A number that is not finite, or above ``largest``, is refused and not clipped.

    >>> encoding = FixedPoint(largest=1.0, fraction_bits=8)
    >>> words = encoding.encode(np.array([0.5, -0.25]), round_number=1, length=2)
    >>> encoding.decode(words + words, round_number=1, length=2)
    array([ 1. , -0.5])
    """

    largest: float
    fraction_bits: int = 24
    bits: int = 64

    def __post_init__(self) -> None:
        positive("largest", self.largest)
        whole("fraction_bits", self.fraction_bits, least=0, most=60)
        word_type(self.bits)
        if self._reach(1) >= 2 ** (self.bits - 1):
            raise InvalidArgument(
                f"'largest' = {self.largest:g} with {self.fraction_bits} bits behind the point does not fit "
                f"into {self.bits} bits. Use fewer bits behind the point, or larger words."
            )

    def _reach(self, clients: int) -> float:
        return clients * math.ceil(self.largest * 2.0**self.fraction_bits)

    def check_cohort(self, clients: int, length: int) -> None:
        del length
        if self._reach(clients) >= 2 ** (self.bits - 1):
            raise InvalidArgument(
                f"The sum of {clients} clients with numbers up to {self.largest:g} and {self.fraction_bits} "
                f"bits behind the point does not fit into {self.bits} bits. Use fewer bits behind the point, "
                "or larger words."
            )

    def word_count(self, length: int) -> int:
        return length

    def encode(self, vector: Numbers, *, round_number: int, length: int) -> Words:
        del round_number
        numbers = check_vector(vector, length)
        if numbers.size and float(np.abs(numbers).max()) > self.largest:
            raise MessageRefused(
                f"A vector to be summed must have numbers of at most {self.largest:g}, and has a larger one. "
                "Clip it before it is sent, or agree on a larger bound."
            )
        steps = np.rint(np.ldexp(numbers, self.fraction_bits)).astype(np.int64)
        return steps.astype(word_type(self.bits))  # two's complement: modulo 2^bits

    def decode(self, words: Words, *, round_number: int, length: int) -> Numbers:
        del round_number, length
        signed = np.ascontiguousarray(words).view(f"<i{self.bits // 8}")
        return np.ldexp(signed.astype(np.float64), -self.fraction_bits)

    def bound_error(self, contributors: int, length: int) -> float:
        del length
        rounding = math.ldexp(contributors, -self.fraction_bits - 1)
        inexact = self._reach(contributors) > 2**53
        return rounding + (contributors * self.largest * 2.0**-52 if inexact else 0.0)

    @property
    def largest_number(self) -> float:
        return self.largest

    def bound_growth(self, length: int) -> float:
        """Each number moves by half a step at most."""
        return math.sqrt(length) * math.ldexp(1.0, -self.fraction_bits - 1)


def check_vector(vector: Numbers, length: int) -> Numbers:
    """A vector of ``length`` finite numbers, or a refusal that does not say what is in it."""
    numbers = np.asarray(vector, dtype=np.float64)
    if numbers.shape != (length,):
        raise MessageRefused(
            f"A vector to be summed must have {length} numbers, and has another shape. Send all "
            "parameters of the model of this round."
        )
    if not np.isfinite(numbers).all():
        raise MessageRefused(
            "A vector to be summed must be finite, and has NaN or infinity in it. Lower the learning "
            "rate, or leave this round out."
        )
    return numbers


def require_honest(together: int, least_honest: int) -> None:
    """Refuse a protocol that may open a sum with less noise than is planned."""
    if together < least_honest:
        raise InvalidArgument(
            f"The noise is planned for sums over {least_honest} honest clients or more, and for this "
            f"cohort the protocol guarantees {together}. Invite more clients, or plan the noise for fewer "
            "shares."
        )
