"""Files that a command writes: checked before the work begins, and never written over another file."""

import os
from pathlib import Path

from privet.arguments import format_value
from privet.durable_files import replace_durably
from privet.errors import InvalidArgument
from privet.paths import can_be_named, is_folder

__all__ = ["check_new_file", "write_new_file"]


def check_new_file(option: str, name: str, endings: tuple[str, ...]) -> Path:
    """The path of a file that does not exist yet, in a folder that does."""
    path = Path(name)
    if not name or not is_folder(path.parent) or is_folder(path) or not can_be_named(path):
        raise InvalidArgument(
            f"'{option}' must be a file in a folder that exists, got {format_value(name)}. Make the folder "
            "first."
        )
    if path.suffix.lower() not in endings:
        raise InvalidArgument(
            f"'{option}' must end in {' or '.join(endings)}, got {format_value(name)}. The ending says "
            "which format."
        )
    if os.path.lexists(path):
        raise InvalidArgument(
            f"'{option}' must name a new file, and {format_value(name)} exists. Name another, or move the "
            "old one away."
        )
    return path


def write_new_file(path: Path, content: bytes) -> None:
    """Write a file that survives a crash."""
    replace_durably(path, content, expected=None)
