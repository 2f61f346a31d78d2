"""Public calls: wrong types are refused by name and type, without their value; what is sensible is accepted and converted."""

import dataclasses
import importlib
import inspect
import pickle
import subprocess
import sys
import timeit
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import privet
from privet import attacks, auditing, events, filters, mechanisms, releasing, training
from privet.adjacency import AddRemove
from privet.attacks import shadows
from privet.errors import InvalidArgument, PrivetError
from privet.events import Compose, Gaussian
from privet.public_calls import check_public_calls, checked_modules
from privet.scores import Scores

SECRET = "Jane Doe, 1234"


class Proxy:
    """Stands for something that is gone."""

    @property
    def __class__(self):
        raise LookupError(SECRET)


class TestRefused:
    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (lambda: privet.account(3), "'spent' must be a Ledger or an Event, got a value of type int."),
            (
                lambda: privet.account(Gaussian(1), adjacency=AddRemove),
                "got the class AddRemove. Write AddRemove(…): an object is needed, and not its class.",
            ),
            (lambda: privet.AddRemove("user"), "Write one of Unit.RECORD, Unit.USER, Unit.CLIENT."),
            (lambda: privet.release({}, {"a": 3}, unit=None, epsilon=1), "a dict that holds a value of type int"),
            (lambda: privet.audit(1, 2, 3, references="4"), "'references' must be a whole number, a References or None"),
            (lambda: training.train(3, 3, epsilon=1, delta=1, epochs=1), "'model' must be a Module"),
            (lambda: auditing.measure([0.5]), "'scores' must be a Scores, got a value of type list."),
            (lambda: attacks.signals(None, None), "'view' must be a BlackBox"),
            (lambda: shadows.study(None, None, seed=0), "'records' must be a Records"),
            (lambda: Compose([Gaussian(1), 3]), "'parts' must be an event, got int."),
            (lambda: privet.Ledger.from_json(b""), "'text' must be text, got a value of type bytes."),
        ],
    )  # fmt: skip
    def test_in_words(self, call, said):
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert said in str(refused.value)
        assert str(refused.value).endswith(".")

    @pytest.mark.parametrize("value", [SECRET, [SECRET], {SECRET: SECRET}, np.array([SECRET]), (SECRET, 3)])
    def test_without_the_value(self, value):
        guarantee = privet.account(Gaussian(1.0), adjacency=AddRemove())
        for call in (
            lambda: guarantee.epsilon(delta=value),
            lambda: guarantee.tradeoff(fpr=value),
            lambda: auditing.measure(value),
            lambda: privet.account(value),
            lambda: privet.Ledger(AddRemove()).spend("a", value),
            lambda: auditing.leakage_by_group(value, value),
            lambda: training.Clip.groups(value, 3),
        ):
            with pytest.raises(InvalidArgument) as refused:
                call()
            assert "Jane" not in str(refused.value)

    def test_before_anything_is_done(self, tmp_path):
        model, data = torch.nn.Linear(2, 2), (torch.zeros(9, 2), torch.zeros(9, dtype=torch.int64))
        before = model.weight.clone()
        with pytest.raises(InvalidArgument, match="'watch'"):
            training.train(model, data, epsilon=1, delta=1e-3, epochs=1, watch=3, checkpoint=tmp_path / "run")
        assert not (tmp_path / "run").exists()
        assert torch.equal(model.weight, before)

    def test_an_item_of_a_wrong_type_is_told_and_not_the_list(self):
        with pytest.raises(InvalidArgument, match="holds a value of type str"):
            privet.calibrate(
                Gaussian, privet.AdvantageTarget(advantage=0.1), adjacency=AddRemove(), between=[1, "2"]
            )

    def test_numbers_beyond_float64(self):
        guarantee = privet.account(Gaussian(1.0), adjacency=AddRemove())
        for number in (10**400, -(10**5000)):
            with pytest.raises(InvalidArgument, match="beyond the range of float64"):
                guarantee.epsilon(delta=number)

    def test_arrays_that_do_not_fit(self):
        with pytest.raises(
            InvalidArgument, match="must have the shapes and numbers that it asks for"
        ) as refused:
            training.PerLayer(1.0).factors(torch.zeros(()))
        assert refused.value.__cause__ is not None

    def test_arrays_that_do_not_fit_an_object(self):
        with pytest.raises(InvalidArgument, match="The arrays given to Job must have the shapes"):
            shadows.Job(
                recipe=shadows.CallableRecipe(lambda *_: None), inputs=np.float16(1), labels=np.zeros(1),
                members=np.ones((1, 1), dtype=bool), seeds=(0,), query_inputs=(),
            )  # fmt: skip

    @pytest.mark.parametrize(
        "call",
        [
            lambda value: releasing.answer_from_plain("a", value),
            filters.filter_from_plain,
            lambda value: mechanisms.KaryResponse(("a", "b"), 0.75, privet.ReplaceOne()).posterior(
                value, prior=[0.5, 0.5]
            ),
        ],
    )
    def test_objects_that_fail_when_asked_for_their_class(self, call):
        """Proxies of other libraries do where what they stand for is gone."""
        with pytest.raises(PrivetError) as refused:
            call(Proxy())
        assert "Jane" not in str(refused.value)

    @pytest.mark.parametrize(
        "call",
        [
            lambda: auditing.accuracy_by_group(np.ones(3)),
            lambda: auditing.Roc(np.ones(3)),
            lambda: training.CorrectedAdam([], what=3),
        ],
    )
    def test_a_call_without_an_argument_is_about_that_argument(self, call):
        with pytest.raises(TypeError, match="argument"):
            call()

    def test_the_error_of_a_function_of_the_caller_stays_their_own(self):
        def fails(rows):
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            shadows.CallableRecipe(lambda *_: fails(0)).fit(np.zeros((2, 2)), np.zeros(2, dtype=int), 0)


class TestAccepted:
    def test_numpy_and_torch_scalars(self):
        guarantee = privet.account(Gaussian(np.float32(1.0)), adjacency=AddRemove())
        exact = guarantee.epsilon(delta=2.0**-17)
        for delta in (np.float64(2.0**-17), np.float32(2.0**-17), np.array(2.0**-17), torch.tensor(2.0**-17)):
            assert guarantee.epsilon(delta=delta) == exact
        assert guarantee.group(size=np.int64(2)) == guarantee.group(size=2)
        assert events.Repeat(Gaussian(1.0), np.int32(3)).times == 3

    def test_lists_ranges_and_arrays_as_tuples(self):
        assert Compose([Gaussian(1.0)]) == Compose((Gaussian(1.0),))
        assert mechanisms.TallyOf(["a", "b"]) == mechanisms.TallyOf(("a", "b"))
        assert mechanisms.TallyOf(range(3)) == mechanisms.TallyOf((0, 1, 2))
        assert releasing.Histogram("x", np.array([1, 2])) == releasing.Histogram("x", (1, 2))
        assert releasing.Marginal([["x", ["a", "b"]]]) == releasing.Marginal((("x", ("a", "b")),))
        assert hash(Compose([Gaussian(1.0)])) == hash(Compose((Gaussian(1.0),)))
        assert events.BandedNoise(1.0, [1.0, 0.5], 8).coefficients == (1.0, 0.5)

    def test_sets_and_paths(self, tmp_path):
        spent = privet.Ledger(AddRemove(), caveats={privet.Caveat.SEEDED_NOISE})
        assert spent.caveats == frozenset({privet.Caveat.SEEDED_NOISE})
        report = privet.audit_scores([1.0, 2.0, 3.0] * 9, [0.0, 1.0, 2.0] * 9)
        assert report.save(str(tmp_path / "a.json")) == report.save(tmp_path / "a.json")

    def test_lists_as_arrays(self):
        scores = Scores([0.9, 0.1, 0.8, 0.2], [True, False, True, False])
        assert scores.values.tolist() == [0.9, 0.1, 0.8, 0.2]
        guarantee = privet.account(Gaussian(1.0), adjacency=AddRemove())
        assert (
            guarantee.tradeoff(fpr=[0.1, 0.5]).tolist()
            == guarantee.tradeoff(fpr=np.array([0.1, 0.5])).tolist()
        )


class TestUnchanged:
    def test_signatures_and_names(self):
        assert list(inspect.signature(privet.calibrate).parameters)[:2] == ["event_of", "target"]
        assert privet.account.__doc__
        assert privet.account.__name__ == "account"
        assert list(inspect.signature(Gaussian).parameters) == ["noise_multiplier"]
        assert dataclasses.replace(Gaussian(1.0), noise_multiplier=2.0) == Gaussian(2.0)

    @pytest.mark.parametrize(
        "thing",
        [privet.account, privet.release, training.train, attacks.identity, Gaussian(1.0), mechanisms.Count()],
    )
    def test_pickles(self, thing):
        again = pickle.loads(pickle.dumps(thing))
        assert again is thing or again == thing

    def test_the_facade_gives_checked_calls_alone(self):
        """It checks nothing itself, so that ``import privet`` loads nothing."""
        for name in (*privet._MODULES,):
            thing = getattr(privet, name)
            if inspect.isfunction(thing):
                assert hasattr(thing, "__wrapped__"), name

    def test_the_import_stays_quick(self):
        code = "import sys, privet; print(*sys.modules)"
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
        assert "numpy" not in found

    def test_a_call_costs_microseconds(self):
        made = min(timeit.repeat(lambda: Gaussian(1.0), number=2000, repeat=5)) / 2000
        assert made < 50e-6  # about 3e-6 on an idle core

    def test_methods_keep_their_doctests(self):
        import doctest

        module = importlib.import_module("privet.releasing.durable")
        assert any(test.examples for test in doctest.DocTestFinder().find(module))
        assert privet.Guarantee.epsilon.__globals__ is vars(importlib.import_module("privet.guarantees"))

    def test_modules_that_load_late_are_checked_when_they_do(self):
        assert {"privet.training", "privet.mechanisms", "privet.attacks.shadows"} <= set(checked_modules())
        assert hasattr(training.fix, "__wrapped__")
        before = training.fix
        check_public_calls("privet.training")  # once more changes nothing
        assert training.fix is before


def test_every_documented_module_is_checked():
    """What docs/api shows is public, and checks its calls."""
    pages = Path(__file__).parents[2] / "docs" / "api"
    named = {
        line.removeprefix("::: ").strip()
        for page in pages.glob("*.md")
        for line in page.read_text().splitlines()
        if line.startswith("::: ")
    }
    for name in named:
        importlib.import_module(name)
    assert named - set(checked_modules()) == {"privet.caveats", "privet.errors"}  # names without a call


def test_a_warning_is_about_the_line_of_the_caller():
    """The check at the door is one call more on the way in."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        training.TrainingPlan.calibrated(
            epsilon=1.0,
            delta=0.5,
            population=100,
            sampling=training.PoissonSampling(0.1),
            clip_bound=1.0,
            steps=3,
        )
    assert [Path(one.filename).name for one in told] == [Path(__file__).name]
