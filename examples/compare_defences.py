"""Compare defences: what each costs, and what attacks that know it still find.

A network learns from insurance claims who is off work for more than four weeks. Four trainings are compared: as
it is, stopped early, labels instead of confidences, and DP-SGD with a proof. Reference models use the same
defence as the model that they attack. Averages mislead, so that the most exposed records have a column of
their own: those with a wrong label, half of them with a near-duplicate.

    python examples/compare_defences.py [folder]

It is also a study for the command line: ``privet compare examples/compare_defences.py``. It takes about two
minutes; the second time it reads finished models from the folder.
"""

import sys
from pathlib import Path

from torch import nn

import privet
from privet.attacks.shadows import Adam, TorchRecipe
from privet.datasets.injuries import COLUMNS, injuries
from privet.defending import EarlyStop, HardLabels, NoDefence, PrivateTraining


def network() -> nn.Module:
    """A small network of two layers."""
    return nn.Sequential(nn.Linear(len(COLUMNS), 128), nn.ReLU(), nn.Linear(128, 2))


recipe = TorchRecipe(model=network, epochs=60, batch_size=64, learning_rate=0.003, optimizer=Adam())
recipes = [NoDefence(), EarlyStop(), HardLabels(), PrivateTraining(epsilon=8, delta=1e-5)]
data = injuries()


def main(out: Path, references: int = 16) -> Path:
    """Compare, say which one to take, and write the page."""
    out.mkdir(parents=True, exist_ok=True)
    comparison = privet.compare(
        recipes, data, recipe=recipe, references=references, cache=out / "compare-defences.cache"
    )
    print(f"{'defence':16}{'accuracy':>9}{'population':>12}{'most exposed':>14}{'ε proved':>10}")
    for row in comparison.defences:
        rates = (row.test_accuracy, row.tpr_population, row.tpr_exposed)
        accuracy, population, exposed = (f"{100 * rate.value:.1f} %" for rate in rates)
        proved = "no proof" if row.epsilon_proved is None else f"≤ {row.epsilon_proved:.2f}"
        print(f"{row.name:16}{accuracy:>9}{population:>12}{exposed:>14}{proved:>10}")
    print(f"\n{comparison.recommendation}")
    path = comparison.save(out / "compare-defences.html")
    print(f"\nreport: {path}")
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
