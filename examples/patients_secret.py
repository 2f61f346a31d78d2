"""A patient's secret: what a model tells about a column that its owner keeps to themselves.

The data are 442 diabetes patients; the model predicts how the disease goes on in a year. Somebody who knows a patient's age,
weight, blood values and what became of them wants one column more. Part of it follows from what is known of everybody: an
imputation, learnt from other patients, needs no model. A model that was fitted too closely adds to it, and only for the
patients that it was trained on. A straight line adds nothing.

    python examples/patients_secret.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor
from style import BLUE, GREY, INK, ORANGE, panels, save, show

from privet.attacks.inversion import (
    AttributeGame,
    Imputation,
    ImputedInversion,
    PredictedNumbers,
    PublicPeople,
    SecretAttribute,
)
from privet.auditing import measure_recoveries
from privet.randomness import NoiseSource, experiment

SEX, PATIENTS, DRAWS = 1, 140, 20
MODELS = {"a tree without a limit": DecisionTreeRegressor, "a straight line": LinearRegression}


def main(out: Path, noise: NoiseSource | None = None) -> Path:
    """Attacks two models of the same patients."""
    del noise  # nothing here is private
    data = load_diabetes(scaled=False)
    inputs, outcome = data.data.copy(), data.target
    inputs[:, SEX] -= 1  # 0 and 1
    rows, bars = [], {}
    for title, kind in MODELS.items():
        shares = np.mean([_attack(inputs, outcome, kind, draw) for draw in range(DRAWS)], axis=0)
        bars[title] = tuple(float(share) for share in shares)
        rows.append(
            (
                title,
                *(f"{100 * share:.0f} %" for share in bars[title]),
                f"{100 * (bars[title][2] - bars[title][1]):+.0f} points",
            )
        )
    show(
        f"The sex of a patient, from the other columns and a model: share that is right, mean of {DRAWS} draws of patients",
        ("model", "imputation alone", "patients left out", "patients in the data", "being in adds"),
        rows,
    )
    print(
        "\nThe population explains what the imputation knows. What the attack knows more of patients who are in the data "
        "than of others is the leak."
    )
    figure, (axis,) = panels(1)
    places = np.arange(len(bars))
    series = (("imputation alone", GREY), ("patients left out", BLUE), ("patients in the data", ORANGE))
    for number, (name, colour) in enumerate(series):
        heights = [100 * shares[number] for shares in bars.values()]
        drawn = axis.bar(places + 0.26 * (number - 1), heights, 0.24, color=colour, label=name)
        axis.bar_label(drawn, fmt="%.0f", padding=2, color=INK)
    axis.set_xticks(places, list(bars))
    axis.set_ylim(0, 119)
    axis.set_yticks(range(0, 101, 25))
    axis.set_ylabel("right guesses, %")
    axis.set_title("What a model adds to what everybody could guess")
    axis.grid(axis="x", visible=False)
    axis.legend(loc="upper center", ncols=3, fontsize=9, columnspacing=1.2)
    return save(figure, out, "patients_secret.png")


def _attack(inputs, outcome, kind, draw):  # noqa: ANN001, ANN202 - arrays, and a class of models
    order = experiment(draw).permutation(len(outcome))
    inside, left_out, others = order[:PATIENTS], order[PATIENTS : 2 * PATIENTS], order[2 * PATIENTS :]
    model = kind().fit(inputs[inside], outcome[inside])
    secret = SecretAttribute.read(inputs, SEX, name="sex")
    game = AttributeGame(
        inputs[np.r_[inside, left_out]],
        outcome[np.r_[inside, left_out]],
        np.repeat([True, False], PATIENTS),
        PublicPeople(inputs[others], outcome[others], secret),
    )
    error = float(np.sqrt(np.mean((model.predict(inputs[inside]) - outcome[inside]) ** 2)))
    view = PredictedNumbers(model.predict)
    blind = measure_recoveries(Imputation().run(view, game).recoveries)
    attacked = measure_recoveries(ImputedInversion(error).run(view, game).recoveries)
    return blind.success.value, attacked.baseline.value, attacked.success.value


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "examples-out"))
