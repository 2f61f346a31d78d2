"""Preflight: checks to make before the figures of an attack are trusted.

An attack that tells members from others may have found something else: the two sides come from different
sources, they hold copies of each other, or the model answers at random. An attack that finds nothing may have
had reference models that are unlike the target. Each check is a function that gives a ``Check``;
``preflight`` runs all of them, and a check without the data that it needs is skipped. Warnings are not
raised; the report shows them.

A new check is a function in ``design``, ``shift``, ``duplicates`` or ``target``, and a line in ``preflight``.
What it computes has a module of its own: ``columns`` and ``row_summaries`` for single columns, ``label_fit``,
``near_pairs``, ``reference_losses``. ``texts`` has the checks of texts, which are called by themselves.

*False alarms*: all checks against chance together warn in at most 1 of 50 fair challenges
(``false_alarms.FAMILY``), whatever the records are: given the records, their tests are exact or conservative.
"""

from privet.attacks.preflight.design import (
    canaries_present,
    enough_records,
    recipe_of,
    same_recipe,
    same_size,
)
from privet.attacks.preflight.duplicates import exact_duplicates, near_duplicates
from privet.attacks.preflight.shift import label_shift, membership_without_a_model
from privet.attacks.preflight.target import (
    answers_are_probabilities,
    answers_repeat,
    references_are_alike,
    references_have_their_own_coins,
)
from privet.attacks.preflight.texts import blind_scores, text_shift, tokens_fit, vocabulary_is_public
from privet.attacks.shadows.recipe import Recipe
from privet.checks import Check
from privet.public_calls import check_public_calls
from privet.scores import Challenge, References
from privet.views import LabelOnly

__all__ = [
    "answers_are_probabilities",
    "answers_repeat",
    "blind_scores",
    "canaries_present",
    "enough_records",
    "exact_duplicates",
    "label_shift",
    "membership_without_a_model",
    "near_duplicates",
    "preflight",
    "recipe_of",
    "references_are_alike",
    "references_have_their_own_coins",
    "same_recipe",
    "same_size",
    "text_shift",
    "tokens_fit",
    "vocabulary_is_public",
]


def preflight(
    view: LabelOnly,
    challenge: Challenge,
    *,
    references: References | None = None,
    target_recipe: Recipe | None = None,
    shadow_recipe: Recipe | None = None,
    canaries: int | None = None,
    fpr: float = 1e-3,
    seed: int = 0,
) -> tuple[Check, ...]:
    """All checks, the most important first.

    ``fpr`` is the false-positive rate of interest. ``canaries`` is the number of canaries in the training, if
    it is known.

    >>> import numpy as np
    >>> from privet.attacks import Probabilities
    >>> from privet.scores import Records
    >>> rows = np.random.default_rng(0).normal(size=(400, 3))
    >>> fair = Challenge(Records(rows), np.arange(400) % 2 == 0)
    >>> checks = preflight(Probabilities(lambda x: np.full((len(x), 2), 0.5)), fair, fpr=0.05)
    >>> sorted({str(check.outcome) for check in checks})
    ['passed', 'skipped']
    """
    return (
        enough_records(challenge, fpr=fpr),
        membership_without_a_model(challenge, seed=seed),
        label_shift(challenge, seed=seed),
        exact_duplicates(challenge, seed=seed),
        near_duplicates(challenge, fpr=fpr, seed=seed),
        answers_repeat(view, challenge),
        answers_are_probabilities(view, challenge),
        same_recipe(target_recipe, shadow_recipe),
        references_are_alike(view, challenge, references),
        references_have_their_own_coins(challenge, references),
        canaries_present(canaries),
    )


check_public_calls(__name__)
