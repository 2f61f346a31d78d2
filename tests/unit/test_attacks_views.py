"""Views of models: what people have is seen rightly, and what would be seen wrongly is refused."""

import subprocess
import sys

import numpy as np
import pytest

from privet.attacks import Logits, Loss, Outputs, Predictions, Probabilities, see
from privet.attacks.outputs import batches
from privet.errors import InvalidArgument, ProgramFailed
from privet.scores import Challenge, Records, Scores
from privet.views import BlackBox, WhiteBox, confidence_logits, narrow_view

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from privet.attacks.torch_views import TorchView  # noqa: E402

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(23, 1, 8, 8))
MARKS = RNG.integers(0, 5, 23)


def convolution():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(108, 5)
    )


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(10, 4)
        self.over_time = nn.LSTM(4, 6, batch_first=True)
        self.last = nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.over_time(self.words(x))[0][:, -1])


def by_hand(module, rows, marks, names):
    """Gradients of one record at a time, by autograd."""
    module.eval()
    found = []
    for row, mark in zip(rows, marks, strict=True):
        module.zero_grad()
        loss = nn.functional.cross_entropy(module(row[None]), torch.tensor([mark]))
        loss.backward()
        found.append(np.concatenate([dict(module.named_parameters())[n].grad.numpy().ravel() for n in names]))
    module.zero_grad()
    return np.stack(found)


class TestTorch:
    def test_per_example_gradients(self):
        module = convolution()
        view = see(module, batch=7)
        assert isinstance(view, WhiteBox)
        assert view.layers == ("0", "1", "5")
        rows = torch.tensor(ROWS, dtype=torch.float32)
        for place, layer in enumerate(view.layers):
            expected = by_hand(module, rows, MARKS, [f"{layer}.weight", f"{layer}.bias"])
            np.testing.assert_allclose(view.gradients(ROWS, MARKS, layer), expected, atol=2e-6)
            np.testing.assert_allclose(
                view.gradient_norms(ROWS, MARKS)[:, place], np.linalg.norm(expected, axis=1), rtol=1e-4
            )

    def test_layers_that_do_not_vectorise(self):
        module = Recurrent()
        view = see(module)
        words = RNG.integers(0, 10, (6, 5))
        names = [n for n, _ in module.named_parameters() if n.startswith("over_time")]
        expected = by_hand(module, torch.tensor(words), MARKS[:6] % 3, names)
        np.testing.assert_allclose(view.gradients(words, MARKS[:6] % 3, "over_time"), expected, atol=2e-6)
        assert view.activations(words, "over_time").shape == (6, 30)

    def test_a_module_that_branches_on_its_values(self):
        class Branching(nn.Module):
            def __init__(self):
                super().__init__()
                self.line = nn.Linear(3, 2)

            def forward(self, x):
                return self.line(x) if x.sum() > 0 else self.line(-x)

        module = Branching()
        rows = RNG.normal(size=(5, 3)).astype(np.float32)
        expected = by_hand(module, torch.tensor(rows), MARKS[:5] % 2, ["line.weight", "line.bias"])
        np.testing.assert_allclose(see(module).gradients(rows, MARKS[:5] % 2, "line"), expected, atol=1e-6)

    def test_modes_are_put_back_and_nothing_is_touched(self):
        module = convolution()
        module[3].eval()
        modes = [part.training for part in module.modules()]
        before = {name: value.clone() for name, value in module.state_dict().items()}
        view = see(module)
        first = view.log_confidences(ROWS)
        view.gradient_norms(ROWS, MARKS)
        view.activations(ROWS, "1")
        np.testing.assert_array_equal(view.log_confidences(ROWS), first)  # no dropout, no batch statistics
        assert [part.training for part in module.modules()] == modes
        assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
        assert all(parameter.grad is None for parameter in module.parameters())
        assert not module[1]._forward_hooks

    def test_modes_are_put_back_after_a_failure(self):
        module = convolution()
        with pytest.raises(ProgramFailed, match="it failed with RuntimeError"):
            see(module).log_confidences(np.zeros((2, 7)))
        assert module.training

    def test_batches_do_not_matter(self):
        module = convolution()
        np.testing.assert_allclose(
            see(module, batch=4).log_confidences(ROWS),
            see(module, batch=100).log_confidences(ROWS),
            atol=1e-6,
        )

    def test_double_precision_stays(self):
        module = convolution().double()
        answer = module.eval()(torch.tensor(ROWS)).log_softmax(1).detach().numpy()
        np.testing.assert_allclose(see(module).log_confidences(ROWS), answer, atol=1e-14)

    def test_one_logit_is_two_classes(self):
        module = nn.Linear(3, 1)
        rows = RNG.normal(size=(9, 3))
        view = see(module)
        with torch.no_grad():
            logit = module(torch.tensor(rows, dtype=torch.float32))[:, 0].numpy()
        np.testing.assert_allclose(
            confidence_logits(view.log_confidences(rows), np.ones(9, dtype=int)), logit, atol=1e-6
        )
        # ∂/∂w of ln(1 + e^{−φ}) is −(1 − p) x
        expected = -(1 / (1 + np.exp(logit)))[:, None] * np.concatenate([rows, np.ones((9, 1))], axis=1)
        np.testing.assert_allclose(view.gradients(rows, np.ones(9, dtype=int), "."), expected, atol=1e-6)

    def test_whole_numbers_are_numbers_unless_there_is_an_embedding(self):
        pixels = RNG.integers(0, 255, (4, 3)).astype(np.uint8)
        module = nn.Linear(3, 2)
        np.testing.assert_allclose(
            see(module).log_confidences(pixels), see(module).log_confidences(pixels.astype(float)), atol=1e-6
        )

    def test_probabilities_declared_as_logits_are_refused(self):
        class Hidden(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return self.inner(x).softmax(1)

        module = nn.Sequential(convolution(), nn.Softmax(dim=1))
        for wrong in (Hidden(convolution()), module):
            with pytest.raises(InvalidArgument, match="Outputs.PROBABILITIES"):
                see(wrong, gives=Outputs.LOGITS).log_confidences(ROWS)
        assert see(Hidden(convolution())).log_confidences(ROWS).shape == (len(ROWS), 5)
        np.testing.assert_array_equal(
            see(module).log_confidences(ROWS),
            see(module, gives=Outputs.PROBABILITIES).log_confidences(ROWS),
        )
        right = see(module, gives=Outputs.PROBABILITIES)
        np.testing.assert_allclose(
            right.log_confidences(ROWS), see(module[0]).log_confidences(ROWS), atol=1e-5
        )
        assert isinstance(right, TorchView)
        np.testing.assert_allclose(
            right.gradients(ROWS, MARKS, "0.5"), see(module[0]).gradients(ROWS, MARKS, "5"), atol=1e-5
        )

    def test_log_probabilities_are_logits_too(self):
        module = nn.Sequential(convolution(), nn.LogSoftmax(dim=1))
        np.testing.assert_allclose(
            see(module).log_confidences(ROWS), see(module[0]).log_confidences(ROWS), atol=1e-5
        )

    def test_nan_is_refused(self):
        module = nn.Linear(3, 2)
        with pytest.raises(InvalidArgument, match="diverged"):
            see(module).log_confidences(np.full((2, 3), np.nan))

    def test_other_outputs_are_refused(self):
        class Pair(nn.Module):
            def forward(self, x):
                return x, x

        with pytest.raises(InvalidArgument, match="rows × classes"):
            see(Pair()).log_confidences(np.zeros((2, 3)))
        with pytest.raises(InvalidArgument, match="rows × classes"):
            see(nn.Conv1d(1, 2, 1)).log_confidences(np.zeros((2, 1, 3)))

    def test_an_object_that_holds_logits_is_an_answer(self):
        class Answer:
            def __init__(self, logits):
                self.logits = logits

        class Language(nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return Answer(self.inner(x))

        plain, held = see(convolution()), see(Language(convolution()))
        np.testing.assert_array_equal(held.log_confidences(ROWS), plain.log_confidences(ROWS))
        np.testing.assert_array_equal(held.gradient_norms(ROWS, MARKS), plain.gradient_norms(ROWS, MARKS))

    def test_memory_that_must_not_be_written(self):
        rows = ROWS.copy()
        rows.setflags(write=False)
        view = see(convolution())  # a warning of torch would be an error here
        np.testing.assert_array_equal(view.labels(rows), view.labels(ROWS))

    def test_words_are_refused(self):
        with pytest.raises(InvalidArgument, match="Encode words"):
            see(nn.Linear(2, 2)).labels(np.array([["a", 1], ["b", 2]], dtype=object))

    def test_unknown_layers_are_refused(self):
        with pytest.raises(InvalidArgument, match="Take one of 0, 1, 5"):
            see(convolution()).activations(ROWS, "7")

    def test_narrowed(self):
        view = narrow_view(see(convolution()), BlackBox)
        assert not isinstance(view, WhiteBox)


class TestEstimators:
    def test_scikit_learn(self):
        linear = pytest.importorskip("sklearn.linear_model")
        rows, labels = RNG.normal(size=(90, 3)), np.repeat([2, 5, 6], 30)
        model = linear.LogisticRegression().fit(rows + labels[:, None], labels)
        view = see(model)
        assert isinstance(view, BlackBox)
        assert not isinstance(view, WhiteBox)
        found = view.confidences(rows)
        assert found.shape == (90, 7)
        np.testing.assert_allclose(found[:, [2, 5, 6]], model.predict_proba(rows))
        assert (found[:, [0, 1, 3, 4]] == 0).all()
        # A class that the model never saw has confidence 0: the lowest of scores, and no NaN.
        never = Loss().score(view, Records(rows[:2], np.array([0, 5])))
        assert np.isfinite(never).all()
        assert never[0] < never[1]

    def test_names_as_classes_stay_columns(self):
        class Named:
            classes_ = np.array(["no", "yes"])

            def predict_proba(self, rows):
                return np.tile([0.25, 0.75], (len(rows), 1))

        assert see(Named()).labels(np.zeros((3, 1))).tolist() == [1, 1, 1]

    @pytest.mark.parametrize("only", [0, 3])
    def test_a_model_that_knows_one_class_is_sure_of_it(self, only):
        trees = pytest.importorskip("sklearn.tree")
        rows = RNG.normal(size=(9, 2))
        view = see(trees.DecisionTreeClassifier().fit(rows, np.full(9, only)))
        assert view.labels(rows).tolist() == [only] * 9
        assert view.confidences(rows)[:, only].tolist() == [1.0] * 9

    def test_classes_that_are_whole_but_floats_are_placed(self):
        class Floats:
            classes_ = np.array([1.0, 4.0])

            def predict_proba(self, rows):
                return np.tile([0.25, 0.75], (len(rows), 1))

        assert see(Floats()).confidences(np.zeros((1, 1))).tolist() == [[0, 0.25, 0, 0, 0.75]]

    def test_columns_that_are_not_named_are_refused(self):
        with pytest.raises(InvalidArgument, match="one class for each column"):
            Probabilities(lambda rows: np.full((len(rows), 3), 1 / 3), classes=(1, 2)).labels(ROWS)

    def test_words_that_are_predicted_are_places_among_the_classes(self):
        class Blunt:
            classes_ = np.array(["no", "yes"])

            def predict(self, rows):
                return np.where(rows[:, 0] > 0, "yes", "no")

        assert see(Blunt()).labels(np.array([[1.0], [-1.0]])).tolist() == [1, 0]

    def test_confidences_are_no_predictions(self):
        with pytest.raises(InvalidArgument, match="wrap it in Probabilities"):
            Predictions(lambda rows: np.full((len(rows), 3), 1 / 3)).labels(ROWS)
        assert Predictions(lambda rows: np.full(len(rows), 2.0)).labels(ROWS).tolist() == [2] * len(ROWS)

    def test_what_was_fitted_on_a_frame_is_asked_with_one(self):
        pandas, compose = pytest.importorskip("pandas"), pytest.importorskip("sklearn.compose")
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder

        frame = pandas.DataFrame({"age": RNG.normal(size=60), "town": RNG.choice(["a", "b", "c"], 60)})
        marks = (frame["town"] == "b").astype(int)
        columns = compose.ColumnTransformer([("one", OneHotEncoder(), ["town"])], remainder="passthrough")
        model = make_pipeline(columns, LogisticRegression()).fit(frame, marks)
        np.testing.assert_allclose(
            see(model).confidences(Records(frame).inputs), model.predict_proba(frame), rtol=1e-12
        )

    def test_predict_alone_shows_labels_alone(self):
        class Blunt:
            def predict(self, rows):
                return (rows[:, 0] > 0).astype(int)

        view = see(Blunt())
        assert isinstance(view, Predictions)
        assert not isinstance(view, BlackBox)
        assert view.labels(np.array([[1.0], [-1.0]])).tolist() == [1, 0]


class TestFunctions:
    def test_a_bare_function_is_refused(self):
        with pytest.raises(InvalidArgument, match=r"Probabilities\(f\) or Logits\(f\)"):
            see(lambda rows: rows)

    def test_other_things_are_refused(self):
        with pytest.raises(InvalidArgument, match="got int"):
            see(3)

    def test_a_view_is_itself(self):
        view = Logits(lambda rows: rows)
        assert see(view) is view

    def test_logits_declared_as_probabilities_are_refused(self):
        with pytest.raises(InvalidArgument, match="Wrap it in Logits"):
            Probabilities(lambda rows: rows).log_confidences(np.array([[3.0, -1.0]]))

    def test_probabilities_declared_as_logits_are_refused(self):
        with pytest.raises(InvalidArgument, match="Probabilities"):
            Logits(lambda rows: rows).log_confidences(np.array([[0.75, 0.25], [0.5, 0.5]]))

    def test_rows_that_are_lost_are_refused(self):
        with pytest.raises(InvalidArgument, match="for 3 rows"):
            Probabilities(lambda rows: np.array([[0.5, 0.5]])).log_confidences(np.zeros((3, 1)))

    def test_nan_is_refused(self):
        for wrap in (Probabilities, Logits):
            with pytest.raises(InvalidArgument, match="NaN"):
                wrap(lambda rows: np.full((len(rows), 2), np.nan)).log_confidences(np.zeros((3, 1)))

    def test_one_column(self):
        rows = np.array([[0.2], [0.9]])
        np.testing.assert_allclose(
            Probabilities(lambda r: r[:, 0]).confidences(rows), [[0.8, 0.2], [0.1, 0.9]]
        )
        np.testing.assert_allclose(
            Logits(lambda r: r[:, 0]).confidences(rows)[:, 1], 1 / (1 + np.exp(-rows[:, 0]))
        )

    def test_certainty_is_finite_in_phi(self):
        view = Probabilities(lambda r: np.array([[1.0, 0.0]] * len(r)))
        assert Loss().score(view, Records(np.zeros((2, 1)), np.array([0, 1]))).tolist() == pytest.approx(
            [0.0, -745.0]
        )

    def test_batches(self):
        asked = []

        def ask(rows):
            asked.append(len(rows))
            return np.tile([0.5, 0.5], (len(rows), 1))

        Probabilities(ask, batch=4).log_confidences(np.zeros((10, 1)))
        assert asked == [4, 4, 2]
        assert [len(p) for p in batches(np.zeros(5), 2)] == [2, 2, 1]

    def test_labels_beyond_the_classes_are_refused(self):
        view = Probabilities(lambda r: np.tile([0.5, 0.5], (len(r), 1)))
        with pytest.raises(InvalidArgument, match="2 classes"):
            Loss().score(view, Records(np.zeros((2, 1)), np.array([0, 2])))

    @pytest.mark.parametrize(
        "labels", [["a", "b"], [0.5, 1.0], [0.0, np.inf], [np.nan, 1.0], [-1, 1], [None, 1]]
    )
    def test_labels_that_are_no_numbers_of_classes_are_refused(self, labels):
        with pytest.raises(InvalidArgument, match="Number the classes"):
            Records(np.zeros((2, 1)), np.array(labels))

    @pytest.mark.parametrize("kind", [bool, float, object, np.uint8])
    def test_labels_of_any_kind_that_are_numbers_of_classes(self, kind):
        labels = Records(np.zeros((2, 1)), np.array([1, 0], dtype=kind)).labels
        assert labels.dtype == np.int64
        assert labels.tolist() == [1, 0]

    def test_what_numpy_cannot_read_is_refused(self):
        tensor = torch.ones(2, requires_grad=True)
        for wrong in (
            lambda: Records([[1, 2], [3]]),
            lambda: Records(tensor),
            lambda: Scores(tensor, [1, 0]),
        ):
            with pytest.raises(InvalidArgument, match="numpy cannot read"):
                wrong()
        with pytest.raises(InvalidArgument, match="must be numbers"):
            Scores(["a", "b"], [True, False])

    @pytest.mark.parametrize("coins", [[0, 2], ["False", "True"], [0.5, 1.0]])
    def test_a_coin_has_two_sides(self, coins):
        with pytest.raises(InvalidArgument, match="True or False"):
            Challenge(Records(np.zeros((2, 1))), np.array(coins))

    def test_labels_that_are_missing_are_refused(self):
        view = Probabilities(lambda r: np.tile([0.5, 0.5], (len(r), 1)))
        with pytest.raises(InvalidArgument, match="does not need it"):
            Loss().score(view, Records(np.zeros((2, 1))))


def test_importing_attacks_loads_neither_torch_nor_scikit_learn_nor_other_verbs():
    code = (
        "import sys, privet.attacks; "
        "bad = [m for m in ('torch', 'sklearn', 'privet.training', 'privet.auditing', 'privet.accounting') "
        "if m in sys.modules]; sys.exit(repr(bad) if bad else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
