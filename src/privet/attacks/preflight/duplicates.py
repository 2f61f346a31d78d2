"""Copies and near copies between members and non-members: a non-member whose copy was trained on is no
non-member.
"""

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

from privet.arguments import fraction, whole
from privet.attacks.preflight.features import Features, project_randomly, standardize, to_numbers
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


def exact_duplicates(challenge: Challenge) -> Check:
    """Whether records occur on both sides, or more than once on one side, by a 128-bit hash of each."""
    name = "no record is on both sides"
    twins = _groups(challenge.records.inputs)
    across, within = _shares(twins, challenge.members)
    finding = (
        f"{across.sum()} of {across.size} records have an equal one on the other side, {within.sum()} have "
        f"one on their own."
    )
    if across.any() or within.mean() > _ACCEPTED:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice="Remove copies before the coin is tossed, or toss one coin for all copies of a record.",
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def near_duplicates(challenge: Challenge, *, fpr: float, seed: int = 0) -> Check:
    """Whether records have an almost equal one on the other side: ten times nearer than a usual nearest
    neighbour.

    Records are standardised and projected to 24 random directions; pairs come from 12 tables of random cells,
    each 4 times as wide as the distance looked for (Datar et al. 2004), so a pair at that distance is found
    with probability of about 0.9, and nearer ones almost surely. Where records fill d dimensions, a share of
    1 − 2^(−10^−d) is that near by chance; d is not the number of columns; it is estimated from the distances.
    The check warns above ``fpr`` and above three times that share: from there on copies decide the
    true-positive rate at that false-positive rate.
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
    if share > max(fpr, 3 * by_chance):
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Keep near copies (frames of a film, versions of a text) on one side, by one coin for each "
                "group of them."
            ),
        )
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
