"""What a report is made of: for each model, what attacks measured beside what was proved, and what was checked.

Nothing here computes a figure of its own: leakage and lower bounds come from ``privet.auditing``, upper bounds from a
``Guarantee``. A report never says that a model *is* private: it says what was not detected, at which power, and what is
proved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, final

from privet.auditing import AtRisk, GroupAccuracy, GroupHarm, Leakage, Rate
from privet.auditing.leakage import figures
from privet.bounds import Finding, Verdict
from privet.caveats import Caveat
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.fingerprints import Fingerprint, Fingerprints, code_fingerprint, package_versions
from privet.guarantees import Guarantee, delta_warning
from privet.ledger import Ledger
from privet.reporting.charts.proved_curve import most_found
from privet.scores import Scores
from privet.views import Adversary

__all__ = [
    "AboveCeiling",
    "AttackResult",
    "Harm",
    "ModelAudit",
    "Origin",
    "ReferenceModels",
    "Standing",
    "Strength",
]


@final
class Standing(StrEnum):
    """Where a model stands, from worst to best; there is no "private"."""

    BROKEN = "broken"  # a measured lower bound, of ε or of a rate, is above what was claimed
    LEAKS = "leaks"  # membership was detected, and no proof caps it
    LEAKS_WITHIN = "leaks within its proof"  # detected, and within what was proved
    NOT_DETECTED_PROVED = "not detected, and bounded by proof"
    NOT_DETECTED = "not detected at this power"  # no proof stands behind it


@final
class Strength(StrEnum):
    """What an attack compares a record with, from least to most. A weak attack that finds nothing says little."""

    TARGET_ALONE = "target alone"  # a threshold on what the model itself says: the weakest attacks
    UNKNOWN = "unknown"  # only the scores were given
    CALIBRATED = "calibrated"  # with what reference models, shadow models or a regression say of the record


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttackResult:
    """One attack on one model: who attacked, the scores, what they show, and the lower bound that follows.

    ``planted`` says that it told canaries of the run, and not people's records: it bounds ε, and finds nobody.
    """

    adversary: Adversary
    scores: Scores
    leakage: Leakage
    finding: Finding
    method: str  # which bound gave the finding, in words
    planted: bool = False
    strength: Strength = Strength.UNKNOWN

    @property
    def name(self) -> str:
        """The attack's name."""
        return self.scores.attack

    @property
    def detected(self) -> bool:
        """Whether any statement about it excludes chance: an ε above 0, or an interval of its leakage."""
        return self.finding.measured.value > 0 or self.leakage.excludes_chance

    @property
    def failure(self) -> float:
        """The probability that any statement about it is wrong, at most: those of its bound and of its intervals, added up."""
        intervals = figures(self.leakage.roc.others)
        return 1 - self.finding.measured.confidence + intervals * (1 - self.leakage.confidence)


class AboveCeiling(NamedTuple):
    """A true-positive rate whose interval lies above what a claim leaves to any attack: the claim does not hold."""

    attack: str
    fpr: float
    tpr: Rate
    ceiling: float


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Harm:
    """Who is hurt, by one attack: the members most at risk, and each class and group with its own leakage.

    ``names`` are what to call the records: their places in the members that were given. ``class_accuracies`` and
    ``group_accuracies`` say how often the model is right on each class and group; empty where labels are not known.
    ``failure`` is the probability that any statement about the leakage of classes and groups is wrong, at most.
    """

    attack: str
    at_risk: AtRisk
    names: tuple[str, ...]
    classes: tuple[GroupHarm, ...] = ()
    groups: tuple[GroupHarm, ...] = ()
    class_accuracies: tuple[GroupAccuracy, ...] = ()
    group_accuracies: tuple[GroupAccuracy, ...] = ()
    failure: float = 0.0

    @property
    def detected(self) -> bool:
        """Whether a class or group has an AUC whose interval excludes chance, or is worse off than the rest."""
        return any(
            group.flagged or not group.leakage.auc.lower <= 0.5 <= group.leakage.auc.upper
            for group in (*self.classes, *self.groups)
        )


@final
@dataclass(frozen=True, kw_only=True)
class ReferenceModels:
    """The reference models that attacks compared with: how many were asked for, how many there were, and how large.

    ``asked`` is None where ready ones were given. ``records`` is how many each was trained on, in the mean.
    """

    asked: int | None
    used: int
    records: int
    budget: float | None = None  # seconds that their training could take

    @property
    def fewer(self) -> bool:
        """Whether there were fewer than were asked for."""
        return self.asked is not None and self.used < self.asked

    def __str__(self) -> str:
        each = f"each trained on {self.records:,} records"
        if self.asked is None:
            return f"{self.used} that were given, {each}"
        if not self.fewer:
            return f"{self.used}, {each}"
        return f"{self.used} of the {self.asked} that were asked for, because {self.budget or 0:g} s were allowed; {each}"


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ModelAudit:
    """One model, attacked and bounded from both sides at one δ.

    ``population`` is how many units it was trained on, or how many of them are known: the number may be larger, never smaller.
    """

    name: str
    delta: float
    results: tuple[AttackResult, ...]
    claim: Guarantee | None = None
    ledger: Ledger | None = None
    train_accuracy: float | None = None
    test_accuracy: float | None = None
    checks: tuple[Check, ...] = ()
    harm: Harm | None = None
    population: int | None = None
    reference_models: ReferenceModels | None = None
    fingerprints: Fingerprints | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.results:
            raise InvalidArgument("'results' must hold at least one attack, got none. Run an attack first.")

    @property
    def strongest(self) -> AttackResult:
        """The attack on records with the highest lower bound on ε; between equals, one that detected, with the highest AUC.

        Canaries come in only where nothing else was attacked: what an adversary tells of them is no measure of what happens to people.
        """
        return max(self.on_records or self.results, key=_strength)

    @property
    def tightest(self) -> AttackResult:
        """What bounds ε best from below, canaries included."""
        return max(self.results, key=_strength)

    @property
    def epsilon_measured(self) -> float:
        """At least this, from records or from canaries, whichever shows more."""
        return self.tightest.finding.measured.value

    @property
    def epsilon_of_records(self) -> float:
        """At least this, shown on people's records."""
        return max((result.finding.measured.value for result in self.on_records), default=0.0)

    @property
    def epsilon_of_canaries(self) -> float | None:
        """At least this, shown on canaries of the run; None where there were none."""
        return max((result.finding.measured.value for result in self.on_canaries), default=None)

    @property
    def epsilon_proved(self) -> float | None:
        """At most this, by proof; None where nothing was proved."""
        claimed = self.strongest.finding.claimed
        return None if claimed is None else claimed.value

    @property
    def confidence(self) -> float:
        """With which all statements hold together: bounds on ε, intervals, and comparisons of classes and groups."""
        failures = sum(result.failure for result in self.results)
        failures += 0.0 if self.harm is None else self.harm.failure
        return round(max(1 - failures, 0.0), 12)

    @property
    def detected(self) -> bool:
        """Whether members were told from others: some statement about people's records excludes chance.

        The one definition that the verdict, the tables, the documents and the command line use. Statements share the failure out
        (``privet.auditing.shares``), so a model that tells nothing of its members is found with a probability of
        1 − ``confidence`` at most. That canaries were told is ``canaries_told``: it is about the run, and not about anybody's record.
        """
        return any(result.detected for result in self.on_records) or (
            self.harm is not None and self.harm.detected
        )

    @property
    def canaries_told(self) -> bool:
        """Whether some statement about canaries excludes chance."""
        return any(result.detected for result in self.on_canaries)

    @property
    def standing(self) -> Standing:
        """The verdict on this model."""
        if self.violated or self.above_ceiling:
            return Standing.BROKEN
        proved = self.epsilon_proved is not None
        if self.detected or (self.canaries_told and not self.on_records):
            return Standing.LEAKS_WITHIN if proved else Standing.LEAKS
        return Standing.NOT_DETECTED_PROVED if proved else Standing.NOT_DETECTED

    @property
    def violated(self) -> bool:
        """Whether a measured ε is above the claimed one."""
        return any(result.finding.verdict is Verdict.VIOLATED for result in self.results)

    @property
    def above_ceiling(self) -> tuple[AboveCeiling, ...]:
        """Where the interval of a true-positive rate lies above the most that the claim leaves to any attack."""
        found = []
        for result in self.results:
            for fpr, tpr in result.leakage.tprs.items():
                if tpr is None or tpr.lower <= fpr:  # a ceiling is never below chance
                    continue
                ceiling = most_found(self.claim, fpr)
                if ceiling is not None and tpr.lower > ceiling:
                    found.append(AboveCeiling(result.name, fpr, tpr, ceiling))
            point = result.leakage.telling_point
            if point is not None and point.tpr.lower > point.fpr.upper:
                ceiling = most_found(self.claim, point.fpr.upper)
                if ceiling is not None and point.tpr.lower > ceiling:
                    found.append(AboveCeiling(result.name, point.fpr.upper, point.tpr, ceiling))
        return tuple(found)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What the figures rest on, in a fixed order: the caveats of the claim, and of δ where it is too large for so many units.

        A δ that is too large for the units that are known is too large for more of them as well.
        """
        found: frozenset[Caveat] = frozenset() if self.claim is None else self.claim.caveats
        if self.population is not None:
            found |= delta_warning(self.delta, self.population)
        return tuple(sorted(found, key=lambda caveat: caveat.code))

    @property
    def strength(self) -> Strength:
        """That of the strongest kind of attack that was run on records; canaries are no attack on people's records."""
        order = list(Strength)
        return max((result.strength for result in self.on_records or self.results), key=order.index)

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The checks that warned."""
        return tuple(check for check in self.checks if check.outcome is Outcome.WARNED)

    @property
    def on_records(self) -> tuple[AttackResult, ...]:
        """The attacks on people's records."""
        return tuple(result for result in self.results if not result.planted)

    @property
    def on_canaries(self) -> tuple[AttackResult, ...]:
        """The attacks on canaries of the run."""
        return tuple(result for result in self.results if result.planted)


def _strength(result: AttackResult) -> tuple[float, bool, float]:
    return result.finding.measured.value, result.detected, result.leakage.auc.value


@final
@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a report came to be, so that it can be made again.

    ``command`` is what was run, as it was written. ``call`` is the Python call that gives the same figures. ``code`` and ``packages`` are what
    it ran on.
    """

    command: str
    version: str
    seed: int | None = None
    call: str | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    code: Fingerprint = field(default_factory=code_fingerprint)
    packages: Mapping[str, str] = field(default_factory=package_versions)
