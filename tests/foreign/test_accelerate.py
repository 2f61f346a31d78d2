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
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(cpu=True, mixed_precision="bf16")
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), 0.05))
x = torch.randn(1000, 3)
data = x, (x[:, 0] > 0).long()
settings = {"epsilon": 8, "delta": 1e-6, "epochs": 6, "lot_size": 100, "optimizer": optimizer}
try:
    privet.train(model, data, **settings)
except privet.errors.InvalidArgument as refusal:
    print(refusal)
model = accelerator.unwrap_model(model, keep_fp32_wrapper=False)
seen = set()
model[0].register_forward_hook(lambda module, inputs, output: seen.add(output.dtype))
with accelerator.autocast():
    private = privet.training.make_private(model, data=data, clip=1.0, **settings)
    for lot in private.lots():
        private.step(lot, nn.CrossEntropyLoss())
print(*seen, {p.dtype for p in model.parameters()}, float((model(x).argmax(1) == data[1]).float().mean()) > 0.8)
"""


@pytest.mark.slow
def test_mixed_precision_is_that_of_autocast(packages):
    """Accelerate keeps its precision for the whole process. Its own wrapper is refused in one sentence."""
    assert packages.accelerate is not None
    ran = subprocess.run(
        [sys.executable, "-c", _MIXED], capture_output=True, text=True, check=False, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    refusal, seen = ran.stdout.strip().splitlines()
    assert "Accelerate has prepared for mixed precision. Call accelerator.unwrap_model" in refusal
    assert seen == "torch.bfloat16 {torch.float32} True"
