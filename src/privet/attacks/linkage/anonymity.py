"""k-anonymity, l-diversity, t-closeness and δ-presence of a table.

Rows that agree in all quasi-identifiers form a class. The four measures are about classes:

- *k-anonymity* (Sweeney 2002): the smallest class has k rows. It says nothing about what the rows share.
- *l-diversity* (Machanavajjhala et al. 2007): every class has l distinct values of the secret; or the entropy
  of the secret in each class is at least ln l. It says nothing about how alike the values are, or how rare.
- *t-closeness* (Li, Li & Venkatasubramanian 2007): in every class the secret is distributed as in the whole
  table up to t, in earth mover's distance. Values without an order are all equally far apart: the distance
  is ½ Σ|p − q|. Between m ordered values it is Σ_v |P(v) − Q(v)|/(m − 1), with distribution functions P, Q.
- *δ-presence* (Nergiz, Atzori & Clifton 2007): given the class of a person in a public table, the share of
  that class that is in the release: how sure a reader can be that the person is in it, or is not.

None of them bounds what an adversary with other knowledge learns; ``secret_guesses`` and ``composition`` are
the attacks on tables that pass them. A missing value is a value of its own, and comes first in the order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.linkage.class_values import ClassValues
from privet.attacks.linkage.unique_counts import number_classes
from privet.attacks.linkage.uniqueness import check_quasi
from privet.bounds import Interval
from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.published_tables import PublishedTable, ValueKind

__all__ = ["Anonymity", "Diversity", "measure_anonymity", "measure_presence"]

_Codes: TypeAlias = NDArray[np.int64]
_Floats: TypeAlias = NDArray[np.float64]


@final
@dataclass(frozen=True)
class Diversity:
    """The secret within classes, in the worst class of each measure.

    ``distinct`` is l by distinct values, ``entropy`` is l by entropy, ``closeness`` is t. ``ordered`` says
    whether the distance of t knows an order. ``homogeneous`` is the share of rows in a class where everybody
    has the same value.
    """

    secret: str
    distinct: int
    entropy: float
    closeness: float
    ordered: bool
    homogeneous: float


@final
@dataclass(frozen=True)
class Anonymity:
    """The smallest class, the number of classes, and the secret within them where one was named."""

    k: int
    classes: int
    rows: int
    diversity: Diversity | None = None


def measure_anonymity(table: PublishedTable, quasi: Sequence[str], secret: str | None = None) -> Anonymity:
    """k-anonymity by these quasi-identifiers, and l-diversity and t-closeness of a secret.

    >>> table = PublishedTable.of({"age": [55, 55, 60, 60], "disease": ["flu", "cancer", "flu", "flu"]})
    >>> found = measure_anonymity(table, ["age"], "disease")
    >>> found.k, found.diversity.distinct, found.diversity.homogeneous, found.diversity.closeness
    (2, 1, 0.5, 0.25)
    """
    names = check_quasi(table, quasi, secret)
    classes, sizes = number_classes(table.combine(names))
    diversity = None
    if secret is not None:
        column = table[secret]
        ordered = column.kind is not ValueKind.TEXT
        diversity = _measure_diversity(secret, classes, sizes, column.codes, ordered=ordered)
    return Anonymity(int(sizes.min()), len(sizes), len(table), diversity)


def measure_presence(published: PublishedTable, population: PublishedTable, quasi: Sequence[str]) -> Interval:
    """The smallest and the largest share of a class of the population that is in the release.

    The release is a part of the population. A person whose class of the population is wholly in the release
    is known to be in it (1); one whose class is not there at all is known not to be (0).

    >>> people = PublishedTable.of({"age": [55, 55, 60, 60]})
    >>> measure_presence(PublishedTable.of({"age": [55, 60, 60]}), people, ["age"])
    Interval(lower=0.5, upper=1.0)
    """
    names = check_quasi(published, quasi)
    lacking = [name for name in names if name not in population]
    if lacking:
        raise InvalidArgument(
            f"'population' must have every quasi-identifier, and lacks {len(lacking)} of {len(names)}. Give "
            f"a table with the same columns, or name fewer quasi-identifiers."
        )
    codes, _ = number_classes(published.select(names).below(population.select(names)).combine(names))
    width = int(codes.max()) + 1
    inside = np.bincount(codes[: len(published)], minlength=width)
    everyone = np.bincount(codes[len(published) :], minlength=width)
    if (inside > everyone).any():
        raise InvalidArgument(
            "'population' must hold everybody who is in the table, and some classes of the table are larger "
            "than those of the population. Give a population table in the same form, generalised in the "
            "same way."
        )
    shares = inside[everyone > 0] / everyone[everyone > 0]
    return Interval(float(shares.min()), float(shares.max()))


def _measure_diversity(
    secret: str, classes: _Codes, sizes: _Codes, codes: _Codes, *, ordered: bool
) -> Diversity:
    values = ClassValues(classes, number_classes(codes)[0])
    pair_classes, pair_values, counts = values.pairs
    shares = counts / sizes[pair_classes]
    distinct = np.diff(values.starts)
    entropies = np.bincount(pair_classes, weights=-shares * np.log(shares), minlength=len(sizes))
    overall = np.bincount(values.values) / len(codes)
    distances = (
        _ordered_distances(values, shares, overall)
        if ordered
        # ½ Σ|p − q| = Σ (p − q)⁺, and p > q only where the value is in the class.
        else np.bincount(
            pair_classes, weights=np.maximum(shares - overall[pair_values], 0.0), minlength=len(sizes)
        )
    )
    return Diversity(
        secret=secret,
        distinct=int(distinct.min()),
        entropy=float(np.exp(max(entropies.min(), 0.0))),
        closeness=float(min(distances.max(), 1.0)),
        ordered=ordered,
        homogeneous=float(sizes[distinct == 1].sum() / len(codes)),
    )


def _ordered_distances(values: ClassValues, shares: _Floats, overall: _Floats) -> _Floats:
    """Σ_v |P(v) − Q(v)|/(m − 1) of each class, without a matrix of classes × values.

    P is constant between the values of a class. Q grows, so on such a stretch |P − Q| changes its sign once,
    at a place that binary search finds, and sums of Q are differences of its running sums.
    """
    classes, places, _ = values.pairs
    count, number = len(values.starts) - 1, len(overall)
    if number < 2:
        return np.zeros(count)
    cumulative = np.minimum(np.cumsum(overall), 1.0)
    sums = np.concatenate([[0.0], np.cumsum(cumulative)])
    running = np.cumsum(shares)
    before = running[values.starts[:-1]] - shares[values.starts[:-1]]
    levels = running - before[classes]
    ends = np.append(places[1:], number)
    ends[values.starts[1:] - 1] = number  # the last value of a class reaches to the end
    middles = np.clip(np.searchsorted(cumulative, levels), places, ends)
    stretches = levels * (2 * middles - places - ends) + sums[ends] + sums[places] - 2 * sums[middles]
    firsts = sums[places[values.starts[:-1]]]  # below the first value of a class P is 0
    distances: _Floats = np.bincount(classes, weights=stretches, minlength=count) + firsts
    return distances / (number - 1)


check_public_calls(__name__)
