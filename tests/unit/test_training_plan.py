"""The plan's event is what runs, to the last step."""

import itertools
import math

import numpy as np
import pytest
import torch

from privet import events
from privet.accounting import account
from privet.accounting.correlated import banded_sensitivity, tree_sensitivity
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved, Unreadable
from privet.events import (
    Compose,
    FixedSize,
    Gaussian,
    Poisson,
    Repeat,
    banded_dp_sgd,
    dp_sgd,
)
from privet.randomness import SeededNoise
from privet.training.noise import correlated
from privet.training.noise.correlated import (
    BandedNoise,
    IndependentNoise,
    TreeNoise,
    square_root_coefficients,
)
from privet.training.plan import QuantileClip, TrainingPlan, steps_for
from privet.training.sampling.schemes import (
    CyclicPoissonSampling,
    CyclicSampling,
    FixedSizeSampling,
    PoissonSampling,
    ShuffledSampling,
)


def plan(**changes):
    fields = {
        "population": 1000,
        "sampling": PoissonSampling(0.05),
        "steps": 30,
        "noise_multiplier": 1.5,
        "clip_bound": 2.0,
    }
    return TrainingPlan(**(fields | changes))


def test_poisson_lots_are_dp_sgd():
    found = plan()
    assert found.event == dp_sgd(noise_multiplier=1.5, sampling_rate=0.05, steps=30)
    assert found.expected_lot == 50
    assert found.standard_deviation == 3.0
    assert "add-remove (record)" in str(found)


def test_fixed_lots_have_their_own_event():
    found = plan(sampling=FixedSizeSampling(50), adjacency=ReplaceOne())
    assert found.event == Repeat(FixedSize(50, 1000, Gaussian(1.5)), 30)
    assert found.guarantee().epsilon(delta=1e-6) > 0


def test_micro_batches_and_augmentations_change_nothing():
    assert plan(micro_batch=7, augmentations=4).event == plan().event


def test_shuffled_epochs_are_refused_without_their_caveat():
    with pytest.raises(NotProved, match="add-remove"):
        plan(sampling=ShuffledSampling(50))
    with pytest.raises(InvalidArgument, match="UNVETTED"):
        ShuffledSampling(50, accept=Caveat.SEEDED_NOISE)


def test_shuffled_epochs_without_amplification_are_proved_where_places_are_kept():
    found = plan(sampling=ShuffledSampling(60), steps=35, adjacency=ZeroOut())  # 17 lots in an epoch
    assert found.event == Repeat(Gaussian(1.5), 3)
    assert not found.ledger(35).caveats
    assert found.guarantee().epsilon(delta=1e-6) > plan(sampling=PoissonSampling(0.06)).guarantee().epsilon(
        delta=1e-6
    )


def test_taking_the_caveat_shows():
    found = plan(sampling=ShuffledSampling(50, accept=Caveat.UNVETTED))
    assert found.event == dp_sgd(noise_multiplier=1.5, sampling_rate=0.05, steps=30)
    assert Caveat.UNVETTED in found.ledger(3).caveats
    assert Caveat.UNVETTED in found.guarantee().caveats


def test_an_example_of_cyclic_lots_takes_part_once_in_an_epoch():
    cyclic = plan(sampling=CyclicSampling(8))
    assert cyclic.event == Repeat(Gaussian(1.5), 4)
    banded = plan(sampling=CyclicSampling(8), correlation=BandedNoise((1.0, 0.5)))
    assert banded.event == events.BandedNoise(1.5, (1.0, 0.5), 30, 8, 4)
    tree = plan(sampling=CyclicSampling(8), correlation=TreeNoise())
    assert tree.event == events.TreeNoise(1.5, 30, 8, 4)
    assert tree.ledger(1).entries[0].event == events.TreeNoise(1.5, 1, 8, 1)
    assert banded.ledger(1).entries[0].event == events.BandedNoise(1.5, (1.0,), 1, 8, 1)


def test_parts_with_bands_are_amplified():
    column = (1.0, 0.5, 0.375)
    found = plan(sampling=CyclicPoissonSampling(3, 0.15), correlation=BandedNoise(column))
    known = banded_dp_sgd(noise_multiplier=1.5, coefficients=column, sampling_rate=0.05, steps=30)
    mine, theirs = (
        account(event, adjacency=AddRemove()).epsilon(delta=1e-6) for event in (found.event, known)
    )
    assert mine == pytest.approx(theirs, rel=1e-9)
    assert found.expected_lot == pytest.approx(50)
    wider = plan(sampling=CyclicPoissonSampling(5, 0.15), correlation=BandedNoise(column))
    assert wider.event == Repeat(Poisson(0.15, Gaussian(1.5 / math.hypot(*column))), 6)


@pytest.mark.parametrize(
    ("sampling", "correlation"),
    [
        (PoissonSampling(0.1), TreeNoise()),
        (PoissonSampling(0.1), BandedNoise((1.0, 0.5))),
        (FixedSizeSampling(10), TreeNoise()),
        (CyclicPoissonSampling(2, 0.1), BandedNoise((1.0, 0.5, 0.25))),
        (CyclicPoissonSampling(2, 0.1), TreeNoise()),
        (ShuffledSampling(10), TreeNoise()),
    ],
)
def test_what_no_theorem_covers_is_refused(sampling, correlation):
    with pytest.raises(NotProved, match="Use "):
        plan(sampling=sampling, correlation=correlation, adjacency=ZeroOut())


def test_adaptive_clip_splits_the_noise_and_costs_nothing_beside():
    clip = QuantileClip(0.5, count_deviation=2.5)
    found = plan(adaptive=clip)
    z, count = found.gradient_multiplier, 2 * clip.count_deviation
    assert found.event == plan().event
    assert z > 1.5
    # one unit moves the count by ½, so its multiplier is 2σ_b; both releases together cost what is accounted
    both = Compose((Gaussian(z), Gaussian(count)))
    mine, theirs = (
        account(event, adjacency=AddRemove()).epsilon(delta=1e-6) for event in (both, Gaussian(1.5))
    )
    assert mine == pytest.approx(theirs, rel=1e-9)
    with pytest.raises(InvalidArgument, match="twentieth"):
        plan(adaptive=QuantileClip(0.5, count_deviation=0.75))
    with pytest.raises(NotProved, match="one noise scale"):
        plan(adaptive=clip, sampling=CyclicSampling(8), correlation=TreeNoise())


@pytest.mark.parametrize(
    ("epochs", "population", "sampling", "steps"),
    [
        (1, 60_000, PoissonSampling(256 / 60_000), 235),  # int(1/rate) is 234
        (60, 60_000, PoissonSampling(256 / 60_000), 14_063),
        (1, 9, PoissonSampling(1 / 3), 3),
        (1, 10, PoissonSampling(1 / 10), 10),
        (3, 49, PoissonSampling(1 / 49), 147),  # 49 · (1/49) is not 1 in float64
        (2.5, 1000, FixedSizeSampling(300), 9),
        (2, 1000, ShuffledSampling(300), 8),
        (1, 1000, CyclicSampling(7), 7),
        (1, 1000, CyclicPoissonSampling(4, 0.5), 8),
        (0.001, 10, PoissonSampling(1.0), 1),
    ],
)
def test_no_step_is_lost(epochs, population, sampling, steps):
    assert steps_for(epochs, population, sampling) == steps


def test_a_ledger_of_an_interrupted_run():
    found = plan()
    assert len(found.ledger(0)) == 0
    assert found.ledger(7).event.parts == (dp_sgd(noise_multiplier=1.5, sampling_rate=0.05, steps=7),)
    twice = found.ledger(10, abandoned=((4, 9), (6, 6)))
    assert [entry.event.times for entry in twice] == [15]
    assert [entry.label for entry in twice] == ["private training, 10 steps, and 5 that a crash lost"]
    assert found.ledger(30) == found.ledger(found.steps)
    with pytest.raises(InvalidArgument, match="longer plan"):
        found.ledger(31)


def test_a_run_that_ended_early_says_for_whom_its_epsilon_holds():
    """A number of steps that was chosen in view of the weights was not fixed beforehand."""
    found = plan()
    for steps in (1, 7, 29):
        assert Caveat.STOPPED_EARLY in account(found.ledger(steps)).caveats
    assert Caveat.STOPPED_EARLY not in found.ledger(0).caveats | found.ledger(30).caveats


def test_an_extra_step_is_seen():
    """Mutation: a run of one step more or fewer than its event says."""
    epsilons = [account(plan().ledger(steps)).epsilon(delta=1e-6) for steps in (28, 29, 30)]
    assert all(later > earlier + 1e-6 for earlier, later in itertools.pairwise(epsilons))


def test_a_run_draws_as_many_lots_as_it_is_accounted_for():
    found = plan(steps=steps_for(1, 1000, PoissonSampling(0.05)))
    lots = found.sampling.make_sampler(found.population, SeededNoise(1))
    noise = found.correlation.stream(4, found.standard_deviation, SeededNoise(2))
    for _ in range(found.steps):
        lots.draw()
        noise.add_(torch.zeros(4))
    assert lots.lots_drawn == noise.step == found.event.times == 20


def test_calibrated_reaches_its_target_and_not_by_much():
    fields = {"population": 1000, "sampling": PoissonSampling(0.05), "clip_bound": 1.0, "epochs": 3}
    found = TrainingPlan.calibrated(epsilon=2.0, delta=1e-5, **fields)
    assert found.steps == 60
    assert 2.0 - 1e-3 < found.guarantee().epsilon(delta=1e-5) <= 2.0
    clip = QuantileClip(0.5, count_deviation=5.0)
    adaptive = TrainingPlan.calibrated(epsilon=2.0, delta=1e-5, adaptive=clip, **fields)
    assert adaptive.noise_multiplier == found.noise_multiplier
    assert adaptive.gradient_multiplier > found.gradient_multiplier
    tree = TrainingPlan.calibrated(
        epsilon=2.0, delta=1e-5, **(fields | {"sampling": CyclicSampling(20), "correlation": TreeNoise()})
    )
    assert tree.guarantee().epsilon(delta=1e-5) <= 2.0
    with pytest.raises(InvalidArgument, match="Exactly one"):
        TrainingPlan.calibrated(epsilon=2.0, delta=1e-5, steps=3, **fields)


def test_a_large_delta_is_said():
    with pytest.warns(UserWarning, match="1/\\(10 n\\)"):
        TrainingPlan.calibrated(
            epsilon=2.0,
            delta=1e-4,
            population=1000,
            sampling=PoissonSampling(0.05),
            clip_bound=1.0,
            steps=300,
        )
    assert Caveat.DELTA_TOO_LARGE in plan().caveats(delta=1e-4)
    assert Caveat.DELTA_TOO_LARGE not in plan().caveats(delta=9e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"population": 0},
        {"steps": 0},
        {"noise_multiplier": 0.0},
        {"clip_bound": float("nan")},
        {"clip_bound": -1.0},
        {"sampling": 0.05},
        {"correlation": None},
        {"adjacency": "add-remove"},
        {"micro_batch": 0},
        {"augmentations": 0},
        {"sampling": FixedSizeSampling(1001)},
        {"sampling": CyclicSampling(1001)},
    ],
)
def test_refusals(wrong):
    with pytest.raises(InvalidArgument):
        plan(**wrong)


# Correlated noise: which linear map it is, exactly, by drawing unit vectors instead of noise.


def basis(monkeypatch, size):
    """Replace the noise by e₁, e₂, …, so that the buffers show the coefficients of every draw."""
    drawn = itertools.count()

    def unit(buffer, standard_deviation, source):
        del source
        buffer[next(drawn)] += standard_deviation
        return buffer

    monkeypatch.setattr(correlated, "add_gaussian_", unit)
    return torch.zeros(size)


def increments(stream, size, steps):
    return np.array([stream.add_(torch.zeros(size)).numpy().copy() for _ in range(steps)], dtype=float)


@pytest.mark.parametrize("column", [(1.0,), (2.0,), (1.0, 0.5), (1.0, 0.5, 0.375, 0.3125)])
def test_banded_noise_is_the_inverse_of_its_matrix(monkeypatch, column):
    steps = 9
    basis(monkeypatch, steps)
    found = increments(BandedNoise(column).stream(steps, 1.0, SeededNoise(1)), steps, steps)
    matrix = sum(value * np.eye(steps, k=-place) for place, value in enumerate(column))
    assert np.allclose(matrix @ found, np.eye(steps), atol=1e-5)


def nodes(steps, *, efficient):
    """The leaves below every node, in the order in which the nodes are drawn."""
    found = []
    for step in range(1, steps + 1):
        height = (step & -step).bit_length() - 1
        for level in range(height + 1) if efficient else (height,):
            row = np.zeros(steps)
            row[step - 2**level : step] = 1
            found.append(row)
    return np.array(found)


@pytest.mark.parametrize("efficient", [False, True])
def test_tree_noise_is_post_processing_of_noisy_nodes(monkeypatch, efficient):
    steps = 21
    under = nodes(steps, efficient=efficient)
    basis(monkeypatch, len(under))
    noise = increments(TreeNoise(efficient).stream(len(under), 1.0, SeededNoise(1)), len(under), steps)
    sums = np.cumsum(noise, axis=0)
    # weights on noisy nodes give back the running sums of the leaves themselves: nothing else was looked at
    assert np.allclose(sums @ under, np.tril(np.ones((steps, steps))), atol=1e-5)
    variances = (sums**2).sum(axis=1)
    for step in range(1, steps + 1):
        heights = [height for height in range(6) if step >> height & 1]
        assert variances[step - 1] == pytest.approx(
            sum(1 / (2 - 2.0**-height) if efficient else 1.0 for height in heights), rel=1e-4
        )


def test_the_accounted_sensitivity_is_that_of_the_noise_that_runs():
    steps, separation, turns = 8, 3, 2
    patterns = [
        row for row in itertools.combinations(range(steps), turns) if row[1] - row[0] >= separation
    ] + [(step,) for step in range(steps)]
    column = (1.0, 0.5, 0.375)
    matrix = sum(value * np.eye(steps, k=-place) for place, value in enumerate(column))
    largest = max(np.linalg.norm(matrix[:, list(row)].sum(axis=1)) for row in patterns)
    assert banded_sensitivity(events.BandedNoise(1.0, column, steps, separation, turns)) == pytest.approx(
        largest
    )
    tree = nodes(steps, efficient=True)
    largest = max(np.linalg.norm(tree[:, list(row)].sum(axis=1)) for row in patterns)
    bounds = tree_sensitivity(events.TreeNoise(1.0, steps, separation, turns))
    assert bounds.lower <= largest * (1 + 1e-12)
    assert largest <= bounds.upper * (1 + 1e-12)


@pytest.mark.parametrize(
    "kind", [IndependentNoise(), TreeNoise(), TreeNoise(efficient=False), BandedNoise((1.0, 0.5, 0.25))]
)
def test_a_stream_resumes_where_it_was(kind):
    whole, first = SeededNoise(3), SeededNoise(3)
    straight = kind.stream(50, 2.0, whole)
    for _ in range(9):
        straight.add_(torch.zeros(50))
    begun = kind.stream(50, 2.0, first)
    for _ in range(6):
        begun.add_(torch.zeros(50))
    state = begun.state()
    resumed = kind.stream(50, 2.0, first)
    resumed.resume({"step": state["step"], "buffers": [item.clone() for item in state["buffers"]]})
    for _ in range(3):
        resumed.add_(torch.zeros(50))
    assert torch.equal(straight.add_(torch.zeros(50)), resumed.add_(torch.zeros(50)))


def test_streams_refuse_what_is_not_theirs():
    stream = BandedNoise((1.0, 0.5)).stream(4, 1.0, SeededNoise(1))
    with pytest.raises(InvalidArgument, match="4 numbers"):
        stream.add_(torch.zeros(5))
    with pytest.raises(Unreadable, match="same kind"):
        stream.resume({"step": 1, "buffers": [torch.zeros(4)]})
    with pytest.raises(InvalidArgument, match="coefficients"):
        BandedNoise((0.5, 1.0))


def test_square_root_coefficients_multiply_to_running_sums():
    column = np.array(square_root_coefficients(30))
    assert np.allclose(np.convolve(column, column)[:30], 1)
