"""The references of an audit: ready ones that were given, or those that a recipe trains; and what a report says of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.arguments import shown, whole
from privet.attacks.membership.registry import ALL_CONFIDENCES, REFERENCES, SHADOWS, Knowledge, Means
from privet.attacks.shadows import Recipe
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.pipeline.choosing import AttackChoice, placed
from privet.pipeline.records import Asked
from privet.pipeline.time_limit import Budget, references_within, shadows_for
from privet.reporting.facts import ReferenceModels
from privet.scores import Records, References
from privet.views import LabelOnly

__all__ = ["Lender"]

_USUAL = 16


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Lender:
    """What attacks can be lent besides the view: references that are there or can be trained, shadow models, public records."""

    recipe: Recipe | None
    references: int | References | None
    budget: Budget | None
    cache: Path | str | None
    seed: int
    progress: bool

    def __post_init__(self) -> None:
        if isinstance(self.references, References):
            placed(self.references, "references")
        elif self.references is not None and self.recipe is None:
            raise InvalidArgument(
                f"'references' must go with a recipe to train them by, got {shown(self.references)} and no recipe. "
                f"Say how the model was trained: recipe=TorchRecipe(…), for instance."
            )
        elif self.references is not None:
            whole("references", self.references)

    def means(self, view: LabelOnly, records: Records, public: Records | None) -> Means:
        """What there is, or would be after training."""
        ready = self.references if isinstance(self.references, References) else None
        trains = self.recipe is not None
        return Means(
            view=view,
            records=records,
            references=trains or ready is not None,
            all_confidences=trains if ready is None else ready.log_confidences is not None,
            public=public is not None,
            shadows=trains,
        )

    def trained(self, asked: Asked, choice: AttackChoice) -> References | None:
        """The references, of all records that they know; trained only where they are asked for or needed."""
        if isinstance(self.references, References):
            return self.references
        if self.recipe is None or (self.references is None and not choice.needs(REFERENCES)):
            return None
        return references_within(
            self.recipe,
            asked,
            self.references or _USUAL,
            self.budget,
            seed=self.seed,
            cache=self.cache,
            keep_confidences=choice.needs(ALL_CONFIDENCES),
            progress=self.progress,
        ).references

    def knowledge(
        self, asked: Asked, choice: AttackChoice, references: References | None, public: Records | None
    ) -> Knowledge:
        """All that the chosen attacks are made from; references in the order of the records."""
        judged = asked.challenge.records
        needed = self.recipe is not None and choice.needs(SHADOWS)
        return Knowledge(
            records=judged,
            references=None if references is None else references.aligned(judged),
            public=public,
            shadows=shadows_for(self.recipe, asked, seed=self.seed) if self.recipe and needed else (),
        )

    def facts(self, references: References | None) -> ReferenceModels | None:
        """What a report says of them."""
        if references is None:
            return None
        ready = isinstance(self.references, References)
        return ReferenceModels(
            asked=None if isinstance(self.references, References) else self.references or _USUAL,
            used=references.models,
            records=round(float(references.members.sum(axis=1).mean())),
            budget=None if self.budget is None or ready else self.budget.seconds,
        )


def fewer_than_asked(found: ReferenceModels | None) -> tuple[Check, ...]:
    """A warning where time ran out before all reference models were trained."""
    if found is None or not found.fewer:
        return ()
    return (
        Check(
            name="as many reference models as were asked for",
            outcome=Outcome.WARNED,
            finding=f"Of {found.asked} reference models {found.used} were trained, within the {found.budget:g} s that were allowed.",
            advice="Give more time, or ask for fewer. With few reference models attacks find less than they could.",
        ),
    )
