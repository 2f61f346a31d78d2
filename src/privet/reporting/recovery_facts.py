"""The facts on an attack that recovers something: who attacked, success against its baseline, and the bound
that follows.
"""

from dataclasses import dataclass
from typing import final

from privet.auditing import GroupRecovery, RecoveryBound, RecoveryLeakage
from privet.bounds import Verdict
from privet.exhibits import Exhibit
from privet.views import Adversary

__all__ = ["RecoveryResult"]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class RecoveryResult:
    """One attack on one model, with the ceiling that the claim puts on it.

    ``ceiling`` is at the measured baseline, ``sure_ceiling`` at the upper end of its interval; both are None
    where nothing is proved. ``group_failure`` bounds the probability that any statement about its groups is
    wrong.

    *Leaks*: ``exhibits`` hold private data. Forms of a report leave them out until they are asked for them.
    """

    adversary: Adversary
    leakage: RecoveryLeakage
    bound: RecoveryBound
    ceiling: float | None = None
    sure_ceiling: float | None = None
    groups: tuple[GroupRecovery, ...] = ()
    group_failure: float = 0.0
    exhibits: tuple[Exhibit, ...] = ()

    def __repr__(self) -> str:
        return f"RecoveryResult({self.leakage})"

    @property
    def name(self) -> str:
        """The attack's name."""
        return self.leakage.attack

    @property
    def epsilon(self) -> float | None:
        """The lower bound on ε; None where there is none, which ``bound.method`` explains."""
        return self.bound.epsilon

    @property
    def detected(self) -> bool:
        """Whether any statement about it excludes "no leak": the leak, that of a group, or an ε above 0."""
        return (
            self.leakage.detected
            or bool(self.epsilon)
            or any(group.leakage.detected for group in self.groups)
        )

    @property
    def is_above_ceiling(self) -> bool:
        """Whether success is above the ceiling, with both intervals read in favour of the claim."""
        return self.sure_ceiling is not None and self.leakage.success.lower > self.sure_ceiling

    @property
    def is_violated(self) -> bool:
        """Whether its ε is above the claimed one."""
        return self.bound.finding is not None and self.bound.finding.verdict is Verdict.VIOLATED

    @property
    def failure(self) -> float:
        """An upper bound on the probability that any statement about it is wrong."""
        finding = self.bound.finding
        bound = 0.0 if finding is None else 1 - finding.measured.confidence
        return bound + self.leakage.failure + self.group_failure
