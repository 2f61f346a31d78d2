"""What the fuzzer found, each as one call."""

import numpy as np
import pytest
from torch import nn

from privet import auditing, events, mechanisms, testing, training
from privet.accounting import Basic
from privet.adjacency import ReplaceOne
from privet.attacks import shadows
from privet.attacks.shadows.progress import ShadowProgress
from privet.errors import InvalidArgument
from privet.randomness import SecureNoise
from privet.releasing.synthetic import Categories, Domain


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
