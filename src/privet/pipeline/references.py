"""The references of an audit: ready ones, or ones that a recipe trains; and their description in a report."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from privet.arguments import format_value, whole
from privet.attacks.membership.registry import ALL_CONFIDENCES, REFERENCES, SHADOWS, Knowledge, Means
from privet.attacks.membership.white_box import Shadow
from privet.attacks.shadows import Recipe
from privet.checks import Check, Outcome
from privet.errors import InvalidArgument
from privet.pipeline.choosing import AttackChoice, require_identified
from privet.pipeline.records import ShuffledChallenge
from privet.pipeline.time_limit import TimeLimit, train_references, train_white_box_shadows
from privet.reporting.facts import ReferenceModels
from privet.scores import Records, References
from privet.views import LabelOnly

__all__ = ["KnowledgeSource", "warn_of_fewer"]

_DEFAULT_MODELS = 16


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class KnowledgeSource:
    """Where attacks get their knowledge from: references that are ready or can be trained, shadow models,
    public records.
    """

    recipe: Recipe | None
    references: int | References | None
    time_limit: TimeLimit | None
    cache: Path | str | None
    seed: int
    progress: bool

    def __post_init__(self) -> None:
        if isinstance(self.references, References):
            require_identified(self.references, "references")
        elif self.references is not None and self.recipe is None:
            raise InvalidArgument(
                f"'references' must go with a recipe to train them by, got {format_value(self.references)} "
                f"and no recipe. Say how the model was trained: recipe=TorchRecipe(…), for instance."
            )
        elif self.references is not None:
            whole("references", self.references)

    def means(self, view: LabelOnly, records: Records, public: Records | None) -> Means:
        """The means of the adversary: what is there, or would be after training."""
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

    def train(self, challenge: ShuffledChallenge, choice: AttackChoice) -> References | None:
        """The references, for all records that they cover.

        They are trained only where they are asked for or needed.
        """
        if isinstance(self.references, References):
            return self.references
        if self.recipe is None or (self.references is None and not choice.needs(REFERENCES)):
            return None
        return train_references(
            self.recipe,
            challenge,
            self.references or _DEFAULT_MODELS,
            self.time_limit,
            seed=self.seed,
            cache=self.cache,
            keep_confidences=choice.needs(ALL_CONFIDENCES),
            progress=self.progress,
        ).references

    def collect(
        self,
        challenge: ShuffledChallenge,
        choice: AttackChoice,
        references: References | None,
        public: Records | None,
    ) -> Knowledge:
        """The knowledge that the chosen attacks are built from.

        References are in the order of the records.
        """
        judged = challenge.challenge.records
        shadows: tuple[Shadow, ...] = ()
        if self.recipe is not None and choice.needs(SHADOWS):
            shadows = train_white_box_shadows(self.recipe, challenge, seed=self.seed)
        return Knowledge(
            records=judged,
            references=None if references is None else references.align(judged),
            public=public,
            shadows=shadows,
        )

    def describe(self, references: References | None) -> ReferenceModels | None:
        """The facts on the references for a report."""
        if references is None:
            return None
        ready = isinstance(self.references, References)
        return ReferenceModels(
            asked=None if isinstance(self.references, References) else self.references or _DEFAULT_MODELS,
            used=references.models,
            records=round(float(references.members.sum(axis=1).mean())),
            time_limit=None if self.time_limit is None or ready else self.time_limit.seconds,
        )


def warn_of_fewer(models: ReferenceModels | None) -> tuple[Check, ...]:
    """A warning where the time limit ended training before all reference models were trained."""
    if models is None or not models.fewer:
        return ()
    return (
        Check(
            name="as many reference models as were asked for",
            outcome=Outcome.WARNED,
            finding=(
                f"Of {models.asked} reference models {models.used} were trained, within the "
                f"{models.time_limit:g} s that were allowed."
            ),
            advice=(
                "Give more time, or ask for fewer models. With few reference models attacks find less than "
                "they could."
            ),
        ),
    )
