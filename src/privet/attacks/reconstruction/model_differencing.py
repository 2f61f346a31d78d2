"""Differencing of two models: one was trained with a person and one without, and their difference is about
that person.

A model is updated when somebody joins or leaves (or asks to be forgotten), and both versions can be queried.
Training on a record lowers its loss. So the label for which the confidence rises most is the person's label,
and the candidate whose loss falls most is the person. No reference models are needed, and both questions take
two queries for each candidate.

Reference: Paige, Bell, Bellet, Gascón & Ezer 2020, "Reconstructing genotypes in private genomic databases
from genetic risk scores", who recover the genotype of a person from two linear models trained with and
without them. *Deviation*: theirs solves for the record in the coefficients of linear models; this one ranks
labels or candidates by the change of their loss, and needs confidences only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privet.errors import InvalidArgument
from privet.public_calls import check_public_calls
from privet.recoveries import Criterion, Recoveries, RecoveryGame
from privet.scores import Bits, Records
from privet.views import Adversary, BlackBox, Labels, Numbers, Rows, confidence_logits

__all__ = ["ModelDifferencing", "ModelPair"]


@final
@dataclass(frozen=True)
class ModelPair:
    """Two versions of a model: before and after one person came in. Where a person left, exchange them."""

    before: BlackBox
    after: BlackBox

    def changes(self, inputs: Rows) -> Numbers:
        """How much φ = ln(p/(1 − p)) of the confidence p in each class rose, rows × classes.

        Unlike the loss −ln p, φ still moves where the model is sure already.
        """
        tables = [view.log_confidences(inputs) for view in (self.before, self.after)]
        classes = max(2, *(table.shape[1] for table in tables))
        before, after = (_logits(table, classes) for table in tables)
        return after - before


@final
@dataclass(frozen=True)
class ModelDifferencing:
    """The label of a person, or which of many candidates they are, from two versions of a model.

    >>> from privet.attacks.model_views import Probabilities
    >>> before = Probabilities(lambda rows: np.tile([0.5, 0.5], (len(rows), 1)))
    >>> after = Probabilities(lambda rows: np.column_stack([0.4 - 0.1 * rows[:, 0], 0.6 + 0.1 * rows[:, 0]]))
    >>> attack, pair = ModelDifferencing(), ModelPair(before, after)
    >>> people = np.array([[0.0], [1.0]])
    >>> attack.label(pair, people[1]), attack.pick(pair, Records(people, np.array([1, 1])))
    (1, 1)
    """

    name: ClassVar[str] = "model differencing"

    def label(self, pair: ModelPair, target: Rows) -> int:
        """The label of the person who came in, from their record without it."""
        return int(np.argmax(pair.changes(np.asarray(target)[None])[0]))

    def scores(self, pair: ModelPair, candidates: Records) -> Numbers:
        """How much φ of each candidate's label rose; the highest came in, most probably."""
        changes = pair.changes(candidates.inputs)
        answer: Numbers = changes[np.arange(len(changes)), candidates.known_labels]
        return answer

    def pick(self, pair: ModelPair, candidates: Records) -> int:
        """Which of the candidates came in."""
        return int(np.argmax(self.scores(pair, candidates)))

    def run_labels(
        self,
        pairs: Sequence[ModelPair],
        targets: Records,
        *,
        members: Bits | None = None,
        blind: Labels | None = None,
    ) -> Recoveries:
        """Recover the label of each target from its pair of models, and join the truth.

        ``members`` is the coin: where it is False, somebody else came in, and the target's label is not in
        either model. ``blind`` is the best guess without the second model, such as the label that the first
        one predicts.
        """
        _check_pairs(pairs, len(targets))
        recovered = np.array([self.label(pair, row) for pair, row in zip(pairs, targets.inputs, strict=True)])
        game = RecoveryGame(targets.known_labels, members, blind, Criterion.exactly("the label is right"))
        wants = _adversary("the records of the person without the label", "the label of the person")
        return game.judge(recovered, f"{self.name}: label", adversary=wants)

    def run_records(self, pairs: Sequence[ModelPair], candidates: Records, truths: Labels) -> Recoveries:
        """Pick the person who came in between the models of each pair, and join the truth.

        ``truths`` are the places of the true ones among the candidates, each drawn at random: the baseline is
        one of the number of candidates.
        """
        places, count = np.asarray(truths), len(candidates)
        _check_pairs(pairs, len(places))
        if places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= count:
            raise InvalidArgument(
                f"'truths' must be places among the {count} candidates, got others. Count from 0, one place "
                "for each pair of models."
            )
        recovered = np.array([self.pick(pair, candidates) for pair in pairs])
        game = RecoveryGame(
            places, criterion=Criterion.exactly(f"the right one of {count:,} candidates"), candidates=count
        )
        wants = _adversary(f"{count:,} records, of which one came in", "which of them it was")
        return game.judge(recovered, f"{self.name}: record", adversary=wants)


def _adversary(knows: str, wants: str) -> Adversary:
    return Adversary(
        sees="the confidences of two models, trained with and without one person", knows=knows, wants=wants
    )


def _check_pairs(pairs: Sequence[ModelPair], count: int) -> None:
    if len(pairs) != count or count == 0:
        raise InvalidArgument(
            f"'pairs' must be one pair of models for each target, got {len(pairs)} for {count}. Train a "
            "model with each target and one without."
        )


def _logits(table: Numbers, classes: int) -> Numbers:
    """φ of every class; one that a model does not know has a confidence near 0."""
    floor = float(np.log(np.finfo(np.float64).tiny))
    missing = classes - table.shape[1]
    whole = np.pad(np.maximum(table, floor), ((0, 0), (0, missing)), constant_values=floor)
    columns = [confidence_logits(whole, np.full(len(whole), label)) for label in range(classes)]
    return np.stack(columns, axis=1)


check_public_calls(__name__)
