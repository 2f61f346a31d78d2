"""What the attacks with reference models share: they compare φ of the target with φ of the references.

``judge`` is pure: it takes the target's signals, queries × records, and queries no model. IN are the models
that were trained on a record, OUT those that were not.

Some attacks compare softened confidences, at a temperature T above 1. Studies store φ at a few temperatures.
References that hold φ alone (made by hand, or before that was stored) are softened as φ/T, target and
references alike: exact for two classes, and with more of them the softening of "this class or another".
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, cast, final

import numpy as np

from privet.arguments import format_value
from privet.attacks.membership.attack import Attack
from privet.attacks.membership.signals import QueryTransform, TargetSignals, signals, softened_signals
from privet.errors import InvalidArgument
from privet.scores import TEMPERATURES, Bits, Records, References
from privet.views import Adversary, BlackBox, Numbers

__all__ = [
    "OFFLINE",
    "ONLINE",
    "ReferenceAttack",
    "ReferenceStatistics",
    "at_temperature",
    "check_temperature",
    "require_out_models",
    "soften",
    "summarize_in",
    "summarize_out",
]

_FARTHEST = 745.0  # −ln of the least number above 0

ONLINE = Adversary(
    sees="the confidence in every class",
    knows="the record and its label, and reference models trained the same way, with it and without it",
    wants="whether a record was trained on",
)
OFFLINE = Adversary(
    sees="the confidence in every class",
    knows="the record and its label, and reference models trained the same way, none of them with it",
    wants="whether a record was trained on",
)


class ReferenceAttack(Attack[BlackBox]):
    """An attack that compares the target with reference models.

    ``score`` puts the references in the order of the records, or refuses; ``judge`` takes them in their own
    order.
    """

    references: References
    queries: Sequence[QueryTransform]

    sees = BlackBox
    is_calibrated = True
    softens: ClassVar[bool] = False  # whether it compares softened confidences

    def __post_init__(self) -> None:
        object.__setattr__(self, "queries", tuple(self.queries))

    @abstractmethod
    def judge(self, target: Numbers | TargetSignals) -> Numbers:
        """One score for each record from the target's φ, queries × records, as ``query_target`` gives it.

        Numbers alone are φ itself; see this module for how they are softened.
        """

    def score(self, view: BlackBox, records: Records) -> Numbers:
        return self.about(records).judge(self.query_target(view, records))

    def about(self, records: Records) -> Self:
        """The same attack with its references in the order of these records."""
        aligned = self.references.align(records)
        return cast(Self, replace(cast(Any, self), references=aligned))

    def query_target(self, view: BlackBox, records: Records) -> TargetSignals:
        """The target's φ for every query and record, softened too where the attack and the references do so.

        The queries must be those of the references.
        """
        if len(self.queries) != self.references.signals.shape[1]:
            raise InvalidArgument(
                f"'queries' must be the {self.references.signals.shape[1]} that the references answered, got "
                f"{len(self.queries)}. Give the same queries to the study and to the attack."
            )
        if self.softens and self.references.softened is not None:
            return softened_signals(view, records, self.queries)
        return TargetSignals(signals(view, records, self.queries))


@final
@dataclass(frozen=True, eq=False)
class ReferenceStatistics:
    """φ over the IN or the OUT models: their number for each record, their mean, and the squares about it."""

    counts: Numbers  # records
    means: Numbers  # queries × records; NaN where there is no model
    squares: Numbers  # queries × records: Σ (φ − mean)²

    @property
    def known(self) -> Bits:
        """Records that have such a model."""
        return np.asarray(self.counts > 0)

    @property
    def freedom(self) -> float:
        """The degrees of freedom over all records."""
        return float(np.maximum(self.counts - 1.0, 0.0).sum())


def summarize_in(references: References) -> ReferenceStatistics:
    """φ over the models that were trained on the record."""
    return _summarize(references.signals, references.members)


def summarize_out(references: References) -> ReferenceStatistics:
    """φ over the models that were not trained on the record."""
    return _summarize(references.signals, ~references.members)


def require_out_models(references: References) -> None:
    """Refuse records that every reference model was trained on, which an offline attack cannot judge."""
    everywhere = int(np.asarray(references.members.all(axis=0)).sum())
    if everywhere:
        raise InvalidArgument(
            f"'references' must hold a model without each record, and {everywhere} of "
            f"{references.members.shape[1]} records are in all of them. Split so that each record is left "
            f"out somewhere, or take the online attack."
        )


def check_temperature(temperature: float) -> float:
    """The temperature, or a refusal where no study stores φ at it."""
    if temperature not in (1.0, *TEMPERATURES):
        raise InvalidArgument(
            f"'temperature' must be 1, {', '.join(f'{each:g}' for each in TEMPERATURES)}, at which studies "
            f"store confidences, got {format_value(temperature)}. Leave it out to take 2."
        )
    return temperature


def at_temperature(
    target: Numbers | TargetSignals, references: References, temperature: float
) -> tuple[Numbers, References]:
    """The target's φ and the references, both at this temperature.

    Target signals that do not fit the references or are not numbers are refused. Infinite ones are clipped to
    ±745, the limit of ``confidence_logits``: the difference of two infinite densities is NaN.
    """
    given = target if isinstance(target, TargetSignals) else TargetSignals(target)
    phi = _check(given.phi, references)
    if given.softened is None:  # both by φ alone, or the two would differ
        return phi / temperature, soften(replace(references, softened=None), temperature)
    if temperature != 1.0 and references.softened is not None:
        phi = _check(given.softened[TEMPERATURES.index(temperature)], references)
        return phi, soften(references, temperature)
    return phi / temperature, soften(references, temperature)


def soften(references: References, temperature: float) -> References:
    """The same references with φ at this temperature as their signals, and nothing else."""
    if temperature == 1.0:
        found = references.signals
    elif references.softened is None:
        found = references.signals / temperature
    else:
        found = references.softened[TEMPERATURES.index(temperature)]
    return References(found, references.members, hashes=references.hashes)


def _check(target: Numbers, references: References) -> Numbers:
    target = np.asarray(target, dtype=np.float64)
    if target.shape != references.signals.shape[1:]:
        raise InvalidArgument(
            f"'target' must be queries × records as in the references, {references.signals.shape[1:]}, got "
            f"shape {target.shape}. Give the target the queries of the references."
        )
    if np.isnan(target).any():
        raise InvalidArgument(
            "'target' must be numbers, got NaN among the signals. Look for records that hold NaN, or for a "
            "model that diverged."
        )
    answer: Numbers = np.clip(target, -_FARTHEST, _FARTHEST)
    return answer


def _summarize(signals_: Numbers, among: Bits) -> ReferenceStatistics:
    weights = among[:, None, :]
    counts = among.sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore"):
        means = np.where(weights, signals_, 0.0).sum(axis=0) / counts
    squares = np.where(weights, (signals_ - means) ** 2, 0.0).sum(axis=0)
    return ReferenceStatistics(counts, means, squares)
