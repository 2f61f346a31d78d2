"""Files that version 0.1.0 wrote are read, and go on. They were made by its own code, and are not to be made again."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from privet.adjacency import AddRemove, Unit, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.ledger import Ledger
from privet.releasing.durable import DurableLedger
from privet.training.extras.encoding import Signs
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.plan_documents import plan_from_plain
from privet.training.noise.correlated import BandedNoise, TreeNoise
from privet.training.noise.distributions import Student
from privet.training.plan import QuantileClip, TrainingPlan
from privet.training.sampling.schemes import (
    CyclicPoissonSampling,
    CyclicSampling,
    FixedSizeSampling,
    PoissonSampling,
    ShuffledSampling,
)

FILES = Path(__file__).parent / "version_0_1_0"

PARTS = {
    "poisson": {"sampling": PoissonSampling(0.05), "adaptive": QuantileClip(0.5, count_deviation=20.0)},
    "banded": {
        "sampling": CyclicSampling(5),
        "correlation": BandedNoise((1.0, 0.7, 0.6)),
        "adjacency": ZeroOut(),
    },
    "shuffled": {
        "sampling": ShuffledSampling(125, accept=Caveat.UNVETTED),
        "micro_batch": 64,
        "augmentations": 2,
    },
    "student": {
        "sampling": FixedSizeSampling(50),
        "noise_distribution": Student(5.0),
        "encoding": Signs(0.2),
        "adjacency": AddRemove(Unit.USER),
    },
    "tree": {"sampling": CyclicSampling(5), "correlation": TreeNoise()},
    "parts": {"sampling": CyclicPoissonSampling(4, 0.2)},
}


def planned(name, **changes):
    common = {"population": 1000, "steps": 40, "noise_multiplier": 2.5, "clip_bound": 1.0}
    return TrainingPlan(**(common | PARTS[name] | changes))


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FILES, tmp_path / "files"))


@pytest.mark.parametrize("name", list(PARTS))
def test_a_checkpoint_goes_on_and_is_written_as_a_document(name, folder):
    plan = planned(name)
    with Checkpoint(folder / name, plan, epsilon=100.0, delta=1e-5) as kept:
        assert kept.step == 8
        assert torch.equal(kept.state["weights"], torch.arange(3.0))
        assert kept.ledger().event == plan.ledger(8, abandoned=((8, 12),)).event  # 10 ran, 12 were reserved
        kept.reserve(9)
        kept.save(9, {"weights": torch.ones(3)})
    document = json.loads((folder / name / "spent.json").read_text())
    assert document["version"] == 2
    assert plan_from_plain(document["plan"]) == plan
    with Checkpoint(folder / name, plan, epsilon=100.0, delta=1e-5) as kept:
        assert kept.step == 9
        assert kept.ledger().event == plan.ledger(9, abandoned=((8, 12),)).event


@pytest.mark.parametrize("name", list(PARTS))
def test_a_checkpoint_of_another_plan_is_refused(name, folder):
    for change in ({"noise_multiplier": 2.6}, {"clip_bound": 2.0}, {"population": 1001}):
        with (
            pytest.raises(InvalidArgument, match="another plan"),
            Checkpoint(folder / name, planned(name, **change)),
        ):
            pass
    if name == "poisson":
        with (
            pytest.raises(InvalidArgument, match="another plan"),
            Checkpoint(folder / name, planned(name, size_is_public=True)),
        ):
            pass


def test_a_checkpoint_that_is_only_looked_at_goes_on(folder):
    """Nothing was lost, so no journal had to be written: the number of the run must be written all the same."""
    plan = planned("parts")
    document = json.loads((folder / "parts" / "spent.json").read_text())
    (folder / "parts" / "spent.json").write_text(json.dumps(document | {"reserved": 8}))
    with Checkpoint(folder / "parts", plan) as kept:
        kept.save(8, {"weights": torch.zeros(3)})
    with Checkpoint(folder / "parts", plan) as kept:
        assert torch.equal(kept.state["weights"], torch.zeros(3))


def test_a_ledger_is_read_with_its_answers(folder):
    path = folder / "ledger.json"
    durable = DurableLedger(path=path, adjacency=AddRemove(Unit.USER), budget=None)
    question = json.loads((folder / "ledger.json.answers.jsonl").read_text().splitlines()[1])["question"]
    with durable.open() as held:
        assert [entry.label for entry in held.ledger] == ["people", "age"]
        assert held.recall(question).value == 13.466111771700357
        held.spend(held.ledger.entries[:1])
    with durable.open() as held:
        assert held.recall(question).value == 13.466111771700357
        assert len(held.ledger) == 3
    assert Ledger.from_json(path.read_text()).entries == held.ledger.entries
