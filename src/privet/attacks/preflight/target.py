"""Checks of the target's answers, and whether reference models are like the target."""

import numpy as np

from privet.attacks.preflight.reference_losses import compare_losses
from privet.attacks.quantities import Quantities
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.scores import Challenge, References
from privet.views import BlackBox, LabelOnly, Numbers, Rows, confidence_logits

__all__ = [
    "answers_are_probabilities",
    "answers_repeat",
    "references_are_alike",
    "references_have_their_own_coins",
]

_ASKED = 256
_SAME = 1e-4  # a larger difference of confidences is no rounding, on any device
_SUM = 1e-3
_APART = 0.02
_DEVIATIONS = 3.0
_TOO_MANY = 6.0  # standard deviations: independent coins exceed them in 2 of 10⁹ cases


def answers_repeat(view: LabelOnly, challenge: Challenge) -> Check:
    """Two identical queries must have the same answer, and the answer of a row must not depend on other rows.

    Dropout in training mode breaks the first, batch normalisation in training mode the second.
    """
    name = "the model is in evaluation mode"
    rows = challenge.records.inputs[:_ASKED]
    half = len(rows) // 2
    try:
        first, again = _query(view, rows), _query(view, rows)
        parts = [_query(view, part) for part in (rows[:half], rows[half:]) if len(part)]
    except InvalidArgument:
        return Check(name=name, outcome=Outcome.SKIPPED, finding="The view refuses to answer these records.")
    unsteady, mixed = _differ(first, again), _differ(first, np.concatenate(parts))
    if unsteady or mixed:
        which = (
            "two identical queries get different answers"
            if unsteady
            else "answers depend on the other rows of the batch"
        )
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=f"For {max(unsteady, mixed)} of {len(rows)} records {which}.",
            advice="Call model.eval() before it is attacked, unless it is served like this.",
        )
    return Check(
        name=name, outcome=Outcome.PASSED, finding=f"{len(rows)} records got the same answer three times."
    )


def answers_are_probabilities(view: LabelOnly, challenge: Challenge) -> Check:
    """Confidences must be numbers that add up to 1."""
    name = "answers are probabilities"
    if not isinstance(view, BlackBox):
        return Check(name=name, outcome=Outcome.SKIPPED, finding="The view shows only labels.")
    if isinstance(view, Quantities):
        return Check(name=name, outcome=Outcome.SKIPPED, finding="The model predicts quantities.")
    rows = challenge.records.inputs[:_ASKED]
    advice = "Say what the model gives: Logits(f) or Probabilities(f)."
    try:
        confidences = view.confidences(rows)
    except InvalidArgument as refused:
        return Check(name=name, outcome=Outcome.WARNED, finding=str(refused), advice=advice)
    broken = ~(np.abs(confidences.sum(1) - 1) <= _SUM)
    if broken.any():
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=(
                f"The confidences of {broken.sum()} of {len(rows)} records are not numbers that add up to 1."
            ),
            advice=advice,
        )
    return Check(name=name, outcome=Outcome.PASSED, finding="All confidences add up to 1.")


def references_are_alike(view: LabelOnly, challenge: Challenge, references: References | None) -> Check:
    """Reference models must be as accurate as the target and as sure, on their own members and on their own
    non-members.

    Right means that the true label has a confidence above ½, which the stored signals show; the target is
    judged in the same way. The check warns of a difference above 2 points plus three standard deviations, of
    models and of records together. Models that were trained for other epochs can be equally right. So the
    distributions of φ are compared too (``preflight.reference_losses``).
    """
    name = "reference models are as accurate as the target"
    if references is None:
        return Check(name=name, outcome=Outcome.SKIPPED, finding="There are no reference models.")
    labels = challenge.records.labels
    if labels is None or not isinstance(view, BlackBox):
        return Check(
            name=name, outcome=Outcome.SKIPPED, finding="It needs labels, and a view that shows confidences."
        )
    try:
        phi = confidence_logits(view.log_confidences(challenge.records.inputs), labels)
    except InvalidArgument:
        return Check(name=name, outcome=Outcome.SKIPPED, finding="The view refuses to answer these records.")
    right, theirs = phi > 0, references.signals[:, 0] > 0
    sentences, warned = [], False
    # φ > 0 is p > ½: an error below √(2 ln 2) = 1.18 units.
    good = "within 1.2 typical errors of the truth" if isinstance(view, Quantities) else "right"
    for side, mine, trained in (
        ("trained on", challenge.members, references.members),
        ("not trained on", ~challenge.members, ~references.members),
    ):
        if not mine.any() or not trained.any(1).all():
            continue
        target = float(right[mine].mean())
        rates = np.array([model[own].mean() for model, own in zip(theirs, trained, strict=True)])
        chance = target * (1 - target) / int(mine.sum())
        spread = float(rates.var(ddof=1)) * (1 + 1 / len(rates)) if len(rates) > 1 else chance
        warned |= abs(target - float(rates.mean())) > _APART + _DEVIATIONS * (chance + spread) ** 0.5
        sentences.append(
            f"on records {side} the target is {good} in {target:.1%}, the references in {rates.mean():.1%}"
        )
    finding = f"{'; '.join(sentences) or 'There is no side that both have'}."
    finding = finding[0].upper() + finding[1:]
    surer = compare_losses(phi, challenge.members, references.signals[:, 0], references.members)
    if surer is not None:
        finding += (
            f" Of all figures of φ = ln(p/(1−p)) that were compared, {surer.figure} differs most: "
            f"{surer.of_target:.2f} for the target, {surer.of_references:.2f} for the references; as much "
            f"for one more reference in {surer.p_value:.2g} of cases."
        )
        warned |= surer.significant
    if warned:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Train the references as the target was: the same model, epochs, rate and number of records. "
                "Attacks by unlike references look too weak."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED if sentences else Outcome.SKIPPED, finding=finding)


def references_have_their_own_coins(challenge: Challenge, references: References | None) -> Check:
    """No reference model may have been trained on exactly the target's members, or on exactly the others.

    Such a model reveals the coin that must be guessed. It happens where the target's split and the
    references' split use the same random generator with the same seed.
    """
    name = "reference models have coins of their own"
    if references is None or references.members.shape[1] != len(challenge.members):
        return Check(
            name=name, outcome=Outcome.SKIPPED, finding="There are no reference models of these records."
        )
    mine = challenge.members - challenge.members.mean()
    theirs = references.members - references.members.mean(axis=1, keepdims=True)
    alike = np.abs(theirs @ mine)
    chance = np.sqrt((theirs**2).mean(axis=1) * (mine**2).sum())
    shared = int(((alike > _TOO_MANY * chance) & (chance > 0)).sum())
    finding = (
        f"{shared} of {references.models} reference models were trained on what the target was, or on the "
        f"rest."
    )
    if shared:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Train them on halves that are drawn by another seed. Attacks by such references look too "
                "strong."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def _query(view: LabelOnly, rows: Rows) -> Numbers:
    if isinstance(view, BlackBox):
        return view.confidences(rows)
    return view.labels(rows).astype(np.float64)[:, None]


def _differ(first: Numbers, second: Numbers) -> int:
    """For how many rows the answers differ; NaN differs from everything."""
    return int((~(np.abs(first - second) <= _SAME)).any(axis=1).sum())
