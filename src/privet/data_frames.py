"""Results as pandas data frames, for those who have pandas. Privet does not depend on it."""

from collections.abc import Iterable, Mapping
from typing import Any

from privet.errors import MissingPackage

__all__ = ["to_data_frame"]


def to_data_frame(rows: Iterable[Mapping[str, object]]) -> Any:  # noqa: ANN401 - a pandas.DataFrame
    """A ``pandas.DataFrame`` with one row for each mapping from column names to values."""
    try:
        import pandas
    except ImportError:
        raise MissingPackage(
            "A data frame needs the package 'pandas', which is not installed. Run pip install pandas."
        ) from None
    return pandas.DataFrame(list(rows))
