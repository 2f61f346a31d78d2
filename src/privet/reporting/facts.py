"""What a report is made of: for each model, what attacks measured beside what was proved, and what was checked.

Nothing here computes a figure of its own: leakage and lower bounds come from ``privet.auditing``, upper bounds from a
``Guarantee``. A report never says that a model *is* private: it says what was not detected, at which power, and what is
proved.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import final

from privet.auditing import AtRisk, GroupAccuracy, GroupHarm, Leakage
from privet.bounds import Finding, Verdict
from privet.caveats import Caveat
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.guarantees import Guarantee, delta_warning
from privet.ledger import Ledger
from privet.scores import Scores
from privet.views import Adversary

__all__ = ["AttackResult", "Harm", "ModelAudit", "Origin", "Standing", "Strength"]


@final
class Standing(StrEnum):
    """Where a model stands, from worst to best; there is no "private"."""

    BROKEN = "broken"  # the measured lower bound is above the proved upper bound
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
        """Whether it showed any ε at all, at the confidence of the finding: its share of the report's."""
        return self.finding.measured.value > 0


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Harm:
    """Who is hurt, by one attack: the members most at risk, and each class and group with its own leakage.

    ``names`` are what to call the records: their places in the members that were given. ``class_accuracies`` and
    ``group_accuracies`` say how often the model is right on each class and group; empty where labels are not known.
    """

    attack: str
    at_risk: AtRisk
    names: tuple[str, ...]
    classes: tuple[GroupHarm, ...] = ()
    groups: tuple[GroupHarm, ...] = ()
    class_accuracies: tuple[GroupAccuracy, ...] = ()
    group_accuracies: tuple[GroupAccuracy, ...] = ()


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
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if not self.results:
            raise InvalidArgument("'results' must hold at least one attack, got none. Run an attack first.")

    @property
    def strongest(self) -> AttackResult:
        """The attack on records with the highest lower bound on ε; between equals, the one with the highest AUC.

        Canaries come in only where nothing else was attacked: what an adversary tells of them is no measure of what happens to people.
        """
        return max(self._on_records or self.results, key=_strength)

    @property
    def tightest(self) -> AttackResult:
        """What bounds ε best from below, canaries included."""
        return max(self.results, key=_strength)

    @property
    def epsilon_measured(self) -> float:
        """At least this, with the confidence of the tightest finding."""
        return self.tightest.finding.measured.value

    @property
    def epsilon_proved(self) -> float | None:
        """At most this, by proof; None where nothing was proved."""
        claimed = self.strongest.finding.claimed
        return None if claimed is None else claimed.value

    @property
    def confidence(self) -> float:
        """With which the best of all attacks' bounds holds: the failures that each of them allows, added up."""
        failures = sum(1 - result.finding.measured.confidence for result in self.results)
        return round(max(1 - failures, 0.0), 12)

    @property
    def detected(self) -> bool:
        """Whether any attack told members from others beyond chance; attacks share the level out among them.

        That canaries were told says that the bound is near, not that anybody's record was found.
        """
        return any(result.detected for result in self._on_records or self.results)

    @property
    def standing(self) -> Standing:
        """The verdict on this model."""
        if any(result.finding.verdict is Verdict.VIOLATED for result in self.results):
            return Standing.BROKEN
        proved = self.epsilon_proved is not None
        if self.detected:
            return Standing.LEAKS_WITHIN if proved else Standing.LEAKS
        return Standing.NOT_DETECTED_PROVED if proved else Standing.NOT_DETECTED

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
        return max((result.strength for result in self._on_records or self.results), key=order.index)

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The checks that warned."""
        return tuple(check for check in self.checks if check.outcome is Outcome.WARNED)

    @property
    def _on_records(self) -> tuple[AttackResult, ...]:
        return tuple(result for result in self.results if not result.planted)


def _strength(result: AttackResult) -> tuple[float, float]:
    return result.finding.measured.value, result.leakage.auc.value


@final
@dataclass(frozen=True, kw_only=True)
class Origin:
    """How a report came to be, so that it can be made again."""

    command: str
    version: str
    seed: int | None = None
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
