"""Private training of what Accelerate has prepared: it works, or is refused in one sentence."""

import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from privet.training import TrainingPlan, make_private, train

SETTINGS = {"epsilon": 3.0, "delta": 1e-6, "epochs": 1, "lot_size": 50}


def parts():
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    data = TensorDataset(torch.randn(200, 3), torch.randint(0, 2, (200,)))
    return model, torch.optim.Adam(model.parameters(), 0.01), DataLoader(data, batch_size=10, shuffle=True)


def test_what_accelerate_has_prepared_is_trained(packages, monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", lambda plan, _: replace(plan, noise_multiplier=4.0))
    accelerator = packages.accelerate.Accelerator(cpu=True)
    model, optimizer, loader = accelerator.prepare(*parts())
    before = model[0].weight.detach().clone()
    with pytest.warns(UserWarning, match="draws its lots"):
        trained = train(model, loader, optimizer=optimizer, **SETTINGS)
    assert trained.plan.population == 200
    assert not torch.equal(before, model[0].weight)
    model, optimizer, loader = accelerator.prepare(*parts())
    with pytest.warns(UserWarning, match="draws its lots"):
        private = make_private(model, optimizer, loader, clip=1.0, **SETTINGS)
    for lot in private.lots():
        private.step(lot, nn.CrossEntropyLoss())
    assert private.steps_done == 4


_MIXED = """
import torch, privet
from torch import nn
from accelerate import Accelerator
model = Accelerator(cpu=True, mixed_precision="bf16").prepare(nn.Linear(3, 2))
try:
    privet.train(model, (torch.randn(200, 3), torch.randint(0, 2, (200,))), epsilon=3, delta=1e-6, epochs=1)
except privet.errors.InvalidArgument as refusal:
    print(refusal)
"""


@pytest.mark.slow
def test_mixed_precision_is_refused_in_one_sentence(packages):
    """Accelerate keeps its precision for the whole process."""
    assert packages.accelerate is not None
    ran = subprocess.run(
        [sys.executable, "-c", _MIXED], capture_output=True, text=True, check=True, timeout=300
    )
    assert "Accelerate has prepared for mixed precision" in ran.stdout
