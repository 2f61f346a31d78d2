"""Doctests of checked functions run where they are defined, not again in the packages that export them."""

from _pytest.doctest import DoctestItem

# Alembic runs these, with a context that is not there otherwise.
collect_ignore_glob = ["src/privet/curator/*/migrations/*"]


def pytest_collection_modifyitems(items: list) -> None:
    """Leave out the wrappers that ``privet.public_calls`` puts into a package."""
    items[:] = [item for item in items if not _is_wrapper(item)]


def _is_wrapper(item: object) -> bool:
    if not isinstance(item, DoctestItem):
        return False
    function = item.dtest.globs.get(item.dtest.name.rpartition(".")[2])
    return hasattr(function, "__wrapped__") and function.__module__ == item.dtest.globs.get("__name__")
