"""Canary exposure: how much more likely a model finds a secret that it was trained on than all others.

The secrets of a format are ordered by the model's probability; the rank of a canary among them is 1 if no
other secret is as likely. Its exposure is log₂ |R| − log₂ rank: 0 bits if it comes last, log₂ |R| if it comes
first. A secret that the model never saw has a uniform rank, so its mean exposure is log₂ e ≈ 1.44 bits, and
not 0; ``compute_blind_exposure`` has it exactly.

In a space of up to ``largest_listed`` secrets all ranks are exact. In a larger one the likeliest secrets are
found by best-first search, and the exposure of the others is estimated with an interval
(``exposure_estimates``). A hit is a rank of at most ``hit_rank``, which is fixed beforehand; a rank that the
search did not establish is a miss. So hits are exact in both cases, and ``exposure_law`` holds for them.

*Repetitions*: a canary of k copies is k records. There is one list of recoveries for each k, to be held
against the claim for a group of k: ``claim.group(size=k)``.

*Reference*: Carlini, Liu, Erlingsson, Kos & Song 2019, "The secret sharer: evaluating and testing unintended
memorization in neural networks". Deviations: the secret is scored given the prefix and the format
(``prefix_tree``), without the suffix; ties count against the attack; coins decide which canaries are
inserted, so that a lower bound on ε follows.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from scipy.special import gammaln

from privet.arguments import open_fraction, whole
from privet.attacks.text.exposure_estimates import (
    ExposureIntervals,
    FormatDraws,
    bound_by_controls,
    draw_secrets,
    intersect,
    to_exposures,
)
from privet.attacks.text.prefix_tree import (
    LikeliestSecrets,
    find_likeliest,
    rank_in_space,
    score_secrets,
    score_space,
)
from privet.attacks.text.token_views import Tokens, TokenView
from privet.canary_formats import CanaryFormat, PlantedCanaries
from privet.errors import InvalidArgument
from privet.recoveries import Recoveries
from privet.scores import Bits, Scores
from privet.views import Adversary, Numbers

__all__ = ["CanaryExposure", "CopiesExposure", "ExposureResults", "SecretRanks", "compute_blind_exposure"]

_NAME = "canary exposure"
_BLIND = 1000  # by default a secret that the model never saw is a hit once in so many
_SEARCHED = 256  # the default hit rank in a space that is too large to list


def compute_blind_exposure(size: int) -> float:
    """The mean exposure of a secret that the model never saw: log₂ |R| − log₂(|R|!)/|R|, near 1.44 bits.

    >>> round(compute_blind_exposure(10**6), 2), compute_blind_exposure(2)
    (1.44, 0.5)
    """
    mean_log: float = float(gammaln(whole("size", size) + 1.0)) / size / math.log(2)
    return math.log2(size) - mean_log


@final
@dataclass(frozen=True, eq=False)
class SecretRanks:
    """Ranks (NaN where one is not known) and exposures of some secrets, with intervals.

    ``exact`` says for each whether its rank, and so its exposure, is exact.
    """

    ranks: Numbers
    exposures: ExposureIntervals

    @property
    def exact(self) -> Bits:
        """Whose rank is exact."""
        return ~np.isnan(self.ranks)

    def __add__(self, other: "SecretRanks") -> "SecretRanks":
        """Both lists, one after the other."""
        one, two = self.exposures, other.exposures
        return SecretRanks(
            np.concatenate([self.ranks, other.ranks]),
            ExposureIntervals(
                np.concatenate([one.estimates, two.estimates]),
                np.concatenate([one.lower, two.lower]),
                np.concatenate([one.upper, two.upper]),
                min(one.confidence, two.confidence),
            ),
        )


class CopiesExposure(NamedTuple):
    """The canaries of one number of copies; 0 copies are those that a coin left out and the controls."""

    copies: int
    canaries: int
    mean: float
    deviation: float


@final
@dataclass(frozen=True, eq=False)
class ExposureResults:
    """Exposures joined with the coins: canaries first, then the controls."""

    planted: PlantedCanaries
    found: SecretRanks
    hit_rank: int

    @property
    def by_copies(self) -> tuple[CopiesExposure, ...]:
        """Mean and standard deviation of the exposure for each number of copies, 0 first."""
        planted, values = self.planted, self.found.exposures.estimates
        trained = np.concatenate(
            [np.where(planted.coin, planted.copies, 0), np.zeros(len(planted.controls), dtype=np.int64)]
        )
        parts = [(int(times), values[trained == times]) for times in np.unique(trained)]
        return tuple(
            CopiesExposure(times, len(part), float(part.mean()), float(part.std())) for times, part in parts
        )

    def recoveries(self, copies: int) -> Recoveries:
        """Hits of the canaries of so many copies, of those that the coin left out, and of the controls.

        Hold them against the claim for a group of so many records. The confidence orders canaries by their
        exposure, so ``to_scores`` does, too.
        """
        which = self._of_copies(copies)
        exposures = self.found.exposures.estimates[which]
        threshold = float(to_exposures(np.array([self.hit_rank]), self.planted.format.size)[0])
        ranks = self.found.ranks[which]
        return Recoveries(
            f"{_NAME}, {copies} {'copy' if copies == 1 else 'copies'}",
            _ADVERSARY,
            f"among the {self.hit_rank:,} likeliest of {self.planted.format.size:,} secrets",
            ranks <= self.hit_rank,
            self._members()[which],
            distances=ranks,
            confidence=np.abs(exposures - threshold),
        )

    def scores(self, copies: int) -> Scores:
        """Exposures as scores of the coin, for audits that look at more than one rank."""
        which = self._of_copies(copies)
        return Scores(self.found.exposures.estimates[which], self._members()[which], _NAME)

    def _members(self) -> Bits:
        return np.concatenate([self.planted.coin, np.zeros(len(self.planted.controls), dtype=np.bool_)])

    def _of_copies(self, copies: int) -> np.ndarray:
        chosen = np.flatnonzero(self.planted.copies == copies)
        if not len(chosen):
            raise InvalidArgument(
                f"'copies' must be one of those that were planted, "
                f"{sorted(set(self.planted.copies.tolist()))}, got {copies}. Ask for one of these."
            )
        controls = len(self.planted) + np.arange(len(self.planted.controls))
        return np.concatenate([chosen, controls])


_ADVERSARY = Adversary(
    sees="the probability of every next token",
    knows="the format of the canaries, and every secret that may have been inserted",
    wants="which secrets were inserted",
)


@final
@dataclass(frozen=True)
class CanaryExposure:
    """Ranks canaries among all secrets of their format.

    *Adversary*: sees the probability of every next token; knows the format and the secrets, and not the
    coins; wants which secrets were inserted.

    ``hit_rank`` is the largest rank of a hit: by default |R|/1000 where all secrets are listed, so that a
    secret which the model never saw is a hit once in 1000, and 256 otherwise. Spaces above ``largest_listed``
    are searched: ``nodes`` inner nodes are asked of the model, and ``draws`` secrets are drawn, half of them
    from it. ``seed`` is that of the draws.

    *Reference*: Carlini et al. 2019; see this module.
    """

    hit_rank: int | None = None
    largest_listed: int = 2_000_000
    nodes: int = 4096
    draws: int = 2048
    confidence: float = 0.95
    seed: int = 0

    name = _NAME
    adversary = _ADVERSARY

    def __post_init__(self) -> None:
        if self.hit_rank is not None:
            whole("hit_rank", self.hit_rank)
        whole("largest_listed", self.largest_listed), whole("nodes", self.nodes), whole("draws", self.draws)
        open_fraction("confidence", self.confidence)
        whole("seed", self.seed, least=0)

    def rank(
        self,
        view: TokenView,
        format: CanaryFormat,
        secrets: Tokens,
        *,
        controls: Tokens | None = None,
    ) -> SecretRanks:
        """Rank and exposure of each secret. ``controls`` are fresh ones, and narrow the intervals."""
        secrets = format.check(secrets)
        if format.size <= self.largest_listed:
            scores = score_space(view, format)
            ranks = rank_in_space(scores, scores[format.locate(secrets)])
            exact = to_exposures(ranks, format.size)
            return SecretRanks(ranks, ExposureIntervals(exact, exact, exact, 1.0))
        beside = None if controls is None else score_secrets(view, format, controls)
        return self._search(view, format).rank(score_secrets(view, format, secrets), beside)

    def run(self, view: TokenView, planted: PlantedCanaries) -> ExposureResults:
        """Rank all canaries and controls; the coins are joined afterwards."""
        format, controls = planted.format, planted.controls
        if format.size <= self.largest_listed:
            found = self.rank(view, format, np.concatenate([planted.secrets, controls]))
        else:
            searched, beside = self._search(view, format), score_secrets(view, format, controls)
            own = score_secrets(view, format, planted.secrets)
            # A control is not its own control: its interval comes from the draws alone.
            found = searched.rank(own, beside if len(beside) > 1 else None) + searched.rank(beside, None)
        return ExposureResults(planted, found, self._hit_rank(format))

    def _search(self, view: TokenView, format: CanaryFormat) -> "_SearchedSpace":
        return _SearchedSpace(
            format,
            find_likeliest(view, format, self._hit_rank(format), nodes=self.nodes),
            draw_secrets(view, format, self.draws, generator=np.random.default_rng(self.seed)),
            self.confidence,
        )

    def _hit_rank(self, format: CanaryFormat) -> int:
        if self.hit_rank is not None:
            return min(self.hit_rank, format.size)
        return max(format.size // _BLIND, 1) if format.size <= self.largest_listed else _SEARCHED


@final
@dataclass(frozen=True, eq=False)
class _SearchedSpace:
    """What is known of a space that is too large to list: its likeliest secrets, and draws."""

    format: CanaryFormat
    likeliest: LikeliestSecrets
    drawn: FormatDraws
    confidence: float

    def rank(self, own: Numbers, controls: Numbers | None) -> SecretRanks:
        """Exact where the search found the rank; else an estimate, from the draws and the controls."""
        level = self.confidence
        if controls is None:
            bounds = self.drawn.bound(own, confidence=level)
        else:
            half = (1 + level) / 2
            bounds = intersect(
                self.drawn.bound(own, confidence=half),
                bound_by_controls(own, controls, bits=self.format.bits, confidence=half),
                level,
            )
        ranks = self.likeliest.rank(own)
        exact = to_exposures(ranks, self.format.size)
        estimates, lower, upper = (
            np.where(np.isnan(ranks), part, exact) for part in (bounds.estimates, bounds.lower, bounds.upper)
        )
        return SecretRanks(ranks, ExposureIntervals(estimates, lower, upper, level))
