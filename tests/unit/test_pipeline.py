"""The pipeline: records as people have them, attacks fixed beforehand, both bounds, one verdict."""

import numpy as np
import pytest
from scipy.stats import binom

import privet
from privet.attacks import Loss, Predictions, Probabilities
from privet.attacks.membership.registry import Knowledge, Means
from privet.attacks.shadows import CallableRecipe
from privet.errors import InvalidArgument
from privet.events import Opaque
from privet.pipeline import TimeLimit, audit, audit_scores
from privet.pipeline.choosing import choose_attacks
from privet.pipeline.records import draw_challenge, read_records
from privet.pipeline.time_limit import train_references
from privet.reporting import Standing
from privet.scores import Records, References

ROWS = np.random.default_rng(0).normal(size=(600, 4))
LABELS = (ROWS[:, 0] > 0).astype(int)


class Remembers:
    """A model that is sure of whatever it was fitted on, and guesses otherwise."""

    def fit(self, rows, labels):
        self.seen = {row.tobytes() for row in np.asarray(rows)}
        self.label = dict(zip((row.tobytes() for row in np.asarray(rows)), labels, strict=True))
        return self

    def predict_proba(self, rows):
        answer = np.full((len(rows), 2), 0.5)
        for place, row in enumerate(np.asarray(rows)):
            if row.tobytes() in self.seen:
                answer[place] = 0.01
                answer[place, self.label[row.tobytes()]] = 0.99
        return answer


def _sides():
    return (ROWS[:300], LABELS[:300]), (ROWS[300:], LABELS[300:])


def _ledger(epsilon):
    return privet.Ledger(privet.AddRemove()).spend("training", Opaque(epsilon=epsilon))


def test_a_model_that_remembers_leaks():
    members, others = _sides()
    report = audit(Remembers().fit(*members), members, others, name="parrot")
    (audited,) = report.audits
    assert audited.standing is Standing.LEAKS
    assert audited.strongest.leakage.auc.value == 1.0
    ceiling = audited.strongest.finding.ceiling
    assert 0.8 * ceiling < audited.epsilon_measured <= ceiling
    assert audited.epsilon_proved is None
    assert (audited.train_accuracy, audited.test_accuracy) == (1.0, pytest.approx(0.5, abs=0.1))
    assert report.verdict.startswith("parrot leaks")


def test_a_claim_below_what_is_measured_is_broken():
    members, others = _sides()
    model = Remembers().fit(*members)
    broken = audit(model, members, others, ledger=_ledger(1.0))
    assert broken.audits[0].standing is Standing.BROKEN
    assert "breaks its claim" in broken.verdict
    within = audit(model, members, others, ledger=_ledger(20.0))
    assert within.audits[0].standing is Standing.LEAKS_WITHIN


def test_a_model_that_knows_nothing_is_not_called_private():
    members, others = _sides()
    report = audit(Probabilities(lambda rows: np.full((len(rows), 2), 0.5)), members, others)
    assert report.audits[0].standing is Standing.NOT_DETECTED
    assert "not detected at this power" in report.verdict
    assert "nothing is proved" in report.verdict
    proved = audit(
        Probabilities(lambda rows: np.full((len(rows), 2), 0.5)), members, others, ledger=_ledger(1.0)
    )
    assert proved.audits[0].standing is Standing.NOT_DETECTED_PROVED


def test_false_alarms_are_those_that_are_stated():
    # 100 reports on scores without leakage: each alarms with probability at most 5 %; this test fails in 1 of 10⁶ fair worlds
    generator = np.random.default_rng(5)
    alarms = sum(
        audit_scores(generator.normal(size=200), generator.normal(size=200)).audits[0].detected
        for _ in range(100)
    )
    assert alarms <= binom(100, 0.05).ppf(1 - 1e-6)


def test_an_interval_that_excludes_chance_is_a_detection():
    """600 on each side, AUC about 0.59: no ε above 0 is shown, and members are told from others all the same."""
    generator = np.random.default_rng(11)
    audited = audit_scores(generator.normal(0.32, 1, 600), generator.normal(0, 1, 600)).audits[0]
    (result,) = audited.results
    assert result.finding.measured.value == 0
    assert result.leakage.auc.lower > 0.5
    assert audited.detected
    assert audited.standing is Standing.LEAKS


def test_the_level_is_shared_out_over_the_attacks():
    members, others = _sides()
    model = Remembers().fit(*members)
    one = audit(model, members, others, attacks=["loss"]).audits[0]
    four = audit(model, members, others, attacks=["loss", "entropy", "modified-entropy", "gap"]).audits[0]
    # half of the failure is for the bounds on ε, the rest for the intervals beside them
    assert one.results[0].finding.measured.confidence == pytest.approx(0.975)
    assert [r.finding.measured.confidence for r in four.results] == pytest.approx([0.99375] * 4)
    assert (one.confidence, four.confidence) == pytest.approx((0.95, 0.95))


def test_members_at_risk_are_named_by_their_places():
    # only members 250 … 299 are remembered; more members than others are given, so places and draws differ
    members, others = (ROWS[:300], LABELS[:300]), (ROWS[300:], LABELS[300:])
    model = Remembers().fit(ROWS[250:300], LABELS[250:300])
    harm = audit(model, members, others).audits[0].harm
    assert {int(name) for name in harm.names[:50]} == set(range(250, 300))


@pytest.mark.parametrize("attacks", [["loss", "gap"], ["gap", "loss"]])
def test_who_is_hurt_is_told_by_the_attack_that_is_named_last(attacks):
    """The strongest by what it knows comes last, whatever the attacks found."""
    members, others = _sides()
    found = audit(Remembers().fit(*members), members, others, attacks=attacks).audits[0]
    assert found.harm.attack == found.results[-1].scores.attack != found.results[0].scores.attack


def test_sides_are_as_many_and_in_an_order_that_tells_nothing():
    asked = draw_challenge(Records(ROWS[:400], LABELS[:400]), Records(ROWS[400:], LABELS[400:]), seed=3)
    coin = asked.challenge.members
    assert coin.sum() == 200 == (~coin).sum()
    assert 60 < coin[:200].sum() < 140  # 20 standard deviations from sorted
    given = np.where(coin[:, None], ROWS[asked.positions], ROWS[400:][asked.positions % 200])
    assert np.array_equal(given, asked.challenge.records.inputs)


def test_sides_of_another_shape_are_refused():
    with pytest.raises(InvalidArgument, match="rows of one shape"):
        audit(Probabilities(lambda rows: rows), (ROWS, LABELS), (ROWS[:, :2], LABELS))


@pytest.mark.parametrize(
    "form", ["arrays", "records", "lists", "tensors", "tensor dataset", "dataset", "loose"]
)
def test_records_as_people_have_them(form):
    torch = pytest.importorskip("torch")
    rows, labels = torch.tensor(ROWS[:20]), torch.tensor(LABELS[:20])
    given = {
        "arrays": (ROWS[:20], LABELS[:20]),
        "records": Records(ROWS[:20], LABELS[:20]),
        "lists": [ROWS[:20].tolist(), LABELS[:20].tolist()],
        "tensors": (rows.requires_grad_(), labels),
        "tensor dataset": torch.utils.data.TensorDataset(rows.detach(), labels),
        "dataset": [(row.detach(), int(label)) for row, label in zip(rows, labels, strict=True)],
        "loose": ROWS[:20],
    }[form]
    found = read_records("members", given)
    assert np.allclose(found.inputs, ROWS[:20])
    if form != "loose":
        assert np.array_equal(found.known_labels, LABELS[:20])


@pytest.mark.parametrize("given", [None, 3, "train.npz", [], [(1, 2, 3)]])
def test_what_is_no_set_of_records_is_refused(given):
    with pytest.raises(InvalidArgument, match="'members'"):
        read_records("members", given)


def test_attacks_fit_what_is_there():
    records, blind = Records(ROWS, LABELS), Records(ROWS)
    view = Probabilities(lambda rows: rows)
    references = References(np.zeros((2, 1, 600)), np.arange(1200).reshape(2, 600) % 2 == 0)

    def names(view, records, references):
        means = Means(view=view, records=records, references=references is not None)
        made = choose_attacks(None, means).build(Knowledge(records=records, references=references))
        return [attack.name for attack in made]

    assert names(view, records, None) == ["loss", "modified entropy"]
    assert names(view, blind, None) == ["entropy"]
    assert names(Predictions(lambda rows: rows), records, None) == ["gap"]
    assert names(view, records, references) == ["loss", "RMIA + BaVarIA"]
    for wrong in (["lira"], ["nonsense"], [], ["loss", "loss"]):
        with pytest.raises(InvalidArgument, match="'attacks'"):
            choose_attacks(wrong, Means(view=view, records=records))


def test_own_attacks_run_beside_named_ones():
    members, others = _sides()
    found = audit(Remembers().fit(*members), members, others, attacks=[Loss(), "entropy"]).audits[0]
    assert [result.name for result in found.results] == ["loss", "entropy"]
    with pytest.raises(InvalidArgument, match="'attacks'"):
        audit(Remembers().fit(*members), members, others, attacks=[3])


def test_references_stop_where_the_time_ends():
    import time

    def slow(rows, labels, seed):
        time.sleep(0.1)
        return Remembers().fit(rows, labels)

    records = draw_challenge(Records(ROWS[:20], LABELS[:20]), Records(ROWS[20:40], LABELS[20:40]), seed=0)
    recipe = CallableRecipe(slow, version="1")
    short = train_references(recipe, records, 64, TimeLimit(1.5), seed=0, cache=None, progress=False)
    assert 2 <= short.references.models < 20
    whole = train_references(recipe, records, 4, None, seed=0, cache=None, progress=False)
    assert whole.references.models == 4


def test_a_budget_finds_what_was_kept(tmp_path):
    records = draw_challenge(Records(ROWS[:20], LABELS[:20]), Records(ROWS[20:40], LABELS[20:40]), seed=0)
    recipe = CallableRecipe(lambda rows, labels, seed: Remembers().fit(rows, labels), version="1")
    train_references(recipe, records, 8, None, seed=0, cache=tmp_path, progress=False)
    again = train_references(recipe, records, 8, TimeLimit(60), seed=0, cache=tmp_path, progress=False)
    assert again.references.models == 8
    assert again.trained == 0


def test_scores_of_ones_own():
    report = audit_scores([3.0, 4.0, 5.0], [0.0, 1.0, 2.0])
    assert report.audits[0].results[0].leakage.auc.value == 1.0
    for wrong in ("text", [], [[1.0], [2.0]], [float("nan")]):
        with pytest.raises(InvalidArgument):
            audit_scores(wrong, [0.0, 1.0])


@pytest.mark.parametrize("names", [np.array(["blue", "red"]), np.array([-1, 1])], ids=["words", "signs"])
def test_labels_may_be_the_names_that_the_model_has(names):
    class Named(Remembers):
        classes_ = names

    (rows, labels), (others, marks) = _sides()
    model = Named().fit(rows, labels)
    found = audit(model, (rows, names[labels]), (others, names[marks])).audits[0]
    assert found.train_accuracy == 1.0
    assert found.results[0].leakage.auc.value == 1.0
    with pytest.raises(InvalidArgument, match="among the model's classes"):
        audit(model, (rows, np.full(300, names[:1].astype(object) * 2)), (others, names[marks]))
    if names.dtype.kind == "U":  # places among words are no other words
        assert audit(model, (rows, labels), (others, marks)).audits[0].train_accuracy == 1.0


def test_half_precision_that_numpy_does_not_have():
    torch = pytest.importorskip("torch")
    rows = torch.tensor([[1.5, 2.0]], dtype=torch.bfloat16)
    assert read_records("members", (rows, torch.tensor([1]))).inputs.tolist() == [[1.5, 2.0]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({1, 2}, "got a set"),
        ({"rows": ROWS, "label": LABELS, "y": LABELS}, "one column of labels"),
        ([(ROWS[0], "red")], "Number the classes"),
        ([(ROWS[0], LABELS[:2])], "one label for each"),
        ([[1.0, 2.0], [3.0], [4.0], [5.0]], "rows of one shape"),
    ],
)
def test_what_are_no_records_is_refused(data, said):
    with pytest.raises(InvalidArgument, match=said):
        read_records("members", data)


def test_sides_of_different_size_raise_no_alarm():
    # 590 and 410 that nobody tossed a coin for: "the highest quarter are members" is right in 59 % of cases by itself
    generator = np.random.default_rng(5)
    alarms = sum(
        audit_scores(generator.normal(size=590), generator.normal(size=410)).audits[0].detected
        for _ in range(60)
    )
    assert alarms <= binom(60, 0.05).ppf(1 - 1e-4)


def test_sides_that_no_fair_coins_give_are_evened_out():
    generator = np.random.default_rng(1)
    report = audit_scores(generator.normal(size=2000) + 3, generator.normal(size=100))
    assert report.audits[0].epsilon_measured > 1
    assert report.audits[0].results[0].leakage.roc.members == 2000


@pytest.mark.parametrize("attack", ["loss", Loss()], ids=["name", "attack"])
def test_one_attack_need_not_be_a_list(attack):
    members, others = _sides()
    found = audit(Remembers().fit(*members), members, others, attacks=attack).audits[0]
    assert [result.leakage.attack for result in found.results] == ["loss"]


def test_references_without_a_recipe_are_refused():
    members, others = _sides()
    with pytest.raises(InvalidArgument, match="'references' must go with a recipe"):
        audit(Remembers().fit(*members), members, others, references=4)


def test_missing_labels_are_told():
    members, others = _sides()
    for given in ((members[0], others[0]), ((members[0], None), (others[0], None))):
        found = audit(Remembers().fit(*members), *given).audits[0]
        assert "labels are given" in [check.name for check in found.warnings]
    assert "labels are given" not in [
        check.name for check in audit(Remembers().fit(*members), members, others).audits[0].checks
    ]


def test_few_scores_are_warned_of():
    assert audit_scores([1.0, 2.0], np.arange(2000.0)).audits[0].warnings
