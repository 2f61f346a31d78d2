"""Read the file of an audit of a language model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from privet.cli.audit_inputs import run_python_file
from privet.cli.printable import one_line
from privet.errors import InvalidArgument, Unreadable
from privet.paths import is_file

__all__ = ["text_arguments_from"]

_NEEDED = ("model", "encoder")
_OPTIONAL = (
    "authors",
    "public",
    "public_models",
    "recipe",
    "canaries",
    "passages",
    "prompt_tokens",
    "passage_tokens",
    "end",
    "longest",
    "public_vocabulary",
    "ledger",
    "name",
)


def text_arguments_from(path: Path) -> dict[str, Any]:
    """The arguments of ``audit_text`` that a Python file sets.

    ``texts`` with ``members`` (True or False for each text), or ``members`` and ``nonmembers`` as two lists
    of texts.
    """
    if not is_file(path):
        raise Unreadable(f"{str(path)!r} must be a file that exists, and is not. Check the name.")
    if path.suffix != ".py":
        raise InvalidArgument(
            f"'subject' must be a .py file, got {path.name!r}. Write one that sets model, encoder, texts and "
            f"members."
        )
    names = run_python_file(path)
    by_side = "texts" not in names and "nonmembers" in names
    needed = (*_NEEDED, *(() if by_side else ("texts",)), "members")
    missing = [name for name in needed if name not in names]
    if missing:
        raise Unreadable(
            f"{path.name!r} must set {', '.join(missing)}, and does not. Give it a value in the file."
        )
    found: dict[str, Any] = {name: names[name] for name in _OPTIONAL if names.get(name) is not None}
    found["name"] = str(found.get("name", one_line(path.stem)))
    return {**found, **{name: names[name] for name in _NEEDED}, **_sides(path, names, by_side)}


def _sides(path: Path, names: Mapping[str, Any], by_side: bool) -> dict[str, Any]:
    """``texts`` and ``members`` as ``audit_text`` takes them."""
    if not by_side:
        return {"texts": names["texts"], "members": names["members"]}
    try:
        inside, outside = list(names["members"]), list(names["nonmembers"])
    except TypeError:
        raise Unreadable(
            f"'members' and 'nonmembers' in {path.name!r} must be lists of texts, and are not. Give one str "
            f"for each text."
        ) from None
    return {
        "texts": [*inside, *outside],
        "members": np.concatenate([np.ones(len(inside), dtype=bool), np.zeros(len(outside), dtype=bool)]),
    }
