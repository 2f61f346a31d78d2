import json

import pytest

from privet.accounting import account
from privet.adjacency import AddRemove, ReplaceOne, Unit
from privet.caveats import Caveat
from privet.errors import InvalidArgument, NotProved, Unreadable
from privet.events import Compose, Gaussian, Laplace
from privet.ledger import Entry, Ledger


def kept():
    return (
        Ledger(AddRemove(Unit.USER))
        .spend("a count", Laplace(10.0))
        .spend("a sum", Gaussian(5.0), caveats=frozenset({Caveat.SEEDED_NOISE}))
    )


def test_spending_gives_a_new_ledger_and_leaves_the_old_one():
    before = Ledger(AddRemove())
    after = before.spend("a count", Gaussian(1.0))
    assert len(before) == 0
    assert [entry.label for entry in after] == ["a count"]


def test_a_failing_spend_changes_nothing():
    ledger = kept()
    text = ledger.to_json()
    for broken in (None, "gaussian", 1.0, Gaussian):
        with pytest.raises(InvalidArgument, match=r"'event' must be an Event, got .* Write"):
            ledger.spend("broken", broken)
    assert ledger.to_json() == text


def test_the_event_of_a_ledger_is_all_of_it():
    assert kept().event == Compose((Laplace(10.0), Gaussian(5.0)))


def test_ledgers_add_up():
    first, second = (
        Ledger(AddRemove()).spend("a", Gaussian(2.0)),
        Ledger(AddRemove()).spend("b", Laplace(3.0)),
    )
    both = first + second
    assert [entry.label for entry in both] == ["a", "b"]
    assert account(both).epsilon(delta=1e-5) == account(
        Compose((Gaussian(2.0), Laplace(3.0))), adjacency=AddRemove()
    ).epsilon(delta=1e-5)


def test_caveats_add_up_and_reach_the_guarantee():
    ledger = Ledger(AddRemove(Unit.USER)) + kept()
    assert Caveat.SEEDED_NOISE in ledger.caveats
    assert Caveat.SEEDED_NOISE in account(ledger).caveats


@pytest.mark.parametrize("other", [ReplaceOne(Unit.USER), AddRemove(Unit.RECORD)])
def test_ledgers_of_different_claims_do_not_add_up(other):
    with pytest.raises(InvalidArgument, match=r"one adjacency only, got .* Account"):
        kept() + Ledger(other)


def test_a_ledger_is_not_accounted_under_another_adjacency():
    with pytest.raises(NotProved, match=r"kept under add-remove .* Leave 'adjacency' out"):
        account(kept(), adjacency=ReplaceOne(Unit.USER))


def test_round_trip():
    assert Ledger.from_json(kept().to_json()) == kept()
    assert Ledger.from_json(Ledger(ReplaceOne()).to_json()) == Ledger(ReplaceOne())


@pytest.mark.parametrize(
    "change",
    [
        {"format": "privet-event"},
        {"version": 2},
        {"adjacency": "nobody"},
        {"unit": "household"},
        {"entries": None},
        {"entries": [{"label": "x"}]},
        {"entries": [{"event": {"kind": "gaussian", "noise_multiplier": 1.0}}]},
        {"entries": [3]},
        {"caveats": ["NO_SUCH_CAVEAT"]},
        {"caveats": [[]]},
        {"caveats": "SEEDED_NOISE"},
        {"budget": 3},
    ],
    ids=str,
)
def test_what_is_not_a_ledger_is_refused(change):
    document = json.loads(kept().to_json()) | change
    with pytest.raises(Unreadable):
        Ledger.from_json(json.dumps(document))


@pytest.mark.parametrize("missing", ["format", "version", "adjacency", "unit", "entries"])
def test_a_ledger_needs_all_its_fields(missing):
    document = json.loads(kept().to_json())
    del document[missing]
    with pytest.raises(Unreadable):
        Ledger.from_json(json.dumps(document))


def test_an_entry_with_an_unknown_field_is_refused():
    document = json.loads(kept().to_json())
    document["entries"][0]["note"] = "do not lose me"
    with pytest.raises(Unreadable):
        Ledger.from_json(json.dumps(document))


def test_an_empty_ledger_costs_nothing():
    nothing = account(Ledger(AddRemove()))
    assert nothing.epsilon(delta=0.0) == 0
    assert nothing.delta(epsilon=0.0) == 0


@pytest.mark.parametrize("label", [None, 3, b"count"])
def test_labels_are_text(label):
    with pytest.raises(InvalidArgument, match=r"'label'"):
        Entry(label, Gaussian(1.0))


@pytest.mark.parametrize("adjacency", [None, "add-remove", AddRemove])
def test_a_ledger_needs_an_adjacency(adjacency):
    with pytest.raises(InvalidArgument, match=r"'adjacency'"):
        Ledger(adjacency)
