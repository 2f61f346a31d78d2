"""Junction trees, models and fits: post-processing, which must add up."""

import io
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privet.randomness import experiment
from privet.releasing.synthetic import MirrorDescent, PrivatePGM
from privet.releasing.synthetic.descent import build_tree_model
from privet.releasing.synthetic.estimation import Measurement, estimate_total, merge_measurements
from privet.releasing.synthetic.junction import build_junction_tree, tree_cells
from privet.releasing.synthetic.models import DenseModel, sample_systematically
from privet.releasing.synthetic.runs import SyntheticProgress

SHAPE = (2, 3, 4, 2, 3)
PAIRS = list(combinations(range(5), 2))
TRIPLES = list(combinations(range(5), 3))
GRAPHS = st.sets(st.sampled_from(PAIRS + TRIPLES), max_size=5)


@given(GRAPHS)
def test_a_junction_tree_holds_all_and_its_cliques_of_a_column_hang_together(marginals):
    tree = build_junction_tree(SHAPE, marginals)
    assert set().union(*tree.cliques) == set(range(5))
    assert all(tree.find_clique(axes) is not None for axes in marginals)
    for column in range(5):
        holders = [k for k, clique in enumerate(tree.cliques) if column in clique]
        tops = [k for k in holders if k == 0 or column not in tree.separators[k]]
        assert len(tops) == 1  # one is the highest, all others hang on a holder by the column
    assert tree_cells(SHAPE, marginals) == sum(int(np.prod([SHAPE[a] for a in c])) for c in tree.cliques)


def joint(marginals, seed):
    """The same distribution as a tree and cell by cell."""
    generator = experiment(seed)
    potentials = {axes: generator.normal(size=[SHAPE[a] for a in axes]) for axes in marginals}
    whole = np.zeros(SHAPE)
    for axes, table in potentials.items():
        whole = whole + table.reshape([n if a in axes else 1 for a, n in enumerate(SHAPE)])
    return build_tree_model(SHAPE, build_junction_tree(SHAPE, marginals), potentials, 100.0), DenseModel(
        np.exp(whole), 100.0
    )


@given(GRAPHS, st.integers(0, 10**6))
def test_a_tree_answers_every_marginal_as_the_whole_table_does(marginals, seed):
    tree, dense = joint(marginals, seed)
    for axes in [(0,), *PAIRS, *TRIPLES, (3, 1), (4, 0, 2), tuple(range(5))]:
        np.testing.assert_allclose(tree.answer(axes), dense.answer(axes), rtol=1e-9, atol=1e-12)


@given(GRAPHS, st.integers(0, 10**6))
def test_marginals_are_consistent_and_not_negative(marginals, seed):
    tree, _ = joint(marginals, seed)
    for axes in TRIPLES:
        found = tree.answer(axes)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=2), tree.answer(axes[:2]), atol=1e-9)
        assert found.sum() == pytest.approx(100.0)


@given(GRAPHS, st.integers(0, 10**6))
def test_samples_follow_the_model(marginals, seed):
    """Each clique's counts come from a systematic sample, so its cells stray by far less than independent rows."""
    tree, dense = joint(marginals, seed)
    rows = 4000
    for model in (tree, dense):
        codes = model.sample(rows, experiment(seed))
        assert codes.shape == (rows, 5)
        for clique in tree.junction_tree.cliques:
            sizes = [SHAPE[a] for a in clique]
            flat = np.ravel_multi_index(tuple(codes[:, a] for a in clique), sizes)
            counts = np.bincount(flat, minlength=int(np.prod(sizes)))
            expected = rows / 100 * tree.answer(clique).ravel()
            assert np.abs(counts - expected).sum() / 2 / rows < 0.03
    assert tree.sample(0, experiment(1)).shape == (0, 5)
    assert tree.sample(1, experiment(1)).shape == (1, 5)


def test_spread_gives_each_row_its_law():
    """10⁵ rows alone in their groups; false alarm below 10⁻⁹ at six standard deviations, finds 1 % of difference."""
    drawn = np.concatenate(
        [
            sample_systematically(np.arange(100), np.tile([0.2, 0.3, 0.5], (100, 1)), experiment(s))
            for s in range(1000)
        ]
    )
    shares = np.bincount(drawn, minlength=3) / drawn.size
    assert np.abs(shares - [0.2, 0.3, 0.5]).max() < 6 * 0.5 / drawn.size**0.5


def measured(marginals, seed, noise):
    generator = experiment(seed)
    tree, _ = joint(marginals, seed)
    return tree, [
        Measurement(axes, tree.answer(axes) + generator.normal(0, noise, [SHAPE[a] for a in axes]), noise**2)
        for axes in [*((a,) for a in range(5)), *marginals]
    ]


@given(GRAPHS, st.integers(0, 10**6))
def test_a_fit_finds_the_distribution_again(marginals, seed):
    tree, measurements = measured(marginals, seed, 1e-2)
    fitted = MirrorDescent(1000, 0.0).fit(SHAPE, measurements)
    for axes in [*((a,) for a in range(5)), *marginals]:
        assert np.abs(fitted.model.answer(axes) - tree.answer(axes)).sum() < 0.5  # of 100


def test_a_fit_goes_on_where_the_last_one_ended():
    _, measurements = measured([(0, 1), (1, 2)], 3, 1.0)
    whole = MirrorDescent(500, 0.0).fit(SHAPE, measurements)
    first = MirrorDescent(500, 0.0).fit(SHAPE, measurements[:-1])
    on = MirrorDescent(200, 0.0).fit(SHAPE, measurements, first)
    np.testing.assert_allclose(on.model.answer((1, 2)), whole.model.answer((1, 2)), atol=0.05)


def test_a_fit_to_nothing_is_uniform():
    fitted = MirrorDescent().fit(SHAPE, [])
    np.testing.assert_allclose(fitted.model.answer((0, 2)), 1 / 8)


def test_a_fit_to_nonsense_is_still_a_distribution():
    measurements = [Measurement((a,), np.full(n, -50.0), 4.0) for a, n in enumerate(SHAPE)]
    model = MirrorDescent().fit(SHAPE, measurements).model
    assert model.total == 1.0
    assert np.isfinite(model.answer((0, 1, 2))).all()


def test_repeated_measurements_are_averaged_by_precision():
    one, other = Measurement((0,), np.array([1.0, 2.0]), 1.0), Measurement((0,), np.array([4.0, 8.0]), 2.0)
    (found,) = merge_measurements([one, other])
    np.testing.assert_allclose(found.values, [2.0, 4.0])
    assert found.variance == pytest.approx(2 / 3)
    assert estimate_total([one, other]) == pytest.approx(6.0)


@pytest.mark.filterwarnings("ignore")
def test_private_pgm_agrees():
    """The reference and our own estimator minimise the same loss; both after enough steps to be there."""
    pytest.importorskip("mbi", reason="mbi is not installed")
    _, measurements = measured([(0, 1), (1, 2), (0, 3, 4)], 5, 0.5)
    own = MirrorDescent(3000, 0.0).fit(SHAPE, measurements).model
    theirs = PrivatePGM(3000).fit(SHAPE, measurements).model
    for axes in TRIPLES:
        assert np.abs(own.answer(axes) - theirs.answer(axes)).sum() / 200 < 2e-3


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_on_a_terminal_and_only_there():
    for stream in (Terminal(), io.StringIO()):
        with SyntheticProgress("work", stream) as progress:
            progress.show(0.1)
            assert stream.getvalue() == ""  # too early
            progress._began -= 10
            progress.show(0.5)
        assert (" 50%" in stream.getvalue()) == stream.isatty()
