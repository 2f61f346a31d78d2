"""The facts of a report: for each model the measured and the proved bounds, every attack, and what was
checked.

Nothing here computes a figure of its own: leakage and lower bounds come from ``privet.auditing``, upper
bounds from a ``Guarantee``. A report never says that a model *is* private: it says what was not detected, at
which power, and what is proved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple, final

from privet.auditing import AtRisk, GroupAccuracy, GroupHarm, Leakage, Rate
from privet.auditing.leakage import count_intervals
from privet.bounds import Finding, Verdict
from privet.caveats import Caveat
from privet.checks import Check, Outcome
from privet.data_frames import to_data_frame
from privet.errors import InvalidArgument
from privet.fingerprints import Fingerprint, Fingerprints, code_fingerprint, package_versions
from privet.guarantees import Guarantee, delta_warning
from privet.ledger import Ledger
from privet.reporting.charts.proved_curve import highest_tpr
from privet.reporting.numbers import percent
from privet.reporting.recovery_facts import RecoveryResult
from privet.reporting.regression_facts import RegressionFit
from privet.reporting.table_facts import TableFacts
from privet.reporting.text_facts import TextFacts
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
    """The verdict on a model, from worst to best. None of them is "private"."""

    BROKEN = "broken"  # a measured lower bound, of ε or of a rate, is above what was claimed
    LEAKS = "leaks"  # membership or a recovery was detected, and no proof caps it
    LEAKS_WITHIN = "leaks within its proof"  # detected, and within what was proved
    NOT_DETECTED_PROVED = "not detected, and bounded by proof"
    NOT_DETECTED = "not detected at this power"  # no proof stands behind it


@final
class Strength(StrEnum):
    """How strong an attack is, by what it compares a record with.

    A weak attack that finds nothing says little.
    """

    TARGET_ALONE = "target alone"  # a threshold on what the model itself says: the weakest attacks
    UNKNOWN = "unknown"  # only the scores were given
    CALIBRATED = "calibrated"  # with what reference models, shadow models or a regression say of the record


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class AttackResult:
    """One attack on one model: who attacked, the scores, what they show, and the lower bound that follows.

    ``planted`` says that it attacked canaries of the run and not people's records: it bounds ε, and finds no
    person. ``unit`` is what each score is about: a record, a text or an author.
    """

    adversary: Adversary
    scores: Scores
    leakage: Leakage
    finding: Finding
    method: str  # the bound that gave the finding, with its reference
    planted: bool = False
    strength: Strength = Strength.UNKNOWN
    unit: str = "record"

    def __repr__(self) -> str:
        epsilon = f"ε ≥ {self.finding.measured.value:.3g}"
        return f"AttackResult({self.name!r}: AUC {self.leakage.auc.value:.3f}, {epsilon})"

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
        """An upper bound on the probability that any statement about it is wrong: its bound and its
        intervals, added up.
        """
        intervals = count_intervals(self.leakage.roc.others)
        return 1 - self.finding.measured.confidence + intervals * (1 - self.leakage.confidence)


class AboveCeiling(NamedTuple):
    """A true-positive rate whose interval lies above the ceiling of a claim: the claim does not hold."""

    attack: str
    fpr: float
    tpr: Rate
    ceiling: float


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Harm:
    """Who is hurt, by one attack: the members most at risk, and the leakage of each class and group.

    ``names`` are the names of the records: their positions among the given members. ``class_accuracies`` and
    ``group_accuracies`` are the model's accuracies on each class and group; empty where labels are not known.
    ``failure`` bounds the probability that any statement about the leakage of classes and groups is wrong.
    """

    attack: str
    at_risk: AtRisk
    names: tuple[str, ...]
    classes: tuple[GroupHarm, ...] = ()
    groups: tuple[GroupHarm, ...] = ()
    class_accuracies: tuple[GroupAccuracy, ...] = ()
    group_accuracies: tuple[GroupAccuracy, ...] = ()
    failure: float = 0.0

    def __repr__(self) -> str:
        tables = f"{len(self.classes)} classes, {len(self.groups)} groups"
        return f"Harm({self.attack!r}: {self.at_risk.flagged} records flagged, {tables})"

    @property
    def detected(self) -> bool:
        """Whether some class or group is worse off, or has an AUC whose interval excludes chance."""
        return any(
            group.flagged or not group.leakage.auc.lower <= 0.5 <= group.leakage.auc.upper
            for group in (*self.classes, *self.groups)
        )


@final
@dataclass(frozen=True, kw_only=True)
class ReferenceModels:
    """The reference models that attacks compared with: how many were asked for, how many were used, and how
    large they are.

    ``asked`` is None where ready references were given. ``records`` is the mean size of their training sets.
    """

    asked: int | None
    used: int
    records: int
    time_limit: float | None = None  # seconds that their training could take

    @property
    def fewer(self) -> bool:
        """Whether there were fewer than were asked for."""
        return self.asked is not None and self.used < self.asked

    def __str__(self) -> str:
        size = f"each trained on {self.records:,} records"
        if self.asked is None:
            return f"{self.used} that were given, {size}"
        if not self.fewer:
            return f"{self.used}, {size}"
        return (
            f"{self.used} of the {self.asked} that were asked for, because {self.time_limit or 0:g} s were "
            f"allowed; {size}"
        )


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class ModelAudit:
    """One model: the attacks on it, and its ε bounded from both sides at one δ.

    ``results`` are attacks on membership, ``recoveries`` attacks that recover something; there is one of
    either. ``population`` is how many units it was trained on, as far as that is known: the true number may
    be larger, never smaller. Where ``table`` is there, what was attacked is no model but a table.
    """

    name: str
    delta: float
    results: Sequence[AttackResult]
    claim: Guarantee | None = None
    ledger: Ledger | None = None
    train_accuracy: float | None = None
    test_accuracy: float | None = None
    regression: RegressionFit | None = None
    checks: Sequence[Check] = ()
    harm: Harm | None = None
    population: int | None = None
    reference_models: ReferenceModels | None = None
    fingerprints: Fingerprints | None = None
    seconds: float = 0.0
    recoveries: Sequence[RecoveryResult] = ()
    table: TableFacts | None = None
    text: TextFacts | None = None

    def __post_init__(self) -> None:
        for name in ("results", "checks", "recoveries"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.results and not self.recoveries:
            raise InvalidArgument("'results' must hold at least one attack, got none. Run an attack first.")

    def __repr__(self) -> str:
        proved = "nothing proved" if self.epsilon_proved is None else f"ε ≤ {self.epsilon_proved:.3g} proved"
        found = (
            f"AUC {self.strongest.leakage.auc.value:.3f}" if self.results else f"{self.recoveries[0].leakage}"
        )
        return (
            f"ModelAudit({self.name!r}: {self.standing}; {found}, "
            f"ε ≥ {self.epsilon_measured:.3g} measured, {proved}, δ = {self.delta:g})"
        )

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame
        """A data frame with one row for each attack, and the bounds on ε beside its figures."""
        return to_data_frame(self.rows())

    def rows(self) -> list[dict[str, object]]:
        """The figures of each attack by column name, for a table."""
        recovered: list[dict[str, object]] = [
            {
                "model": self.name,
                "standing": self.standing.value,
                "attack": recovery.name,
                "on_canaries": False,
                "detected": recovery.detected,
                "success": recovery.leakage.success.value,
                "baseline": recovery.leakage.baseline.value,
                "leak": recovery.leakage.leak.value,
                "ceiling": recovery.ceiling,
                "epsilon_lower": recovery.epsilon,
                "epsilon_upper": self.epsilon_proved,
                "delta": self.delta,
            }
            for recovery in self.recoveries
        ]
        return recovered + [
            {
                "model": self.name,
                "standing": self.standing.value,
                "attack": result.name,
                "on_canaries": result.planted,
                "detected": result.detected,
                "auc": result.leakage.auc.value,
                "auc_lower": result.leakage.auc.lower,
                "auc_upper": result.leakage.auc.upper,
                **{
                    f"tpr_at_{fpr:g}": None if tpr is None else tpr.value
                    for fpr, tpr in result.leakage.tprs.items()
                },
                "epsilon_lower": result.finding.measured.value,
                "epsilon_upper": self.epsilon_proved,
                "delta": self.delta,
                "test_accuracy": self.test_accuracy,
                "test_r2": None if self.regression is None else self.regression.test_r2,
            }
            for result in self.results
        ]

    @property
    def utility(self) -> str | None:
        """How good the model is on records that it was not trained on; None where that is not known.

        The accuracy of a classifier, R² of a regression model.
        """
        if self.regression is not None:
            return None if self.regression.test_r2 is None else f"R² {self.regression.test_r2:.3f}"
        return None if self.test_accuracy is None else percent(self.test_accuracy)

    @property
    def strongest(self) -> AttackResult:
        """The attack on records with the highest lower bound on ε.

        Between equals, one that detected, with the highest AUC.

        Canaries count only where nothing else was attacked: how well they are detected says nothing about
        people's records. Refused where membership was not attacked.
        """
        if not self.results:
            raise InvalidArgument(
                "'results' must hold an attack on membership to have a strongest one, got none. Look at "
                "'recoveries'."
            )
        return max(self.on_records or self.results, key=_evidence)

    @property
    def tightest(self) -> AttackResult:
        """The attack with the highest lower bound on ε, canaries included."""
        return max(self.results, key=_evidence)

    @property
    def epsilon_measured(self) -> float:
        """The lower bound on ε, from records, canaries or recoveries, whichever is highest."""
        shown = [result.finding.measured.value for result in self.results]
        return max([0.0, *shown, *(recovery.epsilon or 0.0 for recovery in self.recoveries)])

    @property
    def epsilon_of_records(self) -> float:
        """The lower bound on ε from people's records."""
        return max((result.finding.measured.value for result in self.on_records), default=0.0)

    @property
    def epsilon_of_canaries(self) -> float | None:
        """The lower bound on ε from canaries of the run; None without canaries."""
        return max((result.finding.measured.value for result in self.on_canaries), default=None)

    @property
    def epsilon_proved(self) -> float | None:
        """The upper bound on ε, by proof; None where nothing was proved."""
        if self.results:
            claimed = self.strongest.finding.claimed
            return None if claimed is None else claimed.value
        return None if self.claim is None else self.claim.epsilon(delta=self.delta)

    @property
    def confidence(self) -> float:
        """The confidence of all statements together: bounds on ε, intervals, and comparisons of groups."""
        failures = sum(result.failure for result in self.results)
        failures += 0.0 if self.harm is None else self.harm.failure
        failures += sum(recovery.failure for recovery in self.recoveries)
        failures += 0.0 if self.table is None else self.table.failure
        return round(max(1 - failures, 0.0), 12)

    @property
    def detected(self) -> bool:
        """Whether membership was detected: some statement about people's records excludes chance.

        The verdict, the tables, the documents and the command line all use this definition. Statements share
        the failure probability (``privet.auditing.shares``), so for a model that leaks nothing this is true
        with probability 1 − ``confidence`` at most. Canaries are not counted here; they have
        ``canaries_detected``.
        """
        return any(result.detected for result in self.on_records) or (
            self.harm is not None and self.harm.detected
        )

    @property
    def recovered(self) -> bool:
        """Whether some attack recovers more than its baseline: by its leak, or by an ε above 0."""
        return any(recovery.detected for recovery in self.recoveries)

    @property
    def canaries_detected(self) -> bool:
        """Whether some statement about canaries excludes chance."""
        return any(result.detected for result in self.on_canaries)

    @property
    def standing(self) -> Standing:
        """The verdict on this model."""
        if self.violated or self.above_ceiling or any(each.is_above_ceiling for each in self.recoveries):
            return Standing.BROKEN
        proved = self.epsilon_proved is not None
        if self.detected or self.recovered or (self.canaries_detected and not self.on_records):
            return Standing.LEAKS_WITHIN if proved else Standing.LEAKS
        return Standing.NOT_DETECTED_PROVED if proved else Standing.NOT_DETECTED

    @property
    def violated(self) -> bool:
        """Whether a measured ε is above the claimed one."""
        return any(result.finding.verdict is Verdict.VIOLATED for result in self.results) or any(
            recovery.is_violated for recovery in self.recoveries
        )

    @property
    def above_ceiling(self) -> tuple[AboveCeiling, ...]:
        """True-positive rates whose interval lies above the ceiling that the claim sets for any attack."""
        breaches = []
        for result in self.results:
            for fpr, tpr in result.leakage.tprs.items():
                if tpr is None or tpr.lower <= fpr:  # a ceiling is never below chance
                    continue
                ceiling = highest_tpr(self.claim, fpr)
                if ceiling is not None and tpr.lower > ceiling:
                    breaches.append(AboveCeiling(result.name, fpr, tpr, ceiling))
            point = result.leakage.reported_point
            if point is not None and point.tpr.lower > point.fpr.upper:
                ceiling = highest_tpr(self.claim, point.fpr.upper)
                if ceiling is not None and point.tpr.lower > ceiling:
                    breaches.append(AboveCeiling(result.name, point.fpr.upper, point.tpr, ceiling))
        return tuple(breaches)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """The caveats of the claim in order, and the caveat of δ where δ is too large for so many units.

        A δ that is too large for the units that are known is also too large for more. A table without a claim
        has no δ that somebody chose.
        """
        caveats: frozenset[Caveat] = frozenset() if self.claim is None else self.claim.caveats
        if self.population is not None and (self.table is None or self.claim is not None):
            caveats |= delta_warning(self.delta, self.population)
        return tuple(sorted(caveats, key=lambda caveat: caveat.code))

    @property
    def strength(self) -> Strength:
        """The strongest kind of attack that was run on people's records; attacks on canaries do not count."""
        order = list(Strength)
        if not self.results:
            return Strength.UNKNOWN
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


def _evidence(result: AttackResult) -> tuple[float, bool, float]:
    return result.finding.measured.value, result.detected, result.leakage.auc.value


@final
@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a report was made, so that it can be made again.

    ``command`` is the command as it was written. ``call`` is the Python call that gives the same figures.
    ``code`` is the fingerprint of Privet's own code, ``packages`` the versions that it ran with.
    """

    command: str
    version: str
    seed: int | None = None
    call: str | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    code: Fingerprint = field(default_factory=code_fingerprint)
    packages: Mapping[str, str] = field(default_factory=package_versions)
