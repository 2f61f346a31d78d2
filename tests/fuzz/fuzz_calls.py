"""Calls with hostile arguments: each either answers or is refused with an error of Privet's own, soon and without much memory."""

import contextlib
import inspect
import io
import random
import types
import typing
import warnings
from collections import Counter, abc
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import numpy as np
import torch
from fuzz_examples import FRAME, LABELS, ROWS, TABLE, harvest, model, tensors
from fuzz_limits import Hang, limited
from fuzz_surface import Target, targets
from fuzz_values import HOSTILE, MARK, MODELS, OwnError

_TEXTS = ("text", "empty text", "surrogate", "nul", "escape", "long text", "path")


class CannotMake(Exception):
    """The fuzzer has no value for an argument."""


@dataclass
class Outcomes:
    """What came of all calls."""

    calls: int = 0
    answered: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    unmade: dict = field(default_factory=dict)
    faults: list = field(default_factory=list)
    seconds: Counter = field(default_factory=Counter)


class Fuzzer:
    """Makes arguments by their hints, puts hostile ones among them, and calls."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = random.Random(seed)
        self.folder = folder
        self.objects = harvest()
        self.public = {target.function for target in targets() if isinstance(target.function, type)}
        self.outcomes = Outcomes()

    def value(self, hint: object, depth: int = 0) -> object:
        """An ordinary value of a type."""
        pick = self.random.choice
        while typing.get_origin(hint) is typing.Annotated:
            hint = typing.get_args(hint)[0]
        if isinstance(hint, typing.TypeVar):
            hint = hint.__bound__ or typing.Any
        origin, inner = typing.get_origin(hint), typing.get_args(hint)
        kind = origin or hint
        if kind is typing.Any or kind is object:
            return pick([
                lambda: TABLE, lambda: FRAME, lambda: ROWS, lambda: (ROWS, LABELS), tensors, model, lambda: list(range(10)),
                lambda: ["a", "b"], lambda: "a", lambda: "b", lambda: 2, lambda: 1.0, lambda: {"epsilon": 1.0},
            ])()  # fmt: skip
        if kind in (typing.Union, types.UnionType):
            return self.value(pick(inner), depth)
        if kind is typing.Literal:
            return pick(inner)
        if kind is None or kind is type(None):
            return None
        if kind is bool:
            return pick([True, False])
        if kind is int:
            return pick([0, 1, 2, 3, 5, 10])
        if kind is float:
            return pick([0.5, 1.0, 1e-5, 0.1, 2.0, 3, 0.75, 0.25, 0.0])
        if kind is str:
            return pick(["a", "value", "key", "who", "0", "loss"])
        if kind is bytes:
            return bytes(32)
        if kind is Path:
            return self.folder / pick(["a.json", "b.html", "c.md", "missing/x"])
        if kind is abc.Callable:
            return pick(
                [
                    lambda *args, **named: (args or (None,))[0],
                    lambda *args, **named: 0.5,
                    lambda *args, **named: None,
                ]
            )
        if kind is np.ndarray:
            return pick([ROWS, ROWS[:, 0], LABELS, LABELS == 1, ROWS[:, :2], np.array([0.1, 0.5])])
        if kind is torch.Tensor:
            return pick([torch.ones(4), tensors()[0], tensors()[1], torch.arange(5)])
        if kind is type:
            return self.value(typing.Any) if not inner else _class_of(inner[0])
        if kind in (tuple, list, set, frozenset, abc.Sequence, abc.Iterable, abc.Iterator, abc.Set):
            return self.several(kind, inner, depth)
        if kind in (dict, abc.Mapping, abc.MutableMapping):
            return {self.value(inner[0], depth): self.value(inner[1], depth)} if inner else {}
        if kind is abc.Hashable:
            return pick(["a", 1])
        if kind is typing.TextIO:
            return io.StringIO()
        if isinstance(kind, type):
            return self.object(kind, depth)
        raise CannotMake(str(hint))

    def several(self, kind: object, inner: tuple, depth: int) -> object:
        if kind is tuple and inner and inner[-1] is not Ellipsis:
            return tuple(self.value(hint, depth) for hint in inner)
        found = [
            self.value(inner[0] if inner else typing.Any, depth) for _ in range(self.random.randrange(1, 4))
        ]
        return (
            found if kind is list else frozenset(found) if kind in (set, frozenset, abc.Set) else tuple(found)
        )

    def object(self, kind: type, depth: int) -> object:
        """An object of a class: one from the runs, or one that is made."""
        known = [one for found, many in self.objects.items() if _is_kind(found, kind) for one in many]
        if issubclass(kind, Enum):
            return self.random.choice(list(kind))
        if known and (depth > 1 or self.random.random() < 0.7):
            return self.random.choice(known)
        made = {
            torch.nn.Module: model,
            torch.optim.Optimizer: lambda: torch.optim.SGD(model().parameters(), lr=0.1),
            torch.Generator: torch.Generator,
            np.random.Generator: np.random.default_rng,
        }
        if kind in made:
            return made[kind]()
        return self.constructed(kind, depth, known)

    def constructed(self, kind: type, depth: int, known: list) -> object:
        classes = [
            one
            for one in (kind, *_below(kind))
            if not inspect.isabstract(one) and one.__module__.startswith("privet") and one.__name__[0] != "_"
        ]
        # What is not public is taken from real runs: nobody makes it by hand.
        open_to_all = [one for one in classes if one in self.public]
        if known and not open_to_all:
            return self.random.choice(known)
        classes = open_to_all or classes
        self.random.shuffle(classes)
        if depth < 3:
            for one in classes[:4]:
                for _ in range(20):
                    try:
                        named = self.arguments(
                            list(inspect.signature(one).parameters.values()), one, depth + 1
                        )
                        with warnings.catch_warnings():
                            warnings.simplefilter("ignore")
                            return one(*named[0], **named[1])
                    except CannotMake:
                        break
                    except Exception:
                        continue
        if known:
            return self.random.choice(known)
        raise CannotMake(kind.__name__)

    def arguments(self, parameters: list, function: object, depth: int = 0) -> tuple[list, dict]:
        hints = hints_of(function)
        placed: list[object] = []
        named: dict[str, object] = {}
        for parameter in parameters:
            hint = hints.get(parameter.name, typing.Any)
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.default is not parameter.empty and self.random.random() < 0.6:
                continue
            value = self.value(hint, depth)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                placed.append(value)
            else:
                named[parameter.name] = value
        return placed, named

    def made(self, target: Target) -> tuple[list, list, dict]:
        """The object and the arguments of a call; what is refused by chance is tried again."""
        for _ in range(8):
            try:
                this = [self.object(target.owner, 0)] if target.owner is not None else []
                return this, *self.arguments(target.parameters(), target.function)
            except CannotMake as missing:
                reason = missing
        raise reason

    def hostile(self, hint: object) -> tuple[str, object]:
        wants_model = hint is torch.nn.Module or hint in (typing.Any, object)
        if wants_model and self.random.random() < 0.4:
            name = self.random.choice(list(MODELS))
            return f"model {name}", MODELS[name]()
        name = self.random.choice(list(HOSTILE))
        return name, HOSTILE[name]()

    def call(self, target: Target, hostile: int = 1) -> None:
        """One call with so many hostile arguments."""
        out = self.outcomes
        try:
            this, placed, named = self.made(target)
        except CannotMake as missing:
            out.unmade[target.name] = str(missing)
            return
        hints = hints_of(target.function)
        changed = {}
        open_names = [
            parameter.name for parameter in target.parameters()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]  # fmt: skip
        for name in self.random.sample(open_names, min(hostile, len(open_names))):
            changed[name], named[name] = self.hostile(hints.get(name, typing.Any))
        out.calls += 1
        try:
            with limited(), warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                _use(target.function(*this, *placed, **named))
            out.answered[target.name] += 1
        except OwnError:
            out.answered[target.name] += 1
        except Hang as error:
            out.faults.append(
                (target.name, changed, "Hang", f"{_where(error)} {_said([*this, *placed, named])}")
            )
        except Exception as error:
            # scikit-learn's own tests of estimators ask for its own error where nothing was fitted.
            if type(error).__module__.startswith("privet") or type(error).__name__ == "NotFittedError":
                out.refused[target.name] += 1
                # A text instead of data is the path of a file, which may be shown.
                changed = {name: kind for name, kind in changed.items() if kind not in _TEXTS}
                # Names of fields of a document are no data.
                reads_data = not target.name.endswith("_from_plain")
                if (
                    reads_data
                    and MARK in str(error)
                    and any(hints.get(name) in (object, typing.Any) for name in changed)
                ):
                    out.faults.append((target.name, changed, "shows data", str(error)[:300]))
            else:
                out.faults.append((target.name, changed, type(error).__name__, _where(error)))


def _use(found: object) -> None:
    """Take the first of what an iterator gives; go through a context."""
    if issubclass(type(found), abc.Iterator):
        for _, _one in zip(range(3), found, strict=False):
            pass
    elif issubclass(type(found), contextlib.AbstractContextManager) and hasattr(found, "gen"):
        with found:
            pass


def _said(things: list) -> str:
    try:
        return repr(things)[:500]
    except Exception:
        return "?"


def _where(error: BaseException) -> str:
    import traceback

    try:
        text = str(error)
    except Exception:
        text = "?"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/privet/" in frame.filename]
    last = frames[-1] if frames else None
    place = f"{last.filename.rpartition('/privet/')[2]}:{last.lineno}" if last else "?"
    return f"{place} {text[:120]!r}"


def hints_of(function: object) -> dict[str, object]:
    if isinstance(function, type) and not hasattr(function, "_fields"):
        function = function.__init__
    try:
        return typing.get_type_hints(function)
    except Exception:
        return {}


def _is_kind(found: type, kind: type) -> bool:
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(found, name) for name in vars(kind) if not name.startswith("_"))
    return issubclass(found, kind)


def _class_of(hint: object) -> object:
    kind = typing.get_origin(hint) or hint
    return kind if isinstance(kind, type) else object


def _below(kind: type) -> list[type]:
    return [one for below in type.__subclasses__(kind) for one in (below, *_below(below))]
