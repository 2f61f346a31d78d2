"""Tables of the benchmark as numbers, shaped by public knowledge alone.

A numeric column is clipped to bounds that somebody could write down without the data, and scaled to [−1, 1]. A column
of categories becomes one column for each category; its names come from the code book of the survey, for which the file
stands in. So every row has at most one number of size 1 for each column that it had, and the bound on its norm is the
root of their number.
"""

import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@dataclass(frozen=True)
class Source:
    """A file, the question, and what is publicly known of the columns that answer it."""

    file: str
    target: str
    bounds: dict[str, tuple[float, float]]
    categories: str = ""  # names of columns, separated by |
    positive: tuple[object, ...] = (1,)  # the answers that count as class 1
    above: float | None = None  # or: class 1 is a target above this number
    reach: tuple[float, float] | None = None  # or: a regression, whose target has these bounds


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to learn from and rows to test, and the public bound on the norm of a row."""

    name: str
    train: np.ndarray
    train_answers: np.ndarray
    test: np.ndarray
    test_answers: np.ndarray
    norm: float


_QUESTIONS = (
    "sex latino black asian married divorced uscitizen disability militaryservice employed englishability"
)
YES_NO = dict.fromkeys(_QUESTIONS.split(), (0.0, 1.0))

SOURCES = {
    "adult": Source(
        "adult.csv.gz",
        "income",
        {
            "age": (17, 90),
            "education_num": (1, 16),
            "hours_per_week": (0, 80),
            "capital_gain": (0, 20000),
            "capital_loss": (0, 4000),
        },
        "workclass|marital_status|occupation|relationship|race|sex",
        positive=(">50K",),
    ),
    "bank": Source(
        "bank_additional_full.csv.gz",
        "y",
        {
            "age": (18, 95),
            "campaign": (1, 20),
            "previous": (0, 5),
            "emp.var.rate": (-4, 2),
            "cons.price.idx": (92, 95),
            "cons.conf.idx": (-55, -25),
            "euribor3m": (0, 6),
            "nr.employed": (4900, 5300),
        },
        "job|marital|education|default|housing|loan|contact|month|poutcome",
        positive=("yes",),
    ),
    "compas": Source(
        "compas_two_years.csv.gz",
        "two_year_recid",
        {
            "age": (18, 80),
            "juv_fel_count": (0, 5),
            "juv_misd_count": (0, 5),
            "juv_other_count": (0, 5),
            "priors_count": (0, 20),
        },
        "sex|race|c_charge_degree",
    ),
    "german": Source(
        "german_credit.csv.gz",
        "bad",
        {"duration": (0, 72), "amount": (0, 15000), "installment_rate": (1, 4), "age": (18, 75)},
        "checking|credit_history|purpose|savings|employment|personal_status_sex|other_debtors|property|"
        "other_installment|housing|job|telephone|foreign_worker",
    ),
    "heart": Source(
        "heart_disease_cleveland.csv.gz",
        "diameter narrowing",
        {
            "age": (20, 90),
            "rest SBP": (90, 200),
            "cholesterol": (100, 500),
            "max HR": (60, 220),
            "ST by exercise": (0, 6),
            "major vessels colored": (0, 3),
            "exerc ind ang": (0, 1),
        },
        "gender|chest pain|rest ECG|slope peak exc ST|thal",
    ),
    "gss": Source(
        "gss_happiness.csv.gz",
        "hapmar",
        {"year": (1972, 2018), "childs": (0, 8), "age": (18, 89), "educ": (0, 20)},
        "divorce|sex|race|relig|xmovie|pornlaw",
        positive=("veryhappy",),
    ),
    "pums income": Source(
        "pums5_fulton_ga.csv.gz",
        "income",
        {
            "age": (18, 93),
            "educ": (1, 16),
            "children": (0, 1),
            **YES_NO,
        },
        above=50000,
    ),
    "pums children": Source(
        "pums5_fulton_ga.csv.gz",
        "children",
        {
            "age": (18, 93),
            "educ": (1, 16),
            "income": (0, 200000),
            **YES_NO,
        },
    ),
    "taxi tip": Source(
        "nyc_taxis_6k.csv.gz",
        "tip",
        {"passengers": (0, 6), "distance": (0, 20), "fare": (0, 60), "tolls": (0, 12)},
        "color|payment|pickup_borough|dropoff_borough",
        above=2.0,
    ),
}

REGRESSIONS = {
    "adult hours": Source(
        "adult.csv.gz",
        "hours_per_week",
        {"age": (17, 90), "education_num": (1, 16)},
        "workclass|marital_status|occupation|relationship|race|sex",
        reach=(0, 80),
    ),
    "german amount": Source(
        "german_credit.csv.gz",
        "amount",
        {"duration": (0, 72), "installment_rate": (1, 4), "age": (18, 75)},
        "purpose|employment|housing|job|telephone",
        reach=(0, 15000),
    ),
    "gss educ": Source(
        "gss_happiness.csv.gz",
        "educ",
        {"year": (1972, 2018), "childs": (0, 8), "age": (18, 89)},
        "divorce|sex|race|relig|xmovie|pornlaw",
        reach=(0, 20),
    ),
    "pums earnings": Source(
        "pums5_fulton_ga.csv.gz",
        "income",
        SOURCES["pums income"].bounds,
        reach=(0, 150000),
    ),
    "taxi fare": Source(
        "nyc_taxis_6k.csv.gz",
        "fare",
        {"passengers": (0, 6), "distance": (0, 20), "tolls": (0, 12)},
        "color|payment|pickup_borough|dropoff_borough",
        reach=(0, 60),
    ),
    "warfarin dose": Source(
        "warfarin_iwpc.csv.gz",
        "Therapeutic Dose of Warfarin",
        {"Height (cm)": (130, 200), "Weight (kg)": (40, 150), "Amiodarone (Cordarone)": (0, 1)},
        "Gender|Race|Age|CYP2C9 consensus|VKORC1 -1639 consensus",
        reach=(0, 80),
    ),
}


def load_table(name: str, *, seed: int = 0, test_share: float = 0.3) -> Table:
    """The table, split by a seed into rows to learn from and rows to test."""
    source = (SOURCES | REGRESSIONS)[name]
    path = DATA / source.file
    if not path.exists():
        sys.exit(f"{path} is not there.")
    frame = pd.read_csv(path, low_memory=False)
    frame = frame[frame[source.target].notna()]
    parts = []
    for column, (low, high) in source.bounds.items():
        scaled = (np.clip(frame[column].to_numpy(float), low, high) - low) / (high - low)
        parts.append(np.nan_to_num(2 * scaled - 1, nan=0.0)[:, None])
    columns = [column for column in source.categories.split("|") if column]
    parts += [pd.get_dummies(frame[column]).to_numpy(float) for column in columns]
    answers = frame[source.target]
    if source.reach is not None:
        low, high = source.reach
        found = 2 * (np.clip(answers.to_numpy(float), low, high) - low) / (high - low) - 1
    elif source.above is not None:
        found = (answers.to_numpy(float) > source.above).astype(int)
    else:
        found = answers.isin(source.positive).to_numpy().astype(int)
    train, test, train_answers, test_answers = train_test_split(
        np.hstack(parts), found, test_size=test_share, random_state=seed
    )
    return Table(name, train, train_answers, test, test_answers, math.sqrt(len(parts)))
