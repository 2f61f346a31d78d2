"""What the fuzzer found, each as one call."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from privet import auditing, events, mechanisms, testing, training
from privet.accounting import Basic, account
from privet.adjacency import AddRemove, ReplaceOne, ZeroOut
from privet.attacks import shadows, text
from privet.attacks.linkage import Histories
from privet.attacks.shadows.progress import ShadowProgress
from privet.auditing.curves import gaussian_epsilon
from privet.auditing.guesses import GuessResult
from privet.errors import InvalidArgument, NotEnoughMemory
from privet.fingerprints import take_fingerprint
from privet.learning.solver import gaussian_multiplier
from privet.mechanisms.sampling.sources import check_source
from privet.published_columns import PublishedColumn, ValueKind
from privet.published_tables import PublishedTable
from privet.randomness import SecureNoise
from privet.releasing.synthetic import Categories, Domain, all_marginals
from privet.scores import Scores
from privet.training.noise.secure_stream import require_source


class _NoItems:
    """Looks like a list, and fails when it is read."""

    def __iter__(self):
        raise ZeroDivisionError


def _lazy():
    return nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))


def _curve(true_positives, false_positives):
    return auditing.Roc(
        thresholds=np.array([1.0, 0.0]),
        true_positives=np.array(true_positives),
        false_positives=np.array(false_positives),
    )


def _job(**changed):
    fields = {
        "recipe": shadows.CallableRecipe(lambda *_: None),
        "inputs": np.ones((4, 2)),
        "labels": np.array([0, 1, 0, 1]),
        "members": np.ones((1, 4), dtype=bool),
        "seeds": (0,),
        "query_inputs": (np.ones((4, 2)),),
    }
    return shadows.Job(**{**fields, **changed})


REFUSED = {
    "an answer without a lie": lambda: mechanisms.RandomizedResponse.calibrated(
        epsilon=1e6, adjacency=ZeroOut()
    ),
    "marginals of more columns than there are": lambda: all_marginals(
        Domain((Categories("a", (1, 2)),)), 10**12
    ),
    "an event repeated more often than fits": lambda: testing.check_repeat_is_compose(
        Basic(), events.Laplace(1.0), ReplaceOne(), times=10**12
    ),
    "an epsilon that float64 cannot tell from 0": lambda: gaussian_multiplier(5e-324, 1e-6, 1, AddRemove()),
    "bounds of layers that are none": lambda: training.PerLayer.of({"a": None}),
    "bounds that are letters": lambda: training.PerLayer.of(("ab", "cd")),
    "bounds that cannot be read": lambda: training.PerLayer.of(_NoItems()),
    "more random words than fit": lambda: SecureNoise().bits(10**18),
    "a job with one number for inputs": lambda: _job(inputs=np.float16(1)),
    "a curve without others": lambda: _curve([1, 2], [0, 0]),
    "a curve without members": lambda: _curve([0, 0], [1, 2]),
    "an audit of more records than fit": lambda: auditing.OneRun().ceiling(10**15, 10**15, delta=1e-6),
    "merging lazy layers": lambda: training.merge_adapters(_lazy()),
    "adapting lazy layers": lambda: training.LoRA(rank=1).apply_to(_lazy()),
    "days of different lengths": lambda: Histories.of([1, 2], [1, 2], day=[[1], [1, 2]]),
    "people of different lengths": lambda: Histories.of([[1], [1, 2]], [1, 2]),
    "values that are names": lambda: Histories.of([1, 2], [1, 2], value=["a", "b"]),
    "a text for an LSTM": lambda: text.LSTMLanguageModel(4)("a text"),
    "fractions for tokens": lambda: text.LSTMLanguageModel(4)(torch.ones(2, 3)),
    "tokens outside of the vocabulary": lambda: text.LSTMLanguageModel(4)(torch.full((2, 3), 4)),
    "one axis of tokens": lambda: text.TransformerLanguageModel(4)(torch.ones(3, dtype=torch.int64)),
    "more tokens than the context": lambda: text.TransformerLanguageModel(4, context=2)(
        torch.ones(1, 3, dtype=torch.int64)
    ),
    "texts without users": lambda: training.UserLanguageModel(text.LSTMLanguageModel(4))(
        torch.ones(2, 3, dtype=torch.int64)
    ),
    "a recipe that makes a number": lambda: text.TextRecipe(model=lambda: 1.0).description(),
    "text that is none": lambda: PublishedTable(
        (PublishedColumn("a", ValueKind.TEXT, np.array([1.5], dtype=object), np.array([1])),)
    ).recognize(),
    "a column that is a number": lambda: Domain((Categories("a", (1, 2)),)).encode({"a": 3}),
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_is_refused(call):
    with pytest.raises(InvalidArgument):
        call()


def test_what_a_person_said_is_not_repeated():
    response = mechanisms.KaryResponse(("yes", "no"), 0.75, ReplaceOne())
    with pytest.raises(InvalidArgument) as refused:
        response.posterior("said in confidence", prior=[0.5, 0.5])
    assert "confidence" not in str(refused.value)


def test_a_profile_without_numbers_breaks_the_law():
    truth = testing.Truth(events.Laplace(1.0), ReplaceOne(), lambda epsilon: None)
    with pytest.raises(testing.LawBroken):
        testing.check_truth(Basic(), truth)


def test_progress_on_a_stream_that_is_no_terminal():
    with ShadowProgress(2, "", shown=True, stream=object()) as bar:
        bar.tick(1.0)


def test_more_memory_than_there_is():
    """Under a limit, as the machine may have more."""
    code = (
        "import resource, numpy, privet, privet.randomness as r\n"
        "from privet.attacks import shadows\n"
        "from privet.training import TreeNoise\n"
        "resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, resource.RLIM_INFINITY))\n"
        "for call in (lambda: r.SecureNoise().bits(3 * 10**9), lambda: shadows.Halves().members(4, 10**10, 0),\n"
        "             lambda: r.SeededNoise(0).bits(3 * 10**9),\n"
        "             lambda: TreeNoise().stream(10**11, 1.0, r.SecureNoise())):\n"
        "    try:\n"
        "        call()\n"
        "    except privet.errors.NotEnoughMemory as refused:\n"
        "        assert isinstance(refused, MemoryError)\n"
        "        print('refused')\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.split() == ["refused"] * 4, ended.stderr


def test_a_lack_of_memory_in_a_function_of_the_caller_stays_theirs():
    def fails(*_):
        raise MemoryError("mine")

    with pytest.raises(MemoryError, match="mine") as raised:
        shadows.CallableRecipe(fails).fit(np.zeros((2, 2)), np.zeros(2, dtype=int), 0)
    assert not isinstance(raised.value, NotEnoughMemory)


@pytest.mark.parametrize("mu", [1e3, 1e5, 1e8, 1e12, 1e300])
def test_separations_beyond_the_digits_of_float64_show_less(mu):
    """ε grows with μ, so that a smaller μ refutes less and nothing wrong."""
    assert 0.49e6 < gaussian_epsilon(mu, 1e-6) <= mu * (mu / 2 + 6)


def test_audits_of_scores_that_lie_apart():
    values = np.array([0.0, 1.0] * 30 + [1e12, 1e12 + 1] * 30)
    scores = Scores(values, np.arange(120) >= 60)
    assert np.isfinite(auditing.GaussianFit().epsilon(scores, delta=1e-6))


def test_bounds_beyond_int64():
    line = auditing.OneRun()
    assert line.raise_bound(GuessResult(10, 10), 10, 0.05, 1e-6, 2**70) >= 2**70


def test_half_characters_are_hashed():
    assert take_fingerprint("a\ud800", b"", None) != take_fingerprint("a\ud801", b"", None)


def test_a_picture_has_no_more_bins_than_memory():
    event = events.dp_sgd(noise_multiplier=1.0, sampling_rate=0.1, steps=3)
    claim = account(event, adjacency=AddRemove())
    with pytest.raises(InvalidArgument, match="'bins'"):
        claim.privacy_loss(bins=2**63)


@pytest.mark.parametrize("check", [check_source, require_source])
def test_a_wrong_source_is_named_by_its_type(check):
    with pytest.raises(InvalidArgument, match="of type str") as refused:
        check("a secret")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "classes", [({}, {}), ([1], [1, 2]), (["a"], ["b"])], ids=["mappings", "ragged", "lists"]
)
def test_classes_are_names_or_numbers(classes):
    data = np.zeros((4, 2), dtype=np.float32), ["a", "b", "a", "b"]
    with pytest.raises(InvalidArgument, match="'classes'"):
        training.train(nn.Linear(2, 2), data, epsilon=1.0, delta=1e-3, epochs=1, classes=classes)


def test_a_group_of_groups_is_one_group():
    """Nested three times, one question took more than 20 seconds."""
    event = events.dp_sgd(noise_multiplier=1.0, sampling_rate=0.1, steps=10)
    claim = account(event, adjacency=AddRemove())
    nested = claim.group(size=2).group(size=3)
    assert nested.curve == claim.group(size=6).curve
    assert nested.epsilon_bounds(delta=1e-3) == claim.group(size=6).epsilon_bounds(delta=1e-3)


@pytest.mark.parametrize("bound", [auditing.OneRun(), auditing.OneRunFDP()], ids=["one run", "f-DP"])
def test_a_bound_to_raise_is_a_number(bound):
    with pytest.raises(InvalidArgument, match="'least'"):
        bound.raise_bound(GuessResult(10, 10), 10, 0.05, 1e-6, float("nan"))


@pytest.mark.parametrize("classes", [({}, "b"), ([1], [1, 2])], ids=["mappings", "ragged"])
def test_classes_of_estimators_can_be_sorted(classes):
    learning = pytest.importorskip("privet.learning", reason="estimators need scikit-learn")
    estimator = learning.LogisticRegression(1.0, delta=1e-3, classes=classes)
    with pytest.raises(InvalidArgument, match="'classes'"):
        estimator.fit(np.zeros((4, 2)), ["a", "b", "a", "b"])
