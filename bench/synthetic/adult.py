"""UCI Adult: a public domain for it, written from its documentation and not from its rows."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from privet.releasing.synthetic import Bins, Categories, Domain

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "adult.csv.gz"

WORK = "Private Self-emp-not-inc Self-emp-inc Federal-gov Local-gov State-gov Without-pay Never-worked"
MARITAL = (
    "Married-civ-spouse Divorced Never-married Separated Widowed Married-spouse-absent Married-AF-spouse"
)
OCCUPATION = (
    "Tech-support Craft-repair Other-service Sales Exec-managerial Prof-specialty Handlers-cleaners Machine-op-inspct "
    "Adm-clerical Farming-fishing Transport-moving Priv-house-serv Protective-serv Armed-Forces"
)
COLUMNS = (
    Bins("age", (17.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 65.0, 100.0)),
    Categories("workclass", (*WORK.split(), None)),
    Categories("education_num", tuple(range(1, 17))),
    Categories("marital_status", tuple(MARITAL.split())),
    Categories("occupation", (*OCCUPATION.split(), None)),
    Categories(
        "relationship", ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried")
    ),
    Categories("race", ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black")),
    Categories("sex", ("Female", "Male")),
    Bins("hours_per_week", (0.0, 20.0, 30.0, 40.0, 41.0, 50.0, 60.0, 100.0)),
    Categories("income", (">50K", "<=50K")),
)
SMALL = ("education_num", "marital_status", "relationship", "race", "sex", "income")


@dataclass(frozen=True)
class Setting:
    """A domain and how often everything is run on it."""

    title: str
    domain: Domain
    repeats: int


def settings(quick: bool) -> list[Setting]:
    ten = Domain(COLUMNS)
    six = Domain(tuple(column for column in COLUMNS if column.name in SMALL))
    return [
        Setting(f"Ten columns, {ten.cells:.1e} cells", ten, 1 if quick else 2),
        Setting(f"Six columns, {six.cells} cells", six, 1 if quick else 3),
    ]


def table(path: Path) -> pd.DataFrame:
    if not path.exists():
        raise SystemExit(f"{path} is not here. Give the file of UCI Adult with --data.")
    return pd.read_csv(path)
