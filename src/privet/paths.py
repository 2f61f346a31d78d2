"""Checks of paths that never raise: symlink loops, names that are too long, forbidden folders and NUL
included.
"""

import os
from pathlib import Path

from privet.arguments import format_value
from privet.errors import InvalidArgument

__all__ = ["can_be_named", "is_file", "is_folder", "path_from", "resolve_path"]


def path_from(name: str, value: object) -> Path:
    """A path from a public argument: text without NUL, or a path object."""
    if not isinstance(value, (str, os.PathLike)) or not isinstance(os.fspath(value), str):
        raise InvalidArgument(
            f"'{name}' must be a path, got {format_value(value)} of type {type(value).__name__}. Give text "
            "or a Path."
        )
    path = Path(value)
    if "\0" in str(path) or not str(value):
        raise InvalidArgument(
            f"'{name}' must be a path that can exist, got {format_value(str(value))}. Check the name."
        )
    return path


def can_be_named(path: Path) -> bool:
    """Whether a file could have this path: no part of it is too long, and no links on the way go in a
    circle.
    """
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return True


def is_file(path: Path) -> bool:
    """Whether the path is a file that can be examined."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_folder(path: Path) -> bool:
    """Whether the path is a folder that can be examined."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def resolve_path(path: Path) -> Path:
    """The path without symlinks. In a symlink loop the rest of the path stays as it is, because no file is
    there.
    """
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return path
