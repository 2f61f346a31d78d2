"""docs/architecture.md is the map of the code: it names every module, and no module or file that is not there."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "privet"
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
RECIPES = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = [path for path in SOURCES.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")]
NAMED = re.compile(r"`([\w*./]+\.(?:py|json|md))`")


def words(text):
    """The file names in backticks; those with a star stand for several."""
    return [name for name in NAMED.findall(text) if "NEW" not in name]


def is_there(name):
    pattern = name.removeprefix("docs/")
    folders = (SOURCES, ROOT / "tests", ROOT / "docs", ROOT / "bench")
    return (ROOT / name).exists() or any(any(folder.rglob(pattern)) for folder in folders)


def test_every_module_is_on_the_map():
    """As often as there are modules of that name, before the sections that only talk about them."""
    rows = words(MAP[: MAP.index("## Who may import whom")])
    counts = Counter(path.name for path in FILES)
    missing = {
        str(path.relative_to(SOURCES))
        for path in FILES
        if sum(path.match(name) for name in rows) < counts[path.name]
    }
    assert missing == set()


def test_every_package_is_on_the_map():
    folders = {path.parent for path in SOURCES.rglob("*.py")} - {SOURCES}
    assert [str(f.relative_to(SOURCES)) for f in sorted(folders) if f"{f.name}/" not in MAP] == []


@pytest.mark.parametrize("text", [MAP, RECIPES], ids=["map", "recipes"])
def test_every_named_file_exists(text):
    assert [name for name in words(text) if not is_there(name)] == []
