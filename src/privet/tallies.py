"""What a filter has added up so far, kept with a ledger so that no question prices all of its entries again.

A tally is a *cache*: the entries are what counts, and everything in a tally can be computed from them. So a
tally that is missing, of another filter, of another way of pricing, or that does not fit its ledger is left
aside, and the sums are computed anew. It holds the running sums after every fifty entries, which can be
checked one by one.

*What is checked when a ledger is read*: the seal, which ties the sums to the filter and to the ledger's chain
of hashes, and so to every entry. Then blocks of fifty entries are chosen at random and priced again, until
2,500 plain entries are (``accounting.tallying``); a smaller ledger is priced again as a whole. The seal has
no secret, as the chain has none (``lineage``): whoever computes it anew can also write other entries.
"""

import math
from dataclasses import dataclass, field
from typing import Any, final

from privet.filters import Filter, filter_to_plain
from privet.lineage import canonical, seal_digest

__all__ = ["BLOCK", "Sums", "Tally"]

BLOCK = 50  # entries between two sums that are kept

Sums = tuple[float, ...]  # three numbers for each order of neighbours: measure, P[loss = ∞], largest loss
_NUMBERS = 6
NOTHING: Sums = (0.0,) * _NUMBERS


@final
@dataclass(frozen=True, kw_only=True)
class Tally:
    """The sums of a filter over the first ``entries`` of a ledger, after each block and at the end.

    ``prices`` is the version of the prices. ``is_checked`` says that this process computed or checked the
    sums.
    """

    rule: Filter
    prices: int
    entries: int = 0
    blocks: tuple[Sums, ...] = ()
    total: Sums = NOTHING
    is_checked: bool = field(default=False, compare=False)

    def to_plain(self, head: str) -> dict[str, Any]:
        """The tally of a ledger with this head, as JSON can hold it."""
        body = self._body()
        return {**body, "seal": self._seal(head)}

    def _body(self) -> dict[str, Any]:
        return {
            "prices": self.prices,
            "entries": self.entries,
            "blocks": [_write_number(sums) for sums in self.blocks],
            "total": _write_number(self.total),
        }

    def _seal(self, head: str) -> str:
        return seal_digest(head, canonical({"filter": filter_to_plain(self.rule), **self._body()}))

    @staticmethod
    def from_plain(node: object, rule: Filter | None, head: str) -> "Tally | None":
        """The tally that ``to_plain`` wrote for this filter and head; nothing where it is another one, or
        none.
        """
        if not isinstance(node, dict) or rule is None or not isinstance(node.get("blocks"), list):
            return None
        rows = [_read(row) for row in (*node["blocks"], node.get("total"))]
        sums = [row for row in rows if row is not None]
        entries, prices = node.get("entries"), node.get("prices")
        if len(sums) < len(rows) or type(entries) is not int or type(prices) is not int:
            return None
        if len(sums) - 1 != entries // BLOCK or not all(map(_rises, sums, sums[1:])):
            return None
        found = Tally(rule=rule, prices=prices, entries=entries, blocks=tuple(sums[:-1]), total=sums[-1])
        return found if node.get("seal") == found._seal(head) else None


def _rises(before: Sums, after: Sums) -> bool:
    return all(earlier <= later for earlier, later in zip(before, after, strict=True))


def _write_number(sums: Sums) -> list[float | None]:
    """JSON has no infinity; a loss without a bound is null."""
    return [None if math.isinf(number) else number for number in sums]


def _read(row: object) -> Sums | None:
    if not isinstance(row, list) or len(row) != _NUMBERS:
        return None
    numbers = tuple(math.inf if number is None else number for number in row)
    return numbers if all(type(number) is float and number >= 0 for number in numbers) else None
