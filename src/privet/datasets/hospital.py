"""Invented visits of invented patients to a hospital that does not exist, for the curator's demonstration."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from privet.arguments import whole

__all__ = ["WARDS", "invent_visits"]

Columns: TypeAlias = Mapping[str, Sequence[Any]]

WARDS = ("surgery", "medicine", "children", "maternity", "heart")
_SHARES = (0.27, 0.33, 0.14, 0.12, 0.14)
_DAYS = (3.1, 5.2, 2.4, 3.6, 6.3)  # mean length of a stay
_FIRST_YEAR, _YEARS = 2021, 5


def invent_visits(patients: int, generator: np.random.Generator) -> Columns:
    """A row for each visit: patient, age, sex, ward, year, days, cost and smoker. Nobody's data.

    >>> visits = invent_visits(100, np.random.default_rng(1))
    >>> sorted(visits), len(set(visits["patient"]))
    (['age', 'cost', 'days', 'patient', 'sex', 'smoker', 'ward', 'year'], 100)
    """
    count = whole("patients", patients, 1)
    sex = generator.random(count) < 0.53
    age = np.clip(generator.normal(52, 21, count), 0, 101).round().astype(int)
    smoker = generator.random(count) < np.where(age < 16, 0.0, 0.21)
    visits = 1 + generator.poisson(0.7 + 0.012 * age)
    who = np.repeat(np.arange(count), visits)
    ward = _choose_wards(age[who], sex[who], generator)
    days = 1 + generator.poisson(np.array(_DAYS)[ward] * (0.7 + 0.006 * age[who]) + 0.8 * smoker[who])
    cost = generator.gamma(6.0, 95.0, len(who)) * days + np.where(ward == 0, 2_300, 350)
    order = generator.permutation(len(who))
    return {
        "patient": (100_000 + who)[order].tolist(),
        "age": age[who][order].tolist(),
        "sex": np.where(sex[who], "f", "m")[order].tolist(),
        "ward": np.array(WARDS)[ward][order].tolist(),
        "year": (_FIRST_YEAR + generator.integers(0, _YEARS, len(who)))[order].tolist(),
        "days": np.minimum(days, 60)[order].tolist(),
        "cost": cost.round(2)[order].tolist(),
        "smoker": smoker[who][order].tolist(),
    }


def _choose_wards(
    age: np.ndarray[Any, np.dtype[np.int_]],
    is_woman: np.ndarray[Any, np.dtype[np.bool_]],
    generator: np.random.Generator,
) -> np.ndarray[Any, np.dtype[np.int_]]:
    """Children go to the children's ward, and only women of some ages to maternity."""
    ward = generator.choice(len(WARDS), size=len(age), p=_SHARES)
    ward = np.where(age < 16, 2, np.where(ward == 2, 1, ward))
    may = is_woman & (age >= 18) & (age <= 46)
    return np.where((ward == 3) & ~may, 1, ward)
