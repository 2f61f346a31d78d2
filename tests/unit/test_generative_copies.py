"""Copies in samples: planted copies are found, held-out pictures are not, broken samplers are refused."""

import itertools

import numpy as np
import pytest

from privet.attacks.generative import CopySearch, find_cliques, measure_distances, pick_medoids
from privet.auditing import bound_recoveries, measure, measure_recoveries
from privet.errors import InvalidArgument
from privet.exhibits import Picture


def pictures(count, seed, size=6):
    """Smooth random pictures: few directions, so that they lie near each other."""
    generator = np.random.default_rng(seed)
    basis = np.random.default_rng(99).normal(size=(8, size * size))
    rows = generator.normal(size=(count, 8)) @ basis
    return 1 / (1 + np.exp(-0.5 * rows)).reshape(count, size, size)


def test_distances_are_root_mean_squares():
    one, two = pictures(5, 0), pictures(7, 1)
    truth = np.sqrt(((one[:, None] - two[None]) ** 2).mean(axis=(2, 3)))
    assert measure_distances(one, two) == pytest.approx(truth, abs=1e-7)
    assert measure_distances(one, two, tile=6) == pytest.approx(truth, abs=1e-7)


def test_tiles_see_what_a_background_hides():
    one, two = np.zeros((1, 8, 8)), np.zeros((1, 8, 8))
    two[0, :3, 5:] = 1.0  # also in the last tile of a row, which overlaps its neighbour
    assert measure_distances(one, two)[0, 0] == pytest.approx(3 / 8)
    assert measure_distances(one, two, tile=3)[0, 0] == pytest.approx(1.0)
    assert measure_distances(np.stack([one, one], axis=1), np.stack([two, two], axis=1), tile=3)[
        0, 0
    ] == pytest.approx(1)


def test_cliques_are_cliques_and_disjoint():
    gaps = measure_distances(pictures(60, 3), pictures(60, 3))
    within = float(np.quantile(gaps, 0.2))
    cliques = find_cliques(gaps, within=within)
    everyone = np.concatenate(cliques)
    assert len(set(everyone.tolist())) == len(everyone)
    for clique in cliques:
        assert all(gaps[a, b] <= within for a, b in itertools.combinations(clique, 2))
    assert [len(c) for c in cliques] == sorted((len(c) for c in cliques), reverse=True)
    # None who is left could form a clique of two.
    left = np.setdiff1d(np.arange(60), everyone)
    assert not any(gaps[a, b] <= within for a, b in itertools.combinations(left, 2))


def test_the_largest_clique_of_clusters_is_found():
    points = np.concatenate([np.full(9, 0.0), np.full(5, 3.0), [10.0, 20.0]]) + np.linspace(0, 0.1, 16)
    gaps = np.abs(points[:, None] - points)
    cliques = find_cliques(gaps, within=0.2, least=3)
    assert [len(clique) for clique in cliques] == [9, 5]
    assert pick_medoids(gaps, cliques).tolist() == [4, 11]


def generator_with_copies(seed=0, copied=20):
    """Samples of which some are nearly the first members."""
    targets = pictures(120, seed)
    members = np.arange(120) % 2 == 0
    samples = np.concatenate([pictures(300, seed + 1), *[targets[members][:copied]] * 3])
    samples = samples + 0.01 * np.random.default_rng(seed).normal(size=samples.shape)
    return samples, targets, members


def test_copies_are_found_and_held_out_pictures_are_not():
    samples, targets, members = generator_with_copies()
    found = CopySearch(ratio=0.3).run(
        samples, targets, members, public=pictures(200, 7), draw=Picture, shown=2
    )
    measured = measure_recoveries(found.recoveries)
    assert measured.success.value == pytest.approx(20 / 60, abs=0.04)
    assert measured.baseline.value <= 0.04
    assert measured.leak.lower > 0.1
    assert len(found.recoveries.exhibits) == 2
    # Cliques of three come from the copies, without a look at the targets.
    assert found.precision(10) > 0.9
    assert (np.diff(found.clique_sizes) <= 0).all()


def test_a_generator_that_saw_nothing_copies_nothing():
    """60 null runs: ε > 0 in more than 8 with probability below 1 % at a level of 5 %."""
    alarms = 0
    for seed in range(60):
        targets, coin = pictures(60, seed), np.random.default_rng(seed).integers(0, 2, 60).astype(bool)
        search = CopySearch(ratio=0.6, neighbours=10)
        found = search.run(pictures(100, seed + 500), targets, coin, public=pictures(60, seed + 900))
        alarms += bound_recoveries(found.recoveries, delta=0.0).epsilon > 0
    assert alarms <= 8


def test_broken_samplers_and_bad_input_get_one_sentence():
    samples, targets, members = generator_with_copies()
    public, search = pictures(200, 7), CopySearch()
    with pytest.raises(InvalidArgument, match=r"'samples' must look like real pictures.*sample longer"):
        search.run(np.random.default_rng(0).uniform(size=samples.shape), targets, members, public=public)
    with pytest.raises(InvalidArgument, match="'members' must say for each of 120 targets"):
        search.run(samples, targets, members[:3], public=public)
    with pytest.raises(InvalidArgument, match="'public' must hold more than 20 pictures, got 9"):
        search.run(samples, targets, members, public=public[:9])
    with pytest.raises(InvalidArgument, match="'pictures' must be finite numbers"):
        measure_distances(np.full((1, 2, 2), np.nan), public)
    with pytest.raises(InvalidArgument, match="'others' must be pictures of shape"):
        measure_distances(public, pictures(3, 0, size=5))
    with pytest.raises(InvalidArgument, match="'tile' must not exceed"):
        measure_distances(public, public, tile=7)
    with pytest.raises(InvalidArgument, match="'distances' must be samples × samples"):
        find_cliques(np.zeros((2, 3)), within=1.0)


@pytest.mark.slow
def test_a_small_diffusion_model_remembers_a_small_set():
    """Ten pictures learnt by heart come out again; their denoising loss is lower than that of others."""
    torch = pytest.importorskip("torch")
    from privet.attacks.generative import PictureDiffusion

    torch.set_num_threads(1)
    targets, members = pictures(20, 0), np.arange(20) < 10
    model = PictureDiffusion.learn(targets[members], steps=2000, width=256, batch=32, rate=3e-3)
    state = torch.random.get_rng_state()
    samples = model.sample(60, steps=20)
    assert torch.equal(state, torch.random.get_rng_state())
    assert samples.shape == (60, 6, 6)
    assert (samples == model.sample(60, steps=20)).all()
    found = CopySearch(ratio=0.5, neighbours=10, realistic=3.0).run(
        samples, targets, members, public=pictures(200, 5)
    )
    measured = measure_recoveries(found.recoveries)
    assert measured.success.value >= 0.6
    assert measured.baseline.value < 0.3
    assert measure(model.score_members(targets, members)).auc.value > 0.9
