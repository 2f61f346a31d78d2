"""Where a report may be written, and how: all of it or nothing."""

from pathlib import Path

from privet.arguments import format_value
from privet.errors import InvalidArgument
from privet.paths import can_be_named, is_folder, path_from

__all__ = ["check_target", "write_whole"]


def check_target(path: str | Path) -> Path:
    """A path at which a file can be written."""
    target = path_from("path", path)
    if (
        not is_folder(target.parent)
        or is_folder(target)
        or not can_be_named(target.with_name(f".{target.name}.part"))
    ):
        raise InvalidArgument(
            f"'path' must be a file in a folder that exists, got {format_value(str(target))}. Make the "
            "folder first."
        )
    return target


def write_whole(target: Path, text: str) -> Path:
    """Write all of the text or nothing."""
    partial = target.with_name(f".{target.name}.part")
    try:
        # A name may hold half a character, which no file can: it is written by its number.
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)  # half a report takes room and is of no use
        raise
    return target
