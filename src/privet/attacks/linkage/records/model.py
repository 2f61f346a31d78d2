"""What each level of agreement is worth, learnt from the two tables without knowing one true link.

Fellegi & Sunter 1969: in each column c a level l of agreement has the probability m_c(l) if two rows are of
the same person, and u_c(l) if they are not; columns are independent given that. The likelihood ratio of a
pair is the product of m/u over its columns. m, u and the share π of known people who are in the published
table are found by expectation–maximisation (Winkler 1988).

A known person has one published row at most. So the hidden variable of a known person is which row it is, or
none. Before looking all rows are equally likely, and with LR_j the likelihood ratio with row j of n

    P[row j] = (π/n) LR_j / ((1 − π) + (π/n) Σ_k LR_k).

Two rows that fit equally well have at most ½ each: a tie is never claimed at a threshold of ½ or more.

*Deviation* from Fellegi & Sunter: this constraint (Sadinle 2017 has it on both sides), in place of pairs that
are judged each by itself; and pairs that no blocking pass found count as different people. Their levels are
known from a random sample of them, which enters the M step with the weight of all of them. So u is that of
all pairs, and not that of candidates, which agree too often. The penalty of ``PSEUDO_MATCHES`` matches with
usual errors keeps m away from 0 and 1. The penalised likelihood rises with every step.

Chance alone makes some pairs agree well, and m can be fitted to these. So the model must explain the tables
better than "nobody is in both", by a kind of Bayesian information criterion; else ``is_supported`` is False.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.linkage.records.agreement import Levels
from privet.views import Numbers

__all__ = ["AgreementModel", "Evidence", "fit_agreement"]

PSEUDO_MATCHES = 2.0
_USUAL_EQUAL, _USUAL_DIFFERS = 0.85, 0.05  # of a match; the levels between share the rest
_PSEUDO_PAIRS = 0.5
_STEPS, _ENOUGH = 200, 1e-7
_FLOOR = 1e-12


@final
@dataclass(frozen=True, eq=False)
class Evidence:
    """The candidate pairs as patterns of levels, and a sample of all other pairs.

    ``rows`` is the known row of each pair. ``patterns`` are the distinct rows of levels, ``which`` the
    pattern of each pair. ``sampled`` has the number of other pairs with each level, column by column.
    """

    rows: NDArray[np.intp]
    patterns: Levels
    which: NDArray[np.intp]
    corrections: Numbers
    sampled: tuple[Numbers, ...]
    sizes: tuple[int, ...]
    known: int
    published: int

    @classmethod
    def of(
        cls,
        rows: NDArray[np.intp],
        levels: Levels,
        corrections: Numbers,
        others: Levels,
        *,
        sizes: tuple[int, ...],
        known: int,
        published: int,
    ) -> "Evidence":
        """The evidence of candidate pairs, where ``others`` are the levels of a sample of the other pairs."""
        left = float(known) * published - len(rows)
        weight = left / len(others) if len(others) else 0.0
        sampled = tuple(
            weight * np.bincount(others[:, place][others[:, place] >= 0], minlength=size).astype(np.float64)
            for place, size in enumerate(sizes)
        )
        keys = np.zeros(len(levels), dtype=np.int64)
        for place, size in enumerate(sizes):
            keys = keys * (size + 1) + (levels[:, place] + 1)
            if place % 12 == 11:  # patterns stay small numbers, however many columns there are
                keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        _, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return cls(rows, levels[first], which.astype(np.intp), corrections, sampled, sizes, known, published)

    def count_levels(self, weights: Numbers) -> list[Numbers]:
        """The sum of the pairs' weights at each level, column by column."""
        totals = np.bincount(self.which, weights=weights, minlength=len(self.patterns))
        answer: list[Numbers] = []
        for place, size in enumerate(self.sizes):
            seen = self.patterns[:, place] >= 0
            counts = np.bincount(self.patterns[seen, place], weights=totals[seen], minlength=size)
            answer.append(counts.astype(np.float64, copy=False))
        return answer


@final
@dataclass(frozen=True, eq=False)
class AgreementModel:
    """m and u of each level, column by column, and the share π of known people who are published."""

    m: tuple[Numbers, ...]
    u: tuple[Numbers, ...]
    share: float
    objectives: tuple[float, ...] = ()
    gain: float = 0.0

    @property
    def is_supported(self) -> bool:
        """Whether the tables say that somebody is in both."""
        return self.gain > 0

    def log_ratios(self, evidence: Evidence) -> Numbers:
        """log m/u of each candidate pair, over all columns."""
        total = np.zeros(len(evidence.patterns))
        for place, (m, u) in enumerate(zip(self.m, self.u, strict=True)):
            weights = np.append(np.log(m) - np.log(u), 0.0)  # the last one is for −1, a missing value
            total += weights[evidence.patterns[:, place]]
        answer: Numbers = total[evidence.which] + evidence.corrections
        return answer

    def log_odds(self, evidence: Evidence) -> Numbers:
        """The log odds of each candidate pair against "this person is not in the table"."""
        prior = np.log(self.share) - np.log(evidence.published) - np.log1p(-self.share)
        answer: Numbers = self.log_ratios(evidence) + prior
        return answer


def fit_agreement(evidence: Evidence) -> AgreementModel:
    """m, u and π that explain the tables best; ``objectives`` has the penalised likelihood of every step."""
    usual = [_usual_match(size) for size in evidence.sizes]
    counts = evidence.count_levels(np.ones(len(evidence.which)))
    model = AgreementModel(
        tuple(usual), tuple(_shares(a + b) for a, b in zip(counts, evidence.sampled, strict=True)), 0.5
    )
    history: list[float] = []
    for _ in range(_STEPS):
        chances, evidence_of_rows = _normalize(model.log_ratios(evidence), evidence, model.share)
        history.append(evidence_of_rows + _fixed_part(model, evidence, counts, usual))
        if len(history) > 1 and history[-1] - history[-2] < _ENOUGH * evidence.known:
            break
        matched = evidence.count_levels(chances)
        m = [PSEUDO_MATCHES * prior + part for prior, part in zip(usual, matched, strict=True)]
        u = [
            np.maximum(total - part, 0.0) + other
            for total, part, other in zip(counts, matched, evidence.sampled, strict=True)
        ]
        share = (float(chances.sum()) + 0.5) / (evidence.known + 1.0)
        model = AgreementModel(
            tuple(part / part.sum() for part in m), tuple(_shares(part) for part in u), share
        )
    # The penalties of both sides at their best, so that only the tables are compared.
    nobody = np.log(0.5) + sum(
        float(((a + b + _PSEUDO_PAIRS) * np.log(_shares(a + b))).sum())
        + float((PSEUDO_MATCHES * prior * np.log(prior)).sum())
        for a, b, prior in zip(counts, evidence.sampled, usual, strict=True)
    )
    # What choosing m freely is worth by itself: as in the Bayesian information criterion, with the matches as
    # the sample and the pseudo-matches as what was known before.
    parameters = 1 + sum(size - 1 for size in evidence.sizes)
    matches = model.share * evidence.known
    gain = history[-1] - nobody - 0.5 * parameters * np.log1p(matches / PSEUDO_MATCHES)
    return AgreementModel(model.m, model.u, model.share, tuple(history), float(gain))


def _normalize(log_ratios: Numbers, evidence: Evidence, share: float) -> tuple[Numbers, float]:
    """P[row j] of each candidate pair, and the logarithm of the denominators, summed over known people."""
    rows, count = evidence.rows, evidence.known
    log_prior = np.log(share) - np.log(evidence.published)
    log_none = np.log1p(-share)
    scaled = log_ratios + log_prior
    highest = np.full(count, log_none)
    np.maximum.at(highest, rows, scaled)
    parts = np.exp(scaled - highest[rows])
    totals = np.bincount(rows, weights=parts, minlength=count) + np.exp(log_none - highest)
    chances: Numbers = parts / totals[rows]
    return chances, float((np.log(totals) + highest).sum())


def _fixed_part(
    model: AgreementModel, evidence: Evidence, counts: list[Numbers], usual: list[Numbers]
) -> float:
    """The part of the penalised likelihood that needs no sum over rows: u of all pairs, and the penalty."""
    total = 0.5 * (np.log(model.share) + np.log1p(-model.share))
    for m, u, seen, other, prior in zip(model.m, model.u, counts, evidence.sampled, usual, strict=True):
        total += float(((seen + other + _PSEUDO_PAIRS) * np.log(u)).sum())
        total += float((PSEUDO_MATCHES * prior * np.log(m)).sum())
    return float(total)


def _usual_match(levels: int) -> Numbers:
    """How often a match agrees at each level, before anything is seen."""
    answer = np.full(levels, (1 - _USUAL_EQUAL - _USUAL_DIFFERS) / max(levels - 2, 1))
    answer[0], answer[-1] = _USUAL_EQUAL, _USUAL_DIFFERS
    return np.asarray(answer / answer.sum())


def _shares(counts: Numbers) -> Numbers:
    smoothed = counts + _PSEUDO_PAIRS
    return np.asarray(smoothed / smoothed.sum())
