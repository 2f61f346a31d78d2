"""Pages that come from outside of docs/: their links are those of the repository, and are made those of the site."""

import re

__all__ = ["on_page_markdown"]

_OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_INCLUDED = re.compile(r'^--8<-- "([A-Z]+\.md)"$', re.MULTILINE)
_LINK = re.compile(r"\]\((?:\.\./|docs/)?([\w.-]+\.md)(#[\w-]+)?\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Include whole pages of the repository, and point links to pages where they are on the site."""
    return _LINK.sub(_moved, _INCLUDED.sub(_whole, markdown))


def _whole(found: re.Match[str]) -> str:
    from pathlib import Path

    return Path(found[1]).read_text(encoding="utf-8")


def _moved(found: re.Match[str]) -> str:
    return f"]({_OUTSIDE.get(found[1], found[1])}{found[2] or ''})"
