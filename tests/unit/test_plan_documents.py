"""A plan in a checkpoint is a versioned document, from which the same plan is read."""

import dataclasses
import json

import pytest
import torch

from privet.adjacency import AddRemove, ReplaceOne, Unit, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, Unreadable
from privet.training.extras.encoding import Encoding, Signs
from privet.training.loop import plan_documents
from privet.training.loop.checkpoint import Checkpoint
from privet.training.loop.plan_documents import (
    differing_fields,
    plan_from_plain,
    plan_to_plain,
    repr_of_0_1_0,
)
from privet.training.noise.correlated import BandedNoise, Correlation, IndependentNoise, TreeNoise
from privet.training.noise.distributions import NoiseDistribution, Normal, Student
from privet.training.plan import QuantileClip, TrainingPlan
from privet.training.sampling.schemes import (
    CyclicPoissonSampling,
    CyclicSampling,
    FixedSizeSampling,
    PoissonSampling,
    Sampling,
    ShuffledSampling,
)


def planned(**parts):
    common = {
        "population": 1000,
        "steps": 40,
        "noise_multiplier": 0.1 + 0.2,
        "clip_bound": 1.0,
        "sampling": PoissonSampling(1 / 3),
    }
    return TrainingPlan(**(common | parts))


PLANS = [
    planned(),
    planned(size_is_public=True, micro_batch=7, augmentations=3),
    planned(adaptive=QuantileClip(0.5, count_deviation=20.0, learning_rate=0.3)),
    planned(
        sampling=FixedSizeSampling(50), noise_distribution=Student(5.0), adjacency=ReplaceOne(Unit.CLIENT)
    ),
    planned(sampling=CyclicPoissonSampling(4, 0.2), correlation=BandedNoise((1.0, 0.7, 0.1))),
    planned(sampling=CyclicSampling(5), correlation=TreeNoise(efficient=False)),
    planned(sampling=ShuffledSampling(125, accept=Caveat.UNVETTED), encoding=Signs(0.25)),
    planned(
        sampling=ShuffledSampling(125),
        adjacency=ZeroOut(),
        noise_distribution=Normal(),
        correlation=IndependentNoise(),
    ),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_plan_comes_back_from_json_to_the_last_bit(plan):
    assert plan_from_plain(json.loads(json.dumps(plan_to_plain(plan)))) == plan


def test_every_class_that_a_plan_is_made_of_has_a_kind():
    """Fails for a new sampling, correlation, noise distribution or encoding that no checkpoint can hold."""

    def made_of(kind):
        found = {
            leaf
            for below in kind.__subclasses__()
            if below.__module__.startswith("privet.")
            for leaf in made_of(below)
        }
        return found or {kind}

    found = set().union(*map(made_of, (Sampling, Correlation, NoiseDistribution, Encoding))) | {QuantileClip}
    assert found == set(plan_documents._NAMES)


def test_what_an_earlier_version_did_not_write_has_its_default():
    document = plan_to_plain(planned())
    del document["size_is_public"], document["encoding"]
    assert plan_from_plain(document) == planned()


@pytest.mark.parametrize(
    "change",
    [
        {"steps": 0},
        {"steps": "40"},
        {"more": 1},
        {"sampling": {"kind": "other"}},
        {"sampling": {"kind": "poisson-sampling"}},
        {"sampling": {"kind": "poisson-sampling", "rate": 2.0}},
        {"sampling": {"kind": "poisson-sampling", "rate": 0.1, "x": 1}},
        {"sampling": 3},
        {"adjacency": "add-remove"},
        {"adjacency": {"relation": "other", "unit": "record"}},
        {"sampling": {"kind": "shuffled-sampling", "size": 5, "accept": "OTHER"}},
    ],
)
def test_a_document_that_is_none_is_refused(change):
    with pytest.raises(Unreadable):
        plan_from_plain(plan_to_plain(planned()) | change)
    with pytest.raises(Unreadable, match="must be an object"):
        plan_from_plain("Plan()")


def test_differences_are_named(tmp_path):
    other = planned(clip_bound=2.0, sampling=PoissonSampling(0.3))
    assert differing_fields(planned(), other) == ["sampling", "clip_bound"]
    with Checkpoint(tmp_path, planned()):
        pass
    with (
        pytest.raises(InvalidArgument, match="differs in sampling, clip_bound"),
        Checkpoint(tmp_path, other),
    ):
        pass


def test_the_text_of_0_1_0_has_the_fields_of_then():
    """Classes and fields have the names that they had then."""
    parts = planned(sampling=CyclicPoissonSampling(4, 0.2), correlation=BandedNoise((1.0, 0.7)))
    assert repr_of_0_1_0(parts) == (
        "Plan(population=1000, sampling=PartSampling(parts=4, rate=0.2), steps=40, "
        "noise_multiplier=0.30000000000000004, clip_bound=1.0, adjacency=AddRemove(unit=<Unit.RECORD: 'record'>), "
        "correlation=Banded(coefficients=(1.0, 0.7)), adaptive=None, micro_batch=None, augmentations=1, law=Normal(), "
        "encoding=None)"
    )
    assert repr_of_0_1_0(planned(size_is_public=True)) is None


def test_a_class_of_one_s_own_is_refused_before_anything_is_written(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Mine(NoiseDistribution):
        caveats = frozenset()
        relative_deviation = 1.0

        def drawer(self, *arguments): ...

        normal = draw = drawer

    Mine.__abstractmethods__ = frozenset()
    with (
        pytest.raises(InvalidArgument, match="one of Privet's own"),
        Checkpoint(tmp_path, planned(noise_distribution=Mine())),
    ):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["lock"]


class TestLineage:
    def run(self, folder, last, *, save=()):
        with Checkpoint(folder, planned(), ahead=4, epsilon=1e6, delta=1e-5) as kept:
            for step in range(kept.step + 1, last + 1):
                kept.reserve(step)
                if step in save:
                    kept.save(step, {"weights": torch.zeros(1)})

    def test_a_journal_of_another_run_is_refused(self, tmp_path):
        for name in ("a", "b"):
            self.run(tmp_path / name, 10, save=(8,))
        (tmp_path / "a" / "spent.json").write_bytes((tmp_path / "b" / "spent.json").read_bytes())
        with pytest.raises(Unreadable, match="of the same run"):
            self.run(tmp_path / "a", 12)

    def test_a_journal_from_before_a_crash_is_refused(self, tmp_path):
        """In 0.1.0 the stretch that was lost is then forgotten."""
        self.run(tmp_path, 10, save=(8, 10))
        older = (tmp_path / "spent.json").read_bytes()
        self.run(tmp_path, 12)  # lost
        self.run(tmp_path, 11, save=(11,))
        document = json.loads(older) | {"reserved": 11}
        (tmp_path / "spent.json").write_text(json.dumps(document))
        with pytest.raises(Unreadable, match="not older"):
            self.run(tmp_path, 12)

    def test_two_runs_in_one_folder_after_the_lock_was_removed(self, tmp_path):
        """The first may use what it reserved, which the second counts as lost; it may not go beyond, nor save."""
        plan = planned()
        with Checkpoint(tmp_path, plan, ahead=4, epsilon=1e6, delta=1e-5) as first:
            first.reserve(1)
            (tmp_path / "lock").unlink()
            with Checkpoint(tmp_path, plan, ahead=4, epsilon=1e6, delta=1e-5) as second:
                assert second.ledger().event == plan.ledger(4).event
                second.reserve(1)
                for step in (2, 3, 4):
                    first.reserve(step)
                with pytest.raises(Exception, match="another program has changed it"):
                    first.reserve(5)
                with pytest.raises(Exception, match="must stay while a run is active"):
                    first.save(4, {})
                assert not (tmp_path / "state.pt").exists()
                second.save(1, {})


def test_adjacency_keeps_its_unit():
    for adjacency in (AddRemove(Unit.CLIENT), ZeroOut(Unit.USER)):
        assert plan_from_plain(plan_to_plain(planned(adjacency=adjacency))).adjacency == adjacency
