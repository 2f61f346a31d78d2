"""The facts of a report on a table: uniqueness, classes, anonymity, and what a sample says about its
population.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privet.attacks.linkage import (
    Uniqueness,
    estimate_population_uniqueness,
    measure_anonymity,
    measure_presence,
    measure_uniqueness,
)
from privet.published_tables import PublishedTable
from privet.reporting.table_facts import (
    ClassBin,
    PopulationShare,
    TableFacts,
    UniquenessBySize,
    WorstSet,
)

__all__ = ["measure_table"]

_EDGES = (1, 2, 3, 5, 10, 20, 50, 100, 1000)  # each bin begins here


def measure_table(
    published: PublishedTable,
    quasi: Sequence[str],
    secret: str | None,
    *,
    largest: int | None,
    population: PublishedTable | None,
    fraction: float | None,
    confidence: float,
    rows_are_people: bool,
) -> TableFacts:
    """All measures of a table that need no adversary."""
    unique = measure_uniqueness(published, quasi, largest=largest)
    classes = measure_anonymity(published, quasi, secret)
    diversity = classes.diversity
    return TableFacts(
        rows=len(published),
        quasi=tuple(quasi),
        secret=secret,
        unique_share=unique.share,
        curve=_curve(unique),
        bins=_bins(unique.class_sizes),
        classes=classes.classes,
        k_anonymity=classes.k,
        l_diversity=None if diversity is None else diversity.distinct,
        l_entropy=None if diversity is None else diversity.entropy,
        t_closeness=None if diversity is None else diversity.closeness,
        t_ordered=None if diversity is None else diversity.ordered,
        homogeneous_share=None if diversity is None else diversity.homogeneous,
        rows_are_people=rows_are_people,
        presence=None if population is None else measure_presence(published, population, quasi),
        population=None if fraction is None else _population(unique.class_sizes, fraction, confidence),
    )


def _curve(unique: Uniqueness) -> tuple[UniquenessBySize, ...]:
    return tuple(
        UniquenessBySize(
            *each[:5],
            worst=tuple(WorstSet(found.columns, found.unique / unique.rows) for found in each.worst),
        )
        for each in unique.curve()
    )


def _bins(sizes: NDArray[np.int64]) -> tuple[ClassBin, ...]:
    """Classes by size, without empty bins; the last one ends at the largest class."""
    found = []
    for least, following in zip(_EDGES, [*_EDGES[1:], None], strict=True):
        here = sizes[(sizes >= least) & (True if following is None else sizes < following)]
        if len(here):
            most = int(here.max()) if following is None else following - 1
            found.append(ClassBin(least, most, len(here), int(here.sum())))
    return tuple(found)


def _population(sizes: NDArray[np.int64], fraction: float, confidence: float) -> PopulationShare:
    estimate = estimate_population_uniqueness(sizes, fraction, confidence=confidence)
    return PopulationShare(
        fraction=fraction,
        unique=estimate.share,
        between=estimate.share_between,
        of_unique_rows=estimate.of_unique,
        of_unique_rows_between=estimate.of_unique_between,
        confidence=estimate.confidence,
    )
