"""Audits of models and data that Privet did not make: pipelines on data frames, several inputs, regression."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

import privet
from privet.attacks import Outputs
from privet.attacks.shadows import (
    Adam,
    CallableRecipe,
    Processes,
    ScikitRecipe,
    Sequential,
    TorchRecipe,
    conduct,
    study,
)
from privet.errors import InvalidArgument
from privet.frame_columns import FrameColumns
from privet.record_inputs import gather_inputs
from privet.scores import Records

HALF = 120
RANDOM = np.random.default_rng(3)


def ugly_frame(rows: int) -> pd.DataFrame:
    """Missing values of three kinds, categories, nullable integers, dates, and several types of numbers."""
    random = np.random.default_rng(7)
    frame = pd.DataFrame(
        {
            "age": np.where(random.random(rows) < 0.1, np.nan, random.integers(18, 90, rows)),
            "city": pd.Categorical(random.choice(["Bern", "Graz", "Oslo"], rows)),
            "job": [
                None if u < 0.1 else random.choice(["a", "b", "c é", "d|e"]) for u in random.random(rows)
            ],
            "kids": pd.array(np.where(random.random(rows) < 0.1, None, random.integers(0, 4, rows)), "Int64"),
            "member": random.random(rows) < 0.5,
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(random.integers(0, 900, rows), unit="D"),
            "weight": random.normal(size=rows).astype(np.float32),
            "visits": random.integers(0, 9, rows),
        }
    )
    frame["city"] = frame["city"].cat.add_categories(["Rom"])
    frame.loc[frame.index[-9:], ["job", "city"]] = ["never seen", "Rom"]  # among non-members only
    return frame


FRAME = ugly_frame(2 * HALF)
WORDS = np.where(FRAME["weight"] + RANDOM.normal(size=2 * HALF) > 0, "yes", "no")
QUANTITY = 3 * FRAME["age"].fillna(50).to_numpy() + 10 * RANDOM.normal(size=2 * HALF)


def by_names(last):
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    words = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
    columns = [("numbers", numbers, ["age", "weight", "visits"]), ("words", words, ["city", "job"])]
    return make_pipeline(ColumnTransformer([*columns, ("bits", "passthrough", ["member"])]), last)


def sides(inputs, labels):
    return (inputs[:HALF], labels[:HALF]), (inputs[HALF:], labels[HALF:])


def audited(model, members, others, **options):
    (audit,) = privet.audit(model, members, others, progress=False, **options).audits
    return audit


class TestFrames:
    def test_a_pipeline_that_picks_columns_by_name_is_target_and_recipe(self):
        members, others = sides(FRAME, WORDS)
        model = by_names(RandomForestClassifier(10, random_state=0)).fit(*members)
        audit = audited(model, members, others, recipe=by_names(RandomForestClassifier(10)), references=4)
        assert audit.train_accuracy > 0.95
        assert audit.strongest.leakage.auc.value > 0.75
        assert [result.name for result in audit.results] == ["loss", "RMIA + BaVarIA"]
        assert audit.reference_models.used == 4

    def test_answers_are_those_of_the_frame(self):
        """The view must show what the model says of the frame itself, cell for cell."""
        from privet.attacks import see

        members, _ = sides(FRAME, WORDS)
        model = by_names(LogisticRegression()).fit(*members)
        records = Records(FRAME)
        view = see(model, columns=records.columns)
        np.testing.assert_allclose(view.confidences(records.inputs), model.predict_proba(FRAME), rtol=1e-12)

    def test_types_come_back_for_any_rows(self):
        records = Records(FRAME)
        for rows in (np.arange(3), np.arange(2 * HALF)[::-7], np.flatnonzero(FRAME["kids"].isna())):
            frame = records.columns.to_frame(records.inputs[rows])
            expected = FRAME.iloc[rows].reset_index(drop=True)
            pd.testing.assert_frame_equal(frame, expected)

    def test_categories_of_both_sides_are_joined(self):
        one = pd.DataFrame({"c": pd.Categorical(["a", "b"])})
        other = pd.DataFrame({"c": pd.Categorical(["z", "a"])})
        joined = Records(one).followed_by(Records(other))
        frame = joined.columns.to_frame(joined.inputs)
        assert list(frame["c"]) == ["a", "b", "z", "a"]
        assert list(frame["c"].cat.categories) == ["a", "b", "z"]
        ints = FrameColumns.of(pd.DataFrame({"n": [1, 2]})).joined_with(
            FrameColumns.of(pd.DataFrame({"n": [0.5, np.nan]}))
        )
        assert ints.types == (np.dtype(np.float64),)

    def test_trees_that_know_categories_by_their_type(self):
        frame = FRAME[["age", "weight", "city"]]
        trees = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
        members, others = sides(frame, WORDS)
        model = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(*members)
        assert audited(model, members, others, recipe=trees, references=2).train_accuracy > 0.5

    def test_a_frame_of_numbers_keeps_its_names_for_a_recipe(self):
        frame = FRAME[["weight", "visits"]]
        picks = ColumnTransformer([("one", StandardScaler(), ["visits"])])
        records = Records(frame, (WORDS == "yes").astype(int))
        assert records.inputs.dtype.kind == "f"
        found = study(make_pipeline(picks, LogisticRegression()), records, models=2, seed=0)
        assert np.isfinite(found.signals).all()

    def test_a_model_that_was_fitted_on_an_array_gets_an_array(self, recwarn):
        frame = FRAME[["weight", "visits"]]
        members, others = sides(frame, WORDS)
        model = LogisticRegression().fit(frame[:HALF].to_numpy(), WORDS[:HALF])
        assert audited(model, members, others).results
        assert not [w for w in recwarn if "feature names" in str(w.message)]

    def test_columns_in_another_order_are_refused(self):
        members, (frame, words) = sides(FRAME, WORDS)
        model = by_names(LogisticRegression()).fit(*members)
        with pytest.raises(InvalidArgument, match="same columns in the same order"):
            privet.audit(model, members, (frame[frame.columns[::-1]], words))

    def test_processes_and_the_cache_take_mixed_columns(self, tmp_path):
        records = Records(FRAME, (WORDS == "yes").astype(int))
        recipe = ScikitRecipe(by_names(RandomForestClassifier(3)))
        alone = conduct(recipe, records, 2, seed=0, engine=Sequential(), cache=tmp_path)
        there = conduct(recipe, records, 2, seed=0, engine=Processes(1))
        assert there.choice.engine == Processes(1)
        np.testing.assert_array_equal(alone.references.signals, there.references.signals)
        assert conduct(recipe, records, 2, seed=0, cache=tmp_path).reused == 2
        changed = FRAME.copy()
        changed.loc[0, "job"] = "b" if FRAME.loc[0, "job"] != "b" else "a"
        other = Records(changed, records.labels)
        assert conduct(recipe, other, 2, seed=0, cache=tmp_path).reused == 0
        as_text = FRAME.assign(visits=FRAME["visits"].astype(str))
        assert conduct(recipe, Records(as_text, records.labels), 2, seed=0, cache=tmp_path).reused == 0

    def test_a_function_gets_the_frame_that_was_given(self):
        seen = []

        def train(inputs, labels, seed):
            seen.append(type(inputs))
            return by_names(LogisticRegression()).fit(inputs, labels)

        study(CallableRecipe(train), Records(FRAME, (WORDS == "yes").astype(int)), models=2, seed=0)
        assert seen == [pd.DataFrame, pd.DataFrame]

    def test_texts_are_records(self):
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = np.array(
            [f"{a} {b} word{k}" for k, (a, b) in enumerate(RANDOM.choice(["x", "yy", "zz"], (80, 2)))]
        )
        labels = np.arange(80) % 2
        reader = make_pipeline(TfidfVectorizer(), LogisticRegression(C=100))
        model = make_pipeline(TfidfVectorizer(), LogisticRegression(C=100)).fit(texts[:40], labels[:40])
        audit = audited(
            model, (texts[:40], labels[:40]), (texts[40:], labels[40:]), recipe=reader, references=2
        )
        assert audit.train_accuracy > 0.9


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item, self.head = nn.Linear(5, 16), nn.Linear(3, 16), nn.Linear(32, 2)

    def forward(self, user, item):
        return self.head(torch.cat([self.user(user), self.item(item)], dim=1).relu())


USERS = RANDOM.normal(size=(80, 5)).astype(np.float32)
ITEMS = RANDOM.normal(size=(80, 3)).astype(np.float32)
COINS = RANDOM.integers(0, 2, 80)
TOWERS = TorchRecipe(model=TwoTowers, epochs=15, batch_size=8, learning_rate=0.2)


class TestSeveralInputs:
    @pytest.mark.parametrize("form", ["tuple", "dictionary", "columns", "dataset", "rows", "triples"])
    def test_every_form_gives_the_same_audit(self, form):
        model = TOWERS.fit(gather_inputs((USERS, ITEMS))[:40], COINS[:40], 0).module

        def side(part):
            users, items, coins = (torch.from_numpy(array[part]) for array in (USERS, ITEMS, COINS))
            rows = zip(users, items, coins, strict=True)
            return {
                "tuple": lambda: ((users, items), coins),
                "dictionary": lambda: ({"item": items, "user": users}, coins),
                "columns": lambda: {"user": users, "item": items, "labels": coins},
                "dataset": lambda: torch.utils.data.TensorDataset(users, items, coins),
                "rows": lambda: [{"user": u, "item": i, "label": int(c)} for u, i, c in rows],
                "triples": lambda: list(rows),
            }[form]()

        audit = audited(
            model,
            side(slice(40)),
            side(slice(40, 80)),
            recipe=TOWERS,
            references=2,
            attacks=["loss", "gradient-norm", "lira"],
        )
        assert audit.train_accuracy > 0.9
        assert audit.results[0].leakage.auc.value > 0.65
        assert audit.results[1].leakage.auc.value > 0.65

    def test_gradients_are_those_of_the_record_alone(self):
        view = TOWERS.fit(gather_inputs({"user": USERS, "item": ITEMS})[:40], COINS[:40], 0)
        rows = gather_inputs({"user": USERS, "item": ITEMS})
        norms = view.gradient_norms(rows[:3], COINS[:3])
        for place in range(3):
            view.module.zero_grad()
            outputs = view.module(
                torch.from_numpy(USERS[place : place + 1]), torch.from_numpy(ITEMS[place : place + 1])
            )
            nn.functional.cross_entropy(outputs, torch.as_tensor(COINS[place : place + 1])).backward()
            head = torch.cat([p.grad.flatten() for p in view.module.head.parameters()])
            assert norms[place, view.layers.index("head")] == pytest.approx(float(head.norm()), rel=1e-5)

    def test_stacks_are_not_taken(self):
        records = Records(gather_inputs((USERS, ITEMS)), COINS)
        one = conduct(TOWERS, records, 2, seed=1)
        assert "several inputs" in str(one.choice)

    @pytest.mark.slow
    def test_processes_take_several_inputs(self):
        records = Records(gather_inputs((USERS, ITEMS)), COINS)
        one = conduct(TOWERS, records, 2, seed=1, engine=Sequential())
        other = conduct(TOWERS, records, 2, seed=1, engine=Processes(1))
        assert other.choice.engine == Processes(1)
        np.testing.assert_allclose(one.references.signals, other.references.signals, atol=1e-4)

    def test_names_that_the_model_does_not_have_are_refused(self):
        model = TwoTowers()
        with pytest.raises(InvalidArgument, match=r"arguments \(user, item\), got users"):
            privet.audit(
                model, ({"users": USERS, "item": ITEMS}, COINS), ({"users": USERS, "item": ITEMS}, COINS)
            )

    def test_other_inputs_on_the_other_side_are_refused(self):
        with pytest.raises(InvalidArgument, match="same inputs"):
            privet.audit(TwoTowers(), ((USERS, ITEMS), COINS), ({"user": USERS, "item": ITEMS}, COINS))

    def test_lengths_that_differ_are_refused(self):
        with pytest.raises(InvalidArgument, match="several lengths"):
            gather_inputs((USERS, ITEMS[:3]))

    def test_hashes_depend_on_every_input(self):
        rows = gather_inputs((USERS, ITEMS))
        moved = rows.copy()
        moved["f1"][0, 0] += 1
        assert Records(rows).hashes[0] != Records(moved).hashes[0]
        assert np.array_equal(Records(rows).hashes[1:], Records(moved).hashes[1:])
        assert np.array_equal(Records(rows[::-1]).hashes, Records(rows).hashes[::-1])


class TestRegression:
    @pytest.mark.parametrize(
        "regressor", [RandomForestRegressor(10), GradientBoostingRegressor(n_estimators=30, max_depth=6)]
    )
    def test_regressors_that_remember_leak(self, regressor):
        members, others = sides(FRAME, QUANTITY)
        model = by_names(regressor).fit(*members)
        audit = audited(model, members, others, recipe=by_names(regressor), references=4)
        assert audit.strongest.leakage.auc.value > 0.75
        assert audit.train_accuracy is audit.test_accuracy is None
        assert audit.regression.train_r2 == pytest.approx(model.score(*members))
        assert audit.regression.test_r2 == pytest.approx(model.score(*others))
        assert audit.utility == f"R² {model.score(*others):.3f}"
        assert not audit.harm.classes
        assert {result.adversary.sees for result in audit.results} == {"the predicted quantity"}

    def test_a_line_through_many_points_leaks_little(self):
        members, others = sides(FRAME, QUANTITY)
        model = by_names(Ridge()).fit(*members)
        audit = audited(model, members, others)
        assert [result.name for result in audit.results] == ["loss"]
        assert audit.strongest.leakage.auc.value < 0.65

    def test_a_torch_module_says_that_it_gives_quantities(self):
        random = np.random.default_rng(0)  # of its own: the order of tests does not matter
        inputs = random.normal(size=(120, 5)).astype(np.float32)
        targets = (2 * inputs[:, 0] + random.normal(size=120)).astype(np.float32)
        recipe = TorchRecipe(
            model=lambda: nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 1)),
            epochs=100, batch_size=16, learning_rate=0.01, optimizer=Adam(), gives=Outputs.QUANTITIES,
        )  # fmt: skip
        predict = recipe.fit_quantities(inputs[:60], targets[:60], 0)
        model = predict.__self__.module
        audit = audited(
            model,
            (inputs[:60], targets[:60]),
            (inputs[60:], targets[60:, None]),
            gives=Outputs.QUANTITIES,
            recipe=recipe,
            references=2,
        )
        assert audit.strongest.leakage.auc.value > 0.7
        assert audit.regression.train_error < 0.8 < audit.regression.test_error

    def test_the_page_and_the_data_speak_of_a_quantity(self, tmp_path):
        members, others = sides(FRAME, QUANTITY)
        report = privet.audit(by_names(Ridge()).fit(*members), members, others, progress=False)
        page = report.save(tmp_path / "report.html").read_text(encoding="utf-8")
        assert "R² on others" in page
        assert "Accuracy on others" not in page
        card = report.save(tmp_path / "card.md").read_text(encoding="utf-8")
        assert "R²" in card
        model = json.loads(report.save(tmp_path / "report.json").read_text(encoding="utf-8"))["models"][0]
        assert model["accuracy"] == {"members": None, "nonmembers": None}
        assert model["regression"]["r_squared"]["nonmembers"] == report.audits[0].regression.test_r2

    @pytest.mark.parametrize(
        "name", ["gap", "entropy", "confidence", "modified-entropy", "noise", "boundary"]
    )
    def test_attacks_that_need_classes_are_refused(self, name):
        members, others = sides(FRAME, QUANTITY)
        model = by_names(Ridge()).fit(*members)
        with pytest.raises(InvalidArgument, match=name):
            privet.audit(model, members, others, attacks=[name])

    def test_records_of_classes_are_refused(self):
        rows = RANDOM.normal(size=(20, 2))
        model = Ridge().fit(rows, rows[:, 0])
        with pytest.raises(InvalidArgument, match="quantities"):
            privet.audit(model, Records(rows, np.zeros(20)), Records(rows, np.zeros(20)))
        with pytest.raises(InvalidArgument, match="one finite number"):
            privet.audit(model, (rows, np.full(20, np.nan)), (rows, np.zeros(20)))
