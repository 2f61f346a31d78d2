"""The private linear models as scikit-learn takes them, and what they refuse."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as PlainLogistic
from sklearn.linear_model import Ridge as PlainRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved, OutOfReach
from privet.events import Gaussian, Opaque, Repeat
from privet.learning import (
    LeakWarning,
    LinearSVC,
    LogisticRegression,
    NoisySGD,
    ObjectivePerturbation,
    OutputPerturbation,
    Ridge,
)
from privet.learning.losses import HuberLoss, LogisticLoss, SmoothedHingeLoss
from privet.learning.risk import Risk, minimize
from privet.learning.scaling import UnitBall
from privet.learning.solver import Problem, gaussian_multiplier, gradient_tolerance
from privet.randomness import SeededNoise

SOLVERS = (ObjectivePerturbation(), OutputPerturbation(), NoisySGD(steps=20), NoisySGD(20, 0.5))
MODELS = (LogisticRegression, LinearSVC, Ridge)


@parametrize_with_checks(
    [
        model(delta=1e-5, solver=solver)
        for model in MODELS
        for solver in (None, OutputPerturbation(), NoisySGD(10))
    ],
    expected_failed_checks=lambda estimator: (
        {"check_supervised_y_no_nan": "an error would tell that a target is infinite"}
        if isinstance(estimator, Ridge)
        else {}
    ),
)
@pytest.mark.filterwarnings("ignore::privet.learning.LeakWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_takes_it(estimator, check):
    check(estimator)


def table(rows=3000, features=4, classes=2, seed=1):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, features))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    directions = generator.normal(size=(features, classes))
    return x, np.argmax(x @ directions, axis=1)


@pytest.mark.parametrize("adjacency", [ReplaceOne(), ZeroOut(), AddRemove()])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("classes", [2, 3])
def test_the_ledger_keeps_what_was_asked(solver, adjacency, classes):
    x, y = table(300, classes=classes)
    model = LogisticRegression(
        0.7, delta=1e-6, solver=solver, classes=range(classes), adjacency=adjacency, population=300
    ).fit(x, y)
    assert model.ledger_.adjacency == adjacency
    assert account(model.ledger_).epsilon(delta=1e-6) <= 0.7 * (1 + 1e-12)
    assert account(model.ledger_).epsilon(delta=1e-6) > 0.68
    unvetted = isinstance(solver, ObjectivePerturbation)
    assert model.ledger_.caveats == (frozenset({Caveat.UNVETTED}) if unvetted else frozenset())


def test_what_the_events_are():
    x, y = table(300)
    spent = [
        LogisticRegression(1.0, delta=1e-6, solver=s, classes=(0, 1)).fit(x, y).ledger_.entries[0].event
        for s in SOLVERS
    ]
    assert isinstance(spent[0].parts[0], Opaque)
    assert isinstance(spent[1], Gaussian)
    assert spent[2].times == spent[3].times == 20
    assert spent[3].inner.rate == 0.5
    three = LogisticRegression(1.0, delta=1e-6, solver=OutputPerturbation(), classes=(0, 1, 2)).fit(x, y)
    assert isinstance(three.ledger_.entries[0].event, Repeat)
    assert three.coef_.shape == (3, 4)


@pytest.mark.parametrize("model", [LogisticRegression, LinearSVC])
@pytest.mark.parametrize(
    "solver", [ObjectivePerturbation(), OutputPerturbation(), NoisySGD(100, step_size=4.0)]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_it_learns(model, solver, classes):
    x, y = table(classes=classes)
    fitted = model(
        20.0, delta=1e-6, solver=solver, classes=range(classes), random_state=3, alpha=1e-2, norm_bound=1.0
    ).fit(x, y)
    assert fitted.score(x, y) > 0.8
    assert Caveat.SEEDED_NOISE in fitted.ledger_.caveats


@pytest.mark.parametrize(
    "solver", [ObjectivePerturbation(), OutputPerturbation(), NoisySGD(200, step_size=1.0)]
)
def test_ridge_learns(solver):
    x, _ = table()
    y = 30 * x @ np.array([1.0, -0.5, 0.2, 0.0]) + 5
    fitted = Ridge(20.0, delta=1e-6, solver=solver, target_bound=60.0, random_state=1, alpha=1e-3).fit(x, y)
    assert fitted.score(x, y) > 0.8
    assert fitted.predict(x[:3]).shape == (3,)


def test_without_noise_it_is_scikit_learn():
    x, y = table(500)
    signs, z = 2.0 * y - 1, UnitBall(1.0, intercept=False).rows(x)
    plain = PlainLogistic(C=1 / (500 * 0.01), fit_intercept=False, tol=1e-10).fit(z, y)
    terms = Problem(
        loss=LogisticLoss(), dimension=4, population=500, regularization=0.01, adjacency=ReplaceOne()
    )
    output = OutputPerturbation(1e-8).prepare(terms, epsilon=1.0, delta=1e-6)
    np.testing.assert_allclose(output.approximate(z, signs), plain.coef_[0], atol=1e-6)
    objective = replace(
        ObjectivePerturbation(tolerance=1e-8).prepare(terms, epsilon=1.0, delta=1e-6), noise_multiplier=1e-6
    )
    assert objective.strength == terms.strength
    np.testing.assert_allclose(objective.run(z, signs, SeededNoise(1)), plain.coef_[0], atol=1e-4)


def test_where_no_residual_is_clipped_it_is_ridge():
    x, _ = table(500)
    z, y = UnitBall(1.0, intercept=False).rows(x), x @ np.array([0.5, -0.2, 0.1, 0.0])
    terms = Problem(
        loss=HuberLoss(1.0), dimension=4, population=500, regularization=0.01, adjacency=ReplaceOne()
    )
    prepared = OutputPerturbation(1e-8).prepare(terms, epsilon=1.0, delta=1e-6)
    plain = PlainRidge(alpha=500 * 0.01, fit_intercept=False, tol=1e-12).fit(z, y)
    np.testing.assert_allclose(prepared.approximate(z, y), plain.coef_, atol=1e-7)


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("times", [1, 1000])
def test_noise_for_every_epsilon(epsilon, times):
    found = gaussian_multiplier(epsilon, 1e-6, times, ReplaceOne())
    claim = account(Repeat(Gaussian(found), times), adjacency=ReplaceOne())
    assert 0.999 * epsilon < claim.epsilon(delta=1e-6) <= epsilon * (1 + 1e-9)


def test_many_features_take_the_other_way_to_the_minimum():
    generator = np.random.default_rng(0)
    z = UnitBall(1.0, intercept=True).rows(generator.normal(size=(200, 600)))
    risk = Risk(LogisticLoss(), z, np.sign(generator.normal(size=200)), 0.1)
    weights = minimize(risk, 1e-6)
    assert np.linalg.norm(risk.gradient(weights)) <= 1e-6


def test_a_minimum_beyond_float64_releases_nothing():
    risk = Risk(LogisticLoss(), np.ones((3, 1)), np.ones(3), 1.0)
    with pytest.raises(OutOfReach, match="nothing was released"):
        minimize(risk, 1e-18)


def test_rows_end_in_the_unit_ball():
    hard = np.array([[np.nan, 1.0], [np.inf, 1.0], [1e308, -1e308], [0.0, 0.0], [3.0, 4.0], [1e-320, 0.0]])
    for intercept in (True, False):
        rows = UnitBall(5.0, intercept).rows(hard)
        assert np.isfinite(rows).all()
        assert (np.linalg.norm(rows, axis=1) <= 1).all()
    np.testing.assert_allclose(UnitBall(5.0, intercept=False).rows(hard)[4], [0.6, 0.8], rtol=1e-8)
    coefficients, constant = UnitBall(5.0, intercept=True).unscale(np.array([1.0, 2.0, 3.0]))
    row = UnitBall(5.0, intercept=True).rows(np.array([[1.0, -2.0]]))[0]
    assert row @ [1.0, 2.0, 3.0] == pytest.approx(coefficients @ [1.0, -2.0] + constant)


def test_missing_values_do_not_tell():
    x, y = table(100)
    x[0, 0], x[1, 1] = np.nan, np.inf
    model = LogisticRegression(1.0, delta=1e-6, classes=(0, 1)).fit(x, y)
    assert np.isfinite(model.coef_).all()
    assert np.isin(model.predict(x), (0, 1)).all()


def test_labels_that_were_not_declared_count_for_nothing():
    x, y = table(400, classes=3)
    known = y < 2
    both = [
        LogisticRegression(1.0, delta=1e-6, classes=(0, 1), noise=SeededNoise(1), population=400).fit(
            rows, labels
        )
        for rows, labels in ((x, y), (x[known], y[known]))
    ]
    np.testing.assert_array_equal(both[0].coef_, both[1].coef_)


def test_seen_classes_are_told():
    x, y = table(50)
    with pytest.warns(LeakWarning, match="Declare them"):
        LogisticRegression(delta=1e-6).fit(x, y)


def test_delta_is_asked_for_and_large_ones_are_told():
    x, y = table(100)
    with pytest.raises(TypeError, match="delta"):
        LogisticRegression(1.0)
    told = LogisticRegression(1.0, delta=1e-3, classes=(0, 1)).fit(x, y)
    assert Caveat.DELTA_TOO_LARGE in told.ledger_.caveats


REFUSED = [
    ({"solver": OutputPerturbation(), "alpha": 0.0}, InvalidArgument, "any distance"),
    ({"alpha": -1.0}, InvalidArgument, "regularization"),
    ({"solver": "sgd"}, InvalidArgument, "Use OutputPerturbation"),
    ({"epsilon": 0.0}, InvalidArgument, "epsilon"),
    ({"delta": 0}, NotProved, "Choose a δ"),
    ({"delta": 1.0}, InvalidArgument, "delta"),
    ({"norm_bound": 0.0}, InvalidArgument, "norm_bound"),
    ({"classes": (1,)}, InvalidArgument, "Declare two"),
    ({"classes": (1, 1, 0)}, InvalidArgument, "List each class once"),
    ({"adjacency": AddRemove()}, NotProved, "public guess"),
    ({"adjacency": "replace"}, InvalidArgument, "Use ReplaceOne"),
    ({"noise": 3}, InvalidArgument, "secure noise"),
    ({"noise": SeededNoise(1), "random_state": 1}, InvalidArgument, "one of the two"),
    ({"solver": NoisySGD(10, 0.001)}, InvalidArgument, "bring more rows"),
    ({"population": 10}, InvalidArgument, "nearer to the size"),
    ({"population": 1.5}, InvalidArgument, "population"),
    ({"population": 0}, InvalidArgument, "population"),
]


@pytest.mark.parametrize(("changes", "kind", "message"), REFUSED)
def test_refusals_spend_nothing(changes, kind, message):
    x, y = table(50)
    model = LogisticRegression(**({"delta": 1e-6, "classes": (0, 1)} | changes))
    with pytest.raises(kind, match=message):
        model.fit(x, y)
    assert "ledger_" not in vars(model)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OutputPerturbation(0.0), "tolerance"),
        (lambda: ObjectivePerturbation(curvature_share=1.0), "curvature_share"),
        (lambda: NoisySGD(0), "steps"),
        (lambda: NoisySGD(sampling_rate=1.5), "sampling_rate"),
        (lambda: NoisySGD(radius=-1.0), "radius"),
        (lambda: NoisySGD(step_size=0.0), "step_size"),
        (lambda: NoisySGD(averaged_share=0.0), "averaged_share"),
        (lambda: Ridge(delta=1e-6, target_bound=0.0).fit([[1.0]], [1.0]), "target_bound"),
        (lambda: Ridge(delta=1e-6, residual_bound=0.0).fit([[1.0]], [1.0]), "residual_bound"),
        (lambda: LinearSVC(delta=1e-6, smoothing=0.0, classes=(0, 1)).fit([[1.0]], [1]), "width"),
    ],
)
def test_public_arguments_are_checked(make, message):
    with pytest.raises(InvalidArgument, match=message):
        make()


def test_too_little_regularization_for_objective_perturbation_is_raised():
    terms = Problem(
        loss=LogisticLoss(), dimension=3, population=100, regularization=0.0, adjacency=ReplaceOne()
    )
    prepared = ObjectivePerturbation(curvature_share=0.5).prepare(terms, epsilon=1.0, delta=1e-6)
    assert np.log1p(0.25 / prepared.strength) == pytest.approx(0.5 * prepared.minimization.epsilon)


def test_noise_is_fresh_unless_seeded():
    x, y = table(100)
    model = LogisticRegression(1.0, delta=1e-6, classes=(0, 1))
    assert (clone(model).fit(x, y).coef_ != clone(model).fit(x, y).coef_).all()
    model.set_params(random_state=5)
    np.testing.assert_array_equal(clone(model).fit(x, y).coef_, clone(model).fit(x, y).coef_)


@pytest.mark.parametrize("seed", range(12))
def test_the_minimum_is_found_where_it_is_hard(seed):
    """Sharp corners, columns of very different lengths, hardly any regularisation; a tilt as long as its noise."""
    generator = np.random.default_rng(seed)
    loss = (LogisticLoss(), SmoothedHingeLoss(1e-2), SmoothedHingeLoss(1e-4), HuberLoss(1e-3))[seed % 4]
    table = generator.normal(size=(300, 8)) * 10.0 ** generator.uniform(-4, 2, size=8)
    rows = UnitBall(1.0, intercept=True).rows(table)
    signs = np.where(rows @ generator.normal(size=9) > 0, 1.0, -1.0)
    tilt = None if seed % 2 else 8 * loss.lipschitz * generator.normal(size=9)
    strength = 1e-3 if tilt is None else loss.smoothness
    terms = Problem(loss=loss, dimension=9, population=300, regularization=1e-3, adjacency=ReplaceOne())
    bound = gradient_tolerance(terms, 1e-7)
    risk = Risk(loss, rows, signs, strength, tilt)
    assert np.linalg.norm(risk.gradient(minimize(risk, bound))) <= bound


_ADULT = Path(__file__).parents[3] / "shared" / "data" / "adult.csv.gz"


@pytest.mark.slow
@pytest.mark.skipif(not _ADULT.exists(), reason="needs ../shared/data/adult.csv.gz")
def test_adult_within_half_a_point():
    """At ε = 1 and δ = 1e-5, as bench/utility/adult.py measures it."""
    spec = importlib.util.spec_from_file_location(
        "privet_bench_adult", Path(__file__).parents[2] / "bench" / "utility" / "adult.py"
    )
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    table = bench.pd.read_csv(_ADULT)
    x, y = bench.features(table), table["income"].str.startswith(">").to_numpy().astype(int)
    first = (table["split"] == "train").to_numpy()
    plain = (
        PlainLogistic(fit_intercept=False, max_iter=2000).fit(x[first], y[first]).score(x[~first], y[~first])
    )
    for name in ("objective perturbation", "noisy SGD"):
        solver, alpha = bench.SOLVERS[name](1.0)
        model = LogisticRegression(
            1.0,
            delta=1e-5,
            solver=solver,
            alpha=alpha,
            norm_bound=bench.NORM,
            fit_intercept=False,
            classes=(0, 1),
        )
        scores = [model.fit(x[first], y[first]).score(x[~first], y[~first]) for _ in range(3)]
        assert np.mean(scores) > plain - 0.005
