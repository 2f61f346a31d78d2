"""Attribute inversion: what is shown to an attack, what each attack does on models that are known, and refusals."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import privet
from privet.attacks import Predictions, Probabilities, see
from privet.attacks.inversion import (
    AttributeGame,
    ConfidenceInversion,
    Imputation,
    ImputedGradientInversion,
    ImputedInversion,
    LabelOnlyInversion,
    LossThresholdInversion,
    MarginalInversion,
    PredictedNumbers,
    PublicPeople,
    SecretAttribute,
)
from privet.attacks.inversion.attributes.attack import break_ties
from privet.auditing import measure_values
from privet.errors import InvalidArgument

CLASSIFIER_ATTACKS = (
    Imputation(),
    MarginalInversion(),
    LossThresholdInversion(0.1),
    ConfidenceInversion(),
    LabelOnlyInversion(),
    ImputedInversion(),
)


def _people(count, generator, *, values=2):
    """Columns of noise, a secret that one of them tells a little about, and a label that is a coin."""
    rest = generator.normal(size=(count, 4))
    secret = np.clip(
        (rest[:, 0] + generator.normal(size=count) * 1.5 > 0) + generator.integers(0, values - 1, count),
        0,
        values - 1,
    )
    return np.column_stack([rest, secret]), generator.integers(0, 2, count)


def _game(generator, *, count=300, values=2, public=400):
    people, labels = _people(public, generator, values=values)
    secret = SecretAttribute.read(people, 4, name="genotype")
    inputs, coins = _people(2 * count, generator, values=values)
    members = np.repeat([True, False], count)
    return AttributeGame(inputs, coins, members, PublicPeople(people, labels, secret))


def _tree(game):
    return DecisionTreeClassifier(random_state=0).fit(game.inputs[game.members], game.labels[game.members])


def _auc_of(recovery, side):
    figures = measure_values(recovery.scores, recovery.truths, side, recovery.names, chosen=recovery.chosen)
    return figures[1]


def test_a_model_that_memorised_tells_the_secret_of_members_and_of_nobody_else():
    game = _game(np.random.default_rng(0))
    game = AttributeGame(  # labels of ten classes, so that a neighbour seldom has the same
        game.inputs, np.random.default_rng(1).integers(0, 10, len(game.inputs)), game.members, game.public
    )
    scale = np.array([1, 1, 1, 1, 10.0])
    nearest = KNeighborsClassifier(1).fit(game.inputs[game.members] * scale, game.labels[game.members])
    view = Probabilities(lambda rows: nearest.predict_proba(rows * scale))
    recovery, blind = (attack.run(view, game) for attack in (ImputedInversion(), Imputation()))
    inside, outside = recovery.recoveries.hits[game.members], recovery.recoveries.hits[~game.members]
    assert inside.mean() > blind.recoveries.hits[game.members].mean() + 0.1
    assert inside.mean() > outside.mean() + 0.15


def test_a_model_that_ignores_the_secret_adds_nothing_to_the_imputation():
    game = _game(np.random.default_rng(1))
    view = Probabilities(lambda rows: np.full((len(rows), 2), 0.5))
    recovery, blind = (attack.run(view, game) for attack in (ImputedInversion(), Imputation()))
    np.testing.assert_array_equal(recovery.chosen, blind.chosen)


@pytest.mark.parametrize("attack", CLASSIFIER_ATTACKS, ids=lambda attack: attack.name)
def test_no_attack_sees_the_secret(attack):
    """The answers are the same whatever the targets' true values are; a mutation that shows them is caught."""
    game = _game(np.random.default_rng(2))
    view = see(_tree(game))
    swapped = game.inputs.copy()
    swapped[:, 4] = 1 - swapped[:, 4]
    other = AttributeGame(swapped, game.labels, game.members, game.public)
    first, second = (attack.run(view, each) for each in (game, other))
    np.testing.assert_array_equal(first.chosen, second.chosen)
    assert not np.array_equal(first.recoveries.hits, second.recoveries.hits)


@pytest.mark.parametrize(
    "attack",
    [attack for attack in CLASSIFIER_ATTACKS if attack.name != "label-only inversion (LOMIA)"],
    ids=lambda attack: attack.name,
)
def test_targets_are_judged_one_by_one(attack):
    game = _game(np.random.default_rng(3))
    view, order = see(_tree(game)), np.random.default_rng(4).permutation(len(game.inputs))
    shuffled = AttributeGame(game.inputs[order], game.labels[order], game.members[order], game.public)
    np.testing.assert_array_equal(attack.run(view, game).chosen[order], attack.run(view, shuffled).chosen)


def test_the_three_cases_of_confidence_inversion():
    """Mehnaz et al. 2022, section 4.2, on a model that is written down."""
    table = {  # (record, value): P[class 1]
        (0.0, 0): 0.9, (0.0, 1): 0.2,  # right with value 0 only
        (1.0, 0): 0.6, (1.0, 1): 0.7,  # right with both: the more confident
        (2.0, 0): 0.1, (2.0, 1): 0.4,  # right with none: the less confident in the wrong class
    }  # fmt: skip
    view = Probabilities(lambda rows: np.array([table[row, int(value)] for row, value in rows.tolist()]))
    inputs = np.array([[0.0, 1], [1.0, 0], [2.0, 0], [0.0, 0]])
    labels = np.array([1, 1, 1, 0])
    public = np.column_stack([np.zeros(40), np.arange(40) % 2])
    secret = SecretAttribute.read(public, 1)
    game = AttributeGame(
        inputs,
        labels,
        np.array([True, False, True, False]),
        PublicPeople(public, np.arange(40) // 20, secret),
    )
    assert ConfidenceInversion().run(view, game).chosen.tolist() == [0, 1, 1, 1]


def test_marginal_inversion_is_the_formula_of_fredrikson():
    """A model that is right in 9 of 10 public cases, a secret that 3 of 4 have: weights 0.25 · 0.9 and 0.75 · 0.1."""
    public = np.column_stack([np.arange(400) % 2, (np.arange(400) % 4 > 0)]).astype(float)
    labels = np.where(np.arange(400) % 10 == 0, 1 - public[:, 0], public[:, 0]).astype(np.int64)
    view = Predictions(lambda rows: rows[:, 0].astype(np.int64))
    swayed = Predictions(lambda rows: rows[:, 1].astype(np.int64))  # predicts the secret
    secret = SecretAttribute.read(public, 1)
    targets = np.array([[0.0, 0.0], [1.0, 1.0]])
    game = AttributeGame(
        targets, np.array([0, 1]), np.array([True, False]), PublicPeople(public, labels, secret)
    )
    assert MarginalInversion().run(view, game).chosen.tolist() == [
        1,
        1,
    ]  # the prediction does not depend on it
    scores = MarginalInversion().run(swayed, game).scores
    confusion = np.full((2, 2), 0.5)
    np.add.at(confusion, (labels, public[:, 1].astype(int)), 1)
    by_hand = np.log((confusion / confusion.sum(axis=0))[[0, 1]]) + np.log(np.array([100.5, 300.5]) / 401)
    np.testing.assert_allclose(scores, by_hand, rtol=1e-12)


def test_ties_go_to_the_more_frequent_value():
    scores = np.array([[0.0, 0.0, -1.0], [-np.inf, -np.inf, -np.inf], [1.0, 2.0, 2.0]])
    assert break_ties(scores, np.log([0.2, 0.3, 0.5])).tolist() == [1, 2, 2]


def test_regression_models():
    """An unpruned tree betrays members; a line with five coefficients does not."""
    generator = np.random.default_rng(5)
    inputs, _ = _people(1000, generator)
    dose = inputs @ np.array([1.0, 0.5, 0.0, 0.0, 1.0]) + generator.normal(size=1000)
    members = np.repeat([True, False], 300)
    secret = SecretAttribute.read(inputs[600:], 4)
    game = AttributeGame(inputs[:600], dose[:600], members, PublicPeople(inputs[600:], dose[600:], secret))
    tree = DecisionTreeRegressor(random_state=0).fit(inputs[:300], dose[:300])
    line = LinearRegression().fit(inputs[:300], dose[:300])
    for model, least, most in ((tree, 0.1, 1.0), (line, -0.12, 0.12)):
        hits = ImputedInversion(training_error=0.0).run(PredictedNumbers(model.predict), game).recoveries.hits
        assert least < hits[members].mean() - hits[~members].mean() < most
    with pytest.raises(InvalidArgument, match="regression model"):
        ConfidenceInversion().run(PredictedNumbers(line.predict), game)
    with pytest.raises(InvalidArgument, match="class numbers"):
        ConfidenceInversion().run(see(_tree(_game(generator))), game)


def test_secrets_of_words_of_several_columns_and_of_numbers():
    words = np.array([["a", "yes", 3.5], ["b", "no", 1.0], ["a", "no", 2.0]] * 10, dtype=object)
    secret = SecretAttribute.read(words, 1)
    assert secret.values[:, 0].tolist() == ["no", "yes"]
    assert secret.number(words[:3]).tolist() == [1, 0, 0]
    assert secret.fill(words[:2], np.array([0, 1]))[:, 1].tolist() == ["no", "yes"]
    one_hot = np.eye(3)[np.arange(30) % 3]
    both = SecretAttribute.read(np.column_stack([np.ones(30), one_hot]), [1, 2, 3])
    assert both.count == 3
    assert both.other_columns(np.column_stack([np.ones(30), one_hot])).shape == (30, 1)
    ages = np.random.default_rng(0).uniform(20, 80, size=(500, 1))
    binned = SecretAttribute.read(ages, 0)
    assert binned.is_numeric
    assert binned.count == 16
    counts = np.bincount(binned.number(ages))
    assert counts.min() > 15  # bins hold about 31 people each


def test_tables_of_objects_with_missing_values():
    generator = np.random.default_rng(6)
    count = 200
    table = np.empty((count, 4), dtype=object)
    table[:, 0] = generator.choice(["Berlin", "Bonn", "Köln", None], count)
    table[:, 1] = np.where(generator.random(count) < 0.1, np.nan, generator.normal(size=count))
    table[:, 2] = [None] * count  # nothing is known
    table[:, 3] = np.where(table[:, 0] == "Bonn", "ill", "well")
    labels = generator.integers(0, 2, count)
    secret = SecretAttribute.read(table[:100], 3)
    public = PublicPeople(table[:100], labels[:100], secret)
    game = AttributeGame(table[100:], labels[100:], np.arange(100) % 2 == 0, public)
    view = Probabilities(lambda rows: np.full((len(rows), 2), 0.5))
    assert Imputation().run(view, game).recoveries.hits.mean() > 0.95  # the city tells it


def test_white_box():
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(7)
    game = _game(generator, count=100)
    model = torch.nn.Sequential(torch.nn.Linear(5, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    seeded = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=seeded) * 0.3)
    inputs = torch.tensor(game.inputs[game.members], dtype=torch.float32)
    labels = torch.tensor(game.labels[game.members])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    hits = ImputedGradientInversion().run(see(model), game).recoveries.hits
    assert hits[game.members].mean() > hits[~game.members].mean() + 0.05
    with pytest.raises(InvalidArgument, match="WhiteBox"):
        ImputedGradientInversion().run(see(_tree(game)), game)


def test_a_model_that_never_saw_the_targets_leaks_nothing():
    """AUC in − AUC out has mean 0 for forests on other people; its mean of 8 is beyond 6 standard errors in < 1 of 1,000."""
    generator = np.random.default_rng(8)
    gaps = []
    for _ in range(8):
        game = _game(generator, count=150, public=60)
        others, labels = _people(200, generator)
        model = RandomForestClassifier(10, random_state=0, n_jobs=1).fit(others, labels)
        recovery = ConfidenceInversion().run(see(model), game)
        figures = _auc_of(recovery, game.members)
        gaps.append(figures.auc.value - figures.auc_left_out.value)
    assert abs(np.mean(gaps)) < 6 * np.std(gaps, ddof=1) / len(gaps) ** 0.5 + 1e-9


def test_an_audit_runs_it_on_classifiers_and_on_regression_models():
    """By name, with the position of the secret; the true quantities of a regression model take the place of labels."""
    generator = np.random.default_rng(10)
    inputs, _ = _people(900, generator)
    dose = inputs @ np.array([1.0, 0.5, 0.0, 0.0, 1.0]) + generator.normal(size=900)
    sides = [(inputs[part], dose[part]) for part in (slice(0, 300), slice(300, 600), slice(600, 900))]
    tree = DecisionTreeRegressor(random_state=0).fit(*sides[0])
    report = privet.audit(tree, *sides[:2], public=sides[2], attacks=["attributes"], secret=4, progress=False)
    (recovery,) = report.audits[0].recoveries
    assert recovery.leakage.leak.value > 0
    assert recovery.leakage.baseline.value > 0.5
    classes = [(rows, (numbers > 0).astype(int)) for rows, numbers in sides]
    forest = RandomForestClassifier(10, random_state=0).fit(*classes[0])
    report = privet.audit(
        forest, *classes[:2], public=classes[2], attacks=["attributes"], secret=4, progress=False
    )
    assert report.audits[0].recoveries[0].leakage.attack == "imputation × confidence"


class TestRefusals:
    def test_a_constant_secret(self):
        with pytest.raises(InvalidArgument, match="two different values"):
            SecretAttribute.read(np.ones((10, 2)), 1)

    def test_ten_thousand_values(self):
        with pytest.raises(InvalidArgument, match="at most 1000 different values.*bins"):
            SecretAttribute.read(np.arange(10_000)[:, None], 0)

    def test_a_column_that_is_not_there(self):
        with pytest.raises(InvalidArgument, match="'column' must be among the columns"):
            SecretAttribute.read(np.ones((10, 2)), 2)

    def test_words_in_bins(self):
        with pytest.raises(InvalidArgument, match="finite numbers"):
            SecretAttribute.read(np.array([["a"], ["b"]], dtype=object), 0, bins=4)

    def test_a_value_that_nobody_in_public_has(self):
        secret = SecretAttribute.read(np.array([[0.0], [1.0]]), 0)
        with pytest.raises(InvalidArgument, match="one of the 2 values"):
            secret.number(np.array([[2.0]]))

    def test_few_public_people(self):
        secret = SecretAttribute.read(np.array([[0.0], [1.0]]), 0)
        with pytest.raises(InvalidArgument, match="at least 20"):
            PublicPeople(np.zeros((3, 1)), np.zeros(3, dtype=int), secret)

    def test_targets_with_other_columns(self):
        game = _game(np.random.default_rng(9), count=30, public=40)
        with pytest.raises(InvalidArgument, match="5 columns"):
            AttributeGame(np.zeros((4, 3)), np.zeros(4, dtype=int), np.arange(4) % 2 == 0, game.public)

    def test_labels_beyond_the_model(self):
        game = _game(np.random.default_rng(9), count=30, public=40)
        view = Probabilities(lambda rows: np.full((len(rows), 2), 0.5))
        wild = AttributeGame(game.inputs, game.labels + 5, game.members, game.public)
        with pytest.raises(InvalidArgument, match="below the model's 2 classes"):
            ConfidenceInversion().run(view, wild)

    def test_a_regression_model_that_answers_nan(self):
        with pytest.raises(InvalidArgument, match="one finite number"):
            PredictedNumbers(lambda rows: np.full(len(rows), np.nan)).numbers(np.zeros((2, 1)))
