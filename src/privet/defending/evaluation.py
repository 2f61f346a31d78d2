"""``evaluate_defence``: what a defence leaks to an adversary who knows it, and what it costs.

Adversary: knows the defence and the recipe, trains reference models with both, and chooses among attacks. The
report is that of the best attack. Where answers are masked, labels are attacked too.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from privet.arguments import open_fraction, whole
from privet.attacks.shadows.recipe import Recipe, to_recipe
from privet.attacks.shadows.splits import model_seed
from privet.attacks.shadows.studies import conduct
from privet.defending.defence import AnswerDefence, Defence, DefenceProof
from privet.defending.defence_results import DefenceResult
from privet.defending.game import DefenceGame
from privet.defending.scoring import (
    AttackedRate,
    attack_models,
    best_rate,
    cover_models,
    label_references,
    plain_accuracy,
    to_references,
)
from privet.errors import InvalidArgument
from privet.scores import Bits
from privet.views import Numbers

__all__ = ["ModelAnswers", "collect_answers", "evaluate_defence"]

_LEAST = -745.0
_REPEATS = 16  # answers that an adversary averages, where each is drawn anew
_LEARNT = 1000  # members that a mask learns from
_SIGHT, _MASKED_SIGHT = 745.0, 12.0  # how far φ is followed


@final
@dataclass(frozen=True, eq=False)
class ModelAnswers:
    """What models of one recipe answer to every row of a game, and what training one of them takes."""

    log_confidences: Numbers  # models × rows × classes
    members: Bits
    seconds: float
    proof: DefenceProof | None = None


def collect_answers(
    defence: Defence,
    recipe: object,
    game: DefenceGame,
    *,
    models: int = 16,
    cache: Path | str | None = None,
    progress: bool = True,
) -> ModelAnswers:
    """Train the models of a game with the defence, and ask each about every row.

    One model is trained by itself to time it. Models in the ``cache`` are not trained again.
    """
    whole("models", models, least=4)
    plain = to_recipe(recipe)
    protected = plain if isinstance(defence, AnswerDefence) else defence.protect(plain)
    seconds, proof = _time_one(defence, protected, game)
    done = conduct(
        protected,
        game.records,
        models,
        seed=game.seed,
        split=game.split,
        cache=cache if protected.description() is not None else None,
        keep_confidences=True,
        progress=progress,
    ).references
    assert done.log_confidences is not None  # they were asked for
    return ModelAnswers(np.maximum(done.log_confidences, _LEAST), done.members, seconds, proof)


def evaluate_defence(
    defence: Defence,
    recipe: object,
    game: DefenceGame,
    *,
    models: int = 16,
    fpr: float = 0.01,
    confidence: float = 0.95,
    cache: Path | str | None = None,
    answers: ModelAnswers | None = None,
    progress: bool = True,
) -> DefenceResult:
    """Attack a defence and measure its price.

    ``recipe`` is the plain one, without the defence. ``answers`` are those of ``collect_answers``: for an
    answer defence those of ``NoDefence``, so that one set of models serves all of them; a ``cache`` does the
    same.
    """
    open_fraction("fpr", fpr)
    open_fraction("confidence", confidence)
    given = answers
    if given is None:
        given = collect_answers(defence, recipe, game, models=models, cache=cache, progress=progress)
    if given.log_confidences.shape[1] != len(game.records):
        raise InvalidArgument(
            f"'answers' must cover the {len(game.records)} rows of the game, got "
            f"{given.log_confidences.shape[1]}. Collect them for this game."
        )
    shown = _mask(defence, given, game) if isinstance(defence, AnswerDefence) else given.log_confidences
    masked = isinstance(defence, AnswerDefence)
    hidden = isinstance(defence, AnswerDefence) and defence.hides_confidences
    most = _MASKED_SIGHT if masked else _SIGHT
    judge = _Judge(game, given, shown, most, hidden, fpr, 1 - (1 - confidence) / 3)
    population = judge.best(game.population)
    kinds = {kind: judge.best(rows) for kind, rows in game.canaries.items()}
    worst = max(kinds, key=lambda kind: kinds[kind].tpr.value)
    right = shown.argmax(axis=2) == game.records.known_labels
    test = right[:, game.test].sum(axis=1)
    trained = given.members[:, game.population]
    labels = game.records.known_labels[game.population]
    return DefenceResult(
        name=defence.name,
        test_accuracy=cover_models(test, np.full(len(test), len(game.test)), confidence),
        train_accuracy=float(right[:, game.population][trained].mean()),
        tpr_population=population.tpr,
        tpr_exposed=kinds[worst].tpr,
        exposed_kind=worst,
        attack_population=population.attack,
        attack_exposed=kinds[worst].attack,
        fpr=fpr,
        plain_attack_accuracy=plain_accuracy(
            to_references(shown[:, game.population], labels, trained, _SIGHT)
        ),
        seconds=given.seconds,
        models=len(given.members),
        epsilon_proved=None if given.proof is None else given.proof.epsilon,
        delta=None if given.proof is None else given.proof.delta,
    )


@final
@dataclass(frozen=True, eq=False)
class _Judge:
    """The best attack on some rows."""

    game: DefenceGame
    answers: ModelAnswers
    shown: Numbers
    most: float
    hidden: bool
    fpr: float
    confidence: float

    def best(self, rows: np.ndarray) -> AttackedRate:
        """The best of the attacks on confidences, and of those on labels where the rows have copies."""
        found = []
        confidence = 1 - (1 - self.confidence) / 2
        if not self.hidden:
            labels = self.game.records.known_labels[rows]
            members = self.answers.members[:, rows]
            references = to_references(self.shown[:, rows], labels, members, self.most)
            found.append(best_rate(attack_models(references), members, self.fpr, confidence))
        of_rows = np.isin(self.game.copied, rows)
        copied, copies = self.game.copied[of_rows], self.game.copies[of_rows]
        asked = np.concatenate([copied[:, None], copies], axis=1)
        labels = self.game.records.known_labels[copied]
        right = (self.shown[:, asked].argmax(axis=3) == labels[:, None]).sum(axis=2)
        members = self.answers.members[:, copied]
        references = label_references(right, asked.shape[1], members)
        found.append(best_rate(attack_models(references, by_labels=True), members, self.fpr, confidence))
        return max(found, key=lambda one: one.tpr.value)


def _mask(defence: AnswerDefence, answers: ModelAnswers, game: DefenceGame) -> Numbers:
    """The answers of every model through its own mask; random ones are averaged, as an adversary would."""
    shown = np.empty_like(answers.log_confidences)
    for model, table in enumerate(answers.log_confidences):
        own = np.flatnonzero(answers.members[model])[:_LEARNT]
        mask = defence.learn(table[own], table[game.outside], model_seed(game.seed, model))
        generator = np.random.default_rng([game.seed, model, 22])
        if not defence.is_random:
            shown[model] = mask.mask(table, generator)
            continue
        mean = np.mean([np.exp(mask.mask(table, generator)) for _ in range(_REPEATS)], axis=0)
        with np.errstate(divide="ignore"):
            shown[model] = np.maximum(np.log(mean), _LEAST)
    return shown


def _time_one(defence: Defence, protected: Recipe, game: DefenceGame) -> tuple[float, DefenceProof | None]:
    """The processor time to train one model, and what is proved about it."""
    own = np.flatnonzero(game.split.members(2, len(game.records), game.seed)[0])
    with _one_thread():
        started = time.process_time()
        view = protected.fit(game.records.inputs[own], game.records.known_labels[own], game.seed)
        return time.process_time() - started, defence.read_proof(view)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch with one thread, where it is loaded: threads that wait for each other use processor time too."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
