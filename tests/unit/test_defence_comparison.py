"""``privet.compare``: refusals before anything is trained, and a resumed comparison that equals a whole one."""

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privet
from privet.attacks.shadows import TorchRecipe
from privet.attacks.shadows.recipe import CallableRecipe, ScikitRecipe
from privet.defending import EarlyStop, HardLabels, NoDefence
from privet.errors import InvalidArgument, ProgramFailed
from privet.pipeline.comparison_progress import ComparisonProgress
from privet.reporting import DefenceComparison

naive_bayes = pytest.importorskip("sklearn.naive_bayes")
nn = pytest.importorskip("torch.nn")
FEW: dict[str, Any] = {"references": 4, "canaries": 5, "progress": False}


def people(count: int = 160, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(count, 4))
    return inputs, (inputs[:, 0] + generator.normal(size=count) > 0).astype(np.int64)


def bayes(smoothing: float) -> ScikitRecipe:
    return ScikitRecipe(naive_bayes.GaussianNB(var_smoothing=smoothing))


def figures(comparison: DefenceComparison) -> list[Any]:
    return [replace(defence, seconds=0.0) for defence in comparison.defences]


@dataclass
class Interrupted:
    """Trains some models, then is stopped as by Ctrl-C."""

    left: int
    trained: list[int] = field(default_factory=list)

    def __call__(self, inputs: np.ndarray, labels: np.ndarray, seed: int) -> Any:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.trained.append(seed)
        return naive_bayes.GaussianNB().fit(inputs, labels)


def test_a_resumed_comparison_equals_one_without_interruption(tmp_path: Path) -> None:
    def run(train: Interrupted, cache: Path) -> DefenceComparison:
        recipes = {"first": bayes(0.1), "second": CallableRecipe(train, version="1")}
        return privet.compare(recipes, people(), cache=cache, **FEW)

    whole = Interrupted(100)
    expected = run(whole, tmp_path / "whole")
    stopped, resumed = Interrupted(3), Interrupted(100)
    with pytest.raises(KeyboardInterrupt):
        run(stopped, tmp_path / "stopped")
    found = run(resumed, tmp_path / "stopped")
    assert figures(found) == figures(expected)
    assert found.recommendation == expected.recommendation
    # One model is only timed. Of the others none is trained twice.
    assert len(whole.trained) == 4 + 1
    assert not set(stopped.trained[1:]) & set(resumed.trained[1:])
    again = Interrupted(0)
    assert run(again, tmp_path / "stopped").to_plain()["defences"] == found.to_plain()["defences"]


def test_a_changed_recipe_is_not_taken_from_the_cache(tmp_path: Path) -> None:
    first = privet.compare({"a": bayes(0.1), "b": bayes(1.0)}, people(), cache=tmp_path, **FEW)
    second = privet.compare({"a": bayes(10.0), "b": bayes(1.0)}, people(), cache=tmp_path, **FEW)
    assert figures(first)[0] != figures(second)[0]
    assert figures(first)[1] == figures(second)[1]


def test_answer_defences_share_the_models_of_no_defence() -> None:
    train = Interrupted(5)  # four models and the one that is timed, for both defences together
    comparison = privet.compare([NoDefence(), HardLabels()], people(), recipe=train, **FEW)
    assert [defence.name for defence in comparison.defences] == ["none", "labels only"]
    assert all(defence.epsilon_proved is None for defence in comparison.defences)


@pytest.mark.parametrize(
    ("recipes", "changes", "words"),
    [
        ([NoDefence()], {"recipe": bayes(1.0)}, "two or more defences, got 1"),
        ([], {"recipe": bayes(1.0)}, "two or more defences, got 0"),
        ([NoDefence(), HardLabels()], {}, "'recipe' must be the training without a defence"),
        ([NoDefence(), NoDefence()], {"recipe": bayes(1.0)}, "names that differ, got 'none' twice"),
        ({"a": bayes(1.0), "b": 3}, {}, "'recipe' must be a Recipe"),
        ({"a": bayes(1.0), "b": bayes(2.0)}, {"test": people()}, "160 of 160 are also in 'data'"),
        ({"a": bayes(1.0), "b": bayes(2.0)}, {"references": 2}, "'references'"),
        ({"a": bayes(1.0), "b": bayes(2.0)}, {"accuracy_loss": -0.1}, "'accuracy_loss'"),
    ],
)
def test_refusals(recipes: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        privet.compare(recipes, people(), **{**FEW, **changes})


def test_one_record_of_the_test_in_the_data_is_refused() -> None:
    inputs, labels = people()
    others, their_labels = people(60, seed=1)
    test = np.concatenate([others, inputs[:1]]), np.concatenate([their_labels, labels[:1]])
    with pytest.raises(InvalidArgument, match="1 of 61 are also in 'data'"):
        privet.compare({"a": bayes(1.0), "b": bayes(2.0)}, (inputs, labels), test=test, **FEW)


def test_a_recipe_that_fails_is_named() -> None:
    def fail(inputs: np.ndarray, labels: np.ndarray, seed: int) -> Any:
        raise RuntimeError("no such layer")

    with pytest.raises(ProgramFailed, match="'b' must train every model.*no such layer"):
        privet.compare({"a": bayes(1.0), "b": fail}, people(), **FEW)


def test_a_module_that_cannot_be_made_is_named_too() -> None:
    def make() -> Any:
        raise RuntimeError("no such layer")

    with pytest.raises(ProgramFailed, match="'none' must train every model.*no such layer"):
        privet.compare([NoDefence(), EarlyStop()], people(), recipe=TorchRecipe(model=make, epochs=1), **FEW)


def test_data_without_labels_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="'data' must have labels"):
        privet.compare({"a": bayes(1.0), "b": bayes(2.0)}, (people()[0],), **FEW)


class _NoArray:
    """Fails when numpy reads it, with an error that shows data."""

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise ZeroDivisionError("a secret")


@pytest.mark.parametrize("place", ["inputs", "labels"])
def test_data_that_numpy_cannot_read_are_refused_without_being_shown(place: str) -> None:
    inputs, labels = people()
    data = (_NoArray(), labels) if place == "inputs" else (inputs, _NoArray())
    with pytest.raises(InvalidArgument, match="'data' must hold arrays that numpy can read") as refused:
        privet.compare({"a": bayes(1.0), "b": bayes(2.0)}, data, **FEW)
    assert "secret" not in str(refused.value)


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_says_the_time_left_on_a_terminal_alone() -> None:
    terminal, pipe = _Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        bar = ComparisonProgress(3, shown=True, stream=stream)
        for name, reused in (("a", True), ("b", False), ("c\x1b", False)):
            bar.begin(name, reused=reused)
            bar.end()
    lines = terminal.getvalue().splitlines()
    assert lines[0].endswith("from the cache")
    assert lines[2].endswith("about 0 s left")
    assert "\x1b" not in terminal.getvalue()
    assert pipe.getvalue() == ""
