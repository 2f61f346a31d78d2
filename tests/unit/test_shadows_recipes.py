"""Recipes with early stopping, schedules, augmentation and weight decay: every engine trains the same models."""

import numpy as np
import pytest
import torch
from torch import nn

from privet.attacks.outputs import Outputs
from privet.attacks.quantities import Quantities, quantity_records, typical_error
from privet.attacks.shadows import (
    SGD,
    AdamW,
    AllOf,
    Cosine,
    EarlyStopping,
    Linear,
    Processes,
    QuantityRecipe,
    RandomMirror,
    RandomNoise,
    RandomShift,
    ScikitRecipe,
    Sequential,
    Stacked,
    TorchRecipe,
    WarmUp,
    conduct,
)
from privet.attacks.shadows.torch_recipe import initialize_model, to_tensor, train_model
from privet.errors import InvalidArgument
from privet.scores import Records
from privet.views import confidence_logits

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.normal(size=(60, 1, 6, 6)).astype(np.float32)
LABELS = RANDOM.integers(0, 4, 60)
RECORDS = Records(IMAGES, LABELS)


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 16), nn.ReLU(), nn.Linear(16, 4))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4))


EVERYTHING = {
    "schedule": WarmUp(0.2, Cosine()),
    "augmentation": AllOf((RandomShift(1), RandomMirror(), RandomNoise(0.05))),
}


class TestLaw:
    @pytest.mark.parametrize("model", [mlp, cnn])
    @pytest.mark.parametrize(
        "descent", [SGD(weight_decay=0.01, nesterov=True), AdamW(weight_decay=0.1)], ids=str
    )
    def test_stacks_take_schedules_augmentation_and_decay(self, model, descent):
        recipe = TorchRecipe(
            model=model, epochs=3, batch_size=8, learning_rate=0.02, optimizer=descent, **EVERYTHING
        )
        one, other = (
            conduct(recipe, RECORDS, 4, seed=1, engine=e) for e in (Sequential(), Stacked(threads=1))
        )
        assert other.choice.engine == Stacked(threads=1)
        np.testing.assert_allclose(one.references.signals, other.references.signals, atol=1e-4)

    def test_stacks_do_not_stop_early_and_say_so(self):
        recipe = TorchRecipe(
            model=mlp, epochs=30, batch_size=8, stopping=EarlyStopping(patience=2, share=0.2)
        )
        asked = conduct(recipe, RECORDS, 2, seed=1, engine=Stacked())
        assert asked.choice.engine == Sequential()
        assert "own epoch" in asked.choice.reason
        picked = conduct(recipe, RECORDS, 2, seed=1)
        assert np.array_equal(asked.references.signals, picked.references.signals)
        with pytest.raises(InvalidArgument, match="own epoch"):
            from privet.attacks.shadows.splits import Halves
            from privet.attacks.shadows.studies import _prepare_job

            job = _prepare_job(recipe, RECORDS, 2, 1, Halves(), (lambda rows: rows,), False)
            list(Stacked().run(job, [0], lambda _done: None))

    @pytest.mark.slow
    def test_processes_take_everything(self):
        recipe = TorchRecipe(
            model=cnn, epochs=9, batch_size=8, stopping=EarlyStopping(patience=2), optimizer=AdamW(),
            learning_rate=0.02, **EVERYTHING,
        )  # fmt: skip
        one, other = (conduct(recipe, RECORDS, 3, seed=1, engine=e) for e in (Sequential(), Processes(2)))
        assert other.choice.engine == Processes(2)
        np.testing.assert_allclose(one.references.signals, other.references.signals, atol=1e-4)


class TestEarlyStopping:
    def test_the_split_is_the_seed_s_and_loses_nobody(self):
        members = np.arange(100, 150)
        trained, held_out = EarlyStopping(share=0.2).split(members, seed=3)
        assert len(held_out) == 10
        assert sorted([*trained, *held_out]) == list(members)
        again, _ = EarlyStopping(share=0.2).split(members, seed=3)
        other, _ = EarlyStopping(share=0.2).split(members, seed=4)
        assert np.array_equal(trained, again)
        assert not np.array_equal(trained, other)
        assert len(EarlyStopping().split(np.arange(1), seed=0)[1]) == 0

    def test_it_ends_when_the_held_out_loss_rises_and_gives_the_best_weights_back(self):
        """Random labels: the loss on held-out records rises soon, and that of the restored model is the least."""
        rule = EarlyStopping(patience=3, share=0.3)
        base = {"model": mlp, "epochs": 60, "batch_size": 8, "learning_rate": 0.1}
        trained, held_out = rule.split(np.arange(60), 5)

        def losses(stopping, epochs):
            recipe = TorchRecipe(**base | {"epochs": epochs}, stopping=stopping)
            made = initialize_model(recipe, 5)
            rows = to_tensor(made.module, IMAGES)
            members = np.arange(60) if stopping else trained
            train_model(recipe, made, rows, torch.as_tensor(LABELS), members, 5)
            with torch.no_grad():
                return float(
                    nn.functional.cross_entropy(
                        made.module.eval()(rows[held_out]), torch.as_tensor(LABELS[held_out])
                    )
                )

        by_epoch = [losses(None, epochs) for epochs in range(1, 12)]
        best = int(np.argmin(by_epoch))
        assert best + 3 < 11  # the loss does rise within what is looked at
        assert losses(rule, 60) == pytest.approx(min(by_epoch), abs=1e-6)
        without = losses(EarlyStopping(patience=3, share=0.3, restore=False), 60)
        first_stop = next(
            epoch for epoch in range(4, 12) if min(by_epoch[epoch - 3 : epoch]) >= min(by_epoch[: epoch - 3])
        )
        assert without == pytest.approx(by_epoch[first_stop - 1], abs=1e-6)

    def test_arguments(self):
        for wrong in ({"patience": 0}, {"share": 0.0}, {"share": 1.0}, {"least": -1.0}):
            with pytest.raises(InvalidArgument):
                EarlyStopping(**wrong)

    def test_the_description_knows_it(self):
        plain = TorchRecipe(model=mlp)
        stopping = TorchRecipe(model=mlp, stopping=EarlyStopping())
        other = TorchRecipe(model=mlp, stopping=EarlyStopping(patience=6))
        assert len({recipe.description() for recipe in (plain, stopping, other)}) == 3


class TestSchedules:
    def test_warm_up_meets_the_other_schedule(self):
        schedule = WarmUp(0.25, Linear(0.5))
        factors = [schedule.factor(step, 16) for step in range(16)]
        assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
        assert factors[4:] == [Linear(0.5).factor(step, 12) for step in range(12)]
        assert WarmUp(0.5).factor(0, 1) == 1.0  # a run of one step

    def test_arguments(self):
        with pytest.raises(InvalidArgument):
            WarmUp(0.0)
        with pytest.raises(InvalidArgument):
            Linear(1.5)


class TestAugmentations:
    def test_shifts_are_crops_of_the_padded_image(self):
        batch = torch.arange(1.0, 2 * 3 * 4 * 5 + 1).reshape(2, 3, 4, 5)
        moved = RandomShift(2)(batch, torch.Generator().manual_seed(1))
        padded = nn.functional.pad(batch, (2, 2, 2, 2))
        for image, around in zip(moved, padded, strict=True):
            crops = [around[:, d : d + 4, r : r + 5] for d in range(5) for r in range(5)]
            assert sum(torch.equal(image, crop) for crop in crops) >= 1

    def test_half_of_the_images_are_mirrored(self):
        batch = torch.randn(400, 1, 2, 3, generator=torch.Generator().manual_seed(0))
        moved = RandomMirror()(batch, torch.Generator().manual_seed(1))
        mirrored = sum(torch.equal(a, b.flip(-1)) for a, b in zip(moved, batch, strict=True))
        kept = sum(torch.equal(a, b) for a, b in zip(moved, batch, strict=True))
        assert mirrored + kept == 400
        assert abs(mirrored - 200) < 60  # six standard deviations

    def test_arguments(self):
        for wrong in (lambda: RandomShift(0), lambda: RandomNoise(0.0), lambda: AllOf(())):
            with pytest.raises(InvalidArgument):
                wrong()


class TestQuantities:
    def test_phi_is_that_of_the_gaussian_likelihood(self):
        """r = s: p = e^−½ = 0.6065, φ = ln(p/(1−p)) = 0.4328 (by hand)."""
        records = quantity_records(np.zeros((3, 1)), np.array([2.0, 0.0, 80.0]))
        phi = confidence_logits(
            Quantities(lambda rows: rows[:, 0], 2.0).log_confidences(records.inputs), records.labels
        )
        assert phi[0] == pytest.approx(np.log(np.exp(-0.5) / (1 - np.exp(-0.5))))
        assert phi[0] == pytest.approx(0.43275, abs=1e-5)
        assert phi[1] > 700  # no error at all
        assert phi[2] == -745.0  # r²/2s² = 800

    def test_the_order_is_that_of_the_errors_whatever_the_unit(self):
        errors = RANDOM.normal(size=50) * 10.0 ** RANDOM.integers(-4, 2, 50)
        records = quantity_records(np.zeros((50, 1)), errors)
        for unit in (0.3, 1.0, 30.0):
            view = Quantities(lambda rows: rows[:, 0], unit)
            phi = confidence_logits(view.log_confidences(records.inputs), records.labels)
            assert np.array_equal(np.argsort(phi), np.argsort(-np.abs(errors)))

    def test_small_errors_count_by_their_logarithm(self):
        records = quantity_records(np.zeros((2, 1)), np.array([1e-3, 1e-5]))
        phi = confidence_logits(
            Quantities(lambda rows: rows[:, 0], 1.0).log_confidences(records.inputs), records.labels
        )
        assert phi[1] - phi[0] == pytest.approx(2 * np.log(100), rel=1e-5)

    def test_the_unit_is_the_others_error_where_members_have_none(self):
        errors = np.concatenate([np.zeros(500), RANDOM.normal(size=500)])
        assert typical_error(np.zeros(1000), errors) == pytest.approx(0.674, abs=0.1)
        assert typical_error(np.zeros(4), np.zeros(4)) == 1.0

    def test_a_model_that_ignores_its_records_is_chance(self):
        """References and target are exchangeable: AUC ½ within five standard deviations (false alarm: 6e-7)."""
        from sklearn.dummy import DummyRegressor

        from privet.attacks import LiRA
        from privet.auditing import measure
        from privet.scores import Challenge

        random = np.random.default_rng(5)
        records = quantity_records(random.normal(size=(600, 2)), random.normal(size=600))
        recipe = QuantityRecipe(ScikitRecipe(DummyRegressor(strategy="constant", constant=0.0)), unit=1.0)
        references = conduct(recipe, records, 4, seed=0).references
        coin = random.random(600) < 0.5
        view = recipe.fit(records.inputs[coin], records.labels[coin], 9)
        scores = LiRA(references).run(view, Challenge(records, coin))
        assert abs(measure(scores).auc.value - 0.5) < 5 * np.sqrt(1 / (3 * 600))

    def test_a_torch_recipe_of_quantities_is_trained_by_the_squared_error(self):
        inputs = RANDOM.normal(size=(64, 3)).astype(np.float32)
        targets = inputs @ np.array([1.0, -2.0, 0.5]) + 3.0
        recipe = TorchRecipe(
            model=lambda: nn.Linear(3, 1),
            epochs=60,
            batch_size=16,
            learning_rate=0.05,
            gives=Outputs.QUANTITIES,
        )
        predicted = recipe.fit_quantities(inputs, targets, 0)(inputs)
        assert np.abs(predicted[:, 0] - targets).max() < 1e-2
