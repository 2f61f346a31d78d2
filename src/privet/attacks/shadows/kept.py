"""Shadow models that are kept whole, for attacks on parameters. A study keeps what its models say; here the models stay."""

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
    """Models by the recipe, each with the first ``judged`` records as its own membership game.

    Seeds and splits are those of a study with the same arguments, so these are its first models.
    """
    whole("models", models)
    members = split.members(models, len(records), seed)
    asked = records.take(np.arange(judged))
    shadows = []
    for model, coin in enumerate(members):
        mine = records.take(coin)
        view = recipe.fit(mine.inputs, mine.known_labels, model_seed(seed, model))
        if not isinstance(view, WhiteBox):
            raise InvalidArgument(
                f"'recipe' must give models whose parameters are seen, got a {type(view).__name__} from a "
                f"{type(recipe).__name__}. Give a TorchRecipe, or take an attack on confidences."
            )
        shadows.append(Shadow(view, Challenge(asked, coin[:judged])))
    return tuple(shadows)
