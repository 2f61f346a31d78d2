"""How often an attack recovers its targets, how often it would without them, and what is left: the leak.

*success* is the share of hits among targets that are in the data. *baseline* is the same attack's share of
hits among targets that a coin left out; where every target was in, it is the share of the best blind guess on
the same targets, or 1/k exactly where each secret was drawn from k candidates. *leak* = success − baseline.
An attack that cannot beat imputation, or a mean picture, has a high success and no leak.

*What the intervals say.* They are exact for targets that are drawn independently and judged by a fixed model
(``differences``). Targets of one run are not quite that: they made the model together. With a coin, or with
candidates, a leak is claimed, 0 outside of its interval, with probability at most 1 − confidence if there is
none, however they depend; beside a blind guess this needs targets whose secrets are independent. Lower
bounds on ε come from ``recovery_bounds``, which is about one run.

*The ceiling.* If the claim holds, no attack succeeds more often than ``claim.tpr(fpr=baseline)``. For a
target: "the attack hits" is a test of whether it is in the data. Its false-positive rate is the chance of a
hit on a target that is not, the baseline; its true-positive rate is the success. The highest true-positive
rate is concave in the false-positive rate, so what holds for each target holds for averages over targets
(Jensen). A blind guess is a baseline in this sense only if it is the best one: a poor blind guess makes the
ceiling too low. Where the unit of the claim is a user or a client, the target must be one, too.

Names among k candidates under replace-one have a lower ceiling, because an exchange compares one candidate
with another: the largest p with p ≤ f̄((1 − p)/(k − 1)), which randomised response reaches.

Reference: Balle, Cherubin & Hayes 2022, "Reconstructing training data with informed adversaries"; Hayes,
Mahloujifar & Balle 2023, "Bounding training data reconstruction in DP-SGD" (Theorem 2: success against the
baseline of a blind guess, by the trade-off curve).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, final

import numpy as np

from privet.adjacency import ReplaceOne
from privet.arguments import open_fraction
from privet.auditing.differences import difference_of_shares, paired_difference
from privet.auditing.proportions import Rate, rate
from privet.data_frames import to_data_frame
from privet.errors import InvalidArgument, PrivetError
from privet.guarantees import Guarantee
from privet.recoveries import Recoveries
from privet.scores import Bits

__all__ = [
    "BaselineKind",
    "GroupRecovery",
    "RecoveryLeakage",
    "count_recovery_intervals",
    "measure_recoveries",
    "recoveries_by_group",
]

_HALVINGS = 14
_NEVER = 1e-10  # no ceiling is proved for attacks that never err: the smallest rate that is asked about


@final
class BaselineKind(StrEnum):
    """What success is compared with."""

    LEFT_OUT = "targets left out"
    PUBLIC = "public knowledge alone"
    CANDIDATES = "one of the candidates at random"


@final
@dataclass(frozen=True, eq=False)
class RecoveryLeakage:
    """What an attack recovered, every figure with its interval at ``confidence``.

    ``blind`` is the share of the best blind guess among targets that are in, and ``above_blind`` what the
    attack adds to it on the same targets; both are given where a coin is the baseline and there is a blind
    guess beside it. ``claims`` is that of the recoveries.

    >>> print(RecoveryLeakage("a", "exact", 2, 2, Rate(1, 0.2, 1), Rate(0.5, 0, 1), Rate(0.5, -0.6, 1)))
    a: success 1 [0.2, 1], baseline 0.5 [0, 1] (targets left out), leak 0.5 [-0.6, 1]
    """

    attack: str
    criterion: str
    inside: int
    outside: int
    success: Rate
    baseline: Rate
    leak: Rate
    baseline_kind: BaselineKind = BaselineKind.LEFT_OUT
    blind: Rate | None = None
    above_blind: Rate | None = None
    confidence: float = 0.95
    claims: bool = False

    def __post_init__(self) -> None:
        open_fraction("confidence", self.confidence)

    def __str__(self) -> str:
        return (
            f"{self.attack}: success {self.success}, baseline {self.baseline} ({self.baseline_kind}), "
            f"leak {self.leak}"
        )

    def __repr__(self) -> str:
        return f"RecoveryLeakage({self})"

    @property
    def detected(self) -> bool:
        """Whether the interval of the leak excludes 0.

        With a coin, an attack that hits targets in the data *less* often than others also tells them apart,
        and counts, unless targets that are out are hit by any claim. Without one, hits below those of a blind
        guess only say that the attack is poor. What an attack adds to a blind guess beside a coin does not
        count: it may come from better guessing.
        """
        below = self.leak.upper < 0 and self.baseline_kind is BaselineKind.LEFT_OUT and not self.claims
        return self.leak.lower > 0 or below

    @property
    def failure(self) -> float:
        """An upper bound on the probability that any of its intervals is wrong."""
        exact = self.baseline_kind is BaselineKind.CANDIDATES
        return _count_intervals(exact=exact, beside=self.blind is not None) * (1 - self.confidence)

    def ceiling(self, claim: Guarantee | None) -> float | None:
        """The most often that any attack can succeed at this baseline, if the claim holds.

        None without a claim, or where the accountant has no number.
        """
        return self._ceiling_at(claim, self.baseline.value)

    def sure_ceiling(self, claim: Guarantee | None) -> float | None:
        """The ceiling at the upper end of the baseline's interval: an estimate cannot make it too low.

        None where the baseline is a blind guess: a better guess than that one, which the model may teach
        about everybody, would be above its ceiling without any breach of the claim.
        """
        if self.baseline_kind is BaselineKind.PUBLIC:
            return None
        return self._ceiling_at(claim, self.baseline.upper)

    def _ceiling_at(self, claim: Guarantee | None, baseline: float) -> float | None:
        exchanged = claim is not None and isinstance(claim.adjacency, ReplaceOne)
        if exchanged and self.baseline_kind is BaselineKind.CANDIDATES:
            return _highest_share_of_names(claim, baseline)
        return _highest_success(claim, baseline)

    def is_above_ceiling(self, claim: Guarantee | None) -> bool:
        """Whether success is above what the claim allows; both intervals are read in favour of the claim."""
        if self.success.lower <= self.baseline.upper:  # a ceiling is never below its baseline
            return False
        ceiling = self.sure_ceiling(claim)
        return ceiling is not None and self.success.lower > ceiling

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """A data frame with one row for each figure: its name, its value and the ends of its interval."""
        figures = {"success": self.success, "baseline": self.baseline, "leak": self.leak}
        figures |= {} if self.blind is None else {"blind": self.blind}
        figures |= {} if self.above_blind is None else {"above blind": self.above_blind}
        return to_data_frame(
            {"attack": self.attack, "figure": name, **found._asdict()} for name, found in figures.items()
        )


def measure_recoveries(recoveries: Recoveries, *, confidence: float = 0.95) -> RecoveryLeakage:
    """Success, baseline and leak of one attack, with exact intervals; see the docstring of this module.

    >>> from privet.views import Adversary
    >>> adversary = Adversary(sees="", knows="", wants="")
    >>> coin = np.arange(80) % 2 == 0
    >>> hits = np.where(coin, np.arange(80) % 8 > 0, np.arange(80) % 8 == 1)
    >>> measured = measure_recoveries(Recoveries("a", adversary, "exact", hits, coin))
    >>> print(measured.success, measured.baseline, measured.leak, sep="; ")
    0.75 [0.588, 0.8731]; 0.25 [0.1269, 0.412]; 0.5 [0.2422, 0.7046]
    """
    open_fraction("confidence", confidence)
    inside = recoveries.inside
    hits, count = int(recoveries.hits[inside].sum()), int(inside.sum())
    success = rate(hits, count, confidence)
    blind = above = None
    if recoveries.members is not None:
        outside = len(recoveries) - count
        others = int(recoveries.hits[~inside].sum())
        kind, baseline = BaselineKind.LEFT_OUT, rate(others, outside, confidence)
        leak = difference_of_shares(hits, count, others, outside, confidence)
        if recoveries.blind_hits is not None:
            blind = rate(int(recoveries.blind_hits[inside].sum()), count, confidence)
            above = _subtract_blind(recoveries.hits[inside], recoveries.blind_hits[inside], confidence)
    elif recoveries.candidates is not None:
        chance = 1 / recoveries.candidates
        kind, baseline = BaselineKind.CANDIDATES, Rate(chance, chance, chance)
        leak = Rate(success.value - chance, success.lower - chance, success.upper - chance)
    elif recoveries.blind_hits is not None:
        kind, baseline = BaselineKind.PUBLIC, rate(int(recoveries.blind_hits.sum()), count, confidence)
        leak = _subtract_blind(recoveries.hits, recoveries.blind_hits, confidence)
    else:
        raise InvalidArgument(
            "'recoveries' must have a baseline, got neither coins nor blind guesses. Give one of them."
        )
    return RecoveryLeakage(
        attack=recoveries.attack,
        criterion=recoveries.criterion,
        inside=count,
        outside=len(recoveries) - count,
        success=success,
        baseline=baseline,
        leak=leak,
        baseline_kind=kind,
        blind=blind,
        above_blind=above,
        confidence=confidence,
        claims=recoveries.claims,
    )


def count_recovery_intervals(recoveries: Recoveries) -> int:
    """How many intervals ``measure_recoveries`` gives, which share the failure of a report."""
    exact = recoveries.members is None and recoveries.candidates is not None
    return _count_intervals(
        exact=exact, beside=recoveries.members is not None and recoveries.blind_hits is not None
    )


class GroupRecovery(NamedTuple):
    """One group: its name, and how often the attack recovers its targets."""

    name: str
    leakage: RecoveryLeakage


def recoveries_by_group(recoveries: Recoveries, *, confidence: float = 0.95) -> tuple[GroupRecovery, ...]:
    """Success, baseline and leak of each group, the largest leak first; all hold together.

    A group without targets on one side of the coin is left out: nothing can be said about it.
    """
    open_fraction("confidence", confidence)
    if recoveries.groups is None:
        return ()
    parts = [(str(name), recoveries.groups == name) for name in np.unique(recoveries.groups)]
    complete = [(name, recoveries.take(part)) for name, part in parts if _has_both_sides(recoveries, part)]
    intervals = sum(count_recovery_intervals(part) for _, part in complete)
    each = 1 - (1 - confidence) / max(intervals, 1)
    groups = [GroupRecovery(name, measure_recoveries(part, confidence=each)) for name, part in complete]
    return tuple(sorted(groups, key=lambda group: -group.leakage.leak.value))


def _has_both_sides(recoveries: Recoveries, part: Bits) -> bool:
    if recoveries.members is None:
        return True
    members = recoveries.members[part]
    return bool(members.any() and not members.all())


def _count_intervals(*, exact: bool, beside: bool) -> int:
    # Success and leak are one statement where the baseline is exact.
    return (1 if exact else 3) + 2 * beside


def _subtract_blind(hits: Bits, blind: Bits, confidence: float) -> Rate:
    return paired_difference(int((hits & ~blind).sum()), int((blind & ~hits).sum()), len(hits), confidence)


def _highest_success(claim: Guarantee | None, baseline: float) -> float | None:
    if claim is None:
        return None
    try:
        return claim.tpr(fpr=min(max(baseline, _NEVER), 1.0))
    except PrivetError:  # the accountant has no number here
        return None


def _highest_share_of_names(claim: Guarantee | None, chance: float) -> float | None:
    """The largest share p of right names with p ≤ f̄((1 − p)/(k − 1)), rounded up (``candidates``, c = 1).

    The left side rises with p and the right side falls, so they cross once.
    """
    low, high = chance, _highest_success(claim, chance)
    if high is None:
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        allowed = _highest_success(claim, (1 - middle) * chance / (1 - chance))
        if allowed is None:
            return high
        low, high = (middle, high) if middle <= allowed else (low, middle)
    return high
