"""Naive Bayes from noisy counts: a scikit-learn estimator that takes nothing from the data unsaid."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import privet
from privet.accounting import Pure
from privet.adjacency import AddRemove, Adjacency, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument
from privet.learning import CategoricalNB, GaussianNB, LeakWarning, categorical, gaussian
from privet.randomness import SecureNoise, SeededNoise, experiment

ADJACENCIES = st.sampled_from([AddRemove(), ReplaceOne(), ZeroOut()])
BOTH = pytest.mark.parametrize("kind", [CategoricalNB, GaussianNB])


@parametrize_with_checks(
    [
        CategoricalNB(),
        CategoricalNB(epsilon=0.1, categories=5),
        GaussianNB(),
        GaussianNB(epsilon=10.0, bounds=(-10.0, 10.0)),
    ]
)
@pytest.mark.filterwarnings("ignore::privet.learning.LeakWarning")
def test_scikit_learn_takes_it_as_its_own(estimator, check):
    check(estimator)


def blobs(rows=2000, seed=0):
    generator = experiment(seed)
    y = generator.integers(0, 2, rows)
    return np.clip(generator.normal(0.3 + 0.4 * y[:, None], 0.15, (rows, 3)), 0, 1), y


@given(st.floats(0.01, 50.0), st.integers(1, 6), ADJACENCIES, st.integers(2, 4))
def test_the_ledger_holds_epsilon_and_no_more(epsilon, features, adjacency, classes):
    x, y = np.zeros((5, features)), np.arange(5) % classes
    for kind in (CategoricalNB, GaussianNB):
        model = kind(epsilon, classes=tuple(range(classes)), adjacency=adjacency).fit(x, y)
        spent = privet.account(model.ledger_, accountant=Pure()).epsilon(delta=0.0)
        assert epsilon * (1 - 1e-9) < spent <= epsilon
        assert model.ledger_.adjacency == adjacency


@pytest.fixture
def silent(monkeypatch):
    """No noise, so that the sums themselves can be looked at."""
    for module in (categorical, gaussian):
        monkeypatch.setattr(module, "discrete_laplace", lambda scale, size, source: np.zeros(size, dtype=int))


ROWS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([-1e300, -3.0, -1.0, -0.2, 0.0, 0.5, 1.0, 1.5, 1e300, float("inf"), float("nan")]),
        st.sampled_from([-1.0, 0.0, 1.0, 0.9999, 7.0]),
    ),
    min_size=2,
    max_size=6,
)


@given(ROWS, ADJACENCIES, st.data())
def test_one_row_moves_the_sums_by_no_more_than_the_events_say(rows, adjacency, data):
    """Neighbours, without noise. What moves is divided by the scale and added up: it is at most ε."""
    near = rows[1:]
    if isinstance(adjacency, ReplaceOne):
        near = [data.draw(ROWS)[0], *near]
    with pytest.MonkeyPatch.context() as patch:
        seen = []

        def recorded(scale, size, source):
            seen.append((scale, size))
            return np.zeros(size, dtype=int)

        for module in (categorical, gaussian):
            patch.setattr(module, "discrete_laplace", recorded)
        found = []
        for table in (rows, near):
            x, y = np.array([row[1:] for row in table]), np.array([row[0] for row in table])
            counts = CategoricalNB(1.0, classes=(0, 1, 2), adjacency=adjacency).fit(x, y)
            sums = recorded_sums(GaussianNB(1.0, classes=(0, 1, 2), adjacency=adjacency), x, y, patch)
            found.append(([np.asarray(t) for t in counts.counts_], sums))
        scale = seen[0][0]
        moved = sum(np.abs(a - b).sum() / scale for a, b in zip(found[0][0], found[1][0], strict=True))
        assert moved <= 1
        unit = seen[2][0]
        sizes, first, second = (np.abs(a - b).sum() for a, b in zip(found[0][1], found[1][1], strict=True))
        assert sizes / unit + first / unit + second / (unit / 2) <= 1


def recorded_sums(model, x, y, patch):
    kept = []

    def settle(self, sizes, moments, unit, middle, half):
        kept.extend([sizes, *moments])
        self.theta_ = self.var_ = self.class_log_prior_ = None

    patch.setattr(GaussianNB, "_set_parameters", settle)
    model.fit(x, y)
    return kept


@BOTH
def test_it_learns(kind):
    x, y = blobs()
    declared = {"bounds": (0.0, 1.0)} if kind is GaussianNB else {"categories": 5}
    codes = x if kind is GaussianNB else np.minimum(5 * x, 4).astype(int)
    model = kind(2.0, classes=(0, 1), **declared).fit(codes, y)
    assert model.score(codes, y) > 0.85
    np.testing.assert_allclose(model.predict_proba(codes).sum(axis=1), 1)


@pytest.mark.usefixtures("silent")
def test_without_noise_the_moments_are_those_of_the_data():
    x, y = blobs(20_000)
    model = GaussianNB(1e6, classes=(0, 1), bounds=(0.0, 1.0), alpha=1e-9).fit(x, y)
    for k in range(2):
        np.testing.assert_allclose(model.theta_[k], x[y == k].mean(axis=0), atol=1e-4)
        np.testing.assert_allclose(model.var_[k], x[y == k].var(axis=0), atol=1e-3)


def test_half_the_noise_is_caught(monkeypatch):
    """Empty cells show the noise alone. 20,000 of them: 5 % is at least five standard deviations of the estimate."""

    def deviation():
        model = CategoricalNB(1.0, classes=(0, 1), categories=10_000, noise=SeededNoise(5)).fit([[-1]], [0])
        return np.abs(model.counts_[0][:, :-1]).mean()

    mean = 1 / np.sinh(1.0)  # E|X| of the discrete Laplace with scale 1
    assert deviation() == pytest.approx(mean, rel=0.05)
    honest = categorical.discrete_laplace
    monkeypatch.setattr(categorical, "discrete_laplace", lambda scale, *rest: honest(scale / 2, *rest))
    assert deviation() != pytest.approx(mean, rel=0.05)


def test_gaussian_sums_have_the_noise_of_the_ledger():
    """χ² over 4,000 sums without data; false alarm 10⁻⁶ on either side, finds 12 % of deviation."""
    model = GaussianNB(1.0, classes=tuple(range(4000)), noise=SeededNoise(1)).fit([[0.0]], [-1])
    scale = model.ledger_.event.parts[0].parts[0].scale
    statistic = 4000 * np.var(model.class_count_) / (2 * scale**2)
    # The fourth moment of Laplace is twice the normal's, so the statistic spreads √(5/2) as far.
    low, high = stats.norm(4000, np.sqrt(4000 * 5)).interval(1 - 2e-6)
    assert low < statistic < high


@BOTH
def test_seen_classes_are_said_to_leak(kind):
    with pytest.warns(LeakWarning, match="Declare"):
        model = kind().fit([[0], [1]], ["b", "a"])
    assert model.classes_.tolist() == ["a", "b"]


@BOTH
def test_declared_classes_need_not_occur_and_others_are_left_out(kind):
    one = kind(classes=("b", "a", "c"), random_state=3).fit([[0], [1]], ["a", "b"])
    other = kind(classes=("b", "a", "c"), random_state=3).fit([[0], [1], [1]], ["a", "b", "nobody"])
    assert one.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(one.predict_proba([[0], [1]]), other.predict_proba([[0], [1]]))
    assert one.ledger_ == other.ledger_


@BOTH
def test_noise_is_secure_unless_said_otherwise(kind):
    x, y = blobs(50)
    secure = [kind(classes=(0, 1)).fit(x, y) for _ in range(2)]
    assert (secure[0].predict_proba(x) != secure[1].predict_proba(x)).any()
    assert secure[0].ledger_.caveats == frozenset()
    assert kind(classes=(0, 1), noise=SecureNoise()).fit(x, y).ledger_.caveats == frozenset()
    for seeded in (kind(classes=(0, 1), random_state=1), kind(classes=(0, 1), noise=SeededNoise(1))):
        assert seeded.fit(x, y).ledger_.caveats == {Caveat.SEEDED_NOISE}


@BOTH
def test_odd_values_make_no_error(kind):
    x = np.array([[None], ["a"], [float("nan")], [[1]], [10**400], [True], ["0.5"]], dtype=object)
    model = kind(classes=(0, 1)).fit(x, [0, 1, 0, 1, 0, 1, 0])
    assert np.isfinite(model.predict_log_proba(x)).all()


@BOTH
@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 0.0},
        {"epsilon": "1"},
        {"epsilon": float("nan")},
        {"classes": ()},
        {"classes": (1, 1)},
        {"alpha": 0.0},
        {"adjacency": "add-remove"},
        {"noise": 7},
        {"noise": SeededNoise(1), "random_state": 1},
        {"random_state": -1},
    ],
)
def test_refusals_spend_nothing(kind, changes):
    model = kind(**({"classes": (0, 1)} | changes))
    with pytest.raises(InvalidArgument):
        model.fit([[0], [1]], [0, 1])
    assert "ledger_" not in vars(model)


@pytest.mark.parametrize(
    "model",
    [
        CategoricalNB(classes=(0, 1), categories=0),
        CategoricalNB(classes=(0, 1), categories=(2, 2)),
        CategoricalNB(classes=(0, 1), categories=("ab",)),
        CategoricalNB(classes=(0, 1), categories=(("a", "a"),)),
        CategoricalNB(classes=(0, 1), categories=(2.5,)),
        GaussianNB(classes=(0, 1), bounds=(1.0, 0.0)),
        GaussianNB(classes=(0, 1), bounds=(0.0, float("inf"))),
        GaussianNB(classes=(0, 1), bounds=(0.0,)),
        GaussianNB(classes=(0, 1), bounds=((0.0, 0.0), (1.0, 1.0))),
        GaussianNB(classes=(0, 1), bounds=None),
    ],
    ids=repr,
)
def test_declarations_that_do_not_fit_are_refused(model):
    with pytest.raises(InvalidArgument):
        model.fit([[0], [1]], [0, 1])
    assert "ledger_" not in vars(model)


def test_weights_of_samples_are_not_taken():
    with pytest.raises(TypeError):
        GaussianNB(classes=(0, 1)).fit([[0], [1]], [0, 1], sample_weight=[1, 2])


def test_texts_and_numbers_as_categories():
    x = [["red", 1], ["blue", 3], ["green", 1], ["red", 2]] * 100
    y = [0, 1, 1, 0] * 100
    model = CategoricalNB(10.0, classes=(0, 1), categories=(("red", "blue"), 4)).fit(
        np.array(x, dtype=object), y
    )
    assert model.predict(np.array([["red", 1], ["blue", 3]], dtype=object)).tolist() == [0, 1]
    assert [table.shape for table in model.counts_] == [(2, 3), (2, 5)]


def test_it_goes_into_a_pipeline_a_cross_validation_and_a_pickle():
    x, y = blobs(500)
    model = make_pipeline(FunctionTransformer(), GaussianNB(5.0, classes=(0, 1), bounds=(0.0, 1.0)))
    assert cross_val_score(model, x, y, cv=3).mean() > 0.8
    fitted = GaussianNB(classes=(0, 1)).fit(x, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert again.ledger_ == fitted.ledger_
    np.testing.assert_array_equal(again.predict(x), fitted.predict(x))


def test_the_adjacency_is_an_object_or_its_class_and_never_none():
    rows, labels = [[0], [1]] * 20, [0, 1] * 20
    for choice in (ReplaceOne, ReplaceOne()):
        model = CategoricalNB(classes=(0, 1), categories=2, adjacency=choice).fit(rows, labels)
        assert model.ledger_.adjacency == ReplaceOne()
    for choice in (None, "replace-one", Adjacency, int):
        with pytest.raises(InvalidArgument, match="'adjacency' must be an adjacency.*Use AddRemove"):
            CategoricalNB(classes=(0, 1), adjacency=choice).fit(rows, labels)
