"""Import cycles between the modules of a package, and late imports without a reason. ``make lint`` runs this.

Usage: ``python tests/contract/import_cycles.py src/privet``. It prints each finding and exits with 1 where there is one.

An import inside of a function counts like one at the top. It says "this package is optional", and must not hide a cycle. So a
late import of a module of the package is a finding too, where neither that module nor anything that it imports needs a
package beyond Python, numpy and scipy.

``from package import name`` is an import of the module that defines the name where the package loads its names lazily
(``privet.lazy_loading``), of the submodule where there is one of that name, and of the package itself otherwise. Imports
under ``if TYPE_CHECKING`` do not count, because they never run. Importing a module also runs the packages above it; that
does not count either, because a package may name what is in it.

The code is read and never run, so no optional package has to be installed.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, set[str]]


def import_graph(package: Path) -> dict[str, set[str]]:
    """Which modules of the package each of its modules imports."""
    paths = {_module_name(package, path): path for path in sorted(package.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    lazy = {name: _lazy_names(tree) for name, tree in trees.items() if paths[name].name == "__init__.py"}
    graph: dict[str, set[str]] = {name: set() for name in trees}
    for name, tree in trees.items():
        parent = name if paths[name].name == "__init__.py" else name.rpartition(".")[0]
        for statement in _imports(tree):
            for target in _targets(statement, parent, lazy, set(trees)):
                if target != name:
                    graph[name].add(target)
    return graph


def find_needless_late_imports(package: Path) -> list[str]:
    """Late imports of modules that need no optional package, as "importer → imported"."""
    graph = import_graph(package)
    paths = {_module_name(package, path): path for path in sorted(package.rglob("*.py"))}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in paths.items()}
    lazy = {name: _lazy_names(tree) for name, tree in trees.items() if paths[name].name == "__init__.py"}
    optional = {name for name, tree in trees.items() if _imports_optional(tree, package.name)}
    needed = {name for name in graph if optional & {name, *_reached(graph, name)}}
    findings = set()
    for name, tree in trees.items():
        parent = name if paths[name].name == "__init__.py" else name.rpartition(".")[0]
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                for statement in _imports(function):
                    for target in _targets(statement, parent, lazy, set(trees)):
                        if target not in needed:
                            findings.add(f"{name} → {target}")
    return sorted(findings)


def find_cycles(graph: Graph) -> list[list[str]]:
    """One shortest cycle of every group of modules that import each other, the smallest group first."""
    return sorted(
        (_shortest_cycle(graph, group) for group in _groups(graph)), key=lambda cycle: (len(cycle), cycle)
    )


def _module_name(package: Path, path: Path) -> str:
    parts = [package.name, *path.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import statement below a node, in functions too; not those under ``if TYPE_CHECKING``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for statement in child.orelse:
                yield from _imports(statement)
        else:
            yield from _imports(child)


def _imports_optional(tree: ast.Module, package: str) -> bool:
    """Whether a module imports something beyond the package itself, Python, numpy and scipy."""
    roots = set()
    for statement in _imports(tree):
        names = [alias.name for alias in statement.names] if isinstance(statement, ast.Import) else []
        names += [statement.module or package] if isinstance(statement, ast.ImportFrom) else []
        roots |= {name.partition(".")[0] for name in names}
    return bool(roots - {package, "numpy", "scipy"} - sys.stdlib_module_names)


def _lazy_names(tree: ast.Module) -> dict[str, str]:
    """The names that a package loads lazily, each with the module below the package that defines it."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    if not any(isinstance(call.func, ast.Name) and call.func.id == "load_lazily" for call in calls):
        return {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "_MODULES":
            modules: dict[str, str] = ast.literal_eval(statement.value)
            return modules
    raise SystemExit(
        "A package that loads lazily must list its names in a dictionary '_MODULES', and one does not."
    )


def _targets(
    statement: ast.Import | ast.ImportFrom,
    parent: str,
    lazy: Mapping[str, Mapping[str, str]],
    known: set[str],
) -> Iterator[str]:
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names if alias.name in known)
        return
    package = statement.module or ""
    if statement.level:
        above = parent.split(".")[: len(parent.split(".")) - statement.level + 1]
        package = ".".join([*above, *([package] if package else [])])
    for alias in statement.names:
        yield from _defining_modules(package, alias.name, lazy, known)


def _defining_modules(
    package: str, name: str, lazy: Mapping[str, Mapping[str, str]], known: set[str]
) -> Iterator[str]:
    submodule = f"{package}.{name}"
    if name in lazy.get(package, {}):
        module = lazy[package][name]
        yield from _defining_modules(f"{package}.{module}", name, lazy, known) if module else [submodule]
    elif submodule in known:
        yield submodule
    elif package in known:
        yield package


def _groups(graph: Graph) -> list[set[str]]:
    """Modules that reach each other: the strongly connected components with more than one module."""
    reached = {module: _reached(graph, module) for module in graph}
    groups: list[set[str]] = []
    for module in sorted(graph):
        group = {other for other in reached[module] if module in reached[other]}
        if len(group) > 1 and group not in groups:
            groups.append(group)
    return groups


def _reached(graph: Graph, start: str) -> set[str]:
    seen, left = set(), [start]
    while left:
        for module in graph[left.pop()] - seen:
            seen.add(module)
            left.append(module)
    return seen


def _shortest_cycle(graph: Graph, group: set[str]) -> list[str]:
    """By breadth-first search from every module of the group."""
    cycles = []
    for start in sorted(group):
        paths, found = [[start]], None
        seen: set[str] = set()
        while paths and found is None:
            path = paths.pop(0)
            for module in sorted(graph[path[-1]] & group):
                if module == start:
                    found = path
                    break
                if module not in seen:
                    seen.add(module)
                    paths.append([*path, module])
        if found is not None:
            cycles.append(found)
    return min(cycles, key=len)


def main(package: Path) -> int:
    """Print every finding; 1 where there is one."""
    graph = import_graph(package)
    cycles, late = find_cycles(graph), find_needless_late_imports(package)
    for cycle in cycles:
        print(f"import cycle: {' → '.join([*cycle, cycle[0]])}")
    for finding in late:
        print(f"late import without an optional package: {finding}")
    print(f"{len(graph)} modules, {len(cycles)} import cycles, {len(late)} needless late imports")
    return 1 if cycles or late else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
