"""Shadow models with their parameters, for white-box attacks.

A study stores signals only; here the models are returned.
"""

import numpy as np

from privet.arguments import whole
from privet.attacks.membership.white_box import Shadow
from privet.attacks.shadows.recipe import Recipe
from privet.attacks.shadows.splits import Split, model_seed
from privet.errors import InvalidArgument
from privet.scores import Challenge, Records
from privet.views import WhiteBox

__all__ = ["train_shadows"]


def train_shadows(
    recipe: Recipe, records: Records, models: int = 2, *, judged: int, split: Split, seed: int
) -> tuple[Shadow, ...]:
    """Train models by the recipe, each with the first ``judged`` records as its own membership game.

    Seeds and splits are those of a study with the same arguments, so these are the first models of that
    study.
    """
    whole("models", models)
    members = split.members(models, len(records), seed)
    judged_records = records.take(np.arange(judged))
    recipe, shadows = recipe.naming(records.columns), []
    for model, coin in enumerate(members):
        training_set = records.take(coin)
        view = recipe.fit(training_set.inputs, training_set.known_labels, model_seed(seed, model))
        if not isinstance(view, WhiteBox):
            raise InvalidArgument(
                f"'recipe' must give models with visible parameters, got a {type(view).__name__} from a "
                f"{type(recipe).__name__}. Give a TorchRecipe, or take an attack on confidences."
            )
        shadows.append(Shadow(view, Challenge(judged_records, coin[:judged])))
    return tuple(shadows)
