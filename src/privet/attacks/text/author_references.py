"""Reference models with the author as the unit: who is in which model, and what the models say of an author.

A study has one record for each text; ``AuthorSplit`` gives or withholds all texts of an author together.
``group_by_author`` then makes one record of each author, so that LiRA and the other attacks with references
judge authors.

A target that is one of the study's own models must be judged without its *complement*. With halves in pairs,
the complement was trained on exactly the authors that the target was not trained on. It is a reference
"without the author" for every member and for no other, so it shows the coins. ``leave_out_target`` drops it.
"""

from dataclasses import dataclass, field
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks.membership.reference_attack import ReferenceAttack
from privet.attacks.membership.signals import log_confidence
from privet.attacks.shadows.splits import Halves, Split
from privet.attacks.text.authors import AuthorAttack, Authors
from privet.attacks.text.sequence_views import sequence_records
from privet.attacks.text.token_views import TokenLogProbs
from privet.errors import InvalidArgument
from privet.scores import Bits, Records, References
from privet.views import Adversary, BlackBox, Numbers, Rows

__all__ = ["AuthorSplit", "ReferencedAuthors", "group_by_author", "leave_out_target"]


@final
@dataclass(frozen=True, eq=False)
class AuthorSplit(Split):
    """All texts of an author, or none: ``split`` draws authors, and each text follows its author.

    ``owners`` names the author of every text of the study. Texts that are not ``trained`` are in no model:
    other texts of the same people, which the models are only asked about.
    """

    owners: NDArray[np.str_]
    trained: Bits | None = None
    split: Split = field(default_factory=Halves)

    def members(self, models: int, records: int, seed: int) -> Bits:
        names, places = np.unique(np.asarray(self.owners).astype(str), return_inverse=True)
        if len(places) != records or len(names) < 2:
            raise InvalidArgument(
                f"'owners' must name the author of each of {records} texts, at least two authors, got "
                f"{len(places)} names of {len(names)}. Give one name for each text."
            )
        bits: Bits = self.split.members(models, len(names), seed)[:, places]
        return bits if self.trained is None else bits & np.asarray(self.trained, dtype=np.bool_)


def group_by_author(references: References, study: Authors, asked: Authors) -> References:
    """One record for each author: the mean of ln p over the author's ``asked`` tokens, by every model.

    ``study`` has all texts of the study, in its order; ``asked`` are those of them that the adversary has,
    for the same authors. An author is a member of a model that was trained on a text of theirs.
    """
    if not np.array_equal(study.names, asked.names):
        raise InvalidArgument(
            "'asked' must have texts of every author of the study, got other authors. Leave authors without "
            "such texts out of both."
        )
    if len(study.sequences) != len(references):
        raise InvalidArgument(
            f"'study' must have the {len(references)} texts that the references cover, got "
            f"{len(study.sequences)}. Give them in the order of the study."
        )
    count = len(study.names)
    members = np.zeros((references.models, count), dtype=np.bool_)
    np.logical_or.at(members.T, study.places, references.members.T)
    answers = log_confidence(references.align(sequence_records(asked.sequences)).signals)
    lengths = np.array([len(one) - 1 for one in asked.sequences], dtype=np.float64)
    own = np.zeros((*answers.shape[:2], count))
    np.add.at(own.transpose(2, 0, 1), asked.places, (answers * lengths).transpose(2, 0, 1))
    own /= np.bincount(asked.places, weights=lengths, minlength=count)
    return References(_logits(own), members).about(_author_records(asked))


def leave_out_target(references: References, target: int) -> References:
    """The references without one of their models, and without its complement and its twins.

    Use it when the target is one of the study's own models.
    """
    if not 0 <= target < references.models:
        raise InvalidArgument(
            f"'target' must be one of the {references.models} models, got {target}. Number them from 0."
        )
    members = references.members
    complement = (members == ~members[target]).all(axis=1)
    twin = (members == members[target]).all(axis=1)
    kept = ~(complement | twin)
    if not kept.any():
        raise InvalidArgument(
            f"'references' must hold other models than the target and its complement, got "
            f"{references.models} models. Train at least two more."
        )
    return references.pick_models(kept)


@final
@dataclass(frozen=True, eq=False)
class ReferencedAuthors(AuthorAttack):
    """LiRA or another attack with reference models, with the author as the unit.

    The references of ``attack`` come from ``group_by_author``, for the texts that the adversary has.
    """

    attack: ReferenceAttack

    is_calibrated: ClassVar[bool] = True
    adversary: ClassVar[Adversary] = Adversary(
        sees="the probability of every token",
        knows="texts of the author, and reference models trained the same way, with the author or without",
        wants="whether an author's texts were trained on",
    )

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"{self.attack.name} over authors"

    def judge(self, found: TokenLogProbs, authors: Authors) -> Numbers:
        own = np.minimum(authors.token_means(found, found.logprobs), 0.0)
        with np.errstate(divide="ignore"):
            said = _SaidOfAuthors(np.stack([np.log(-np.expm1(own)), own], axis=1))
        return self.attack.score(said, _author_records(authors))


@final
@dataclass(frozen=True, eq=False)
class _SaidOfAuthors(BlackBox):
    """What the target has said of the authors already, in their order."""

    answers: Numbers

    def log_confidences(self, inputs: Rows) -> Numbers:
        return self.answers


def _author_records(authors: Authors) -> Records:
    return Records(authors.names, np.ones(len(authors.names), dtype=np.int64))


def _logits(logs: Numbers) -> Numbers:
    """φ = ln p − ln(1 − p) from ln p."""
    answer: Numbers = np.clip(logs - np.log(-np.expm1(np.minimum(logs, -1e-300))), -745.0, 745.0)
    return answer
