"""Naive Bayes on Adult's own split: Privet, diffprivlib, and scikit-learn without privacy."""

import warnings

import numpy as np
import pandas as pd
from adult import COLUMNS

from privet.learning import CategoricalNB, GaussianNB
from privet.releasing.synthetic import Categories

CLASSES = ("<=50K", ">50K")
NUMBERS = ["age", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
BOUNDS = ((17.0, 1.0, 0.0, 0.0, 1.0), (90.0, 16.0, 100_000.0, 5_000.0, 99.0))
RUNS = 20


def rows(table: pd.DataFrame, epsilons: tuple[float, ...]) -> list[tuple[str, str]]:
    train, test = table[table.split == "train"], table[table.split == "test"]
    named = [c for c in COLUMNS if isinstance(c, Categories) and c.name != "income"]
    texts = [column.name for column in named]
    categories = tuple(column.categories for column in named)
    found = []
    for epsilon in epsilons:
        made = {
            "Privet CategoricalNB": lambda e=epsilon: (
                CategoricalNB(e, classes=CLASSES, categories=categories),
                texts,
            ),
            "Privet GaussianNB": lambda e=epsilon: (GaussianNB(e, classes=CLASSES, bounds=BOUNDS), NUMBERS),
            "diffprivlib GaussianNB": lambda e=epsilon: (_theirs(e), NUMBERS),
        }
        for name, make in made.items():
            found.append((f"{name}, ε = {epsilon:g}", _accuracy(make, train, test)))
    return [*found, *_plain(train, test, named)]


def _accuracy(make, train, test) -> str:
    scores = []
    try:
        for _ in range(RUNS):
            model, columns = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(train[columns].to_numpy(), train.income.to_numpy())
                scores.append(model.score(test[columns].to_numpy(), test.income.to_numpy()))
    except Exception as broken:
        return f"failed: {type(broken).__name__}"
    return f"{np.mean(scores):.3f} ± {np.std(scores):.3f}"


def _theirs(epsilon: float):
    from diffprivlib.models import GaussianNB as Theirs

    return Theirs(epsilon=epsilon, bounds=BOUNDS)


def _plain(train, test, named) -> list[tuple[str, str]]:
    from sklearn.naive_bayes import CategoricalNB as PlainCategorical
    from sklearn.naive_bayes import GaussianNB as PlainGaussian

    def coded(part):
        return np.stack([c.codes(part[c.name].to_numpy()) for c in named], axis=1)

    categorical = PlainCategorical(min_categories=[c.size for c in named]).fit(coded(train), train.income)
    gaussian = PlainGaussian().fit(train[NUMBERS].to_numpy(), train.income)
    return [
        ("scikit-learn CategoricalNB, not private", f"{categorical.score(coded(test), test.income):.3f}"),
        (
            "scikit-learn GaussianNB, not private",
            f"{gaussian.score(test[NUMBERS].to_numpy(), test.income):.3f}",
        ),
        ("always the more frequent class", f"{(test.income == CLASSES[0]).mean():.3f}"),
    ]
