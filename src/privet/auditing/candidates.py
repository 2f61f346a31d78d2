"""ε from one run without a coin: an attack names secrets that were drawn from k public candidates.

Every target i is in the data with a secret Sᵢ, drawn independently and uniformly from k candidates, all
others fixed or random. The attack sees the output and names a candidate for r of m targets. Let pⱼ be the
probability that exactly j of its r names are right. If exchanging one target's secret is f-DP, then for every
c, with f̄ = 1 − f,

    Σ_{j ≥ c} j·pⱼ/m  ≤  f̄( 1/(k − 1) · Σ_{j ≥ c−1} (r − j)·pⱼ/m ).

*Proof.* Fix i, the other secrets, and two candidates v ≠ w for target i. Let E be the outputs for which the
attack names v for target i and at least c − 1 of its other names are right. E does not depend on Sᵢ, so P[E |
Sᵢ = v] ≤ f̄(P[E | Sᵢ = w]). Average over i, the other secrets, v and w; f̄ is concave, so Jensen's inequality
allows it inside. On the left E means "i is right, and at least c are right in all": the mean over i is Σ_{j ≥
c} j·pⱼ/m. On the right, given Sᵢ = w, each wrong name v is met with probability 1/(k − 1) in the average, and
at least c − 1 are right in all: the mean is the sum inside. ∎

With k = 2 this is the inequality of ``one_run_fdp``, and the same recursion refutes curves. With δ = 0,
equality holds for the binomial law with success probability exp(ε)/(exp(ε) + k − 1), that of randomised
response, so nothing is lost there.

*Adjacency*: the theorem is about exchanging a secret. Under replace-one that is the claim itself. Under
add-remove and zero-out an exchange takes two steps, f̄(f̄(x)) (``SwapCurves``), so the bound on ε is about
half as large.

*How many names* are counted is chosen on a part of the targets, by the attack's own confidence, or the lines
of the plan share the level. Given the secrets of that part, the rest are as random as before, and as private.
Ties in the confidence count against the attack.

Reference: Mahloujifar, Melis & Chaudhuri 2024, "Auditing f-differential privacy in one run" (reconstruction
with k values and abstention); Steinke, Nasr & Jagielski 2023 for k = 2. The proof above is our own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np

from privet.adjacency import AddRemove, Adjacency, ReplaceOne
from privet.arguments import fraction, open_fraction, whole
from privet.auditing.audits import check_delta, find_largest_refuted
from privet.auditing.curves import NEAR_NOTHING, ApproximateCurves, Curves, SwapCurves
from privet.auditing.guesses import GuessResult
from privet.auditing.one_run_fdp import is_refuted
from privet.auditing.thresholds import SelectionSplit
from privet.bounds import EpsilonBound, Finding, Side
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee
from privet.recoveries import Recoveries
from privet.scores import Bits
from privet.views import Numbers

__all__ = ["OneRunCandidates"]

_FEWEST = 40  # targets; with fewer, a part of them cannot choose well
_SHARES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03)


@final
@dataclass(frozen=True)
class OneRunCandidates:
    """The bound by names among k candidates, under one adjacency.

    Guarantee: it exceeds the true ε in at most 1 − ``confidence`` of all runs, whatever the run does with the
    targets together.

    >>> round(OneRunCandidates(adjacency=ReplaceOne()).ceiling(100, 10, delta=1e-5), 2)
    5.69
    """

    confidence: float = 0.95
    adjacency: Adjacency = field(default_factory=AddRemove)
    plan: Sequence[float] = _SHARES
    split: SelectionSplit | None = field(default_factory=SelectionSplit)

    title = "Names among public candidates, in one run"
    reference = "Mahloujifar, Melis & Chaudhuri 2024"

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)
        whole("the number of lines of 'plan'", len(self.plan))
        for share in self.plan:
            fraction("plan", share)

    @property
    def method(self) -> str:
        """The bound in words for a report: its title, reference, confidence and assumptions."""
        return (
            f"{self.title} ({self.reference}), at {100 * self.confidence:.4g} % confidence. One run; each "
            f"secret was drawn independently and uniformly from the candidates; adjacency: "
            f"{self.adjacency.relation}."
        )

    def epsilon(self, recoveries: Recoveries, *, delta: float) -> float:
        """The bound as a number; 0 where the hits show nothing."""
        check_delta(delta)
        candidates = _require_candidates(recoveries)
        hits, sure = recoveries.hits, recoveries.confidence
        count, level = len(hits), 1 - self.confidence
        if sure is None:
            return self._largest([GuessResult(count, int(hits.sum()))], count, candidates, level, delta)
        if self.split is None or len(self.plan) == 1 or count < _FEWEST:
            lines = [_count_right(hits, sure, made) for made in self._numbers(count)]
            return self._largest(lines, count, candidates, level / len(lines), delta)
        choosing = self.split.blind_mask(count)
        rest = count - int(choosing.sum())
        share = self._choose_share(hits[choosing], sure[choosing], rest, candidates, delta)
        line = _count_right(hits[~choosing], sure[~choosing], max(int(share * rest), 1))
        return self._largest([line], rest, candidates, level, delta)

    def ceiling(self, targets: int, candidates: int, *, delta: float) -> float:
        """The largest bound that so many targets can give, if every one is named rightly."""
        check_delta(delta)
        perfect = [GuessResult(whole("targets", targets), targets)]
        return self._largest(
            perfect, targets, whole("candidates", candidates, least=2), 1 - self.confidence, delta
        )

    def test(self, recoveries: Recoveries, claim: Guarantee | None, *, delta: float) -> Finding:
        """The bound and the claim that it tests, both under this adjacency; a claim below the bound is
        violated.
        """
        if claim is not None and claim.adjacency.relation != self.adjacency.relation:
            raise InvalidArgument(
                f"'claim' must be under the adjacency of the bound, {self.adjacency.relation}, got "
                f"{claim.adjacency.relation}. Make the bound with adjacency=claim.adjacency."
            )
        value = self.epsilon(recoveries, delta=delta)
        return Finding(
            measured=EpsilonBound(value=value, delta=delta, side=Side.LOWER, confidence=self.confidence),
            ceiling=self.ceiling(len(recoveries), _require_candidates(recoveries), delta=delta),
            claimed=None if claim is None else claim.bound(delta=delta),
        )

    def _curves(self, delta: float) -> Curves:
        curves = ApproximateCurves(delta)
        return curves if isinstance(self.adjacency, ReplaceOne) else SwapCurves(curves)

    def _largest(
        self, lines: Sequence[GuessResult], targets: int, candidates: int, level: float, delta: float
    ) -> float:
        """The largest ε that one of the lines refutes at this level."""
        curves, largest = self._curves(delta), NEAR_NOTHING

        for line in lines:

            def is_refuted_by_line(parameter: float, line: GuessResult = line) -> bool:
                return is_refuted(line, targets, curves, parameter, level, candidates)

            largest = find_largest_refuted(is_refuted_by_line, largest)
        return largest if largest > NEAR_NOTHING else 0.0

    def _numbers(self, count: int) -> list[int]:
        return list(dict.fromkeys(max(int(share * count), 1) for share in self.plan))

    def _choose_share(self, hits: Bits, sure: Numbers, rest: int, candidates: int, delta: float) -> float:
        """The share with the largest bound if the rest were named as well as this part."""
        chosen, largest = self.plan[0], 0.0
        for share in self.plan:
            made, right = _count_right(hits, sure, max(int(share * len(hits)), 1))
            guesses = max(int(share * rest), 1)
            expected = GuessResult(guesses, int(right / made * guesses))
            value = self._largest([expected], rest, candidates, 1 - self.confidence, delta)
            chosen, largest = (share, value) if value > largest else (chosen, largest)
        return chosen


def _count_right(hits: Bits, sure: Numbers, made: int) -> GuessResult:
    """The hits among the ``made`` surest names; of equally sure ones the misses are taken first."""
    order = np.lexsort([hits, -sure])
    return GuessResult(made, int(hits[order[:made]].sum()))


def _require_candidates(recoveries: Recoveries) -> int:
    if recoveries.candidates is None:
        raise InvalidArgument(
            "'recoveries' must say how many candidates each secret was drawn from, got None. Draw the "
            "secrets uniformly from public candidates and give their number, or leave some targets out by a "
            "coin."
        )
    return recoveries.candidates
