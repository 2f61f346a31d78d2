"""Pages that come from outside of docs/: their links are those of the repository, and are made those of the
site.
"""

import re
from typing import Any

__all__ = ["on_page_markdown"]

_OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_INCLUDED = re.compile(r'^--8<-- "([A-Z]+\.md)"$', re.MULTILINE)
_LINK = re.compile(r"\]\((?:\.\./|docs/)?([\w.-]+\.md)(#[\w-]+)?\)")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401 - a page of mkdocs
    """Include whole pages of the repository, and point links to pages where they are on the site.

    Pages in a folder of docs/ are links of the site already: ``../`` leads out of their folder.
    """
    included = _INCLUDED.sub(_whole, markdown)
    return included if "/" in page.file.src_uri else _LINK.sub(_moved, included)


def _whole(found: re.Match[str]) -> str:
    from pathlib import Path

    return Path(found[1]).read_text(encoding="utf-8")


def _moved(found: re.Match[str]) -> str:
    return f"]({_OUTSIDE.get(found[1], found[1])}{found[2] or ''})"
