import json
import math

import pytest
from hypothesis import given

from privet.accounting import account
from privet.adjacency import AddRemove
from privet.documents import event_from_json, event_to_json
from privet.errors import PrivetError, Unreadable
from privet.events import BandedNoise, Compose, Gaussian, Repeat
from privet.testing.strategies import trees


def document(event, **changes):
    return json.dumps({"format": "privet-event", "version": 1, "event": event} | changes)


_GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}


@given(trees)
def test_every_event_reads_back_as_itself(event):
    assert event_from_json(event_to_json(event)) == event


def test_numbers_read_back_to_the_bit():
    for value in (0.1, 1 / 3, 5e-324, 1.7976931348623157e308, math.nextafter(1.0, 2.0)):
        assert event_from_json(event_to_json(Gaussian(value))).noise_multiplier == value


def test_tuples_stay_tuples():
    event = BandedNoise(1.0, (1.0, 0.5), 4)
    assert event_from_json(event_to_json(event)) == event


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (document({"kind": "quantum"}), "'kind' must be one of"),
        (document({"kind": 3}), "an object with a 'kind'"),
        (document([_GAUSSIAN]), "an object with a 'kind'"),
        (document(None), "an object with a 'kind'"),
        (document(_GAUSSIAN, version=2), "'version' must be 1"),
        (document(_GAUSSIAN, version=None), "'version' must be 1"),
        (document(_GAUSSIAN, format="privet-ledger"), "the format 'privet-event'"),
        (document(_GAUSSIAN | {"clip": 1.0}), "got also clip"),
        (document({"kind": "gaussian"}), "needs the fields noise_multiplier"),
        (document({"kind": "gaussian", "noise_multiplier": math.nan}), "must be finite"),
        (document({"kind": "gaussian", "noise_multiplier": math.inf}), "must be finite"),
        (document({"kind": "gaussian", "noise_multiplier": "1.0"}), "must be a real number"),
        (document({"kind": "gaussian", "noise_multiplier": True}), "must be a real number"),
        (document({"kind": "repeat", "inner": _GAUSSIAN, "times": 2.0}), "must be a whole number"),
        (document({"kind": "repeat", "inner": 3, "times": 2}), "must be an event"),
        (document({"kind": "compose", "parts": [[_GAUSSIAN]]}), "must be an event"),
        (document(_GAUSSIAN).replace("1.0", "1e999"), "must be finite"),
        ("{", "must be JSON"),
        ("[]", "the format 'privet-event'"),
        ("", "must be JSON"),
    ],
)
def test_what_is_not_a_document_is_refused(text, complaint):
    with pytest.raises(PrivetError, match=complaint) as caught:
        event_from_json(text)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("depth", [50, 200, 400, 900, 100_000])
def test_deep_nesting_is_read_or_refused(depth):
    opening, closing = '{"kind": "repeat", "times": 1, "inner": ', "}"
    inner = opening * depth + json.dumps(_GAUSSIAN) + closing * depth
    text = f'{{"format": "privet-event", "version": 1, "event": {inner}}}'
    try:
        event = event_from_json(text)
    except Unreadable:
        assert depth > 100
        return
    assert account(event, adjacency=AddRemove()).epsilon(delta=1e-5) > 0


def test_huge_whole_numbers_are_refused():
    text = document({"kind": "gaussian", "noise_multiplier": 1}).replace('": 1}', '": 1' + "0" * 400 + "}")
    with pytest.raises(PrivetError):
        event_from_json(text)


def test_nothing_is_an_event():
    nothing = event_from_json(event_to_json(Compose(())))
    assert account(nothing, adjacency=AddRemove()).epsilon(delta=0.0) == 0


def test_the_wire_format_is_pinned():
    """A change here changes what stored documents mean: raise the version instead."""
    assert json.loads(event_to_json(Repeat(Gaussian(1.5), 3))) == {
        "format": "privet-event",
        "version": 1,
        "event": {"kind": "repeat", "inner": {"kind": "gaussian", "noise_multiplier": 1.5}, "times": 3},
    }
