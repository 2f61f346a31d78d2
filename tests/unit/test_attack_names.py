"""Every attack of the library has a name, and each name runs, or is refused with what is missing."""

import numpy as np
import pytest

import privet.attacks
from privet.attacks import Attack, Predictions, Probabilities
from privet.attacks.membership.registry import ATTACKS, REFERENCES, SHADOWS, Means, find_attacks
from privet.attacks.shadows import CallableRecipe, ScikitRecipe, study
from privet.errors import InvalidArgument
from privet.pipeline import audit
from privet.scores import Records

CLASSES = {
    thing
    for thing in vars(privet.attacks).values()
    if isinstance(thing, type) and issubclass(thing, Attack) and thing is not Attack
}
ROWS = np.random.default_rng(0).normal(size=(120, 1, 4, 4)).astype(np.float32)
LABELS = (ROWS[:, 0, 0, 0] > 0).astype(int)
MEMBERS, OTHERS = (ROWS[:40], LABELS[:40]), (ROWS[40:80], LABELS[40:80])
PUBLIC = (ROWS[80:], LABELS[80:])


def _recipe():
    nn = pytest.importorskip("torch").nn
    from privet.attacks.shadows import TorchRecipe

    return TorchRecipe(
        model=lambda: nn.Sequential(nn.Conv2d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2)),
        epochs=3,
        batch_size=20,
    )


def test_every_attack_has_one_name():
    assert {one.kind for one in ATTACKS.values()} == CLASSES
    assert len(ATTACKS) == len(CLASSES) == 23


def test_attacks_that_compare_with_other_models_are_calibrated():
    needs = {name: attack.needs for name, attack in ATTACKS.items()}
    models = {name for name in needs if REFERENCES in needs[name] or SHADOWS in needs[name]}
    assert {name for name, attack in ATTACKS.items() if attack.kind.is_calibrated} == models | {"quantile"}


def test_the_help_of_the_command_line_lists_them():
    from privet.cli.options_models import _ATTACKS

    assert tuple(ATTACKS) == _ATTACKS


def test_every_name_runs_and_is_the_attack_that_it_says():
    recipe = _recipe()
    found = audit(
        recipe.fit(*MEMBERS, 0),
        MEMBERS,
        OTHERS,
        recipe=recipe,
        references=4,
        attacks=list(ATTACKS),
        public=PUBLIC,
        progress=False,
    ).audits[0]
    assert [result.name for result in found.results] == [one.kind.name for one in ATTACKS.values()]
    assert found.reference_models.used == 4


def test_more_nonmembers_than_members_are_public_records():
    recipe = _recipe()
    many = (ROWS[40:], LABELS[40:])
    found = audit(recipe.fit(*MEMBERS, 0), MEMBERS, many, attacks="gradient-alignment").audits[0]
    assert found.results[0].leakage.roc.others == 40


@pytest.mark.parametrize(
    ("names", "change", "said"),
    [
        (["loss"], {"labels": None}, "loss, which needs the true label"),
        (["entropy"], {"view": Predictions(lambda rows: np.zeros(len(rows)))}, "shows confidences"),
        (["gradient-norm"], {}, "the parameters of the model"),
        (["augmentations"], {"inputs": ROWS.reshape(120, -1)}, "records that are images"),
        (["noise"], {"inputs": np.full((120, 2), "a")}, "records of numbers"),
        (["loss", "lira"], {}, "lira, which needs reference models"),
        (
            ["shokri"],
            {"references": True},
            "confidences of reference models in all classes.*keep_confidences",
        ),
        (["quantile"], {}, "public records.*public="),
    ],
)
def test_what_is_missing_is_named(names, change, said):
    view = change.pop("view", Probabilities(lambda rows: np.full((len(rows), 2), 0.5)))
    records = Records(change.pop("inputs", ROWS), change.pop("labels", LABELS))
    with pytest.raises(InvalidArgument, match=said):
        find_attacks(names, Means(view=view, records=records, **change))


def test_nothing_is_trained_for_a_request_that_is_refused():
    def train(rows, labels, seed):
        raise AssertionError("trained")

    view = Probabilities(lambda rows: np.full((len(rows), 2), 0.5))
    with pytest.raises(InvalidArgument, match="gradient-norm"):
        audit(view, MEMBERS, OTHERS, recipe=CallableRecipe(train), attacks=["lira", "gradient-norm"])


def test_shadows_without_parameters_are_refused():
    from sklearn.linear_model import LogisticRegression

    flat = ROWS.reshape(120, -1)
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidArgument, match="Give a TorchRecipe"):
        audit(
            torch.nn.Linear(16, 2),
            (flat[:40], LABELS[:40]),
            (flat[40:80], LABELS[40:80]),
            recipe=ScikitRecipe(LogisticRegression()),
            attacks="layer-classifier",
        )


def test_public_records_that_are_judged_are_refused():
    view = Probabilities(lambda rows: np.full((len(rows), 2), 0.5))
    with pytest.raises(InvalidArgument, match=r"'public' must hold other records.*and 5 of 45"):
        audit(view, MEMBERS, OTHERS, public=(ROWS[75:], LABELS[75:]))


def test_ready_references_without_all_confidences_are_refused_for_shokri():
    from sklearn.linear_model import LogisticRegression

    flat = ROWS.reshape(120, -1)
    recipe = ScikitRecipe(LogisticRegression())
    ready = study(recipe, Records(flat[:80], LABELS[:80]), 2, seed=0, progress=False)
    model = recipe.fit(flat[:40], LABELS[:40], 0)
    with pytest.raises(InvalidArgument, match="shokri, which needs"):
        audit(
            model, (flat[:40], LABELS[:40]), (flat[40:80], LABELS[40:80]), references=ready, attacks="shokri"
        )
