"""Copies and near copies between members and non-members: a non-member whose copy was trained on is no
non-member.
"""

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from privet.arguments import fraction, whole
from privet.attacks.preflight.false_alarms import LEVEL, draw_sides
from privet.attacks.preflight.features import Features, project_randomly, standardize, to_numbers
from privet.attacks.preflight.near_pairs import count_pairs_across
from privet.checks import Check, Outcome
from privet.record_hashes import hash_records
from privet.scores import Bits, Challenge
from privet.views import Rows

__all__ = ["exact_duplicates", "near_duplicates"]

_NEAR = 0.1  # of the usual distance to the nearest neighbour
_ASKED = 400  # records whose nearest neighbour is searched for
_AROUND = 20_000  # records among which it is searched for
_TABLES, _DIRECTIONS = 12, 8
_FOLLOWERS = 4  # neighbours in a cell that a record is compared with
_ACCEPTED = 0.01  # the share of copies within a side that is normal in real data
_PAIRED = 4000  # records of a side that are paired with their nearest
_COMPARED = 100  # records with copies whose nearest different record is searched for
_APART = 2  # columns, one for a number and two for a mark that moves from one column to another
_ORDERS = 3999  # of the coins
_SETS = 4000  # of equal records whose coins are counted
_KEEP_TOGETHER = (
    "Keep near copies (frames of a film, versions of a text, shifted images) on one side, by one coin for "
    "each group of them."
)


def exact_duplicates(challenge: Challenge, *, seed: int = 0) -> Check:
    """Whether records occur on both sides, or more than once on one side, by a 128-bit hash of each.

    Tables of few or coarse columns have equal records of different people. There, records that are equal in
    all but one or two columns are common too, and the check warns only where equal records lie across the
    sides, or within them, more often than coins put them.
    """
    name = "no record is on both sides"
    inputs, coin = challenge.records.inputs, challenge.members
    twins = _groups(inputs)
    across, within = _shares(twins, coin)
    finding = (
        f"{across.sum()} of {across.size} records have an equal one on the other side, {within.sum()} have "
        f"one on their own."
    )
    advice = "Remove copies before the coin is tossed, or toss one coin for all copies of a record."
    if not across.any() and within.mean() <= _ACCEPTED:
        return Check(name=name, outcome=Outcome.PASSED, finding=finding)
    generator = np.random.default_rng(whole("seed", seed, least=0))
    if not _equal_by_chance(inputs, twins, generator):
        return Check(name=name, outcome=Outcome.WARNED, finding=finding, advice=advice)
    chance = _probability_of_twins(twins, coin, generator)
    finding += (
        f" Records that differ in one or two columns are common too, so equal ones are no copies; as uneven "
        f"by chance in {chance:.2g} of cases."
    )
    if chance <= LEVEL:
        return Check(name=name, outcome=Outcome.WARNED, finding=finding, advice=advice)
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def near_duplicates(challenge: Challenge, *, fpr: float, seed: int = 0) -> Check:
    """Whether records have an almost equal one on the other side: ten times nearer than a usual nearest
    neighbour.

    Records are standardised and projected to 24 random directions; pairs come from 12 tables of random cells,
    each 4 times as wide as the distance looked for (Datar et al. 2004), so a pair at that distance is found
    with probability of about 0.9, and nearer ones almost surely. Where records fill d dimensions, a share of
    1 − 2^(−10^−d) is that near by chance; d is not the number of columns; it is estimated from the distances.
    The check warns above ``fpr`` and above three times that share: from there on copies decide the
    true-positive rate at that false-positive rate. It does not where near records differ in one or two
    columns only, as different people in a coarse table do.

    Copies that are further away (shifted by a pixel or two, mirrored, with noise) show in the nearest pairs,
    which then lie across the sides more often than coins put them (``preflight.near_pairs``).
    """
    name = "no near copies on the other side"
    fraction("fpr", fpr)
    generator = np.random.default_rng(whole("seed", seed, least=0))
    table = project_randomly(standardize(to_numbers(challenge.records.inputs)), generator)
    if not table.shape[1]:
        return Check(name=name, outcome=Outcome.SKIPPED, finding="All records are equal.")
    usual, dimensions = _nearest(table, generator)
    reach = _NEAR * usual
    if reach == 0:
        return Check(
            name=name,
            outcome=Outcome.SKIPPED,
            finding="Most records have an equal one, so nearness says nothing.",
        )
    across = _near_across(table, challenge.members, reach, generator)
    by_chance = 1 - 2.0 ** -(_NEAR**dimensions)
    share = float(across.mean())
    finding = (
        f"{across.sum()} of {across.size} records have a near copy on the other side that is not equal to "
        f"them."
    )
    flat = challenge.records.inputs.reshape(len(across), -1)
    if share > max(fpr, 3 * by_chance) and not _differ_in_few_columns(flat, across, generator):
        return Check(name=name, outcome=Outcome.WARNED, finding=finding, advice=_KEEP_TOGETHER)
    chosen = draw_sides(challenge, _PAIRED, generator)
    inputs = challenge.records.inputs[chosen]
    found = count_pairs_across(inputs, _groups(inputs), challenge.members[chosen], generator)
    if found.pairs:
        finding += (
            f" Of the {found.pairs} nearest pairs {found.across} lie across the sides; by chance in "
            f"{found.p_value:.2g} of cases."
        )
    if found.significant and 2 * found.copies > fpr * len(chosen):
        return Check(name=name, outcome=Outcome.WARNED, finding=finding, advice=_KEEP_TOGETHER)
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def _groups(inputs: Rows) -> NDArray[np.int64]:
    """A number for each record; only equal records have equal numbers."""
    if inputs.dtype.names is not None:  # several inputs
        return np.unique(hash_records(inputs), return_inverse=True)[1].astype(np.int64)
    flat = np.ascontiguousarray(inputs.reshape(len(inputs), -1))
    if flat.dtype.kind in "biuf":
        if flat.dtype.kind == "f":
            flat = np.add(flat, 0)  # −0 is 0
        texts = [hashlib.blake2b(row.data, digest_size=16).digest() for row in flat]
    else:
        texts = [hashlib.blake2b(repr(row.tolist()).encode(), digest_size=16).digest() for row in flat]
    _, numbers = np.unique(np.array(texts, dtype="S16"), return_inverse=True)
    return numbers.astype(np.int64)


def _shares(groups: NDArray[np.int64], coin: Bits) -> tuple[Bits, Bits]:
    """For each record whether the other side has an equal one, and whether its own side has another."""
    counts = np.stack([np.bincount(groups[side], minlength=int(groups.max()) + 1) for side in (~coin, coin)])
    own = coin.astype(np.int64)
    return counts[1 - own, groups] > 0, counts[own, groups] > 1


def _equal_by_chance(inputs: Rows, groups: NDArray[np.int64], generator: np.random.Generator) -> bool:
    """Whether equal records are to be expected: most of them have a different record that differs in few
    columns. With a single column: whether most records share their value.
    """
    flat = inputs.reshape(len(inputs), -1)
    if flat.shape[1] == 1:
        return len(np.unique(groups)) < len(groups) / 2
    return _differ_in_few_columns(flat, np.bincount(groups)[groups] > 1, generator)


def _differ_in_few_columns(flat: Rows, chosen: Bits, generator: np.random.Generator) -> bool:
    """Whether most of the chosen records have a different one that differs in at most two columns, and agrees
    in at least one that varies: then the table is coarse, and records are equal or nearly so by chance.
    """
    varying = [column for column in range(flat.shape[1]) if (flat[:, column] != flat[0, column]).any()]
    table = flat[:, varying]
    around = table[generator.permutation(len(table))[:_AROUND]]
    apart = []
    for row in table[generator.permutation(np.flatnonzero(chosen))[:_COMPARED]]:
        differing = (around != row).sum(axis=1)
        apart.append(int(differing[differing > 0].min(initial=len(varying))))
    return bool(apart) and float(np.median(apart)) <= min(_APART, len(varying) - 1)


def _probability_of_twins(groups: NDArray[np.int64], coin: Bits, generator: np.random.Generator) -> float:
    """How often coins in random order put pairs of equal records as unevenly across the sides, or more so:
    an exact Monte Carlo test (Barnard 1963), two-sided.
    """
    sizes = np.bincount(groups)
    sets = np.flatnonzero(sizes > 1)
    sets = generator.permutation(sets)[:_SETS]
    members = np.bincount(groups[coin], minlength=len(sizes))[sets]
    size = sizes[sets]
    total, count = len(coin), int(coin.sum())
    drawn = generator.multivariate_hypergeometric(
        np.append(size, total - size.sum()), count, size=_ORDERS, method="marginals"
    )[:, :-1]
    pairs = (drawn * (size - drawn)).sum(axis=1)
    found = int((members * (size - members)).sum())
    rarer = min(int((pairs >= found).sum()), int((pairs <= found).sum()))
    return min(1.0, 2.0 * (1 + rarer) / (1 + _ORDERS))


def _nearest(table: Features, generator: np.random.Generator) -> tuple[float, float]:
    """The median distance from a record to the nearest different one, and the dimension of the data.

    About a record in d dimensions the nearest is further than r with probability 2^(−(r/median)^d). So the
    distance that one in ten exceeds is (log₂ 10)^(1/d) medians. The upper quantile is used and not the lower
    one, because copies are near.
    """
    sample = table[generator.permutation(len(table))[:_ASKED]]
    around = table[generator.permutation(len(table))[:_AROUND]]
    nearest = []
    for row in sample:
        squares = np.square(around - row).sum(1)
        apart = squares[squares > 1e-10]
        nearest.append(float(apart.min()) ** 0.5 if apart.size else 0.0)
    usual, far = (float(distance) for distance in np.quantile(nearest, (0.5, 0.9)))
    columns = float(table.shape[1])
    if not 0 < usual < far:
        return usual, columns
    return usual, min(math.log(math.log2(10)) / math.log(far / usual), columns)


def _near_across(table: Features, coin: Bits, reach: float, generator: np.random.Generator) -> Bits:
    """Which records have another within ``reach``, but not at distance 0, on the other side."""
    near_copy = np.zeros(len(table), dtype=np.bool_)
    width = 4 * reach
    for _ in range(_TABLES):
        directions = generator.normal(size=(table.shape[1], _DIRECTIONS)).astype(np.float32)
        cells = np.floor(table @ directions / width + generator.uniform(size=_DIRECTIONS)).astype(np.int64)
        # An overflow wraps around, which a hash may do.
        keys = cells @ generator.integers(1, 2**62, size=_DIRECTIONS, dtype=np.int64)
        order = np.argsort(keys, kind="stable")
        for step in range(1, _FOLLOWERS + 1):
            first, second = order[:-step], order[step:]
            close = (keys[first] == keys[second]) & (coin[first] != coin[second])
            first, second = first[close], second[close]
            squares = np.square(table[first] - table[second]).sum(1)
            near = (squares <= reach * reach) & (squares > 1e-10)
            near_copy[first[near]] = True
            near_copy[second[near]] = True
    return near_copy
