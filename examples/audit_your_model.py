"""A torch model of your own, audited: does it tell who was in its training data? Everything above the line is a stranger's code.

The data are answers of 6,366 women to a survey about affairs (Fair 1978), which come with statsmodels. The audit trains reference
models by the recipe that it is given, attacks the model with their help, and writes a report that opens in any browser.

    pip install 'privet[demo]'
    python examples/audit_your_model.py [folder]
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from statsmodels.datasets import fair
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def make_model() -> nn.Module:
    """The stranger's network."""
    return nn.Sequential(nn.Linear(46, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))


def make_data() -> tuple[TensorDataset, TensorDataset]:
    """The stranger's data: half of it to train on, half of it to test."""
    table = fair.load_pandas().data
    labels = torch.tensor((table.pop("affairs") > 0).to_numpy(dtype=np.int64))
    inputs = torch.tensor(pd.get_dummies(table.astype("category")).to_numpy(dtype=np.float32))
    order = torch.randperm(len(labels))
    train, test = order[: len(order) // 2], order[len(order) // 2 :]
    return TensorDataset(inputs[train], labels[train]), TensorDataset(inputs[test], labels[test])


def fit(model: nn.Module, data: TensorDataset, epochs: int) -> None:
    """The stranger's training."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for inputs, labels in DataLoader(data, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


def main(out: Path, epochs: int = 30, references: int = 16) -> Path:
    """Train as the stranger does, then audit."""
    torch.manual_seed(0)
    train_set, test_set = make_data()
    model = make_model()
    fit(model, train_set, epochs)
    out.mkdir(parents=True, exist_ok=True)

    # ---- the audit
    import privet
    from privet.attacks.shadows import Adam, TorchRecipe

    recipe = TorchRecipe(model=make_model, epochs=epochs, batch_size=64, learning_rate=1e-3, optimizer=Adam())
    report = privet.audit(model, train_set, test_set, recipe=recipe, references=references, name="My model")
    print(report.verdict)
    path = report.save(out / "audit-your-model.html")
    # ---- the end of the audit

    print(f"report: {path}")
    return path


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("examples-out"))
