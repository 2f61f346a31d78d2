"""Arithmetic on secrets of several parties: sums, products and comparisons of Shamir shares.

This is multi-party computation in its smallest form, written so that it can be looked at: each party has a
view (``PartyView``), which is all that it ever sees. Parties compute on shares and open results only.

* A sum is local: shares of a and of b add up to shares of a + b.
* A product of shares is a share of the product on a polynomial of twice the degree; each party shares its own
  product again, and the parties weigh what they get (Gennaro, Rabin & Rabin 1998). That needs 2t < n.
* A comparison works on shares of bits, from the highest: a > b where a has a 1 and b a 0 and all bits above
  are equal.

Guarantee: ``colluding`` parties t < n/2 that follow the protocol learn the opened results and what follows
from them and their own inputs, and nothing else; the guarantee needs no assumption about computing power.
``simulate_view`` is the proof in code: it makes the view of one party from its inputs and the results
alone, and this view has the same law as the real one.

Adversary: up to t parties that follow the protocol and pool their views. A party that lies about its shares
can spoil the result; nobody notices.

Leaks: the results themselves. The sum of three numbers and two of the numbers give the third.

Reference: Ben-Or, Goldwasser & Wigderson 1988, "Completeness theorems for non-cryptographic fault-tolerant
distributed computation".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

from privet.arguments import whole
from privet.errors import InvalidArgument
from privet.federated.sums.shamir import Draw, draw_element, open_secret, share_secret, weigh_holders

__all__ = ["PartyView", "PrivateArithmetic", "SharedBits", "SharedNumber", "simulate_view"]

PRIME = 2**61 - 1
_MOST_BITS = 32


@final
@dataclass(eq=False)
class PartyView:
    """All that one party sees: its own inputs, and every number that it is sent, in order."""

    inputs: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)


@final
@dataclass(frozen=True, eq=False, repr=False)
class SharedNumber:
    """A secret number: one share for each party."""

    shares: tuple[int, ...]


@final
@dataclass(frozen=True, eq=False, repr=False)
class SharedBits:
    """A secret number as secret bits, the lowest first."""

    bits: tuple[SharedNumber, ...]


@final
class PrivateArithmetic:
    """Some parties in one process, each with its own view.

    >>> parties = PrivateArithmetic(3)
    >>> salaries = [parties.share(owner, salary) for owner, salary in enumerate((3100, 2900, 4200))]
    >>> parties.open(parties.add(*salaries)) / 3
    3400.0
    """

    def __init__(
        self, parties: int, *, colluding: int = 1, prime: int = PRIME, draw: Draw = draw_element
    ) -> None:
        whole("parties", parties, least=3, most=1000)
        whole("colluding", colluding)
        if 2 * colluding >= parties:
            raise InvalidArgument(
                f"'colluding' must be below half of {parties} parties, got {colluding}, because products "
                "need an honest majority. Add parties."
            )
        self.parties, self.colluding, self.prime = parties, colluding, prime
        self.views = tuple(PartyView() for _ in range(parties))
        self._draw = draw
        self._told: _ToldResults | None = None
        self._places = tuple(range(1, parties + 1))
        self._weights = weigh_holders(self._places, prime)

    def share(self, owner: int, secret: int) -> SharedNumber:
        """The owner's secret, a whole number from 0, in shares to all parties."""
        self._check(owner, secret, self.prime - 1)
        self.views[owner].inputs.append(secret)
        return self._deal(secret)

    def share_bits(self, owner: int, secret: int, *, bits: int) -> SharedBits:
        """The owner's secret, bit by bit, so that it can be compared."""
        whole("bits", bits, most=_MOST_BITS)
        self._check(owner, secret, 2**bits - 1)
        self.views[owner].inputs.append(secret)
        return SharedBits(tuple(self._deal(secret >> place & 1) for place in range(bits)))

    def add(self, *numbers: SharedNumber) -> SharedNumber:
        """Their sum. Nothing is sent."""
        columns = zip(*(number.shares for number in numbers), strict=True)
        return SharedNumber(tuple(sum(column) % self.prime for column in columns))

    def scale(self, number: SharedNumber, factor: int, *, offset: int = 0) -> SharedNumber:
        """factor · number + offset, for public numbers. Nothing is sent."""
        return SharedNumber(tuple((factor * share + offset) % self.prime for share in number.shares))

    def multiply(self, first: SharedNumber, second: SharedNumber) -> SharedNumber:
        """Their product. Each party shares its product of shares again, with a polynomial of degree t."""
        dealt = [
            self._deal(one * other % self.prime)
            for one, other in zip(first.shares, second.shares, strict=True)
        ]
        return self.add(
            *(self.scale(part, weight) for part, weight in zip(dealt, self._weights, strict=True))
        )

    def compare(self, first: SharedBits, second: SharedBits) -> SharedNumber:
        """1 if the first is above the second, else 0; still secret."""
        if len(first.bits) != len(second.bits):
            raise InvalidArgument(
                f"'second' must have {len(first.bits)} bits like the first, got {len(second.bits)}. Share "
                "both with the same number of bits."
            )
        above = equal = None
        for own, other in reversed(list(zip(first.bits, second.bits, strict=True))):
            both = self.multiply(own, other)
            here = self.add(own, self.scale(both, -1))  # own (1 − other)
            same = self.scale(self.add(own, other, self.scale(both, -2)), -1, offset=1)  # 1 − (own xor other)
            if above is None or equal is None:
                above, equal = here, same
            else:
                above, equal = self.add(above, self.multiply(equal, here)), self.multiply(equal, same)
        assert above is not None
        return above

    def open(self, number: SharedNumber) -> int:
        """The number, for all parties: each one sees all shares.

        A share of a computed number may tell how it was computed, so each party adds shares of zero first.
        """
        number = self.add(number, *(self._deal(0) for _ in self.views))
        shares = number.shares if self._told is None else self._told.make_shares(number, self)
        for view in self.views:
            view.received.extend(shares)
        return open_secret(dict(zip(self._places, shares, strict=True)), self.prime)

    def _deal(self, secret: int) -> SharedNumber:
        shares = share_secret(secret, self._places, self.colluding + 1, self.prime, self._draw)
        for place, view in zip(self._places, self.views, strict=True):
            view.received.append(shares[place])
        return SharedNumber(tuple(shares[place] for place in self._places))

    def _check(self, owner: int, secret: int, largest: int) -> None:
        whole("owner", owner, least=0, most=self.parties - 1)
        if isinstance(secret, bool) or not isinstance(secret, int) or not 0 <= secret <= largest:
            raise InvalidArgument(
                f"'secret' must be a whole number from 0 to {largest}, and is not. Shift or scale it first."
            )


Program = Callable[[PrivateArithmetic, Sequence[int]], object]


def simulate_view(
    program: Program, *, party: int, secret: int, results: Sequence[int], like: PrivateArithmetic
) -> PartyView:
    """A view of ``party`` that was made from its own secret and the results, without the others' inputs.

    ``program`` is what the parties compute from a list with a secret of each. The others' secrets are 0 here.
    What they deal is uniform anyway. Where a number is opened, the shares are those of a random polynomial
    that has the true result at 0 and the party's own share at its place.
    """
    parties = PrivateArithmetic(like.parties, colluding=like.colluding, prime=like.prime, draw=like._draw)
    parties._told = _ToldResults(party, list(results))
    secrets = [0] * like.parties
    secrets[party] = secret
    program(parties, secrets)
    return parties.views[party]


@final
class _ToldResults:
    """Shares of results that are told, beside the share that one party has."""

    def __init__(self, party: int, results: list[int]) -> None:
        self.party, self.results = party, results

    def make_shares(self, number: SharedNumber, parties: PrivateArithmetic) -> tuple[int, ...]:
        """result + x g(x), with g of degree t − 1 and the party's own share at its place."""
        result, prime = self.results.pop(0), parties.prime
        place = self.party + 1
        wanted = (number.shares[self.party] - result) * pow(place, -1, prime) % prime
        others = [parties._draw(prime) for _ in range(parties.colluding - 1)]  # of x, x², …

        def rise(x: int) -> int:
            value = 0
            for coefficient in reversed(others):
                value = (value + coefficient) * x % prime
            return value

        constant = wanted - rise(place)
        return tuple((result + x * (rise(x) + constant)) % prime for x in range(1, parties.parties + 1))
