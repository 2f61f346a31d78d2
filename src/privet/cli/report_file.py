"""Where a report goes: looked at before the work, so that minutes of it are not lost to a missing folder or package."""

from pathlib import Path

from privet.errors import InvalidArgument

__all__ = ["report_file"]


def report_file(name: str) -> Path:
    """The path of ``--out``, after it was found that a report can be written there in the form that its ending asks for."""
    path = Path(name)
    if not path.parent.is_dir() or path.is_dir():
        raise InvalidArgument(
            f"'--out' must be a file in a folder that exists, got {name!r}. Make the folder first."
        )
    if path.suffix.lower() not in (".html", ".json", ".md"):
        raise InvalidArgument(
            f"'--out' must end in .html, .json, .md, .dpia.html or .pia.json, got {name!r}. The ending says which form."
        )
    if path.name.lower().endswith(".html") and not path.name.lower().endswith(".dpia.html"):
        from privet.reporting.plotting import library

        library()  # says now what would be missing afterwards
    return path
