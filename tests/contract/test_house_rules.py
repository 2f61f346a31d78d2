"""Rules of the house that no linter knows: one name for one class, functions are verbs, modules stay small."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src" / "privet"
MOST_LINES = 450

# The same idea in two roles: an event and the mechanism that it describes; a query of a mechanism and a statistic of a table.
TWO_ROLES = {
    "BandedNoise",
    "Count",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "ExponentialMechanism",
    "Gaussian",
    "Histogram",
    "Laplace",
    "RandomizedResponse",
    "ReportNoisyMax",
    "SparseVector",
    "Sum",
    "TreeNoise",
}

# Participles that do not end in -ed.
IRREGULAR = {
    *(
        "begun",
        "broken",
        "built",
        "caught",
        "chosen",
        "drawn",
        "found",
        "given",
        "gone",
        "grown",
        "held",
        "hidden",
        "kept",
    ),
    *(
        "known",
        "laid",
        "led",
        "left",
        "made",
        "met",
        "read_off",
        "said",
        "seen",
        "sent",
        "shown",
        "spent",
        "stood",
    ),
    *("swept", "taken", "thrown", "told", "turned", "understood", "worn", "written"),
}

VERBS_AND_STATES = {"embed", "feed", "need", "proceed", "seed", "unchanged"}


@cache
def modules():
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in sorted(SOURCES.rglob("*.py"))]


def test_no_class_name_stands_twice():
    homes = defaultdict(list)
    for path, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(SOURCES)))
    assert {name: places for name, places in homes.items() if len(places) > 1 and name not in TWO_ROLES} == {}


def test_functions_are_verbs():
    """A function whose name is one participle says what it gives and not what it does.

    Properties are no functions here, and neither are second constructors (``Laplace.calibrated``).
    """
    participles = []
    for path, tree in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or _is_property(node):
                continue
            word = node.name.strip("_")
            if node.name.startswith("__") or "_" in word:
                continue
            if word in IRREGULAR or (word.endswith("ed") and word not in VERBS_AND_STATES):
                participles.append(f"{path.relative_to(SOURCES)}: {node.name}")
    assert participles == []


def test_modules_stay_small():
    sizes = {
        str(path.relative_to(SOURCES)): len(path.read_text(encoding="utf-8").splitlines())
        for path, _ in modules()
    }
    assert {name: lines for name, lines in sizes.items() if lines > MOST_LINES} == {}


def _is_property(node):
    names = {
        decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")
        for decorator in node.decorator_list
    }
    return bool(names & {"property", "cached_property", "classmethod", "staticmethod"})


def test_every_public_name_has_a_docstring():
    """Modules, the classes and functions in ``__all__``, and the public methods of classes that inherit from none."""
    silent = []
    for path, tree in modules():
        name = str(path.relative_to(SOURCES))
        if not ast.get_docstring(tree):
            silent.append(name)
        public = _listed_names(tree)
        for node in tree.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name not in public:
                continue
            methods = node.body if isinstance(node, ast.ClassDef) and not node.bases else []
            for part in [node, *(m for m in methods if isinstance(m, ast.FunctionDef))]:
                if not part.name.startswith("_") and not ast.get_docstring(part):
                    silent.append(f"{name}: {part.name}")
    assert silent == []


def _listed_names(tree):
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return {item.value for item in ast.walk(node.value) if isinstance(item, ast.Constant)}
    return set()
