"""The recipe of a regression model, for records that hold their quantity."""

from dataclasses import dataclass, replace
from typing import final

from privet.arguments import positive
from privet.attacks.outputs import Outputs
from privet.attacks.quantities import Quantities, features_of, targets_of
from privet.attacks.shadows.recipe import Recipe
from privet.frame_columns import FrameColumns
from privet.views import BlackBox, Labels, Rows

__all__ = ["QuantityRecipe"]


@final
@dataclass(frozen=True, eq=False)
class QuantityRecipe(Recipe):
    """Another recipe, whose models predict a quantity, with the unit of their errors (``Quantities``).

    Records come from ``quantity_records``. The unit is one number for the target and all reference models.
    """

    recipe: Recipe
    unit: float

    def __post_init__(self) -> None:
        positive("unit", self.unit)

    def fit(self, inputs: Rows, labels: Labels, seed: int) -> BlackBox:
        del labels  # all are 1
        function = self.recipe.fit_quantities(features_of(inputs), targets_of(inputs), seed)
        return Quantities(function, self.unit)

    def giving(self, outputs: Outputs | None) -> "QuantityRecipe":
        return replace(self, recipe=self.recipe.giving(outputs))

    def naming(self, columns: FrameColumns | None) -> "QuantityRecipe":
        return replace(self, recipe=self.recipe.naming(columns))

    def description(self) -> str | None:
        inner = self.recipe.description()
        return None if inner is None else f"quantities in units of {self.unit!r}: {inner}"
