"""Pages that come from elsewhere: whole files of the repository, and notebooks of the tutorials. Search without a network.

Links in files of the repository lead to places in the repository. Here they are changed to those of the site.
"""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

__all__ = ["on_page_markdown", "on_post_page", "on_post_template"]

_DOCS = Path(__file__).parent
_OUTSIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
_INCLUDED = re.compile(r'^--8<-- "([A-Z]+\.md)"$', re.MULTILINE)
_NOTEBOOK = re.compile(r"^<!-- notebook: ([\w-]+\.ipynb) -->$", re.MULTILINE)
_SHIM = "https://unpkg.com/iframe-worker/shim"  # what the theme would fetch for search from the disk
_OWN_SHIM = "assets/offline-search.js"
_LINK = re.compile(r"\]\((?:\.\./|docs/)?([\w.-]+\.md)(#[\w-]+)?\)")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:  # noqa: ANN401 - a page of mkdocs
    """Include files and notebooks, and point links to pages of the site.

    Pages in a folder of docs/ have links of the site already: ``../`` leads out of their folder.
    """
    folder = (_DOCS / page.file.src_uri).parent
    included = _INCLUDED.sub(lambda found: Path(found[1]).read_text(encoding="utf-8"), markdown)
    included = _NOTEBOOK.sub(lambda found: _shown(folder / found[1]), included)
    return included if "/" in page.file.src_uri else _LINK.sub(_moved, included)


def on_post_page(output: str, page: Any, **_: object) -> str:  # noqa: ANN401 - a page of mkdocs
    """Search from the disk by a script of our own: nothing is fetched."""
    return output.replace(_SHIM, "../" * page.url.count("/") + _OWN_SHIM)


def on_post_template(output_content: str, **_: object) -> str:
    """The same for the page that is shown where there is none."""
    return output_content.replace(_SHIM, _OWN_SHIM)


def _shown(path: Path) -> str:
    spec = importlib.util.spec_from_file_location("privet_docs_notebooks", _DOCS / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.markdown_of(json.loads(path.read_text(encoding="utf-8"))))


def _moved(found: re.Match[str]) -> str:
    return f"]({_OUTSIDE.get(found[1], found[1])}{found[2] or ''})"
