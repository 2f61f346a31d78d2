"""No import cycle hides behind a late import; and the check itself finds the cycles that it should find."""

import importlib.util
from pathlib import Path

import pytest

_PATH = Path(__file__).with_name("import_cycles.py")
_SPEC = importlib.util.spec_from_file_location("privet_tests_import_cycles", _PATH)
check = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check)

PRIVET = Path(__file__).parents[2] / "src" / "privet"


def package(folder, **modules):
    root = folder / "p"
    for name, text in modules.items():
        path = root / (name.replace("__", "/") + ".py") if name != "init" else root / "__init__.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cycles(root):
    return [set(cycle) for cycle in check.find_cycles(check.import_graph(root))]


def test_privet_has_no_import_cycle():
    assert check.find_cycles(check.import_graph(PRIVET)) == []


@pytest.mark.parametrize(
    "back",
    [
        "import p.a",
        "from p import a",
        "from p.a import thing",
        "from . import a",
        "from .a import thing",
        "def f():\n    from p.a import thing",
        "class C:\n    def f(self):\n        import p.a",
        "try:\n    import p.a\nexcept ImportError:\n    pass",
        "import q\nif q:\n    import p.a",
    ],
)
def test_every_way_back_is_a_cycle(tmp_path, back):
    root = package(tmp_path, init="", a="from p.b import x\nthing = 1", b=f"x = 1\n{back}")
    assert cycles(root) == [{"p.a", "p.b"}]


def test_a_cycle_through_lazily_loaded_names(tmp_path):
    lazy = 'from privet.lazy_loading import load_lazily\n_MODULES = {"thing": "a"}\n'
    lazy += "__getattr__, __dir__ = load_lazily(__name__, _MODULES)\n"
    root = package(
        tmp_path, init=lazy, a="from p.b import x\nthing = 1", b="def f():\n    from p import thing"
    )
    assert cycles(root) == [{"p.a", "p.b"}]


@pytest.mark.parametrize(
    "forward",
    [
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import thing",
        "import a",
        "from q.a import thing",
        "text = 'import p.a'",
    ],
)
def test_what_is_no_cycle(tmp_path, forward):
    root = package(
        tmp_path, init="from p.a import thing", a="from p.b import x\nthing = 1", b=f"x = 1\n{forward}"
    )
    assert cycles(root) == []


def test_a_long_cycle_is_found_once(tmp_path):
    chain = {name: f"import p.{after}" for name, after in zip("abcd", "bcda", strict=True)}
    assert cycles(package(tmp_path, init="", **chain, e="import p.a")) == [{"p.a", "p.b", "p.c", "p.d"}]


def test_a_late_import_needs_an_optional_package(tmp_path):
    late = "def f():\n    import p.plain\ndef g():\n    import p.heavy\ndef h():\n    import p.over_heavy"
    root = package(
        tmp_path,
        init="",
        a=late,
        plain="import numpy",
        heavy="import torch",
        over_heavy="from p import heavy",
    )
    assert check.find_needless_late_imports(root) == ["p.a → p.plain"]
