"""Record linkage: which row of a published table is each person's of whom a second table tells who they are.

>>> births = np.datetime64("1950-01-01") + 97 * np.arange(200)
>>> zips = [f"{2100 + k % 20:05}" for k in range(200)]
>>> patients = PublishedTable.of({"birth": births, "zip": zips})
>>> voters = PublishedTable.of({"name": ["Ann", "Bob"], "birth": births[[70, 3]], "zip": ["02110", "02103"]})
>>> RecordLinkage().link(patients, voters).rows.tolist()
[70, 3]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from privet.arguments import open_fraction, whole
from privet.attacks.linkage.records.agreement import ComparedTables, Levels
from privet.attacks.linkage.records.assignment import BestRows, assign_rows, choose_rows
from privet.attacks.linkage.records.blocking import CandidatePairs, block_rows
from privet.attacks.linkage.records.comparisons import ValueComparison
from privet.attacks.linkage.records.model import AgreementModel, Evidence, fit_agreement
from privet.errors import InvalidArgument
from privet.published_tables import PublishedTable
from privet.randomness import experiment
from privet.recoveries import Recoveries
from privet.views import Adversary, Numbers

__all__ = ["Links", "RecordLinkage"]

_MOST_COLUMNS = 200
_DECOYS = 1000
_SAMPLED = 100_000  # other pairs, whose levels stand for those of all pairs that were not compared


@final
@dataclass(frozen=True, eq=False)
class Links:
    """What a linkage found: the row of each known person, and how sure it is.

    ``rows`` is −1 where it abstains. ``best`` is the likeliest row, also where it is not likely enough.
    ``confidence`` is the log odds of ``best`` by the model, and ``threshold`` what a claim had to exceed.
    ``levels`` are the levels of agreement of each column in words, to be read beside ``model.m`` and
    ``model.u``.
    """

    rows: NDArray[np.int64]
    best: NDArray[np.int64]
    confidence: Numbers
    columns: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    model: AgreementModel
    compared: int
    threshold: float

    @property
    def probability(self) -> Numbers:
        """The probability of ``best`` by the model."""
        return np.asarray(expit(self.confidence))

    def __repr__(self) -> str:
        claimed = int((self.rows >= 0).sum())
        return f"Links({claimed:,} of {len(self.rows):,} claimed, by {', '.join(self.columns)})"


@final
@dataclass(frozen=True)
class RecordLinkage:
    """Fellegi–Sunter linkage of a published table with a table of known people.

    Columns of the same name are compared: names by Jaro–Winkler, codes by edits, dates by their parts,
    numbers by their distance, or as ``comparisons`` says. What an agreement is worth is learnt from the two
    tables; no true link is used. A row is claimed if its probability is above ``threshold``.

    *Adversary*: sees the published table; knows a table of people with some of its columns; wants the row
    of each of them. A hit among people in the table is the right row; a hit among people who are not in it
    is any row at all. So the baseline is the rate "absent, and still found".

    Columns depend on each other (a zip code and a town), which the model does not know; then it is too sure.
    ``absent_rate`` raises the threshold so far that at most this share of absent people is claimed: published
    rows play people of whom it is known that all other rows are somebody else's. This holds if absent people
    are like published ones (split conformal prediction).

    *Reference*: ``model``, ``agreement`` and ``blocking`` name the papers and the deviations from them.
    """

    comparisons: Mapping[str, ValueComparison] = field(default_factory=dict)
    threshold: float = 0.5
    absent_rate: float | None = None
    one_to_one: bool = False
    frequencies: bool = True
    pairs_per_row: int = 60
    seed: int = 0

    name = "record linkage"
    adversary = Adversary(
        sees="the published table",
        knows="a table of people, with some of its columns",
        wants="the published row of each of these people",
    )

    def __post_init__(self) -> None:
        if not 0.5 <= self.threshold < 1:
            raise InvalidArgument(
                f"'threshold' must be at least 0.5 and below 1, got {self.threshold:g}. Below 0.5 another "
                f"row may be as likely as the one that is claimed."
            )
        if self.absent_rate is not None:
            open_fraction("absent_rate", self.absent_rate)
        whole("pairs_per_row", self.pairs_per_row)
        whole("seed", self.seed, least=0)

    def link(self, published: PublishedTable, known: PublishedTable) -> Links:
        """The published row of each known person, by the two tables alone.

        The answer does not depend on the order of rows: they are sorted by what they say before anything
        is drawn.
        """
        self._check_tables(published, known)
        compared = ComparedTables.of(known, published, self.comparisons)
        known_order, published_order = _sort_rows(compared.known), _sort_rows(compared.published)
        rows = np.concatenate([known_order, len(known) + published_order])
        compared = ComparedTables(compared.stacked.take(rows), len(known), compared.comparisons)
        pairs = self._block(compared)
        evidence = self._gather(compared, pairs, compared.corrections)
        model = fit_agreement(evidence)
        found, least = self._decide(model, evidence, pairs), float(logit(self.threshold))
        if self.absent_rate is not None and model.is_supported:
            least = max(least, self._calibrate(compared, model))
        back = np.empty(len(known), dtype=np.intp)
        back[known_order] = np.arange(len(known))
        best = np.where(found.rows >= 0, published_order[found.rows], -1)[back]
        confidence = found.log_odds[back]
        return Links(
            rows=np.where(confidence > least, best, -1),
            best=best,
            confidence=confidence,
            columns=compared.stacked.names,
            levels=compared.level_names,
            model=model,
            compared=len(pairs),
            threshold=least,
        )

    def run(self, published: PublishedTable, known: PublishedTable, truth: NDArray[np.int64]) -> Recoveries:
        """Link, and join the truth: the published row of each known person, or −1 if they have none.

        Where all known people are in the table the baseline is a row that is drawn at random.
        """
        truth = np.asarray(truth)
        if truth.shape != (len(known),) or truth.dtype.kind not in "iu":
            raise InvalidArgument(
                f"'truth' must be a row number for each of {len(known)} known people, got an array of shape "
                f"{truth.shape}. Give −1 for people who are not in the published table."
            )
        if ((truth < -1) | (truth >= len(published))).any() or (truth < 0).all():
            raise InvalidArgument(
                f"'truth' must be row numbers below {len(published)}, or −1 for absent people, with one "
                f"person at least who is in the table. Number the rows of the published table from 0."
            )
        links = self.link(published, known)
        members = truth >= 0
        hits = np.where(members, links.rows == truth, links.rows >= 0)
        drawn = experiment(self.seed).integers(0, len(published), len(known))
        return Recoveries(
            self.name,
            self.adversary,
            "the claimed row is the person's own; for an absent person, any claim",
            hits,
            None if members.all() else members,
            (drawn == truth) if members.all() else None,
            confidence=links.confidence,
        )

    def _check_tables(self, published: PublishedTable, known: PublishedTable) -> None:
        for name, table in (("published", published), ("known", known)):
            if len(table) == 0:
                raise InvalidArgument(
                    f"'{name}' must have at least one row, got none. Give the people's rows."
                )
        common = [name for name in known.names if name in published]
        if not common:
            raise InvalidArgument(
                "'known' must have a column of the published table, got none with the same name. Rename its "
                "columns as in the published table."
            )
        if len(common) > _MOST_COLUMNS:
            raise InvalidArgument(
                f"'known' must share at most {_MOST_COLUMNS} columns with the published table, got "
                f"{len(common)}. Select the columns that tell people apart."
            )
        if all(known[name].missing.all() or published[name].missing.all() for name in common):
            raise InvalidArgument(
                "'known' must have values in a column that the published table has too, got missing values "
                "only. Give a column that both tables fill in."
            )
        strange = [name for name in self.comparisons if name not in common]
        if strange:
            raise InvalidArgument(
                f"'comparisons' must name columns of both tables, got {strange[0]!r}. Take a name from "
                f"{', '.join(repr(name) for name in common[:8])}."
            )

    def _block(self, compared: ComparedTables) -> CandidatePairs:
        return block_rows(
            compared.known, compared.published, most_pairs=self.pairs_per_row * len(compared.stacked)
        )

    def _gather(
        self, compared: ComparedTables, pairs: CandidatePairs, corrections: list[Numbers]
    ) -> Evidence:
        levels = compared.grade(pairs.known, pairs.published)
        known, published = len(compared.known[0]), len(compared.published[0])
        return Evidence.of(
            pairs.known,
            levels,
            self._correct(compared, pairs, levels, corrections),
            self._sample_others(compared, pairs, known, published),
            sizes=tuple(len(names) for names in compared.level_names),
            known=known,
            published=published,
        )

    def _correct(
        self, compared: ComparedTables, pairs: CandidatePairs, levels: Levels, corrections: list[Numbers]
    ) -> Numbers:
        if not self.frequencies:
            return np.zeros(len(pairs))
        return compared.frequency_weights(pairs.known, levels, corrections)

    def _sample_others(
        self, compared: ComparedTables, pairs: CandidatePairs, known: int, published: int
    ) -> Levels:
        """The levels of pairs that are no candidates: all of them if they are few, else a sample."""
        total = known * published
        drawn = (
            np.arange(total)
            if total <= _SAMPLED
            else experiment(self.seed).integers(0, total, _SAMPLED, dtype=np.int64)
        )
        candidates = pairs.known.astype(np.int64) * published + pairs.published
        others = drawn[~np.isin(drawn, candidates)]
        return compared.grade((others // published).astype(np.intp), (others % published).astype(np.intp))

    def _calibrate(self, compared: ComparedTables, model: AgreementModel) -> float:
        """The log odds that at most the chosen share of absent people exceeds."""
        rate = 1.0 if self.absent_rate is None else self.absent_rate
        published = len(compared.published[0])
        drawn = np.sort(experiment(self.seed).permutation(published)[:_DECOYS])
        decoys = compared.replay_published(drawn)
        pairs = self._block(decoys)
        others = pairs.published != drawn[pairs.known]
        pairs = CandidatePairs(pairs.known[others], pairs.published[others])
        levels = decoys.grade(pairs.known, pairs.published)
        evidence = Evidence.of(
            pairs.known,
            levels,
            self._correct(decoys, pairs, levels, compared.corrections),
            levels[:0],
            sizes=tuple(len(names) for names in decoys.level_names),
            known=len(drawn),
            published=published,
        )
        found = np.sort(choose_rows(pairs, model.log_odds(evidence), len(drawn)).log_odds)
        rank = int(np.ceil((1 - rate) * (len(found) + 1)))
        return float(found[rank - 1]) if rank <= len(found) else np.inf

    def _decide(self, model: AgreementModel, evidence: Evidence, pairs: CandidatePairs) -> BestRows:
        if not model.is_supported:
            return BestRows.none(evidence.known)
        odds = model.log_odds(evidence)
        if self.one_to_one:
            return assign_rows(pairs, odds, evidence.known, evidence.published)
        return choose_rows(pairs, odds, evidence.known)


def _sort_rows(columns: list[NDArray[np.int64]]) -> NDArray[np.intp]:
    return np.lexsort(columns[::-1])
