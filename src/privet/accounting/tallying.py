"""The sums of a ledger's filter: from the ledger's tally if it passes its checks, else from the entries."""

import math
from random import SystemRandom

from privet import events
from privet.accounting.filtering import Filtered, Spending, Used
from privet.accounting.fold import fold
from privet.adjacency import Adjacency
from privet.filters import Filter
from privet.ledger import Entry, Ledger
from privet.tallies import BLOCK, NOTHING, Sums, Tally

__all__ = ["PRICES", "spending_of", "tally_entries"]

PRICES = 1  # raise it whenever a price of ``filtering`` changes: older tallies are then ignored

_WORK = 2_500  # the number of plain events that are priced again when a tally is read
_QUICK = (
    *(events.Gaussian, events.Laplace, events.DiscreteGaussian, events.Opaque, events.ExponentialMechanism),
    *(events.ReportNoisyMax, events.SparseVector),
)
_SLOW = 30  # times the work of a plain event
_CLOSE, _ROUND_OFF = 1e-9, 1e-12  # of a block's own price; of the sums


def spending_of(tally: Tally) -> Spending:
    """The sums of a tally, in the form that the filter uses."""
    return Used(*tally.total[:3]), Used(*tally.total[3:])


def tally_entries(rule: Filter, ledger: Ledger) -> Tally:
    """The tally of all entries. It starts from the ledger's own tally if that passes its checks."""
    known = ledger.tally
    if known is None or not _serves(known, rule, ledger):
        known = Tally(rule=rule, prices=PRICES)
    blocks, total = list(known.blocks), known.total
    for place, entry in enumerate(ledger.entries[known.entries :], start=known.entries + 1):
        total = _add_entry(total, entry, rule, ledger.adjacency)
        if place % BLOCK == 0:
            blocks.append(total)
    return Tally(
        rule=rule, prices=PRICES, entries=len(ledger), blocks=tuple(blocks), total=total, is_checked=True
    )


def _serves(tally: Tally, rule: Filter, ledger: Ledger) -> bool:
    if tally.rule != rule or tally.prices != PRICES or tally.entries > len(ledger):
        return False
    return tally.is_checked or _holds(tally, ledger)


def _holds(tally: Tally, ledger: Ledger) -> bool:
    """Whether random blocks cost what the tally says. If that is little work, all blocks are checked."""
    ends = [NOTHING, *tally.blocks, tally.total]
    order = list(range(len(ends) - 1))
    SystemRandom().shuffle(order)
    work = 0
    for block in order:
        entries = ledger.entries[block * BLOCK : min((block + 1) * BLOCK, tally.entries)]
        total = NOTHING
        for entry in entries:
            total = _add_entry(total, entry, tally.rule, ledger.adjacency)
            work += 1 if isinstance(entry.event, _QUICK) else _SLOW
        if not all(map(_fits, total, ends[block], ends[block + 1])):
            return False
        if work > _WORK:
            break
    return True


def _fits(price: float, before: float, after: float) -> bool:
    if math.isinf(after):
        return math.isinf(before) or math.isinf(price)
    return abs(after - before - price) <= _CLOSE * price + _ROUND_OFF * after


def _add_entry(total: Sums, entry: Entry, rule: Filter, adjacency: Adjacency) -> Sums:
    first, second = fold(Filtered(rule), entry.event, adjacency)
    return tuple(map(sum, zip(total, (*first, *second), strict=True)))
