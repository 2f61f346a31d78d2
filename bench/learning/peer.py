"""diffprivlib's models on one table, in its own environment: python peer.py TABLE.npz KIND ε… prints JSON.

Each gets the same public knowledge as Privet's: the bound on the norm of a row, or the bounds of features and target.
"""

import json
import sys
import warnings

import numpy as np
from diffprivlib.models import GaussianNB, LinearRegression, LogisticRegression
from scoring import Quality

STRENGTHS = (0.01, 0.1, 1.0)  # C, of which 1 is the default


def main():
    warnings.simplefilter("ignore")
    table, kind, epsilons = np.load(sys.argv[1]), sys.argv[2], [float(value) for value in sys.argv[3:]]
    train, answers, test, asked = (table[name] for name in ("train", "train_answers", "test", "test_answers"))
    norm, width = float(table["norm"]), train.shape[1]
    ends = (np.full(width, -1.0), np.full(width, 1.0))
    found = []
    for epsilon in epsilons:
        if kind == "logistic":
            for strength in STRENGTHS:
                model = LogisticRegression(epsilon=epsilon, data_norm=norm, C=strength, max_iter=1000)
                scores = model.fit(train, answers).decision_function(test)
                found.append((epsilon, f"C={strength:g}", Quality.of_scores(scores, asked)))
        elif kind == "ridge":
            model = LinearRegression(epsilon=epsilon, bounds_X=ends, bounds_y=(-1.0, 1.0)).fit(train, answers)
            found.append((epsilon, "default", Quality.of_predictions(model.predict(test), asked)))
        else:
            model = GaussianNB(epsilon=epsilon, bounds=ends, priors=None).fit(train, answers)
            likely = model.predict_log_proba(test)
            found.append((epsilon, "default", Quality.of_scores(likely[:, 1] - likely[:, 0], asked)))
    print(json.dumps([(epsilon, how, vars(quality)) for epsilon, how, quality in found]))


if __name__ == "__main__":
    main()
