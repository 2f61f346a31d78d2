"""Attribute inversion on real tables: members beside people left out, beside the imputation.

    python bench/inversion/attributes.py [--seeds 3] [--people 5000]

For each table and model: the area under the curve of each attack for the rarer value of the secret, among members, among people
that the model never saw, and of the imputation alone; and the accuracy with its leak. Means over seeds with their range. Third
people, who are neither, teach the imputation.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from privet.attacks import see
from privet.attacks.inversion import (
    AttributeGame,
    ConfidenceInversion,
    Imputation,
    ImputedInversion,
    LabelOnlyInversion,
    LossThresholdInversion,
    MarginalInversion,
    PredictedNumbers,
    PublicPeople,
    SecretAttribute,
)
from privet.auditing import measure_recoveries, measure_values

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


def load(name):
    sys.path.insert(0, str(next(p for p in (SHARED, Path("/work/shared/data")) if p.exists())))
    from load import load as read

    return read(name)


def gss():
    table = load("gss_happiness").drop(columns=["split", "marital"])
    secret, label = table.pop("xmovie") == "x_yes", table.pop("hapmar").astype("category").cat.codes
    return pd.get_dummies(table), secret, label.to_numpy().astype(np.int64), "watched an x-rated film"


def adult():
    table = load("adult").drop(columns=["split", "relationship"])
    secret, label = (
        table.pop("marital_status").str.contains("Married"),
        table.pop("income").str.contains(">50"),
    )
    return pd.get_dummies(table), secret, label.to_numpy().astype(np.int64), "is married"


def warfarin():
    table = load("warfarin_iwpc")
    dose, gene = table["Therapeutic Dose of Warfarin"], table["VKORC1 -1639 consensus"]
    table = table[dose.notna() & gene.notna()]
    kept = table[["Race", "Gender", "Age", "CYP2C9 consensus", "Amiodarone (Cordarone)"]].astype(str)
    kept["height"] = table["Height (cm)"].fillna(168.0)
    kept["weight"] = table["Weight (kg)"].fillna(78.0)
    secret = table["VKORC1 -1639 consensus"] == "A/A"
    return (
        pd.get_dummies(kept),
        secret,
        np.sqrt(table["Therapeutic Dose of Warfarin"].to_numpy()),
        "VKORC1 is A/A",
    )


def mlp():
    return make_pipeline(StandardScaler(), MLPClassifier((128, 64), max_iter=300, random_state=0))


TABLES = {
    "GSS": (gss, 5000, {"unpruned tree": lambda: DecisionTreeClassifier(random_state=0)}),
    "GSS, 1,000 people": (gss, 1000, {"MLP": mlp}),
    "Adult": (
        adult,
        5000,
        {
            "unpruned tree": lambda: DecisionTreeClassifier(random_state=0),
            "forest": lambda: RandomForestClassifier(100, random_state=0, n_jobs=1),
            "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        },
    ),
    "warfarin": (
        warfarin,
        1400,
        {"unpruned tree": lambda: DecisionTreeRegressor(random_state=0), "linear": LinearRegression},
    ),
}


def attacks_on(model, inputs, labels):
    """The attacks that fit; the training loss or error is taken as published."""
    if labels.dtype.kind == "f":
        error = float(np.sqrt(np.mean((model.predict(inputs) - labels) ** 2)))
        return PredictedNumbers(model.predict), [Imputation(), MarginalInversion(), ImputedInversion(error)]
    view = see(model)
    loss = float(-np.maximum(view.log_confidences(inputs)[np.arange(len(labels)), labels], -20).mean())
    attacks = [
        Imputation(),
        MarginalInversion(),
        LossThresholdInversion(loss),
        ConfidenceInversion(),
        LabelOnlyInversion(),
        ImputedInversion(),
    ]
    return view, attacks


def play(table, people, make, seed):
    features, secret, label, name = table
    inputs = np.column_stack([features.to_numpy(float), secret.to_numpy(float)])
    order = np.random.default_rng(seed).permutation(len(label))
    trained, left_out, third = order[:people], order[people : 2 * people], order[2 * people :]
    model = make().fit(inputs[trained], label[trained])
    view, attacks = attacks_on(model, inputs[trained], label[trained])
    public = PublicPeople(
        inputs[third], label[third], SecretAttribute.read(inputs[third], inputs.shape[1] - 1, name=name)
    )
    both = np.concatenate([trained, left_out])
    game = AttributeGame(
        inputs[both], label[both], np.repeat([True, False], [len(trained), len(left_out)]), public
    )
    for attack in attacks:
        recovery = attack.run(view, game)
        figures = measure_values(
            recovery.scores,
            recovery.truths,
            game.members,
            recovery.names,
            chosen=recovery.chosen,
            blind=recovery.log_imputations,
        )[1]
        leakage = measure_recoveries(recovery.recoveries, confidence=0.95)
        yield (
            attack.name,
            (
                figures.auc.value,
                figures.auc_left_out.value,
                figures.auc_blind.value,
                leakage.success.value,
                leakage.leak,
            ),
        )


def main():
    warnings.filterwarnings("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| table | model | attack | AUC members | AUC left out | AUC imputation | accuracy | leak [95 %] |")
    print("|---|---|---|---|---|---|---|---|")
    for title, (read, people, models) in TABLES.items():
        table = read()
        for model, make in models.items():
            rows = {}
            started = time.process_time()
            for seed in range(options.seeds):
                for attack, figures in play(table, people, make, seed):
                    rows.setdefault(attack, []).append(figures)
            for attack, figures in rows.items():
                inside, outside, blind, accuracy = np.mean([row[:4] for row in figures], axis=0)
                leak = figures[0][4]
                print(
                    f"| {title} | {model} | {attack} | {inside:.3f} | {outside:.3f} | {blind:.3f} | {accuracy:.3f} | {leak.value:+.3f} [{leak.lower:+.3f}, {leak.upper:+.3f}] |"
                )
            print(f"<!-- {title}, {model}: {time.process_time() - started:.0f} s -->", flush=True)


if __name__ == "__main__":
    main()
