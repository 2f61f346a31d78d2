"""Binary models with one output are models of two classes, whether it is a logit or a probability: views, recipes, engines, audits."""

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from privet.attacks import Logits, Outputs, Probabilities, see  # noqa: E402
from privet.attacks.shadows import ScikitRecipe, Sequential, Stacked, TorchRecipe, study  # noqa: E402
from privet.attacks.torch_outputs import last_layer_gives, last_operation_gives  # noqa: E402
from privet.cli import main  # noqa: E402
from privet.errors import InvalidArgument  # noqa: E402
from privet.pipeline import audit  # noqa: E402
from privet.scores import Records  # noqa: E402

GENERATOR = np.random.default_rng(0)
ROWS = GENERATOR.normal(size=(200, 5)).astype(np.float32)
LABELS = (ROWS @ GENERATOR.normal(size=5) > 0).astype(int)
MEMBERS, OTHERS = (ROWS[:100], LABELS[:100]), (ROWS[100:], LABELS[100:])


class Last(nn.Module):
    """A step of the module's own code, which no layer tells of."""

    def __init__(self, inner, step):
        super().__init__()
        self.inner, self.step = inner, step

    def forward(self, x):
        return self.step(self.inner(x))


def by_hand(z):
    """A sigmoid that no layer and no operation tells of."""
    return 1 / (1 + torch.exp(-z))


def body():
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))


FORMS = {
    "logits": (body, None),
    "logits, flat": (lambda: nn.Sequential(body(), nn.Flatten(0)), None),
    "logits, squeezed": (lambda: Last(body(), lambda z: z.squeeze()), None),
    "sigmoid layer": (lambda: nn.Sequential(*body(), nn.Sigmoid()), None),
    "sigmoid layer, nested and flat": (
        lambda: nn.Sequential(nn.Sequential(body(), nn.Sigmoid()), nn.Flatten(0)),
        None,
    ),
    "sigmoid, found in the graph": (lambda: Last(body(), torch.sigmoid), None),
    "sigmoid, squeezed, found in the graph": (lambda: Last(body(), lambda z: z.sigmoid().squeeze()), None),
    "sigmoid, said": (lambda: Last(body(), by_hand), Outputs.PROBABILITIES),
    "sigmoid, squeezed, said": (
        lambda: Last(body(), lambda z: by_hand(z).squeeze(1)),
        Outputs.PROBABILITIES,
    ),
}


def recipe(form, **more):
    model, gives = FORMS[form]
    return TorchRecipe(model=model, epochs=30, batch_size=25, learning_rate=0.3, gives=gives, **more)


def core(module):
    """The three layers that compute the logit, wherever they are."""
    return nn.Sequential(*[part for part in module.modules() if isinstance(part, nn.Linear | nn.ReLU)])


@pytest.fixture(scope="module")
def plain():
    return recipe("logits").fit(*MEMBERS, 3)


@pytest.mark.parametrize("form", FORMS)
class TestEveryForm:
    def test_is_trained_and_seen_as_the_same_model(self, form, plain):
        """A sigmoid in the module or in the loss: the same first weights, gradients and answers but for rounding."""
        found = recipe(form).fit(*MEMBERS, 3)
        np.testing.assert_allclose(found.confidences(ROWS), plain.confidences(ROWS), atol=2e-3)
        assert (found.labels(ROWS[:100]) == LABELS[:100]).mean() > 0.95

    def test_shows_what_its_logit_shows(self, form):
        module = FORMS[form][0]()
        view, bare = see(module, gives=FORMS[form][1]), see(core(module))
        np.testing.assert_allclose(view.log_confidences(ROWS), bare.log_confidences(ROWS), atol=1e-5)
        np.testing.assert_allclose(view.log_confidences(ROWS[:1]), bare.log_confidences(ROWS[:1]), atol=1e-5)
        np.testing.assert_allclose(
            view.gradient_norms(ROWS[:20], LABELS[:20]),
            bare.gradient_norms(ROWS[:20], LABELS[:20]),
            rtol=1e-3,
        )

    def test_engines_agree(self, form):
        records = Records(ROWS[:60], LABELS[:60])
        arguments = {"seed": 1, "progress": False}
        one = study(recipe(form), records, 4, engine=Sequential(), **arguments)
        many = study(recipe(form), records, 4, engine=Stacked(), **arguments)
        np.testing.assert_allclose(many.signals, one.signals, rtol=2e-2, atol=2e-2)

    def test_is_audited(self, form):
        given = recipe(form)
        view = given.fit(*MEMBERS, 3)
        report = audit(
            view.module, MEMBERS, OTHERS, recipe=given, references=2, gives=given.gives, attacks=["loss", "lira", "gradient-norm"], progress=False
        )  # fmt: skip
        found = report.audits[0]
        assert found.train_accuracy == (view.labels(ROWS[:100]) == LABELS[:100]).mean() > 0.95
        assert found.results[0].leakage.auc.value > 0.5


class TestWhatIsNotSaid:
    def test_one_output_between_0_and_1_is_asked_about(self):
        hidden = Last(body(), by_hand)
        for ask in (lambda: see(hidden).log_confidences(ROWS), lambda: audit(hidden, MEMBERS, OTHERS)):
            with pytest.raises(
                InvalidArgument, match=r"'gives' must be given.*Outputs.PROBABILITIES.*Outputs.LOGITS"
            ):
                ask()

    def test_what_is_said_holds_where_nobody_can_tell(self):
        hidden = Last(body(), by_hand)
        as_logits = see(hidden, gives=Outputs.LOGITS).confidences(ROWS)[:, 1]
        with torch.no_grad():
            said = hidden(torch.tensor(ROWS))[:, 0]
        np.testing.assert_allclose(as_logits, said.sigmoid().numpy(), atol=1e-6)

    def test_few_rows_are_answered(self):
        weak = Last(body(), lambda z: 0.1 * z.tanh() + 0.5)  # logits between 0 and 1
        assert see(weak).log_confidences(ROWS[:3]).shape == (3, 2)

    def test_a_logit_seen_once_settles_it(self):
        view = see(Last(nn.Identity(), lambda x: x[:, :1]))
        inside = ROWS[(ROWS[:, 0] > 0) & (ROWS[:, 0] < 1)]
        with pytest.raises(InvalidArgument, match="'gives' must be given"):
            view.log_confidences(inside)
        view.log_confidences(ROWS)
        assert view.log_confidences(inside).shape == (len(inside), 2)

    def test_a_linear_layer_at_the_end_gives_logits(self):
        module = body()
        with torch.no_grad():
            module[-1].weight.zero_()
            module[-1].bias.fill_(0.5)
        np.testing.assert_allclose(see(module).confidences(ROWS)[:, 1], 1 / (1 + np.exp(-0.5)), atol=1e-6)

    def test_a_contradiction_is_refused(self):
        frozen = Last(body(), torch.sigmoid).requires_grad_(False)
        for module in (nn.Sequential(body(), nn.Sigmoid()), Last(body(), torch.sigmoid), frozen):
            with pytest.raises(InvalidArgument, match="got LOGITS for one output that is a probability"):
                see(module, gives=Outputs.LOGITS).log_confidences(ROWS)
            assert see(module).log_confidences(ROWS).shape == (200, 2)
        with pytest.raises(InvalidArgument, match="numbers below 0 or above 1"):
            see(Last(nn.Identity(), lambda x: x[:, :1]), gives=Outputs.PROBABILITIES).log_confidences(ROWS)

    def test_several_sigmoids_may_be_said_to_be_logits(self):
        """As where they are trained by the cross-entropy of a softmax over them; unsaid, they are no probabilities of classes."""
        several = nn.Sequential(nn.Linear(5, 3), nn.Sigmoid())
        with pytest.raises(InvalidArgument, match=r"sum is off.*Outputs.LOGITS"):
            see(several).log_confidences(ROWS)
        assert see(several, gives=Outputs.LOGITS).log_confidences(ROWS).shape == (200, 3)

    def test_looking_changes_nothing(self):
        """The modes of all parts, running statistics and torch's randomness are as before."""
        module = Last(
            nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1)), torch.sigmoid
        )
        module.inner[1].eval()
        before = {name: value.clone() for name, value in module.state_dict().items()}
        modes, state = [part.training for part in module.modules()], torch.random.get_rng_state()
        assert last_operation_gives(module, torch.tensor(ROWS)) is Outputs.PROBABILITIES
        assert torch.equal(torch.random.get_rng_state(), state)
        assert [part.training for part in module.modules()] == modes
        assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())

    def test_a_layer_that_does_more_is_no_such_layer(self):
        class Sure(nn.Linear):
            def forward(self, x):
                return super().forward(x).sigmoid()

        assert last_layer_gives(Sure(5, 1)) is None
        assert see(Sure(5, 1)).log_confidences(ROWS).shape == (200, 2)
        with pytest.raises(InvalidArgument, match="LOGITS"):
            see(Sure(5, 1), gives=Outputs.LOGITS).log_confidences(ROWS)

    def test_last_layers(self):
        assert last_layer_gives(nn.Sequential(body(), nn.Softmax(1), nn.Dropout())) is Outputs.PROBABILITIES
        assert last_layer_gives(nn.Sequential(body(), nn.LogSoftmax(1))) is Outputs.LOGITS
        assert last_layer_gives(Last(body(), torch.sigmoid)) is None
        assert last_operation_gives(Last(body(), by_hand), torch.tensor(ROWS)) is None
        assert last_layer_gives(nn.Sequential(nn.Linear(2, 2), nn.ReLU())) is None
        with pytest.raises(InvalidArgument, match="LogSigmoid"):
            see(nn.Sequential(body(), nn.LogSigmoid()))

    def test_an_audit_lends_its_word_to_the_recipe(self):
        unsaid = TorchRecipe(model=lambda: Last(body(), by_hand), epochs=30, batch_size=25, learning_rate=0.3)
        said = unsaid.giving(Outputs.PROBABILITIES)
        assert said.gives is Outputs.PROBABILITIES
        assert said.giving(Outputs.LOGITS) is said
        model = said.fit(*MEMBERS, 3).module
        found = audit(
            model, MEMBERS, OTHERS, recipe=unsaid, references=2, gives=Outputs.PROBABILITIES, progress=False
        )
        assert "reference models are as accurate as the target" not in [
            one.name for one in found.audits[0].warnings
        ]

    def test_more_classes_than_two_are_refused(self):
        for engine in (Sequential(), Stacked()):
            with pytest.raises(InvalidArgument, match="0 or 1 for a model with one output, got up to 2"):
                study(
                    recipe("logits"),
                    Records(ROWS, np.arange(200) % 3),
                    2,
                    seed=0,
                    engine=engine,
                    progress=False,
                )


class TestOtherModels:
    def test_functions(self):
        logit = ROWS[:, 0].astype(float)
        sure = 1 / (1 + np.exp(-logit))
        for shape in ((-1,), (-1, 1)):
            one = Logits(lambda rows, shape=shape: logit.reshape(shape)).confidences(ROWS)
            two = Probabilities(lambda rows, shape=shape: sure.reshape(shape)).confidences(ROWS)
            np.testing.assert_allclose(one, np.stack([1 - sure, sure], axis=1))
            np.testing.assert_allclose(two, one)

    @pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
    def test_estimators(self, shape):
        from sklearn.linear_model import LogisticRegression

        class OneColumn(LogisticRegression):
            def predict_proba(self, rows):
                return super().predict_proba(rows)[:, 1].reshape(shape)

        found = ScikitRecipe(OneColumn()).fit(*MEMBERS, 0)
        whole = ScikitRecipe(LogisticRegression()).fit(*MEMBERS, 0)
        np.testing.assert_allclose(found.confidences(ROWS), whole.confidences(ROWS), atol=1e-12)
        assert audit(found, MEMBERS, OTHERS).audits[0].train_accuracy > 0.9

    def test_labels_as_a_column_of_floats(self):
        column = (ROWS[:100], LABELS[:100, None].astype(np.float32))
        module = recipe("logits").fit(*MEMBERS, 3).module
        found = audit(module, column, (ROWS[100:], LABELS[100:, None].astype(np.float32))).audits[0]
        assert found.train_accuracy > 0.95


@pytest.mark.parametrize("gives", [None, "probabilities"])
def test_on_the_command_line(tmp_path, capsys, gives):
    np.savez(tmp_path / "m.npz", x=ROWS[:100], y=LABELS[:100])
    np.savez(tmp_path / "n.npz", x=ROWS[100:], y=LABELS[100:])
    end = "torch.sigmoid(z).squeeze(1)" if gives else "z.squeeze(1)"
    (tmp_path / "net.py").write_text(
        f"import torch\nfrom torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.one, self.two = nn.Linear(5, 16), nn.Linear(16, 1)\n"
        f"    def forward(self, x):\n        z = self.two(self.one(x).relu())\n        return {end}\n"
    )
    said = f'gives = "{gives}"\n' if gives else ""
    (tmp_path / "a.toml").write_text(
        f'model = "net.py:Net"\nmembers = "m.npz"\nnonmembers = "n.npz"\nlabel = "y"\n{said}'
        f"[recipe]\nepochs = 40\nbatch_size = 25\nlearning_rate = 0.3\n"
    )
    words = [
        "audit",
        str(tmp_path / "a.toml"),
        "--references",
        "2",
        "--cache",
        str(tmp_path / "cache"),
        "--json",
    ]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["train_accuracy"] > 0.95
