"""Shamir's secret sharing over a prime field: any ``threshold`` shares open a secret, fewer say nothing.

A secret s is the value at 0 of a random polynomial of degree threshold − 1; holder x has its value at x ≠ 0.

Guarantee: fewer than ``threshold`` shares of one secret are uniform and independent of it, whatever the
secret is: for every value of s exactly one polynomial of that degree goes through them.

Reference: Shamir 1979, "How to share a secret".
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from privet.errors import InvalidArgument

__all__ = ["KEY_PRIME", "draw_element", "open_secret", "share_secret", "weigh_holders"]

KEY_PRIME = 2**256 + 297  # the smallest prime above all keys of 256 bits

Draw = Callable[[int], int]  # a uniform number below its argument


def draw_element(prime: int) -> int:
    """A uniform element of the field, from the operating system."""
    return secrets.randbelow(prime)


def share_secret(
    secret: int, holders: Sequence[int], threshold: int, prime: int, draw: Draw = draw_element
) -> dict[int, int]:
    """A share for each holder; ``holders`` are different numbers from 1 to prime − 1.

    >>> shares = share_secret(42, [1, 2, 3], 2, 101)
    >>> open_secret({1: shares[1], 3: shares[3]}, 101)
    42
    """
    if not 0 <= secret < prime:
        raise InvalidArgument(
            "'secret' must be an element of the field, and is outside. Share it in parts that are below the "
            "prime."
        )
    _check_holders(holders, prime)
    if not 1 <= threshold <= len(holders):
        raise InvalidArgument(
            f"'threshold' must be between 1 and the number of holders, {len(holders)}, got {threshold}. "
            "Give a number of holders that can come together."
        )
    coefficients = [draw(prime) for _ in range(threshold - 1)]
    shares = {}
    for holder in holders:
        value = 0
        for coefficient in reversed(coefficients):
            value = (value + coefficient) * holder % prime
        shares[holder] = (value + secret) % prime
    return shares


def open_secret(shares: Mapping[int, int], prime: int) -> int:
    """The value at 0 of the polynomial of the least degree through these shares."""
    holders = tuple(shares)
    weights = weigh_holders(holders, prime)
    return sum(weight * shares[holder] for holder, weight in zip(holders, weights, strict=True)) % prime


@lru_cache(maxsize=512)
def weigh_holders(holders: tuple[int, ...], prime: int) -> tuple[int, ...]:
    """The weights of Lagrange's formula at 0: wᵢ = Π_{j≠i} xⱼ / (xⱼ − xᵢ)."""
    _check_holders(holders, prime)
    above, below = [], []
    for own in holders:
        numerator = denominator = 1
        for other in holders:
            if other != own:
                numerator = numerator * other % prime
                denominator = denominator * (other - own) % prime
        above.append(numerator)
        below.append(denominator)
    inverses = _invert_all(below, prime)
    return tuple(first * second % prime for first, second in zip(above, inverses, strict=True))


def _invert_all(numbers: Sequence[int], prime: int) -> list[int]:
    """The inverses of all of them with one inversion (Montgomery's trick)."""
    products = [1]
    for number in numbers:
        products.append(products[-1] * number % prime)
    rest = pow(products[-1], -1, prime)
    inverses = []
    for number, before in zip(reversed(numbers), reversed(products[:-1]), strict=True):
        inverses.append(before * rest % prime)
        rest = rest * number % prime
    return inverses[::-1]


def _check_holders(holders: Iterable[int], prime: int) -> None:
    places = list(holders)
    if not places or len(set(places)) < len(places) or not all(0 < place < prime for place in places):
        raise InvalidArgument(
            "'holders' must be different numbers from 1 to below the prime, and are not. Give each holder a "
            "number of its own."
        )
