"""``compare``: several defences on the same records, each attacked by an adversary who knows it.

What is finished is kept in the cache: each reference model at once, and each defence with all of its figures.
So an interrupted comparison goes on where it was. The result equals that of a comparison without an
interruption wherever the seed decides the training; the noise of DP-SGD is fresh in every training.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, final

import numpy as np

from privet import __version__
from privet.arguments import at_least, format_value, open_fraction, whole
from privet.attacks.shadows.recipe import Recipe, to_recipe
from privet.defending.defence import AnswerDefence, Defence, NoDefence, TrainingDefence
from privet.defending.defence_results import DefenceResult
from privet.defending.evaluation import ModelAnswers, collect_answers, evaluate_defence
from privet.defending.game import DefenceGame, prepare_game
from privet.durable_files import replace_durably
from privet.errors import InvalidArgument, PrivetError, ProgramFailed
from privet.fingerprints import code_fingerprint
from privet.paths import path_from
from privet.pipeline.comparison_progress import ComparisonProgress
from privet.pipeline.records import read_records
from privet.public_calls import check_public_calls
from privet.reporting.defence_facts import ComparedDefence
from privet.reporting.defence_report import DefenceComparison
from privet.reporting.facts import Origin
from privet.scores import Records

__all__ = ["OwnRecipe", "compare"]

_TEST_SHARE = 0.3
_STATEMENTS = 2  # an evaluation spends its failure once on the leaks and once on the accuracy


@final
@dataclass(frozen=True, eq=False)
class OwnRecipe(TrainingDefence):
    """A recipe of your own as a defence: reference models are trained by it, and nothing is proved."""

    title: str
    recipe: Recipe

    @property
    def name(self) -> str:
        return self.title

    def protect(self, recipe: Recipe) -> Recipe:
        """The recipe of its own; the one that is given does not count."""
        del recipe
        return self.recipe


def compare(
    recipes: Sequence[Defence] | Mapping[str, object],
    data: object,
    *,
    recipe: object = None,
    test: object = None,
    references: int = 16,
    canaries: int = 50,
    fpr: float = 0.01,
    confidence: float = 0.95,
    accuracy_loss: float = 0.02,
    cache: Path | str | None = None,
    seed: int = 0,
    progress: bool = True,
    stream: TextIO | None = None,
) -> DefenceComparison:
    """Train with each defence, attack each with references that use it, and say which one to take.

    With a ``cache`` folder every finished model is kept at once. After Ctrl-C the same call goes on from
    there. Models are shared: all defences on answers are asked about one set of models.

    Args:
        recipes: two or more defences (``privet.defending``), or names with recipes of your own.
        data: labelled records: ``Records`` or (inputs, labels).
        recipe: how a model is trained without a defence, which defences wrap.
        test: labelled records for the test accuracy, apart from ``data``; 30 % of ``data`` by default.
        references: models for each defence; each is attacked once, with the others as references.
        canaries: mislabelled records, and as many near-duplicates: the most exposed.
        fpr: the false-alarm rate at which members are found.
        confidence: the confidence of all intervals together.
        accuracy_loss: the largest loss of test accuracy that you accept, against the most accurate model.
        cache: a folder for finished models and figures.
        seed: the seed of every random choice.
        progress: whether to show what is done and the time left on a terminal.
        stream: where progress is shown; standard error by default.
    """
    whole("references", references, least=4)
    open_fraction("fpr", fpr)
    open_fraction("confidence", confidence)
    at_least("accuracy_loss", accuracy_loss, 0)
    plain = None if recipe is None else to_recipe(recipe)
    defences = _read_defences(recipes, plain)
    records, held_out = _read_data(data, test, seed)
    game = prepare_game(records, test=held_out, canaries=canaries, seed=seed)
    run = _ComparisonRun(
        game=game,
        plain=plain if plain is not None else _first_recipe(defences),
        models=references,
        fpr=fpr,
        confidence=1 - (1 - confidence) / (_STATEMENTS * len(defences)),
        cache=None if cache is None else path_from("cache", cache),
        progress=progress,
    )
    results = run.evaluate_all(defences, ComparisonProgress(len(defences), shown=progress, stream=stream))
    return DefenceComparison(
        defences=[_to_facts(result) for result in results],
        fpr=fpr,
        confidence=confidence,
        accuracy_loss=accuracy_loss,
        records=len(game.population),
        exposed=sum(len(places) for places in game.canaries.values()),
        references=references,
        origin=Origin(
            command=f"privet.compare(…, references={references}, fpr={fpr:g}, seed={seed})",
            version=__version__,
            seed=seed,
        ),
    )


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class _ComparisonRun:
    """What all defences share."""

    game: DefenceGame
    plain: Recipe
    models: int
    fpr: float
    confidence: float
    cache: Path | None
    progress: bool

    def evaluate_all(self, defences: Sequence[Defence], bar: ComparisonProgress) -> list[DefenceResult]:
        """The results in the order of the defences."""
        results: list[DefenceResult] = []
        shared: ModelAnswers | None = None
        for defence in defences:
            with self._name_failures(defence):
                done = self._read(defence)
                bar.begin(defence.name, reused=done is not None)
                if done is None:
                    is_plain = isinstance(defence, AnswerDefence | NoDefence)
                    if is_plain and shared is None:
                        shared = self._collect(NoDefence())
                    done = self._evaluate(defence, shared if is_plain else self._collect(defence))
                    self._write(defence, done)
                results.append(done)
            bar.end()
        return results

    @contextmanager
    def _name_failures(self, defence: Defence) -> Iterator[None]:
        """An error of the user's own code says which defence it came from."""
        try:
            yield
        except (PrivetError, MemoryError):
            raise
        except Exception as failed:
            raise ProgramFailed(
                f"The defence {defence.name!r} must train every model, and failed with "
                f"{type(failed).__name__}: {str(failed)[:200]}. Mend it or leave it out; what is "
                f"finished {'is kept in the cache' if self.cache else 'is lost without a cache'}."
            ) from failed

    def _collect(self, defence: Defence) -> ModelAnswers:
        return collect_answers(
            defence, self.plain, self.game, models=self.models, cache=self.cache, progress=self.progress
        )

    def _evaluate(self, defence: Defence, answers: ModelAnswers | None) -> DefenceResult:
        return evaluate_defence(
            defence,
            self.plain,
            self.game,
            models=self.models,
            fpr=self.fpr,
            confidence=self.confidence,
            answers=answers,
            progress=self.progress,
        )

    def _path(self, defence: Defence) -> Path | None:
        """The file of a defence's figures; None where a change of its recipe cannot be noticed."""
        description = defence.protect(self.plain).description()
        if self.cache is None or description is None:
            return None
        digest = hashlib.sha256()
        words = (
            *(description, type(defence).__name__, defence.name, code_fingerprint()),
            *(self.models, self.fpr, self.confidence, self.game.seed),
        )
        digest.update(repr(words).encode(errors="surrogatepass"))
        for column in (self.game.records.inputs, self.game.records.known_labels, self.game.coins):
            digest.update(f"{column.dtype.str} {column.shape}\n".encode())
            digest.update(np.ascontiguousarray(column).tobytes())
        return self.cache / "defences" / f"{digest.hexdigest()}.json"

    def _read(self, defence: Defence) -> DefenceResult | None:
        path = self._path(defence)
        try:
            return None if path is None else DefenceResult.from_plain(json.loads(path.read_bytes()))
        except (OSError, ValueError, RecursionError, PrivetError):
            return None  # missing or damaged: it is measured again

    def _write(self, defence: Defence, result: DefenceResult) -> None:
        path = self._path(defence)
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_durably(path, json.dumps(result.to_plain()).encode(), mode=0o600)
        except OSError as failed:
            raise InvalidArgument(
                f"'cache' must be a folder that can be written, got {format_value(str(self.cache))} "
                f"({failed.strerror}). Make it one, or name another folder."
            ) from failed


def _read_defences(recipes: Sequence[Defence] | Mapping[str, object], plain: Recipe | None) -> list[Defence]:
    if isinstance(recipes, Mapping):
        defences = [
            value if isinstance(value, Defence) else OwnRecipe(str(name), to_recipe(value))
            for name, value in recipes.items()
        ]
    else:
        defences = list(recipes)
    if len(defences) < 2:
        raise InvalidArgument(
            f"'recipes' must hold two or more defences, got {len(defences)}. Add NoDefence(), so that there "
            "is something to compare with."
        )
    wrong = next((value for value in defences if not isinstance(value, Defence)), None)
    if wrong is not None:
        raise InvalidArgument(
            f"'recipes' must hold defences, got {format_value(wrong)}. Give defences of privet.defending, "
            "or a dictionary of names and recipes."
        )
    names = [defence.name for defence in defences]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgument(
            f"'recipes' must have names that differ, got {twice!r} twice. Change a setting, or leave one out."
        )
    if plain is None and any(not isinstance(defence, OwnRecipe) for defence in defences):
        raise InvalidArgument(
            "'recipe' must be the training without a defence, which the defences wrap, got None. Give "
            "recipe=TorchRecipe(…), or recipes of your own by name."
        )
    for defence in defences:  # a recipe that a defence does not fit is refused before anything is trained
        defence.protect(plain if plain is not None else _first_recipe(defences))
    return defences


def _first_recipe(defences: Sequence[Defence]) -> Recipe:
    """The recipe of the first defence, where all are recipes of their own and none is wrapped."""
    return next(defence.recipe for defence in defences if isinstance(defence, OwnRecipe))


def _read_data(data: object, test: object, seed: int) -> tuple[Records, Records]:
    records = _read_labelled("data", data)
    if test is None:
        whole("seed", seed, least=0)
        kept = np.random.default_rng([seed, 31]).random(len(records)) >= _TEST_SHARE
        return records.take(kept), records.take(~kept)
    held_out = _read_labelled("test", test)
    shared = int(np.isin(held_out.hashes, records.hashes).sum())
    if shared:
        raise InvalidArgument(
            f"'test' must be records that are not trained on, and {shared} of {len(held_out)} are also in "
            "'data'. Take them out of one of the two."
        )
    return records, held_out


def _read_labelled(name: str, value: object) -> Records:
    records = read_records(name, value)
    if records.labels is None:
        raise InvalidArgument(
            f"'{name}' must have labels, and has inputs alone. Give (inputs, labels): a defence is judged by "
            "its accuracy, and attacks read the label."
        )
    return records


def _to_facts(result: DefenceResult) -> ComparedDefence:
    return ComparedDefence(
        name=result.name,
        test_accuracy=result.test_accuracy,
        tpr_population=result.tpr_population,
        tpr_exposed=result.tpr_exposed,
        epsilon_proved=result.epsilon_proved,
        delta=result.delta,
        seconds=result.seconds,
        attack_population=result.attack_population,
        attack_exposed=f"{result.attack_exposed} on {result.exposed_kind}",
    )


check_public_calls(__name__)
