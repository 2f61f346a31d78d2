"""Read the inputs of an audit: a short Python file, a TOML file, or columns of scores."""

import runpy
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privet.attacks import Outputs
from privet.attacks.shadows.recipe import Recipe, to_recipe
from privet.cli.audit_tables import columns_of, readable, records_from
from privet.cli.printable import one_line
from privet.errors import InvalidArgument, MissingPackage, PrivetError, ProgramFailed, Unreadable
from privet.ledger import Ledger
from privet.paths import is_file, resolve_path

__all__ = ["Subject", "describe_failure", "ledger_from", "run_python_file", "scores_from", "subject_from"]

_TOML = ("name", "model", "weights", "members", "nonmembers", "label", "gives", "ledger", "public", "recipe")
_RECIPE = ("epochs", "batch_size", "learning_rate", "optimizer", "momentum", "weight_decay")


@final
@dataclass(frozen=True, eq=False, kw_only=True)
class Subject:
    """A model, its members and non-members, and the other names that the file sets."""

    name: str
    model: object
    members: object
    nonmembers: object
    recipe: Recipe | None = None
    ledger: Ledger | None = None
    gives: Outputs | None = None
    public: object = None


def subject_from(path: Path) -> Subject:
    """Read a ``.py`` or ``.toml`` file."""
    if not is_file(path):
        raise Unreadable(f"{str(path)!r} must be a file that exists, and is not. Check the name.")
    if path.suffix == ".toml":
        return _from_toml(path)
    if path.suffix == ".py":
        return _from_python(path)
    raise InvalidArgument(
        f"'subject' must be a .py or .toml file, got {path.name!r}. Scores of your own go with --members "
        "and --nonmembers."
    )


def scores_from(name: str, path: str) -> NDArray[np.float64]:
    """One column of numbers: .csv or .txt (a header is skipped; with several columns the one named score),
    .npy, .parquet.
    """
    file = Path(path)
    if not is_file(file):
        raise Unreadable(f"'{name}' must be a file that exists, got {path!r}. Check the name.")
    if file.suffix == ".npy":
        with readable(file):
            found: Any = np.load(file, allow_pickle=False)
    elif file.suffix in (".csv", ".parquet"):
        columns = columns_of(file)
        if "score" not in columns and len(columns) > 1:
            raise Unreadable(
                f"{path!r} must have one column, or one that is called score, and has "
                f"{', '.join(columns)[:80]}. Name the scores."
            )
        found = columns.get("score", next(iter(columns.values())))
    else:
        with readable(file):
            found = file.read_text(encoding="utf-8").split()
    try:
        return np.asarray(found, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise Unreadable(
            f"{path!r} must hold numbers, and holds something else. Give one score on each line."
        ) from None


def ledger_from(path: str | Path) -> Ledger:
    """A ledger, as JSON."""
    try:
        return Ledger.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as failed:
        if isinstance(failed, PrivetError):
            raise
        raise Unreadable(
            f"{str(path)!r} must be a ledger in a file that exists, and is not. Check the name."
        ) from None


def _from_python(path: Path) -> Subject:
    """The file's ``model``, ``members`` and ``nonmembers``, and ``recipe``, ``ledger``, ``gives``, ``public``
    and ``name`` where it has them.
    """
    names = run_python_file(path)
    missing = [name for name in ("model", "members", "nonmembers") if name not in names]
    if missing:
        raise Unreadable(
            f"{path.name!r} must set {', '.join(missing)}, and does not. Give it a value in the file."
        )
    return Subject(
        name=str(names.get("name", one_line(path.stem))),
        model=names["model"],
        members=names["members"],
        nonmembers=names["nonmembers"],
        recipe=_python_recipe(path, names.get("recipe")),
        ledger=_check_type(path, names, "ledger", Ledger),
        gives=_check_type(path, names, "gives", Outputs),
        public=names.get("public"),
    )


def run_python_file(path: Path) -> Mapping[str, object]:
    """Run a Python file and return its global names."""
    try:
        sys.path.insert(
            0, str(resolve_path(path).parent)
        )  # as Python does for a program: a file may import its neighbours
        return runpy.run_path(str(path))
    except (PrivetError, MemoryError):
        raise
    except SystemExit as ended:
        raise ProgramFailed(
            f"{path.name!r} must run to its end, and called exit({ended.code!r}){_line(path, ended)}. "
            f"Take that call out, or put it below if __name__ == '__main__'."
        ) from None
    except Exception as failed:
        raise ProgramFailed(
            f"{path.name!r} must run to its end, and failed{_line(path, failed)} with "
            f"{describe_failure(failed)}. Mend the file."
        ) from failed


def _line(path: Path, failed: BaseException) -> str:
    """The line of the file where it failed, if the traceback has one."""
    frames = reversed(extract_tb(failed.__traceback__))
    line = next((frame.lineno for frame in frames if frame.filename == str(path)), None)
    return "" if line is None else f" in line {line}"


def _python_recipe(path: Path, value: object) -> Recipe | None:
    try:
        return None if value is None else to_recipe(value)
    except InvalidArgument:
        raise Unreadable(
            f"'recipe' in {path.name!r} must be a Recipe, a scikit-learn classifier or a function "
            f"train(inputs, labels, seed), got a {type(value).__name__}. Leave it out, or mend it."
        ) from None


def _check_type(path: Path, names: Mapping[str, object], name: str, kind: type[Any]) -> Any:  # noqa: ANN401
    value = names.get(name)
    if value is not None and not isinstance(value, kind):
        raise Unreadable(
            f"'{name}' in {path.name!r} must be a {kind.__name__}, got a {type(value).__name__}. Leave it "
            "out, or mend it."
        )
    return value


def _from_toml(path: Path) -> Subject:
    try:
        said = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as failed:  # TOML itself, its encoding, the file, its depth
        raise Unreadable(f"{path.name!r} must be TOML, and is not: {failed}. Mend the file.") from None
    _check_keys(path, said, _TOML, "it")
    missing = [name for name in ("model", "members", "nonmembers") if name not in said]
    if missing:
        raise Unreadable(f"{path.name!r} must set {', '.join(missing)}, and does not. Add a line for it.")
    here, label = path.parent, str(said.get("label", "label"))
    make = _factory(path, str(said["model"]))
    try:
        gives = None if "gives" not in said else Outputs(said["gives"])
    except ValueError:
        raise Unreadable(
            f"'gives' in {path.name!r} must be logits or probabilities, got {said['gives']!r}. Choose one."
        ) from None
    recipe = None if "recipe" not in said else _recipe(path, make, said["recipe"]).giving(gives)
    members = records_from(here / str(said["members"]), label)
    return Subject(
        name=str(said.get("name", one_line(path.stem))),
        model=_model(path, make, said.get("weights"), recipe, members),
        members=members,
        nonmembers=records_from(here / str(said["nonmembers"]), label),
        recipe=recipe,
        ledger=None if "ledger" not in said else ledger_from(here / str(said["ledger"])),
        gives=gives,
        public=None if "public" not in said else records_from(here / str(said["public"]), label),
    )


def _model(path: Path, make: Any, weights: object, recipe: Recipe | None, members: Any) -> object:  # noqa: ANN401
    """The trained model: from its weights, or trained by its recipe, or as the function returns it."""
    if recipe is not None and weights is None:
        try:
            return recipe.fit(members.inputs, members.known_labels, 0)
        except (PrivetError, MemoryError):
            raise
        except (Exception, SystemExit) as failed:
            raise ProgramFailed(
                f"'recipe' in {path.name!r} must train the model on the members, and failed with "
                f"{describe_failure(failed)}. Check that the model takes such records."
            ) from failed
    try:
        model = make()
    except MemoryError:
        raise
    except (Exception, SystemExit) as failed:
        raise ProgramFailed(
            f"'model' in {path.name!r} must name a function that makes the model, and it failed with "
            f"{describe_failure(failed)}. Mend the function."
        ) from failed
    if weights is None:
        return model
    try:
        import torch
    except ImportError:
        raise MissingPackage(
            "'weights' need the package 'torch', which is not installed. Run pip install 'privet[torch]'."
        ) from None
    try:
        model.load_state_dict(torch.load(path.parent / str(weights), weights_only=True, map_location="cpu"))
    except MemoryError:
        raise
    except Exception as failed:
        raise Unreadable(
            f"'weights' in {path.name!r} must be those of the model, and do not fit it "
            f"({describe_failure(failed)}). Save model.state_dict()."
        ) from None
    return model


def _factory(path: Path, text: str) -> Any:  # noqa: ANN401 - whatever the file defines
    """``file.py:function``, beside the TOML file."""
    file, _, name = text.partition(":")
    source = path.parent / file
    if not name or not is_file(source):
        raise Unreadable(
            f"'model' in {path.name!r} must be FILE.py:FUNCTION with a file that exists, got {text!r}. "
            "Name a function that makes the model."
        )
    found = run_python_file(source).get(name)
    if not callable(found):
        raise Unreadable(
            f"'model' in {path.name!r} must name a function of {file}, and {name!r} is none. Check the name."
        )
    return found


def _recipe(path: Path, make: Any, said: object) -> Recipe:  # noqa: ANN401
    from privet.attacks.shadows import SGD, Adam, TorchRecipe

    if not isinstance(said, dict):
        raise Unreadable(
            f"'recipe' in {path.name!r} must be a table, and is not. Write [recipe] and lines below it."
        )
    _check_keys(path, said, _RECIPE, "[recipe]")
    optimizer, decay = said.get("optimizer", "sgd"), _real(path, said, "weight_decay", 0.0)
    if optimizer not in ("sgd", "adam"):
        raise Unreadable(f"'optimizer' in {path.name!r} must be sgd or adam, got {optimizer!r}. Choose one.")
    rule = (
        Adam(weight_decay=decay)
        if optimizer == "adam"
        else SGD(momentum=_real(path, said, "momentum", 0.9), weight_decay=decay)
    )
    return TorchRecipe(
        model=make,
        epochs=said.get("epochs", 10),
        batch_size=said.get("batch_size", 64),
        learning_rate=_real(path, said, "learning_rate", 0.001 if optimizer == "adam" else 0.1),
        optimizer=rule,
    )


def describe_failure(failed: BaseException) -> str:
    """The type of an exception and the first line of its message."""
    said = (str(failed).strip().splitlines() or ["no reason given"])[0][:200].rstrip(".")
    return f"{type(failed).__name__}: {said}"


def _real(path: Path, said: Mapping[str, object], name: str, usual: float) -> float:
    value = said.get(name, usual)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{name!r} in {path.name!r} must be a number, got {value!r}. Give one.")
    return float(value)


def _check_keys(path: Path, said: Mapping[str, object], names: tuple[str, ...], where: str) -> None:
    unknown = [name for name in said if name not in names]
    if unknown:
        raise Unreadable(
            f"{path.name!r} must hold only {', '.join(names)} in {where}, got {unknown[0]!r}. Take it out, "
            "or check the spelling."
        )
