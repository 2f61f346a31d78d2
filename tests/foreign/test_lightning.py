"""Private training inside of a LightningModule, with manual optimisation.

Lightning brings ten packages, so it is no part of [dev]; without it these tests are skipped.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn

from privet.errors import InvalidArgument
from privet.training import TrainingPlan, make_private


@pytest.fixture(autouse=True)
def _noise_without_a_search(monkeypatch):
    monkeypatch.setattr(TrainingPlan, "with_least_noise", lambda plan, _: replace(plan, noise_multiplier=1.0))


def make(lightning):
    """A module, as in docs/your-model.md, and its private loop."""

    class PrivateModule(lightning.LightningModule):
        def __init__(self, model, private):
            super().__init__()
            self.automatic_optimization = False  # the private loop takes the steps
            self.model, self.private = model, private

        def train_dataloader(self):
            return range(self.private.final_step)  # Lightning reads ahead, and lots are drawn one by one

        def on_train_start(self):
            self.lots = self.private.lots()

        def training_step(self, number, index):
            self.private.step(next(self.lots), nn.CrossEntropyLoss())
            self.log("steps", float(self.private.steps_done), batch_size=1)

        def configure_optimizers(self):
            return self.private.optimizer

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = torch.randn(1000, 3)
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    settings = {"epsilon": 3.0, "delta": 1e-6, "epochs": 4, "lot_size": 100, "clip": 1.0}
    private = make_private(model, optimizer, (x, (x[:, 0] > 0).long()), **settings)
    return PrivateModule(model, private), private, x


def trainer(lightning, **options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    return lightning.Trainer(max_epochs=1, accelerator="cpu", enable_checkpointing=False, **quiet, **options)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_a_lightning_module_takes_private_steps(packages, precision):
    lightning = packages.lightning
    module, private, x = make(lightning)
    trainer(lightning, precision=precision).fit(module)
    assert private.steps_done == 40
    assert len(private.ledger.entries) >= 1
    assert float((module.model(x).argmax(1) == (x[:, 0] > 0)).float().mean()) > 0.8
    assert all(p.dtype is torch.float32 for p in module.parameters())


def test_lightning_reads_ahead_so_lots_are_no_loader(packages):
    """Lots that are drawn before they are used are refused, and nothing is spent."""
    lightning = packages.lightning
    module, private, _ = make(lightning)
    with pytest.raises(InvalidArgument, match="before the next lot is drawn"):
        trainer(lightning).fit(module, train_dataloaders=private.lots())
    assert private.steps_done == 0
