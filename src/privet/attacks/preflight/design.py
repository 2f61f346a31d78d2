"""Checks of the design of an experiment: numbers of records, recipes, canaries."""

from privet.arguments import fraction, whole
from privet.attacks.shadows.recipe import Recipe, ScikitRecipe
from privet.checks import Check, Outcome
from privet.scores import Challenge, References

__all__ = ["canaries_present", "enough_records", "recipe_of", "same_recipe", "same_size"]

_SIZE = 0.1
_EXPECTED = 10  # false positives, so that a rate is known within about a third


def enough_records(challenge: Challenge, *, fpr: float) -> Check:
    """Whether there are enough records for the false-positive rate: with m non-members, no rate below 1/m can
    be measured.
    """
    fraction("fpr", fpr)
    members = int(challenge.members.sum())
    others = len(challenge.members) - members
    name = "enough records"
    if not members or not others:
        side = "members" if not members else "non-members"
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=f"There are no {side}.",
            advice="Give records of both sides.",
        )
    expected = fpr * others
    finding = (
        f"{members} members and {others} non-members; a rate of {fpr:g} is {expected:.3g} false positives, "
        f"and the smallest rate that can be measured is {1 / others:.2g}."
    )
    if expected < _EXPECTED:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=f"Use at least {_EXPECTED / fpr:.0f} non-members, or ask at a rate from "
            f"{min(1.0, _EXPECTED / others):.2g} up.",
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def same_recipe(target: Recipe | None, shadow: Recipe | None) -> Check:
    """Whether reference models are trained like the target, by the descriptions of both recipes."""
    name = "shadow recipe = target recipe"
    texts = [None if recipe is None else recipe.description() for recipe in (target, shadow)]
    if texts[0] is None or texts[1] is None:
        return Check(
            name=name,
            outcome=Outcome.SKIPPED,
            finding="At least one of the two recipes is not known, or has no description.",
            advice=(
                "Say how the target was trained; an adversary who does not know it is weaker than the worst "
                "one."
            ),
        )
    if texts[0] != texts[1]:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding="Reference models are trained by another recipe than the target.",
            advice=(
                "Train them as the target was: model, epochs, batch, rate, augmentation, and number of "
                "records."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED, finding="Both have the same description.")


def recipe_of(model: object, declared: Recipe | None) -> Recipe | None:
    """The recipe of a target: a fitted scikit-learn estimator brings its own settings; of other models only
    the declared recipe is known.
    """
    if isinstance(declared, ScikitRecipe) and isinstance(model, type(declared.estimator)):
        return declared.with_settings_of(model)
    return declared


def same_size(target: int, references: References | None) -> Check:
    """Whether reference models were trained on as many records as the target, within a tenth."""
    name = "reference models have as many records as the target"
    if references is None:
        return Check(name=name, outcome=Outcome.SKIPPED, finding="There are no reference models.")
    mean_size = float(references.members.sum(axis=1).mean())
    finding = (
        f"The target was trained on {target:,} records as far as is known, a reference model on "
        f"{mean_size:,.0f}."
    )
    if abs(mean_size - target) > _SIZE * target:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=finding,
            advice=(
                "Train reference models on as many records as the target: a model of another size memorises "
                "differently, and attacks look too weak. Give audit a recipe and all members."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=finding)


def canaries_present(count: int | None) -> Check:
    """Whether there were canaries in the training: without them a low measured ε says little."""
    name = "canaries"
    if count is None:
        return Check(
            name=name,
            outcome=Outcome.SKIPPED,
            finding="It is not known whether there were canaries in the training.",
        )
    if whole("count", count, least=0) == 0:
        return Check(
            name=name,
            outcome=Outcome.WARNED,
            finding=(
                "There were no canaries in the training: only ordinary records are attacked, which are not "
                "the worst case."
            ),
            advice=(
                "Train with canaries=1000: each is in or out by its own coin, and is easy to memorise on "
                "purpose."
            ),
        )
    return Check(name=name, outcome=Outcome.PASSED, finding=f"There were {count} canaries.")
